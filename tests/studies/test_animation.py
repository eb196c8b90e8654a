"""The animation of heads: every number in its cell of its frame, and a page that tells of it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from IPython.display import Markdown

from headbook.claims.ledger import load
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.studies import animation
from headbook.studies import heads_animated as study
from headbook.studies.animation import animated, still
from headbook.studies.config import Config
from headbook.studies.heads_scene import one_row_a_pair, scene
from headbook.studies.interactive import Interactive
from headbook.studies.page import Folded, Picture
from headbook.studies.results import Published, Tables
from headbook.types import UserError

LAYERS, HEADS, UPDATES = 3, 4, (0, 8, 30, 100, 1000)
MODELS = ("as published, 4 heads s0", "2 < 3 heads s0")
RAW, FREE = "raw", "scale-free"
MOST_BYTES = 300_000


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


def drawn(given: Tables, form: str = FREE) -> go.Figure:
    return animated(given["frames"], given["losses"], MODELS[0], form)


def cell(figure: go.Figure, frame: go.Frame, layer: int, head: int, other: int) -> float | None:
    """The number of the marker in a row and a column; None where there is no marker."""
    placed = figure.data[layer - 1]
    places = list(zip(placed.y, placed.x, strict=True))
    if (head, other) not in places:
        return None
    return frame.data[layer - 1].marker.color[places.index((head, other))]


def faults(figure: go.Figure) -> list[tuple[int, int, int, int]]:
    """Every cell of every frame that does not hold the planted number."""
    return [
        (update, layer, head, other)
        for update, frame in zip(UPDATES, figure.frames, strict=True)
        for layer in range(1, LAYERS + 1)
        for head in range(1, HEADS + 1)
        for other in range(1, HEADS + 1)
        if cell(figure, frame, layer, head, other)
        != (None if head == other else round(value(update, layer, head, other), 3))
    ]


def test_every_frame_holds_its_numbers_in_their_cells(given: Tables) -> None:
    assert not faults(drawn(given))
    once = given | {"frames": given["frames"].query("head > other")}
    assert not faults(drawn(once))


@pytest.mark.parametrize(
    ("column", "changed"),
    [
        ("layer", lambda layers: layers.map({1: 2, 2: 1, 3: 3})),
        ("update", lambda updates: updates.map({**dict(zip(UPDATES, UPDATES, strict=True)),
                                                8: 30, 30: 8})),
        ("head", lambda heads: HEADS + 1 - heads),
    ],
)  # fmt: skip
def test_a_planted_exchange_is_seen(column: str, changed: object, given: Tables) -> None:
    frames = given["frames"].assign(**{column: changed(given["frames"][column])})
    if column == "head":
        frames["other"] = changed(frames["other"])
    assert faults(drawn({"frames": frames, "losses": given["losses"]}))


def test_a_trace_stands_in_the_panel_of_its_layer(given: Tables) -> None:
    figure = drawn(given)
    titles = {note.text: note for note in figure.layout.annotations}
    for layer in range(1, LAYERS + 1):
        trace, note = figure.data[layer - 1], titles[f"layer {layer}"]
        axis = figure.layout["xaxis" + trace.xaxis[1:]]
        upright = figure.layout["yaxis" + trace.yaxis[1:]]
        assert axis.domain[0] < note.x < axis.domain[1]
        assert note.y == pytest.approx(upright.domain[1])
        assert upright.range[0] > upright.range[1], "the first head stands on top"
        assert trace.marker.symbol == "square"
        assert f"layer {layer}, heads %{{y}} and %{{x}}" in trace.hovertemplate


def test_the_form_and_the_model_are_the_ones_asked_for(given: Tables) -> None:
    frames = given["frames"]
    frames.loc[frames["model"] == MODELS[1], "value"] *= -1
    raw = drawn(given, RAW)
    assert cell(raw, raw.frames[0], 1, 1, 2) == round(value(0, 1, 1, 2) / 3, 3)
    other = animated(frames, given["losses"], MODELS[1], FREE)
    assert cell(other, other.frames[0], 1, 1, 2) == -round(value(0, 1, 1, 2), 3)
    assert "2 &lt; 3 heads" in other.layout.title.text


def test_frames_and_slider_follow_the_updates(given: Tables) -> None:
    figure = drawn(given)
    names = [str(update) for update in UPDATES]
    assert [frame.name for frame in figure.frames] == names
    (slider,) = figure.layout.sliders
    assert [step.label for step in slider.steps] == names
    assert [step.args[0] for step in slider.steps] == [(name,) for name in names]
    assert slider.active == 0
    for update, frame in zip(UPDATES, figure.frames, strict=True):
        *_, line, moment = frame.data
        assert list(line.x) == [update, update]
        assert moment.text[0].startswith(f"update {update}")
        assert frame.layout.to_plotly_json() == {}, "without a redraw a layout would not change"


def test_frames_change_the_traces_they_mean(given: Tables) -> None:
    figure = drawn(given)
    for frame in figure.frames:
        *layers, line, moment = (figure.data[trace] for trace in frame.traces)
        assert layers == list(figure.data[:LAYERS])
        assert (line.mode, moment.mode) == ("lines", "text")
        assert len(line.y) == 2 and len(moment.x) == 1


def test_it_opens_at_the_first_frame(given: Tables) -> None:
    figure = drawn(given)
    first = figure.frames[0]
    for trace, change in zip(first.traces, first.data, strict=True):
        opened, expected = figure.data[trace], change.to_plotly_json()
        assert {name: opened[name] for name in ("text", "x") if name in expected} == {
            name: change[name] for name in ("text", "x") if name in expected
        }
        assert opened.marker.color == change.marker.color


def test_the_loss_is_told_where_it_was_measured_and_nowhere_else(given: Tables) -> None:
    told = [frame.data[-1].text[0] for frame in drawn(given).frames]
    assert (told[0], told[-1]) == ("update 0", "update 1000, loss 5.00 nats")
    assert list(drawn(given).data[LAYERS].x) == list(UPDATES[1:])


def test_the_colours_are_symmetric_and_the_same_in_every_frame(given: Tables) -> None:
    figure = drawn(given)
    colours = figure.layout.coloraxis
    assert (colours.cmin, colours.cmax) == (-0.8, 0.8)
    for frame in figure.frames:
        changed = [set(trace.to_plotly_json()) for trace in frame.data[:LAYERS]]
        assert changed == [{"type", "marker", "text"}] * LAYERS
        assert all(set(each.marker.to_plotly_json()) == {"color"} for each in frame.data[:LAYERS])
    assert [trace.marker.coloraxis for trace in figure.data[:LAYERS]] == ["coloraxis"] * LAYERS
    given["frames"].loc[given["frames"]["model"] == MODELS[1], "value"] = 0.91
    wider = drawn(given).layout.coloraxis
    assert (wider.cmin, wider.cmax) == (-1, 1), "models of one form share their colours"
    assert drawn(watched(), RAW).layout.coloraxis.cmax == 0.3


def test_a_cell_tells_its_sign_without_colour(given: Tables) -> None:
    texts = [animation._tenths(each) for each in (-0.31, 0.04, -0.04, 0.26, -1.0)]
    assert texts == ["-.3", "0", "0", "+.3", "-1.0"]
    last = drawn(given).frames[-1].data[0]
    assert last.text[0] == animation._tenths(value(1000, 1, 1, 2))
    assert set(drawn(watched(1, 9, (0, 8))).data[0].text) == {""}


def test_nothing_plays_by_itself_and_nobody_is_asked(given: Tables) -> None:
    figure = drawn(given)
    html = Interactive(figure, "alt", "heads")._repr_mimebundle_()["text/html"]
    assert "Plotly.newPlot" in html and "Plotly.addFrames('heads'" in html
    assert "Plotly.animate(" not in html and "http" not in html
    assert "displayModeBar" in html
    play, pause, again = figure.layout.updatemenus[0].buttons
    assert (play.label, pause.label, again.label) == ("play", "pause", "from the start")
    assert play.args[0] is None and play.args[1]["fromcurrent"]
    assert not play.args[1]["frame"]["redraw"] and play.args[1]["frame"]["duration"] > 333
    assert pause.args[0] == (None,) and pause.args[1]["mode"] == "immediate"


def test_a_long_training_of_the_article_s_shape_makes_a_small_page() -> None:
    html = Interactive(drawn(watched(6, 8, tuple(range(0, 4000, 100)))), "alt", "heads")
    assert len(html._repr_mimebundle_()["text/html"].encode()) < MOST_BYTES


def test_the_still_shows_some_frames_and_their_numbers(given: Tables) -> None:
    figure = still(given["frames"], given["losses"], MODELS[0], FREE)
    figure.canvas.draw()
    panels = [axis for axis in figure.axes if axis.images]
    assert len(panels) == animation.STILLS * LAYERS
    for axis, update in ((panels[LAYERS - 1], 0), (panels[-1], 1000)):
        shown = axis.images[0].get_array().filled(np.nan)
        assert np.isnan(shown.diagonal()).all() and axis.images[0].get_clim() == (-0.8, 0.8)
        assert shown[0, 2] == pytest.approx(value(update, LAYERS, 1, 3), abs=6e-4)
    assert panels[0].get_ylabel() == "update 0"
    assert panels[-LAYERS].get_ylabel() == "update 1000\nloss 5.00 nats"
    assert [axis.get_title() for axis in panels[:LAYERS]] == ["layer 1", "layer 2", "layer 3"]


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
    for form in (animated, still):
        with pytest.raises(UserError, match=said) as refused:
            form(fault(given["frames"]), given["losses"], MODELS[0], FREE)
        assert "\n" not in str(refused.value)


def test_a_model_without_losses_is_refused(given: Tables) -> None:
    with pytest.raises(UserError, match="no losses of model"):
        scene(given["frames"], given["losses"].iloc[:0], MODELS[0], FREE)


@pytest.fixture
def tables(given: Tables, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    monkeypatch.setattr(study, "watched_tables", lambda config, store: given)
    yield study.compute(Config("smoke"), Store.default())


def test_the_tables_tell_what_moved(tables: Tables, given: Tables) -> None:
    rows = one_row_a_pair(tables["frames"])
    assert len(rows) == len(given["frames"]) / 2, "a pair is published once"
    both = rows.merge(given["frames"], on=[*study.RUN, "update", *study.PAIR], validate="1:1")
    assert len(both) == len(rows) and both["value_x"].equals(both["value_y"])
    layers = tables["layers"].set_index(["model", "form", "layer"]).loc[(MODELS[0], FREE, 2)]
    pairs = [(head, other) for head in range(1, 5) for other in range(head + 1, 5)]
    last = [value(1000, 2, *pair) for pair in pairs]
    assert (layers["first_update"], layers["last_update"]) == (0, 1000)
    assert layers["mean_first"] == pytest.approx(np.mean([value(0, 2, *p) for p in pairs]))
    assert layers["mean_last"] == pytest.approx(np.mean(last))
    assert layers["spread_last"] == pytest.approx(np.std(last))
    assert len(tables["pairs"]) == study.MOVED * 4


def test_the_pair_that_moved_most_comes_first(given: Tables, tables: Tables) -> None:
    frames = one_row_a_pair(tables["frames"])
    chosen = "model == @MODELS[1] and form == @FREE and update == 1000 and layer == 3"
    at = frames.query(f"{chosen} and head == 2 and other == 4").index
    frames.loc[at, "value"] = -0.99
    pairs = study._moved_most(study._ends(frames))
    top = pairs[(pairs["model"] == MODELS[1]) & (pairs["form"] == FREE)].iloc[0]
    assert (top["layer"], top["head"], top["other"], top["last"]) == (3, 2, 4, -0.99)
    assert top["change"] == pytest.approx(-0.99 - value(0, 3, 2, 4))


def test_the_reading_has_the_numbers_of_the_tables(tables: Tables) -> None:
    said = study.read(tables)
    row = tables["layers"].iloc[0]
    assert said.startswith(f"{row['model']}, raw: slices behind the projection: from update 0 to "
                           "1000 the mean over pairs rose in 3 of 3 layers")  # fmt: skip
    assert said.count("moved most, from") == 4 and "nan" not in said
    assert f"{row['mean_first']:+.2f} to {row['mean_last']:+.2f}" in said
    spread = study.layers_table(tables).set_index(["model", "form", "number"])["layer 2"]
    row = tables["layers"].set_index(["model", "form", "layer"]).loc[(MODELS[1], FREE, 2)]
    expected = f"{row['spread_first']:.2f} to {row['spread_last']:.2f}"
    assert spread[(MODELS[1], FREE, "spread")] == expected
    for shown in (study.layers_table, study.pairs_table):
        assert not shown(tables).isna().any(axis=None)
    assert checked(load(), tables["claims"], study.STUDY, "test").empty


def test_the_page_shows_the_published_run_and_then_this_one(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = {"commit": "c", "date": "2026-01-01", "hardware": {}}
    kept = [Published(study.STUDY, name, tables, run) for name in ("laptop", "quick")]
    displayed: list = []
    monkeypatch.setattr(animation, "all_published", lambda name: kept)
    monkeypatch.setattr(animation, "display", displayed.append)
    study.draw(tables, FREE)
    one = [Interactive, Picture] * len(MODELS)
    expected = [Markdown, *one, *[Folded] * len(MODELS), Markdown, *one]
    assert [type(each) for each in displayed] == expected
    names = [each.name for each in displayed if isinstance(each, Interactive)]
    assert len(set(names)) == len(names) == 2 * len(MODELS), "an element's name is one of a page"
    for each in displayed:
        if isinstance(each, Interactive | Picture):
            assert "Output dissimilarity" in each.alt and "scale-free" in each.alt
    assert "2 < 3 heads" in displayed[3].alt


def test_the_first_run_has_nothing_published(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list = []
    monkeypatch.setattr(animation, "all_published", lambda name: [])
    monkeypatch.setattr(animation, "display", displayed.append)
    study.draw(tables, RAW)
    assert displayed[0].data == "**This run**"
    assert len(displayed) == 1 + 2 * len(MODELS)
