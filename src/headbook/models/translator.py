"""The contract of a translation model that runs in parts: from any encoder layer on, greedily."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headbook.models.attention import MemoryMask
from headbook.models.capture import Capturable
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch

Ids = Sequence[int]


@dataclass(frozen=True)
class Candidates:
    """The target ids allowed for any row of a batch; `barred` is True where not for this row."""

    ids: Int[Tensor, " candidate"]
    barred: Bool[Tensor, "row candidate"]

    def of(self, rows: Int[Tensor, " row"]) -> "Candidates":
        """Those of these rows alone."""
        barred = self.barred[rows]
        some = ~barred.all(0)
        return Candidates(self.ids[some], barred[:, some])


class TranslatorNetwork(Capturable, Protocol):
    """An encoder whose layers can be run one by one, and a decoder."""

    encoder: nn.ModuleList

    def embedded_source(self, source: Int[Tensor, "batch source"]) -> Tensor:
        """The first encoder layer's input."""

    def encoded_from(self, layer: int, states: Tensor, mask: MemoryMask | None) -> Tensor:
        """The encoder's output, from the input of a layer on, counted from 0."""

    def decode(self, target: Tensor, memory: Tensor, mask: MemoryMask | None) -> Tensor:
        """The decoder's output at every position of `target`."""

    def predictor(self, candidates: Int[Tensor, " candidate"]) -> Callable[[Tensor], Tensor]:
        """Logits of these target ids alone from the decoder's output; for many calls."""


class Translator(Loaded, Protocol):
    """A loaded translation model; `end` is the id that ends both sides, `batch_tokens` the padded
    tokens a side of which batches are translated fastest."""

    network: TranslatorNetwork
    end: int
    batch_tokens: int

    def one_batch(self, pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
        """Ids that end in `end` as one batch, its rows in this order."""

    def candidates(self, batch: Batch) -> Candidates:
        """The target ids that greedy search chooses among."""

    def greedy(
        self, batch: Batch, memory: Float[Tensor, "batch source model"], mask: MemoryMask | None,
        allowed: Candidates,
    ) -> list[list[int]]:  # fmt: skip
        """Each row's likeliest next ids until `end`, which is left off, from the encoder's output.

        The batch's own target is not read.
        """

    def text(self, ids: Ids) -> str:
        """Target ids as text."""
