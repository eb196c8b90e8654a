"""Weights of our own models that come with the book."""

import json
import shutil
from pathlib import Path

import pytest
from refusing import refused

import headbook as hb
from headbook import paths
from headbook.models import checkpoint
from headbook.runs.canonical import plain
from headbook.runs.store import digests
from headbook.training.models import run

FOLDERS = sorted((paths.DATA / "models").glob("*/"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.name)
def test_the_record_is_of_these_weights_and_of_the_catalogue(folder: Path):
    made = json.loads((folder / "run.json").read_text())
    weights = folder / "best.safetensors"
    assert made["files"] == {
        name: each for name, each in digests(folder).items() if name != "run.json"
    }
    wanted = run(folder.name.partition("@")[0])
    assert made["ingredients"]["config"] == plain(wanted)
    assert made["ingredients"]["stage"] == plain(wanted.stage)
    assert 0 < made["updates"] <= made["planned"]
    assert {str(each.dtype) for each in checkpoint.read(weights)[0].values()} == {"torch.bfloat16"}


def test_changed_weights_are_refused_in_one_line(tmp_path: Path):
    copy = Path(shutil.copytree(FOLDERS[0], tmp_path / "copy"))
    weights = bytearray((copy / "best.safetensors").read_bytes())
    weights[-2] ^= 1
    (copy / "best.safetensors").write_bytes(weights)
    with refused(r"best\.safetensors is .* restore it"):
        hb.load(copy)
