"""Questions put to a head, and attention between words."""

import pytest
import torch

from headbook.heads.arcs import pieces_of, questions, tally, word_attention
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, collate
from headbook.text.trees import RELATION_DIRECTIONS, Direction
from headbook.types import UserError

# "big dogs bark": two pieces for "dogs"; amod(big <- dogs), nsubj(dogs <- bark)
TREE = AlignedTree(torch.tensor([0, 1, 1, 2, -1]), torch.tensor([[2, 0, 1], [0, 1, 2]]), 0)
PIECES = TREE.pieces[None]
COLUMNS = {pair: column for column, pair in enumerate(RELATION_DIRECTIONS)}
AMOD, NSUBJ = (
    tuple(COLUMNS[name, direction] for direction in Direction) for name in ("amod", "nsubj")
)


def test_words_ask_for_words_in_both_directions_and_are_counted() -> None:
    """The second sentence is the first one again, with another arc of the same relation."""
    twice = AlignedTree(TREE.pieces, torch.tensor([[2, 0, 1], [0, 1, 2], [2, 2, 1]]), 0)
    found = questions([TREE, twice])
    first = {tuple(row[1:].tolist()) for row in torch.stack(found, 1) if row[0] == 0}
    assert first == {(1, 0, AMOD[0]), (0, 1, AMOD[1]), (2, 1, NSUBJ[0]), (1, 2, NSUBJ[1])}
    expected = torch.zeros(2, 8)
    expected[:, [*AMOD, *NSUBJ]] = 1.0
    expected[1, [*AMOD]] = 2.0
    assert torch.equal(tally(found, torch.ones(len(found.row)), 2), expected)


def test_attention_to_a_word_is_summed_and_from_a_word_averaged() -> None:
    weights = torch.tensor(
        [
            [0.1, 0.2, 0.3, 0.3, 0.1],
            [0.5, 0.1, 0.1, 0.1, 0.2],
            [0.3, 0.1, 0.1, 0.1, 0.4],
            [0.0, 0.4, 0.1, 0.2, 0.3],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )[None, None, None]
    expected = torch.tensor([[0.1, 0.5, 0.3], [0.4, 0.2, 0.1], [0.0, 0.5, 0.2]])
    assert torch.allclose(word_attention(weights, PIECES)[0, 0, 0], expected)
    # one word of two pieces asks, of "big dogs bark" and EOS
    found = word_attention(weights[..., :2, :], PIECES, torch.tensor([[0, 0]]))
    torch.testing.assert_close(found[0, 0, 0], torch.tensor([[0.3, 0.35, 0.2]]))


def test_pieces_stand_beside_the_tokens_and_others_are_refused() -> None:
    batch = collate([([3, 4, 5, 6, EOS], [EOS]), ([3] * 6 + [EOS], [EOS])], [1, 0])
    long = AlignedTree(torch.tensor([0, 1, 1, 2, 3, 4, -1]), TREE.arcs, 0)
    assert pieces_of([long, TREE], batch).tolist() == [
        [0, 1, 1, 2, -1, -1, -1],
        [0, 1, 1, 2, 3, 4, -1],
    ]
    with pytest.raises(UserError, match="sentence 1: 7 pieces where the corpus has 5"):
        pieces_of([TREE, long], batch)
