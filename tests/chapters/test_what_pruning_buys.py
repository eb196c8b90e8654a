"""Page 24: gains by hand, and tables of a measurement that is taken once."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts import speed as stage
from headbook.artefacts.model import trained
from headbook.artefacts.speed import Speed, SpeedRun, Task
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen import what_pruning_buys as page
from headbook.chapters.words import OURS
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.types import HeadId, Kind

SMOKE = Config("smoke", corpus="controlled-svo")
ROUNDS = 4


@pytest.fixture(scope="module")
def tables() -> Tables:
    return page.trained_here(SMOKE, Store.default())


def measured(taken: Callable[[int, int, int], float], batches: Iterable[int] = (1, 64)) -> Speed:
    """A measurement whose seconds `taken` gives, by batch size, mask and round."""
    rows = [
        {"task": str(task), "batch": batch, "mask": mask, "round": number,
         "seconds": taken(batch, mask, number), "sentences": 8, "tokens": 80}
        for number in range(1, ROUNDS + 1) for batch in batches for task in Task
        for mask in (0, 1)
    ]  # fmt: skip
    sizes = pd.DataFrame(
        {"mask": [0, 1], "heads": [8, 4], "parameters": [1000, 900], "bytes": [4000, 3600],
         "attention_parameters": [250, 150], "largest_logit": [5.0, 4.0],
         "largest_difference": [0.0, 2e-6]}
    )  # fmt: skip
    closed = (HeadId(Kind.ENCODER, 0, 0),)
    return Speed(SpeedRun(((), closed), batches=tuple(batches)), pd.DataFrame(rows), sizes, {})


LABELS = {"model": "m", "corpus": "c", "target": "de", "seed": 0}


def claims(taken: Callable[[int, int, int], float]) -> pd.DataFrame:
    return pd.DataFrame(page._claims(LABELS, measured(taken), 1)).set_index("claim")


def test_gains_by_hand() -> None:
    """1.25 s against 1 s is a gain of a fourth, also in rounds that are slower for everybody."""
    found = claims(lambda batch, mask, number: number * (1.25 if batch == 64 and not mask else 1.0))
    faster = found.loc["michel-t4-faster-in-large-batches"]
    assert faster[["value", "low", "high"]].tolist() == pytest.approx([0.25] * 3)
    larger = found.loc["michel-t4-batch-size-matters"]
    assert larger[["value", "low", "high", "baseline"]].tolist() == pytest.approx([0.25] * 3 + [0])
    assert found.loc["michel-s4-cut-equals-masked", "value"] == pytest.approx(5e-7)
    assert found.loc["michel-s4-attention-third-of-parameters", "value"] == 0.25


def test_a_gain_is_the_median_and_its_interval_spans_the_rounds() -> None:
    gains = dict(enumerate((0.1, 0.2, 0.3, 4.0), start=1))
    found = claims(lambda batch, mask, number: 1.0 if mask else 1 + gains[number])
    faster = found.loc["michel-t4-faster-in-large-batches"]
    assert faster["value"] == pytest.approx(0.25)
    assert 0.1 <= faster["low"] < 0.25 < faster["high"] <= 4.0


def test_which_is_the_slower_is_not_mistaken() -> None:
    found = claims(lambda batch, mask, number: 2.0 if mask else 1.0)
    assert found.loc["michel-t4-faster-in-large-batches", "value"] == pytest.approx(-0.5)


def test_every_block_loses_the_same_share() -> None:
    model = trained(SMOKE.one_model(), Store.default())
    half = page._evenly(model, 0.5)
    blocks = [(head.kind, head.layer) for head in half]
    assert len(half) == len(set(blocks)) == 6
    assert page._evenly(model, 0.25) == page._evenly(model, 0.0) == ()


def test_every_claim_of_the_study_has_a_row(tables: Tables) -> None:
    known = ledger.load()
    rows = checked(known, tables["claims"], "24_what_pruning_buys", "smoke")
    assert sorted(rows["claim"]) == sorted(
        c.id for c in known.claims if c.study == "24_what_pruning_buys"
    )
    same = rows.set_index("claim").loc["michel-s4-cut-equals-masked", "value"]
    assert 0 <= same <= 1e-5


def test_masks_are_the_fixed_shares_and_the_sweeps(tables: Tables) -> None:
    sizes = tables["sizes"]
    assert sizes["heads"].iloc[0] == 12 and sizes["share_of_parameters"].iloc[0] == 1
    even = sizes[sizes["chosen"] == page.EVEN]
    assert even["share_pruned"].tolist() == [0, 0.5]
    assert len(sizes) <= 2 + len(SMOKE.preset.pruning.penalties)
    rows = tables["speed"]
    assert len(rows) == len(sizes) * 5 * len(Task)
    whole = rows[rows["mask"] == 0]
    assert (whole[["gain_percent", "low_percent", "high_percent"]] == 0).all(axis=None)


def test_the_machine_is_kept_without_its_name(tables: Tables) -> None:
    assert {"processor", "cores", "gpu", "threads"} <= set(tables["machine"].columns)
    assert not {"host", "name", "user"} & set(tables["machine"].columns)


def test_a_redraw_measures_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_measure", None)
    for name, table in page.trained_here(SMOKE, Store.default()).items():
        pd.testing.assert_frame_equal(table, tables[name])


def test_rows_of_the_figure_are_those_of_half_the_heads(tables: Tables) -> None:
    rows = page.halved(tables)
    assert rows["batch"].tolist() == [
        name for size in ("1", "4", "16", "32", "64") for _ in Task
        for name in [f"{size} sentence{'s' if size != '1' else ''}"]
    ]  # fmt: skip
    paper = rows.dropna(subset="paper")
    assert set(paper["task"]) == {page.NAMES[Task.FORWARD]}
    assert paper["paper"].tolist() == list(page.PAPER.values())
    speed = tables["speed"].query("task == 'decoding' and mask == 1")
    shown = rows.loc[rows["task"] == page.NAMES[Task.DECODING], "value"]
    assert np.allclose(shown, speed.sort_values("batch")["gain_percent"])


def test_keys_and_values_stand_in_the_table_where_they_were_counted(tables: Tables) -> None:
    column = "MiB of keys and values"
    shown = page.sizes(tables)
    assert float(shown[column].iloc[0]) >= float(shown[column].iloc[-1])
    earlier = tables | {"sizes": tables["sizes"].drop(columns="cached_bytes")}
    pd.testing.assert_frame_equal(page.sizes(earlier), shown.drop(columns=column))


def test_the_long_training_is_told_of_and_the_small_model_beside_it(tables: Tables) -> None:
    names = ("sizes", "speed", "machine")
    ours = {name: tables[name].assign(model=OURS) for name in names}
    ours["sizes"] = ours["sizes"].assign(attention_share=0.5)
    both = {name: pd.concat([tables[name], ours[name]], ignore_index=True) for name in ours}
    found, small = page.facts(tables | both), page.facts(tables)
    assert found["model"] == "Our en→fr model" and found["attention"].startswith("50")
    assert found["small_attention"] == small["attention"]
    assert found["small_decoding_64"] == small["decoding_64"]


def test_facts_of_a_planted_measurement() -> None:
    """1.25 s against 1 s in every round; 900 of 1,000 parameters, of which 250 in attention."""
    timed = measured(lambda batch, mask, number: 1.0 if mask else 1.25, batches=page.PAPER)
    sizes = page._sizes(timed, [page.EVEN] * 2).assign(model="m w8 s0")
    planted = {
        "sizes": sizes,
        "speed": page._speed(timed, sizes),
        "machine": pd.DataFrame([{"gpu": None, "processor": "a processor", "threads": 1}]),
    }
    found = page.facts(planted)
    for name, value in {
        "decoding_64": "25\N{NO-BREAK SPACE}% [25, 25]",
        "paper_1": "1.9\N{NO-BREAK SPACE}%",
        "half_parameters": "90\N{NO-BREAK SPACE}%",
        "attention": "25\N{NO-BREAK SPACE}%",
        "model": "m (width 8, seed 0)",
        "machine": "a processor",
    }.items():
        assert found[name] == value
