"""The command line: what it prints, and that a user's mistake is one line and status 2."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import torch
from refusing import assert_one_line, headbook, refused

from headbook.models import checkpoint
from headbook.publishing import notebooks
from headbook.text.registry import registry
from headbook.types import UserError


def test_the_list_has_a_line_for_every_corpus():
    lines = headbook("corpora", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry())
    (controlled,) = [line for line in lines if line.startswith("controlled-sov ")]
    assert controlled.split()[2] == "6,000" and "generated" in controlled


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("corpora", "fetch", "multi30k-dd"), "multi30k-de"),
        (("train", "mixture-fr-257"), "mixture-fr-256"),
        (("train", "mixture-fr-256", "--minutes", "0"), "give more than 0"),
        (("train", "mixture-fr-256", "--plan", "--rate", "-2"), "rate is -2"),
        (("run", "13_syntax_heads"), "13_syntactic_heads"),
        (("run", "13", "--given", "lists"), "'lists' is no name=value"),
        (("run", "13", "--given", "lists=1"), "has no parameter 'lists'"),
        (("publish", "99"), "11_confidence_and_roles"),
        (("publish", "--weights", "mixture-fr-257"), "mixture-fr-256"),
        (("look", ""), "look is empty"),
        (("run", "--given", ""), "--given is empty"),
        (("look", "minilm", "--text="), "--text is empty"),
        (("publish", "40", "--given", 'models=["minilm", ""]'), "gives an empty text"),
        (("look", "minilm", "--text", "~nobody/x"), "~nobody/x"),
        (("look", "minilm", "--text", "x" * 256), "xxx"),
        (("look", "minilm", "--out", "x" * 256), "xxx"),
        (("look", "minilm", "--out", __file__), "is a file"),
        (("look", "minilm", "--first", "0"), "at least 1 sentence"),
        (("numbers", "nowhere.md"), "nowhere.md: No such file"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str):
    assert_one_line(headbook(*arguments), said)


@pytest.mark.parametrize(
    ("arguments", "named"), [(("run", "--workers", "0"), "--workers"), (("rum",), "rum")]
)
def test_what_typer_refuses_has_status_2_and_one_plain_line(arguments: tuple[str, ...], named: str):
    result = headbook(*arguments)
    last = result.stderr.splitlines()[-1]
    assert result.exit_code == 2 and last.startswith("Error: ") and named in last


def test_errors_of_several_lines_are_told_in_one_and_faults_of_ours_are_not(monkeypatch):
    monkeypatch.setattr(notebooks, "execute", Mock(side_effect=UserError("not YAML\nnear line 3")))
    assert_one_line(headbook("run"), "not YAML near line 3")
    monkeypatch.setattr(notebooks, "execute", Mock(side_effect=KeyError))
    assert isinstance(headbook("run").exception, KeyError)


STOPPED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from headbook import cli
from headbook.text import registry

def wait():
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(600)

if {waits}:
    registry.registry = wait
cli.app(["corpora", "list"])
"""


def started(waits: bool, out: str = os.devnull, **more: str) -> subprocess.Popen:
    with open(out, "w") as stdout:
        return subprocess.Popen(
            [sys.executable, "-c", STOPPED.format(waits=waits)], stdout=stdout,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **more},
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_a_command_is_told_how_to_go_on(number: signal.Signals):
    command = started(waits=True)
    assert command.stderr.readline() == "waiting\n"
    command.send_signal(number)
    said = command.communicate(timeout=60)[1]
    assert command.returncode == 128 + number
    assert said.count("\n") == 1 and f"({number.name}): give the same command again" in said


@pytest.mark.slow
def test_a_full_disk_behind_stdout_is_one_line_and_a_wrong_backend_none():
    command = started(waits=False, out="/dev/full")
    said = command.communicate(timeout=60)[1]
    assert (command.returncode, said) == (2, "headbook: No space left on device\n")
    command = started(waits=False, MPLBACKEND="nonsense")
    assert (command.communicate(timeout=60)[1], command.returncode) == ("", 0)


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Said by the system, or by safetensors, to which a limit is as good as a full disk."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/where/x")
    monkeypatch.setattr(notebooks, "execute", Mock(side_effect=full))
    assert_one_line(headbook("run"), "/where/x: No space left on device")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        with refused(r"cannot be written \(.*large"):
            checkpoint.write(tmp_path / "x.safetensors", {"x": torch.zeros(1 << 20)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_run_hands_on_what_was_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notebooks, "execute", asked := Mock(return_value=[]))
    headbook("run", "--smoke")
    headbook("run", "11", "12", "--given", "seed=3", "--given", "size=tiny")
    given = {"seed": 3, "size": "tiny"}
    assert asked.mock_calls == [call(None, {}, "smoke", 2), call(["11", "12"], given, "", 2)]
