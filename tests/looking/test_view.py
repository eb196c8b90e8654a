"""`hb.view`: names of heads, words and sentences become the drawing of the right weights."""

import re

from refusing import refused

import headbook as hb

SENTENCE = "a cat sat here"


def titles(view: object) -> list[str]:
    return re.findall(r"<title>(.*?)</title>", re.search(r"<svg.*?</svg>", view.body)[0])


def test_a_head_is_drawn_by_its_name_of_a_model_or_of_an_attention(planted) -> None:
    shown = titles(hb.view(planted, SENTENCE, "L1H2"))
    assert shown[:3] == ["a → cat 100 %", "cat → sat 100 %", "sat → here 100 %"]
    assert titles(hb.view(hb.attention(planted, SENTENCE), heads=["L1H2"])) == shown
    assert len(titles(hb.view(planted, SENTENCE, ["L2H4"], units="tokens"))) == 5


def test_notes_and_several_heads_stand_beside_each_other(planted) -> None:
    heads = {"L1H1": "looks back", "L1H2": "looks ahead"}
    body = hb.view(planted, SENTENCE, heads, ask=["cat"], gold=[("cat", "sat")]).body
    said = re.findall(r"<b>(L1H\d)</b> (\w+ \w+) <span>(.*?)</span>", body)
    assert said == [
        ("L1H1", "looks back", "cat → a 100 % ✗ (correct: sat 0 %)"),
        ("L1H2", "looks ahead", "cat → sat 100 % ✓"),
    ]


def test_what_is_not_there_is_named(planted) -> None:
    for wrong in ({"heads": ["L9H1"]}, {"kind": "cross"}, {"sentence": None}):
        with refused():
            hb.view(planted, **({"sentence": SENTENCE, "heads": ["L1H1"]} | wrong))
