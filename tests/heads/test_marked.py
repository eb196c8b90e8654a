"""Weight on marked tokens: known answers, and sentences and special tokens that do not count."""

import pytest
import torch

from headbook.corpora.batches import collate
from headbook.heads.collect import collect
from headbook.heads.marked import MarkedWeight
from headbook.looking.load import load


class Fixed(torch.nn.Module):
    """A network whose one layer has these weights, [head query key], for every sentence."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights
        self.gain = torch.nn.Parameter(torch.ones(1))
        self.record, self.gate, self.heads = None, None, len(weights)

    def attentions(self):
        from headbook.types import Kind

        yield Kind.ENCODER, 0, self

    def forward(self, batch):
        from headbook.models.capture import Point

        length = batch.source.shape[1]
        found = self.weights[:, :length, :length].expand(len(batch), -1, -1, -1)
        self.record(Point.WEIGHTS, found)


def measured(weights, marks, lengths=(4,)):
    pairs = [([5] * (length - 1) + [1], [5, 1]) for length in lengths]
    measure = MarkedWeight(marks, replicates=0)
    collect(Fixed(weights), [collate(pairs, range(len(pairs)))], [measure], progress=iter)
    return measure.compute().flatten()  # torchmetrics squeezes a single number


def test_uniform_weights_have_no_preference_and_a_pointer_has_all():
    pointer = torch.zeros(4, 4)
    pointer[:, 1] = 1
    weights = torch.stack([torch.full((4, 4), 0.25), pointer, torch.eye(4)])
    marks = [torch.tensor([False, True, False, False])]
    assert measured(weights, marks).tolist() == pytest.approx([1, 3, 1])


def test_weight_on_special_tokens_is_left_out_of_the_share():
    half = torch.tensor([0.1, 0.2, 0.1, 0.6]).expand(1, 4, 4)
    marks = [torch.tensor([False, True, False, False])]
    assert measured(half, marks).item() == pytest.approx(0.5 / (1 / 3))


def test_a_sentence_without_a_mark_does_not_count():
    weights = torch.rand(2, 6, 6).softmax(-1)
    marks = [torch.tensor([True, False, False, False]), torch.zeros(6, dtype=torch.bool)]
    both = measured(weights[:, :, :4].repeat(1, 1, 2)[:, :, :6], marks, (4, 6))
    alone = measured(weights[:, :, :4].repeat(1, 1, 2)[:, :, :6], marks, (4,))
    torch.testing.assert_close(both, alone)


def test_a_released_encoder_has_a_value_for_every_head():
    model = load("minilm")
    (batch,) = model.batches(["A lovely film."])
    marks = [torch.tensor([piece == "lovely" for piece in model.pieces("A lovely film.")])]
    measure = MarkedWeight(marks, replicates=0)
    collect(model.network, [batch], [measure], progress=iter)
    assert measure.compute().shape == (6, 12)
    assert (measure.compute() > 0).all()
