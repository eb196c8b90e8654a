"""Programs that take seconds to import what they need, started as often as a test likes.

Each is forked from a process that has imported it and done nothing else. Code that a reader runs is
run on a copy of this process, which has imported all of it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

PATIENCE = 600  # seconds; a hang becomes a failure
FAILED = 3
SERVER = """
import json, os, sys
{imports}
for line in sys.stdin:
    arguments, folder, variables, log = json.loads(line)
    if not (process := os.fork()):
        os.chdir(folder)
        os.environ.update(variables)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in 1, 2:
            os.dup2(os.open(f"{{log}}.{{number}}", os.O_WRONLY | os.O_CREAT), number)
        sys.exit({main}(arguments))
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


def ends(code: str, names: dict, folder: Path | str = ".") -> int:
    """How code ends on a copy of this process: 0, with FAILED an assertion, or another status."""
    if not (child := os.fork()):
        status = 2
        try:
            os.chdir(folder)
            exec(compile(code, "copied", "exec"), names)
            status = 0
        except BaseException as error:
            status = FAILED if isinstance(error, AssertionError) else status
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Program:
    """`main(arguments)`, an expression of what the lines of `imports` name, one run at a time."""

    def __init__(self, imports: str, main: str) -> None:
        self.logs = TemporaryDirectory()
        self.runs = 0
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER.format(imports=imports, main=main)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.late = threading.Timer(PATIENCE, os.killpg, (self.server.pid, signal.SIGKILL))
        self.late.start()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *error: object) -> None:
        self.server.communicate()
        self.late.cancel()
        self.logs.cleanup()

    def start(self, arguments: Sequence[str], folder: Path, **variables: str) -> int:
        """The number of the process that runs in the folder, with these variables set."""
        self.runs += 1
        asked = [list(arguments), str(folder), variables, self._log]
        print(json.dumps(asked), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())

    def wait(self) -> subprocess.CompletedProcess[str]:
        """How the process ended that was started last, and what it said."""
        status = int(self.server.stdout.readline())
        said = [Path(f"{self._log}.{number}").read_text() for number in (1, 2)]
        print(*said)  # for the report of a test that fails
        return subprocess.CompletedProcess([], status, *said)

    def run(self, *asked: object, **variables: str) -> subprocess.CompletedProcess[str]:
        self.start(*asked, **variables)
        return self.wait()

    @property
    def _log(self) -> str:
        return f"{self.logs.name}/{self.runs}"
