"""Kernels that start loaded: as kernels have always been, but for the time they take to start."""

import gc
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from headbook import paths
from headbook.chapters import chapter
from headbook.publishing import kernels, notebooks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="kernels start loaded on Linux only"),
]

IS_LOADED = "import sys\nloaded = 'torch' in sys.modules\n"
SLEEPS = """import os, pathlib, time
pathlib.Path({file!r}).with_suffix(".partial").write_text(f"{{os.getpid()}} {{os.getppid()}}")
os.rename(pathlib.Path({file!r}).with_suffix(".partial"), {file!r})
time.sleep(600)"""
PATIENCE = 120  # seconds; a busy machine is slow and not broken


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for templates."""
    templates = tmp_path / "note books"
    templates.mkdir()
    monkeypatch.setattr(paths, "NOTEBOOKS", templates)
    monkeypatch.setattr(paths, "EXECUTED", tmp_path / "executed")
    return templates


def write(folder: Path, name: str, *cells: str) -> None:
    parameters = new_code_cell('profile = ""', metadata={"tags": ["parameters"]}, id="parameters")
    code = [new_code_cell(cell, id=f"cell-{place}") for place, cell in enumerate(cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    written = new_notebook(
        cells=[new_markdown_cell("# Title", id="title"), parameters, *code],
        metadata={"kernelspec": kernel},
    )
    nbformat.write(written, folder / f"{name}.ipynb")


def printed(done: notebooks.Executed) -> str:
    assert done.failure is None
    return nbformat.read(done.path, 4).cells[-1].outputs[0].text


def said(folder: Path, code: str) -> str:
    """What the code prints in a kernel."""
    write(folder, "10_page", code)
    (done,) = notebooks.attempt(notebooks.templates(), "smoke", {})
    return printed(done).strip()


def until(true: Callable[[], object]) -> None:
    """Waits for it, and fails when it does not come."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def asleep(folder: Path, tmp_path: Path) -> Callable[[], tuple[int, int]]:
    """A notebook that sleeps; gives the numbers of its kernel and of who started that."""
    file = tmp_path / "numbers"
    write(folder, "10_sleeps", SLEEPS.format(file=str(file)))

    def numbers() -> tuple[int, int]:
        until(file.exists)
        kernel, runner = map(int, file.read_text().split())
        return kernel, runner

    return numbers


def test_a_kernel_is_a_copy_of_a_process_that_is_loaded_and_has_no_threads(folder: Path) -> None:
    threads = """import os, pathlib
parent = lambda number: int(pathlib.Path(f"/proc/{number}/stat").read_text().split()[3])
threads = pathlib.Path(f"/proc/{parent(os.getppid())}/task").glob("*/comm")
print(loaded, os.getsid(0) == os.getpid(), *sorted(t.read_text().strip() for t in threads))"""
    loaded, session, *names = said(folder, IS_LOADED + threads).split()
    assert (loaded, session) == ("True", "True")
    # that of pyarrow's allocator, which is forked with care
    assert [name for name in names if name != "jemalloc_bg_thd"] == ["python"]


def test_the_environment_and_the_folder_are_those_of_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = IS_LOADED + "import os\nprint(loaded, os.environ.get('SET'), os.getcwd())"
    assert said(folder, code) == f"True None {folder}"
    monkeypatch.setenv("SET", "now")
    assert said(folder, code) == f"True now {folder}"


@pytest.mark.parametrize(("name", "value"), [("OMP_NUM_THREADS", "2"), ("PYTHONHASHSEED", "7")])
def test_what_is_read_at_the_start_makes_a_kernel_start_anew(
    name: str, value: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels.processes(paths.variables())
    monkeypatch.setenv(name, value)
    code = IS_LOADED + f"import os\nprint(loaded, os.environ[{name!r}])"
    assert said(folder, code) == f"False {value}"


def test_copies_do_not_share_random_numbers(folder: Path) -> None:
    code = "import random, numpy as np\nprint(np.random.rand(), random.random())"
    once, again = (said(folder, code).split() for _ in range(2))
    assert not set(once) & set(again)


def said_and_shown(executed: Path) -> str:
    """Each stream as a whole, and all else by cell.

    A kernel reads what goes past Python in a thread of its own: in how many pieces it comes, and
    before or after the result of its cell, is as the processor has it.
    """
    streams = {"stdout": "", "stderr": ""}
    shown = []
    for cell in nbformat.read(executed, 4).cells:
        outputs = cell.get("outputs", [])
        for output in outputs:
            if output.output_type == "stream":
                streams[output.name] += output.text
        shown.append([output for output in outputs if output.output_type != "stream"])
    return json.dumps([streams, shown])


PAGE = (
    "import os, sys, subprocess, warnings\nprint('to stdout')\nprint('to stderr', file=sys.stderr)",
    "os.write(1, b'past Python')\nsubprocess.run(['echo', 'of a child'])\nsys.path[0], __name__",
    "import pandas as pd\npd.DataFrame({f'a wide column {n}': [1, 2] for n in range(30)})",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "warnings.warn('beware', stacklevel=1)\nsorted(dir())",
    "def f():\n    return 1 / 0\nf()",
)


def test_what_a_page_prints_shows_and_raises_is_as_in_a_kernel_that_starts_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "10_page", *PAGE)
    texts = []
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # under which a kernel does not watch its streams
    for threads in "1", "2":
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        (done,) = notebooks.attempt(notebooks.templates(), "smoke", {})
        assert done.failure == "cell 9 failed: ZeroDivisionError: division by zero"
        texts.append(re.sub(r"ipykernel_\d+", "ipykernel", said_and_shown(done.path)))
    assert texts[0] == texts[1]
    for shown in "past Python", "beware", "image/png", "text/html":
        assert shown in texts[0]


def test_an_interrupt_is_for_the_kernel(asleep: Callable[[], tuple[int, int]]) -> None:
    with ThreadPoolExecutor() as pool:
        running = pool.submit(notebooks.attempt, notebooks.templates(), "smoke", {})
        os.killpg(asleep()[0], signal.SIGINT)
        (done,) = running.result(PATIENCE)
    assert done.failure.startswith("cell 4 failed: KeyboardInterrupt")


def test_a_kernel_ends_with_a_command_that_is_killed(
    asleep: Callable[[], tuple[int, int]],
) -> None:
    command = kernels.processes(paths.variables()).Process(
        target=notebooks.attempt,
        args=(notebooks.templates(), "smoke", {}),
        kwargs={"destination": paths.EXECUTED},
    )
    command.start()
    numbers = asleep()
    assert all(map(psutil.pid_exists, numbers))
    command.kill()
    until(lambda: not any(map(psutil.pid_exists, numbers)))


@pytest.fixture
def command(asleep: Callable, folder: Path) -> Iterator[subprocess.Popen]:
    """Executing the notebook as the command does, in a process group of its own.

    A shell's background jobs hand down that they ignore Ctrl-C; a command at a terminal does not.
    """
    code = f"""import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from headbook import paths
from headbook.publishing import notebooks
paths.NOTEBOOKS = Path({str(folder)!r})
notebooks.attempt(notebooks.templates(), "smoke", {{}}, destination=Path({str(paths.EXECUTED)!r}))
"""
    started = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    yield started
    started.kill()
    started.communicate()


def test_ctrl_c_leaves_nothing_behind(
    command: subprocess.Popen, asleep: Callable[[], tuple[int, int]]
) -> None:
    kernel, runner = asleep()
    server = psutil.Process(runner).ppid()
    assert server != command.pid
    os.killpg(command.pid, signal.SIGINT)
    _, error = command.communicate(timeout=PATIENCE)
    assert command.returncode != 0 and "KeyboardInterrupt" in error
    until(lambda: not any(map(psutil.pid_exists, (kernel, runner, server))))


def test_a_fault_in_a_chapter_is_no_fault_of_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(chapter, "chapters", faulty)
    try:
        assert runpy.run_module(kernels.LOADED)["PATH"] == sys.path
    finally:
        gc.unfreeze()


def test_elsewhere_processes_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert kernels.processes({"OMP_NUM_THREADS": "1"}).get_start_method() == "spawn"
