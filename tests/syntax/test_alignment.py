"""Words to pieces by their characters: every awkward case, and the laws that hold for all."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headbook.syntax.alignment import NO_WORD, AlignedTree, align_all
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


def align(tree: Tree, spans: list[Span]) -> AlignedTree:
    """As for a model whose last piece is a special token."""
    return align_all(tree, [*spans, None])


def pieces(text: str, words: list[str], parts: list[str]) -> list[int]:
    return align(flat(text, words), spans_of(text, parts)).pieces.tolist()


CASES = {
    "whole words": ("she eats", ["she", "eats"], ["she", "eats"], [0, 1]),
    "contraction across": ("I don't", ["I", "do", "n't"], ["I", "don", "'", "t"], [0, 1, 2, 2]),
    "contraction swallowed": ("I can't", ["I", "ca", "n't"], ["I", "can't"], [0, 1]),
    "possessive": ("Bob's", ["Bob", "'s"], ["Bo", "b", "'", "s"], [0, 0, 1, 1]),
    "hyphen": ("well-known", ["well", "-", "known"], ["well", "-", "kno", "wn"], [0, 1, 2, 2]),
    "number": ("1,000.50 pears", ["1,000.50", "pears"], ["1", ",", "000.5", "0", "pears"],
               [0, 0, 0, 0, 1]),
    "quotes": ('"Hi," he', ['"', "Hi", ",", '"', "he"], ['"', "Hi", ',"', "he"], [0, 1, 2, 4]),
    "combining accent": ("cafe\u0301 x", ["cafe\u0301", "x"], ["cafe", "\u0301", "x"], [0, 0, 1]),
    "punctuation split": ("end.", ["end."], ["end", "."], [0, 0]),
    "piece over a space": ("New York", ["New", "York"], ["New York"], [0]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words", "parts", "expected"), CASES.values(), ids=CASES)
def test_each_piece_goes_to_the_word_of_its_first_character(
    text: str, words: list[str], parts: list[str], expected: list[int]
):
    assert pieces(text, words, parts) == [*expected, NO_WORD]


def test_a_piece_of_no_characters_goes_to_the_word_it_opens_and_one_outside_to_none():
    tree = flat("a b", ["a", "b"])
    assert align(tree, [(0, 0), (0, 1), (2, 2), (2, 3)]).pieces.tolist() == [0, 0, 1, 1, NO_WORD]
    tree = Tree("a * b", ((0, 1), (4, 5)), (1, ROOT), ("amod", "root"))
    assert align(tree, [(0, 1), (2, 3), (4, 5)]).pieces.tolist() == [0, NO_WORD, 1, NO_WORD]
    empty = align(Tree("", (), (), ()), [])
    assert (empty.pieces.tolist(), empty.arcs.shape, empty.dropped) == ([NO_WORD], (0, 3), 0)


def test_special_tokens_may_stand_anywhere():
    tree = flat("a b", ["a", "b"])
    assert align_all(tree, [None, (0, 1), None, (2, 3)]).pieces.tolist() == [-1, 0, -1, 1]


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


@pytest.mark.parametrize(
    ("words", "spans"),
    [
        # tokenisers drop soft hyphens and zero-width marks
        (["co\u00adop", "\u200bx"], [(0, 2), (3, 5), (7, 8)]),
        # composing tokenisers report the letter's span without its accent
        (["cafe\u0301", "x"], [(0, 3), (3, 4), (6, 7)]),
    ],
)
def test_what_cannot_be_seen_may_be_left_out(words: list[str], spans: list[Span]):
    assert align(flat(" ".join(words), words), spans).pieces.tolist() == [0, 0, 1, NO_WORD]


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
