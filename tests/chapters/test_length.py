"""Page 48: exponents, gains and reaches whose value is known; texts whose answer is."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts import nested
from headbook.artefacts.lengths import BACK, FEEDING, FORWARD, LengthRun, lengths, times
from headbook.artefacts.retrieval import RetrievalRun, answers, start
from headbook.chapters.why import length as page
from headbook.chapters.why.length import Parameters, compute, crossover, quicker, reach, slope
from headbook.corpora.batches import PAD
from headbook.corpora.nested_lists import NestedLists, nested_lists
from headbook.corpora.retrieval import CHANCE, KEYS, VALUES, VOCABULARY, retrieval
from headbook.corpora.small_tasks import value as evaluated
from headbook.models.mixing import Mixing
from headbook.runs.store import Store
from headbook.types import UserError

SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)


def taken(**seconds) -> pd.DataFrame:
    """Times of kinds by formulas of the length, both directions, two rounds."""
    return pd.DataFrame([
        {"kind": kind, "length": n, "direction": direction, "round": number, "seconds": each(n)}
        for kind, each in seconds.items() for n in SIZES for direction in (FORWARD, BACK)
        for number in (1, 2)
    ])  # fmt: skip


TIMES = taken(**{Mixing.FULL: lambda n: n**2 / 1e6, Mixing.WINDOW: lambda n: n / 1e3,
                 Mixing.LSTM: lambda n: n * 10.0, FEEDING: lambda n: n / 1e3})  # fmt: skip


def test_exponents_and_the_length_from_which_a_kind_is_quicker():
    for kind, wanted in ((Mixing.FULL, 2), (Mixing.WINDOW, 1)):
        own = TIMES[(TIMES["kind"] == kind) & (TIMES["direction"] == BACK)]
        assert slope(own, "seconds") == pytest.approx(wanted)
    # n² / 10⁶ = n / 10³ at a thousand tokens
    assert crossover(TIMES, Mixing.WINDOW) == pytest.approx(1000)
    assert np.isnan(crossover(TIMES, Mixing.LSTM))
    quick = taken(**{Mixing.FULL: lambda n: n**2 * 1.0, Mixing.WINDOW: lambda n: n / 1e3})
    assert crossover(quick, Mixing.WINDOW) == SIZES[0]


def test_gains_are_of_a_whole_layer():
    found = quicker(TIMES).set_index(["kind", "length"])["value"]
    for n in SIZES:
        wanted = (n**2 / 1e6 + n / 1e3) / (2 * n / 1e3)
        assert found[Mixing.WINDOW, n] == pytest.approx(wanted)


def test_reach_of_two_layers():
    window = reach(Mixing.WINDOW, page.TASK, 2)
    assert window.nonzero()[0].tolist() == list(range(page.NEAR + 1))
    assert reach(Mixing.FULL, page.TASK, 2).all() and reach(Mixing.GLOBAL, page.TASK, 1).all()
    assert not reach(Mixing.GLOBAL, page.TASK, 1, last=True).all()
    assert reach(Mixing.GLOBAL, page.TASK, 2, last=True).all()
    drawn = reach(Mixing.RANDOM, page.TASK, 2)
    assert window.sum() < drawn.sum() < page.TASK.length


@pytest.mark.parametrize("last", [False, True])
def test_the_value_that_is_asked_for_stands_where_it_says(last):
    drawn = retrieval(33, 4, 200, torch.Generator().manual_seed(0), last=last)
    for text, value, distance in zip(*map(torch.Tensor.tolist, (
            drawn.texts, drawn.values, drawn.distances)), strict=True):  # fmt: skip
        text = text[::-1] if last else text
        key = text[0] - PAD - 1 - KEYS * VALUES
        pairs = [each - PAD - 1 for each in text[1:] if each <= PAD + KEYS * VALUES]
        assert len(pairs) == 4 and [each % VALUES for each in pairs if each // VALUES == key] == [
            value
        ]
        assert text[distance] == PAD + 1 + key * VALUES + value
    assert drawn.distances.min() == 1 and 24 < drawn.distances.max() < 33
    # as many within the square root of the length as beyond
    assert 0.4 < (drawn.distances < 33**0.5).float().mean() < 0.7
    assert drawn.texts.max() < VOCABULARY
    with pytest.raises(UserError, match="9 pairs in texts of 33 tokens: give 1 to 8"):
        retrieval(33, 9, 1, torch.Generator())


def test_an_untrained_window_does_not_feel_what_is_out_of_reach():
    model = start(RetrievalRun(Mixing.WINDOW, page.TASK)).eval()
    drawn = retrieval(page.TASK.length, 4, 20, torch.Generator().manual_seed(0))
    changed = drawn.texts.clone()
    changed[:, page.NEAR + 1 :] = PAD + 1
    with torch.no_grad():
        torch.testing.assert_close(model(drawn.texts), model(changed))
        changed[:, page.NEAR] = PAD + 1
        assert not torch.allclose(model(drawn.texts), model(changed))


def test_answers_are_right_where_the_value_is_named():
    drawn = retrieval(33, 4, 150, torch.Generator().manual_seed(0))

    class Oracle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.batches = iter(drawn.values.split(100))

        def forward(self, texts):
            return torch.nn.functional.one_hot(next(self.batches), VALUES).float()

    found = answers(Oracle(), drawn)
    assert found["right"].all() and found["distance"].tolist() == drawn.distances.tolist()


def toy() -> dict[str, pd.DataFrame]:
    kinds = {str(kind): (lambda n, power=2 if kind in page.SQUARE else 1: 1e-6 * n**power)
             for kind in Mixing}  # fmt: skip
    times = taken(**kinds, **{FEEDING: lambda n: 1e-6 * n})
    memory = times[times["round"] == 1].assign(bytes=lambda rows: rows["seconds"])
    retrieved = [
        {"kind": str(kind), "asks": page.FIRST, "seed": seed, "near": 1.0, "texts": 9,
         "far": {Mixing.FULL: 1.0, Mixing.WINDOW: CHANCE}.get(kind, (1 + CHANCE) / 2),
         "reached": 1.0} for kind in page.TRAINED for seed in range(3)
    ]  # fmt: skip
    # full attention knows 20 points beyond guessing, windows half of that, linear attention none
    right = {Mixing.FULL: 0.5, Mixing.WINDOW: 0.4, Mixing.LINEAR: 0.3}
    lists = [{"kind": str(kind), "seed": seed, "right": right.get(kind, 0.5), "guess": 0.3}
             for kind in page.SOLVING for seed in range(3)]  # fmt: skip
    return {"times": times, "memory": memory, "retrieval": pd.DataFrame(retrieved),
            "lists": pd.DataFrame(lists)}  # fmt: skip


def test_claims_by_hand():
    found = page.claims(toy()).groupby("claim")["value"].agg(["min", "max"])
    wanted = {
        "length-full-quadratic": 2, "length-others-linear": 1, "length-memory-quadratic": 2,
        "length-window-stays-near": 0, "length-far-is-repaired": 0.5,
        "length-linformer-finds": 0.5, "length-linformer-quicker-512": 513 / 2,
        "length-linformer-memory-4096": 4096, "length-lists-window-loses": 0.5,
        "length-lists-linear-loses": 0, "length-lists-others-keep": 1,
    }  # fmt: skip
    for claim, value in wanted.items():
        assert found.loc[claim].tolist() == pytest.approx([value, value])
    assert found.loc["length-memory-linear"].tolist() == pytest.approx([1, 2])  # the fused one is 2


def test_lists_that_full_attention_has_not_learned_judge_no_other_kind():
    young = toy()["lists"].assign(right=lambda rows: rows["guess"] + 0.1 * (rows["right"] - 0.3))
    closed = page.claims({"lists": young})["closed"]
    assert closed.str.startswith("converged").all()
    assert set(page.claims({"lists": toy()["lists"]})["closed"]) == {"none"}


def test_nested_lists_come_to_their_values_and_none_is_tested_that_was_learned():
    known, asked = nested_lists(24, 300, 100)
    rows = [tuple(row.tolist()) for row in torch.cat([known.texts, asked.texts])]
    assert len(set(rows)) == len(rows) == 400
    for row, wanted in zip(rows, [*known.values, *asked.values], strict=True):
        tokens = [each - PAD - 1 for each in row if each != PAD]
        assert 16 <= len(tokens) <= 24 and evaluated(tokens) == int(wanted)
    # the best guess knows the operator alone: maxima are large and minima small
    assert 0.2 < known.guessed(asked) < 0.4
    whole = NestedLists(asked.texts, torch.full((100,), 7))
    assert whole.guessed(whole) == 1 and whole.guessed(asked) < 0.3
    with pytest.raises(UserError, match="at most 9 tokens: give 16 or more"):
        nested_lists(9, 1, 1)


def test_an_encoder_learns_nested_lists_and_the_store_keeps_its_accuracy(monkeypatch, tmp_path):
    monkeypatch.setattr(nested, "TRAINED", 20)
    monkeypatch.setattr(nested, "TESTED", 20)
    run = nested.NestedRun(Mixing.FULL, page.LISTS, updates=60)
    model, (known, _) = nested.train(run), nested.texts(run)
    assert nested.accuracy(model, known) > 0.9
    found = nested.solved(run, Store(tmp_path))
    monkeypatch.setattr(nested, "train", None)
    assert nested.solved(run, Store(tmp_path)) == found < 0.9


def test_times_of_every_kind_are_measured_in_turns():
    found = pd.DataFrame(times(LengthRun(rounds=1, longest=128)))
    assert {*found["kind"]} == {*Mixing, FEEDING} and (found["seconds"] > 0).all()


def test_the_live_part_and_what_is_refused(tmp_path):
    store = Store(tmp_path)
    tables = compute(Parameters(longest=128), store)
    assert tables.keys() == {"memory"} and {*tables["memory"]["length"]} == {128}
    assert page.facts(tables)["near"] == "8"
    with pytest.raises(UserError, match="has 64 tokens: give 128 or more"):
        compute(Parameters(longest=64), store)
    with pytest.raises(UserError, match="give 0 or more"):
        compute(Parameters(rounds=-1), store)
    with pytest.raises(UserError, match="0 rounds of timing"):
        LengthRun(rounds=0)
    assert lengths(8192) == list(SIZES)
