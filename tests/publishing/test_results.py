"""Publishing computes the named pages and writes what made them beside their tables."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import pytest
from typer.testing import CliRunner

from headbook import paths
from headbook.artefacts.catalogue import run
from headbook.artefacts.model import corpus_of, ingredients
from headbook.chapters import config as configs
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.page import _added
from headbook.chapters.profile import PROFILES
from headbook.chapters.results import published
from headbook.chapters.sixteen import what_specialising_needs, when_heads_specialise
from headbook.chapters.tables import model_name
from headbook.cli import app
from headbook.publishing.results import chosen
from headbook.publishing.results import published as computed
from headbook.runs.store import Ingredients, Stage, Store
from headbook.tables import folder
from headbook.types import UserError


@pytest.fixture
def root(few_generated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results and runs in a folder; pages that compute at once; a profile of two models."""
    monkeypatch.setattr(paths, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    (first,) = Config("smoke", corpus="controlled-svo").models()
    smoke = replace(PROFILES["smoke"], models=(first, first.with_seed(1)))
    monkeypatch.setattr(configs, "PROFILES", MappingProxyType({"smoke": smoke}))
    for number, page in enumerate((when_heads_specialise, what_specialising_needs), start=26):
        monkeypatch.setattr(page, "trained_here", planted(number))
    return tmp_path


def publish(names: list[str], profile: str) -> list[Path]:
    return list(computed(chosen(names, profile), profile))


def planted(number: int):
    def compute(config: Config, store: Store) -> Tables:
        assert config == Config("smoke") and store == Store.default()
        run = config.one_model()
        made = ingredients(run, corpus_of(run.corpus, run.pairs))
        store.get(made, lambda folder: None)
        return {"numbers": pd.DataFrame({"number": [number]})}

    return compute


def test_each_named_page_gets_its_tables(root: Path):
    folders = publish(["27", "when_heads_specialise"], "smoke")
    names = ["26_when_heads_specialise", "27_what_specialising_needs"]
    assert folders == [root / "results" / name for name in ("26", "27")]
    for name, number in zip(names, (26, 27), strict=True):
        assert published(name, "smoke").tables["numbers"]["number"].tolist() == [number]


def test_the_model_of_a_profile_that_joins_another_is_added_to_its_tables_by_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    model = run("controlled-svo-16")
    joined = replace(PROFILES["smoke"], models=(model,), joins="smoke")
    both = {"smoke": configs.PROFILES["smoke"], "later": joined}
    monkeypatch.setattr(configs, "PROFILES", MappingProxyType(both))

    def trained_here(config: Config, store: Store) -> Tables:
        names = ["other"] if config.profile == "smoke" else [model_name(model), "a stranger"]
        return {"numbers": pd.DataFrame({"model": names, "number": range(len(names))}),
                "splits": pd.DataFrame({"corpus": names})}  # fmt: skip

    monkeypatch.setattr(when_heads_specialise, "trained_here", trained_here)
    publish(["26"], "smoke")
    assert publish(["26"], "later") == [root / "results" / "26"]
    found = published("26_when_heads_specialise", "smoke")
    assert found.tables["numbers"]["model"].tolist() == ["other", "controlled-svo-16"]
    assert found.run["config"]["profile"] == "smoke"
    (added,) = found.run["added"]
    assert (added["model"], added["profile"]) == ("controlled-svo-16", "later")
    assert "headbook publish 26 --profile later" in _added(26, added, {})


def test_what_a_page_read_is_recorded_with_it_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of two pages in one process; a run that lies in the store unread is no part of either."""
    Store.default().get(Ingredients(Stage("other", 1), None, {}, {}), lambda folder: None)
    monkeypatch.setattr(what_specialising_needs, "trained_here", lambda config, store: {})
    publish(["26", "27"], "smoke")
    assert published("27_what_specialising_needs", "smoke").run["runs"] == []
    record = published("26_when_heads_specialise", "smoke").run
    assert record["config"]["profile"] == "smoke"
    assert [made["ingredients"]["config"]["training"]["seed"] for made in record["runs"]] == [0]
    assert record["runs"][0]["ingredients"]["stage"]["name"] == "model"
    assert str(root) not in json.dumps(record)


def test_publishing_stops_in_time_and_goes_on_from_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    """The clock strikes in the second page's run; called as it says, that run is resumed."""
    asked = Ingredients(Stage("slow", 1), None, {}, {})

    def slowly(aside: Path) -> None:
        checkpoint = aside / "checkpoint"
        if not checkpoint.exists():
            checkpoint.touch()
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(
        what_specialising_needs,
        "trained_here",
        lambda config, store: store.get(asked, slowly) and {},
    )
    named = ["publish", "26", "27", "--profile", "smoke", "--minutes", "60"]
    cut = CliRunner().invoke(app, named)
    where, said = cut.stdout.splitlines()
    assert cut.exit_code == 3 and where.endswith("26")
    assert said.endswith(": headbook publish 27 --profile smoke --minutes 60")
    assert not folder("27_what_specialising_needs").exists()
    again = CliRunner().invoke(app, said.partition(": headbook ")[2].split())
    assert again.exit_code == 0 and again.stdout.endswith("27\n")


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_no_time_at_all_is_one_line(root: Path, minutes: str):
    result = CliRunner().invoke(app, ["publish", "26", "--minutes", minutes])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "give more than 0" in result.stderr


def test_nothing_is_computed_where_a_name_or_profile_is_wrong(root: Path):
    for names, profile in ((["26", "99"], "smoke"), (["26"], "smok")):
        with pytest.raises(UserError):
            publish(names, profile)
    assert not (root / "results").exists() and not (root / "runs").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["50", "--model", "minilmm"], "did you mean minilm"),
        (["--model", "minilm"], "name the pages that minilm is added to"),
        (["50", "--model", "minilm", "--profile", "laptop"], "leave --profile out"),
        (["--given", "lists=1"], "name the pages that lists is added to"),
    ],
)
def test_what_cannot_be_added_is_one_line(root: Path, given: list[str], said: str):
    result = CliRunner().invoke(app, ["publish", *given])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert said in result.stderr and not (root / "results").exists()


def test_a_profile_is_for_pages_that_train():
    with pytest.raises(UserError, match="61_fine_tuning has no models trained here"):
        chosen(["61", "26"], "laptop")
    names = [each.name for each in chosen(None, "laptop")]
    assert "26_when_heads_specialise" in names and "61_fine_tuning" not in names
    assert len(chosen(["61", "26"], None)) == len(chosen(["61", "26"], "released")) == 2
