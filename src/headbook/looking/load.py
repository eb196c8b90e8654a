"""`hb.load`: a model by its name, folder or Hugging Face id."""

import difflib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headbook import paths, recipes
from headbook.looking.ours import WEIGHTS, trained
from headbook.models.loaded import Loaded
from headbook.released import hugging_face, speech, vision
from headbook.released.catalogue import catalogue, folder_of
from headbook.released.firefox import STUDENT, read_folder
from headbook.released.hugging_files import ADAPTER, gguf_in, said
from headbook.runs.store import Store
from headbook.types import UserError

TYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Types of weights that a Hugging Face model is run in."""
_READERS = {"firefox": read_folder, "onnx": vision.load_onnx, "whisper": speech.load}


def load(
    given: Any,
    tokenizer: Any = None,
    *,
    device: Any = None,
    dtype: Any = None,
    revision: str | None = None,
    languages: tuple[str, str] | None = None,
) -> Loaded:
    """A model whose heads can be measured, with its tokens; see `Loaded` for what it can do.

    `given` is a name of the catalogue data/models.toml ("firefox-en-pt", "minilm", "smollm2",
    "dinov2-small", "multi30k-de-128", …; `headbook models` lists them), a snapshot of a model
    trained here ("mixture-fr-256@2048" after 2,048 updates, "@0" untrained), a folder (a finished
    run of this package, a Firefox translation model, Whisper as CTranslate2 stores it, a saved
    Hugging Face model, an adapter, one GGUF file) or that file itself, a DINOv2 in an ONNX file, an
    installed Python package with such a model, or an id of the Hugging Face hub. A `Path`, and a
    text that begins with ".", "/" or "~", is that folder and nothing else; "org/name" is a folder
    where there is one, else an id of the hub; of "minilm" the catalogue comes first. Or it is a
    model of `transformers`, with its `tokenizer` (or image processor); that object itself is used.

    `device`, such as "cuda", is where the model runs, and every batch with it; tables come back as
    pandas. `dtype` ("bfloat16", "float16" or torch's own) is that of a Hugging Face model's
    weights; attention and measures are computed in float32 all the same. `revision` is that of an
    id of the hub. `languages` are source and target of a model of many (NLLB, M2M, mBART), in its
    own codes.

    UserError, in one line, for an unknown name, a model that is not trained yet, a snapshot that
    was not kept, a folder without configuration or weights, damaged files, an architecture that
    cannot be read, a package or network that is missing, and an option that the model cannot take.
    """
    named = isinstance(given, str | Path)
    if named and tokenizer is not None:
        raise UserError(f"{given} brings its own tokenizer: leave it out, or give a model object")
    options = {"languages": languages, "revision": revision}
    if not named:
        if revision is not None:
            raise UserError(f"a model in memory has no revision {revision}: leave it out")
        found = hugging_face.of(given, tokenizer, languages)
    else:
        found = _named(given, {name: each for name, each in options.items() if each is not None})
    return _moved(found, device, dtype)


def _named(name: str | Path, options: dict[str, Any]) -> Loaded:
    if (path := as_path(name)) is not None:
        return _at(path, options)
    known = catalogue()
    if name in known and (read := _READERS.get(known[name].reader)):
        return _with(partial(read, entry=known[name]), folder_of(known[name]), options)
    if name in known:
        return hugging_face.load(name, **options)
    if recipes.is_named(name.partition("@")[0]):
        return _with(_trained_here, name, options)
    if os.path.exists(name):
        return _at(Path(name), options)
    try:
        return hugging_face.load(name, **options)
    except UserError as error:
        names = [*known, *recipes.catalogue()]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        if not near:
            raise
        raise UserError(f"{error} (did you mean {' or '.join(near)}?)") from None


def _with(read: Callable[..., Loaded], place: str | Path, options: dict[str, Any]) -> Loaded:
    """What a reader that has no options finds there."""
    if options:
        raise UserError(f"{place} is no Hugging Face model: leave out {' and '.join(options)}")
    return read(place)


def _moved(model: Loaded, device: Any, dtype: Any) -> Loaded:
    """The model there, its weights in that type; UserError where it cannot be."""
    if dtype is not None:
        wanted = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype), None)
        if wanted not in TYPES or not isinstance(model, hugging_face.HuggingModel):
            raise UserError(
                f"{model.name} is not run in {dtype}: Hugging Face models are, in "
                f"{', '.join(str(each).removeprefix('torch.') for each in TYPES)}"
            )
        model.network.to(wanted)
    if device is not None:
        try:
            model.network.to(torch.device(device))
        except (RuntimeError, AssertionError, TypeError) as error:
            raise UserError(f"there is no device {device} here ({said(error)})") from None
    return model


def as_path(name: str | Path) -> Path | None:
    """The path that is meant: a Path, or a text that begins as one or holds a separator and is
    there (an id of the Hugging Face hub holds one too); None for any other name.

    UserError for a path that is not there.
    """
    text = str(paths.expanded(name)) if str(name).startswith("~") else str(name)
    if isinstance(name, Path) or text.startswith((".", "/", "~", os.sep)):
        if not os.path.exists(text):
            raise UserError(f"{name}: there is no such folder")
    elif not ({"/", os.sep} & set(text) and os.path.exists(text)):
        return None
    return Path(text)


def _trained_here(name: str) -> Loaded:
    """From the run store, or from the weights that come with the book."""
    if not paths.CLONE:
        raise UserError(
            f"{name} is trained in the repository: clone it, `pip install -e '.[train]'` there, "
            "and load it from that environment"
        )
    from headbook.training.models import initial, run
    from headbook.training.train import folder_of, snapshot

    base, _, update = name.partition("@")
    wanted = run(base)
    folder = folder_of(wanted, Store.default())
    if folder is None:  # an untrained model needs subwords alone
        there = recipes.weights_folder(base if update == "0" else name)
        folder, kept = there if there.is_dir() else None, WEIGHTS
    else:
        kept = snapshot(folder, update) if update not in ("", "0") else WEIGHTS
    if folder is None:
        raise UserError(f"{name} is not trained here yet: `headbook train {base}` trains it")
    found = replace(trained(folder, kept), name=name)
    return replace(found, network=initial(wanted, folder)) if update == "0" else found


def _at(path: Path, options: dict[str, Any]) -> Loaded:
    if path.suffix == ".onnx":
        return _with(vision.load_onnx, path, options)
    if path.is_file() and path.suffix != ".gguf":
        raise UserError(f"{path} is a file; name the folder that holds the model's files")
    if (path / WEIGHTS).is_file() or (path / "run.json").is_file():
        return _with(trained, path, options)
    if (path / "model.bin").is_file() and (path / "config.json").is_file():
        return _with(speech.load, path, options)
    configured = any((path / name).is_file() for name in ("config.json", ADAPTER))
    if path.is_file() or configured or gguf_in(path):
        return hugging_face.load(path, **options)
    if (path / STUDENT).is_file() or any(path.glob("model*.bin*")):
        return _with(read_folder, path, options)
    raise UserError(
        f"{path} holds no model: neither {WEIGHTS} (a run of headbook), config.json (Hugging "
        "Face), one .gguf file nor model*.bin (Firefox)"
    )
