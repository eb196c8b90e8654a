"""Models of every kind through the whole interface, here and on another device."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from elsewhere import DEVICE, elsewhere
from tiny_hugging import bart, bert, gpt2, save

import headbook as hb
from headbook.looking.page import page
from headbook.looking.states import word_states
from headbook.looking.text import Text


def test_the_second_device_is_one():
    with elsewhere(torch.nn.Linear(2, 2)) as layer:
        with pytest.raises(RuntimeError, match="two devices"):
            layer(torch.ones(1, 2))
        found = layer(torch.ones(1, 2).to(DEVICE)).detach()
        with pytest.raises(TypeError, match="numpy"):
            found.numpy()
        assert found.device == DEVICE and found.cpu().numpy().shape == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "kinds"),
    [
        (bert, ["encoder"]),
        (gpt2, ["decoder"]),
        (bart, ["encoder", "decoder", "cross"]),
        ("ours", ["encoder", "decoder", "cross"]),
        ("firefox-en-pt", ["encoder", "cross"]),
    ],
)
def test_a_model_is_measured_and_shown_wherever_its_weights_are(
    made: Callable | str, kinds: list[str], sample: Text, tmp_path: Path, run_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    trees = [tree for tree in sample.trees if len(tree) < 8 and "nsubj" in tree.relations]
    trees = trees[: 3 if callable(made) else 1]
    text = replace(sample, sentences=tuple(tree.text for tree in trees), trees=tuple(trees))
    torch.manual_seed(1)
    if callable(made):
        save(made(), text.sentences, tmp_path)
    model = hb.load(tmp_path if callable(made) else run_folder if made == "ours" else made)
    if made is bart:  # untrained, it says nothing
        monkeypatch.setattr(type(model), "translate", lambda _, given: [each[:9] for each in given])
    options = {"nulls": 1, "ablated": 1} if callable(made) else {"nulls": 0, "importance": False}

    def found() -> list:
        model.network.train()  # with dropout, which no measure may see
        batches = model.batches(*[text.sentences[:1]] * (1 + (len(kinds) > 1)))
        attention = hb.attention(model, trees[0].text)
        states = [each.numpy() for each in word_states(model, trees)] if made is bert else []
        return [hb.measure(model, text, progress=False, **options), attention.weights,
                *hb.loss(model, batches), *states]  # fmt: skip

    heads, *others = found()
    with elsewhere(model.network):
        there, *more = found()
    pd.testing.assert_frame_equal(heads, there, rtol=1e-4, atol=1e-6)
    for one, two in zip(others, more, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    assert list(dict.fromkeys(heads["kind"])) == kinds
    assert heads[["confidence", "special", "entropy"]].notna().all(axis=None)
    assert heads.loc[heads["kind"] == kinds[0], "nsubj_head_to_dependent"].notna().all()
    assert ("induction" in heads) == (kinds == ["decoder"])
    if callable(made):
        assert (heads["importance_gradient"] > 0).all() and heads["importance_ablation"].all()
        html = page(model, text, heads, "heads.csv")
        assert "</html>" in html and all(f"{kind} L1H1" in html for kind in kinds)


def test_translations_of_a_model_elsewhere_are_here(sample: Text, tmp_path: Path):
    save(bart(), sample.sentences[:4], tmp_path)
    translator = hb.load(tmp_path)
    said = translator.translate(sample.sentences[:4])
    with elsewhere(translator.network):
        assert translator.translate(sample.sentences[:4]) == said
