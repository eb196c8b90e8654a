"""The bench's measurements and repetitions."""

from dataclasses import dataclass

from headbook.corpora.batches import UNK
from headbook.models.transformer import TransformerConfig
from headbook.training.precision import Precision
from headbook.types import UserError


@dataclass(frozen=True)
class BenchConfig:
    """Sizes of the benchmark; the defaults are those of the models in the book."""

    widths: tuple[int, ...] = (128, 256)
    rounds: int = 7
    layers: int = 6
    heads: int = 8
    vocabulary: int = 6000
    tokens: int = 4096  # padded tokens a training batch at most
    dropout: float = 0.1
    precision: Precision = Precision.BF16
    product: int = 2048  # rows and columns of the matrices whose product is timed
    sentences: int = 400  # measured; memory is taken with as many and with four times as many
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "layers", "tokens", "product", "sentences"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; the benchmark needs at least 1")
        if not self.widths:
            raise UserError("widths is empty; name at least one, for example 128")
        if self.vocabulary <= UNK + 1:
            raise UserError(f"vocabulary is {self.vocabulary}; the benchmark needs at least 4")

    def model(self, width: int) -> TransformerConfig:
        """The model of one width, its feed-forward layers four times as wide."""
        return TransformerConfig(
            source_vocabulary=self.vocabulary,
            target_vocabulary=self.vocabulary,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            width=width,
            feed_forward=4 * width,
            heads=self.heads,
            dropout=self.dropout,
        )
