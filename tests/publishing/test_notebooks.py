"""The runner: what it writes, what it keeps, and what it says when a notebook fails."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from refusing import refused

from headbook import paths, tables
from headbook.publishing import notebooks, templates

pytestmark = pytest.mark.slow

STEADY = """\
import sys
print(size)
print("\\r  0%|  | 0/3\\r100%|##| 3/3 [00:01]\\nWarning: a rare thing", file=sys.stderr)
object()"""


def write(folder: Path, name: str, code: str, declared: str = 'model = "a"\nsize = 3') -> None:
    """A template with a cell of parameters and one more."""
    parameters = new_code_cell(declared, metadata={"tags": ["parameters"]}, id="parameters")
    cells = [new_markdown_cell("# Title", id="title"), parameters, new_code_cell(code, id="call")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    page = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(page, folder / f"{name}.ipynb")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Empty folders for templates and executed copies, standing in for the repository's."""
    templates, executed = tmp_path / "note books", tmp_path / "executed copies"
    templates.mkdir()
    monkeypatch.setattr(paths, "NOTEBOOKS", templates)
    monkeypatch.setattr(paths, "EXECUTED", executed)
    return templates, executed


def test_a_run_passes_the_parameters_and_a_rerun_changes_no_byte(
    folders: tuple[Path, Path],
) -> None:
    source, executed = folders
    write(source, "10_steady", STEADY)
    (first,) = notebooks.execute(None, {"size": 4})
    assert first.path == executed / "10_steady.ipynb"
    before = first.path.read_bytes()
    said, warned, address = nbformat.reads(before.decode(), 4).cells[-1].outputs
    assert (said.text, warned.text) == ("4\n", "Warning: a rare thing\n")
    assert address.data["text/plain"] == "<object>"
    notebooks.execute(["10"], {"size": 4})
    assert first.path.read_bytes() == before
    assert first.processor > 0 and 0.01 < first.peak < 3
    assert json.loads(notebooks.record_of(first.path).read_text())["parameters"] == {"size": 4}


def test_a_failing_notebook_fails_the_run_and_keeps_the_previous_copy(
    folders: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    source, executed = folders
    write(source, "10_faulty", "raise ValueError('first\\nlast of it')")
    write(source, "11_steady", STEADY)
    executed.mkdir()
    (executed / "10_faulty.ipynb").write_text("previous")
    with refused(r"^1 of 2 notebooks failed.*10_faulty\.failed\.ipynb$"):
        notebooks.execute(None, {})
    said = capfd.readouterr().err
    assert "10_faulty: cell 3 failed: ValueError: last of it" in said
    assert "Traceback" not in said
    assert (executed / "10_faulty.ipynb").read_text() == "previous"
    assert "ValueError" in (executed / "10_faulty.failed.ipynb").read_text()
    assert (executed / "11_steady.ipynb").exists()


def test_a_kernel_that_dies_is_a_failure_in_one_line(folders: tuple[Path, Path]) -> None:
    source, executed = folders
    write(source, "10_dies", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    (outcome,) = notebooks.attempt(templates.templates(), {})
    assert outcome.failure and "\n" not in outcome.failure
    assert not (executed / "10_dies.ipynb").exists()


def test_a_kernel_that_loses_its_port_is_started_again(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    source, _ = folders
    write(source, "10_steady", STEADY)
    startup, died = tmp_path / "ipython" / "profile_default" / "startup", tmp_path / "died"
    startup.mkdir(parents=True)
    dies_once = f"import os\nif not os.path.exists({str(died)!r}):\n"
    dies_once += f"    open({str(died)!r}, 'w').close()\n    os._exit(1)"
    (startup / "00.py").write_text(dies_once)
    variables = {"IPYTHONDIR": str(tmp_path / "ipython")}
    (outcome,) = notebooks.attempt(templates.templates(), {}, more=variables)
    assert died.exists() and outcome.failure is None


MEASURES = """
from pathlib import Path
import headbook as hb
from headbook import paths
paths.RESULTS = Path({!r})
frame = hb.table({{"model": model, "sentences": sentences}}, value=[value], bleu=[32.5])
hb.publish(frame, "13/best")
"""


def test_a_page_is_published_by_its_notebook_and_compared_after(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published at 40 and 80 sentences, run at these, then with a value raised by a point."""
    code, declared = MEASURES.format(str(tmp_path / "results")), "sentences = 40\nvalue = 0.5"
    write(folders[0], "13_page", code, f'model = "a"\n{declared}')
    (folders[0] / "parameters").mkdir()
    (folders[0] / "parameters" / "publish.yml").write_text("13: {sentences: 80}\n")
    (folders[0] / "parameters" / "smoke.yml").write_text("13: {sentences: 4}\n")
    monkeypatch.setattr(paths, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    for given in ({}, {"sentences": 40}):
        assert list(notebooks.publish(["13"], given)) == [tmp_path / "results" / "13"]
    assert tables.cells(13, "best")["sentences"].tolist() == ["80", "40"]
    made = tables.entries(13)["best"]["made"]
    assert [each["parameters"]["sentences"] for each in made] == [80, 40]
    (equal,) = notebooks.execute(["13"], {})
    assert (equal.compared, equal.rows, equal.differing) == (2, 1, ())
    (other,) = notebooks.execute(["13"], {}, notebooks.SMOKE)
    assert (other.compared, other.rows) == (0, 0)
    (wrong,) = notebooks.execute(["13"], {"value": 0.51})
    said = notebooks.summary([replace(each, published=2) for each in (equal, other, wrong)])
    assert said.endswith(
        "4 values measured again, 2 of 6 published rows (33%): 1 differ, on 13_page"
    )
    (line,) = notebooks.differences([wrong.path])
    assert line == "13/best, a; 40: value is 0.51 now, 0.5 published"


def test_two_that_run_at_once_have_one_thread_and_chance_of_their_own(
    folders: tuple[Path, Path],
) -> None:
    for name in ("10_one", "11_other"):
        write(folders[0], name, "import numpy, torch; torch.get_num_threads(), numpy.random.rand()")
    (threads, drawn), (others, another) = (
        ast.literal_eval(nbformat.read(each.path, 4).cells[-1].outputs[0].data["text/plain"])
        for each in notebooks.execute(None, {})
    )
    assert threads == others == 1 and drawn != another
