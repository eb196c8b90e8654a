"""Weights of our own models that come with the book."""

import hashlib
import json
from pathlib import Path

import pytest

import headbook as hb
from headbook import paths
from headbook.models import checkpoint
from headbook.runs.canonical import plain
from headbook.training.models import run

LARGEST, ALL = 40e6, 100e6
FOLDERS = sorted((paths.DATA / "models").glob("*/"))


def test_weights_come_with_the_book_and_are_small():
    sizes = [file.stat().st_size for folder in FOLDERS for file in folder.iterdir()]
    assert sizes and max(sizes) < LARGEST and sum(sizes) < ALL


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.name)
def test_the_record_is_of_these_weights_and_of_the_catalogue(folder: Path):
    made = json.loads((folder / "run.json").read_text())
    weights = folder / "best.safetensors"
    assert made["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert made["ingredients"]["config"] == plain(run(folder.name.partition("@")[0]))
    assert 0 < made["updates"] <= made["planned"]
    assert {str(each.dtype) for each in checkpoint.read(weights)[0].values()} == {"torch.bfloat16"}


@pytest.mark.slow  # whole models are loaded
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.name)
def test_they_load_by_name_where_no_run_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    model = hb.load(folder.name)
    assert model.name == folder.name
    table = hb.measure(model, hb.text("ewt-sample", first=8), importance=False, nulls=0,
                       progress=False)  # fmt: skip
    assert len(table) == sum(block.heads for _, _, block in model.network.attentions())
