"""Checkpoints: what is written is read back, whole or not at all."""

from pathlib import Path

import pytest
import torch
from blocks import tiny
from refusing import refused
from torch import nn

from headbook.models import checkpoint
from headbook.models.attention import AttentionPath
from headbook.models.transformer import HeadCounts, NormPlacement, Transformer
from headbook.text.batches import EOS, collate


def test_an_interrupted_write_leaves_the_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "best.safetensors"
    made = nn.Linear(3, 2)
    checkpoint.save_model(made, path)
    before = path.read_bytes()

    def interrupted(tensors: dict, aside: Path, metadata: dict) -> None:
        aside.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_model(nn.Linear(3, 2), path)
    assert path.read_bytes() == before


def test_what_is_no_checkpoint_of_this_training_is_said_in_one_line(tmp_path: Path):
    path, made, wide = tmp_path / "file.safetensors", nn.Linear(3, 2), nn.Linear(4, 2)
    with refused("file.safetensors is no checkpoint"):
        checkpoint.load_model(made, path)
    checkpoint.save_state(path, wide, torch.optim.Adam(wide.parameters()), {}, NOISE)
    with refused("another shape"):
        checkpoint.load_state(path, made, torch.optim.Adam(made.parameters()))
    checkpoint.save_model(made, path)
    with refused("a model alone"):
        checkpoint.load_state(path, made, torch.optim.Adam(made.parameters()))
    path.write_bytes(path.read_bytes()[:-5])
    with refused("file.safetensors is no checkpoint"):
        checkpoint.load_model(made, path)


NOISE = [torch.get_rng_state()]


def transformer(**options: object) -> Transformer:
    return tiny(dtype=torch.float32, **{"decoder_layers": 1, "dropout": 0.25} | options)


COUNTS = HeadCounts(encoder=(3, 0), decoder=(4,), cross=(1,))


@pytest.mark.parametrize(
    "options",
    [{}, {"head_counts": COUNTS}, {"norm": NormPlacement.POST, "path": AttentionPath.FUSED}],
    ids=["whole", "pruned", "other options"],
)
def test_a_transformer_is_loaded_without_being_told_its_shape(tmp_path: Path, options: dict):
    path, made = tmp_path / "model.safetensors", transformer(**options)
    checkpoint.save_model(made, path)
    loaded = checkpoint.load_transformer(path)
    assert loaded.config == made.config and not loaded.training
    assert loaded.state_dict().keys() == made.state_dict().keys()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, made.state_dict()[name])


def test_state_comes_back_bit_for_bit(tmp_path: Path):
    """Of a block without heads as well: its projections have no gradient, so Adam keeps nothing."""
    path, (first, second) = tmp_path / "state", (transformer(head_counts=COUNTS) for _ in range(2))
    optimiser, other = (torch.optim.Adam(each.parameters(), lr=0.1) for each in (first, second))
    first(collate([([4, 5, EOS], [6, EOS])], [0])).logsumexp(-1).sum().backward()
    optimiser.step()
    checkpoint.save_state(path, first, optimiser, {"update": 7}, [torch.get_rng_state()])
    drawn = torch.rand(3)
    assert checkpoint.load_state(path, second, other) == {"update": 7}
    assert torch.equal(torch.rand(3), drawn)
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    found, expected = other.state_dict()["state"], optimiser.state_dict()["state"]
    assert found.keys() == expected.keys() and len(found) < len(list(second.parameters()))
    for index, moments in expected.items():
        for name in checkpoint.MOMENTS:
            assert torch.equal(found[index][name], moments[name])
