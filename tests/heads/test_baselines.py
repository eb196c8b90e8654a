"""Offsets and part-of-speech rules on trees whose answers can be counted by hand."""

from collections.abc import Sequence

import numpy as np
from refusing import refuses

from headbook.heads.baselines import (
    REACH,
    RULES,
    asked,
    chance_hits,
    offset_hits,
    rule_hits,
)
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.trees import RELATION_DIRECTIONS, Direction, Tree

SUBJECT_OF, OBJECT_OF, ADJECTIVE_OF = (
    RELATION_DIRECTIONS.index((name, Direction.HEAD_TO_DEPENDENT))
    for name in ("nsubj", "dobj", "amod")
)
VERB_OF = OBJECT_OF + 1
NEXT_NOUN = RULES.index("next NOUN")
PREVIOUS_VERB = RULES.index("previous VERB")


def tree(text: str, tags: str, arcs: Sequence[tuple[str, int, int]]) -> AlignedTree:
    """Words between spaces, each cut into two pieces; arcs are (relation, dependent, head)."""
    spans, edge = [], 0
    for word in text.split():
        spans.append((edge, edge + len(word)))
        edge += len(word) + 1
    root = next(head for _, _, head in arcs if head not in {dependent for _, dependent, _ in arcs})
    heads = [-1 if word == root else root for word in range(len(spans))]
    relations = ["root" if word == root else "dep" for word in range(len(spans))]
    for relation, dependent, head in arcs:
        heads[dependent], relations[dependent] = head, relation
    found = Tree(text, tuple(spans), tuple(heads), tuple(relations), tuple(tags.split()))
    pieces = [half for start, end in spans for half in ((start, start + 1), (start + 1, end))]
    return align_all(found, [*pieces, None])


# the object is the next noun, two words on; then it is not, for that is the indirect object
NEAR = tree("she reads old books", "PRON VERB ADJ NOUN",
            [("nsubj", 0, 1), ("amod", 2, 3), ("dobj", 3, 1)])  # fmt: skip
FAR = tree("give the dog books", "VERB DET NOUN NOUN", [("iobj", 2, 0), ("dobj", 3, 0)])


def test_rules_by_hand() -> None:
    found = rule_hits([NEAR, FAR])
    assert found.shape == (2, len(RULES), 8)
    assert found[:, NEXT_NOUN, OBJECT_OF].tolist() == [1, 0]
    assert found[:, PREVIOUS_VERB, VERB_OF].tolist() == [1, 1]
    assert not found[:, NEXT_NOUN, VERB_OF].any() and not found[:, PREVIOUS_VERB, OBJECT_OF].any()
    compound = tree("book shops open", "NOUN NOUN VERB", [("amod", 0, 1), ("nsubj", 1, 2)])
    # a word is no answer to itself
    rules = [NEXT_NOUN, RULES.index("nearest NOUN"), PREVIOUS_VERB]
    assert rule_hits([compound])[0, rules, ADJECTIVE_OF + 1].tolist() == [1, 1, 0]
    # of two that are as near it is the one before
    between = tree("dogs see cats", "NOUN VERB NOUN", [("nsubj", 0, 1), ("dobj", 2, 1)])
    assert rule_hits([between])[0, rules[1], [SUBJECT_OF, OBJECT_OF]].tolist() == [1, 0]


def test_where_attention_is_causal_the_later_word_asks() -> None:
    """reads asks for she, books for old and for reads; books asks for give."""
    trees = [NEAR, FAR]
    expected = np.zeros((2, 8))
    expected[0, [SUBJECT_OF, ADJECTIVE_OF, VERB_OF]] = expected[1, VERB_OF] = 1
    assert np.array_equal(asked(trees, causal=True), expected)
    offsets = offset_hits(trees, causal=True)
    assert offsets.sum() == 4 and not offsets[:, REACH:].any()
    assert offsets[1, REACH - 3, VERB_OF] == offsets[0, REACH - 1, ADJECTIVE_OF] == 1
    rules = rule_hits(trees, causal=True)
    assert rules[:, PREVIOUS_VERB, VERB_OF].tolist() == [1, 1] and not rules[:, NEXT_NOUN].any()
    # one, three and three words come before the words that ask; then three again
    expected[0] *= np.where(np.arange(8) == SUBJECT_OF, 1, 1 / 3)
    expected[1] /= 3
    np.testing.assert_allclose(chance_hits(trees)[:, 0], expected)


def test_trees_without_tags_are_refused() -> None:
    bare = AlignedTree(NEAR.pieces, NEAR.arcs)
    refuses(lambda: rule_hits([NEAR, bare]), "sentence 1 has no parts of speech")
