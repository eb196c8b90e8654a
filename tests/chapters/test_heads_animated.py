"""Page 33: every value in its cell of its frame, changes from first to last, faulty rows."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from headbook.chapters import words
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _watched as diversity_watched
from headbook.chapters.diversity import heads_animated as page
from headbook.chapters.diversity._frames import one_row_a_pair, run
from headbook.claims.ledger import load
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import FREE, RAW
from headbook.runs.store import Store
from headbook.types import UserError

LAYERS, HEADS, UPDATES = 3, 4, (0, 8, 30, 100, 1000)
MODELS = ("as published, 4 heads s0", "2 < 3 heads s0")


def value(update: int, layer: int, head: int, other: int) -> float:
    """A number of its own for every frame, layer and pair."""
    first, second = sorted((head, other))
    return round(-0.9 + 0.1 * layer + 0.013 * (HEADS * first + second) + 0.0004 * update, 4)


def watched(layers: int = LAYERS, heads: int = HEADS, updates: tuple[int, ...] = UPDATES) -> Tables:
    """Tables as the training's stage gives them, in no order, the raw form a third as large."""
    rows = [
        (model, form, update, layer, head, other, value(update, layer, head, other) / share)
        for model in MODELS
        for form, share in ((RAW, 3), (FREE, 1))
        for update in updates
        for layer in range(1, layers + 1)
        for head in range(1, heads + 1)
        for other in range(1, heads + 1)
        if head != other
    ]
    columns = ["model", "form", "update", "layer", "head", "other", "value"]
    losses = [(model, update, 7 - update / 500) for model in MODELS for update in updates[1:]]
    frames = pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0)
    return {"frames": frames, "losses": pd.DataFrame(losses, columns=["model", "update",
                                                                     "loss_nats"])}  # fmt: skip


@pytest.fixture
def given() -> Tables:
    return watched()


def test_every_frame_holds_its_values_in_their_cells(given: Tables) -> None:
    for frames in (given["frames"], given["frames"].query("head > other")):
        made = run(frames, given["losses"], MODELS[0], FREE, "a run")
        assert made.updates == UPDATES and made.shape == (LAYERS, HEADS)
        for at, update in enumerate(UPDATES):
            for layer, head, other in np.ndindex(LAYERS, HEADS, HEADS):
                found = made.values[at, layer, head, other]
                expected = value(update, layer + 1, head + 1, other + 1)
                assert np.isnan(found) if head == other else found == pytest.approx(expected)


def test_colours_span_the_same_range_for_all_models_of_a_form(given: Tables) -> None:
    assert run(given["frames"], given["losses"], MODELS[0], FREE, "").limit == 0.8
    assert run(given["frames"], given["losses"], MODELS[0], RAW, "").limit == 0.3
    given["frames"].loc[given["frames"]["model"] == MODELS[1], "value"] = 0.91
    assert run(given["frames"], given["losses"], MODELS[0], FREE, "").limit == 1


def _without(frames: pd.DataFrame, query: str) -> pd.DataFrame:
    return frames.drop(frames.query(query).index)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda frames: frames.iloc[:0], "no frames in form .* there are frames of no model"),
        (lambda frames: frames.query("model != @MODELS[0]"), "there are frames of 2 < 3 heads s0"),
        (lambda frames: _without(frames, "update == 8 and layer == 2"),
         "no number at update 8, layer 2"),
        (lambda frames: _without(frames, "layer == 1"), "no number at update 0, layer 1"),
        (lambda frames: frames.assign(value=frames["value"].where(frames["head"] + frames["other"]
                                                                  != 7)), "heads 3 and 4"),
        (lambda frames: pd.concat([frames, frames.assign(other=frames["head"]).head(200)]),
         "given once"),
        (lambda frames: frames.assign(layer=frames["layer"] - 1), "count from 1"),
        (lambda frames: pd.concat([frames, frames.query("other == 1 and head == 2")
                                   .assign(head=1)]), "compared with itself at update 0, layer 1"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fill_the_matrices_are_refused(
    fault: object, said: str, given: Tables
) -> None:
    with pytest.raises(UserError, match=said) as refused:
        run(fault(given["frames"]), given["losses"], MODELS[0], FREE, "a run")
    assert "\n" not in str(refused.value)


def test_a_model_without_losses_is_refused(given: Tables) -> None:
    with pytest.raises(UserError, match="no losses of model"):
        run(given["frames"], given["losses"].iloc[:0], MODELS[0], FREE, "a run")


@pytest.fixture
def tables(given: Tables, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    monkeypatch.setattr(page, "watched_tables", lambda config, store: given)
    yield page.trained_here(Config("smoke"), Store.default())


def test_the_tables_tell_what_moved(tables: Tables, given: Tables) -> None:
    rows = one_row_a_pair(tables["frames"])
    assert len(rows) == len(given["frames"]) / 2, "a pair is published once"
    both = rows.merge(given["frames"], on=[*page.RUN, "update", *page.PAIR], validate="1:1")
    assert len(both) == len(rows) and both["value_x"].equals(both["value_y"])
    layers = tables["layers"].set_index(["model", "form", "layer"]).loc[(MODELS[0], FREE, 2)]
    pairs = [(head, other) for head in range(1, 5) for other in range(head + 1, 5)]
    last = [value(1000, 2, *pair) for pair in pairs]
    assert (layers["first_update"], layers["last_update"]) == (0, 1000)
    assert layers["mean_first"] == pytest.approx(np.mean([value(0, 2, *p) for p in pairs]))
    assert layers["mean_last"] == pytest.approx(np.mean(last))
    assert layers["spread_last"] == pytest.approx(np.std(last))
    assert len(tables["pairs"]) == page.MOVED * 4


def test_the_pair_that_moved_most_comes_first(given: Tables, tables: Tables) -> None:
    frames = one_row_a_pair(tables["frames"])
    chosen = "model == @MODELS[1] and form == @FREE and update == 1000 and layer == 3"
    at = frames.query(f"{chosen} and head == 2 and other == 4").index
    frames.loc[at, "value"] = -0.99
    pairs = page._moved_most(page._ends(frames))
    top = pairs[(pairs["model"] == MODELS[1]) & (pairs["form"] == FREE)].iloc[0]
    assert (top["layer"], top["head"], top["other"], top["last"]) == (3, 2, 4, -0.99)
    assert top["change"] == pytest.approx(-0.99 - value(0, 3, 2, 4))


def test_the_film_shows_every_model_and_form(tables: Tables) -> None:
    moving = page.animated(tables)
    assert len(moving.runs) == 4 and moving.runs[0].name.startswith(MODELS[0])
    assert [each.limit for each in moving.runs] == [0.8, 0.3, 0.8, 0.3]
    assert moving.runs[2].values[0, 0, 0, 1] == pytest.approx(value(0, 1, 1, 2))


def test_tables_and_facts_of_the_page(tables: Tables) -> None:
    shown = page.by_layer(tables)
    assert len(shown) == 4 and list(shown)[2:] == ["layer 1", "layer 2", "layer 3"]
    assert len(page.pairs(tables)) == page.MOVED * 4
    assert checked(load(), tables["claims"], "33_heads_animated", "test").empty
    facts = page.facts(tables)
    assert facts["paper_1"].startswith("+0.006")
    pairs = [value(UPDATES[-2], 2, head, other) for head in range(1, HEADS + 1)
             for other in range(head + 1, HEADS + 1)]  # fmt: skip
    assert facts["s0_true_2_earlier"] == words.signed(sum(pairs) / len(pairs))


def test_frames_hold_every_pair_of_the_looks():
    frames = diversity_watched.watched_tables(Config("smoke"), Store.default())["frames"]
    assert frames["model"].nunique() == 2 and set(frames["form"]) == {RAW, FREE}
    each = frames.groupby(["model", "form", "update", "layer"]).size()
    assert set(each) == {4 * 3}
    assert frames["update"].nunique() <= diversity_watched.FRAMES
    assert frames["value"].between(-1 - 1e-6, 1 + 1e-6).all()
    mirrored = frames.rename(columns={"head": "other", "other": "head"})
    keys = ["model", "form", "update", "layer", "head", "other"]
    both = frames.merge(mirrored, on=keys, suffixes=("", "_mirrored"))
    assert np.allclose(both["value"], both["value_mirrored"])
