"""Any Hugging Face transformer, from a folder, an installed package or an id (needs a network)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from tqdm import tqdm

from headbook.models.loaded import UNDETERMINED, Span
from headbook.released.hugging_files import (
    entry_of,
    folder_at,
    only_cached,
    quiet,
    read,
    read_model,
)
from headbook.text.batches import Batch
from headbook.types import UserError

MASKED = 0.15
"""Share of a sentence's tokens hidden from a masked language model, one at least, as in BERT."""

SHORT, GROWTH = 10, 2
"""A translation ends at so many tokens and so many times those of its batch's longest source."""


@dataclass(frozen=True)
class HuggingModel:
    """A transformer of `transformers` as a `Loaded` model. See `load`."""

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Any  # HuggingNetwork, whose module needs transformers installed
    text: Any  # HuggingText

    @property
    def unknown(self) -> int:
        tokenizer = self.text.tokenizer
        for each in (tokenizer.mask_token_id, tokenizer.unk_token_id):
            if each is not None:
                return each
        raise UserError(f"{self.name}: its tokenizer has neither a mask nor an unknown token")

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        """See `Loaded`. Of a decoder, `target_in` is what it reads and `source` is empty."""
        return self.text.batches(sentences, targets, tokens)

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        return self.text.spans(sentence, target)

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        return self.text.pieces(sentence, target)

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        """See `Loaded`.

        A decoder predicts every token it reads but the first; a translation model every target
        token, EOS among them; a masked language model the tokens that are hidden from it, at the
        places `predicted`.
        """
        if not self.network.predicts:
            raise UserError(f"{self.name} has no head that predicts tokens; it has no loss")
        hidden, wanted = self.predicted(batch), batch.target_out
        if self.network.stacks == "encoder":
            if (mask := self.text.tokenizer.mask_token_id) is None:
                raise UserError(f"{self.name}: its tokenizer has no mask token to predict at")
            wanted = batch.source
            batch = replace(batch, source=wanted.masked_fill(hidden, mask))
        logits = self.network(batch)[hidden]
        return cross_entropy(logits.float(), wanted[hidden], reduction="none")

    def predicted(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """True at the places whose predictions `losses` lists, row by row."""
        if self.network.stacks == "encoder":
            return _drawn(batch)
        real = batch.target_mask
        return pad(real[:, 1:], (0, 1), value=False) if self.network.stacks == "decoder" else real

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(batch)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Greedy translations in the order of the sentences, gates applied."""
        if self.network.stacks != "encoder-decoder":
            raise UserError(f"{self.name} does not translate: it is no encoder-decoder")
        tokenizer, found = self.text.tokenizer, [""] * len(sentences)
        device = next(self.network.parameters()).device
        options, language = {}, getattr(tokenizer, "tgt_lang", None)
        forced = self.network.model.generation_config.forced_bos_token_id
        if language is not None and forced is None:
            known = getattr(tokenizer, "get_lang_id", tokenizer.convert_tokens_to_ids)
            options["forced_bos_token_id"] = known(language)
        with tqdm(total=len(sentences), desc=f"Translating with {self.name}") as progress:
            for batch in self.batches(sentences):
                longest = SHORT + GROWTH * batch.source.shape[1]
                # a start and an end have positions, too
                longest = min(longest, (self.text.limit or longest + 2) - 2)
                ids = self.network.generate(batch.to(device), max_new_tokens=longest, **options)
                texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
                for row, text in zip(batch.sentences.tolist(), texts, strict=True):
                    found[row] = text
                progress.update(len(batch))
        return found


def load(place: str | Path, name: str | None = None) -> HuggingModel:
    """The model of this catalogue name, in a folder or installed package, or with this hub id.

    UserError, one line each, where nothing can be found or fetched, files are missing, damaged or
    others than the catalogue's, or the architecture is out of reach.
    """
    from headbook.released.hugging_text import HuggingText
    from headbook.released.network import HuggingNetwork, Stacks

    entry = entry_of(str(place))
    folder = folder_at(str(place), entry)
    where = str(folder or (entry.id if entry else place))
    name = name or (entry.name if entry else str(place))
    offline = folder is not None or only_cached(name, where)
    config = read(name, "AutoConfig", where, offline)
    tokenizer = read(name, "AutoTokenizer", where, offline)
    model = read_model(name, where, offline, config)
    with quiet():
        network = HuggingNetwork(model)
    paddings = (tokenizer.pad_token_id, config.pad_token_id, 0)  # some configurations list several
    text = HuggingText(
        tokenizer=tokenizer,
        stacks=network.stacks,
        limit=_limit(tokenizer, model),
        padding=next(each for each in paddings if isinstance(each, int)),
        start=getattr(config, "decoder_start_token_id", None),
    )
    languages = _languages(where, tokenizer, network.stacks is Stacks.BOTH)
    origin = f"the folder {folder}" if folder else f"huggingface.co/{where}"
    if entry is not None:
        languages = (entry.languages[0], entry.languages[1] if len(entry.languages) > 1 else None)
        origin = f"{entry.title}; {entry.licence}; SHA-256 {entry.sha256}"
    return HuggingModel(name, origin, languages, network, text)


def _limit(tokenizer: Any, model: torch.nn.Module) -> int | None:
    """The most tokens a sentence may have; RoBERTa counts its positions from the padding's id."""
    config = model.config.get_text_config()
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    for path, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if path.endswith("position_embeddings") and padding is not None:
            limits.append(module.num_embeddings - padding - 1)
    # Tokenizers without a limit give 10³⁰.
    return min((limit for limit in limits if limit and 0 < limit < 10**9), default=None)


def _languages(name: str, tokenizer: Any, translates: bool) -> tuple[str, str | None]:
    """Languages by the name or the tokenizer, else undetermined."""
    pair = re.search(r"opus-mt-(\w+)-(\w+)", name)
    if pair:
        return pair[1], pair[2]
    # Marian's tokenizer calls them so, NLLB's and mBART's otherwise.
    named = [("source_lang", "src_lang"), ("target_lang", "tgt_lang")]
    source, target = (
        next(filter(None, (getattr(tokenizer, name, None) for name in names)), UNDETERMINED)
        for names in named
    )
    return source, target if translates else None


def _drawn(batch: Batch) -> Bool[Tensor, "batch source"]:
    """The tokens hidden from a masked language model: the same for a sentence in any batch."""
    chosen = torch.zeros_like(batch.source_mask)
    words = batch.source_mask & ~batch.source_boundary
    for row, sentence in enumerate(batch.sentences.tolist()):
        places = words[row].nonzero().flatten()
        if len(places):
            generator = torch.Generator().manual_seed(sentence)
            order = torch.randperm(len(places), generator=generator).to(places.device)
            chosen[row, places[order[: max(1, round(MASKED * len(places)))]]] = True
    return chosen
