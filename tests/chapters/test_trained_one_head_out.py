"""Study 20: its tables and claims where it is known beforehand which heads are missed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.masked import Masked, MaskedRun
from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen import _second_texts as second_texts
from headbook.chapters.sixteen import _trained_one_head_out as study
from headbook.chapters.sixteen._ablations import improving
from headbook.chapters.sixteen._second_texts import OTHER, SAME, Text, correlation, other_texts
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.training.paired import corpus_bleu
from headbook.types import HeadId, Kind

PAGE = "20_one_head_out"

SMOKE = Config("smoke", corpus="controlled-svo")
HEADS = tuple(HeadId(kind, layer, head) for kind in Kind for layer in (0, 1) for head in range(4))
SENTENCES = 60


def translated(wrong: dict[int, int]) -> Masked:
    """A run whose mask n (0 is the whole model) gets so many words of a sentence wrong."""
    noise = np.random.default_rng(0)
    length = noise.integers(10, 20, SENTENCES)
    found = []
    for mask in range(len(HEADS) + 1):
        right = length - 4 - wrong.get(mask, 0) * noise.integers(0, 2, SENTENCES)
        orders = np.arange(4)
        correct = np.maximum(right[:, None] - 2 * orders, 0)
        total = length[:, None] - orders
        found.append(np.concatenate([length[:, None], length[:, None], correct, total], axis=1))
    statistics = np.array(found, dtype=np.int64)
    bleu = np.array([corpus_bleu(each) for each in statistics])
    masks = ((), *((head,) for head in HEADS))
    run = MaskedRun("test", SENTENCES, masks)
    return Masked(run, bleu, statistics, np.linspace(2, 3, len(bleu)))


def blocks_of(found: Masked) -> Masked:
    """As if taking out a block gave what its first head gives."""
    first = [0, *(1 + 4 * block for block in range(6))]
    return Masked(found.run, found.bleu[first], found.statistics[first], found.loss[first])


def subject(wrong: dict[int, int], there: dict[int, int] | None = None) -> study.Subject:
    run = SMOKE.one_model()
    model = TrainedModel(run, Path(), corpus_of(run.corpus, run.pairs))
    found = translated(wrong)
    elsewhere = {Text("valid", None, SAME): found}
    if there is not None:
        elsewhere[Text("test_b", None, OTHER)] = translated(there)
    return study.Subject(model, HEADS, found, elsewhere, blocks_of(found))


def claims_of(each: study.Subject) -> pd.DataFrame:
    rows = study._claims(each, study._heads(each), study._agreement(each))
    return pd.DataFrame(rows).set_index("claim")


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.trained_here(SMOKE, Store.default())


def test_a_missed_head_is_significant_and_a_needless_one_is_not():
    rows = study._heads(subject({3: 4, 7: -3, 20: 4}))
    marked = rows[rows["significant"]]
    assert marked[["kind", "layer", "head"]].values.tolist() == [
        ["encoder", 1, 3], ["encoder", 2, 3], ["cross", 1, 4],
    ]  # fmt: skip
    assert (marked["change"] < 0).tolist() == [True, False, True]
    assert (rows.loc[~rows["significant"], "change"] == 0).all()
    assert (rows["low"] <= rows["change"]).all() and (rows["change"] <= rows["high"]).all()
    assert rows["loss_added_nats"].iloc[-1] == pytest.approx(1)


def test_claims_of_known_heads():
    found = claims_of(subject({3: 4, 7: -3, 20: 6}, there={3: 4, 20: 6}))
    rows = study._heads(subject({3: 4, 7: -3, 20: 6}))
    worst = rows.query("kind == 'encoder'")["change"].min() / rows["whole_bleu"].iloc[0]
    # of eight heads one is missed, and shown to be
    assert found.loc["michel-t1-few-significant", ["value", "low", "high"]].tolist() == [7 / 8] * 3
    assert pd.isna(found.loc["michel-t1-half-improve", "value"])  # of two heads nothing is told
    assert found.loc["michel-t1-range", "value"] == pytest.approx(worst)
    low, high = found.loc["michel-t1-range", ["low", "high"]]
    assert low < worst < high < 0
    assert found.loc["michel-f2-same-heads-elsewhere", "value"] > 0.8


def test_heads_that_the_sentences_leave_open_count_at_the_ends():
    sure, open_ = 1e-6, 0.005
    changes = [1.0] * 4 + [-1.0] * 4 + [1.0, -1.0, -1.0] + [0.1] * 9
    p_values = [sure] * 8 + [open_] * 3 + [0.5] * 9
    heads = pd.DataFrame({"change": changes, "p": p_values})
    assert improving(heads) == pytest.approx((4 / 8, 4 / 10, 5 / 9))
    assert np.isnan(improving(heads[1:])).all()  # seven are fewer than the work has


def test_without_a_significant_head_there_is_no_share_of_better_ones():
    found = claims_of(subject({}))
    assert found.loc["michel-t1-few-significant", ["value", "low"]].tolist() == [1, 1]
    assert pd.isna(found.loc["michel-t1-half-improve", "value"])
    assert "michel-f2-same-heads-elsewhere" not in found.index


def test_blocks_are_put_beside_the_sum_of_their_heads():
    each = subject({1: 4, 3: 4, 5: 2})
    rows = study._blocks(each).set_index(["kind", "layer"])
    change = study._heads(each)["change"]
    assert rows.loc[("encoder", 1), "sum_of_changes"] == pytest.approx(change[0] + change[2])
    assert rows.loc[("encoder", 1), "change"] == pytest.approx(change[0])
    assert rows.loc[("encoder", 2), "sum_of_changes"] == pytest.approx(change[4])
    assert rows.loc[("cross", 2), "sum_of_changes"] == 0


def test_correlation_against_scipy_and_where_nothing_varies():
    noise = np.random.default_rng(1)
    one = noise.normal(size=50)
    other = 0.7 * one + noise.normal(size=50)
    r, low, high = correlation(one, other)
    assert r == pytest.approx(np.corrcoef(one, other)[0, 1]) and low < r < high
    assert correlation(one, -2 * one)[0] == pytest.approx(-1)
    assert np.isnan(correlation(one, np.zeros(50))).all()


def corpus_stub(name: str, *tests: str) -> TrainedModel:
    class Corpus:
        def __init__(self) -> None:
            self.tests = dict.fromkeys(tests)

    base = SMOKE.one_model()
    run = ModelRun(name, base.size, base.vocabulary, base.dropout, base.training)
    found = object.__new__(TrainedModel)
    object.__setattr__(found, "run", run)
    object.__setattr__(found, "corpus", Corpus())
    return found


def test_texts_of_another_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        second_texts, "corpus_of", lambda name, _: corpus_stub(name, "first").corpus
    )
    own = Text("valid", None, SAME)
    expected = {
        ("multi30k-de", "flickr", "other", "coco"): [own, Text("coco", None, OTHER)],
        ("multi30k-cs", "flickr"): [own],
        ("tatoeba-de", "test"): [own, Text("first", "multi30k-de", OTHER)],
        ("tatoeba-ru", "test"): [own, Text("first", "msdocs-ru", OTHER)],
        ("msdocs-ru", "test"): [own, Text("first", "tatoeba-ru", OTHER)],
        ("controlled-sov", "test"): [own],
        ("some/folder", "test"): [own],
    }
    for named, texts in expected.items():
        assert list(other_texts(corpus_stub(*named))) == texts


def test_every_claim_that_has_texts_has_a_row_a_model(tables: Tables):
    known = ledger.load()
    rows = checked(known, tables["claims"], PAGE, "smoke")
    of_study = {each.id for each in known.claims if each.study == PAGE}
    assert set(rows["claim"]) == of_study - {"michel-f2-same-heads-elsewhere"}
    with_text = {row["claim"] for row in claims_rows(subject({2: 3}, there={2: 3}))}
    assert with_text == of_study and not rows["claim"].duplicated().any()


def claims_rows(each: study.Subject) -> list[dict]:
    return list(study._claims(each, study._heads(each), study._agreement(each)))


def test_computing_again_gives_the_same_tables(tables: Tables):
    again = study.trained_here(SMOKE, Store.default())
    for name, table in again.items():
        pd.testing.assert_frame_equal(table, tables[name])
