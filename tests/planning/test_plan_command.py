"""`headbook plan`: what it prints, and that a mistake is one line and status 2."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headbook.cli import app
from headbook.planning import plan


def headbook(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_it_explains_itself() -> None:
    result = headbook("--help")
    assert result.exit_code == 0 and all(
        o in result.stdout for o in ("--profile", "--share", "--rate")
    )


def test_share_and_rate_reach_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    result = headbook("--profile", "smoke", "--rate", "1234", "--share", "0.25")
    assert result.exit_code == 0 and "1,234 GFLOP/s in matrix products (as given)" in result.stdout
    assert "25%" in result.stdout and "controlled-sov" in result.stdout
    assert not (tmp_path / "runs").exists()


def test_the_rate_is_measured_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "machine_rate", lambda precision: 77.0)
    assert "77 GFLOP/s in matrix products (measured now)" in headbook("--profile", "smoke").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profile", "ful"), "smoke, quick, laptop, full"),
        (("--share", "0"), "share is 0"),
        (("--share", "1.5"), "share is 1.5"),
        (("--rate", "-1"), "rate is -1 GFLOP/s"),
        (("--rate", "nan"), "rate is nan"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = headbook(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("headbook: ")
    assert said in result.stderr and isinstance(result.exception, SystemExit)
