"""The benchmark prints its rows; whether they are good is for the machine it runs on."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from headbook.bench import marian, measuring, relevance
from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, TrainingStep, build
from headbook.bench.rounds import Spread, interleaved, ratio
from headbook.bench.run import bench
from headbook.bench.shares import COPIES, KINDS, MATRICES, REST, shares_of
from headbook.bench.speed import operations, training_batches, training_works
from headbook.corpora.batches import EOS, collate, in_order
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.training.precision import Precision
from headbook.types import Kind, UserError

pytestmark = pytest.mark.slow

TINY = BenchConfig(
    widths=(16,), rounds=2, layers=1, heads=2, vocabulary=300, tokens=64, product=32, sentences=8
)


def test_the_table_holds_every_row(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Memory is measured in this process: one of its own would import everything anew."""
    monkeypatch.setattr(measuring, "_in_fresh_process", measuring.peak)
    monkeypatch.setattr(relevance, "SENTENCES", 2)
    table = bench(TINY)
    assert table["quantity"].tolist() == [
        "training: ours",
        "training: torch.nn.Transformer",
        "training: transformers.MarianMTModel",
        "training: torch.nn.Transformer, memory not kept",
        "training: ours over torch.nn.Transformer",
        "training: ours over transformers.MarianMTModel",
        "training: ours over torch.nn.Transformer, memory not kept",
        "matrix product, bf16-mixed",
        "training: ours over matrix product",
        *(f"training: share of {kind}" for kind in (*KINDS, REST)),
        "measuring over a plain forward pass",
        "relevance: all predictions of a batch together",
        "relevance: one position of one sentence at a time",
        "relevance: together over one at a time",
        "relevance: operations, one at a time over together",
        *(f"relevance: share of {kind}" for kind in (MATRICES, COPIES, REST)),
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


def test_torchs_is_the_same_model():
    """As many parameters, and the same logits once ours has the weights of torch's."""
    both = (Contestant.OURS, Contestant.TORCH)
    ours, torchs = (build(each, TINY.model(16)).eval() for each in both)
    ours.load_state_dict(under_our_names(torchs.state_dict()))
    batch = collate([([5, 6, 7, EOS], [8, 9, EOS]), ([5, EOS], [8, 9, 10, 11, EOS])], [0, 1])
    with torch.no_grad():
        found, expected = (model(batch)[batch.target_mask] for model in (ours, torchs))
    assert torch.allclose(found, expected, atol=1e-5)


def trained_weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def test_marian_has_the_same_shape():
    """Ours has final norms and a bias beside each table of embeddings, which Marian has not."""
    ours, marian = (build(each, TINY.model(16)) for each in (Contestant.OURS, Contestant.MARIAN))
    assert trained_weights(marian) == trained_weights(ours) - 2 * 2 * 16 - 2 * 16
    assert sum(isinstance(each, nn.Linear) for each in marian.modules()) == 17


def test_marian_does_not_look_at_padding():
    model = build(Contestant.MARIAN, TINY.model(16)).eval()
    pairs = [([5, 6, 7, EOS], [8, 9, EOS]), ([5, EOS], [8, EOS])]
    together, alone = collate(pairs, [0, 1]), collate(pairs[1:], [1])
    with torch.no_grad():
        assert torch.allclose(model(together)[1, :2], model(alone)[0], atol=1e-6)


def test_what_cannot_run_is_left_out_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr(marian, "find_spec", lambda name: None)
    assert list(training_works(TINY, 16)) == [Contestant.OURS, Contestant.TORCH]
    assert capsys.readouterr().out.splitlines() == [
        "training: transformers.MarianMTModel is left out at width 16: "
        "transformers is not installed",
    ]


@pytest.mark.parametrize("contestant", list(Contestant))
@pytest.mark.parametrize("precision", list(Precision))
def test_every_contestant_learns(contestant: Contestant, precision: Precision):
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


def test_every_prediction_of_relevance_costs_a_way_down():
    """A text eight times as long has eight times the predictions, each over eight times as much."""
    model = build(Contestant.OURS, TINY.model(16)).eval()
    costs = []
    for length in (8, 64):
        batch = collate([([5] * length, [5] * length)], [0])
        costs.append(relevance._operations(partial(relevance.together, model, [batch])))
    assert 50 < costs[1] / costs[0] < 120


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
    model = Transformer(TransformerConfig(10, 10, 1, 1, 4, 8, 2))
    assert operations(model, batch) == 6 * dense + 48 * pairs


def test_shares_of_a_step_name_its_work():
    """They sum to one; without dropout no mask is drawn, and a wider vocabulary costs its part."""

    def found(**changed: object) -> dict[str, float]:
        config = replace(TINY, **changed)
        model = build(Contestant.OURS, config.model(16))
        step, batch = TrainingStep(model, config.precision), training_batches(config)[0]
        return shares_of(lambda: step(batch))

    plain = found()
    assert sum(plain.values()) == pytest.approx(1) and min(plain.values()) > 0
    assert found(dropout=0.0)["dropout masks"] == 0
    vocabulary = "loss over the vocabulary"
    assert found(vocabulary=30_000)[vocabulary] > plain[vocabulary]


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
