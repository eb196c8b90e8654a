"""The contract of a model that can be looked at, whoever trained it, as `hb.load` returns it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headbook.models.attention import MemoryMask
from headbook.models.capture import Capturable
from headbook.text.batches import Batch

UNDETERMINED = "und"
"""ISO 639's code for a language that is not known."""

Span = tuple[int, int]
"""Half-open range of characters in a sentence."""

Ids = Sequence[int]


@runtime_checkable
class Loaded(Protocol):
    """A network together with its text side: its own tokens, special ones among them.

    `name` is the name it was loaded by; `origin` says in a phrase where the weights come from (with
    licence and digest, where known); `languages` are those of source and target, UNDETERMINED where
    not known (target None where nothing is translated). `unknown` is the source token for a word
    that is hidden or not known, None where there is none.
    """

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Capturable

    @property
    def unknown(self) -> int | None: ...

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        """The sentences in length buckets of at most `tokens` padded tokens.

        `Batch.sentences` holds each row's index in `sentences`; special tokens and padding are
        marked. Without targets a translation model's rows have the shortest target there is.
        UserError for a sentence longer than the model takes.
        """

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        """One span of characters per token that the model reads of it, None for special tokens.

        With `target`, per token that a translation model predicts of it.
        """

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        """The same tokens as text, special ones by their name."""

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        """Nats of every predicted token of the batch, in float32, part of the graph.

        With `shortlist` the probabilities are among the few words that a translator with such a
        list chooses from; where there is none, among all. UserError where the model predicts
        nothing (an encoder without a head).
        """

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        """The encoder's last states, part of the graph; UserError where there is no encoder."""

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Greedy translations, with a progress bar; UserError where it translates nothing."""


@dataclass(frozen=True)
class Candidates:
    """The target ids allowed for any row of a batch; `barred` is True where not for this row."""

    ids: Int[Tensor, " candidate"]
    barred: Bool[Tensor, "row candidate"]


class Translator(Loaded, Protocol):
    """A loaded translation model; `end` is the id that ends both sides, `batch_tokens` the padded
    tokens a side of which batches are translated fastest."""

    end: int
    batch_tokens: int

    def one_batch(self, pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
        """Ids that end in `end` as one batch, its rows in this order."""

    def candidates(self, batch: Batch) -> Candidates:
        """The target ids that greedy search chooses among."""

    def greedy(
        self,
        batch: Batch,
        memory: Float[Tensor, "batch source model"],
        mask: MemoryMask | None,
        allowed: Candidates,
    ) -> list[list[int]]:
        """Each row's likeliest next ids until `end`, which is left off, from the encoder's output.

        The batch's own target is not read.
        """

    def text(self, ids: Ids) -> str:
        """Target ids as text."""


def pooled(
    states: Float[Tensor, "batch token width"], real: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch width"]:
    """Mean over the real tokens of each sentence; whatever stands at the others is not read."""
    return states.masked_fill(~real[..., None], 0.0).sum(1) / real.sum(1, keepdim=True)


def there(network: Capturable, batch: Batch) -> Batch:
    """The batch on the device of the network's weights."""
    return batch.to(next(network.parameters()).device)


def digest(network: nn.Module) -> str:
    """SHA-256 of all weights by name, as they are in memory, wherever they were read from."""
    total = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        total.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        bytes_of = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        total.update(bytes_of.numpy().tobytes())
    return total.hexdigest()
