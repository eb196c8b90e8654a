"""Where a Hugging Face model lies, and its parts read with every failure in one line."""

import importlib.util
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from headbook import paths
from headbook.machine import sha256
from headbook.released import pruned
from headbook.released.catalogue import Entry, catalogue, folder_of
from headbook.types import UserError

VOCABULARIES = ("tokenizer.json", "vocab*", "*.spm", "*.model", "*.vocab")
"""The files of which a tokenizer has one at least."""

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files with a model's weights, in the order in which the library looks for them."""

PATIENCE = 10
"""Seconds that huggingface.co may take to say whether it has a model."""

EXTRA = ("accelerate", "gguf>", "protobuf")
"""What a reader of `transformers` says where it lacks a package of the extra."""

ADAPTER, DIGESTS = "adapter_config.json", "digests.json"

SENSES = {"image_size", "patch_size", "num_mel_bins", "conv_dim"}
"""Settings of models that read images or sound."""

SEEING = ("vit", "deit", "dinov2", "dinov2_with_registers")
"""Families that are read by released/vision.py, by `model_type`."""

UNUSED = "pooler"
"""Weights that may be missing: the pooler follows the last layer and is never run here."""


@dataclass(frozen=True)
class Place:
    """Where a model lies, as `transformers` reads it: a folder, or an id of the hub (no `folder`).

    `options` say which file of the folder is read, which revision, and whether the library's cache
    is enough; `adapter` is a folder with an adapter (LoRA) of the model.
    """

    name: str
    where: str
    folder: Path | None = None
    entry: Entry | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    adapter: Path | None = None


def located(place: str | Path, revision: str | None = None) -> Place:
    """The place of a model: a path as such, else a catalogue name, an installed package or an id.

    UserError where it holds no model, or another than the catalogue says, for an adapter without
    `peft`, and for a revision of what is not on the hub.
    """
    entry = None if isinstance(place, Path) else entry_of(place)
    folder = folder_of(entry) if entry and not entry.id else _path(place)
    name = entry.name if entry else str(place)
    if folder is None:
        where = entry.id if entry else name
        options = {"local_files_only": only_cached(name, where)}
        options |= {"revision": revision} if revision else {}
        return Place(name, where, None, entry, options)
    if revision is not None:
        raise UserError(f"{name} is a folder and has no revision {revision}: leave it out")
    if (folder / ADAPTER).is_file():
        return _adapted(folder)
    options: dict[str, Any] = {"local_files_only": True}
    weights = file = folder if folder.is_file() else gguf_in(folder)
    if file is not None:
        folder, options = file.parent, options | {"gguf_file": file.name}
    elif not (folder / "config.json").is_file():
        raise UserError(f"{place}: no config.json in {folder}; it holds no Hugging Face model")
    if entry is not None:
        there = (folder / name for name in WEIGHTS if (folder / name).is_file())
        entry.check(weights or next(there, folder / WEIGHTS[0]))
    return Place(name, str(folder), folder, entry, options)


def check_tokens(place: Place, config: Any) -> None:
    """UserError for a folder without a tokenizer: the library would go on with one that knows no
    words."""
    if place.folder is None or "gguf_file" in place.options or config.model_type in SEEING:
        return
    if any(any(Path(place.where).glob(each)) for each in VOCABULARIES):
        return
    if any(hasattr(config, each) for each in SENSES):
        seeing = ", ".join(SEEING)
        raise UserError(
            f"{place.name} reads images or sound; of such models {seeing} are looked at"
        )
    raise UserError(f"{place.name}: no tokenizer in {place.folder}; copy the model's there")


def _adapted(folder: Path) -> Place:
    """The model that a folder's adapter belongs to: the one that is saved with it, or its base."""
    if importlib.util.find_spec("peft") is None:
        raise UserError(
            f"{folder} is an adapter (LoRA) and would need peft: `python -m pip install peft`, or "
            "merge it (merge_and_unload) and save the whole model"
        )
    try:
        base = str(json.loads((folder / ADAPTER).read_text("utf-8"))["base_model_name_or_path"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / ADAPTER} does not name its model ({said(error)})") from None
    whole = any(any(folder.glob(each)) for each in ("model*.safetensors", "pytorch_model*.bin"))
    if whole:
        found = Place(str(folder), str(folder), folder, None, {"local_files_only": True})
    else:
        found = located(Path(base) if os.path.isdir(base) else base)
    return replace(found, name=str(folder), adapter=folder, entry=None)


def entry_of(place: str) -> Entry | None:
    """The catalogue's entry of that name or hub id."""
    entries = [each for each in catalogue().values() if each.reader == "hugging-face"]
    return next((each for each in entries if place in (each.name, each.id)), None)


def gguf_in(folder: Path) -> Path | None:
    """The one GGUF file of a folder without other weights; UserError where there are several."""
    found = sorted(folder.glob("*.gguf"))
    if not found or any(any(folder.glob(each)) for each in ("*.safetensors", "*.bin")):
        return None
    if len(found) > 1:
        raise UserError(
            f"{folder} has {len(found)} GGUF files: name one of them, such as {found[0]}"
        )
    return found[0]


def unpacked(place: Place) -> Path | None:
    """Where the plain weights of a catalogue's GGUF file are kept, beside the downloads; else None.

    Unpacking takes a quarter of a minute, reading what is kept two seconds. UserError where it is
    not what `keep` wrote.
    """
    if place.entry is None or "gguf_file" not in place.options:
        return None
    folder = paths.downloads() / f"{place.entry.name}-{place.entry.sha256[:16]}"
    if folder.is_dir():
        try:
            known = json.loads((folder / DIGESTS).read_text("utf-8"))
            whole = bool(known) and all(sha256(folder / name) == known[name] for name in known)
        except (OSError, ValueError, TypeError):
            whole = False
        if not whole:
            raise UserError(f"{folder} is not as it was unpacked: delete it, to unpack it again")
    return folder


def keep(folder: Path, *parts: Any) -> None:
    """Saves a model and its tokenizer there with the digests of their files, whole or not at all:
    without room it is left out."""
    with quiet(), suppress(OSError, SafetensorError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            for part in parts:
                part.save_pretrained(made)
            known = {file.name: sha256(file) for file in Path(made).iterdir()}
            (Path(made) / DIGESTS).write_text(json.dumps(known), "utf-8")
            os.rename(made, folder)
            os.mkdir(made)  # for the context to remove


def _path(place: str | Path) -> Path | None:
    """A path that is there, or the folder with a configuration in an installed package."""
    if isinstance(place, Path):
        if not place.exists():
            raise UserError(f"{place}: there is no such folder")
        return place
    spec = importlib.util.find_spec(place) if place.isidentifier() else None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        configured = [path.parent for path in Path(root).glob("**/config.json")]
        if configured:
            return min(configured, key=lambda folder: len(folder.parts))
    return None


def only_cached(name: str, identity: str) -> bool:
    """Whether a hub id has to be read from the library's cache; UserError where it is out of reach.

    Tried here once: the library itself would retry for half a minute before it gives up.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        HfApi().model_info(identity, timeout=PATIENCE)
    except Exception as error:
        wrong = ("NotFound", "Validation")
        kept = not any(each in type(error).__name__ for each in wrong)
        if kept and isinstance(try_to_load_from_cache(identity, "config.json"), str):
            return True
        raise UserError(
            f"{name}: no such folder, package or catalogue name here, and huggingface.co does not "
            f"give it ({type(error).__name__}); check the name and the network"
        ) from None
    return False


def read(place: Place, reader: str, **options: Any) -> Any:
    """The object that this class of transformers loads from there, its errors in one line."""
    import transformers

    try:
        with quiet():
            known = getattr(transformers, reader)
            return known.from_pretrained(place.where, **place.options, **options)
    except Exception as error:
        missing = isinstance(error, ImportError) or any(each in str(error) for each in EXTRA)
        mend = f"run {paths.install('models')}" if missing else "fetch it again"
        raise UserError(f"{place.name}: {reader} cannot read it ({said(error)}); {mend}") from None


def read_model(place: Place, config: Any) -> torch.nn.Module:
    """The model with the head that its configuration names; UserError where weights are missing."""
    if (Path(place.where) / pruned.NOTE).is_file():
        return pruned.restored(_reader(config, gguf=False), config, Path(place.where))
    model, report = read(
        place,
        _reader(config, "gguf_file" in place.options),
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
        weights_only=True,  # a .bin file is a pickle, which may hold any code
    )
    missing = sorted(key for key in report["missing_keys"] if UNUSED not in key)
    missing += sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise UserError(
            f"{place.name}: {len(missing)} of its weights are missing or of another shape, the "
            f"first {missing[0]}; fetch the folder again"
        )
    model = unquantised(model)
    if place.adapter is None:
        return model
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, place.adapter).merge_and_unload()
    except Exception as error:
        raise UserError(
            f"{place.name}: its adapter cannot be merged into {place.where} ({said(error)})"
        ) from None


def said(error: Exception) -> str:
    """What an error says, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}".removesuffix(": ")


def unquantised(model: torch.nn.Module) -> torch.nn.Module:
    """The same model, no longer marked as quantised where all its weights are plain numbers.

    The library unpacks a GGUF file and leaves the mark, which forbids `.to` and `save_pretrained`.
    """
    if "Gguf" in type(getattr(model, "hf_quantizer", None)).__name__:
        model.is_quantized, model.hf_quantizer = False, None
        model.config.__dict__.pop("quantization_config", None)
    return model


def _reader(config: Any, gguf: bool) -> str:
    """The class of transformers that reads the weights together with their language head.

    A GGUF file names no class: it is a language model.
    """
    from transformers.models.auto import modeling_auto as known

    architecture = (config.architectures or [""])[0]
    if architecture.endswith("EncoderModel"):
        return "AutoModelForTextEncoding"
    if config.is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    if gguf and not architecture:
        return "AutoModelForCausalLM"
    for reader, names in (
        ("AutoModelForCausalLM", known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        ("AutoModelForImageTextToText", known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
        ("AutoModelForMaskedLM", known.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    ):
        if architecture == names.get(config.model_type):
            return reader
    # ELECTRA's discriminator is trained to tell replaced tokens and predicts none.
    masked = architecture.endswith("ForPreTraining") and config.model_type != "electra"
    return "AutoModelForMaskedLM" if masked else "AutoModel"


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
