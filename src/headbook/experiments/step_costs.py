"""A training step of an encoder by the length of its texts: page 43's table `steps`.

The published five rounds, of 30 encoders, took a quarter of an hour on one core.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.masked import masked_copies
from headbook.models.attention import AttentionPath
from headbook.models.fewer_keys import Fewer, FewerKeys, look_at_fewer
from headbook.models.peak_bytes import peak_bytes
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.text.batches import EOS, PAD, Batch, EncodedPair
from headbook.text.subwords import Subwords
from headbook.timing import interleaved, processor_seconds
from headbook.types import UserError

ALL, FUSED = "all keys", "all keys, fused"
PARTS = (2, 4, 8, 16)
ENOUGH = 1024
"""Tokens of a step: as many texts as make so many, or one longer text."""
HIDDEN = 7  # one token in so many


def joined_texts(
    subwords: Subwords, sentences: Sequence[str], length: int, count: int, seed: int
) -> list[EncodedPair]:
    """Sentences in random order, joined, cut into texts, tokens hidden; UserError for too few."""
    generator = torch.Generator().manual_seed(derived(seed, "order of sentences"))
    whole, left = [], []
    for at in torch.randperm(len(sentences), generator=generator).tolist():
        left += [each for each in subwords.encode([sentences[at]])[0] if each != EOS]
        while len(left) >= length - 1 and len(whole) < count:
            whole.append([*left[: length - 1], EOS])
            left = left[length - 1 :]
        if len(whole) == count:
            return masked_copies(whole, len(subwords), 1, derived(seed, "hidden tokens"))
    raise UserError(f"these sentences make {len(whole)} texts of {length} tokens, not {count}")


@dataclass(frozen=True)
class EncoderCosts:
    """Rounds in which all steps take turns, the lengths of texts, and the sizes of the encoder.

    UserError for no round, and for a length that has not one key for 16 tokens.
    """

    rounds: int
    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    layers: int = 6
    width: int = 256
    heads: int = 8
    vocabulary: int = 8000

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UserError(f"{self.rounds} rounds of timing: give 1 or more")
        if min(self.lengths, default=0) < max(PARTS):
            raise UserError(f"give texts of {max(PARTS)} tokens or more")


def kinds(length: int) -> dict[str, FewerKeys | None]:
    """Keys of the encoders at this length: all, or one matrix's mixtures of so many tokens."""
    fewer = {f"Linformer, 1 for {parts} tokens": FewerKeys(Fewer.LINFORMER, length // parts, length)
             for parts in PARTS}  # fmt: skip
    return {ALL: None, FUSED: None, **fewer}


def encoder(run: EncoderCosts, kind: str, length: int) -> tuple[Transformer, Batch]:
    """An encoder without dropout, and the texts of a step.

    Weights and texts are drawn at random: the cost of a step does not depend on them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        path = AttentionPath.FUSED if kind == FUSED else AttentionPath.EXPLICIT
        size = run.vocabulary
        model = Transformer(TransformerConfig(size, size, run.layers, 0, run.width, 4 * run.width,
                                              run.heads, 0.0, path=path))  # fmt: skip
        if (fewer := kinds(length)[kind]) is not None:
            look_at_fewer(model, fewer)
        source = torch.randint(3, size, (max(1, ENOUGH // length), length))
    target = torch.where(torch.arange(length) % HIDDEN == 0, source, PAD)
    return model, Batch(source, source, target, torch.arange(len(source)))


def hidden_nats(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the hidden tokens, [token]; logits of no other token are computed."""
    hidden = batch.target_mask
    states, _ = model.encode(batch.source)
    return cross_entropy(model.logits(states[hidden]), batch.target_out[hidden], reduction="none")


def step(model: Transformer, batch: Batch) -> None:
    """A training step without its update: the loss of hidden tokens, forward and backward."""
    hidden_nats(model, batch).mean().backward()


def measured(run: EncoderCosts) -> pd.DataFrame:
    """Processor seconds on one thread, all kinds and lengths in turns, and most bytes at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return pd.DataFrame(_measured(run))
    finally:
        torch.set_num_threads(before)


def _measured(run: EncoderCosts) -> Iterator[dict[str, object]]:
    given = {(kind, length): encoder(run, kind, length)
             for length in run.lengths for kind in kinds(length)}  # fmt: skip
    works = {each: partial(step, *made) for each, made in given.items()}
    timed = {each: lambda _, work=work: processor_seconds(work) for each, work in works.items()}
    taken = interleaved(timed, run.rounds, "timing")
    for (kind, length), found in taken.items():
        held = peak_bytes(works[kind, length])  # gradients are there by now
        tokens = given[kind, length][1].source.numel()
        for number, each in enumerate(found, 1):
            yield {"kind": kind, "length": length, "tokens": tokens, "round": number,
                   "seconds": each, "bytes": held}  # fmt: skip
