"""Regularisers of diversity: known answers, formulas by hand, and what the loop makes of them."""

from collections.abc import Iterable
from pathlib import Path

import blocks
import pytest
import torch
from refusing import refuses
from torch import Tensor
from torch.nn import functional

from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, Batch
from headbook.training import processes
from headbook.training.config import Precision, TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.regularising import Regulariser, Term
from headbook.types import Kind

HEADS, DIM = 3, 4


def tiny(layers: int = 1, heads: int = HEADS) -> Transformer:
    sizes = {"encoder_layers": layers, "decoder_layers": layers}
    sizes |= {"width": HEADS * DIM, "feed_forward": 16, "heads": heads}
    return blocks.tiny(3, torch.float32, **sizes)


def taped(model: Transformer, batch: Batch) -> Tape:
    with capture(model, frozenset(Point)) as tape:
        model(batch)
    return tape


def of(term: Term, *kinds: Kind, strength: float = 1.0) -> Regulariser:
    return Regulariser(term, strength, kinds or tuple(Kind))


def trainer(folder: Path, model: Transformer) -> Trainer:
    config = TrainingConfig(1, tokens=60, warmup=10, precision=Precision.FULL, validate_every=20)
    folder.mkdir(exist_ok=True)
    train, valid = ([([*range(3, n), EOS],) * 2 for n in each] for each in ((5, 6, 9) * 9, (4, 8)))
    return Trainer(model, config, train, valid, folder)


def by_hand(term: Term, tape: Tape, batch: Batch, kind: Kind, layer: int) -> float:
    """Sentence by sentence; padding is cut off."""
    source, target = batch.source_mask.sum(1).tolist(), batch.target_mask.sum(1).tolist()
    queries = source if kind is Kind.ENCODER else target
    keys = target if kind is Kind.DECODER else source

    def cut(point: Point, lengths: list[int]) -> list[Tensor]:
        rows = zip(tape[kind, point][layer].detach().double(), lengths, strict=True)
        return [row[:, :n] for row, n in rows]

    def squares(of: Iterable[Tensor]) -> Tensor:
        """Mean square of the cosines of any two of each."""
        units = [functional.normalize(each.flatten(1), dim=-1) for each in of]
        return torch.stack([(x @ x.T)[~torch.eye(len(x)).bool()] ** 2 for x in units]).mean()

    def at_tokens(rows: list[Tensor]) -> Tensor:
        unit = functional.normalize(torch.cat(rows, dim=1), dim=-1)
        return torch.einsum("itd,jtd->ijt", unit, unit).mean()

    def alignment(rows: list[Tensor]) -> Tensor:
        x = torch.cat(rows, dim=1)
        size = torch.stack([torch.stack([(one.T @ other).norm() for other in x]) for one in x])
        found = size / (size.diagonal()[:, None] * size.diagonal()).sqrt()
        return found[~torch.eye(HEADS).bool()].mean()

    contexts, values = cut(Point.CONTEXT, queries), cut(Point.VALUES, keys)
    maps = [each[..., :n] for each, n in zip(cut(Point.WEIGHTS, queries), keys, strict=True)]
    means = torch.stack([each.mean(1) for each in contexts])
    alike = [torch.einsum("iqk,jqk->qij", each, each) for each in maps]
    return float({
        Term.SUBSPACE: lambda: at_tokens(values),
        Term.OUTPUTS: lambda: at_tokens(contexts),
        Term.POSITIONS: lambda: torch.cat(alike).mean(),
        Term.CONTEXTS: lambda: squares(means),
        Term.SCORES: lambda: squares(maps),
        Term.SPREAD: lambda: -squares(means.transpose(0, 1)),
        Term.QUERIES: lambda: alignment(cut(Point.QUERIES, queries)),
        Term.SPANS: lambda: alignment(contexts),
    }[term]())  # fmt: skip


@pytest.mark.parametrize("term", Term, ids=lambda term: term.name)
def test_each_term_is_its_formula_and_padding_does_not_count(term: Term):
    """Of every kind; of several the mean over their blocks."""
    model = tiny(layers=2).eval()
    batch = blocks.ragged((1, 2, 9, 17), (3, 1, 17, 2), extra=5)
    tape = taped(model, batch)
    wanted = [sum(by_hand(term, tape, batch, kind, at) for at in (0, 1)) / 2 for kind in Kind]
    found = [float(of(term, kind).value(batch, tape).detach()) for kind in Kind]
    assert found == pytest.approx(wanted, abs=1e-6)
    assert float(of(term).value(batch, tape).detach()) == pytest.approx(sum(wanted) / 3, abs=1e-6)


def test_the_loss_is_that_of_the_batch_plus_strength_times_the_term(tmp_path: Path):
    """Gradient by gradient; what the curve calls the training loss is without the penalty."""
    gradients, losses = [], []
    for strength in (0.0, 0.7):
        made = trainer(tmp_path / str(strength), tiny())
        if strength:
            made.addition = of(Term.OUTPUTS, strength=strength)
        made.optimiser.step = lambda at=made: gradients.append(
            {name: each.grad.clone() for name, each in at.model.named_parameters()}
        )
        losses.append(made.run().curve[-1])
    model = tiny().train()
    batch = next(iter(trainer(tmp_path / "0.0", model)._batches()))
    found = of(Term.OUTPUTS).value(batch, taped(model, batch))
    found.backward()
    for name, each in model.named_parameters():
        alone = 0.0 if each.grad is None else 0.7 * each.grad
        torch.testing.assert_close(gradients[1][name], gradients[0][name] + alone, msg=name)
    assert losses[0]["train_loss_nats"] == losses[1]["train_loss_nats"]
    assert losses[1]["penalty"] == pytest.approx(float(found.detach()), rel=1e-5)


def test_what_cannot_be_regularised_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = trainer(tmp_path, tiny())
    made.addition = of(Term.OUTPUTS)
    monkeypatch.setattr(processes, "count", lambda: 2)
    refuses(made.run, "train this model without torchrun")
