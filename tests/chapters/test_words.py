"""Numbers as the prose has them."""

from math import nan

from headbook.chapters import words


def test_numbers_are_formatted_once() -> None:
    assert words.percent(0.6444) == "64\N{NO-BREAK SPACE}%"
    assert words.percent(-0.001) == "0\N{NO-BREAK SPACE}%"
    assert words.percent(nan) == words.signed(nan) == "none"
    assert words.estimate(0.658, 0.63, 0.687) == "66\N{NO-BREAK SPACE}% [63, 69]"
    assert words.number(2.011, 1.961, 2.075) == "2.01 [1.96, 2.08]"
    assert words.points(-0.127) == "−13 points"
    assert words.points_estimate(0.155, -0.002, 0.177) == "16 points [0, 18]"
    assert words.count(4078) == "4,078"
    assert words.head(6, 5) == "L6H5"
    assert words.span([17, 15, 17]) == "15 to 17" and words.span([4]) == "4"
    assert words.percents([0.48, 0.497, 0.49]) == "48 to 50\N{NO-BREAK SPACE}%"
    assert words.percents([0.999, 1.0]) == "100\N{NO-BREAK SPACE}%"
    assert words.difference(-0.534, -1.2, 0.001) == "−0.53 [−1.20, 0.00]"
    assert words.difference(1.25, 0.5, 2.0, digits=1) == "+1.2 [+0.5, +2.0]"


def test_a_model_of_ours_by_its_width_and_seed():
    assert words.model("multi30k-de w128 s0") == "multi30k-de (width 128, seed 0)"
    assert words.model("wikitext-2 8 heads s1") == "wikitext-2 8 heads (seed 1)"
    assert words.model("MiniLM") == "MiniLM"


def test_names_of_facts_are_letters_and_lines():
    assert words.key("firefox-en-pt", "weights + words") == "firefox_en_pt_weights_words"


def test_facts_of_a_model_begin_alike_by_its_name_and_its_title():
    assert {words.prefix(each) for each in (words.OURS, words.TITLES[words.OURS])} == {"ours"}
    assert [words.prefix(each) for each in ("firefox-pt-en", "Firefox pt→en")] == ["pt", "pt"]
    assert words.prefix("MiniLM") == words.prefix("minilm") == "minilm"
    assert words.prefix("my-model") == "my_model"


def test_a_number_of_any_sign_has_the_minus_of_print_and_zero_none():
    assert words.number(-0.304, -0.45, -0.0) == "−0.30 [−0.45, 0.00]"


def test_a_lead_has_its_sign_and_its_interval():
    assert words.lead(0.193, 0.079, 0.288) == "+19 [8, 29]"
    assert words.lead(-0.05, -0.073, -0.024) == "−5 [−7, −2]"
