"""Page 55: a property planted in one layer is found there; information agrees with a library."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from headbook.chapters.seeing import _properties as properties
from headbook.chapters.seeing._digits import digits, train
from headbook.chapters.seeing._properties import (
    IDENTITY,
    PARAPHRASE,
    RELATION,
    SENTIMENT,
    TAG,
    Profile,
    identity,
    nearest,
    probed,
)
from headbook.chapters.seeing.syntax_and_meaning import (
    REDRAWN,
    RELEASED,
    Parameters,
    _claims,
    by_property,
    compute,
    layer_table,
    through_layers,
)
from headbook.corpora.registry import Place
from headbook.layers.gravity import centre
from headbook.layers.probe import divided
from headbook.models.pixels import PixelEncoder
from headbook.runs.store import Store
from headbook.types import UserError

CHANCE = np.random.default_rng(0)


def test_a_label_that_stands_in_one_layer_has_its_centre_there():
    count = 400
    labels = CHANCE.choice(["a", "b"], count)
    states = torch.from_numpy(CHANCE.normal(size=(5, count, 3)))
    states[3, :, 0] += 6.0 * torch.from_numpy(labels == "a")
    groups = np.arange(count) // 4
    types = [f"w{n}" for n in CHANCE.integers(150, size=count)]
    (found,) = probed(states, {"planted": labels}, types, groups, divided(100, 40))
    accuracy = [each[0] for each in found.found]
    assert int(np.argmax(accuracy)) == 3 and accuracy[3] > 0.95
    assert abs(centre(found.above)[0] - 0.75) < 0.1


def test_identity_is_mutual_information_over_entropy(monkeypatch):
    monkeypatch.setattr(properties, "CLUSTERS", 4)
    monkeypatch.setattr(properties, "TYPES", 4)
    forms = list(CHANCE.choice(list("abcd"), 300))
    place = {form: number for number, form in enumerate("abcd")}
    exact = torch.nn.functional.one_hot(torch.tensor([place[f] for f in forms]), 4) * 9.0
    noise = torch.from_numpy(CHANCE.normal(size=(300, 4)))
    found = identity(torch.stack([exact, noise]).float(), forms, np.arange(300) // 5)
    assert found.found[0][0] == pytest.approx(1)
    own = properties.clusters(noise.float(), 4, 0)
    entropy = mutual_info_score(forms, forms)
    assert found.found[1][0] == pytest.approx(mutual_info_score(forms, own) / entropy)
    assert found.above[0, 1] < 0.1
    assert found.found[1][1:].mean() == pytest.approx(found.found[1][0])


def test_the_nearest_sentence_is_the_pairs_own_where_it_was_planted():
    one = torch.from_numpy(CHANCE.normal(size=(50, 20)))
    other = one + 0.1 * torch.from_numpy(CHANCE.normal(size=(50, 20)))
    assert nearest(one + 100, other - 100).mean() == 1  # what all share says nothing
    assert nearest(one, torch.from_numpy(CHANCE.normal(size=(50, 20)))).mean() < 0.2


def _at(name: str, layer: int) -> Profile:
    found = [np.full(1001, 0.5 + 0.5 * (each == layer)) for each in range(5)]
    return Profile(name, found, [np.full(1001, 0.5)] * 5, np.full(1001, 0.25))


def test_claims_by_hand():
    early = [_at(IDENTITY, 0), _at(TAG, 1), _at(RELATION, 2), _at(SENTIMENT, 4), _at(PARAPHRASE, 3)]
    level = [_at(each.name, 2) for each in early]
    rows = {row["claim"]: row for row in _claims("toy", {RELEASED: early, REDRAWN: level})}
    assert rows["pipeline-relations-after-tags"]["value"] == pytest.approx(0.25)
    assert rows["pipeline-meaning-after-syntax"]["value"] == pytest.approx(0.5)
    assert rows["pipeline-order-learnt"]["value"] == pytest.approx(0.5)
    assert rows["pipeline-identity-fades"]["value"] == pytest.approx(-0.5)


def test_a_network_without_centre_closes_the_claim():
    found = [_at(name, 1) for name in (IDENTITY, TAG, RELATION, SENTIMENT, PARAPHRASE)]
    nothing = [replace(each, control=each.found) for each in found]
    rows = {row["claim"]: row for row in _claims("toy", {RELEASED: found, REDRAWN: nothing})}
    assert rows["pipeline-order-learnt"]["closed"].startswith("present")
    assert rows["pipeline-meaning-after-syntax"]["closed"] == "none"


def test_paraphrases_share_few_words_and_one_translation(tmp_path, monkeypatch):
    lines = ["We all like you a lot.\tX", "All of us like you very much.\tX",
             "We all like you a lot too.\tX", "This one stands by itself.\tY"]  # fmt: skip
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    located = properties.download.Located(Place.MIRROR, {"train.tsv": tmp_path / "train.tsv"})
    monkeypatch.setattr(properties.download, "locate", lambda name: located)
    monkeypatch.setattr(properties, "PAIRS", 1)
    assert properties.paraphrases() == [("We all like you a lot.", "All of us like you very much.")]
    monkeypatch.setattr(properties, "PAIRS", 2)
    with pytest.raises(UserError, match="1 pairs"):
        properties.paraphrases()


def test_a_run_without_meaning_has_tables_for_the_page(tmp_path):
    tables = compute(Parameters(models=("firefox-en-pt",), sentences=60), Store(tmp_path))
    assert tables["claims"].empty and len(by_property(tables)) == 4
    layers = through_layers(tables, "firefox-en-pt")
    assert set(layers["layer"]) == set(range(7)) and len(layer_table(tables)) == 4


def test_the_small_vision_transformer_learns():
    images, labels = digits()
    assert images.shape == (1797, 64) and images.min() == 0 and images.max() == 1
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PixelEncoder(layers=1)
        train(model, images[:256], labels[:256], epochs=25)
    with torch.no_grad():
        assert (
            model(images[:256]).argmax(1) == labels[:256]
        ).float().mean() > 0.25  # chance is 0.1


def test_too_few_sentences_are_refused(tmp_path):
    with pytest.raises(UserError, match="60 or more"):
        compute(Parameters(sentences=20), Store(tmp_path))
