"""Part-of-speech rules on trees whose answers can be counted by hand."""

from collections.abc import Sequence

import pytest
import torch

from headbook.heads.arcs import NO_WORD
from headbook.heads.bootstrap import half_of
from headbook.heads.measure import Selection
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.tag_rules import (
    CLASSES,
    RULES,
    TAGS,
    Side,
    TagRule,
    TagRuleShare,
    nearest,
    tag_baseline,
)
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.batches import EOS, Batch, collate, in_order
from headbook.text.trees import RELATION_DIRECTIONS, RELATIONS, Direction, Tree
from headbook.types import UserError

OBJECT_OF = RELATION_DIRECTIONS.index(("dobj", Direction.HEAD_TO_DEPENDENT))
VERB_OF = RELATION_DIRECTIONS.index(("dobj", Direction.DEPENDENT_TO_HEAD))
NEXT_NOUN = RULES.index(TagRule(("NOUN",), Side.AFTER))
PREVIOUS_VERB = RULES.index(TagRule(("VERB",), Side.BEFORE))


def tree(text: str, tags: str, arcs: Sequence[tuple[str, int, int]]) -> Tree:
    """A tree of words between spaces; arcs are (relation, dependent, head), the rest is `dep`."""
    spans, edge = [], 0
    for word in text.split():
        spans.append((edge, edge + len(word)))
        edge += len(word) + 1
    root = next(head for _, _, head in arcs if head not in {dependent for _, dependent, _ in arcs})
    heads = [-1 if word == root else root for word in range(len(spans))]
    relations = ["root" if word == root else "dep" for word in range(len(spans))]
    for relation, dependent, head in arcs:
        heads[dependent], relations[dependent] = head, relation
    return Tree(text, tuple(spans), tuple(heads), tuple(relations), tuple(tags.split()))


# "she reads old books": the object is the next noun. "the dog bites": none is asked for.
NEAR_ARCS = [("nsubj", 0, 1), ("amod", 2, 3), ("dobj", 3, 1)]
NEAR = tree("she reads old books", "PRON VERB ADJ NOUN", NEAR_ARCS)
# "give the dog books": the next noun is the indirect object.
FAR = tree("give the dog books", "VERB DET NOUN NOUN", [("iobj", 2, 0), ("dobj", 3, 0)])


def measured(trees: Sequence[Tree]) -> TagRuleShare:
    """The shares on these trees, every word cut into two pieces."""
    pieces = [[half for start, end in each.words for half in ((start, start + 1), (start + 1, end))]
              for each in trees]  # fmt: skip
    aligned = [align_all(each, [*spans, None]) for each, spans in zip(trees, pieces, strict=True)]
    measure = TagRuleShare(aligned)
    for batch in batches([len(spans) for spans in pieces]):
        measure.update({}, batch)
    return measure


def batches(lengths: Sequence[int]) -> list[Batch]:
    return list(in_order([([3] * length + [EOS], [EOS]) for length in lengths], 100))


def test_next_noun_finds_the_object_of_one_verb_of_two() -> None:
    found = measured([NEAR, FAR]).compute()
    assert found.shape == (len(RULES), 8)
    assert found[NEXT_NOUN, OBJECT_OF] == 0.5 and found[PREVIOUS_VERB, VERB_OF] == 1
    assert found[NEXT_NOUN, VERB_OF] == 0 and found[PREVIOUS_VERB, OBJECT_OF] == 0
    assert found[:, -2:].isnan().all()  # no adverb in either


def test_best_rules_have_names() -> None:
    best = tag_baseline(measured([NEAR, FAR, NEAR]).sums(), Selection.EVERYTHING)
    assert best.accuracy[OBJECT_OF] == pytest.approx(2 / 3) and best.accuracy[VERB_OF] == 1
    assert best.names[OBJECT_OF] == "next NOUN" and best.names[VERB_OF] == "previous VERB"
    assert best.names[-1] == "" and best.accuracy[-1].isnan()


def test_a_word_is_no_answer_to_itself() -> None:
    compound = tree("book shops open", "NOUN NOUN VERB", [("amod", 0, 1), ("nsubj", 1, 2)])
    found = measured([compound]).compute()
    column = RELATION_DIRECTIONS.index(("amod", Direction.DEPENDENT_TO_HEAD))
    assert found[NEXT_NOUN, column] == 1
    assert found[RULES.index(TagRule(("NOUN",), Side.EITHER)), column] == 1
    assert found[PREVIOUS_VERB, column] == 0


def test_nearest_agrees_with_a_loop() -> None:
    members = torch.rand(4, 11, 3, generator=torch.Generator().manual_seed(0)) < 0.3
    found = nearest(members).unflatten(-1, (3, len(Side)))
    for row in range(4):
        for word in range(11):
            for kind in range(3):
                there = [at for at in range(11) if members[row, at, kind] and at != word]
                before = max((at for at in there if at < word), default=NO_WORD)
                after = min((at for at in there if at > word), default=NO_WORD)
                either = min(there, key=lambda at: (abs(at - word), at), default=NO_WORD)
                assert found[row, word, kind].tolist() == [before, after, either]


def test_candidates_cover_every_tag_on_every_side() -> None:
    assert len(TAGS) == 17 and len(set(RULES)) == len(CLASSES) * len(Side)
    assert {rule.tags[0] for rule in RULES if len(rule.tags) == 1} == set(TAGS)


def test_chosen_on_one_half_scored_on_the_other() -> None:
    halves = half_of(torch.arange(40)).tolist()
    best = tag_baseline(measured([FAR if half else NEAR for half in halves]).sums())
    assert best.names[OBJECT_OF] == "next NOUN"
    assert best.chosen[OBJECT_OF] == 1 and best.accuracy[OBJECT_OF] == 0
    mixed = tag_baseline(measured([FAR if number % 4 else NEAR for number in range(40)]).sums())
    assert mixed.low[OBJECT_OF] < mixed.accuracy[OBJECT_OF] < mixed.high[OBJECT_OF]


def test_resamples_are_those_of_the_other_measures() -> None:
    """A question asked of every measure is drawn as often by each."""
    trees = [NEAR, FAR] * 10
    aligned = [align_all(each, [*each.words, None]) for each in trees]
    rules, offsets = TagRuleShare(aligned), OffsetShare(aligned)
    for batch in batches([4] * 20):
        rules.update({}, batch)
        offsets.update({}, batch)
    assert torch.equal(rules.sums().denominator, offsets.sums().denominator)
    # both objects stand beyond the verb's neighbour; at +2 in one sentence of two
    rule = rules.sums().numerator[:, :, NEXT_NOUN, OBJECT_OF]
    offset = offsets.sums().numerator[:, :, offsets.reach + 2, OBJECT_OF]
    assert torch.equal(rule, offset)


def test_trees_without_tags_are_refused() -> None:
    bare = AlignedTree(torch.tensor([0, 1, -1]), torch.tensor([[RELATIONS.index("dobj"), 1, 0]]), 0)
    measure = TagRuleShare([bare])
    with pytest.raises(UserError, match="sentence 0 has no parts of speech"):
        measure.update({}, collate([([3, 3, EOS], [EOS])], [0]))
