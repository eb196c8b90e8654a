"""Loading by name, folder or id, and one line for what cannot be loaded."""

import re
import shutil
from pathlib import Path

import pytest
import refusing

import headbook as hb
from headbook.types import UserError


@pytest.fixture
def folder(run_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run_folder, tmp_path / "run")


def refused(name: str | Path, *said: str) -> None:
    with refusing.refused(*map(re.escape, said)):
        hb.load(name)


def test_the_run_tells_corpus_and_languages(folder: Path):
    assert hb.load(folder).languages == ("en", "unknown")
    for config in ('{"corpus": "multi30k-de"}', '{"text": {"corpus": "multi30k-de"}}'):
        (folder / "run.json").write_text(f'{{"ingredients": {{"config": {config}}}}}')
        assert hb.load(folder).languages == ("en", "de")
    (folder / "run.json").write_text("[1")
    assert hb.load(folder).languages == ("en", "unknown")


def test_what_a_run_lacks_is_named(folder: Path):
    (folder / "target.json").unlink()
    refused(folder, "target.json", "finished run")
    weights = folder / "best.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(folder, "best.safetensors", "no checkpoint")


def test_what_is_no_model_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    refused(tmp_path, "holds no model", "config.json")
    (file := tmp_path / "model.bin").touch()
    refused(file, "is a file")
    refused(tmp_path, str(file))  # an empty Firefox model

    def unknown(name: object) -> None:
        raise UserError(f"{name}: no such model")

    monkeypatch.setattr("headbook.released.hugging_face.load", unknown)
    refused("firefox-en-pr", "no such model", "did you mean", "firefox-en-pt")
    refused("nothing/alike-at-all", "no such model")
