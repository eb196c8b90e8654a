"""Questions put to a head, and attention between words."""

import pytest
import torch

from headbook.heads.arcs import pieces_of, questions, word_attention
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, collate
from headbook.text.trees import RELATION_DIRECTIONS, Direction
from headbook.types import UserError

# "big dogs bark": two pieces for "dogs"; amod(big <- dogs), nsubj(dogs <- bark)
TREE = AlignedTree(torch.tensor([0, 1, 1, 2, -1]), torch.tensor([[2, 0, 1], [0, 1, 2]]), 0)
BATCH = collate([([3, 4, 5, 6, EOS], [3, EOS])], [0])
PIECES = TREE.pieces[None]
COLUMNS = {pair: column for column, pair in enumerate(RELATION_DIRECTIONS)}
AMOD, NSUBJ = (
    tuple(COLUMNS[name, direction] for direction in Direction) for name in ("amod", "nsubj")
)


def asked() -> set[tuple[int, int, int]]:
    made = questions([TREE], BATCH)
    return set(zip(made.column.tolist(), made.index.tolist(), made.partner.tolist(), strict=True))


def test_words_ask_for_words_in_both_directions() -> None:
    assert asked() == {(AMOD[0], 1, 0), (AMOD[1], 0, 1), (NSUBJ[0], 2, 1), (NSUBJ[1], 1, 2)}


def test_tally_adds_by_sentence_and_column() -> None:
    """The second sentence is the first one again, with another arc of the same relation."""
    twice = AlignedTree(TREE.pieces, torch.tensor([[2, 0, 1], [0, 1, 2], [2, 2, 1]]), 0)
    batch = collate([([3, 4, 5, 6, EOS], [3, EOS])] * 2, [0, 1])
    made = questions([TREE, twice], batch)
    counts = made.tally(torch.ones(len(made.row)))
    expected = torch.zeros(2, 8)
    expected[:, [*AMOD, *NSUBJ]] = 1.0
    expected[1, [*AMOD]] = 2.0
    assert torch.equal(counts, expected)


def between_words() -> torch.Tensor:
    weights = torch.tensor(
        [
            [0.1, 0.2, 0.3, 0.3, 0.1],
            [0.5, 0.1, 0.1, 0.1, 0.2],
            [0.3, 0.1, 0.1, 0.1, 0.4],
            [0.0, 0.4, 0.1, 0.2, 0.3],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )[None, None, None]
    return word_attention(weights, PIECES)[0, 0, 0]


def test_attention_to_a_word_is_summed_and_from_a_word_averaged() -> None:
    expected = torch.tensor([[0.1, 0.5, 0.3], [0.4, 0.2, 0.1], [0.0, 0.5, 0.2]])
    assert torch.allclose(between_words(), expected)


def test_words_that_ask_may_be_others_than_those_looked_at() -> None:
    # queries: one word of two pieces; keys: "big dogs bark" and EOS
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0], [0.5, 0.1, 0.0, 0.2, 0.2]])[None, None, None]
    asking = torch.tensor([[0, 0]])
    found = word_attention(weights, PIECES, asking)[0, 0, 0]
    torch.testing.assert_close(found, torch.tensor([[0.3, 0.3, 0.3]]))


def test_a_parse_of_other_pieces_is_refused() -> None:
    wrong = AlignedTree(torch.tensor([0, 1, 2, -1]), TREE.arcs, 0)
    with pytest.raises(UserError, match="sentence 0: 4 pieces where the corpus has 5"):
        pieces_of([wrong], BATCH)
