"""Training speed against others of the same shape, and against the machine's matrix products."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection

import torch

from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, TrainingStep, build, device
from headbook.bench.rounds import LeftOutError, Spread, Timed, interleaved, ratio
from headbook.bench.table import Row
from headbook.corpora.batches import EOS, UNK, Batch, EncodedPair, collate, epoch
from headbook.models.transformer import Transformer
from headbook.runs.timing import seconds
from headbook.training.memory import keep_freed_memory
from headbook.training.precision import Precision

OWN_MEMORY = "torch.nn.Transformer, memory not kept"
PRODUCT = "matrix product"
PRODUCTS = 4
"""Products a timing, so that the clock's grain does not count."""


def training_batches(config: BenchConfig) -> list[Batch]:
    """A batch a round, and one to warm up: random pieces in sentences of 5 to 30 tokens."""
    chance = torch.Generator().manual_seed(config.seed)
    lengths = torch.randint(5, 31, (config.rounds * config.tokens // 4 + 64,), generator=chance)
    pairs = [pair(int(length), config.vocabulary, chance) for length in lengths]
    plan = epoch(pairs, config.tokens, config.seed, 0)[: config.rounds + 1]
    batches = [collate([pairs[index] for index in indices], indices) for indices in plan]
    return [batches[number % len(batches)] for number in range(config.rounds + 1)]


def pair(length: int, vocabulary: int, chance: torch.Generator) -> EncodedPair:
    """Both sides of about one length, as translations are."""
    other = max(length + int(torch.randint(-2, 3, (), generator=chance)), 2)
    source, target = (
        torch.randint(UNK + 1, vocabulary, (count - 1,), generator=chance).tolist()
        for count in (length, other)
    )
    return [*source, EOS], [*target, EOS]


def steps(contestant: Contestant, config: BenchConfig, width: int) -> Timed:
    """The timed training step of a contestant on the batch of a round.

    LeftOutError where it cannot run on this machine.
    """
    torch.manual_seed(config.seed)
    step = TrainingStep(build(contestant, config.model(width)), config.precision)
    batches = training_batches(config)
    return lambda number: seconds(lambda: step(batches[number]))


def training_works(config: BenchConfig, width: int) -> dict[str, Timed]:
    """The training step of every contestant that can run here; why another cannot is printed."""
    works: dict[str, Timed] = {}
    for each in Contestant:
        try:
            works[each] = steps(each, config, width)
        except LeftOutError as why:
            print(f"training: {each} is left out at width {width}: {why}", flush=True)
    return works


def serve(connection: Connection, config: BenchConfig, width: int, threads: int) -> None:
    """Times steps of torch's model on request in a process whose allocator is as it comes."""
    torch.set_num_threads(threads)
    timed = steps(Contestant.TORCH, config, width)
    while (number := connection.recv()) is not None:
        connection.send(timed(number))


@contextmanager
def own_process(config: BenchConfig, width: int) -> Iterator[Timed]:
    """Torch's step in a fresh process: the allocator's setting cannot be taken back in this one."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    named = (there, config, width, torch.get_num_threads())
    process = context.Process(target=serve, args=named, daemon=True)
    process.start()
    there.close()

    def timed(number: int) -> float:
        here.send(number)
        return here.recv()

    try:
        yield timed
        here.send(None)
    finally:
        here.close()
        process.join(timeout=10)
        process.kill()


def product(config: BenchConfig) -> Timed:
    """Times square matrix products in the arithmetic of the training step."""
    dtype = torch.bfloat16 if config.precision.here() is Precision.BF16 else torch.float32
    factor = torch.randn(config.product, config.product).to(device(), dtype)

    def multiply() -> None:
        for _ in range(PRODUCTS):
            torch.mm(factor, factor)

    return lambda number: seconds(multiply)


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


def speed(config: BenchConfig, width: int) -> list[Row]:
    """Tokens a second, the ratios, and the share of the machine's rate, at one width."""
    keep_freed_memory()
    batches = training_batches(config)
    with own_process(config, width) as unkept:
        works = training_works(config, width) | {OWN_MEMORY: unkept}
        timed = works | {PRODUCT: product(config)}
        taken = interleaved(timed, config.rounds, f"training, width {width}")
    row, ours = partial(Row, width=width), Contestant.OURS
    tokens = [int(batch.target_mask.sum()) for batch in batches[1:]]
    rows = [
        row(f"training: {name}", _rates(tokens, taken[name]), "target tokens/s") for name in works
    ]
    rows += [
        row(f"training: {ours} over {name}", ratio(taken[name], taken[ours]), "times")
        for name in works
        if name != ours
    ]
    return rows + _shares(config, width, batches[1:], taken)


def _shares(
    config: BenchConfig, width: int, batches: list[Batch], taken: dict[str, list[float]]
) -> list[Row]:
    """The machine's rate and the part of it that our training step reaches."""
    machine = [2e-9 * PRODUCTS * config.product**3 / each for each in taken[PRODUCT]]
    model = Transformer(config.model(width))
    work = [1e-9 * operations(model, batch) for batch in batches]
    ours = Contestant.OURS
    reached = [done / each for done, each in zip(work, taken[ours], strict=True)]
    return [
        Row(f"{PRODUCT}, {config.precision}", Spread.of(machine), "GFLOP/s", width),
        Row(f"training: {ours} over {PRODUCT}", ratio(reached, machine), "times", width),
    ]


def _rates(amounts: list, taken: list[float]) -> Spread:
    return Spread.of([amount / each for amount, each in zip(amounts, taken, strict=True)])
