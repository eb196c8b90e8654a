"""Page 43: errors whose value is known, and learned mixtures that find what there is."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.encoder_costs import ALL
from headbook.chapters.why import _going_on
from headbook.chapters.why import fewer_keys as page
from headbook.chapters.why._going_on import ALL_KEYS, BY_HEAD, BY_LAYER, MEANS, plan
from headbook.chapters.why.fewer_keys import (
    LENGTH,
    SHARED,
    claims,
    error,
    fit,
    mixed,
    of_rank,
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
    """Losses of every encoder on 40 texts, which differ alike; `moved` in the second half.

    A later seed has a hundredth more wherever there is something to lose.
    """
    texts = np.linspace(-1, 1, 40)
    found = {}
    for name, parts, seed in plan(2):
        more = end.get((name, parts), 0.0) + 0.01 * seed * ((name, parts) in end)
        columns = {"before": 6.0, "half": 3 + more * (1 + moved), "end": 3 + more}
        found[name, parts, seed] = pd.DataFrame({k: texts + at for k, at in columns.items()})
    return found


LOST = {(BY_LAYER, 4): 0.2, (MEANS, 4): 0.28, (BY_HEAD, 4): 0.1, (SHARED, 4): 0.14}


def test_encoders_are_compared_with_all_keys_text_by_text():
    found = gone_on(LOST)
    table = _going_on.rows(found, 2).set_index(["keys", "parts", "seed"])
    assert len(table) == len(plan(2)) == len({*plan(2).values()})
    row = table.loc[BY_LAYER, 4, 1]
    assert row[["value", "low", "high"]].tolist() == pytest.approx([0.21] * 3)
    assert table.loc[(ALL_KEYS, 1, 0), ["low", "high"]].isna().all()
    rows = pd.DataFrame(_going_on.claims(found)).set_index(["claim", "seed"])["value"]
    quarter = rows["linformer-trained-quarter-is-enough"]
    assert quarter.tolist() == pytest.approx([0.2, 0.21, 0.22])
    assert rows["linformer-trained-beats-means"].tolist() == pytest.approx([0.08] * 3)
    assert rows["linformer-trained-sharing-costs-little"].tolist() == pytest.approx([0.04] * 3)


def test_a_difference_that_still_moves_is_not_judged():
    rows = pd.DataFrame(_going_on.claims(gone_on(LOST, moved=0.5))).set_index(["claim", "seed"])
    told = "converged: the second half of the updates moved it by −0.10 nats"
    assert rows["closed"]["linformer-trained-quarter-is-enough", 0] == told
    assert rows["closed"]["linformer-trained-beats-means", 0] == "none"
    assert set(rows["closed"]["linformer-trained-sharing-costs-little"]) == {"none"}


def test_one_seed_that_stands_still_decides_nothing_alone():
    """The planted fault: a gate per seed, open for seed 1."""
    found = gone_on(LOST, moved=0.5)
    found[BY_LAYER, 4, 1]["half"] = found[BY_LAYER, 4, 1]["end"]
    rows = pd.DataFrame(_going_on.claims(found)).set_index(["claim", "seed"])["closed"]
    assert rows["linformer-trained-quarter-is-enough"].str.startswith("converged").all()


def test_a_table_row_is_the_mean_over_seeds():
    gone = _going_on.rows(gone_on(LOST), 2)
    shown = _going_on.table(gone).set_index(["keys", "of 64"])
    assert shown.loc[(BY_LAYER, 16), "more than all keys"] == "+0.21 [+0.19, +0.23]"
    assert shown.loc[(BY_LAYER, 32), "seeds"] == 1 and shown.loc[(ALL_KEYS, 64), "seeds"] == 3
    assert _going_on.less(gone, SHARED, BY_HEAD)[0] == pytest.approx(0.04)
    assert _going_on.facts(gone, {name: name for name, _ in _going_on.ENCODERS})["on_means"] == (
        "+0.08 [+0.08, +0.08]"
    )


def steps() -> pd.DataFrame:
    """All keys take as long as the text is, a Linformer as long as at 128 tokens."""
    return pd.DataFrame([
        {"kind": kind, "length": length, "tokens": 1024, "round": number,
         "seconds": number * (length if kind == ALL else 128),
         "bytes": 10 * length if kind == ALL else 640}
        for kind in (ALL, "Linformer, 1 for 4 tokens") for length in (128, 512) for number in (1, 2)
    ])  # fmt: skip


def test_steps_are_compared_round_by_round():
    found = page.quicker(steps()).set_index("length")
    assert found["value"].tolist() == found["low"].tolist() == [1, 4]
    assert found["memory"].tolist() == [2, 8]
    shown = page.steps_table(steps())
    assert shown["tokens/s, all keys"].tolist() == ["5", "1"]
    assert shown["1 for 4 tokens: speed, memory"].tolist() == ["1.0, 2.0", "4.0, 8.0"]
