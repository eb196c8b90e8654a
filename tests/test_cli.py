"""The command line: what it prints, and that a user's mistake is one line and status 2."""

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headbook import paths
from headbook.cli import app
from headbook.publishing import notebooks
from headbook.text.registry import registry
from headbook.types import UserError

COMMANDS = ("run", "publish", "numbers", "train", "models", "corpora", "look", "book", "bench")
ENTRY = """
[toy-de]
title = "t"
kind = "parallel"
target = "de"
licence = "l"
pairs = 2
bytes = 3
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
    result = headbook("run", "13", "--workers", "abc")
    assert result.exit_code == 2
    said = result.stderr.splitlines()[-1]
    assert said.startswith("Error: ") and "--workers" in said and "integer" in said


def test_the_list_has_a_line_for_every_corpus():
    lines = headbook("corpora", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry())
    (controlled,) = [line for line in lines if line.startswith("controlled-sov ")]
    assert controlled.split()[2] == "6,000" and "generated" in controlled


def test_a_corpus_of_the_mirror_has_its_place(mirror: Path):
    assert headbook("corpora", "list").stdout.split()[:2] == ["toy-de", "en-de"]
    assert "mirror" in headbook("corpora", "list").stdout
    assert headbook("corpora", "fetch", "toy-de").stdout == f"train.tsv: {mirror}\n"
    mirror.write_text("one\tzwei\n")
    assert_one_line(headbook("corpora", "fetch", "toy-de"), str(mirror), "sha256")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("corpora", "fetch", "multi30k-dd"), "multi30k-de"),
        (("corpora", "fetch", "controlled-sov"), "generated"),
        (("train", "multi30k-de"), "multi30k-de-128"),
        (("train", "mixture-fr-257"), "mixture-fr-256"),
        (("train", "mixture-fr-256", "--minutes", "0"), "give more than 0"),
        (("run", "13_syntax_heads"), "13_syntactic_heads"),
        (("run", "13", "--given", "lists"), "'lists' is no name=value"),
        (("run", "13", "--given", "lists=1"), "has no parameter 'lists'"),
        (("publish", "99"), "11_confidence_and_roles"),
        (("publish", "--weights", "mixture-fr-257"), "mixture-fr-256"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str):
    assert_one_line(headbook(*arguments), said)


@pytest.mark.parametrize(
    "arguments", [("run", "--workers", "one"), ("run", "--wrkers", "1"), ("rum",)]
)
def test_what_typer_refuses_has_status_2_and_no_trace(arguments: tuple[str, ...]):
    result = headbook(*arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output


def test_an_error_of_several_lines_is_told_in_one(monkeypatch: pytest.MonkeyPatch):
    def fail(*given: object) -> None:
        raise UserError("data/claims.yml: not YAML\nnear line 3")

    monkeypatch.setattr(notebooks, "execute", fail)
    assert_one_line(headbook("run"), "not YAML near line 3")


def test_a_fault_of_ours_is_not_passed_off_as_the_users(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notebooks, "execute", lambda *given: 1 / 0)
    assert isinstance(headbook("run").exception, ZeroDivisionError)


def test_run_hands_on_what_was_given_and_nothing_else(executed: list[tuple]):
    assert headbook("run", "--smoke").exit_code == 0
    assert headbook("run", "11", "12", "--given", "seed=3", "--given", "size=tiny").exit_code == 0
    assert executed == [
        (None, {}, "smoke", 2),
        (["11", "12"], {"seed": 3, "size": "tiny"}, "", 2),
    ]
