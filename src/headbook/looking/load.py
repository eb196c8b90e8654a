"""`hb.load`: a model by its name, folder or Hugging Face id."""

import difflib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headbook.artefacts import catalogue as trained_here
from headbook.artefacts.encoders import EncoderRun
from headbook.artefacts.model import ModelRun
from headbook.artefacts.trained import folder_of
from headbook.looking.ours import WEIGHTS, RunFolder
from headbook.models.loaded import Loaded
from headbook.models.transformer import Transformer
from headbook.released import hugging_face
from headbook.released.catalogue import Entry, catalogue
from headbook.released.firefox import load_firefox
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.training.loop import snapshot_name
from headbook.types import UserError

_READERS = {"firefox": load_firefox, "hugging-face": hugging_face.load}


def load(name: str | Path) -> Loaded:
    """A model whose heads can be measured, with its tokens; see `Loaded` for what it can do.

    `name` is a name of the catalogue data/models.toml ("firefox-en-pt", "minilm",
    "multi30k-de-128", …; `headbook models` lists them), a folder (a finished run of this package, a
    Firefox translation model, a saved Hugging Face model), an installed Python package with such a
    model, or an id of the Hugging Face hub. Of a model that this package trains,
    "mixture-fr-256@2048" is the snapshot after so many updates, and "mixture-fr-256@0" the model
    before training.

    UserError, in one line, for an unknown name, a model that is not trained yet, a
    folder without configuration or weights, damaged files, an architecture that cannot be read, and
    a package or network that is missing.
    """
    known = catalogue()
    if str(name) in known:
        return _catalogued(known[str(name)])
    named, _, update = str(name).partition("@")
    if trained_here.is_named(named) and (not update or update.isdecimal()):
        return _trained_here(named, update)
    path = Path(name).expanduser()
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        raise UserError(f"{name} is a file; name the folder that holds the model's files")
    try:
        return hugging_face.load(name)
    except UserError as error:
        names = [*known, *trained_here.catalogue()]
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
        if not near:
            raise
        raise UserError(f"{error} (did you mean {' or '.join(near)}?)") from None


def _catalogued(entry: Entry) -> Loaded:
    return _READERS[entry.reader](entry.name)


def _trained_here(name: str, update: str) -> Loaded:
    """From the run store, or from the weights that come with the book."""
    run = trained_here.run(name)
    if not isinstance(run, ModelRun | EncoderRun):
        raise UserError(f"{name} has no encoder; translation and masked language models are read")
    with_book = trained_here.weights_folder(name)
    folder = folder_of(run, Store.default()) or (with_book if with_book.is_dir() else None)
    if folder is None:
        raise UserError(f"{name} is not trained here yet: `headbook train {name}` trains it")
    weights = snapshot_name(int(update)) if int(update or 0) else WEIGHTS
    if not (folder / weights).is_file():
        raise UserError(
            f"the model {name} after {update} updates is not here; `headbook train {name}` keeps "
            "its snapshots, and the book has the last one"
        )
    model = replace(RunFolder(folder, weights).model(), name=f"{name}@{update}".rstrip("@"))
    if update and not int(update):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(run.training.seed, "initial weights"))
            model = replace(model, network=Transformer(model.network.config).eval())
    return model


def of_the_book(name: str) -> dict[str, Any]:
    """Which weights `load` gives where they are those that come with the book, else nothing.

    `updates`, those `planned`, and `sha256` of the file.
    """
    record = trained_here.weights_folder(name) / "run.json"
    if not (trained_here.is_named(name) and record.is_file()):
        return {}
    if folder_of(trained_here.run(name), Store.default()):
        return {}
    made = json.loads(record.read_text())
    return {each: made[each] for each in ("updates", "planned", "sha256")}


def _in_folder(folder: Path) -> Loaded:
    if (folder / WEIGHTS).is_file() or (folder / "run.json").is_file():
        return RunFolder(folder).model()
    if (folder / "config.json").is_file():
        return hugging_face.load(folder)
    if any(folder.glob("model*.bin*")):
        return load_firefox(str(folder))
    raise UserError(
        f"{folder} holds no model: neither {WEIGHTS} (a run of headbook), config.json (Hugging "
        "Face) nor model*.bin (Firefox)"
    )
