"""A model trained by this package, from its folder, as a `Loaded`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.batches import EOS, UNK, Batch, in_order
from headbook.corpora.registry import registry
from headbook.corpora.subwords import Subwords
from headbook.models.decoding import Search
from headbook.models.loaded import Span
from headbook.models.transformer import Transformer
from headbook.training import checkpoint
from headbook.training.scoring import translate_corpus
from headbook.types import UserError

WEIGHTS = "best.safetensors"
SUBWORDS = ("source.json", "target.json")


@dataclass(frozen=True)
class OurModel:
    """A translation model of ours with its subwords; see `Loaded` for the methods."""

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Transformer
    source: Subwords
    target: Subwords

    @property
    def unknown(self) -> int:
        return UNK

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        sources = self.source.encode(sentences)
        encoded = self.target.encode(targets) if targets is not None else [[EOS]] * len(sources)
        return list(in_order(list(zip(sources, encoded, strict=True)), tokens))

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        return [*self._side(target).spans(sentence), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        side = self._side(target)
        (ids,) = side.encode([sentence])
        return side.pieces(ids)

    def _side(self, target: bool) -> Subwords:
        return self.target if target else self.source

    def losses(self, batch: Batch) -> Float[Tensor, " token"]:
        logits = self.network(batch)[batch.target_mask]
        return cross_entropy(logits.float(), batch.target_out[batch.target_mask], reduction="none")

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(batch.source)[0]

    def translate(self, sentences: Sequence[str]) -> list[str]:
        encoded = self.source.encode(sentences)
        return translate_corpus(self.network, encoded, self.target, Search(beam=1))


@dataclass(frozen=True)
class RunFolder:
    """A folder of the run store that holds a trained translation model."""

    path: Path

    @cached_property
    def config(self) -> dict:
        """The run's recorded configuration; empty where nothing was recorded."""
        try:
            recorded = json.loads((self.path / "run.json").read_text())
            return recorded["ingredients"]["config"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @property
    def languages(self) -> tuple[str, str]:
        """English and the corpus' target language, "unknown" for a corpus that is not listed."""
        entry = registry().get(self.config.get("corpus", ""))
        return "en", entry.target if entry else "unknown"

    def model(self) -> OurModel:
        """UserError where a file is missing or damaged."""
        for name in (WEIGHTS, *SUBWORDS):
            if not (self.path / name).is_file():
                raise UserError(f"{self.path} has no {name}: name the folder of a finished run")
        source, target = (Subwords.load(self.path / name) for name in SUBWORDS)
        network = checkpoint.load_transformer(self.path / WEIGHTS)
        corpus = self.config.get("corpus", "an unrecorded corpus")
        origin = f"trained with headbook on {corpus}"
        return OurModel(str(self.path), origin, self.languages, network, source, target)
