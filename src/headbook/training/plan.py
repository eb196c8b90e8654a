"""What a training takes, before it starts: counted in operations, timed by matrix products."""

import math
from collections.abc import Iterator, Sequence

import torch

from headbook.machine import accelerator
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.timing import seconds
from headbook.training.config import Precision
from headbook.training.models import Run, run
from headbook.types import UserError

SENTENCE = 16
"""Subwords a sentence, EOS included: between those of tatoeba, 10, and of msdocs, 20."""
SHARE = 0.25
"""Of the rate in matrix products that a training step reaches: on two cores a quarter at width 128
and half at 512; a GPU reaches more, processors with matrix units far less (`headbook bench`)."""
PRODUCTS = 4
"""Products a timing, so that the clock's grain does not count."""


def lines(names: Sequence[str], rate: float | None = None) -> Iterator[str]:
    """A line per model: updates, parameters, operations, and hours at a rate in GFLOP/s.

    The rate in matrix products is measured where none is given. Subwords, validation and
    translation are not counted. UserError for an unknown model, or a rate that cannot be one.
    """
    runs = [run(name) for name in names]
    if rate is not None and not 0 < rate < math.inf:
        raise UserError(f"rate is {rate:g} GFLOP/s; give a number above 0")
    rate = rate or measured_rate(runs[0].training.precision)
    yield f"{rate:,.0f} GFLOP/s in matrix products; a training is taken to reach {SHARE:.0%} of it"
    for name, each in zip(names, runs, strict=True):
        parameters, work = cost(each)
        operations = f"{work / 1e12:,.0f}" if work >= 1e14 else f"{work / 1e12:.3g}"
        hours = work / (1e9 * rate * SHARE) / 3600
        yield (
            f"{name}: {each.training.updates:,} updates, {parameters / 1e6:.1f} million parameters,"
            f" {operations} TFLOP, {hours:,.2f} hours"
        )


def cost(wanted: Run) -> tuple[int, float]:
    """Number of parameters, and floating-point operations of the whole training, about.

    Batches are taken for full, of sentences of SENTENCE subwords on either side, and vocabularies
    as large as was asked for.
    """
    vocabulary, training = wanted.text.vocabulary, wanted.training
    with torch.device("meta"):
        network = Transformer(wanted.config(vocabulary, vocabulary))
    ids = torch.ones(1, SENTENCE, dtype=torch.long)
    sentence = operations(network, Batch(ids, ids, ids, torch.arange(1)))
    parameters = sum(weight.numel() for weight in network.parameters())
    return parameters, training.updates * training.tokens / SENTENCE * sentence


def operations(model: Transformer, batch: Batch) -> float:
    """Floating-point operations of a training step, about: real tokens only, so padding is waste.

    Six a parameter and token (two forward, four backward), embeddings left out; and 12 · width for
    each pair of query and key, for scores and their product with the values. The model may be one
    without storage.
    """
    config = model.config
    sizes = {
        name: sum(weight.numel() for weight in module.parameters())
        for name, module in model.named_children()
    }
    source, target = batch.source_mask.sum(1).double(), batch.target_mask.sum(1).double()
    dense = source.sum() * sizes["encoder"] + target.sum() * (sizes["decoder"] + sizes["logits"])
    pairs = config.encoder_layers * source**2 + config.decoder_layers * (
        target * (target + 1) / 2 + target * source
    )
    return float(6 * dense + 12 * config.width * pairs.sum())


def measured_rate(precision: Precision) -> float:
    """GFLOP/s of this machine in large matrix products, the best of five timings."""
    device = accelerator()
    side = 1024 if device == "cpu" else 8192
    dtype = torch.bfloat16 if precision.here() is Precision.BF16 else torch.float32
    factor = torch.randn(side, side).to(device, dtype)

    def multiply() -> None:
        for _ in range(PRODUCTS):
            torch.mm(factor, factor)

    multiply()  # warms up
    return 2e-9 * PRODUCTS * side**3 / min(seconds(multiply) for _ in range(5))
