"""`headbook models`: every model has a line, published numbers are its own, weights are counted."""

import json
from pathlib import Path

import pytest

import headbook as hb
from headbook import paths, tables
from headbook.artefacts.catalogue import catalogue, run
from headbook.corpora.subwords import Subwords
from headbook.models.transformer import Transformer
from headbook.planning.models import COLUMNS, lines
from headbook.planning.train import train_named
from headbook.released import catalogue as released
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training import checkpoint
from headbook.types import UserError

NAME = "controlled-sov-16"


def rows(store: Store, *names: str) -> dict[str, dict[str, str]]:
    """The printed cells of every line, by the model's name."""
    head, *body = lines(names, store)
    starts = [head.index(column) for column in COLUMNS]
    ends = [*starts[1:], None]
    cells = [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in body]
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in cells}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    return Store(tmp_path)


def keep(store: Store, name: str) -> Path:
    """The untrained model of that name, as if it had been trained on a corpus that is not here."""
    asked = run(name)
    folder = store.root / asked.stage.name / "0123456789abcdef"
    folder.mkdir(parents=True)
    words = Subwords.train(["the dog sees a cat", "a cat likes the dog"], 60)
    for side in ("source", "target"):
        words.save(folder / f"{side}.json")
    model = Transformer(asked.config(words, words))
    checkpoint.save_model(model, folder / "best.safetensors")
    made = {"stage": plain(asked.stage), "config": plain(asked), "policy": {"device": "cpu"}}
    (folder / "run.json").write_text(json.dumps({"ingredients": made}))
    return folder


def test_every_model_of_the_book_is_in_a_line(store: Store):
    found = rows(store)
    families = {each.family for each in catalogue().values()}
    assert found.keys() == families | released.catalogue().keys()
    ours = [each for name, each in found.items() if name in families]
    count = sum(each.seeds for each in catalogue().values())
    assert sum(int(each["models"]) for each in ours) == count
    assert {each["kind"] for each in found.values()} == {"released", "trained here", "young"}


def test_bleu_is_the_published_one(store: Store):
    published = tables.cells(10, "bleu").set_index(["model", "test", "casing"])
    score = published.loc[("mixture-fr-256", "msdocs-fr", "cased"), "score"]
    row = rows(store, "mixture-fr-256")["mixture-fr-256"]
    assert row["BLEU"] == f"{float(score):.1f}" and row["converged"] == "yes"


def test_a_family_has_what_is_known_of_one_of_its_seeds(store: Store):
    """The planted fault: seeds that are not published as another answer."""
    row = rows(store)["tatoeba-de-128-more-updates"]
    assert int(row["models"]) == 3 and row["converged"] == "no" and row["BLEU"] != "–"


def test_a_model_without_checkpoints_has_its_bleu_and_no_word_of_convergence(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bleu = "model,casing,score\nmixture-fr-256,lower,63\nmixture-fr-256,cased,61.25\n"
    record = {"tables": {"bleu": {"text": ["model", "casing"]}}}
    tables.replace(10, {"bleu": bleu}, record, tmp_path)
    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    row = rows(store, "mixture-fr-256")["mixture-fr-256"]
    assert (row["BLEU"], row["converged"]) == ("61.2", "–")


def test_weights_are_counted_and_loaded_by_name(store: Store):
    with pytest.raises(UserError, match=f"`headbook train {NAME}`") as caught:
        hb.load(NAME)
    assert "\n" not in str(caught.value)
    assert rows(store)["{corpus}-16"]["weights"] == "not here"
    keep(store, NAME)
    assert rows(store)["{corpus}-16"]["weights"] == "1 here"
    assert rows(store, NAME)[NAME]["weights"] == "here"
    model = hb.load(NAME)
    assert (model.name, model.network.config.width) == (NAME, 16)
    with pytest.raises(UserError, match="seed5"):
        hb.load(f"{NAME}-seed5")


def test_a_language_model_of_ours_is_not_read(store: Store):
    with pytest.raises(UserError, match="language model"):
        hb.load("wikitext-2-128")


def test_a_misspelt_name_of_ours_is_near(store: Store):
    with pytest.raises(UserError, match=r"did you mean .*multi30k-de-128"):
        hb.load("multi30k-de-129")


def test_under_torchrun_translation_models_alone_are_trained(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "planted")
    with pytest.raises(UserError, match="wikitext-2-128"):
        train_named(["multi30k-de-128", "wikitext-2-128"], store, print, 0.0)


def test_another_config_is_another_model(store: Store):
    folder = keep(store, NAME)
    record = json.loads((folder / "run.json").read_text())
    record["ingredients"]["config"]["dropout"] = 0.2
    (folder / "run.json").write_text(json.dumps(record))
    assert rows(store, NAME)[NAME]["weights"] == "not here"
