"""Words to pieces by their characters: every awkward case, and the laws that hold for all."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headbook.syntax.alignment import NO_WORD, AlignedTree, align
from headbook.trees import RELATIONS, ROOT, Tree
from headbook.types import UserError

Span = tuple[int, int]


def spans_of(text: str, parts: list[str]) -> list[Span]:
    """Where the parts stand in the text, one after the other."""
    spans, edge = [], 0
    for part in parts:
        start = text.index(part, edge)
        edge = start + len(part)
        spans.append((start, edge))
    return spans


def flat(text: str, words: list[str]) -> Tree:
    """A tree in which every word is an `amod` of the last one."""
    count = len(words)
    heads = tuple(count - 1 if at < count - 1 else ROOT for at in range(count))
    relations = tuple("amod" if at < count - 1 else "root" for at in range(count))
    return Tree(text, tuple(spans_of(text, words)), heads, relations)


def pieces(text: str, words: list[str], parts: list[str]) -> list[int]:
    return align(flat(text, words), spans_of(text, parts)).pieces.tolist()


CASES = {
    "whole words": ("she eats", ["she", "eats"], ["she", "eats"], [0, 1]),
    "contraction": ("I don't", ["I", "do", "n't"], ["I", "do", "n't"], [0, 1, 2]),
    "contraction across": ("I don't", ["I", "do", "n't"], ["I", "don", "'", "t"], [0, 1, 2, 2]),
    "contraction swallowed": ("I can't", ["I", "ca", "n't"], ["I", "can't"], [0, 1]),
    "possessive": ("Bob's", ["Bob", "'s"], ["Bo", "b", "'", "s"], [0, 0, 1, 1]),
    "hyphen": ("well-known", ["well", "-", "known"], ["well", "-", "kno", "wn"], [0, 1, 2, 2]),
    "hyphen in one word": ("e-mail", ["e-mail"], ["e", "-", "mail"], [0, 0, 0]),
    "number": ("1,000.50 pears", ["1,000.50", "pears"], ["1", ",", "000.5", "0", "pears"],
               [0, 0, 0, 0, 1]),
    "number apart": ("$5", ["$", "5"], ["$", "5"], [0, 1]),
    "quotes": ('"Hi," he', ['"', "Hi", ",", '"', "he"], ['"', "Hi", ',"', "he"], [0, 1, 2, 4]),
    "curly quotes": ("“Hi”", ["“", "Hi", "”"], ["“", "H", "i", "”"], [0, 1, 1, 2]),
    "unicode": ("naïve 日本 🙂!", ["naïve", "日本", "🙂", "!"],
                ["na", "ïve", "日", "本", "🙂", "!"], [0, 0, 1, 1, 2, 3]),
    "combining accent": ("cafe\u0301 x", ["cafe\u0301", "x"], ["cafe", "\u0301", "x"], [0, 0, 1]),
    "punctuation attached": ("end.", ["end", "."], ["end."], [0]),
    "punctuation split": ("end.", ["end."], ["end", "."], [0, 0]),
    "two spaces": ("a  b", ["a", "b"], ["a", "b"], [0, 1]),
    "piece over a space": ("New York", ["New", "York"], ["New York"], [0]),
    "one word": ("a", ["a"], ["a"], [0]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words", "parts", "expected"), CASES.values(), ids=CASES)
def test_each_piece_goes_to_the_word_of_its_first_character(
    text: str, words: list[str], parts: list[str], expected: list[int]
):
    assert pieces(text, words, parts) == [*expected, NO_WORD]


def test_an_empty_piece_goes_to_the_word_it_opens():
    """A word mark that became a piece of its own has no characters."""
    tree = flat("a b", ["a", "b"])
    assert align(tree, [(0, 0), (0, 1), (2, 2), (2, 3)]).pieces.tolist() == [0, 0, 1, 1, NO_WORD]


def test_pieces_outside_every_word_belong_to_none():
    tree = Tree("a * b", ((0, 1), (4, 5)), (1, ROOT), ("amod", "root"))
    assert align(tree, [(0, 1), (2, 3), (4, 5)]).pieces.tolist() == [0, NO_WORD, 1, NO_WORD]


def test_an_empty_sentence_is_its_eos_alone():
    aligned = align(Tree("", (), (), ()), [])
    assert aligned.pieces.tolist() == [NO_WORD]
    assert aligned.arcs.shape == (0, 3)
    assert aligned.dropped == 0


def test_arcs_are_relation_dependent_head_of_the_four_relations_only():
    tree = Tree(
        "old men often see her .",
        ((0, 3), (4, 7), (8, 13), (14, 17), (18, 21), (22, 23)),
        (1, 3, 3, ROOT, 3, 3),
        ("amod", "nsubj", "advmod", "root", "dobj", "punct"),
    )
    aligned = align(tree, list(tree.words))
    found = [(RELATIONS[relation], *pair) for relation, *pair in aligned.arcs.tolist()]
    assert found == [("amod", 0, 1), ("nsubj", 1, 3), ("advmod", 2, 3), ("dobj", 4, 3)]
    assert aligned.dropped == 0


def test_arcs_of_a_word_without_a_piece_are_dropped_and_counted():
    """`old men` in one piece: the noun has none, and both arcs it takes part in go."""
    tree = Tree("old men see", ((0, 3), (4, 7), (8, 11)), (1, 2, ROOT), ("amod", "nsubj", "root"))
    aligned = align(tree, [(0, 7), (8, 11)])
    assert aligned.arcs.shape == (0, 3)
    assert aligned.dropped == 2


def test_a_word_of_no_characters_has_no_piece():
    tree = Tree("am Tor", ((0, 2), (2, 2), (3, 6)), (2, 2, ROOT), ("advmod", "amod", "root"))
    aligned = align(tree, [(0, 2), (3, 6)])
    assert aligned.pieces.tolist() == [0, 2, NO_WORD]
    assert aligned.arcs.tolist() == [[RELATIONS.index("advmod"), 0, 2]]
    assert aligned.dropped == 1


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        ([(0, 3), (4, 9)], "reach beyond"),
        ([(0, 3), (-2, 8)], "reach beyond"),
        ([(3, 0), (4, 8)], "reach beyond"),
        ([(4, 8), (0, 3)], "out of order"),
        ([(0, 3)], "leave part of it out"),
        ([(0, 3), (5, 8)], "leave part of it out"),
        ([], "leave part of it out"),
    ],
    ids=str,
)
def test_pieces_of_another_text_are_refused(spans: list[Span], told: str):
    with pytest.raises(UserError, match=told) as caught:
        align(flat("she eats", ["she", "eats"]), spans)
    assert "she eats" in str(caught.value)


def test_what_cannot_be_seen_may_be_left_out():
    """Tokenisers drop soft hyphens and zero-width marks; that is no other text."""
    tree = flat("co\u00adop \u200bx", ["co\u00adop", "x"])
    assert align(tree, [(0, 2), (3, 5), (7, 8)]).pieces.tolist() == [0, 0, 1, NO_WORD]


def test_an_accent_set_on_its_letter_may_be_left_out():
    """Composing tokenisers report the letter's span alone."""
    tree = flat("cafe\u0301 x", ["cafe\u0301", "x"])
    assert align(tree, [(0, 3), (3, 4), (6, 7)]).pieces.tolist() == [0, 0, 1, NO_WORD]


def cut(text: str, chance: list[bool]) -> list[Span]:
    """Splits each run of visible characters at the places chosen."""
    spans = []
    for run in re.finditer(r"\S+", text):
        start = run.start()
        for at in range(run.start() + 1, run.end()):
            if chance[at % len(chance)]:
                spans.append((start, at))
                start = at
        spans.append((start, run.end()))
    return spans


TEXTS = st.text(alphabet="ab'-,.0“é日🙂 ", max_size=30)
CUTS = st.lists(st.booleans(), min_size=1, max_size=17)


@given(TEXTS, CUTS, CUTS)
def test_laws_of_alignment(text: str, word_cuts: list[bool], piece_cuts: list[bool]):
    words, spans = cut(text, word_cuts), cut(text, piece_cuts)
    tree = Tree(text, tuple(words), (ROOT,) * len(words), ("root",) * len(words))
    *found, end = align(tree, spans).pieces.tolist()
    assert end == NO_WORD and len(found) == len(spans)
    assert found == sorted(found), "pieces go through the words in order"
    owner = {at: word for word, (start, stop) in enumerate(words) for at in range(start, stop)}
    assert found == [owner[start] for start, _ in spans]


@given(TEXTS, CUTS, CUTS)
def test_finer_pieces_than_words_agree_on_every_character(
    text: str, word_cuts: list[bool], extra: list[bool]
):
    words = cut(text, word_cuts)
    finer = sorted({at for span in [*words, *cut(text, extra)] for at in span})
    spans = [(a, b) for a, b in pairwise(finer) if text[a:b].strip() == text[a:b] != ""]
    tree = Tree(text, tuple(words), (ROOT,) * len(words), ("root",) * len(words))
    aligned: AlignedTree = align(tree, spans)
    for (start, stop), word in zip(spans, aligned.pieces.tolist(), strict=False):
        assert words[word][0] <= start and stop <= words[word][1]
    assert set(aligned.pieces.tolist()) == {*range(len(words)), NO_WORD}
