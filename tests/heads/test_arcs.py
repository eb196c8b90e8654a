"""Questions put to a head, and attention between words."""

import pytest
import torch

from headbook.corpora.batches import EOS, collate
from headbook.heads.arcs import PieceRule, pieces_of, questions, word_attention
from headbook.syntax.alignment import AlignedTree
from headbook.trees import RELATION_DIRECTIONS, Direction
from headbook.types import UserError

# "big dogs bark": two pieces for "dogs"; amod(big <- dogs), nsubj(dogs <- bark)
TREE = AlignedTree(torch.tensor([0, 1, 1, 2, -1]), torch.tensor([[2, 0, 1], [0, 1, 2]]), 0)
BATCH = collate([([3, 4, 5, 6, EOS], [3, EOS])], [0])
PIECES = TREE.pieces[None]
COLUMNS = {pair: column for column, pair in enumerate(RELATION_DIRECTIONS)}
AMOD, NSUBJ = (
    tuple(COLUMNS[name, direction] for direction in Direction) for name in ("amod", "nsubj")
)


def asked(rule: PieceRule) -> set[tuple[int, int, int]]:
    made = questions([TREE], BATCH, PIECES, rule)
    return set(zip(made.column.tolist(), made.index.tolist(), made.partner.tolist(), strict=True))


@pytest.mark.parametrize("rule", [PieceRule.SUM, PieceRule.FIRST, PieceRule.LAST])
def test_words_ask_for_words_in_both_directions(rule) -> None:
    assert asked(rule) == {(AMOD[0], 1, 0), (AMOD[1], 0, 1), (NSUBJ[0], 2, 1), (NSUBJ[1], 1, 2)}


def test_every_piece_asks() -> None:
    amod = {(AMOD[0], 1, 0), (AMOD[0], 2, 0), (AMOD[1], 0, 1)}
    assert asked(PieceRule.ANY) == amod | {(NSUBJ[0], 3, 1), (NSUBJ[1], 1, 2), (NSUBJ[1], 2, 2)}


def test_whole_words_only() -> None:
    assert asked(PieceRule.WHOLE) == set()
    whole = AlignedTree(torch.tensor([0, 1, 2, 2, -1]), TREE.arcs, 0)
    made = questions([whole], BATCH, whole.pieces[None], PieceRule.WHOLE)
    assert set(made.column.tolist()) == set(AMOD)


def test_tally_adds_by_sentence_and_column() -> None:
    made = questions([TREE], BATCH, PIECES, PieceRule.ANY)
    counts = made.tally(torch.ones(len(made.row)))[0]
    expected = torch.zeros(8)
    expected[[AMOD[0], AMOD[1], NSUBJ[0], NSUBJ[1]]] = torch.tensor([2.0, 1.0, 1.0, 2.0])
    assert torch.equal(counts, expected)


def between_words(rule: PieceRule, boundary: bool) -> torch.Tensor:
    weights = torch.tensor(
        [
            [0.1, 0.2, 0.3, 0.3, 0.1],
            [0.5, 0.1, 0.1, 0.1, 0.2],
            [0.3, 0.1, 0.1, 0.1, 0.4],
            [0.0, 0.4, 0.1, 0.2, 0.3],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )[None, None, None]
    eos = (BATCH.source == EOS) if boundary else None
    return word_attention(weights, PIECES, eos, rule)[0, 0, 0]


def test_attention_to_a_word_is_summed_and_from_a_word_averaged() -> None:
    expected = torch.tensor(
        [[0.1, 0.5, 0.3, 0.1], [0.4, 0.2, 0.1, 0.3], [0.0, 0.5, 0.2, 0.3], [0, 0, 0, 0]]
    )
    assert torch.allclose(between_words(PieceRule.SUM, True), expected)
    expected[:, 3] = 0
    assert torch.allclose(between_words(PieceRule.SUM, False), expected)


def test_words_that_ask_may_be_others_than_those_looked_at() -> None:
    # queries: one word of two pieces; keys: "big dogs bark" and EOS
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0], [0.5, 0.1, 0.0, 0.2, 0.2]])[None, None, None]
    asking = torch.tensor([[0, 0]])
    found = word_attention(weights, PIECES, None, PieceRule.SUM, asking)[0, 0, 0, :1, :3]
    torch.testing.assert_close(found, torch.tensor([[0.3, 0.3, 0.3]]))


def test_first_and_last_pieces_stand_for_the_word() -> None:
    first, last = (between_words(rule, False) for rule in (PieceRule.FIRST, PieceRule.LAST))
    assert torch.allclose(
        first[:3, :3], torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.1, 0.1], [0, 0.4, 0.2]])
    )
    assert torch.allclose(
        last[:3, :3], torch.tensor([[0.1, 0.3, 0.3], [0.3, 0.1, 0.1], [0, 0.1, 0.2]])
    )


def test_a_parse_of_other_pieces_is_refused() -> None:
    wrong = AlignedTree(torch.tensor([0, 1, 2, -1]), TREE.arcs, 0)
    with pytest.raises(UserError, match="sentence 0: 4 pieces where the corpus has 5"):
        pieces_of([wrong], BATCH)
