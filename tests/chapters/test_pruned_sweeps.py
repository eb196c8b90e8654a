"""The tables of a sweep whose closed heads, translations and scores are planted, untrained."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sacrebleu.metrics import BLEU

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.model import Size, TrainedModel
from headbook.artefacts.pruned import CONTROL, EVERYTHING, PrunedModel
from headbook.artefacts.texts import Text
from headbook.chapters.measurements import Measurement
from headbook.chapters.profile import PROFILES
from headbook.chapters.specialised_heads import _kept_roles as kept_roles
from headbook.chapters.specialised_heads._kept_roles import (
    Survival,
    function_rows,
)
from headbook.chapters.specialised_heads._pruned_tables import (
    BEFORE,
    Sweep,
    Translated,
    compared,
    control_table,
    gap_claim,
    loss_claim,
    mean_gap,
    near_ten_of_48,
    point_rows,
    under_half,
)
from headbook.chapters.specialised_heads.pruning_everything import Order, controls
from headbook.chapters.sweeps import FURTHER, GATES, NOT_LEARNED, RANDOM, SCRATCH, Kinds, Point
from headbook.corpora.pairs import Pairs, Report
from headbook.corpora.readers import ParallelCorpus
from headbook.heads.measure import RatioSums
from headbook.heads.positional import REACH
from headbook.runs.store import Ingredients, Store
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import HeadId, Kind

SIZE = Size(layers=3, width=16, feed_forward=16, heads=4)
WORDS = ["the", "old", "dog", "sees", "a", "small", "red", "house", "near", "the", "river", "today"]
SENTENCES = 30
ENCODER = (Kind.ENCODER,)
PENALTIES = (0.01, 0.1, 0.3)


def references() -> tuple[str, ...]:
    return tuple(" ".join(WORDS[at % 4 :] + WORDS[: at % 4]) + "." for at in range(SENTENCES))


def translations(wrong: int) -> list[str]:
    """The references, with another last word in so many of them."""
    return [
        line.replace("river", "lake") if number < wrong else line
        for number, line in enumerate(references())
    ]


def first_heads(kinds: Kinds, count: int) -> tuple[HeadId, ...]:
    """So many heads, block by block from the first kind's first layer."""
    every = [HeadId(kind, layer, head) for kind in kinds for layer in range(SIZE.layers)
             for head in range(SIZE.heads)]  # fmt: skip
    return tuple(every[:count])


def write(folder: Path, wrong: int, closed: Sequence[HeadId] = (), **columns: float) -> None:
    folder.mkdir(parents=True)
    (folder / "test.txt").write_text("\n".join(translations(wrong)) + "\n")
    curve = {"update": [5, 10], "valid_loss_nats": [2.0, 3.0]} | columns
    pd.DataFrame(curve).to_csv(folder / "curve.csv", index=False)
    heads = [(str(head.kind), head.layer, head.head) for head in closed]
    (folder / "heads.json").write_text(json.dumps({"closed": heads, "gates": []}))


def trained_model(folder: Path, wrong: int) -> TrainedModel:
    write(folder, wrong)
    run = replace(PROFILES["smoke"].models[0], size=SIZE)
    lines = references()
    test = Pairs(lines, lines)
    report = Report(Counter(), Counter())
    corpus = ParallelCorpus("planted", "xx", test, test, {"test": test}, "none", report)
    return TrainedModel(run, folder, corpus)


def sweep(
    folder: Path,
    closed: Sequence[Sequence[HeadId]],
    kinds: Kinds = EVERYTHING,
    wrong: Sequence[int] = (6, 9, 12),
) -> Sweep:
    """A model with 8 faults, 4 after training further, then `wrong`; controls of the last point.

    Random heads have 2 faults more than the point, those from scratch 3 fewer.
    """
    base = trained_model(folder / "base", 8)

    def point(arm: str, penalty: float, heads: Sequence[HeadId], faults: int) -> Point:
        where = folder / f"{arm} {penalty}"
        saturated = {"saturated_share": [0.25, 0.75]} if arm == GATES else {}
        write(where, faults, heads, **saturated)
        made_by = Ingredients(CONTROL, None, {}, {})
        return Point(arm, penalty, PrunedModel(base.run, where, base.corpus, base, made_by))

    points = [point(GATES, *each) for each in zip(PENALTIES, closed, wrong, strict=False)]
    last = points[-1]
    controls = [(RANDOM, wrong[-1] + 2), (SCRATCH, wrong[-1] - 3)] if last.closed else []
    made = {arm: point(arm, last.penalty, last.closed, faults) for arm, faults in controls}
    return Sweep(
        base, kinds, tuple(points), point(FURTHER, NOT_LEARNED, (), 4),
        tuple(made[arm] for arm in made if arm == RANDOM),
        tuple(made[arm] for arm in made if arm == SCRATCH),
    )  # fmt: skip


def measurement(model: TrainedModel, positional: torch.Tensor) -> Measurement:
    """Encoder heads with these shares at the left neighbour, the rest at the own token."""
    layers, heads = positional.shape
    columns = len(RELATION_DIRECTIONS)

    def sums(values: torch.Tensor) -> RatioSums:
        planted = values.double().expand(2, 3, *values.shape)
        return RatioSums(planted, torch.ones_like(planted))

    shares = torch.zeros(layers, heads, 2 * REACH + 1)
    shares[..., REACH - 1] = positional
    shares[..., REACH] = 1 - positional  # the own token is no role, and comes no nearer to one
    found = {
        "confidence/encoder": sums(positional[..., None]),
        "positional/encoder": sums(shares),
        "syntactic": sums(torch.full((layers, heads, columns), 0.2)),
        "offsets": sums(torch.full((2 * REACH + 1, columns), 0.2)),
        "rare": sums(torch.full((layers, heads, 2), 0.01)),
    }
    text = Text("held-out", ("a dog",), ("a dog",), (), "gold")
    return Measurement(model, text, HeadsRun("held-out"), found)


def encoder_grid(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(SIZE.layers, SIZE.heads)


@pytest.fixture
def encoder(tmp_path: Path) -> Sweep:
    """12 encoder heads; the points keep 11, 5 and 2."""
    return sweep(tmp_path, [first_heads(ENCODER, count) for count in (1, 7, 10)], ENCODER)


def bleu(wrong: int) -> float:
    metric = BLEU()
    return metric.corpus_score(translations(wrong), [list(references())]).score


def test_every_model_has_a_row_with_its_distances(encoder: Sweep):
    rows = point_rows(encoder).set_index("arm")
    assert rows.loc[GATES, "kept"].tolist() == rows.loc[GATES, "encoder_kept"].tolist()
    assert rows.loc[GATES, "kept"].tolist() == [11, 5, 2] and (rows["of"] == 12).all()
    assert rows.loc[GATES, "encoder_heads"].iloc[-1] == "L3H3 L3H4"
    assert rows.loc[BEFORE, "encoder_heads"].count("L") == 12
    assert rows.loc[BEFORE, "bleu"] == pytest.approx(bleu(8))
    assert rows.loc[FURTHER, "to_before"] == pytest.approx(bleu(4) - bleu(8))
    assert np.isnan(rows.loc[FURTHER, "to_further"]) and np.isnan(rows.loc[BEFORE, "to_before"])
    gates = rows.loc[GATES]
    assert gates["to_further"].tolist() == pytest.approx([bleu(n) - bleu(4) for n in (6, 9, 12)])
    assert (gates["to_further_low"] < gates["to_further"]).all()
    assert (gates["bleu_low"] < gates["bleu"]).all() and (gates["bleu"] < gates["bleu_high"]).all()
    assert (gates["saturated_share"] == 0.75).all() and np.isnan(
        rows.loc[RANDOM, "saturated_share"]
    )
    assert rows.loc[BEFORE, "valid_loss_nats"] == 2.0 and (gates["valid_loss_nats"] == 3.0).all()


def test_the_model_before_is_scored_on_as_many_sentences_as_the_pruned_ones(encoder: Sweep):
    for point in (*encoder.points, encoder.whole, *encoder.random, *encoder.scratch):
        file = point.made.folder / "test.txt"
        file.write_text("\n".join(file.read_text().splitlines()[:20]) + "\n")
    rows = point_rows(encoder).set_index("arm")
    metric = BLEU()
    first = metric.corpus_score(translations(8)[:20], [list(references()[:20])]).score
    assert rows.loc[BEFORE, "bleu"] == pytest.approx(first) and first < bleu(8)
    assert np.isfinite(rows.loc[FURTHER, "to_before"])


def test_equal_translations_are_not_called_different(encoder: Sweep):
    again = Translated("again", NOT_LEARNED, encoder.base)
    test = compared(again, encoder.before)
    assert (test.difference, test.low, test.high, test.p) == (0.0, 0.0, 0.0, 1.0)


def test_controls_stand_beside_their_own_point(encoder: Sweep):
    rows = control_table([encoder]).set_index("control")
    assert rows["penalty"].tolist() == [0.3, 0.3] and rows["kept"].tolist() == [2, 2]
    assert rows.loc[RANDOM, "gap"] == pytest.approx(bleu(12) - bleu(14))
    assert rows.loc[SCRATCH, "gap"] == pytest.approx(bleu(12) - bleu(9))
    gap = mean_gap(encoder, RANDOM)
    low, high = np.quantile(gap[1:], [0.025, 0.975])
    assert gap[0] == pytest.approx(rows.loc[RANDOM, "gap"])
    assert (low, high) == pytest.approx(tuple(rows.loc[RANDOM, ["gap_low", "gap_high"]]))
    row = gap_claim("voita-s6-choice-matters", encoder, RANDOM)
    assert row["low"] == pytest.approx(low) and row["low"] >= 0


def test_the_points_of_the_claims(encoder: Sweep, tmp_path: Path):
    assert under_half(encoder) is encoder.learned[1]
    assert near_ten_of_48(encoder) is encoder.learned[2]
    row = loss_claim("voita-f7-half", encoder, under_half(encoder))
    assert row["value"] == pytest.approx(bleu(9) - bleu(4)) and row["baseline"] == bleu(4)
    tied = sweep(tmp_path / "tied", [first_heads(ENCODER, n) for n in (9, 10, 10)], ENCODER)
    assert under_half(tied) is tied.learned[0]
    assert near_ten_of_48(tied) is tied.learned[1], "3 and 2 of 12 are equally near to 2.5"
    none = sweep(tmp_path / "none", [first_heads(ENCODER, n) for n in (0, 6)], ENCODER, (5, 6))
    assert under_half(none) is None and near_ten_of_48(none) is None
    assert np.isnan(loss_claim("voita-f7-half", none, None)["value"])


def test_kept_heads_with_a_role_and_near_one(encoder: Sweep):
    shares = encoder_grid([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.87, 0.92, 0.95])
    found = Survival(encoder, measurement(encoder.base, shares))
    gap = found.specialised_gap()
    assert gap[0] == pytest.approx(1 - (9 + 3) / 30), "roles: the two that no point closes"
    assert found.scores["nearness"].iloc[-1] == pytest.approx(0.95 / 0.9)


def test_without_roles_or_points_there_is_no_number(tmp_path: Path):
    whole = sweep(tmp_path, [(), first_heads(ENCODER, 12)], ENCODER, (5, 6))
    found = Survival(whole, measurement(whole.base, encoder_grid([0.1] * 12)))
    assert np.isnan(found.specialised_gap()).all()


def test_functions_are_counted_among_kept_heads(
    encoder: Sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    before = encoder_grid([0.91, *[0.1] * 10, 0.95])
    after = encoder_grid([0.91, *[0.1] * 9, 0.92, 0.95])
    monkeypatch.setattr(kept_roles, "measure", lambda model, *_: measurement(model, after))
    found = Survival(encoder, measurement(encoder.base, before))
    rows = function_rows(found, Store(tmp_path))
    assert rows["arm"].tolist() == [BEFORE, FURTHER, GATES, GATES, GATES]
    assert rows["positional"].tolist() == [2, 3, 2, 2, 2], "the first head is closed in every point"
    assert rows["none"].tolist() == [10, 9, 9, 3, 0]
    assert rows["new"].tolist() == [0, 1, 1, 1, 1]
    assert rows["mean_neighbour"].iloc[-1] == pytest.approx((0.92 + 0.95) / 2)


def test_the_order_of_kinds_and_layers(tmp_path: Path):
    closed = first_heads(EVERYTHING, 12)
    decoder_high = tuple(HeadId(Kind.DECODER, 2, head) for head in range(4))
    cross_low = tuple(HeadId(Kind.CROSS, 0, head) for head in range(2))
    points = [closed, (*closed, *decoder_high, *cross_low), first_heads(EVERYTHING, 34)]
    order = Order(sweep(tmp_path, points))
    assert order.encoder_first()[0] == pytest.approx(((2 / 3 + 1) / 2 + (5 / 6 + 1) / 2) / 2)
    assert order.cross_last()[0] == pytest.approx((5 / 6 + 1) / 2 - (2 / 3 + 1) / 2)
    assert order.high_minus_low(Kind.DECODER)[0] == pytest.approx(0.5 - 1)
    assert order.high_minus_low(Kind.CROSS)[0] == pytest.approx(1 - 0.75)
    assert (order.encoder_first()[1:] > 0).all() and len(order.encoder_first()) > 1
    nothing = Order(sweep(tmp_path / "nothing", [(), first_heads(EVERYTHING, 36)]))
    assert np.isnan(nothing.encoder_first()).all() and np.isnan(nothing.cross_last()).all()


def test_the_table_of_controls(encoder: Sweep, tmp_path: Path):
    (row,) = controls({"controls": control_table([encoder])}).to_dict("records")
    assert row["heads left"] == 2 and row["BLEU"] == f"{bleu(12):.1f}"
    assert row["minus random heads"].startswith(f"+{bleu(12) - bleu(14):.1f} [")
    assert row["minus from scratch"].startswith(f"−{bleu(9) - bleu(12):.1f} [")
    whole = sweep(tmp_path / "whole", [()], ENCODER, (5,))
    assert control_table([whole]).empty and np.isnan(mean_gap(whole, SCRATCH)).all()
