"""The benchmark: training against `torch.nn.Transformer`, measuring against a forward pass.

All are ratios of one run, taken in interleaved rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.collect import recordings
from headbook.heads.measure import sums
from headbook.heads.scores import confidence, positional, syntactic
from headbook.machine import accelerator
from headbook.models.transformer import Embedding, Transformer, TransformerConfig
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, UNK, Batch, EncodedPair, collate, epoch, in_order
from headbook.text.trees import RELATIONS
from headbook.timing import interleaved, seconds
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.plan import measured_rate, operations
from headbook.types import Kind

CONFIG = TrainingConfig(updates=1)
ENDS = ["median", "lowest", "highest"]


@dataclass(frozen=True)
class Sizes:
    """Shape of the models and of their text, which is random; the defaults are the book's."""

    layers: int = 6
    heads: int = 8
    vocabulary: int = 6000
    tokens: int = 4096
    sentences: int = 400

    def model(self, width: int) -> TransformerConfig:
        ids, layers = (self.vocabulary,) * 2, (self.layers,) * 2
        return TransformerConfig(*ids, *layers, width, 4 * width, self.heads, dropout=0.1)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` as its documentation uses it, between our embeddings and logits.

    Pre-norm with final norms and dropout at the same places, so parameters and function are those
    of our `Transformer`; padding masks are passed always, as is usual.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.source = Embedding(config.source_vocabulary, config.width)
        self.target = Embedding(config.target_vocabulary, config.width)
        self.layers = nn.Transformer(
            d_model=config.width,
            nhead=config.heads,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.feed_forward,
            dropout=config.dropout,
            batch_first=True,
            norm_first=True,
        )
        self.logits = nn.Linear(config.width, config.target_vocabulary, bias=False)

    def forward(self, batch: Batch) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of every target token given those before it."""
        padded = ~batch.source_mask
        length = batch.target_in.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=padded.device).triu(1)
        states = self.layers(
            self.source(batch.source),
            self.target(batch.target_in),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        return self.logits(states)


def random_pairs(sizes: Sizes, count: int) -> list[EncodedPair]:
    """Pairs of 5 to 30 random pieces a side, both of about one length, as translations are."""
    chance = torch.Generator().manual_seed(0)

    def side(length: int) -> list[int]:
        drawn = torch.randint(UNK + 1, sizes.vocabulary, (length - 1,), generator=chance)
        return [*drawn.tolist(), EOS]

    lengths = torch.randint(5, 31, (count,), generator=chance).tolist()
    others = torch.randint(-2, 3, (count,), generator=chance).tolist()
    return [
        (side(one), side(max(one + more, 2))) for one, more in zip(lengths, others, strict=True)
    ]


def random_batches(sizes: Sizes, count: int) -> list[Batch]:
    """So many batches of such pairs, in the order of a training."""
    pairs = random_pairs(sizes, count * sizes.tokens // 4 + 64)
    plan = epoch(pairs, sizes.tokens, 0, 0)[:count]
    return [collate([pairs[place] for place in each], each) for each in plan]


def trainer(kind: Callable[[TransformerConfig], nn.Module], config: TransformerConfig) -> Trainer:
    """Makes single updates of such a model, always of the same weights at first."""
    torch.manual_seed(0)
    pairs = [([EOS], [EOS])]
    return Trainer(kind(config), CONFIG, pairs, pairs, Path(), rate=lambda _: 1e-4)


def training(sizes: Sizes, width: int, rounds: int) -> dict[str, np.ndarray]:
    """Ratios per round: ours over torch's, and over the machine's rate in matrix products."""
    batches, works = random_batches(sizes, rounds + 1), {}
    for kind in (Transformer, TorchTransformer):
        update = trainer(kind, sizes.model(width))._update
        works[kind] = lambda number, update=update: seconds(
            lambda: update(batches[number % len(batches)])
        )
    taken = interleaved(works, rounds, f"training, width {width}")
    ours, torchs = (np.array(taken[kind]) for kind in (Transformer, TorchTransformer))
    counted = (batches[(place + 1) % len(batches)] for place in range(rounds))
    work = np.array([operations(Transformer(sizes.model(width)), batch) for batch in counted])
    share = work / ours / (1e9 * measured_rate(CONFIG.precision))
    return {
        "training: ours over torch.nn.Transformer": torchs / ours,
        "training: share of the rate of matrix products": share,
    }


def chain(length: int) -> AlignedTree:
    """A parse in which every piece is a word and depends on the next, by each relation in turn."""
    words = torch.arange(length - 1)
    arcs = torch.stack([words % len(RELATIONS), words, words + 1], dim=1)[:-1]
    return AlignedTree(torch.cat([words, torch.tensor([-1])]), arcs)


def measuring(sizes: Sizes, width: int, rounds: int) -> dict[str, np.ndarray]:
    """Ratios per round: all measures of attention weights over a forward pass on the same text."""
    torch.manual_seed(0)
    model = Transformer(sizes.model(width)).eval().to(accelerator())
    pairs = random_pairs(sizes, sizes.sentences)
    batches = [batch.to(accelerator()) for batch in in_order(pairs, sizes.tokens)]
    trees = [chain(len(source)) for source, _ in pairs]
    measures = {f"confidence, {kind}": partial(confidence, kind=kind) for kind in Kind}
    measures |= {f"positional, {kind}": partial(positional, kind=kind) for kind in Kind}
    measures["syntactic"] = partial(syntactic, trees=trees)

    @torch.inference_mode()
    def forward() -> None:
        for batch in batches:
            model(batch)

    measure = partial(sums, measures)
    works = {
        "measuring": lambda _: seconds(lambda: measure(recordings(model, batches))),
        "forward": lambda _: seconds(forward),
    }
    taken = interleaved(works, rounds, f"measuring, width {width}")
    ratios = np.array(taken["measuring"]) / np.array(taken["forward"])
    return {"measuring over a forward pass": ratios}


def bench(
    rounds: int = 5, widths: tuple[int, ...] = (128, 256), sizes: Sizes | None = None
) -> pd.DataFrame:
    """One row per quantity and width: median over the rounds, lowest and highest."""
    sizes, rows = sizes or Sizes(), []
    for width in widths:
        for work in (training, measuring):
            for quantity, found in work(sizes, width, rounds).items():
                rows.append((quantity, width, *middle_and_ends(found)))
    return pd.DataFrame(rows, columns=["quantity", "width", *ENDS])


def middle_and_ends(found: np.ndarray) -> tuple[float, float, float]:
    return np.median(found), found.min(), found.max()
