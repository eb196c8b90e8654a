"""Words to pieces by their characters: awkward cases."""

import pytest

from headbook.text.alignment import NO_WORD, AlignedTree, align_all
from headbook.text.trees import RELATIONS, ROOT, Tree

Span = tuple[int, int]


def spans_of(text: str, parts: list[str]) -> list[Span]:
    spans, edge = [], 0
    for part in parts:
        start = text.index(part, edge)
        edge = start + len(part)
        spans.append((start, edge))
    return spans


def align(tree: Tree, spans: list[Span]) -> AlignedTree:
    """As for a model whose last piece is a special token."""
    return align_all(tree, [*spans, None])


def bare(text: str, words: list[Span]) -> Tree:
    return Tree(text, tuple(words), (ROOT,) * len(words), ("root",) * len(words))


@pytest.mark.parametrize(
    ("text", "words", "parts", "expected"),
    [
        ("I don't", ["I", "do", "n't"], ["I", "don", "'", "t"], [0, 1, 2, 2]),
        ('"Hi," he', ['"', "Hi", ",", '"', "he"], ['"', "Hi", ',"', "he"], [0, 1, 2, 4]),
        ("a * b", ["a", "b"], ["a", "*", "b"], [0, NO_WORD, 1]),
    ],
)
def test_each_piece_goes_to_the_word_of_its_first_character(text, words, parts, expected):
    tree = bare(text, spans_of(text, words))
    assert align(tree, spans_of(text, parts)).pieces.tolist() == [*expected, NO_WORD]


def test_pieces_of_no_characters_and_special_tokens_may_stand_anywhere():
    tree = bare("a b", [(0, 1), (2, 3)])
    assert align(tree, [(0, 0), (0, 1), (2, 2), (2, 3)]).pieces.tolist() == [0, 0, 1, 1, NO_WORD]
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


def test_arcs_of_a_word_without_a_piece_are_dropped():
    """`old men` in one piece: the noun has none, and both arcs it takes part in go."""
    tree = Tree("old men see", ((0, 3), (4, 7), (8, 11)), (1, 2, ROOT), ("amod", "nsubj", "root"))
    aligned = align(tree, [(0, 7), (8, 11)])
    assert aligned.arcs.shape == (0, 3)
    # a word of no characters, such as the second of a fused token
    tree = Tree("am Tor", ((0, 2), (2, 2), (3, 6)), (2, 2, ROOT), ("advmod", "amod", "root"))
    aligned = align(tree, [(0, 2), (3, 6)])
    assert aligned.pieces.tolist() == [0, 2, NO_WORD]
    assert aligned.arcs.tolist() == [[RELATIONS.index("advmod"), 0, 2]]


@pytest.mark.parametrize(
    ("text", "words", "spans"),
    [
        # tokenisers drop soft hyphens and zero-width marks
        ("co\u00adop \u200bx", [(0, 5), (6, 8)], [(0, 2), (3, 5), (7, 8)]),
        # composing tokenisers report the letter's span without its accent
        ("cafe\u0301 x", [(0, 5), (6, 7)], [(0, 3), (3, 4), (6, 7)]),
        # some drop signs that stand on a letter, such as vowel signs
        ("\u0915\u093f\u0915 x", [(0, 3), (4, 5)], [(0, 1), (2, 3), (4, 5)]),
    ],
)
def test_what_cannot_be_seen_may_be_left_out(text: str, words: list[Span], spans: list[Span]):
    assert align(bare(text, words), spans).pieces.tolist() == [0, 0, 1, NO_WORD]
