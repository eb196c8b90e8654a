"""Gates that read: their budget holds for every sentence, what they learn, how they are tested."""

import pytest
import torch
from blocks import drawn

import headbook as hb
from headbook.experiments import chosen_heads
from headbook.experiments.chooser import Chooser, given_gates, permuted, shifted, vectors
from headbook.experiments.chosen_heads import cost, trained
from headbook.looking.effects import own_batches
from headbook.models.gates import close_heads
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import collate
from headbook.types import HeadId, Kind


def test_the_shift_is_part_of_the_gradient() -> None:
    """Raising all logits alike changes nothing; one of them, what finite differences say."""
    logits, direction = 3 * drawn(5, 8, seed=3), drawn(5, 8, seed=4)
    logits.requires_grad_()
    (shifted(logits, 3) * direction).sum().backward()
    torch.testing.assert_close(logits.grad.sum(1), torch.zeros(5).double(), atol=1e-4, rtol=0)
    step = torch.zeros(5, 8).double()
    step[2, 6] = 1e-4
    ends = [(shifted(logits.detach() + side, 3) * direction).sum() for side in (step, -step)]
    assert float(logits.grad[2, 6]) == pytest.approx(float(ends[0] - ends[1]) / 2e-4, rel=1e-3)


def test_given_gates_are_those_of_the_heads_and_come_off() -> None:
    model = Transformer(TransformerConfig(9, 9, 2, 2, 8, 8, 4)).eval()
    batch = collate([([3, 4, 5, 1], [3, 4, 1])] * 5, range(5))
    plain, values = model(batch), torch.ones(5, 8)
    values[0, 6] = 0  # layer 2, head 3
    with given_gates(model, values):
        found = model(batch)
    assert all(block.gate is None for _, _, block in model.attentions())
    close_heads(model, [HeadId(Kind.ENCODER, 1, 2)])
    torch.testing.assert_close(found[0], model(batch)[0])
    close_heads(model, [])
    torch.testing.assert_close(found[1:], plain[1:])


def test_every_sentence_gets_the_gates_of_another_and_none_is_lost() -> None:
    gates = [torch.eye(5)[:2], torch.eye(5)[2:]]
    moved = permuted(gates, seed=0)
    rows, others = torch.cat(gates), torch.cat(moved)
    assert list(map(len, moved)) == [2, 3] and not (rows == others).all(1).any()
    assert sorted(rows.tolist()) == sorted(others.tolist())


def test_training_lowers_the_cost_and_leaves_the_model_as_it_was() -> None:
    model = hb.load("minilm")
    text = list(hb.text("ewt-sample", first=4).sentences)
    batches = own_batches(model, text, 256)
    x = vectors(model, batches)
    start = Chooser(72, x[0].shape[1], 24, reads=False)
    before = cost(model, batches, [start.eval()(each) for each in x])
    after = trained(model, batches, x, start, updates=8, seed=0)
    rows = [after(each).detach() for each in x]
    assert cost(model, batches, rows)["value"] < before["value"]
    whole = cost(model, batches, [torch.ones(len(each), 72) for each in batches])
    assert whole["value"] == pytest.approx(0, abs=1e-6)
    assert all(each.requires_grad for each in model.network.parameters())


def test_gates_taught_on_half_of_the_tokens_are_tested_on_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gate that is taught says which half it was; −1 for all tokens."""

    def trained(*given: object) -> Chooser:
        chooser, half = given[3], given[6] if given[6:] else None
        said = -1.0 if half is None else float(half)
        chooser.forward = lambda rows: torch.full((len(rows), 1), said)
        return chooser

    monkeypatch.setattr(chosen_heads, "trained", trained)
    said = lambda model, batches, *gates: {"value": [float(each[0][0]) for each in gates]}  # noqa: E731
    monkeypatch.setattr(chosen_heads, "cost", said)
    model, text = hb.load("minilm"), ["It rains .", "The dog sees a ball ."]
    found = chosen_heads.sweep(model, own_batches(model, text[:1], 256), text, 60, [0], True)
    assert found.set_index("gate")["value"].iloc[3:].to_dict() == {
        "taught on the same tokens": [-1], "fixed gate, halves": [-1, -1],
        "taught on other tokens": [1, 0],
    }  # fmt: skip
