"""Build the HTML book out of executed notebooks; warnings are errors, nothing is executed here."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

from headbook import paths
from headbook.publishing.staging import copies, stage
from headbook.types import UserError

# called through this interpreter: a script's first line cannot hold a path with a space
JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
STRICT = ("-W", "-n", "--keep-going", "--all")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build(output: Path | None = None, *, executed: Path | None = None) -> Path:
    """Build the book into `output` (build/book) and return the path of its index.html.

    Raises UserError for a missing executed copy and for any warning of Sphinx.
    """
    output = (output or paths.REPOSITORY / "build" / "book").resolve()
    found = copies(executed or paths.EXECUTED)
    shutil.rmtree(output, ignore_errors=True)  # no page of an earlier build is left in it
    output.mkdir(parents=True)
    source = output / "source"
    stage(source, found)
    log = output / "build.log"
    status = _jupyter_book(source, output, log)
    if status != 0:
        raise UserError(_complaint(log))
    return output / "_build" / "html" / "index.html"


def _jupyter_book(source: Path, output: Path, log: Path) -> int:
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", str(source)]
    command += ["--path-output", str(output), *STRICT]
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process,
        tqdm(desc="book", bar_format="{desc}: {elapsed} {postfix}", disable=None) as bar,
    ):
        for line in process.stdout:
            plain = COLOUR.sub("", line.decode("utf-8"))
            kept.write(plain)
            bar.set_postfix_str(plain.strip()[-60:])
    return process.returncode


def _complaint(log: Path) -> str:
    lines = log.read_text("utf-8").splitlines()
    said = [line for line in lines if "WARNING" in line or "ERROR" in line]
    # an extension's own failure is no warning
    failed = (line for line in lines if "exception: " in line)
    first = said[0] if said else next(failed, "its log says why")
    return f"the book was not built, {len(said)} warnings count as errors, first: {first} ({log})"
