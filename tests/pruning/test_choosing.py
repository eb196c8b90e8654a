"""A gate that reads: its budget holds for every sentence, its gradient, and what it can learn."""

from collections.abc import Callable

import pytest
import torch

from headbook.corpora.batches import EncodedPair, collate
from headbook.models.gates import FixedGate, close_heads, open_all
from headbook.models.transformer import Transformer
from headbook.pruning.choosing import Chooser, given_gates
from headbook.pruning.hard_concrete import open_probability
from headbook.types import HeadId, Kind, UserError

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(5, 4, generator=DRAWN)


def chooser(reads: bool = True, open_heads: int = 3) -> Chooser:
    made = Chooser(8, 4, open_heads, reads)
    with torch.no_grad():
        made.bias.normal_(0, 3, generator=DRAWN)
        made.weight.normal_(0, 3 * reads, generator=DRAWN)
    return made


def test_as_many_gates_are_expected_open_for_every_sentence() -> None:
    made = chooser()
    chance = open_probability(made.log_alpha(X), made.constants)
    torch.testing.assert_close(chance.sum(1), torch.full((5,), 3.0), rtol=1e-4, atol=1e-4)
    torch.manual_seed(0)
    drawn = made.train()(X.repeat(4000, 1)).view(4000, *chance.shape)
    torch.testing.assert_close((drawn > 0).float().mean(0), chance, rtol=0, atol=0.05)


def test_at_test_time_the_largest_are_open_and_only_they() -> None:
    made = chooser().eval()
    logits = made.bias + X @ made.weight.T
    found = made(X)
    assert set(found.unique().tolist()) == {0.0, 1.0} and (found.sum(1) == 3).all()
    for row, values in zip(found, logits, strict=True):
        assert values[row == 1].min() > values[row == 0].max()
    assert len({tuple(row) for row in chooser(reads=False).eval()(X).tolist()}) == 1


def test_the_shift_is_part_of_the_gradient() -> None:
    """Raising all logits alike changes nothing; one of them, what finite differences say."""
    made = chooser().double()
    x = X.double()
    direction = torch.randn(5, 8, generator=DRAWN).double()
    (made.log_alpha(x) * direction).sum().backward()
    assert made.bias.grad.sum().abs() < 1e-4
    step = 1e-4
    for head in (0, 5):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                made.bias[head] += sign * step
                ends.append((made.log_alpha(x) * direction).sum())
                made.bias[head] -= sign * step
        assert made.bias.grad[head] == pytest.approx(
            float(ends[0] - ends[1]) / (2 * step), rel=1e-3
        )


def test_a_reading_gate_learns_to_open_the_heads_that_a_sentence_names() -> None:
    """Two kinds of sentences, each in need of other heads: a fixed gate can serve one of them."""
    x = torch.eye(2).repeat(8, 1)
    needed = torch.tensor([[1.0] * 3 + [0.0] * 5, [0.0] * 5 + [1.0] * 3]).repeat(8, 1)
    missed = {}
    for reads in (True, False):
        torch.manual_seed(0)
        made = Chooser(8, 2, 3, reads)
        optimiser = torch.optim.Adam(
            [each for each in made.parameters() if each.requires_grad], 0.1
        )
        for _ in range(150):
            optimiser.zero_grad()
            (needed * (1 - made.train()(x))).sum().backward()
            optimiser.step()
        missed[reads] = float((needed * (1 - made.eval()(x))).sum(1).mean())
    assert missed[True] == 0 and missed[False] == pytest.approx(1.5, abs=0.1)


def test_given_gates_are_those_of_the_heads_and_come_off(
    tiny: Callable[..., Transformer], copies: list[EncodedPair]
) -> None:
    model, batch = tiny(), collate(copies[:5], range(5))
    plain = model(batch)
    values = torch.ones(len(batch), 8)
    values[0, 6] = 0  # layer 2, head 3
    with given_gates(model, Kind.ENCODER, values):
        found = model(batch)
    close_heads(model, [HeadId(Kind.ENCODER, 1, 2)])
    torch.testing.assert_close(found[0], model(batch)[0])
    open_all(model)
    torch.testing.assert_close(found[1:], plain[1:])
    torch.testing.assert_close(model(batch), plain)
    block = next(block for _, _, block in model.attentions())
    block.gate = own = FixedGate(torch.ones(4))
    with given_gates(model, Kind.ENCODER, values):
        assert block.gate is not own
    assert block.gate is own


def test_impossible_numbers_of_heads_are_refused(tiny: Callable[..., Transformer]) -> None:
    with pytest.raises(UserError, match="8 of 8 heads open"):
        Chooser(8, 4, 8, reads=True)
    with (
        pytest.raises(UserError, match="7 gates"),
        given_gates(tiny(), Kind.ENCODER, torch.ones(2, 7)),
    ):
        pass
