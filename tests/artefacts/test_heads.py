"""The stage `heads`: measured once, at any update, and numbers move with versions only."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from golden import Golden
from small import same, untrained_model

from headbook.artefacts import heads
from headbook.artefacts.heads import MEASURES, Choices, Entry, HeadsRun, Measured, measured
from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.texts import Text
from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.runs.store import Store
from headbook.trees import ROOT, Tree
from headbook.types import Kind, UserError

GOLDEN = Golden("heads")
RELATIONS = ("det", "nsubj", "root", "det", "amod", "dobj", "advmod")
HEADS = (1, 2, ROOT, 5, 5, 2, 2)


def tree(words: tuple[str, ...]) -> Tree:
    starts = [sum(len(word) + 1 for word in words[:at]) for at in range(len(words))]
    spans = tuple((at, at + len(word)) for at, word in zip(starts, words, strict=True))
    return Tree(" ".join(words), spans, HEADS, RELATIONS)


def text_of(model: TrainedModel) -> Text:
    """The twenty sentences of its test set, with their translations and trees."""
    (test,) = model.corpus.tests.values()
    trees = tuple(tree(tuple(line.split())) for line in test.source)
    return Text("test", test.source, test.target, trees, "gold")


def summary(measures: Measured) -> dict[str, list[float]]:
    """Of each measure its mean and maximum over what counted, and its intervals' mean lower end.

    `rare` is not among them: it needs a vocabulary of over 500 pieces.
    """
    found = {}
    for name, sums in measures.items():
        ratio, (low, _) = sums.ratio(), sums.interval()
        if not ratio.isnan().all():
            values = ratio.nanmean(), ratio.nan_to_num(-1).amax(), low.nanmean()
            found[name] = [float(value) for value in values]
    return found


def numbers(folder: Path) -> dict[str, list[float]]:
    """What the golden file holds: the heads of an untrained model, measured."""
    made = untrained_model(folder)
    return summary(measured(made, text_of(made), HeadsRun("test", 0), Store(folder / "runs")))


def versions(names: Iterable[str]) -> dict[str, int]:
    return {name: MEASURES[name].version for name in names}


def test_the_numbers_stand_as_long_as_the_versions(tmp_path: Path):
    found = numbers(tmp_path)
    GOLDEN.check(found, versions(found))


def test_a_changed_formula_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plain = heads.TokenAsymmetry.contributions

    def larger(self, tape, batch):
        numerator, denominator = plain(self, tape, batch)
        return 1.01 * numerator, denominator

    monkeypatch.setattr(heads.TokenAsymmetry, "contributions", larger)
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(found := numbers(tmp_path), versions(found))


def stored(store: Store) -> dict[str, int]:
    """When every measure in the store was written, by name and version."""
    found = {}
    for file in (store.root / "heads").glob("*/run.json"):
        config = json.loads(file.read_text())["ingredients"]["config"]
        found[f"{config['measure']} {config['version']}"] = file.stat().st_mtime_ns
    return found


def test_a_new_measure_measures_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, store = untrained_model(tmp_path), Store(tmp_path / "runs")
    run = HeadsRun("test", 0)
    first = measured(model, text_of(model), run, store)
    before, calls = stored(store), []
    assert before.keys() == {f"{name} 1" for name in MEASURES}

    def measuring(_: object, batches: list, measures: list, progress: object) -> None:
        calls.append([type(each) for each in measures])
        collect(_, batches, measures, progress)

    toy = Entry(lambda given: Confidence(Kind.ENCODER, given.choices.counting))
    monkeypatch.setitem(MEASURES, "toy", toy)
    monkeypatch.setattr(heads, "collect", measuring)
    again = measured(model, text_of(model), run, store)
    assert calls == [[Confidence]]
    assert stored(store).items() - before.items() == {("toy 1", stored(store)["toy 1"])}
    assert torch.equal(again["toy"].numerator, first["confidence/encoder"].numerator)
    assert again.keys() == {*first, "toy"}


def test_a_new_version_measures_that_measure_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, store = untrained_model(tmp_path), Store(tmp_path / "runs")
    measured(model, text_of(model), HeadsRun("test", 0), store)
    before = stored(store)
    monkeypatch.setitem(MEASURES, "rare", replace(MEASURES["rare"], version=2))
    measured(model, text_of(model), HeadsRun("test", 0), store)
    assert {name for name, _ in stored(store).items() - before.items()} == {"rare 2"}


def test_one_record_stands_for_all_measures_of_a_commit(tmp_path: Path):
    model, store = untrained_model(tmp_path), Store(tmp_path / "runs")
    measured(model, text_of(model), HeadsRun("test", 0), store)
    (record,) = store.records()
    assert record["ingredients"]["stage"]["name"] == "heads"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, store: Store) -> TrainedModel:
    return trained(untrained_model(tmp_path_factory.mktemp("made")).run, store)


@pytest.fixture(scope="module")
def text(model: TrainedModel) -> Text:
    return text_of(model)


def test_asked_again_it_reads_the_store(
    model: TrainedModel, text: Text, store: Store, monkeypatch: pytest.MonkeyPatch
):
    first = measured(model, text, HeadsRun("test"), store)
    monkeypatch.setattr(heads, "_measure", None)
    assert same(first, measured(model, text, HeadsRun("test"), store))


def test_another_text_choice_or_update_is_measured_anew(
    model: TrainedModel, text: Text, store: Store, monkeypatch: pytest.MonkeyPatch
):
    measured(model, text, HeadsRun("test"), store)
    monkeypatch.setattr(heads, "_measure", None)
    fewer = Text("test", text.sentences[:9], text.targets[:9], text.trees[:9], "gold")
    other_choice = HeadsRun("test", None, Choices(rare_unit=heads.RareUnit.SENTENCE))
    others = [(fewer, HeadsRun("test")), (text, HeadsRun("test", 1)), (text, other_choice)]
    for other, run in others:
        with pytest.raises(TypeError):
            measured(model, other, run, store)


def test_update_nought_is_the_untrained_model(model: TrainedModel, text: Text, store: Store):
    before = measured(model, text, HeadsRun("test", 0), store)
    confidence = before["confidence/encoder"].ratio()
    sums = heads.Confidence(heads.Kind.ENCODER)
    batches = list(heads.in_order(heads.encoded(model, text), 100))
    heads.collect(model.untrained(), batches, [sums], progress=list)
    torch.testing.assert_close(confidence, sums.compute())
    after = measured(model, text, HeadsRun("test", 2), store)["confidence/encoder"].ratio()
    assert not torch.equal(confidence, after)


def test_an_unknown_snapshot_is_refused(model: TrainedModel, text: Text, store: Store):
    with pytest.raises(UserError, match=r"update 5; kept: \[1, 2\]"):
        measured(model, text, HeadsRun("test", 5), store)


def test_every_measure_has_its_shape(model: TrainedModel, text: Text, store: Store):
    sums = measured(model, text, HeadsRun("test"), store)
    shapes = {name: tuple(each.ratio().shape) for name, each in sums.items()}
    kinds = {f"confidence/{kind}": (1, 2) for kind in heads.Kind}
    kinds |= {f"positional/{kind}": (1, 2, 11) for kind in heads.Kind}
    assert shapes == kinds | {
        "asymmetry": (1, 2), "offsets": (41, 8), "syntactic": (1, 2, 8), "rare": (1, 2, 2),
        "rare chance": (1, 1, 2), "random syntactic": (1, 1, 8), "random rare": (1, 1, 2),
        "random confidence/encoder": (1, 1), "random positional/encoder": (1, 1, 11),
    }  # fmt: skip


def test_the_trees_are_laid_on_the_right_sentences(model: TrainedModel, text: Text, store: Store):
    offsets = measured(model, text, HeadsRun("test"), store)["offsets"].ratio()
    places = offsets.argmax(0) - 20
    assert places.tolist() == [-1, 1, 3, -3, -1, 1, 4, -4]
    assert offsets.amax(0).tolist() == [1.0] * 8


def test_a_text_without_translations_measures_the_encoder_only(
    model: TrainedModel, text: Text, store: Store
):
    alone = Text("alone", text.sentences, None, text.trees, "gold")
    sums = measured(model, alone, HeadsRun("alone"), store)
    assert {name for name in sums if "/" in name} == {
        "confidence/encoder", "positional/encoder",
        "random confidence/encoder", "random positional/encoder",
    }  # fmt: skip
    both = measured(model, text, HeadsRun("test"), store)
    for name in ("confidence/encoder", "positional/encoder", "syntactic"):
        torch.testing.assert_close(sums[name].ratio(), both[name].ratio(), equal_nan=True)


if __name__ == "__main__":
    GOLDEN.write(numbers, versions)
