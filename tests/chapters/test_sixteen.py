"""Pages 20 to 22: effects that are known beforehand, orders and choices, and what is refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.released_masked import ReleasedMasked, ReleasedMaskedRun
from headbook.chapters.sixteen import _released as shared
from headbook.chapters.sixteen import pruning_by_importance as pruning
from headbook.chapters.sixteen._released import (
    Subject,
    losses_added,
    named,
)
from headbook.chapters.tables import claims_table
from headbook.claims.ledger import load as ledger
from headbook.claims.scorecard import checked
from headbook.corpora.pairs import Pairs
from headbook.experiments.heads_out import LEVEL, changes
from headbook.heads.importance import Form, importance
from headbook.models.gates import closed
from headbook.released.firefox import FirefoxModel
from headbook.runs.store import Store
from headbook.training.paired import increase
from headbook.types import HeadId, Kind, UserError

HEADS = tuple(
    HeadId(kind, layer, head)
    for kind, layers in ((Kind.ENCODER, 6), (Kind.CROSS, 2))
    for layer in range(layers)
    for head in range(8)
)
SENTENCES = 80


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return Subject.of("firefox-en-pt", Store(tmp_path_factory.mktemp("store")))


def made_up(masks, cost) -> ReleasedMasked:
    """Sentences of which a mask gets `cost(mask)` words wrong in every other, and as many nats."""
    rng = np.random.default_rng(0)
    length = rng.integers(15, 25, SENTENCES)
    odd = np.arange(SENTENCES) % 2
    found, nats = [], []
    for mask in masks:
        right = np.maximum(length - 4 - round(cost(mask)) * odd, 0)
        orders = np.arange(4)
        correct = np.maximum(right[:, None] - 2 * orders, 0)
        total = length[:, None] - orders
        found.append(np.concatenate([length[:, None], length[:, None], correct, total], axis=1))
        nats.append(0.1 * length + cost(mask) * odd)
    run = ReleasedMaskedRun(tuple(masks))
    own = np.array(nats)
    return ReleasedMasked(run, own, length, own + length, length, np.array(found, dtype=np.int64))


def weight(head: HeadId) -> float:
    """Cross L1H6 carries the translation, L5H7 something, the others next to nothing."""
    special = {HeadId(Kind.CROSS, 0, 5): 8.0, HeadId(Kind.ENCODER, 4, 6): 3.0}
    return special.get(head, 0.0)


def cost(mask) -> float:
    return sum(map(weight, mask))


@pytest.fixture
def pretended(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """The real model's heads, and made-up results of every mask."""
    bare = {"reference": None, "reference_tokens": None, "statistics": None}
    monkeypatch.setattr(
        Subject, "on_sample", lambda self, masks, sentences: replace(made_up(masks, cost), **bare)
    )
    monkeypatch.setattr(
        Subject, "on_test", lambda self, masks, sentences, referenced=True: made_up(masks, cost)
    )
    monkeypatch.setattr(Subject, "of", classmethod(lambda cls, name, store: subject))
    return subject


# ------------------------------------------------------------------ effects


def test_an_increase_is_the_difference_of_the_means() -> None:
    tokens = np.array([10, 20, 30])
    found = increase(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]), tokens)
    assert found.difference == pytest.approx(6 / 60)
    assert found.low == pytest.approx(0.1) and found.high == pytest.approx(0.1)
    assert increase(np.ones(3), np.ones(3), tokens).p == 1


def test_changes_of_bleu_and_their_correction() -> None:
    masks = ((), (HEADS[0],), (HEADS[38],))
    found = changes(made_up(masks, cost).statistics)
    margin = -0.01 * found["whole_bleu"]  # the smallest loss that the work marks
    assert found["change"].iloc[0] == 0 and found["p"].iloc[0] == 1
    assert (found["change_low"] >= margin).tolist() == [True, False]
    assert (found["change_high"] < margin).tolist() == [False, True]
    assert (found["p_holm"] < LEVEL).tolist() == [False, True]
    assert (found["p_holm"] >= found["p"]).all()


def test_a_correction_for_many_tests_takes_what_is_luck() -> None:
    """At one level of all tests, the corrected p is the number of tests times the smallest."""
    masks = ((), *((head,) for head in HEADS))
    found = changes(made_up(masks, cost).statistics)
    smallest = found["p"].min()
    assert found["p_holm"].min() == pytest.approx(min(64 * smallest, 1))


@pytest.mark.parametrize("tests", [64, 144])
def test_however_many_heads_are_tested_one_that_is_missed_is_found(tests: int) -> None:
    """144 times the smallest p of ten thousand samples is above the level already."""
    idle = [head for head in HEADS if not weight(head)]
    pairs = [(one, other) for one in idle for other in idle if one != other]
    masks = ((), (HeadId(Kind.CROSS, 0, 5),), *pairs[: tests - 1])
    found = changes(made_up(masks, cost).statistics)
    assert (found["p_holm"] < LEVEL).tolist() == [True, *[False] * (tests - 1)]


def test_losses_added_where_there_are_no_references() -> None:
    given = made_up(((), (HEADS[38],)), cost)
    bare = ReleasedMasked(given.run, given.own, given.own_tokens, None, None, None)
    found = losses_added(bare)
    assert list(found) == ["own_added", "own_low", "own_high"]
    expected = 3.0 * (SENTENCES // 2) / given.own_tokens.sum()
    assert found["own_added"].iloc[0] == pytest.approx(expected)
    with pytest.raises(UserError):
        bare.bleu.sum()


# ------------------------------------------------------------------ pages


def test_page_22_orders_and_levels(pretended: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {
        kind: torch.tensor(
            [[weight(HeadId(kind, layer, head)) for head in range(8)] for layer in range(layers)]
        )
        for kind, layers in ((Kind.ENCODER, 6), (Kind.CROSS, 2))
    }
    monkeypatch.setattr(Subject, "importance", lambda self, sentences: scores)
    given = pruning.Parameters(tested=SENTENCES, draws=2)
    tables = pruning.compute(given, pretended.store)
    rows = tables["released"].query("scope == 'all'")
    assert rows.groupby(["order", "number"]).size().tolist() == [10] * 5
    assert rows.query("level == 0.5")["pruned"].eq(32).all()
    by = tables["means"].query("scope == 'all'").set_index("order")["kept"]
    assert by["importance"] == pytest.approx(by["single-head ablation"])
    assert by["importance"] > by["random"] > by["most important first"]
    first = rows.query("order == 'most important first' and level == 0.1")
    assert first["difference"].max() < -5
    checked(ledger(), tables["claims"], "22_pruning_by_importance", "test")
    facts = pruning.facts(tables)
    assert facts["en_fifth"] == "0.00" and "en_importance" in facts
    assert pruning.joint(tables)["left"].max() == 100
    second = {name: table.assign(model="firefox-pt-en") for name, table in tables.items()}
    second["released"].loc[second["released"]["level"] == 0.3, "bleu"] = 9.0
    both = {name: pd.concat([tables[name], second[name]], ignore_index=True) for name in tables}
    apart = pruning.facts(both)
    assert apart == apart | facts and apart["pt_three_tenths"] == "9.0" != apart["en_three_tenths"]
    curves = pruning.joint(both).set_index(["model", "order", "left"])["value"]
    assert curves["Firefox pt→en", "by importance (gradient)", 100 * 45 / 64] == 9.0
    assert curves["Firefox en→pt", "by importance (gradient)", 100 * 45 / 64] > 9.0


def test_importance_is_the_gradient_by_the_gates(subject: Subject) -> None:
    """One sentence: |∂L/∂ξ| by finite differences, through the model's own losses."""
    model = subject.model
    (batch,) = model.batches(["The cat sleeps."], ["O gato dorme."])
    sums = importance(model.network, [batch], 0, model.losses)
    head = HeadId(Kind.ENCODER, 4, 6)
    found = float(sums[f"{Form.SENTENCE}/{Kind.ENCODER}"].ratio()[head.layer, head.head])
    loss = []
    for step in (0.99, 1.01):
        with closed(model.network, ()), torch.inference_mode():
            gate = list(model.network.attentions())[head.layer][2].gate
            gate.multipliers[head.head] = step
            loss.append(float(model.losses(batch).double().sum()))
    assert found == pytest.approx(abs(loss[1] - loss[0]) / 0.02, rel=0.05)


# ------------------------------------------------------------------ a model trained here

OURS = "mixture-fr-256"


@pytest.mark.parametrize("page", [pruning])
def test_a_page_reads_a_model_trained_here(page, tmp_path: Path) -> None:
    """From its published weights, on the bundled sentences, which need no corpus."""
    given = {"heads": ("L1H1", "decoder L6H8")} if page is not pruning else {}
    parameters = page.Parameters(models=(OURS,), sentences=2, **given)
    tables = page.compute(parameters, Store(tmp_path))
    rows = tables["sample" if page is pruning else "left"]
    assert set(rows["model"]) == {OURS} and set(rows["text"]) == {shared.SAMPLE}


def test_a_model_trained_here_is_tested_on_its_own_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three kinds of attention, the first test set, and claims that leave gates open."""
    ours = Subject.of(OURS, Store(tmp_path))
    assert (len(ours.heads), ours.kinds) == (3 * 6 * 8, tuple(Kind))
    tests = {"first": Pairs(("One dog.", "Two cats."), ("Un chien.", "Deux chats."))}
    read = []
    monkeypatch.setattr(
        shared, "corpus", lambda name: read.append(name) or SimpleNamespace(tests=tests)
    )
    found = ours.on_test(((), (HeadId(Kind.CROSS, 5, 0),)), 2)
    assert read == ["mixture-fr"] and ours.test == "first" and len(found.bleu) == 2
    row = shared.claim("michel-t1-range", ours, -0.1)
    assert (row["corpus"], row["target"], row["closed"]) == ("mixture-fr", "fr", "")
    unrecorded = Subject(replace(ours.model, corpus=""), ours.store)
    with pytest.raises(UserError, match="no record of its corpus"):
        unrecorded.on_test(((),), 1)


# ------------------------------------------------------------------ what is refused


def test_the_other_direction_reads_the_other_side(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translations of the bundled sentences as sample, and NTREX with its sides exchanged."""
    back, given = Subject.of("firefox-pt-en", Store(tmp_path)), []
    assert back.sample(2) == subject.model.translate(subject.sample(2))
    assert back.sample_name != subject.sample_name
    pairs = Pairs(("one", "two"), ("um", "dois"))
    monkeypatch.setattr(shared, "corpus", lambda name: SimpleNamespace(tests={"test": pairs}))

    def scored(model, sources, references, *rest) -> ReleasedMasked:
        given.append([sources, references])
        return made_up(((),), cost)

    monkeypatch.setattr(shared, "released_masked", scored)
    for each in (subject, back):
        each.on_test(((),), 2)
    assert given == [
        [["one", "two"], ["um", "dois"]], [["um", "dois"], ["one", "two"]],
    ]  # fmt: skip


def test_refused_in_one_line(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    german = FirefoxModel.__new__(FirefoxModel)
    german.languages = ("en", "de")
    known = {"firefox-en-de": german, "minilm": SimpleNamespace()}
    monkeypatch.setattr(shared, "load", known.__getitem__)
    for call, said in (
        (lambda: named(("L9H1",), HEADS), "no head 'L9H1'"),
        (lambda: subject.on_test(((),), 0), "tested is 0"),
        (lambda: subject.sample(0), "sentences is 0"),
        (lambda: subject.sample(501), "the text has 500 sentences"),
        (lambda: pruning.compute(pruning.Parameters(draws=-1), subject.store), "draws is -1"),
        (lambda: Subject.of("firefox-en-de", Store(tmp_path)), "en to de"),
        (lambda: Subject.of("minilm", Store(tmp_path)), "or a translation model trained here"),
    ):
        with pytest.raises(UserError, match=said):
            call()
    assert named((), HEADS) == HEADS and claims_table([]).empty
    assert shared.label(HEADS[-1]) == "cross L2H8"
