"""Models in GGUF files: their weights, tokens and what can be wrong with them."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_gguf
import torch
from refusing import refused

import headbook as hb
from headbook.machine import sha256
from headbook.released import catalogue, hugging_files


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "tiny.F32.gguf"
    tiny_gguf.write(tiny_gguf.llama(), file)
    return file


def test_a_gguf_file_is_the_model_that_was_written(file: Path, tmp_path: Path):
    original = tiny_gguf.llama()
    for place in (file, str(file), file.parent):
        model = hb.load(place)
        (batch,) = model.batches(["the dog barks", "a cat"])
        ids, real = batch.target_in, batch.target_mask
        with torch.no_grad():
            expected = original(ids, attention_mask=real.long()).logits
        torch.testing.assert_close(model.network(batch)[real], expected[real], rtol=0, atol=1e-5)
    assert model.pieces("a cat é") == ["a", "▁", "c", "at", "▁", "�", "�"]
    assert model.spans("a cat é")[2:] == [(2, 3), (3, 5), (5, 6), (6, 7), (6, 7)]
    model.network.model.float().save_pretrained(tmp_path)  # refused to a model marked as quantised


def test_a_model_of_the_catalogue_is_unpacked_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    entry = replace(catalogue.catalogue()["smollm2"], sha256=sha256(file))
    monkeypatch.setattr(hugging_files, "entry_of", lambda place: entry)
    monkeypatch.setattr(hugging_files, "folder_of", lambda entry: file.parent)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "none yet"))
    first = hb.load("smollm2")
    monkeypatch.setitem(sys.modules, "gguf", None)
    second = hb.load("smollm2")
    for batch in first.batches(["the dog barks", "a cat"]):
        assert torch.equal(first.losses(batch), second.losses(batch))
    (weights,) = tmp_path.rglob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with refused("delete"):
        hb.load("smollm2")
    shutil.rmtree(weights.parent)
    with refused(re.escape(catalogue.INSTALL)):  # unpacks it again
        hb.load("smollm2")


def test_what_is_wrong_with_a_gguf_file_is_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in "ab":
        shutil.copy(file, tmp_path / f"{name}.gguf")
    with refused("2 GGUF files", str(tmp_path / "a.gguf")):
        hb.load(tmp_path)
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + bytes(40))
    with refused("cannot read it"):
        hb.load(tmp_path / "a.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with refused(re.escape(catalogue.INSTALL)):
        hb.load(file)
