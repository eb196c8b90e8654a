"""Null networks: nothing known, nothing left behind, and far below a head that does something."""

import known_heads as planted
import pytest
import torch
from torch import nn

from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure
from headbook.heads.nulls import Null, NullValues, null_values, without_knowledge
from headbook.heads.positional import PositionalShare
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import Kind, UserError

VOCABULARY = 1000


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    built = Transformer(TransformerConfig(VOCABULARY, VOCABULARY, 2, 1, 32, 48, 4, 0.0))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return built


def copies(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def weights_as(model: nn.Module, null: Null, seed: int) -> list[torch.Tensor]:
    with without_knowledge(model, null, seed):
        return copies(model)


def measures() -> dict[str, HeadMeasure]:
    return {
        "confidence": Confidence(Kind.ENCODER, replicates=0),
        "positional": PositionalShare(Kind.ENCODER, reach=2, replicates=0),
    }


def test_permuted_matrices_have_the_same_values_elsewhere(model) -> None:
    own, permuted = copies(model), weights_as(model, Null.PERMUTED, 0)
    matrices = [(one, other) for one, other in zip(own, permuted, strict=True) if one.ndim > 1]
    assert len(matrices) > 10
    for one, other in matrices:
        assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)
        assert (one == other).float().mean() < 0.05


def test_drawn_matrices_have_the_mean_and_spread_but_other_values(model) -> None:
    own, drawn = copies(model), weights_as(model, Null.DRAWN, 0)
    for one, other in zip(own, drawn, strict=True):
        if one.ndim > 1:
            assert torch.isin(one, other).float().mean() < 0.05
            assert abs(one.mean() - other.mean()) < 5 * one.std() / one.numel() ** 0.5
            assert torch.isclose(one.std(), other.std(), rtol=0.15)


@pytest.mark.parametrize("null", list(Null))
def test_vectors_stay_and_shapes_and_types_too(model, null) -> None:
    model.to(torch.bfloat16)
    for one, other in zip(copies(model), weights_as(model, null, 0), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert one.ndim > 1 or torch.equal(one, other)


@pytest.mark.parametrize("null", list(Null))
def test_a_seed_decides(model, null) -> None:
    first, again, other = (weights_as(model, null, seed) for seed in (3, 3, 4))
    assert all(map(torch.equal, first, again))
    changed = [not torch.equal(one, two) for one, two in zip(first, other, strict=True)]
    assert changed == [each.ndim > 1 for each in first]


def test_tied_parameters_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inward, self.outward = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.outward.weight = self.inward.weight

        def attentions(self):
            return iter(())

    model = Tied()
    with without_knowledge(model, Null.DRAWN, 0):
        assert torch.equal(model.inward.weight, model.outward.weight)


def test_the_model_is_itself_again_after_an_error_too(model) -> None:
    before, objects = copies(model), [id(each) for each in model.parameters()]
    with pytest.raises(RuntimeError, match="halfway"), without_knowledge(model, Null.PERMUTED, 0):
        raise RuntimeError("halfway")
    assert all(map(torch.equal, before, copies(model)))
    assert objects == [id(each) for each in model.parameters()]


def test_null_networks_are_measured_on_the_text(model, corpus) -> None:
    batches = [corpus.batch(list(range(start, start + 20))) for start in (0, 20, 40)]
    before = copies(model)
    found = null_values(model, batches, measures, count=3)
    assert found.values["confidence"].shape == (3, 2, 4)
    assert found.values["positional"].shape == (3, 2, 4, 5)
    assert all(map(torch.equal, before, copies(model)))
    # the third is permuted as the first is, from another seed
    assert len(found.values["confidence"].flatten(1).unique(dim=0)) == 3
    again = null_values(model, batches, measures, count=3)
    assert all(torch.equal(found.values[name], again.values[name]) for name in found.values)
    other = null_values(model, batches, measures, count=3, seed=1)
    assert not torch.isin(found.values["confidence"], other.values["confidence"]).any()


def test_the_best_head_of_each_null_is_the_largest_of_its_heads() -> None:
    values = torch.tensor([[[0.1, 0.4], [0.3, torch.nan]], [[0.2, 0.1], [0.5, 0.0]]])
    several = torch.stack([values, torch.full_like(values, torch.nan)], dim=-1)
    found = NullValues({"one": values.double(), "two": several.double()})
    assert found.best("one").tolist() == pytest.approx([0.4, 0.5])
    assert found.largest("one") == pytest.approx(0.5)
    assert found.best("two")[:, 0].tolist() == pytest.approx([0.4, 0.5])
    assert found.best("two")[:, 1].isnan().all()


def test_a_planted_head_is_above_every_null(model, corpus) -> None:
    batch = corpus.batch(list(range(60)))
    nulls = null_values(model, [batch], measures)
    tape = planted.recording([planted.at_offset(batch, -1)])
    for name, measure in measures().items():
        measure.update(tape, batch)
        assert measure.compute().nan_to_num().max() > nulls.largest(name).max() + 0.2


def test_no_nulls_are_refused(model, corpus) -> None:
    with pytest.raises(UserError, match="use at least 1"):
        null_values(model, [corpus.batch([0])], measures, count=0)
