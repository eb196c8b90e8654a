"""`hb.load`: a model by name, folder or Hugging Face id."""

from pathlib import Path

from headbook.looking.ours import RunFolder
from headbook.models.loaded import Loaded
from headbook.types import UserError


def load(name: str | Path) -> Loaded:
    folder = Path(name).expanduser()
    if folder.is_dir() and (folder / "best.safetensors").is_file():
        return RunFolder(folder).model()
    from headbook.released.firefox import load_firefox
    return load_firefox(folder)
