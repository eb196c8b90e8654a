"""Pages about models trained here: nothing is computed unless a profile says what to train."""

import pandas as pd
import pytest

from headbook.chapters.trained import Trained as Parameters
from headbook.chapters.trained import at_profile
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def _measured(config, store):
    return {"table": pd.DataFrame({"profile": [config.profile], "seed": [config.seed]})}


def test_a_published_page_computes_nothing(store):
    def trains(config, store):
        raise AssertionError("nothing is to be trained")

    assert at_profile(Parameters(), store, trains) == {}


def test_a_profile_computes_with_the_parameters_given(store):
    found = at_profile(Parameters("smoke", seed=3), store, _measured)
    assert found["table"].to_dict("records") == [{"profile": "smoke", "seed": 3}]


def test_a_corpus_without_a_profile_is_one_clear_line(store):
    with pytest.raises(UserError, match=r"corpus changes what is trained.*give a profile"):
        at_profile(Parameters(corpus="tatoeba-de"), store, _measured)
