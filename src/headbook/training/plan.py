"""What a training takes, before it starts: counted in operations, timed by matrix products."""

import math
from collections.abc import Iterator, Sequence

import torch

from headbook.models.transformer import Transformer
from headbook.timing import seconds
from headbook.training.models import Run, run
from headbook.training.precision import Precision
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

    6 · parameters · tokens, two forward and four backward, without embeddings, which are looked up;
    and 12 · width for each pair of query and key that is not masked. Batches are taken for full, of
    sentences of SENTENCE subwords on either side, and vocabularies as large as was asked for.
    """
    vocabulary = wanted.text.vocabulary
    with torch.device("meta"):
        network = Transformer(wanted.config(vocabulary, vocabulary))
    parameters = {
        name: sum(weight.numel() for weight in part.parameters())
        for name, part in network.named_children()
    }
    used = sum(parameters.get(name, 0) for name in ("encoder", "decoder", "logits"))
    config, training = network.config, wanted.training
    keys = SENTENCE * config.encoder_layers
    keys += config.decoder_layers * ((SENTENCE + 1) / 2 + SENTENCE)
    per_token = 6 * used + 12 * config.width * keys
    return sum(parameters.values()), training.updates * training.tokens * per_token


def measured_rate(precision: Precision) -> float:
    """GFLOP/s of this machine in large matrix products, the best of five timings."""
    gpu = torch.cuda.is_available()
    side, device = (8192, "cuda") if gpu else (1024, "cpu")
    dtype = torch.bfloat16 if precision.here() is Precision.BF16 else torch.float32
    factor = torch.randn(side, side).to(device, dtype)

    def multiply() -> None:
        for _ in range(PRODUCTS):
            torch.mm(factor, factor)

    multiply()  # warms up
    return 2e-9 * PRODUCTS * side**3 / min(seconds(multiply) for _ in range(5))
