"""Going on with fewer keys: what is trained, and no difference where there is none."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.corpora.masked import masked_copies
from headbook.experiments import fewer_keys
from headbook.experiments.fewer_keys import ALL, HEAD, LAYER, MEANS, ONE, differences, mixing
from headbook.models.fewer_keys import means
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, EncodedPair

LENGTH, VOCABULARY = 8, 20


def model() -> Transformer:
    torch.manual_seed(0)
    size = VOCABULARY + 1
    return Transformer(TransformerConfig(size, size, 2, 0, 16, 32, 2, 0.0)).eval()


def pairs(count: int) -> list[EncodedPair]:
    """Texts of which every second token is the one before it, so that there is much to learn."""
    generator = torch.Generator().manual_seed(count)
    drawn = torch.randint(5, VOCABULARY, (count, 4), generator=generator).repeat_interleave(2, 1)
    rows = [[*row[: LENGTH - 1], EOS] for row in drawn.tolist()]
    return masked_copies(rows, VOCABULARY, 1, 0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"LENGTH": LENGTH, "BATCH": 4, "RATE": 3e-3, "MIXING_RATE": 0.1}
    for name, value in sizes.items():
        monkeypatch.setattr(fewer_keys, name, value)


def gone(net: Transformer, keys: str, count: int, updates: int = 30) -> dict[str, torch.Tensor]:
    return fewer_keys.learn(net, keys, count, pairs(120), pairs(10), updates)


def test_as_many_means_as_tokens_are_all_keys():
    found = [gone(model(), keys, LENGTH) for keys in (ALL, MEANS)]
    for name in ("before", "half", "end"):
        torch.testing.assert_close(found[0][name], found[1][name], atol=1e-4, rtol=0)
    assert found[0]["end"].mean() < found[0]["half"].mean() < found[0]["before"].mean()


@pytest.mark.parametrize(("keys", "count"), [(ONE, 1), (HEAD, 4)])
def test_learned_mixtures_start_as_means_and_are_trained_once_each(keys: str, count: int):
    moved = []
    for updates in (1, 25):
        gone(net := model(), keys, 2, updates)
        moved += [[(each - means(2, LENGTH)).abs().max().item() for each in mixing(net)]]
    assert len(moved[0]) == count and 0 < max(moved[0]) < 0.1 < min(moved[1])


def test_differences_are_those_of_the_end_and_one_gate_is_for_all_seeds():
    """The second half moves what mixtures per layer lose, but not for seed 1."""
    found, texts = {}, np.arange(9)
    for name, seed in product((ALL, HEAD, LAYER, ONE, MEANS), range(3)):
        lost, moved = 0.3 * (name != ALL), 0.3 * (name == LAYER) * (seed != 1)
        nats = pd.DataFrame({"half": texts + lost + moved, "end": texts + lost})
        found[name, 1 if name == ALL else 4, seed] = nats
    rows = pd.DataFrame(differences(found)).set_index("question")
    assert rows.loc["a quarter", "value"].tolist() == pytest.approx([0.3] * 3)
    assert rows.loc["means", "value"].tolist() == pytest.approx([0] * 3)
    assert rows.loc[["a quarter", "means"], "closed"].str.startswith("converged").all()
    assert set(rows.loc["sharing", "closed"]) == {"none"}
