"""Decoders watched as they learn: what each setting can see, and numbers that can be told."""

from dataclasses import replace

import numpy as np
import pytest
from small import write_corpus

from headbook.experiments.watched import DESCRIBED, Setting, watched


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    corpus = write_corpus(tmp_path_factory.mktemp("text") / "corpus")
    return Setting(text=str(corpus), updates=4, tokens=32, heads=2, vocabulary=60, context=8)


def test_as_published_a_decoder_sees_what_it_is_to_predict(setting: Setting) -> None:
    found = watched(replace(setting, dropout=0.0, updates=20))
    assert found["untrained_before"].min() > 0.01
    assert len(found) == 20 * 6 and found["output dissimilarity, raw, variance"].isna().all()
    by_update = found.groupby("update")["loss_nats"].first()
    assert by_update.iloc[-5:].mean() < by_update.iloc[0]
    # Without padding and dropout a batch says what held-out text of its size says, about.
    one, other = (found.loc[0, f"query orthogonality, raw{text}"] for text in ("", ", held out"))
    assert 0.2 < one / other < 5


def test_as_described_it_sees_what_came_before(setting: Setting) -> None:
    found = watched(replace(setting, setting=DESCRIBED, scale=0.1, heads=4))
    for version in ("untrained", "trained"):
        assert found[f"{version}_before"].max() == 0 < found[f"{version}_at"].min()
    pairs = [name for name in found if name.startswith("scale-free ")]
    assert len(pairs) == 6
    means = found["output dissimilarity, scale-free"]
    assert np.allclose(found[pairs].mean(axis=1), means)
    assert found["model"].iloc[0].endswith("4 heads, dropout 0.1, rate 0.0006 s0")
    uniform = np.log(60)
    assert 0 < found["frequency_nats"].iloc[0] < uniform
