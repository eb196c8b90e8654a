"""Of a network with new ends just the named weights are trained; the others stay as they are."""

import pytest
import torch
from transformers import BertConfig, BertModel

from headbook.models.bodies import EncoderBody, body_of
from headbook.models.new_ends import NewEnds, Trainable
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.types import UserError


def bert() -> BertModel:
    config = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=12)  # fmt: skip
    return BertModel(config)


def ours() -> Transformer:
    return Transformer(TransformerConfig(30, 30, 2, 0, 16, 32, 2, norm=NormPlacement.PRE))


def network(positions: int | None = None, each: int = 1, make=bert) -> NewEnds:
    torch.manual_seed(0)
    return NewEnds(body_of(make(), 2), 3, 4, positions, each).eval()


NORMS = [
    f"body.bert.{place}LayerNorm.{part}"
    for place in ("embeddings.", *(f"encoder.layer.{layer}.{sublayer}output."
                                   for layer in (0, 1) for sublayer in ("attention.", "")))
    for part in ("weight", "bias")
]  # fmt: skip
OUTPUT, INPUT = ["output.weight", "output.bias"], ["input.weight", "input.bias"]
POSITIONS = ["body.bert.embeddings.position_embeddings.weight"]
EXPECTED = {
    Trainable.OUTPUT: OUTPUT,
    Trainable.NORMS: OUTPUT + NORMS,
    Trainable.INPUT: OUTPUT + NORMS + INPUT,
    Trainable.POSITIONS: OUTPUT + NORMS + INPUT + POSITIONS,
}


NORMS_OF_OURS = [
    f"body.{place}norm.{part}"
    for place in ("", *(f"layers.{layer}.around_{sublayer}." for layer in (0, 1)
                        for sublayer in ("attention", "feed_forward")))
    for part in ("weight", "bias")
]  # fmt: skip
OF_OURS = OUTPUT + NORMS_OF_OURS + INPUT + ["body.positions"]


def stepped(model: NewEnds) -> dict[str, bool]:
    """Whether each weight's bits changed in one update."""
    before = {name: values.clone() for name, values in model.state_dict().items()}
    chosen = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.Adam(chosen, lr=0.01)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    logits = model(torch.randn(2, 5, 3), real)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([0, 3])).backward()
    optimiser.step()
    after = model.state_dict()
    return {name: not torch.equal(values, after[name]) for name, values in before.items()}


@pytest.mark.parametrize("trainable", list(EXPECTED))
def test_only_the_named_weights_are_trained(trainable):
    model = network()
    assert sorted(model.train_only(trainable)) == sorted(EXPECTED[trainable])
    assert {name for name, moved in stepped(model).items() if moved} == set(EXPECTED[trainable])


def test_of_our_encoder_the_same_weights_are_trained_and_positions_start_as_sinusoids():
    model, plain = network(make=ours), ours()
    assert sorted(model.train_only(Trainable.POSITIONS)) == sorted(OF_OURS)
    assert {name for name, moved in stepped(model).items() if moved} == set(OF_OURS)
    assert torch.equal(network(make=ours).body.positions, plain.source.positions)
    assert set(model.train_only(Trainable.ALL)) == dict(model.named_parameters()).keys()


def test_our_body_gives_the_states_of_its_encoder():
    """Of vectors that are its own embeddings, padding among them."""
    plain = ours().eval()
    ids = torch.tensor([[5, 9, 4, 7], [8, 3, 0, 0]])
    states, _ = plain.encode(ids)
    found = EncoderBody(plain, 2)(plain.source.tokens(ids), ids != 0)
    assert torch.allclose(found[ids != 0], states[ids != 0], atol=1e-6)
    lowest = EncoderBody(plain, 1)(plain.source.tokens(ids), ids != 0)
    assert not torch.allclose(lowest[ids != 0], states[ids != 0], atol=1e-3)


def test_several_answers_stand_at_one_position():
    inputs, real = torch.randn(1, 5, 3), torch.ones(1, 5, dtype=torch.bool)
    model = network(positions=2, each=3)
    logits, states = model(inputs, real), model.read(inputs, real)
    assert logits.shape == (1, 6, 4)
    assert torch.allclose(logits[0, 3:5].flatten(), model.output(states)[0, 1, :8])


def test_all_weights_are_trained_and_a_thawed_one_is_seen():
    model = network()
    names = model.train_only(Trainable.ALL)
    assert set(names) == dict(model.named_parameters()).keys()
    assert not any("word_embeddings" in name or "pooler" in name for name in names)
    model.train_only(Trainable.NORMS)
    model.body.bert.encoder.layer[0].output.dense.weight.requires_grad_(True)
    moved = {name for name, changed in stepped(model).items() if changed}
    assert moved - set(EXPECTED[Trainable.NORMS]) == {
        "body.bert.encoder.layer.0.output.dense.weight"
    }


def test_the_input_layer_is_orthogonal_with_its_gain():
    weight = network().input.weight
    assert torch.allclose(weight.T @ weight, 1.41**2 * torch.eye(3), atol=1e-5)


def test_answers_stand_at_the_last_positions_or_are_one_without_padding():
    inputs, real = torch.randn(1, 5, 3), torch.ones(1, 5, dtype=torch.bool)
    assert network(positions=2).read(inputs, real).shape == (1, 2, 16)
    one = network().read(inputs[:, :3], real[:, :3])
    padded = network().read(inputs, torch.tensor([[True] * 3 + [False] * 2]))
    assert one.shape == (1, 1, 16) and torch.allclose(one, padded, atol=1e-6)
    assert not torch.allclose(one, network().read(inputs, real), atol=1e-3)


def test_wrong_shapes_are_refused_in_one_line():
    for layers in (0, 3):
        for make in (bert, ours):
            with pytest.raises(UserError, match=f"{layers} layers of a body that has 2"):
                body_of(make(), layers)
    with pytest.raises(UserError, match="longer than the body's 12 positions"):
        network().read(torch.zeros(1, 13, 3), torch.ones(1, 13, dtype=torch.bool))
    bare = bert()
    del bare.embeddings.position_embeddings
    with pytest.raises(UserError, match="no learnt positions"):
        body_of(bare, 1)
