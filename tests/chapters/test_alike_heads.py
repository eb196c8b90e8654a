"""Page 51: who is grouped with whom, sharing maps, and a model whose heads are twins."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.seeing import _merged_scores
from headbook.chapters.seeing._merged_scores import BLEU, PARAPHRASES, WHOLE, scores
from headbook.chapters.seeing._merging import (
    ALIKE,
    ANY,
    LEAST,
    RANDOM,
    REDUNDANT,
    alike,
    at_random,
    mixing,
    redundant,
    settings,
    sharing,
)
from headbook.chapters.seeing.alike_heads import (
    REDRAWN,
    TRAINED,
    Parameters,
    claims,
    compute,
    halved,
    mapped,
    statistics,
    tasks,
)
from headbook.looking.effects import VECTORS, effects
from headbook.looking.load import load
from headbook.models.gates import all_heads, closed
from headbook.runs.store import Store
from headbook.types import HeadId, Kind, UserError

LAYERS = np.array([0, 0, 0, 1, 1, 1])
HEADS = [HeadId(Kind.ENCODER, int(layer), at % 3) for at, layer in enumerate(LAYERS)]
DISTANCES = np.array([
    [0, 1, 4, 0.1, 5, 5], [1, 0, 5, 5, 5, 5], [4, 5, 0, 5, 5, 5],
    [0.1, 5, 5, 0, 3, 7], [5, 5, 5, 3, 0, 2], [5, 5, 5, 7, 2, 0],
])  # fmt: skip


def test_the_closest_heads_of_one_layer_are_joined_first() -> None:
    """Heads 0 and 3 are nearest of all and stay apart: they are of different layers."""
    assert alike(DISTANCES, LAYERS, 0) == [[0], [1], [2], [3], [4], [5]]
    assert alike(DISTANCES, LAYERS, 1) == [[0, 1], [2], [3], [4], [5]]
    assert alike(DISTANCES, LAYERS, 2) == [[0, 1], [2], [3], [4, 5]]
    # average linkage: 2 is 4.5 from {0, 1}, 3 is 5 from {4, 5}
    assert alike(DISTANCES, LAYERS, 3) == [[0, 1, 2], [3], [4, 5]]
    assert alike(DISTANCES, LAYERS, 4) == [[0, 1, 2], [3, 4, 5]]


def test_random_groups_are_as_many_and_as_large_in_every_layer() -> None:
    groups = alike(DISTANCES, LAYERS, 3)
    drawn = [at_random(groups, LAYERS, np.random.default_rng(seed)) for seed in range(9)]
    for each in drawn:
        assert sorted(head for group in each for head in group) == [0, 1, 2, 3, 4, 5]
        sizes = [sorted(len(g) for g in each if LAYERS[g[0]] == layer) for layer in (0, 1)]
        assert sizes == [[3], [1, 2]]
        assert all(len(set(LAYERS[group])) == 1 for group in each)
    assert len({str(each) for each in drawn}) > 1


def test_the_head_in_the_middle_of_a_group_stays() -> None:
    assert redundant([[0, 1, 2], [3, 4, 5]], DISTANCES) == [1, 2, 3, 5]


def test_a_group_has_the_mean_map() -> None:
    found = mixing([[0, 2], [1], [3], [4], [5]], HEADS)
    torch.testing.assert_close(found[0], torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]))
    torch.testing.assert_close(found[1], torch.eye(3))


def test_every_way_saves_as_many_maps() -> None:
    network = load("firefox-en-pt").network
    ways = list(settings(network, HEADS, DISTANCES, np.arange(6.0), [2], draws=3))
    assert [way for way, *_ in ways].count(RANDOM) == [way for way, *_ in ways].count(ANY) == 3
    assert {way for way, *_ in ways} == {ALIKE, REDUNDANT, LEAST, RANDOM, ANY}
    for way, count, _, intervention in ways:
        given = intervention.args[1]
        if way in (ALIKE, RANDOM):
            assert len(HEADS) - len(given) == count
        else:
            assert len(given) == count
    assert next(i.args[1] for way, _, _, i in ways if way == LEAST) == HEADS[:2]


@pytest.fixture
def sentences() -> list[str]:
    return ["The cat sat on the mat .", "Where did all of the heads go ?"]


@pytest.mark.parametrize("name", ["minilm", "firefox-en-pt"])
def test_heads_alone_in_their_groups_change_nothing_and_others_something(
    name: str, sentences: list[str]
) -> None:
    model = load(name)
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]
    alone, paired = [[at] for at in range(len(heads))], [[0, 1], *([at] for at in range(2, 9))]
    ways: list[Callable] = [lambda: sharing(model.network, alone, heads),
                            lambda: sharing(model.network, paired, heads)]  # fmt: skip
    nothing, something = effects(model, model.batches(sentences), ways).added.abs().amax(1)
    assert nothing < 1e-5 < something


def test_twins_share_their_map_at_no_cost(sentences: list[str]) -> None:
    """Two heads with the same queries and keys have one map; sharing it is no change."""
    model = load("firefox-en-pt")
    block = next(block for _, layer, block in model.network.attentions() if layer == 0)
    for part in (block.query, block.key):
        width = part.weight.shape[0] // block.heads
        with torch.no_grad():
            part.weight[width : 2 * width] = part.weight[:width]
            part.bias[width : 2 * width] = part.bias[:width]
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]
    ways: list[Callable] = [lambda: sharing(model.network, [[0, 1]], heads),
                            lambda: closed(model.network, [heads[1]])]  # fmt: skip
    shared, removed = effects(model, model.batches(sentences), ways).added.abs().amax(1)
    assert shared < 1e-4 < removed


def test_statistics_of_planted_layers() -> None:
    distances = np.where(LAYERS[:, None] == LAYERS, 0.2, 0.7) * (1 - np.eye(6))
    rows = pd.DataFrame(statistics(distances, np.zeros((6, 6)), LAYERS)).set_index("statistic")
    assert rows["value"]["contrast"] == pytest.approx(0.5)
    assert rows["value"]["adjusted Rand index"] == 1
    assert rows["baseline"]["nearest head in own layer"] == pytest.approx(0.4)
    assert rows["value"][["gap 0", "gap 1"]].tolist() == pytest.approx([0.2, 0.7])


def test_claims_by_hand() -> None:
    layers = pd.DataFrame([
        {"model": "toy", "weights": weights, "statistic": statistic, "value": 0.2, "low": low,
         "high": 0.3}
        for statistic, redrawn in (("contrast", 0.1), ("contrast at like offsets", -0.1))
        for weights, low in ((TRAINED, 0.1), (REDRAWN, redrawn))
    ])  # fmt: skip
    merged = pd.DataFrame([
        {"model": "toy", "way": way, "saved": saved, "share": saved / 8, "draw": draw,
         "value": value}
        for saved in (1, 4, 6) for way, draw, value in
        ((ALIKE, 0, 1.0), (RANDOM, 0, 2.0), (RANDOM, 1, 4.0), (ANY, 0, 10.0), (ANY, 1, 10.0))
    ])  # fmt: skip
    found = claims(layers, merged).set_index("claim")
    assert found["value"]["alike-merge-over-random"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["value"]["alike-merge-over-remove"] == pytest.approx(0.9)
    assert found["closed"]["alike-within-layer"].startswith("diagnostic")
    assert found["closed"]["alike-beyond-offsets"] == "none"


def test_a_live_page_has_distances_and_a_map_but_no_claims(tmp_path) -> None:
    tables = compute(Parameters(models=("firefox-en-pt",), sentences=3), Store(tmp_path))
    assert set(tables) == {"pairs", "layers"} and len(tables["pairs"]) == 48 * 47 / 2
    assert tables["pairs"]["divergence"].between(0, 1).all()
    assert len(mapped(tables, "firefox-en-pt")) == 48
    assert effects(load("minilm"), load("minilm").batches(["a b"]), []).unit == VECTORS


def test_too_few_sentences_are_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="2 or more sentences"):
        compute(Parameters(sentences=1), Store(tmp_path))


TEXTS = [
    "The cat sat on the mat.",
    "Where did all the heads go?",
    "We saw a red house.",
    "It rains.",
]


@pytest.mark.parametrize(("name", "score"), [("minilm", PARAPHRASES), ("firefox-en-pt", BLEU)])
def test_a_models_own_task_is_done_with_half_of_the_maps(
    name: str, score: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text is its own paraphrase, and the model's translations are the references."""
    model = load(name)
    own = {"ud-pud-en": TEXTS}
    own["ud-pud-pt"] = model.translate(TEXTS) if score == BLEU else []
    monkeypatch.setattr(_merged_scores, "text", lambda each: SimpleNamespace(sentences=own[each]))
    monkeypatch.setattr(_merged_scores, "paraphrases", lambda: [(each, each) for each in TEXTS])
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]
    noise = np.random.default_rng(0).uniform(1, 2, (len(heads), len(heads)))
    count = halved(np.array([head.layer for head in heads]))
    assert abs(count - len(heads) / 2) <= 2
    found = scores(model, heads, (noise + noise.T) * (1 - np.eye(len(heads))), count, 2, 4)
    assert found["way"].value_counts().to_dict() == {
        WHOLE: 1, ALIKE: 1, REDUNDANT: 1, RANDOM: 2, ANY: 2,
    }  # fmt: skip
    whole, others = found.iloc[0], found.iloc[1:]
    most = 100 if score == BLEU else 1
    assert whole["value"] == pytest.approx(most) and (found["score"] == score).all()
    assert (others["value"] - most).to_numpy() == pytest.approx(others["change"].to_numpy())
    # A text stays its own paraphrase; a translation without half of its maps is another one.
    assert others["change"].max() < 0 if score == BLEU else (others["change"] == 0).all()


def test_the_table_of_tasks_by_hand() -> None:
    rows = [
        ("MiniLM", WHOLE, 0.9, np.nan, np.nan, np.nan),
        ("MiniLM", ALIKE, 0.8, -0.1, -0.2, 0),
        ("MiniLM", RANDOM, 0.6, -0.3, -0.4, -0.2),
        ("MiniLM", RANDOM, 0.4, -0.5, -0.6, -0.4),
    ]
    columns = ["model", "way", "value", "change", "low", "high"]
    shown = tasks({"scores": pd.DataFrame(rows, columns=columns).assign(score=PARAPHRASES)})
    assert shown["value"].str.replace("\N{NO-BREAK SPACE}", " ").tolist() == [
        "90 %",
        "80 %",
        "50 %",
    ]
    assert shown["change"].tolist() == ["", "−10 [−20, 0]", "−40 [−50, −30]"]
