"""The command line: what it prints, and that a user's mistake is one line and status 2."""

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headbook import paths
from headbook.cli import app
from headbook.corpora.registry import registry
from headbook.planning import explain
from headbook.publishing import notebooks
from headbook.types import UserError

COMMANDS = (
    "plan", "pack", "train", "run", "parameters", "publish", "numbers", "explain", "models",
    "weights", "look", "book", "bench", "corpora",
)  # fmt: skip
ENTRY = """
[toy-de]
title = "t"
kind = "parallel"
target = "de"
licence = "l"
pairs = 2
bytes = 3
reader = "lines"
mirror = [{{ part = "train.tsv", path = "toy/train.tsv", sha256 = "{digest}" }}]
"""


def headbook(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def assert_one_line(result: Result, *said: str) -> None:
    """Status 2, nothing on the output, one line of explanation without a trace."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("headbook: ")
    assert isinstance(result.exception, SystemExit)
    for each in said:
        assert each in result.stderr


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of one corpus, whose only file is in the mirror; gives that file."""
    file = tmp_path / "mirror" / "toy" / "train.tsv"
    file.parent.mkdir(parents=True)
    file.write_text("one\teins\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "corpora.toml").write_text(ENTRY.format(digest=digest))
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "mirror"))
    return file


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What notebooks were asked for; none is executed."""
    asked: list[tuple] = []
    monkeypatch.setattr(notebooks, "execute", lambda *given: asked.append(given) or [])
    return asked


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str):
    result = headbook(command, "--help")
    assert result.exit_code == 0 and "Usage" in result.stdout
    assert command in headbook("--help").stdout


@pytest.mark.parametrize("group", [(), ("corpora",)])
def test_what_commands_do_is_not_cut_short(group: tuple[str, ...]):
    assert "..." not in headbook(*group, "--help").stdout.partition("Commands:")[2]


def test_a_value_of_the_wrong_kind_is_one_plain_line():
    result = headbook("run", "13", "--seed", "abc")
    assert result.exit_code == 2
    said = result.stderr.splitlines()[-1]
    assert said.startswith("Error: ") and "--seed" in said and "integer" in said


def test_the_list_has_a_line_for_every_corpus():
    lines = headbook("corpora", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry())
    (controlled,) = [line for line in lines if line.startswith("controlled-sov ")]
    assert controlled.split()[2] == "6,000" and "generated" in controlled


def test_a_corpus_of_the_mirror_has_its_place(mirror: Path):
    assert headbook("corpora", "list").stdout.split()[:2] == ["toy-de", "en-de"]
    assert "mirror" in headbook("corpora", "list").stdout
    result = headbook("corpora", "check")
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["toy-de", "ok"])


@pytest.mark.parametrize(("fault", "code", "state"), [("wrong", 1, "wrong digest"),
                                                      ("missing", 0, "missing")])  # fmt: skip
def test_check_finds_what_is_not_as_recorded(mirror: Path, fault: str, code: int, state: str):
    mirror.unlink()
    if fault == "wrong":
        mirror.write_text("one\tzwei\n")
    result = headbook("corpora", "check")
    assert result.exit_code == code and state in result.stdout and str(mirror) in result.stdout


def test_fetching_prints_where_each_part_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from headbook.corpora import download

    monkeypatch.setattr(download, "fetch", lambda name: {"train.tsv": tmp_path / name})
    assert headbook("corpora", "fetch", "toy").stdout == f"train.tsv: {tmp_path / 'toy'}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("corpora", "fetch", "multi30k-dd"), "multi30k-de"),
        (("corpora", "fetch", "controlled-sov"), "generated"),
        (("explain", "--profile", "smok"), "smoke, quick, laptop, full"),
        (("explain", "--size", "large"), "smoke, tiny, narrow, small, medium, paper"),
        (("explain", "--seed", "-1"), "seed is -1"),
        (("explain", "--corpus", "controlled-osv"), "controlled-sov"),
        (("explain", "--corpus", "ud-ewt"), "treebank"),
        (("explain", "multi30k-de"), "multi30k-de-128"),
        (("train", "mixture-fr-256", "--seed", "1"), "models by name and --seed"),
        (("plan", "mixture-fr-257"), "mixture-fr-256"),
        (("run", "13_syntax_heads"), "13_syntactic_heads"),
        (("run", "11", "--profile", "smok"), "smoke, quick, laptop, full"),
        (("run", "11", "--size", "large"), "smoke, tiny, narrow, small, medium, paper"),
        (("run", "11", "--seed", "-1"), "seed is -1"),
        (("run", "11", "--corpus", "controlled-osv"), "controlled-sov"),
        (("publish", "99"), "11_confidence_and_roles"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str):
    assert_one_line(headbook(*arguments), said)


@pytest.mark.parametrize("arguments", [("run", "--seed", "one"), ("run", "--sed", "1"), ("rum",)])
def test_what_typer_refuses_has_status_2_and_no_trace(arguments: tuple[str, ...]):
    result = headbook(*arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output


def test_an_error_of_several_lines_is_told_in_one(monkeypatch: pytest.MonkeyPatch):
    def fail(*given: object) -> None:
        raise UserError("data/claims.yml: not YAML\nnear line 3")

    monkeypatch.setattr(explain, "lines", fail)
    assert_one_line(headbook("explain"), "not YAML near line 3")


def test_a_fault_of_ours_is_not_passed_off_as_the_users(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain, "lines", lambda *given: 1 / 0)
    assert isinstance(headbook("explain").exception, ZeroDivisionError)


def test_run_hands_on_what_was_given_and_nothing_else(executed: list[tuple]):
    assert headbook("run", "--profile", "smoke").exit_code == 0
    assert headbook("run", "11", "12", "--seed", "3", "--size", "tiny").exit_code == 0
    assert executed == [
        (None, "smoke", {}, 2),
        (["11", "12"], "quick", {"size": "tiny", "seed": 3}, 2),
    ]


def test_a_folder_is_named_from_where_the_user_is(
    executed: list[tuple], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for part in ("train", "valid", "test"):
        for language in ("en", "de"):
            folder = tmp_path / "mine"
            folder.mkdir(exist_ok=True)
            (folder / f"{part}.{language}").write_text("a dog .\n")
    monkeypatch.chdir(tmp_path)
    assert headbook("run", "11", "--corpus", "mine").exit_code == 0
    assert executed[0][2] == {"corpus": str(tmp_path / "mine")}
    assert str(tmp_path / "mine") in headbook("explain", "--corpus", "mine/").stdout


@pytest.mark.usefixtures("few_generated")
def test_explain_says_that_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    lines = headbook("explain", "--profile", "smoke", "--corpus", "controlled-svo").stdout
    assert lines.startswith("controlled-svo seed 0: to be trained")
    assert "no model is kept yet" in lines
