"""A network with new ends: the weights of each part, and where answers stand."""

import torch
from tiny_hugging import BERT
from transformers import BertConfig, BertModel

from headbook.models.new_ends import EncoderBody, NewEnds
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig


def bert() -> BertModel:
    return BertModel(BertConfig(**BERT, vocab_size=20, max_position_embeddings=12))


def ours() -> Transformer:
    return Transformer(TransformerConfig(30, 30, 2, 0, 8, 8, 2, norm=NormPlacement.PRE))


def network(positions: int | None = None, each: int = 1) -> NewEnds:
    torch.manual_seed(0)
    return NewEnds(bert(), 2, 3, 4, positions, each).eval()


def test_our_body_gives_the_states_of_its_encoder():
    """Of vectors that are its own embeddings, padding among them."""
    plain = ours().eval()
    ids = torch.tensor([[5, 9, 4, 7], [8, 3, 0, 0]])
    states, _ = plain.encode(ids)
    found = EncoderBody(plain, 2)(plain.source.tokens(ids), ids != 0)
    assert torch.allclose(found[ids != 0], states[ids != 0], atol=1e-6)
    lowest = EncoderBody(plain, 1)(plain.source.tokens(ids), ids != 0)
    assert not torch.allclose(lowest[ids != 0], states[ids != 0], atol=1e-3)


def test_answers_stand_at_the_last_positions_or_are_one_without_padding():
    inputs, real = torch.randn(1, 5, 3), torch.ones(1, 5, dtype=torch.bool)
    model = network(positions=2, each=3)
    states = model.read(inputs, real)
    logits = model.answer(states)
    assert states.shape == (1, 2, 8) and logits.shape == (1, 6, 4)
    assert torch.allclose(logits[0, 3:5].flatten(), model.output(states)[0, 1, :8])
    one = network().read(inputs[:, :3], real[:, :3])
    padded = network().read(inputs, torch.tensor([[True] * 3 + [False] * 2]))
    assert one.shape == (1, 1, 8) and torch.allclose(one, padded, atol=1e-6)
    assert not torch.allclose(one, network().read(inputs, real), atol=1e-3)
