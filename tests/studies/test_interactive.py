"""The menus of the attention maps compose: any layer, head and sentence shows its own weights."""

from itertools import product

import pytest
import torch

from headbook.studies.interactive import (
    AttendedSentence,
    AttentionMaps,
    Interactive,
    draw_maps,
    leaf_through,
)

LAYERS, HEADS = 6, 8
MOST_BYTES = 400_000


def sentence(size: int, seed: int, tokens: tuple[str, ...] | None = None) -> AttendedSentence:
    chance = torch.Generator().manual_seed(seed)
    weights = torch.rand(LAYERS, HEADS, size, size, generator=chance).softmax(-1)
    tokens = tokens or tuple(f"t{seed}-{place}" for place in range(size))
    return AttendedSentence(tokens, (False, True, *[False] * (size - 2)), weights)


@pytest.fixture
def maps() -> AttentionMaps:
    return AttentionMaps("model", (sentence(15, 1), sentence(9, 2), sentence(12, 3)), 1, 5)


def chosen(figure: dict, menu: int, button: int) -> dict:
    return figure["layout"]["updatemenus"][menu]["buttons"][button]["args"][0]


@pytest.mark.parametrize(("layer", "head", "at"), [*product((0, 2, 5), (0, 7), (0, 1, 2))])
def test_three_choices_show_the_weights_of_all_three(
    layer: int, head: int, at: int, maps: AttentionMaps
) -> None:
    figure = leaf_through(maps).to_plotly_json()
    rows = chosen(figure, 0, layer)["yaxis.range"]
    visible = chosen(figure, 1, head)["visible"]
    place = chosen(figure, 2, at)
    columns, names = place["xaxis.range"], place["yaxis.ticktext"]
    assert [number for number, shown in enumerate(visible) if shown] == [head]
    top, left = int(rows[1] + 0.5), int(columns[0] + 0.5)
    expected = maps.sentences[at]
    for query, key in product(range(15), range(15)):
        drawn = figure["data"][head]["z"][top + query][left + key]
        if max(query, key) < len(expected.tokens):
            assert drawn == pytest.approx(
                float(expected.weights[layer, head, query, key]), abs=6e-4
            )
            assert expected.tokens[query] in names[top + query]
            assert expected.tokens[key] in figure["layout"]["xaxis"]["ticktext"][left + key]
        else:
            assert drawn is None


def test_it_opens_at_the_named_head_and_says_so(maps: AttentionMaps) -> None:
    figure = leaf_through(maps).to_plotly_json()
    assert [menu["active"] for menu in figure["layout"]["updatemenus"]] == [0, 4, 0]
    assert [trace["visible"] for trace in figure["data"]] == [head == 4 for head in range(HEADS)]
    assert figure["layout"]["yaxis"]["range"] == chosen(figure, 0, 0)["yaxis.range"]
    assert figure["layout"]["xaxis"]["range"] == chosen(figure, 2, 0)["xaxis.range"]


def test_the_window_cannot_be_dragged_away(maps: AttentionMaps) -> None:
    layout = leaf_through(maps).to_plotly_json()["layout"]
    assert layout["xaxis"]["fixedrange"]
    assert layout["yaxis"]["fixedrange"]


def test_the_page_is_small_named_and_asks_nobody(maps: AttentionMaps) -> None:
    forms = Interactive(leaf_through(maps), 'a "named" <map>', "maps")._repr_mimebundle_()
    html = forms["text/html"]
    assert 'role="figure" aria-label="a &quot;named&quot; &lt;map&gt;"' in html
    assert "Plotly.newPlot" in html
    assert 'id="maps"' in html
    assert "<script src" not in html
    assert "http" not in html
    assert len(html) < MOST_BYTES
    assert set(forms["application/vnd.plotly.v1+json"]) >= {"data", "layout"}


def test_the_same_maps_make_the_same_page(maps: AttentionMaps) -> None:
    one, other = (Interactive(leaf_through(maps), "a", "maps") for _ in range(2))
    assert one._repr_mimebundle_() == other._repr_mimebundle_()


def test_tokens_are_text_and_no_markup() -> None:
    odd = sentence(4, 1, ("<b>", "$x$", "a&b", "$"))
    maps = AttentionMaps("model", (odd,), 1, 1)
    names = leaf_through(maps).to_plotly_json()["layout"]["xaxis"]["ticktext"]
    assert names[0] == "&lt;b&gt;"
    assert names[2] == "a&amp;b"
    figure = draw_maps(maps)
    figure.canvas.draw()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == list(odd.tokens)


def test_marked_tokens_stand_out_in_both_forms(maps: AttentionMaps) -> None:
    names = leaf_through(maps).to_plotly_json()["layout"]["xaxis"]["ticktext"]
    assert "<b>t1-1</b>" in names[1]
    assert "<b>" not in names[0]
    labels = draw_maps(maps).axes[0].get_xticklabels()
    assert [label.get_weight() for label in labels[:3]] == ["normal", "bold", "normal"]
