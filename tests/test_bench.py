"""The benchmark prints its rows; whether they are good is for the machine it runs on."""

import re

import numpy as np
import pytest
import torch

from headbook.bench import relevance
from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, TrainingStep, build
from headbook.bench.rounds import Spread, interleaved, ratio
from headbook.bench.run import bench
from headbook.bench.speed import operations, training_batches
from headbook.corpora.batches import EOS, collate, in_order
from headbook.models.transformer import TransformerConfig
from headbook.training.loop import Precision
from headbook.types import Kind, UserError

TINY = BenchConfig(
    widths=(16,), rounds=2, layers=1, heads=2, vocabulary=300, tokens=64, product=32, sentences=8
)


def test_the_table_holds_every_row(capsys: pytest.CaptureFixture):
    table = bench(TINY)
    assert table["quantity"].tolist() == [
        "training: ours",
        "training: torch.nn.Transformer",
        "training: torch.nn.Transformer, memory not kept",
        "training: ours over torch.nn.Transformer",
        "training: ours over torch.nn.Transformer, memory not kept",
        "matrix product, bf16-mixed",
        "training: ours over matrix product",
        "measuring over a plain forward pass",
        "relevance: all predictions of a batch together",
        "relevance: one position of one sentence at a time",
        "relevance: together over one at a time",
        "peak memory, 8 sentences",
        "peak memory, 32 sentences",
        "peak memory, 4 times the sentences",
    ]
    numbers = table[["lowest", "median", "highest"]].to_numpy()
    assert np.isfinite(numbers).all() and (numbers > 0).all()
    assert (np.diff(numbers, axis=1) >= 0).all()
    assert (table["width"] == 16).all()
    printed = capsys.readouterr().out
    assert all(quantity in printed for quantity in table["quantity"])


OURS = {
    r"layers\.(en|de)coder\.norm": r"\1coder_norm",
    r"layers\.(en|de)coder\.layers": r"\1coder",
    "self_attn": "attention",
    "multihead_attn": "cross",
    "out_proj": "output",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
    "norm1": "around_attention.norm",
    r"(encoder\.\d+)\.norm2": r"\1.around_feed_forward.norm",
    r"(decoder\.\d+)\.norm2": r"\1.around_cross.norm",
    "norm3": "around_feed_forward.norm",
}
"""Our names of torch's parameters."""


def under_our_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Torch's weights, queries, keys and values apart."""
    ours = {}
    for name, weight in state.items():
        for theirs, here in OURS.items():
            name = re.sub(theirs, here, name)
        stem, joined, last = name.partition("in_proj_")
        parts = ("query", "key", "value") if joined else ()
        ours |= {
            f"{stem}{part}.{last}": rows
            for part, rows in zip(parts, weight.chunk(max(len(parts), 1)), strict=False)
        }
        if not joined:
            ours[name] = weight
    return ours


def test_both_contestants_are_the_same_model():
    """As many parameters, and the same logits once ours has the weights of torch's."""
    ours, torchs = (build(each, TINY.model(16)).eval() for each in Contestant)
    ours.load_state_dict(under_our_names(torchs.state_dict()))
    batch = collate([([5, 6, 7, EOS], [8, 9, EOS]), ([5, EOS], [8, 9, 10, 11, EOS])], [0, 1])
    with torch.no_grad():
        found, expected = (model(batch)[batch.target_mask] for model in (ours, torchs))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("contestant", list(Contestant))
@pytest.mark.parametrize("precision", list(Precision))
def test_both_contestants_learn(contestant: Contestant, precision: Precision):
    torch.manual_seed(0)
    step = TrainingStep(build(contestant, TINY.model(16)), precision)
    step.optimiser.param_groups[0]["lr"] = 0.01
    (batch, *_) = training_batches(TINY)
    losses = [step(batch) for _ in range(30)]
    assert losses[-1] < losses[0] - 0.5


def test_both_ways_to_relevance_give_the_same(monkeypatch: pytest.MonkeyPatch):
    """Each contestant's relevance of the cross-attention, summed over all predictions."""
    model = build(Contestant.OURS, TINY.model(16)).eval().double()
    pairs = relevance._pairs(TINY)
    sums = []

    def summing(function):
        def work(*arguments):
            found = function(*arguments)
            sums[-1] += found.heads[Kind.CROSS].sum((0, 1))
            return found

        return work

    for name in ("relevances", "propagate"):
        monkeypatch.setattr(relevance, name, summing(getattr(relevance, name)))
    for way, batches in (
        (relevance.together, list(in_order(pairs, relevance.TOKENS))),
        (relevance.one_at_a_time, [collate([each], [0]) for each in pairs]),
    ):
        sums.append(torch.zeros(1, 2, dtype=torch.float64))
        way(model, batches)
    assert torch.allclose(*sums)


def test_a_batch_a_round_within_the_cap():
    batches = training_batches(TINY)
    assert len(batches) == TINY.rounds + 1
    assert all(batch.source.numel() <= 64 and batch.target_out.numel() <= 64 for batch in batches)


def test_operations_by_hand():
    config = TransformerConfig(10, 10, 1, 0, 4, 8, 2)
    assert config.width == 4
    encoder = 4 * (16 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 2 * 8
    decoder = 8 * (16 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 3 * 8
    batch = collate([([5, 6, EOS], [7, EOS]), ([5, EOS], [7, EOS])], [0, 1])
    dense = 5 * encoder + 4 * (decoder + 40)
    pairs = (9 + 4) + (3 + 6) + (3 + 4)
    assert operations(TransformerConfig(10, 10, 1, 1, 4, 8, 2), batch) == 6 * dense + 48 * pairs


def test_rounds_alternate_and_the_first_is_left_out():
    order = []

    def work(name: str):
        return lambda number: order.append((name, number)) or float(number)

    taken = interleaved({"a": work("a"), "b": work("b")}, 2, "test")
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert taken == {"a": [1.0, 2.0], "b": [1.0, 2.0]}


def test_the_median_of_ratios_is_not_moved_by_one_slow_round():
    assert ratio([2.0, 30.0, 3.0], [1.0, 15.0, 1.0]) == Spread(2.0, 2.0, 3.0)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"widths": ()}, {"vocabulary": 3}])
def test_an_impossible_benchmark_is_refused(wrong: dict):
    with pytest.raises(UserError):
        BenchConfig(**wrong)
