"""Checkpoints: what is written is read back, whole or not at all."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from headbook.models import checkpoint
from headbook.models.attention import AttentionPath
from headbook.models.transformer import HeadCounts, NormPlacement, Transformer, TransformerConfig
from headbook.text.batches import EOS, collate
from headbook.types import UserError


def model(width: int = 3) -> nn.Linear:
    return nn.Linear(width, 2)


def stepped(made: nn.Module) -> torch.optim.Adam:
    optimiser = torch.optim.Adam(made.parameters(), lr=0.1)
    made(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    return optimiser


def test_state_comes_back_bit_for_bit(tmp_path: Path):
    first = model()
    optimiser = stepped(first)
    checkpoint.save_state(tmp_path / "state.safetensors", first, optimiser, {"update": 7})
    drawn = torch.rand(3)
    second = model()
    other = torch.optim.Adam(second.parameters(), lr=0.1)
    assert checkpoint.load_state(tmp_path / "state.safetensors", second, other) == {"update": 7}
    assert torch.equal(torch.rand(3), drawn)
    for one, two in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two)
        assert all(
            torch.equal(optimiser.state[one][name], other.state[two][name])
            for name in checkpoint.MOMENTS
        )


def test_an_interrupted_write_leaves_the_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "best.safetensors"
    made = model()
    checkpoint.save_model(made, path)
    before = path.read_bytes()

    def interrupted(tensors: dict, aside: Path, metadata: dict) -> None:
        aside.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_model(model(), path)
    assert path.read_bytes() == before
    assert (tmp_path / "best.aside").read_bytes() == b"half"
    monkeypatch.undo()
    checkpoint.save_model(made, path)
    assert not (tmp_path / "best.aside").exists()


def test_what_is_no_checkpoint_of_this_training_is_said_in_one_line(tmp_path: Path):
    path, made, wide = tmp_path / "file.safetensors", model(3), model(4)

    def said(load: Callable[[], object]) -> str:
        with pytest.raises(UserError) as caught:
            load()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    alone = partial(checkpoint.load_model, made, path)
    state = partial(checkpoint.load_state, path, made, torch.optim.Adam(made.parameters()))
    assert "file.safetensors is no checkpoint" in said(alone)
    checkpoint.save_state(path, wide, torch.optim.Adam(wide.parameters()), {})
    assert "another shape" in said(state)
    checkpoint.save_model(made, path)
    assert "a model alone" in said(state)
    path.write_bytes(path.read_bytes()[:-5])
    assert "file.safetensors is no checkpoint" in said(alone)


def transformer(**options: object) -> Transformer:
    torch.manual_seed(0)
    shape = {"width": 16, "feed_forward": 24, "heads": 4, "dropout": 0.25}
    return Transformer(TransformerConfig(12, 11, 2, 1, **(shape | options)))


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


def test_a_training_of_a_block_without_heads_goes_on(tmp_path: Path):
    """Its projections have no gradient, so Adam keeps nothing of them."""
    pairs = [([4, 5, EOS], [6, EOS])]
    first = transformer(head_counts=COUNTS)
    optimiser = torch.optim.Adam(first.parameters(), lr=0.1)
    first(collate(pairs, [0])).logsumexp(-1).sum().backward()
    optimiser.step()
    checkpoint.save_state(tmp_path / "state.safetensors", first, optimiser, {})
    second = transformer(head_counts=COUNTS)
    other = torch.optim.Adam(second.parameters(), lr=0.1)
    checkpoint.load_state(tmp_path / "state.safetensors", second, other)
    found, expected = other.state_dict()["state"], optimiser.state_dict()["state"]
    assert found.keys() == expected.keys() and len(found) < len(list(second.parameters()))
    for index, moments in expected.items():
        assert torch.equal(found[index]["exp_avg_sq"], moments["exp_avg_sq"])
