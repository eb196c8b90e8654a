"""A model trained by this package, from its folder, as a `Loaded`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.models import checkpoint
from headbook.models.attention import MemoryMask
from headbook.models.decoding import GREEDY, translate_corpus
from headbook.models.greedy import greedily
from headbook.models.loaded import Candidates, Ids, Span, there
from headbook.models.transformer import Transformer
from headbook.runs.store import checked
from headbook.text.batches import EOS, PAD, UNK, Batch, collate, in_order
from headbook.text.registry import registry
from headbook.text.subwords import Subwords
from headbook.types import UserError

WEIGHTS = "best.safetensors"
SOURCE, TARGET = "source.json", "target.json"
UNRECORDED = "an unrecorded corpus"
HIDDEN = 7
"""Of so many tokens a masked language model is asked for one, about the share it was trained on."""


@dataclass(frozen=True)
class _Ours:
    """A network of ours with the subwords of its source; see `Loaded` for the methods."""

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Transformer
    source: Subwords

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        sources = self.source.encode(sentences)
        encoded = [[EOS]] * len(sources) if targets is None else self._side(True).encode(targets)
        return list(in_order(list(zip(sources, encoded, strict=True)), tokens))

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        return [*self._side(target).spans(sentence), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        side = self._side(target)
        (ids,) = side.encode([sentence])
        return side.pieces(ids)

    def _side(self, target: bool) -> Subwords:
        return self.source

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(there(self.network, batch).source)[0]


@dataclass(frozen=True)
class OurModel(_Ours):
    """A translation model of ours with its subwords."""

    target: Subwords
    corpus: str = ""
    """The recorded name of its training text; empty where nothing was recorded."""

    end = EOS
    batch_tokens = 2048
    unknown = UNK

    def _side(self, target: bool) -> Subwords:
        return self.target if target else self.source

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        batch = there(self.network, batch)
        logits = self.network(batch)[batch.target_mask]
        return cross_entropy(logits.float(), batch.target_out[batch.target_mask], reduction="none")

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
class OurEncoder(_Ours):
    """A masked language model of ours with its subwords.

    Its loss is of hidden tokens: every `HIDDEN`th of a sentence, from a place that its number
    decides, so that the same sentences always lose the same tokens.
    """

    @property
    def unknown(self) -> int:
        """The mask, which is the first id behind the subwords."""
        return len(self.source)

    def predicted(self, batch: Batch) -> Bool[Tensor, "batch source"]:
        """The hidden tokens, of every sentence with text one at least."""
        real = batch.source_mask & ~batch.source_boundary
        rank, count = real.cumsum(1) - 1, real.sum(1, keepdim=True)
        first = batch.sentences[:, None] % count.clamp(1, HIDDEN)
        return real & (rank % HIDDEN == first)

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        batch = there(self.network, batch)
        hidden = self.predicted(batch)
        shown = replace(batch, source=batch.source.masked_fill(hidden, self.unknown))
        return cross_entropy(
            self.network(shown)[hidden].float(), batch.source[hidden], reduction="none"
        )

    def translate(self, sentences: Sequence[str]) -> list[str]:
        raise UserError(f"{self.name} is a masked language model and translates nothing")


def trained(folder: Path, weights: str = WEIGHTS) -> OurModel | OurEncoder:
    """The model in the folder of a run; UserError where a file is missing or damaged, and for a
    model that has no encoder."""
    source = Subwords.load(_file(folder, SOURCE))
    network = checkpoint.load_transformer(_file(folder, weights))
    if not network.config.encoder_layers:
        raise UserError(f"{folder} is a decoder alone; only models with encoders are read")
    corpus = _corpus(folder)
    origin = f"trained with headbook on {corpus or UNRECORDED}"
    if not network.config.decoder_layers:
        return OurEncoder(str(folder), origin, ("en", None), network, source)
    target = Subwords.load(_file(folder, TARGET))
    entry = registry().get(corpus)
    languages = "en", entry.target if entry else "unknown"
    return OurModel(str(folder), origin, languages, network, source, target, corpus)


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise UserError(f"{folder} has no {name}: name the folder of a finished run")
    return checked(folder, name)


def _corpus(folder: Path) -> str:
    """The corpus of the run's recorded configuration; empty where nothing was recorded."""
    try:
        config = json.loads((folder / "run.json").read_text())["ingredients"]["config"]
        return config.get("text", config).get("corpus", "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
