"""States of tokens: each is put where its token is, behind each layer, whatever the batches."""

import pytest
import torch
from torch import Tensor

from headbook.layers import states as layers
from headbook.layers.states import flat, frequent, occurrences, token_states
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, PAD, UNK

VOCABULARY, WIDTH = 30, 32
SENTENCES = [[7, 8, 9, EOS], [10, EOS], [8, 8, 11, 12, 13, EOS], [7, 9, EOS], [EOS]]
EXACT = 1e-5


@pytest.fixture(params=[(2, 0), (0, 2)], ids=["encoder", "decoder"])
def found(request: pytest.FixtureRequest) -> tuple[Transformer, Tensor]:
    torch.manual_seed(0)
    config = TransformerConfig(VOCABULARY, VOCABULARY, *request.param, WIDTH, 64, 4)
    made = Transformer(config).eval()
    return made, token_states(made, SENTENCES, torch.arange(len(flat(SENTENCES))))


def test_below_the_first_layer_is_the_token_s_embedding(found: tuple[Transformer, Tensor]) -> None:
    """Planted: one-hot embeddings. A decoder reads its token one position later."""
    made, _ = found
    table = made.source if len(made.encoder) else made.target
    with torch.no_grad():
        table.tokens.weight.copy_(100 * torch.eye(VOCABULARY, WIDTH))
    states = token_states(made, SENTENCES, torch.arange(11))
    assert states[0].argmax(-1).tolist() == flat(SENTENCES).tolist()


def test_behind_the_last_layer_and_its_norm_is_what_the_logits_see(
    found: tuple[Transformer, Tensor],
) -> None:
    made, states = found
    row = torch.tensor([SENTENCES[2]])
    with torch.inference_mode():
        if len(made.encoder):
            expected = made.encode(row)[0][0, :5]
            normed = made.encoder_norm(states[-1, 4:9])
        else:
            start = torch.tensor([[PAD]])
            expected = made.decode(torch.cat([start, row], 1), None, None)[0, 1:6]
            normed = made.decoder_norm(states[-1, 4:9])
    assert torch.allclose(normed, expected, atol=EXACT)


def test_batches_and_what_else_is_asked_for_change_nothing(
    found: tuple[Transformer, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, states = found
    monkeypatch.setattr(layers, "BATCH_TOKENS", 1)
    assert torch.allclose(token_states(made, SENTENCES, torch.arange(11)), states, atol=EXACT)
    asked = torch.tensor([9, 2, 4, 2])  # one of them twice
    assert torch.allclose(token_states(made, SENTENCES, asked), states[:, asked], atol=EXACT)


def test_the_most_frequent_tokens_without_the_reserved() -> None:
    text = torch.tensor([UNK] * 9 + [5] * 3 + [4] * 4 + [9])
    assert frequent(text, 2).tolist() == [4, 5]
    assert frequent(text, 10).tolist() == [4, 5, 9]


def test_so_many_of_each_at_most_and_only_where_allowed() -> None:
    text = torch.tensor([5] * 100 + [6] * 3 + [7] * 50).roll(20)
    everywhere = torch.ones(153, dtype=torch.bool)
    found = occurrences(text, torch.tensor([6, 5]), 10, 0, everywhere)
    assert text[found].bincount().tolist() == [0] * 5 + [10, 3]
    assert found.tolist() == sorted(set(found.tolist()))
    allowed = torch.arange(153) % 2 == 0
    assert bool(allowed[occurrences(text, torch.tensor([5]), 10, 0, allowed)].all())
