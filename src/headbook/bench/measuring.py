"""Cost of the measuring pass: time over a plain forward pass, and memory over sentences."""

import multiprocessing
import resource
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import torch
from tqdm import tqdm

from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, build, device
from headbook.bench.rounds import Spread, interleaved, ratio
from headbook.bench.table import Row
from headbook.corpora.batches import Batch, EncodedPair, in_order
from headbook.corpora.controlled import TargetOrder, generate
from headbook.corpora.subwords import Subwords, frequency_ranks
from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import PositionalShare
from headbook.heads.rare import RareChance, RareShare
from headbook.heads.symmetry import TokenAsymmetry
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.runs.timing import seconds
from headbook.syntax.alignment import align
from headbook.types import Kind

TOKENS = 4096
"""Padded tokens a measured batch."""
MORE = 4
"""Factor of sentences in the second measurement of memory."""


class Measured:
    """Sentences of the controlled corpus, encoded and with gold trees, and a model to measure."""

    def __init__(self, config: BenchConfig, width: int, sentences: int):
        self.corpus = generate(TargetOrder.SVO, sentences, config.seed)
        # Subwords of few sentences have few pieces; the model keeps the vocabulary it is given.
        self.source, target = (
            Subwords.train(side, config.vocabulary)
            for side in (self.corpus.source, self.corpus.target)
        )
        self.pairs: list[EncodedPair] = list(
            zip(
                self.source.encode(self.corpus.source),
                target.encode(self.corpus.target),
                strict=True,
            )
        )
        torch.manual_seed(config.seed)
        self.model = build(Contestant.OURS, config.model(width)).eval()

    def batches(self, sentences: int) -> Iterable[Batch]:
        return in_order(self.pairs[:sentences], TOKENS)

    def measures(self) -> list[HeadMeasure]:
        """The book's measures with their baselines, in every kind of attention they exist for."""
        trees = [align(tree, self.source.spans(tree.text)) for tree in self.corpus.trees]
        ranks = frequency_ranks((source for source, _ in self.pairs), len(self.source))
        return [
            *(Confidence(kind) for kind in Kind),
            *(PositionalShare(kind) for kind in Kind),
            SyntacticAccuracy(trees),
            OffsetShare(trees),
            RareShare(ranks),
            RareChance(ranks),
            TokenAsymmetry(),
        ]


def cost(config: BenchConfig, width: int) -> list[Row]:
    """Seconds of measuring over seconds of a forward pass over the same batches."""
    measured = Measured(config, width, config.sentences)
    batches = [batch.to(device()) for batch in measured.batches(config.sentences)]
    measures = [each.to(device()) for each in measured.measures()]
    works = {
        "measuring": lambda number: seconds(
            lambda: collect(measured.model, batches, measures, progress=iter)
        ),
        "forward": lambda number: seconds(lambda: forward(measured.model, batches)),
    }
    taken = interleaved(works, config.rounds, f"measuring, width {width}")
    over = ratio(taken["measuring"], taken["forward"])
    return [Row("measuring over a plain forward pass", over, "times", width)]


@torch.inference_mode()
def forward(model: torch.nn.Module, batches: Sequence[Batch]) -> None:
    for batch in batches:
        model(batch)


def memory(config: BenchConfig, width: int) -> list[Row]:
    """Peak memory of measuring so many sentences and four times as many, each in a fresh process.

    Both processes prepare all sentences, so that they differ in what measuring keeps alone.
    """
    counts = (config.sentences, MORE * config.sentences)
    peaks = [
        _in_fresh_process(config, width, count)
        for count in tqdm(counts, desc=f"memory, width {width}", unit="process")
    ]
    rows = [
        Row(f"peak memory, {count:,} sentences", Spread.of([peak]), "MiB", width)
        for count, peak in zip(counts, peaks, strict=True)
    ]
    growth = Spread.of([peaks[1] / peaks[0]])
    return [*rows, Row(f"peak memory, {MORE} times the sentences", growth, "times", width)]


def _in_fresh_process(config: BenchConfig, width: int, sentences: int) -> float:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(peak, config, width, sentences).result()


def peak(config: BenchConfig, width: int, sentences: int) -> float:
    """MiB of this process at its largest, after measuring `sentences` of all that were prepared."""
    measured = Measured(config, width, MORE * config.sentences)
    collect(measured.model, measured.batches(sentences), measured.measures(), progress=iter)
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
