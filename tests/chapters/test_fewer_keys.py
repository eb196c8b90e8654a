"""Page 43: errors whose value is known, and learned mixtures that find what there is."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.why import fewer_keys as page
from headbook.chapters.why.fewer_keys import (
    ALL_KEYS,
    BY_LAYER,
    LENGTH,
    MEANS,
    SHARED,
    claims,
    error,
    fit,
    going_on,
    going_on_claims,
    mixed,
    of_rank,
    plan,
    weights,
    windowed,
)
from headbook.models.attention import Attention, AttentionPath
from headbook.models.fewer_keys import Windowed


def heads(seed: int = 0, layers: int = 2) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(layers, 3, LENGTH, 4, generator=generator) for _ in range(3))


def test_all_keys_have_no_error_and_the_mean_value_has_one():
    given, one = heads(), torch.eye(LENGTH)
    torch.testing.assert_close(error(mixed(given, one, one), given), torch.zeros(2, 3))
    mean = given[2].mean(-2, keepdim=True).expand_as(given[2])
    torch.testing.assert_close(error(mean, given), torch.ones(2, 3))
    for whole in (of_rank(given, LENGTH), windowed(given, 2 * LENGTH)):
        torch.testing.assert_close(error(whole, given), torch.zeros(2, 3), atol=1e-5, rtol=0)


def test_one_mixture_is_the_mean_value():
    given = heads()
    row = torch.full((1, LENGTH), 1 / LENGTH)
    torch.testing.assert_close(error(mixed(given, row, row), given), torch.ones(2, 3))


def test_more_rank_is_never_worse_and_matrices_may_differ_by_layer():
    given = heads()
    found = [float(error(of_rank(given, rank), given).mean()) for rank in (8, 32, 96)]
    assert found == sorted(found, reverse=True)
    each = torch.stack([torch.eye(LENGTH), torch.zeros(LENGTH, LENGTH)])
    first, second = error(mixed(given, each, each), given)
    assert first.max() < 1e-5 and second.min() > 0.5


def test_the_window_is_that_of_the_models():
    """The same as the attention with its projections taken out."""
    block = Attention(12, 3, 0.0, AttentionPath.EXPLICIT)
    states = torch.randn(1, LENGTH, 12, generator=torch.Generator().manual_seed(0))
    parts = [each(states).view(LENGTH, 3, 4).transpose(0, 1)[None]
             for each in (block.query, block.key, block.value)]  # fmt: skip
    context = windowed(tuple(parts), 7)[0].transpose(0, 1).reshape(LENGTH, 12)
    torch.testing.assert_close(block.output(context)[None], Windowed(block, 7)(states, states))


def test_learned_mixtures_find_keys_that_are_few():
    """Texts whose keys and values take four forms, always at the same places."""
    places = torch.arange(LENGTH) % 4
    texts = []
    for seed in range(6):
        queries, keys, values = heads(seed, layers=1)
        texts.append((queries, keys[..., places, :], values[..., places, :]))
    before = fit(texts[1:], (2, 1, 4, LENGTH), 1, 0)
    after = fit(texts[1:], (2, 1, 4, LENGTH), 60, 0)
    lost = [float(error(mixed(texts[0], each[0], each[-1]), texts[0]).mean())
            for each in (before, after)]  # fmt: skip
    assert lost[1] < 0.5 * lost[0]


def test_weights_sum_to_one():
    torch.testing.assert_close(weights(*heads()[:2]).sum(-1), torch.ones(2, 3, LENGTH))


def test_claims_by_hand():
    fixed = [{"model": "toy", "keys": MEANS, "parts": parts, "layer": 1, "head": 1, "error": 0.5}
             for parts in (2, 4)]  # fmt: skip
    learned = [
        {"model": "toy", "keys": keys, "parts": parts, "layer": 1, "head": head, "seed": seed,
         "error": {SHARED: 0.3, BY_LAYER: 0.2}[keys] * 4 / parts + 0.01 * head}
        for keys in (SHARED, BY_LAYER) for parts in (2, 4) for head in (1, 3) for seed in range(3)
    ]  # fmt: skip
    memory = [{"attention": name, "length": 512, "bytes": size}
              for name, size in (("all keys", 300), ("Linformer", 100))]  # fmt: skip
    tables = {"fixed": pd.DataFrame(fixed), "learned": pd.DataFrame(learned),
              "memory": pd.DataFrame(memory)}  # fmt: skip
    found = claims(tables).groupby("claim")["value"].mean()
    assert found["linformer-quarter-is-enough"] == pytest.approx(0.22)
    assert found["linformer-one-matrix-is-enough"] == pytest.approx(0.1)
    assert found["linformer-beats-means"] == pytest.approx(0.28)
    assert found["linformer-saves-memory"] == pytest.approx(3)


def test_memory_grows_with_the_square_of_the_length_and_linformers_does_not():
    table = pd.DataFrame(page._memory()).pivot(index="length", columns="attention", values="bytes")
    growth = np.log2(table.loc[2048] / table.loc[1024])
    assert growth["all keys"] > 1.7 and growth["Linformer"] < 1.1


def gone_on(end: dict[tuple[str, int], float], moved: float = 0.0) -> dict:
    """Losses of every encoder on 40 texts, which differ alike; `moved` in the second half."""
    texts = np.linspace(-1, 1, 40)
    return {each: pd.DataFrame({"before": 6 + texts, "end": 3 + end.get(each, 0.0) + texts,
                                "half": 3 + texts + end.get(each, 0.0) * (1 + moved)})
            for each in plan(2)}  # fmt: skip


def test_encoders_are_compared_with_all_keys_text_by_text():
    found = gone_on({(BY_LAYER, 4): 0.2, (MEANS, 4): 0.3})
    table = going_on(found).set_index(["keys", "parts"])
    assert len(table) == len(plan(2)) == len({*plan(2).values()})
    row = table.loc[BY_LAYER, 4]
    assert row[["value", "low", "high"]].tolist() == pytest.approx([0.2] * 3)
    assert table.loc[ALL_KEYS, 1][["low", "high"]].isna().all()
    rows = pd.DataFrame(going_on_claims(found)).set_index("claim")
    assert rows["value"].tolist() == pytest.approx([0.2, 0.1])
    assert set(rows["closed"]) == {"none"}


def test_a_difference_that_still_moves_is_not_judged():
    rows = list(going_on_claims(gone_on({(BY_LAYER, 4): 0.2, (MEANS, 4): 0.2}, moved=0.5)))
    assert rows[0]["closed"] == "converged: the second half of the updates moved it by −0.10 nats"
    assert rows[1]["closed"] == "none"
