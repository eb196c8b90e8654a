"""`hb.load`: a model by its name, folder or Hugging Face id."""

import difflib
from dataclasses import replace
from pathlib import Path

from headbook import paths, recipes
from headbook.looking.ours import WEIGHTS, trained
from headbook.models.loaded import Loaded
from headbook.released import hugging_face
from headbook.released.catalogue import catalogue
from headbook.released.firefox import load_firefox
from headbook.runs.store import Store
from headbook.types import UserError

_READERS = {"firefox": load_firefox, "hugging-face": hugging_face.load}


def load(name: str | Path) -> Loaded:
    """A model whose heads can be measured, with its tokens; see `Loaded` for what it can do.

    `name` is a name of the catalogue data/models.toml ("firefox-en-pt", "minilm",
    "multi30k-de-128", …; `headbook models` lists them), a snapshot of a model trained here
    ("mixture-fr-256@2048" after 2,048 updates, "@0" untrained), a folder (a finished run of this
    package, a Firefox translation model, a saved Hugging Face model), an installed Python package
    with such a model, or an id of the Hugging Face hub.

    UserError, in one line, for an unknown name, a model that is not trained yet, a snapshot that
    was not kept, a folder without configuration or weights, damaged files, an architecture that
    cannot be read, and a package or network that is missing.
    """
    known = catalogue()
    if str(name) in known:
        return _READERS[known[str(name)].reader](str(name))
    if recipes.is_named(str(name).partition("@")[0]):
        return _trained_here(str(name))
    path = paths.expanded(name)
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        raise UserError(f"{name} is a file; name the folder that holds the model's files")
    try:
        return hugging_face.load(name)
    except UserError as error:
        names = [*known, *recipes.catalogue()]
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
        if not near:
            raise
        raise UserError(f"{error} (did you mean {' or '.join(near)}?)") from None


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


def _in_folder(folder: Path) -> Loaded:
    if (folder / WEIGHTS).is_file() or (folder / "run.json").is_file():
        return trained(folder)
    if (folder / "config.json").is_file():
        return hugging_face.load(folder)
    if any(folder.glob("model*.bin*")):
        return load_firefox(str(folder))
    raise UserError(
        f"{folder} holds no model: neither {WEIGHTS} (a run of headbook), config.json (Hugging "
        "Face) nor model*.bin (Firefox)"
    )
