"""Page 55: a property planted in one layer is found there; information agrees with a library."""

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from headbook.experiments import meaning, properties
from headbook.experiments.properties import identity, probed
from headbook.text.registry import Place
from headbook.types import UserError

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


def test_identity_is_mutual_information_over_entropy(monkeypatch):
    monkeypatch.setattr(properties, "CLUSTERS", 4)
    monkeypatch.setattr(properties, "TYPES", 4)
    forms = list(CHANCE.choice(list("abcd"), 300))
    exact = torch.eye(4)[torch.tensor(["abcd".index(form) for form in forms])] * 9
    noise = torch.from_numpy(CHANCE.normal(size=(300, 4))).float()
    found = identity(torch.stack([exact, noise]), forms, np.arange(300) // 5)
    own = properties.MiniBatchKMeans(4, n_init=1, random_state=0).fit_predict(noise.numpy())
    by_hand = mutual_info_score(forms, own) / mutual_info_score(forms, forms)
    assert found.found[0] == pytest.approx([1, by_hand])
    assert found.control[0].max() < 0.1
    assert found.found[1:].mean(0) == pytest.approx(found.found[0])


def test_paraphrases_share_few_words_and_one_translation(tmp_path, monkeypatch):
    lines = [
        "We all like you a lot.\tX",
        "All of us like you very much.\tX",
        "We all like you a lot too.\tX",
        "This one stands by itself.\tY",
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    located = meaning.download.Located(Place.MIRROR, {"train.tsv": tmp_path / "train.tsv"})
    monkeypatch.setattr(meaning.download, "locate", lambda name: located)
    assert meaning.paraphrases(1) == [("We all like you a lot.", "All of us like you very much.")]
    with pytest.raises(UserError, match="1 pairs"):
        meaning.paraphrases(2)
