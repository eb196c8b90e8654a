"""A model on another device: every batch goes there, and what comes back is plain."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from elsewhere import DEVICE, elsewhere
from tiny_hugging import bart, bert, gpt2, save

import headbook as hb
from headbook.looking.states import word_states
from headbook.looking.text import Text


def test_the_second_device_is_one():
    with elsewhere(torch.nn.Linear(2, 2)) as layer:
        with pytest.raises(RuntimeError, match="two devices"):
            layer(torch.ones(1, 2))
        found = layer(torch.ones(1, 2).to(DEVICE))
        assert found.device == layer.weight.device == DEVICE
        with pytest.raises(TypeError, match="numpy"):
            found.detach().numpy()
        assert found.detach().cpu().numpy().shape == (1, 2)
        assert torch.arange(2, device=found.device).device == DEVICE


@pytest.mark.parametrize("made", [bert, gpt2, bart, "ours", "firefox-en-pt"])
def test_a_model_is_measured_where_its_weights_are(
    made: Callable | str, sample: Text, tmp_path: Path, run_folder: Path
):
    trees = [tree for tree in sample.trees if 4 <= len(tree) <= 7][:2]
    text = replace(sample, sentences=tuple(tree.text for tree in trees), trees=tuple(trees))
    torch.manual_seed(1)
    if callable(made):
        save(made(), text.sentences, tmp_path)
    model = hb.load(tmp_path if callable(made) else run_folder if made == "ours" else made)
    options = {"nulls": int(callable(made)), "ablated": 1, "progress": False}
    here = hb.measure(model, text, **options)
    attention = hb.attention(model, text.trees[0].text)
    with elsewhere(model.network):
        there = hb.measure(model, text, **options)
        again = hb.attention(model, text.trees[0].text)
    pd.testing.assert_frame_equal(here, there, rtol=1e-4, atol=1e-6)
    assert (attention.weights == again.weights).all()


def test_the_states_of_a_model_elsewhere_are_here(sample: Text, tmp_path: Path):
    save(bert(), sample.sentences[:4], tmp_path)
    model = hb.load(tmp_path)
    here = word_states(model, sample.trees[:4])
    with elsewhere(model.network):
        there = word_states(model, sample.trees[:4])
    for one, two in zip(here, there, strict=True):
        torch.testing.assert_close(one, two)
