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
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert isinstance(result.exception, SystemExit)
    for each in ("headbook: ", *said):
        assert each in result.stderr


@pytest.mark.parametrize("group", [(), ("corpora",)])
def test_what_commands_do_is_not_cut_short(group: tuple[str, ...]):
    commands = headbook(*group, "--help").stdout.partition("Commands:")[2]
    assert commands.count("\n") > 3 and "..." not in commands


def test_the_list_has_a_line_for_every_corpus():
    lines = headbook("corpora", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry())
    (controlled,) = [line for line in lines if line.startswith("controlled-sov ")]
    assert controlled.split()[2] == "6,000" and "generated" in controlled


def test_a_corpus_of_the_mirror_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "mirror" / "toy" / "train.tsv"
    file.parent.mkdir(parents=True)
    file.write_text("one\teins\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "corpora.toml").write_text(ENTRY.format(digest=digest))
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "mirror"))
    listed = headbook("corpora", "list").stdout
    assert listed.split()[:2] == ["toy-de", "en-de"] and "mirror" in listed
    assert headbook("corpora", "fetch", "toy-de").stdout == f"train.tsv: {file}\n"
    file.write_text("one\tzwei\n")
    assert_one_line(headbook("corpora", "fetch", "toy-de"), str(file), "sha256")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("corpora", "fetch", "multi30k-dd"), "multi30k-de"),
        (("train", "mixture-fr-257"), "mixture-fr-256"),
        (("train", "mixture-fr-256", "--minutes", "0"), "give more than 0"),
        (("run", "13_syntax_heads"), "13_syntactic_heads"),
        (("run", "13", "--given", "lists"), "'lists' is no name=value"),
        (("run", "13", "--given", "lists=1"), "has no parameter 'lists'"),
        (("publish", "99"), "11_confidence_and_roles"),
        (("publish", "--weights", "mixture-fr-257"), "mixture-fr-256"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str):
    assert_one_line(headbook(*arguments), said)


def test_what_typer_refuses_has_status_2_and_one_plain_line():
    for arguments, named in ((("run", "--workers", "one"), "--workers"), (("rum",), "rum")):
        result = headbook(*arguments)
        assert result.exit_code == 2 and "Traceback" not in result.output
        last = result.stderr.splitlines()[-1]
        assert last.startswith("Error: ") and named in last


def test_errors_of_several_lines_are_told_in_one_and_faults_of_ours_are_not(monkeypatch):
    def fail(*given: object) -> None:
        raise UserError("data/claims.yml: not YAML\nnear line 3")

    monkeypatch.setattr(notebooks, "execute", fail)
    assert_one_line(headbook("run"), "not YAML near line 3")
    monkeypatch.setattr(notebooks, "execute", lambda *given: 1 / 0)
    assert isinstance(headbook("run").exception, ZeroDivisionError)


def test_run_hands_on_what_was_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple] = []
    monkeypatch.setattr(notebooks, "execute", lambda *given: asked.append(given) or [])
    assert headbook("run", "--smoke").exit_code == 0
    assert headbook("run", "11", "12", "--given", "seed=3", "--given", "size=tiny").exit_code == 0
    assert asked == [
        (None, {}, "smoke", 2),
        (["11", "12"], {"seed": 3, "size": "tiny"}, "", 2),
    ]
