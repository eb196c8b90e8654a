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


@pytest.mark.parametrize("made", [bert, gpt2, bart])
def test_a_model_is_measured_where_its_weights_are(made: Callable, sample: Text, tmp_path: Path):
    text = replace(sample, sentences=sample.sentences[:4], trees=sample.trees[:4])
    torch.manual_seed(1)
    save(made(), text.sentences, tmp_path)
    model, options = hb.load(tmp_path), {"nulls": 1, "ablated": 2, "progress": False}
    here = hb.measure(model, text, **options)
    attention = hb.attention(model, text.trees[0].text)
    with elsewhere(model.network):
        assert model.network.device == DEVICE
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


@pytest.mark.parametrize("name", ["ours", "firefox-en-pt"])
def test_our_models_and_students_too(name: str, run_folder: Path, sample: Text):
    text = replace(sample, sentences=sample.sentences[:2], trees=sample.trees[:2])
    model = hb.load(run_folder if name == "ours" else name)
    options = {"nulls": 0, "ablated": 1, "progress": False}
    here = hb.measure(model, text, **options)
    with elsewhere(model.network):
        there = hb.measure(model, text, **options)
    pd.testing.assert_frame_equal(here, there, rtol=1e-4, atol=1e-6)
