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

from headbook.models.loaded import UNDETERMINED, Loaded, Span
from headbook.released import smiles, vision
from headbook.released.hugging_files import (
    SEEING,
    check_tokens,
    keep,
    located,
    quiet,
    read,
    read_model,
    unpacked,
    unquantised,
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
    def unknown(self) -> int | None:
        tokenizer = self.text.tokenizer
        known = (tokenizer.mask_token_id, tokenizer.unk_token_id)
        return next((each for each in known if each is not None), None)

    @property
    def vocabulary(self) -> list[int]:
        """The ids that stand for text and have an embedding."""
        tokenizer = self.text.tokenizer
        added = tokenizer.added_tokens_decoder.items()
        special = {*tokenizer.all_special_ids, *(id_ for id_, token in added if token.special)}
        rows = len(self.network.model.get_input_embeddings().weight)
        return sorted(
            each for each in tokenizer.get_vocab().values() if each < rows and each not in special
        )

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
        batch = batch.to(self.network.device)
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
        return self.network.encode(batch).float()

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Greedy translations in the order of the sentences, gates applied."""
        if self.network.stacks != "encoder-decoder":
            raise UserError(f"{self.name} does not translate: it is no encoder-decoder")
        tokenizer, found = self.text.tokenizer, [""] * len(sentences)
        options, language = {}, getattr(tokenizer, "tgt_lang", None)
        if language is not None:
            options["forced_bos_token_id"] = language_id(tokenizer, language)
        with tqdm(total=len(sentences), desc=f"Translating with {self.name}") as progress:
            for batch in self.batches(sentences):
                longest = SHORT + GROWTH * batch.source.shape[1]
                # a start and an end have positions, too
                longest = min(longest, (self.text.limit or longest + 2) - 2)
                ids = self.network.generate(batch, max_new_tokens=longest, **options)
                texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
                for row, text in zip(batch.sentences.tolist(), texts, strict=True):
                    found[row] = text
                progress.update(len(batch))
        return found


def load(
    given: str | Path,
    languages: tuple[str, str] | None = None,
    revision: str | None = None,
) -> Loaded:
    """The model in a folder or GGUF file, of a catalogue name, installed package or hub id.

    UserError, one line each, where nothing can be found or fetched, files are missing, damaged or
    others than the catalogue's, or the architecture is out of reach.
    """
    place = located(given, revision)
    kept = unpacked(place)
    if kept is not None and kept.is_dir():
        place = replace(place, where=str(kept), options={"local_files_only": True})
    config = read(place, "AutoConfig")
    check_tokens(place, config)
    # The other class would read a GGUF file's whole vocabulary twice, which takes seconds.
    gguf = "gguf_file" in place.options
    own = "AutoImageProcessor" if config.model_type in SEEING else "AutoTokenizer"
    tokenizer = smiles.tokenizer(place.folder) or read(
        place, "PreTrainedTokenizerFast" if gguf else own
    )
    origin = f"the folder {place.folder}" if place.folder else f"huggingface.co/{place.where}"
    if place.adapter is not None:
        origin = f"{origin} with the adapter {place.adapter}"
    if (entry := place.entry) is not None:
        origin = entry.origin
    model = read_model(place, config)
    if kept is not None and gguf:
        keep(kept, model, tokenizer)
    found = of(model, tokenizer, languages, place.name, origin)
    if entry is None:
        return found
    source, *target = entry.languages
    return replace(found, languages=(source, target[0] if target else None))


def of(
    model: Any,
    tokenizer: Any,
    languages: tuple[str, str] | None = None,
    name: str = "",
    origin: str = "an object in memory",
) -> Loaded:
    """A model of `transformers` with its tokenizer or image processor; the same objects, from now
    on in evaluation mode and with their attention tapped.

    UserError for other objects, an adapter that is not merged, and as of `load`.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from headbook.released.hugging_text import HuggingText
    from headbook.released.network import HuggingNetwork, Stacks

    name = name or getattr(model, "name_or_path", "") or type(model).__name__
    if getattr(getattr(model, "config", None), "model_type", None) in SEEING:
        return vision.of(model, tokenizer, name, origin)
    if hasattr(model, "merge_and_unload") or getattr(model, "_hf_peft_config_loaded", False):
        raise UserError(f"{name} has an adapter beside its weights: give model.merge_and_unload()")
    if not isinstance(model, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise UserError(
            f"{name}: give a model of transformers with its tokenizer, as in hb.load(model, "
            f"tokenizer), not {type(model).__name__} and {type(tokenizer).__name__}"
        )
    _speak(name, tokenizer, languages)
    with quiet():
        network = HuggingNetwork(unquantised(model))
    config = model.config
    paddings = (tokenizer.pad_token_id, config.get_text_config().pad_token_id, 0)
    text = HuggingText(
        tokenizer=tokenizer,
        stacks=network.stacks,
        limit=_limit(tokenizer, model),
        # Some configurations list several.
        padding=next(each for each in paddings if isinstance(each, int)),
        start=getattr(config, "decoder_start_token_id", None),
    )
    if network.without:
        origin = f"{origin}; no attention in layers {', '.join(network.without)}"
    spoken = _languages(name, tokenizer, network.stacks is Stacks.BOTH)
    return HuggingModel(name, origin, spoken, network, text)


def _speak(name: str, tokenizer: Any, languages: tuple[str, str] | None) -> None:
    """Sets source and target of a tokenizer that has languages to choose from (NLLB, M2M, mBART).

    UserError where it has none, or not these, or where the target is not chosen.
    """
    if not hasattr(tokenizer, "src_lang"):
        if languages is not None:
            raise UserError(f"{name}: its tokenizer has no languages to choose; leave them out")
        return
    if languages is None and tokenizer.tgt_lang is None:
        raise UserError(
            f"{name} translates between many languages: name source and target in its own codes, "
            'as in hb.load(…, languages=("eng_Latn", "deu_Latn"))'
        )
    for side, code in zip(("src_lang", "tgt_lang"), languages or (), strict=False):
        try:
            number = language_id(tokenizer, code)
        except KeyError:
            number = None
        if number in (None, tokenizer.unk_token_id):
            raise UserError(f"{name} has no language {code!r}; its codes are of its own tokenizer")
        setattr(tokenizer, side, code)


def language_id(tokenizer: Any, code: str) -> int:
    """The token of a language; M2M's are written otherwise than its codes."""
    return getattr(tokenizer, "get_lang_id", tokenizer.convert_tokens_to_ids)(code)


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
