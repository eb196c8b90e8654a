"""Where a Hugging Face model lies, and its parts read with every failure in one line."""

import hashlib
import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headbook.released import pruned
from headbook.released.catalogue import INSTALL, UNKNOWN, Entry, catalogue, folder_of
from headbook.types import UserError

VOCABULARIES = ("tokenizer.json", "vocab*", "*.spm", "*.model", "*.vocab")
"""The files of which a tokenizer has one at least."""

PATIENCE = 10
"""Seconds that huggingface.co may take to say whether it has a model."""

UNUSED = "pooler"
"""Weights that may be missing: the pooler follows the last layer and is never run here."""


def entry_of(place: str) -> Entry | None:
    """The catalogue's entry of that name or hub id."""
    entries = [each for each in catalogue().values() if each.reader == "hugging-face"]
    return next((each for each in entries if place in (each.name, each.id)), None)


def folder_at(place: str, entry: Entry | None) -> Path | None:
    """The folder that a place names; None for an id. UserError where it holds no model."""
    folder = folder_of(entry) if entry and not entry.id else _path(place)
    if folder is None:
        return None
    if not (folder / "config.json").is_file():
        raise UserError(f"{place}: no config.json in {folder}; it holds no Hugging Face model")
    # The library would go on with a tokenizer that knows no words.
    if not any(any(folder.glob(each)) for each in VOCABULARIES):
        raise UserError(f"{place}: no tokenizer in {folder}; copy the model's tokenizer there")
    if entry is not None and entry.sha256 != UNKNOWN:
        weights = folder / "model.safetensors"
        if not weights.is_file() or _digest(weights) != entry.sha256:
            raise UserError(f"{weights} is not the file of data/models.toml; run {INSTALL}")
    return folder


def _path(place: str) -> Path | None:
    """A folder that is there, or an installed package's with a configuration."""
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


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def only_cached(name: str, identity: str) -> bool:
    """Whether a hub id has to be read from the library's cache; UserError where it is out of reach.

    Tried here once: the library itself would retry for half a minute before it gives up.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        HfApi().model_info(identity, timeout=PATIENCE)
    except Exception as error:
        if "NotFound" not in type(error).__name__ and isinstance(
            try_to_load_from_cache(identity, "config.json"), str
        ):
            return True
        raise UserError(
            f"{name}: no such folder, package or catalogue name here, and huggingface.co does not "
            f"give it ({type(error).__name__}); check the name and the network"
        ) from None
    return False


def read(name: str, reader: str, where: str, offline: bool, **options: Any) -> Any:
    """The object that this class of transformers loads from there, its errors in one line."""
    import transformers

    try:
        with quiet():
            known = getattr(transformers, reader)
            return known.from_pretrained(where, local_files_only=offline, **options)
    except Exception as error:
        mend = f"run {INSTALL}" if isinstance(error, ImportError) else "fetch it again"
        said = " ".join(str(error).split())[:160]
        raise UserError(f"{name}: {reader} cannot read it ({said}); {mend}") from None


def read_model(name: str, where: str, offline: bool, config: Any) -> torch.nn.Module:
    """The model with the head that its configuration names; UserError where weights are missing."""
    if (Path(where) / pruned.NOTE).is_file():
        return pruned.restored(_reader(config), config, Path(where))
    options = {"dtype": torch.float32, "attn_implementation": "eager", "output_loading_info": True}
    model, report = read(name, _reader(config), where, offline, **options)
    missing = sorted(key for key in report["missing_keys"] if UNUSED not in key)
    missing += sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise UserError(
            f"{name}: {len(missing)} of its weights are missing or of another shape, the first "
            f"{missing[0]}; fetch the folder again"
        )
    return model


def _reader(config: Any) -> str:
    """The class of transformers that reads the weights together with their language head."""
    from transformers.models.auto import modeling_auto as known

    architecture = (getattr(config, "architectures", None) or ["none"])[0]
    if config.is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    if architecture == known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type):
        return "AutoModelForCausalLM"
    masked = known.MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    if architecture == masked or architecture.endswith("ForPreTraining"):
        return "AutoModelForMaskedLM"
    return "AutoModel"


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's warnings and bars: those that matter are errors here."""
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
