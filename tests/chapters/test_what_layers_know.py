"""Page 39: which models and tokens are compared, known curves and claims, tables and figures."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.encoders import Objective
from headbook.chapters import config as configs
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _layer_claims as layer_claims
from headbook.chapters.diversity import _layer_tables as layer_tables
from headbook.chapters.diversity import what_layers_know as study
from headbook.chapters.diversity._layer_models import Task, Text
from headbook.chapters.diversity._layer_tables import (
    BINS,
    HIDDEN,
    INPUT,
    MASKINGS,
    PREDICTED,
    REPLACED,
    SEEDS,
    TASKS,
    TRAINED,
    UNTRAINED,
    WHOLE,
)
from headbook.chapters.profile import PROFILES, LayerSample
from headbook.chapters.results import published
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.batches import EOS
from headbook.layers.pwcca import basis
from headbook.runs.store import Store
from headbook.types import UserError

NAME = "39_what_layers_know"


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield study.trained_here(Config("smoke"), Store.default())


def test_language_models_differ_from_the_translation_model_in_nothing_but_their_task() -> None:
    runs, text = Config("laptop").encoder_models(), Config("laptop").one_model()
    assert [(run.objective, run.training.seed) for run in runs] == [
        (objective, seed) for seed in (0, 1) for objective in Objective
    ]
    for run in runs:
        own = replace(text.training, label_smoothing=0.0, seed=run.training.seed)
        assert (run.text, run.training) == (text, own)
    assert all(profile.layers for profile in PROFILES.values() if not profile.joins)


def test_overrides_reach_them() -> None:
    asked = Config("smoke", corpus="controlled-vso", updates=3, seed=7, sentences=11)
    runs = asked.encoder_models()
    assert {(run.text.corpus, run.training.updates, run.training.seed) for run in runs} == {
        ("controlled-vso", 3, 7)
    }
    assert len(runs) == len(Objective) and {run.text.training.seed for run in runs} == {0}
    assert asked.layer_sample().sentences == 11


def test_a_profile_without_a_sample_trains_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {"smoke": replace(PROFILES["smoke"], layers=None)}
    monkeypatch.setattr(configs, "PROFILES", bare)
    assert Config("smoke").encoder_models() == ()
    with pytest.raises(UserError, match="compares no layers"):
        Config("smoke").layer_sample()


def a_text(**changed: int) -> Text:
    """Token 5 eighty times, 6 and 7 forty times; 8 only at the start."""
    rows = [[8, 5, 6, 5, 7, EOS] for _ in range(40)]
    return Text(rows, 12, replace(LayerSample(kinds=3, occurrences=30, compared=50), **changed))


def test_occurrences_are_of_frequent_tokens_behind_another() -> None:
    text = a_text(kinds=4)
    places = text.occurrences()
    assert text.tokens[places].bincount().tolist() == [0] * 5 + [30, 30, 30]
    assert bool((places % 5 > 0).all())  # the first token is none of them, however frequent
    assert len(text.everywhere()) == 50


@pytest.mark.parametrize("kind", MASKINGS)
def test_changed_places_know_what_stood_there(kind: str) -> None:
    text = a_text()
    changed = text.changed(MASKINGS[kind])
    originals = text.tokens.repeat(text.sample.copies)
    assert torch.equal(originals[changed.places], changed.wanted)
    assert torch.isin(changed.wanted, text.frequent).all()
    shown = set(changed.shown.tolist())
    assert shown == ({12} if kind == HIDDEN else set(text.frequent.tolist()))


def test_bins_are_of_as_many_tokens_and_small_ones_are_left_out() -> None:
    rows = [[5 + number % 9, 20 + number % 60, EOS] for number in range(1200)]
    text = Text(rows, 200, LayerSample(compared=10_000))
    found = layer_tables._bins(text, least=300)
    assert list(found) == ["1 to 10", "11 to 100"]
    assert len({len(places) for places in found.values()}) == 1
    kinds = [set(text.tokens[places].tolist()) for places in found.values()]
    assert not kinds[0] & kinds[1] and len(kinds[0]) <= 10
    assert list(layer_tables._bins(text, least=10**6)) == []


def planted_bases() -> dict[tuple[Task, int], list[object]]:
    """Every task's layers are one random state, so that nothing changes; seeds are unrelated."""
    found = {}
    for number, task in enumerate(Task):
        for seed in (0, 1):
            generator = torch.Generator().manual_seed(10 * number + seed)
            found[task, seed] = [basis(torch.randn(300, 4, generator=generator))] * 3
    return found


def test_distances_are_between_tasks_of_one_seed_and_seeds_of_one_task() -> None:
    rows = layer_tables.between_rows(planted_bases())
    tasks, seeds = (rows[rows["between"] == each] for each in (TASKS, SEEDS))
    assert (tasks["seed"] == tasks["other_seed"]).all() and (tasks["one"] != tasks["other"]).all()
    assert (seeds["seed"] != seeds["other_seed"]).all() and (seeds["one"] == seeds["other"]).all()
    assert (len(tasks), len(seeds)) == (3 * 2 * 3, 3 * 3)
    assert rows["distance"].min() > 0.8
    assert layer_tables.step_rows(planted_bases())["distance"].abs().max() < 1e-9


def curves(values: dict[tuple[Task, str, str], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"task": str(task), "seed": 0, "version": TRAINED, "text": text, "token": token,
             "layer": layer, "nats": nats, "null_nats": 0.0}
            for (task, token, text), own in values.items()
            for layer, nats in enumerate(own)
        ]
    )  # fmt: skip


WORK = curves(
    {
        (Task.TRANSLATION, INPUT, WHOLE): [5.22, 5.21, 5.20, 5.10, 4.94, 4.76, 4.475],
        (Task.LANGUAGE, INPUT, WHOLE): [5.30, 5.285, 5.22, 5.045, 4.81, 4.47, 3.97],
        (Task.MASKED, INPUT, WHOLE): [5.215, 5.21, 5.18, 5.045, 4.93, 4.99, 5.10],
        (Task.LANGUAGE, PREDICTED, WHOLE): [1.81, 2.10, 2.18, 2.25, 2.30, 2.34, 2.35],
        (Task.MASKED, INPUT, REPLACED): [6.9, 6.9, 6.83, 5.4, 2.3, 1.42, 0.95],
        (Task.MASKED, PREDICTED, REPLACED): [0.73, 0.70, 0.96, 1.34, 2.05, 2.36, 2.38],
    }
)
"""The work's own numbers."""
LABELS = {
    (task, 0): {"model": str(task), "corpus": "c", "target": "en", "seed": 0} for task in Task
}


def test_the_work_s_own_numbers_bear_its_claims_out() -> None:
    found = pd.DataFrame(list(layer_claims._information(LABELS, WORK)))
    values = found.set_index(["claim", "model"])["value"]
    language, masked = str(Task.LANGUAGE), str(Task.MASKED)
    expected = {
        ("evolution-translation-forgets", str(Task.TRANSLATION)): -0.745,
        ("evolution-language-forgets-more", language): -1.33 + 0.745,
        ("evolution-masked-remembers", masked): 0.17,
        ("evolution-language-predicts", language): 0.54,
        ("evolution-language-early", language): 0.29 / 0.54,
        ("evolution-masked-late", masked): 1.04 / 1.65,
        ("evolution-masked-forgets-replaced", masked): 0.95 / 6.9,
        ("xray-information-early", language): 0.29 / 0.54,
        ("xray-information-early", masked): -0.03 / 1.65,
    }
    assert values.to_dict() == pytest.approx(expected)


def test_what_is_gained_is_above_the_null() -> None:
    """The planted fault: a null that rises as fast as the estimate is no gain."""
    biased = WORK.assign(null_nats=WORK["nats"] - 0.1)
    gained = layer_claims.curve(biased, Task.LANGUAGE, 0, PREDICTED, WHOLE)
    assert gained.tolist() == pytest.approx([0.1] * 7)
    known = layer_claims.curve(biased, Task.LANGUAGE, 0, INPUT, WHOLE)
    assert known.iloc[-1] == 3.97


def test_a_gain_that_is_none_has_no_share() -> None:
    assert np.isnan(layer_claims.early_share(pd.Series([2.0, 1.5, 1.0])))
    assert np.isnan(layer_claims.late_share(pd.Series([2.0, 1.5, 2.0])))


def test_distances_are_held_against_the_larger_floor() -> None:
    apart = {(TASKS, "translation", "language model"): 0.6,
             (TASKS, "translation", "masked language model"): 0.5,
             (TASKS, "language model", "masked language model"): 0.55,
             (SEEDS, "translation", "translation"): 0.3,
             (SEEDS, "language model", "language model"): 0.35,
             (SEEDS, "masked language model", "masked language model"): 0.2}  # fmt: skip
    rows = pd.DataFrame(
        [
            {"between": between, "one": one, "other": other, "seed": 0, "layer": layer,
             "distance": value + 0.01 * (layer - 1.5) if layer else 9.0}
            for (between, one, other), value in apart.items() for layer in range(3)
        ]
    )  # fmt: skip
    found = pd.DataFrame(list(layer_claims._distances(LABELS, rows)))
    beyond = found[found["claim"] == "evolution-tasks-beyond-seeds"].set_index("model")
    assert beyond["baseline"].to_dict() == pytest.approx({
        "c translation, language model s0": 0.35,
        "c translation, masked language model s0": 0.3,
        "c language model, masked language model s0": 0.35,
    })  # fmt: skip
    assert beyond["value"].tolist() == pytest.approx([0.2, 0.25, 0.2])
    farther = found[found["claim"] == "evolution-language-farther"]["value"]
    assert farther.tolist() == pytest.approx([0.1])
    alone = pd.DataFrame(list(layer_claims._distances(LABELS, rows[rows["between"] == TASKS])))
    assert alone[alone["claim"] == "evolution-tasks-beyond-seeds"]["value"].isna().all()


def test_changes_by_layer_are_compared_as_the_claims_say() -> None:
    change = {Task.TRANSLATION: [0.09, 0.06, 0.04], Task.LANGUAGE: [0.05, 0.07, 0.08],
              Task.MASKED: [0.2, 0.06, 0.11]}  # fmt: skip
    steps = pd.DataFrame(
        [{"task": str(task), "seed": 0, "layer": layer, "distance": value}
         for task, own in change.items() for layer, value in enumerate(own, start=1)]
    )  # fmt: skip
    heads = steps.rename(columns={"distance": "dissimilarity"})
    bins = pd.concat(
        [steps.assign(ranks="1 to 10", distance=steps["distance"] + 0.03),
         steps.assign(ranks="101 to 1,000")]
    )  # fmt: skip
    rows = layer_claims._changes(LABELS, {"steps": steps, "heads": heads, "frequency": bins})
    values = pd.DataFrame(list(rows)).set_index(["claim", "model"])["value"]
    first = values["xray-first-layer-changes-most"]
    assert first.to_dict() == pytest.approx(
        {"translation": 0.03, "language model": -0.03, "masked language model": 0.09}
    )
    assert values["evolution-translation-settles"].tolist() == pytest.approx([-0.02])
    assert values["evolution-masked-last-step"].tolist() == pytest.approx([0.05])
    assert values["evolution-frequent-change-more"].tolist() == pytest.approx([0.03])
    assert values["layers-change-with-dissimilarity"].tolist() == pytest.approx([1.0] * 3)


def test_every_table_has_its_rows(tables: Tables) -> None:
    layers, seeds = 2, 2
    information = tables["information"]
    counts = information.groupby(["version", "text", "token"]).size().to_dict()
    assert counts == {
        (TRAINED, WHOLE, INPUT): 3 * seeds * (layers + 1),
        (UNTRAINED, WHOLE, INPUT): 3 * (layers + 1),
        (TRAINED, WHOLE, PREDICTED): seeds * (layers + 1),
        (TRAINED, REPLACED, INPUT): seeds * (layers + 1),
        (TRAINED, REPLACED, PREDICTED): seeds * (layers + 1),
        (TRAINED, HIDDEN, PREDICTED): seeds * (layers + 1),
    }
    assert len(tables["models"]) == 3 * seeds
    assert len(tables["steps"]) == len(tables["heads"]) == 3 * seeds * layers
    assert set(tables["frequency"]["ranks"]) <= set(BINS) and len(tables["frequency"])
    assert (information["nats"] <= information["entropy_nats"] + 1e-9).all()


def test_at_the_embedding_the_input_is_known_and_a_hidden_token_is_not(tables: Tables) -> None:
    """And that holds for models that learned nothing: so the tokens are those of the states."""
    rows = tables["information"]
    below = rows[rows["layer"] == 0]
    known = below[(below["token"] == INPUT) & (below["text"] == WHOLE)]
    assert (known["nats"] > 0.9 * known["entropy_nats"]).all()
    shown = below[(below["token"] == INPUT) & (below["text"] == REPLACED)]
    assert (shown["nats"] > 0.9 * shown["entropy_nats"]).all()
    gone = below[(below["token"] == PREDICTED) & (below["text"] == HIDDEN)]
    assert (gone["nats"] < 0.75 * gone["entropy_nats"]).all()


@pytest.mark.parametrize(("sentences", "said"),
                         [(1, "number of 4 or more"), (4, "make no 40 clusters")])  # fmt: skip
def test_too_few_sentences_is_one_line(sentences: int, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        study.trained_here(Config("smoke", sentences=sentences), Store.default())
    assert "\n" not in str(caught.value)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found = ledger.load()
    rows = checked(found, tables["claims"].astype({"seed": str}), NAME, "test")
    assert set(rows["claim"]) == {each.id for each in found.claims if each.study == NAME}


def test_the_figure_s_shares_end_at_one_and_the_paper_s_are_the_work_s_own() -> None:
    tables = {"information": pd.concat([WORK, WORK.assign(seed=1)]),
              "models": pd.DataFrame({"seed": [0, 1]})}  # fmt: skip
    rows = study.predicted(tables)
    assert rows.query("layer == 6")["value"].tolist() == pytest.approx([1, 1])
    both = rows.merge(study.paper(), on=["task", "layer"], suffixes=("", "_paper"))
    assert len(both) == 14 and both["value"].tolist() == pytest.approx(both["value_paper"].tolist())
    assert both["low"].equals(both["high"])


def test_distances_are_means_over_layers_by_pair() -> None:
    rows = [
        {"between": between, "one": "translation", "other": other, "seed": 0, "layer": layer,
         "distance": base + layer / 10}
        for between, other, base in ((TASKS, "language model", 0.2), (SEEDS, "translation", 0.0))
        for layer in (0, 1, 2)
    ]  # fmt: skip
    found = study.apart({"between": pd.DataFrame(rows)}).set_index("pair")
    assert found.loc["translation – language model", ["value", "low", "high"]].tolist() == (
        pytest.approx([0.35, 0.3, 0.4])
    )
    assert found.loc["translation, two seeds", "value"] == pytest.approx(0.15)


def test_the_facts_of_published_tables_hold_no_gap() -> None:
    facts = study.facts(published(NAME).tables)
    assert "nan" not in " ".join(map(str, facts.values()))
