"""Page 55: what is planted in one layer is found there, and paraphrases are such."""

import numpy as np
import pytest
import torch

from headbook.experiments import meaning, properties
from headbook.experiments.properties import identity, probed

CHANCE = np.random.default_rng(0)


def test_a_label_that_stands_in_one_layer_is_found_there():
    count = 400
    labels = CHANCE.choice(["a", "b"], count)
    states = torch.from_numpy(CHANCE.normal(size=(5, count, 3)))
    states[3, :, 0] += 6.0 * torch.from_numpy(labels == "a")
    groups = np.arange(count) // 4
    types = [f"w{n}" for n in CHANCE.integers(150, size=count)]
    (found,) = probed(states, {"planted": labels}, types, groups)
    above = found.found[0] - found.control[0]
    assert found.found[0, 3] > 0.95 and above[3] > 0.3
    assert (np.abs(np.delete(above, 3)) < 0.2).all()


def test_states_that_name_their_word_tell_all_of_its_entropy_and_noise_none(monkeypatch):
    monkeypatch.setattr(properties, "CLUSTERS", 4)
    monkeypatch.setattr(properties, "TYPES", 4)
    forms = list(CHANCE.choice(list("abcd"), 300))
    exact = torch.eye(4)[torch.tensor(["abcd".index(form) for form in forms])] * 9
    noise = torch.from_numpy(CHANCE.normal(size=(300, 4))).float()
    found = identity(torch.stack([exact, noise]), forms, np.arange(300) // 5)
    assert found.found[0, 0] == pytest.approx(1)
    assert max(found.found[0, 1], *found.control[0]) < 0.1


def test_paraphrases_share_few_words_and_one_translation(tmp_path, monkeypatch):
    lines = [
        "We all like you a lot.\tX",
        "All of us like you very much.\tX",
        "We all like you a lot too.\tX",
        "This one stands by itself.\tY",
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    located = {"train.tsv": tmp_path / "train.tsv"}
    monkeypatch.setattr(meaning.download, "locate", lambda name: located)
    assert meaning.paraphrases() == [("We all like you a lot.", "All of us like you very much.")]
