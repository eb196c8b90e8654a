"""Page 61: marks on tokens, classifiers that learn, and contributions by hand."""

import numpy as np
import pandas as pd
import pytest

from headbook.corpora.rated import Rated, planted
from headbook.experiments import removed_first
from headbook.experiments.fine_tuning import Sentences, fitted, tuned
from headbook.experiments.removed_first import scored
from headbook.looking.load import load
from headbook.models.gates import all_heads

pytestmark = pytest.mark.slow


def test_marks_lie_on_the_tokens_of_the_words():
    words = ("Do", "n't", "miss", "unputdownable", "films", ".")
    sentence = Sentences([Rated(words, (2, 2, 1, 4, 2, 2), 4)])
    model = load("minilm")
    pieces = np.array(model.pieces(sentence.texts[0]))
    polar, negators = (sentence.marks(model, which)[0].numpy() for which in ("polar", "negators"))
    assert pieces[polar][0] == "miss" and "films" not in pieces[polar]
    assert "".join(pieces[polar][1:]).replace("##", "") == "unputdownable"
    assert 1 <= negators.sum() <= 3 and not (polar & negators).any()


def test_a_classifier_learns_what_decides_and_needs_its_heads():
    """Fitted as logistic regression on the encoder as it is, and with all weights tuned."""
    train, tested = (Sentences(planted(count, seed=count)) for count in (20, 8))
    found = fitted(load("minilm"), train)
    accuracy, nats = scored(found, tested, [])
    assert accuracy == 1 and nats < 0.3
    assert scored(found, tested, all_heads(found.model.network))[1] > nats
    assert scored(tuned(load("minilm"), train, 0, 96), tested, [])[1] < 0.65


def test_contributions_by_hand():
    """Two layers of two heads: the first of each has a role, and twice and eight times the rest."""
    rows = [(1, 1, 1.0, 2.0), (1, 2, 2.0, 1.0), (2, 1, 1.0, 8.0), (2, 2, 1.0, 1.0)]
    heads = pd.DataFrame(rows, columns=["layer", "head", "polar", "importance"]).assign(seed="0")
    roles = pd.DataFrame({"layer": [1, 2], "head": [1, 1]})
    found = removed_first.contributions(heads, roles).loc["0"]
    assert found.to_dict() == pytest.approx({"all": 2, "lower": 1, "upper": 3, "polar": -1})
