"""A model trained by this package, from its folder, as a `Loaded`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.models import checkpoint
from headbook.models.attention import MemoryMask
from headbook.models.decoding import GREEDY, translate_corpus
from headbook.models.greedy import greedily
from headbook.models.loaded import Candidates, Ids, Span
from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, PAD, UNK, Batch, collate, in_order
from headbook.text.registry import registry
from headbook.text.subwords import Subwords, mask_id
from headbook.types import UserError

WEIGHTS = "best.safetensors"
SOURCE, TARGET = "source.json", "target.json"
UNRECORDED = "an unrecorded corpus"
HIDDEN = 7
"""Of so many tokens a masked language model is asked for one, about the share it was trained on."""


@dataclass(frozen=True)
class OurModel:
    """A translation model of ours with its subwords; see `Loaded` for the methods."""

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Transformer
    source: Subwords
    target: Subwords
    corpus: str = ""
    """The recorded name of its training text; empty where nothing was recorded."""

    end = EOS
    batch_tokens = 2048

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

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        logits = self.network(batch)[batch.target_mask]
        return cross_entropy(logits.float(), batch.target_out[batch.target_mask], reduction="none")

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(batch.source)[0]

    def translate(self, sentences: Sequence[str]) -> list[str]:
        encoded = self.source.encode(sentences)
        return translate_corpus(self.network, encoded, self.target, GREEDY)

    def one_batch(self, pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
        return collate(pairs, sentences)

    def candidates(self, batch: Batch) -> Candidates:
        """All target ids but the padding's."""
        ids = torch.arange(PAD + 1, len(self.target), device=batch.source.device)
        return Candidates(ids, torch.zeros(len(batch), len(ids), dtype=torch.bool).to(ids.device))

    def greedy(
        self, batch: Batch, memory: Float[Tensor, "batch source model"], mask: MemoryMask | None,
        allowed: Candidates,
    ) -> list[list[int]]:  # fmt: skip
        limits = GREEDY.limits(batch.source)
        return greedily(self.network, memory, mask, limits, allowed, EOS)

    def text(self, ids: Ids) -> str:
        return self.target.decode(ids)


@dataclass(frozen=True)
class OurEncoder:
    """A masked language model of ours with its subwords; see `Loaded` for the methods.

    Its loss is of hidden tokens: every `HIDDEN`th of a sentence, from a place that its number
    decides, so that the same sentences always lose the same tokens.
    """

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Transformer
    source: Subwords

    @property
    def unknown(self) -> int:
        """The mask."""
        return mask_id(len(self.source))

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        return list(in_order([(row, [EOS]) for row in self.source.encode(sentences)], tokens))

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        return [*self.source.spans(sentence), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        (ids,) = self.source.encode([sentence])
        return self.source.pieces(ids)

    def predicted(self, batch: Batch) -> Bool[Tensor, "batch source"]:
        """The hidden tokens, of every sentence with text one at least."""
        real = batch.source_mask & ~batch.source_boundary
        rank, count = real.cumsum(1) - 1, real.sum(1, keepdim=True)
        first = batch.sentences[:, None] % count.clamp(1, HIDDEN)
        return real & (rank % HIDDEN == first)

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        hidden = self.predicted(batch)
        shown = replace(batch, source=batch.source.masked_fill(hidden, self.unknown))
        return cross_entropy(
            self.network(shown)[hidden].float(), batch.source[hidden], reduction="none"
        )

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(batch.source)[0]

    def translate(self, sentences: Sequence[str]) -> list[str]:
        raise UserError(f"{self.name} is a masked language model and translates nothing")


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds a trained translation model or masked language model."""

    path: Path
    weights: str = WEIGHTS

    @cached_property
    def config(self) -> dict:
        """The run's recorded configuration; empty where nothing was recorded."""
        try:
            recorded = json.loads((self.path / "run.json").read_text())
            return recorded["ingredients"]["config"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @property
    def corpus(self) -> str:
        """Its name; empty where nothing was recorded."""
        return self.config.get("text", self.config).get("corpus", "")

    def model(self) -> OurModel | OurEncoder:
        """UserError where a file is missing or damaged, and for a model that has no encoder."""
        source = Subwords.load(self._file(SOURCE))
        network = checkpoint.load_transformer(self._file(self.weights))
        if not network.config.encoder_layers:
            raise UserError(f"{self.path} is a decoder alone; only models with encoders are read")
        name, origin = str(self.path), f"trained with headbook on {self.corpus or UNRECORDED}"
        if not network.config.decoder_layers:
            return OurEncoder(name, origin, ("en", None), network, source)
        target = Subwords.load(self._file(TARGET))
        entry = registry().get(self.corpus)
        languages = "en", entry.target if entry else "unknown"
        return OurModel(name, origin, languages, network, source, target, self.corpus)

    def _file(self, name: str) -> Path:
        if not (self.path / name).is_file():
            raise UserError(f"{self.path} has no {name}: name the folder of a finished run")
        return self.path / name
