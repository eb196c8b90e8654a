"""Any Hugging Face transformer, from a folder, an installed package or an id (needs a network)."""

import importlib.util
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from headbook.corpora.batches import Batch
from headbook.models.loaded import Span
from headbook.types import UserError

INSTALL = "pip install 'headbook[released]'"

MASKED = 0.15
"""Share of a sentence's tokens hidden from a masked language model, one at least, as in BERT."""

UNDETERMINED = "und"
"""ISO 639's code for a language that is not known."""

UNUSED = "pooler"
"""Weights that may be missing: the pooler follows the last layer and is never run here."""


@dataclass(frozen=True)
class HuggingModel:
    """A transformer of `transformers` as a `Loaded` model. See `load`."""

    name: str
    origin: str
    languages: tuple[str, str | None]
    network: Any  # HuggingNetwork, whose module needs transformers installed
    text: Any  # HuggingText

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        """See `Loaded`. Of a decoder, `target_in` is what it reads and `source` is empty."""
        return self.text.batches(sentences, targets, tokens)

    def spans(self, sentence: str) -> list[Span | None]:
        return self.text.spans(sentence)

    def pieces(self, sentence: str) -> list[str]:
        return self.text.pieces(sentence)

    def losses(self, batch: Batch) -> Float[Tensor, " token"]:
        """See `Loaded`.

        A decoder predicts every token it reads but the first; a translation model every target
        token, EOS among them; a masked language model the tokens that `masked` hides.
        """
        wanted, hidden = self._predicted(batch)
        if not self.network.predicts:
            raise UserError(f"{self.name} has no head that predicts tokens; it has no loss")
        if self.network.stacks == "encoder":
            batch = self.masked(batch, hidden)
        logits = self.network(batch)[hidden]
        return functional.cross_entropy(logits.float(), wanted[hidden], reduction="none")

    def predicted(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """True at the places whose predictions `losses` lists, row by row."""
        return self._predicted(batch)[1]

    def masked(self, batch: Batch, hidden: Bool[Tensor, "batch source"]) -> Batch:
        """The batch with the mask token at these places; UserError where there is no such token."""
        mask = self.text.tokenizer.mask_token_id
        if mask is None:
            raise UserError(f"{self.name}: its tokenizer has no mask token to predict at")
        return replace(batch, source=batch.source.masked_fill(hidden, mask))

    def vectors(self, batch: Batch) -> Float[Tensor, "batch width"]:
        """A vector per sentence: the encoder's last states averaged over real tokens.

        Special tokens count, as in sentence-transformers; the length is not normalised. Part of the
        graph. UserError where there is no encoder.
        """
        states = self.network.encode(batch)
        real = batch.source_mask[..., None]
        return states.masked_fill(~real, 0.0).sum(1) / real.sum(1)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Greedy translations in the order of the sentences, gates applied."""
        if self.network.stacks != "encoder-decoder":
            raise UserError(f"{self.name} does not translate: it is no encoder-decoder")
        tokenizer, found = self.text.tokenizer, [""] * len(sentences)
        device = next(self.network.parameters()).device
        options = {"max_new_tokens": 256}
        language = getattr(tokenizer, "tgt_lang", None)
        if language is not None and self.network.model.generation_config.forced_bos_token_id is None:
            options["forced_bos_token_id"] = _language_id(tokenizer, language)
        with tqdm(total=len(sentences), desc=f"Translating with {self.name}") as progress:
            for batch in self.batches(sentences):
                ids = self.network.generate(batch.to(device), **options)
                texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
                for row, text in zip(batch.sentences.tolist(), texts, strict=True):
                    found[row] = text
                progress.update(len(batch))
        return found

    def _predicted(self, batch: Batch) -> tuple[Tensor, Bool[Tensor, "batch token"]]:
        """Ids wanted at every place, and the places that are predicted."""
        real = batch.target_mask
        if self.network.stacks == "encoder-decoder":
            return batch.target_out, real
        if self.network.stacks == "decoder":
            follows = functional.pad(real[:, 1:], (0, 1), value=False)
            return batch.target_out, follows
        return batch.source, _drawn(batch)


def load(
    place: str | Path,
    name: str | None = None,
    origin: str | None = None,
    languages: tuple[str, str | None] | None = None,
) -> HuggingModel:
    """The model in a folder, in an installed package, or with this id on huggingface.co.

    UserError, one line each, where transformers is not installed, nothing can be found or fetched,
    files are missing or damaged, or the architecture is out of reach.
    """
    if importlib.util.find_spec("transformers") is None:
        raise UserError(f"{place}: needs the package transformers; run {INSTALL}")
    from headbook.released.hugging_text import HuggingText
    from headbook.released.network import HuggingNetwork, Stacks

    folder = _folder(str(place))
    where = str(place) if folder is None else str(folder)
    name = str(place) if name is None else name
    config = _attempt(name, "config", where, folder)
    tokenizer = _attempt(name, "tokenizer", where, folder)
    with _quiet():
        network = HuggingNetwork(_weights(name, where, folder, config))
    text = HuggingText(
        tokenizer=tokenizer,
        stacks=network.stacks,
        limit=_limit(tokenizer, network.model),
        padding=_first(tokenizer.pad_token_id, config.pad_token_id, 0),
        start=getattr(config, "decoder_start_token_id", None),
    )
    if origin is None:
        origin = f"huggingface.co/{place}" if folder is None else f"the folder {folder}"
    translates = network.stacks is Stacks.BOTH
    return HuggingModel(name, origin, languages or _languages(name, tokenizer, translates), network, text)


def _folder(place: str) -> Path | None:
    """The folder that a place names, itself or as an installed package; None for an id."""
    if Path(place).is_dir():
        return Path(place)
    if place.startswith((".", "/", "~")):
        raise UserError(f"{place}: there is no such folder")
    spec = importlib.util.find_spec(place) if place.isidentifier() else None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        configured = [path.parent for path in Path(root).glob("**/config.json")]
        if configured:
            return min(configured, key=lambda folder: len(folder.parts))
    return None


def _attempt(name: str, part: str, where: str, folder: Path | None, **options: Any) -> Any:
    """Configuration, tokenizer or a model class's weights, with the library's errors in one line."""
    import transformers

    classes = {"config": transformers.AutoConfig, "tokenizer": transformers.AutoTokenizer}
    reader = classes[part] if part in classes else getattr(transformers, part)
    if folder is not None and not (folder / "config.json").is_file():
        raise UserError(f"{name}: no config.json in {folder}; it holds no Hugging Face model")
    try:
        with _quiet():
            return reader.from_pretrained(where, local_files_only=folder is not None, **options)
    except ImportError as error:
        package = re.search(r"requires the (\S+) library|No module named '(\w+)'", str(error))
        missing = next(filter(None, package.groups())) if package else "a package"
        raise UserError(f"{name}: its {part} needs {missing}; run {INSTALL}") from error
    except Exception as error:
        raise UserError(_complaint(name, part, folder, error)) from error


def _complaint(name: str, part: str, folder: Path | None, error: Exception) -> str:
    said = " ".join(str(error).split())[:160]
    if folder is None and isinstance(error, OSError):
        return (
            f"{name}: no such model on huggingface.co, or it cannot be reached; "
            "give a folder, or try again with a network"
        )
    if part in ("config", "tokenizer"):
        return f"{name}: its {part} cannot be read ({said})"
    return f"{name}: its weights cannot be read ({said}); fetch the folder again"


def _weights(name: str, where: str, folder: Path | None, config: Any) -> torch.nn.Module:
    """The model with the head that its configuration names; UserError where weights are missing."""
    model, report = _attempt(
        name, _reader(config), where, folder,
        dtype=torch.float32, attn_implementation="eager", output_loading_info=True,
    )  # fmt: skip
    missing = sorted(key for key in report["missing_keys"] if UNUSED not in key)
    wrong = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if missing or wrong:
        raise UserError(
            f"{name}: {len(missing) + len(wrong)} of its weights are missing or of another shape, "
            f"the first {(missing or wrong)[0]}; fetch the folder again"
        )
    return model


def _reader(config: Any) -> str:
    """The class of transformers that reads the weights together with their language head."""
    from transformers.models.auto import modeling_auto as known

    architecture = (getattr(config, "architectures", None) or [""])[0]
    family = config.model_type
    if config.is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    causal = known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(family)
    if architecture and architecture == causal:
        return "AutoModelForCausalLM"
    masked = known.MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(family)
    if architecture and (architecture == masked or architecture.endswith("ForPreTraining")):
        return "AutoModelForMaskedLM"
    return "AutoModel"


def _limit(tokenizer: Any, model: torch.nn.Module) -> int | None:
    """The most tokens a sentence may have; RoBERTa counts its positions from the padding's id."""
    config = model.config.get_text_config()
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    for path, module in model.named_modules():
        if path.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    # Tokenizers without a limit give 10³⁰.
    given = [limit for limit in limits if limit is not None and 0 < limit < 10**9]
    return min(given, default=None)


def _languages(name: str, tokenizer: Any, translates: bool) -> tuple[str, str | None]:
    """What name or tokenizer say of the languages, else undetermined."""
    pair = re.search(r"opus-mt-(\w+)-(\w+)", name)
    if pair:
        return pair[1], pair[2]
    source = getattr(tokenizer, "src_lang", None) or UNDETERMINED
    target = getattr(tokenizer, "tgt_lang", None) or UNDETERMINED
    return source, target if translates else None


def _language_id(tokenizer: Any, language: str) -> int:
    if hasattr(tokenizer, "get_lang_id"):
        return tokenizer.get_lang_id(language)
    return tokenizer.convert_tokens_to_ids(language)


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


def _first(*given: int | list[int] | None) -> int:
    return next(each for each in given if isinstance(each, int))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's warnings and bars: what matters of them is an error here."""
    from transformers.utils import logging as library

    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()
