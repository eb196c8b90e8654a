"""Study 21: the head that stays is chosen where it should be, and the claims follow from it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.masked import Masked, MaskedRun, masked
from headbook.artefacts.model import TrainedModel, corpus_of, trained
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen import _trained_one_head_left as study
from headbook.chapters.sixteen._trained_one_head_left import Choice
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.training.paired import corpus_bleu
from headbook.types import HeadId, Kind

PAGE = "21_one_head_left"

SMOKE = Config("smoke", corpus="controlled-svo")
HEADS = tuple(HeadId(kind, layer, head) for layer in (0, 1) for kind in Kind for head in range(3))
SENTENCES = 60
ENCODER, LAST = (Kind.ENCODER, 0), (Kind.CROSS, 1)


def translated(test: str, wrong: dict[HeadId, int]) -> Masked:
    """With only this head left in its block, so many words of every sentence are wrong."""
    length = np.random.default_rng(0).integers(12, 20, SENTENCES)
    sometimes = np.random.default_rng(1).integers(0, 2, SENTENCES)
    found = []
    for head in (None, *HEADS):
        right = length - 4 - wrong.get(head, 0) * sometimes
        correct = np.maximum(right[:, None] - 2 * np.arange(4), 0)
        total = length[:, None] - np.arange(4)
        found.append(np.concatenate([length[:, None], length[:, None], correct, total], axis=1))
    statistics = np.array(found, dtype=np.int64)
    bleu = np.array([corpus_bleu(each) for each in statistics])
    return Masked(MaskedRun(test, SENTENCES, ((),) * len(bleu)), bleu, statistics, bleu * 0 + 2)


def left(head: int, block: tuple[Kind, int]) -> HeadId:
    return HeadId(*block, head)


def subject(valid: dict[HeadId, int], test: dict[HeadId, int]) -> study.Subject:
    run = SMOKE.one_model()
    model = TrainedModel(run, Path(), corpus_of(run.corpus, run.pairs))
    return study.Subject(model, HEADS, translated("valid", valid), translated("test", test))


@pytest.fixture(scope="module")
def known() -> study.Subject:
    """Validation likes encoder head 2, the test set head 3; the last cross-attention loses much."""
    blocks = {(head.kind, head.layer) for head in HEADS}
    hurt = {left(head, LAST): 6 + head for head in range(3)}
    hurt |= {left(head, (Kind.DECODER, 1)): 2 for head in range(3)}
    assert len(blocks) == 6
    return subject(
        valid={left(0, ENCODER): 3, left(2, ENCODER): 1, **hurt},
        test={left(0, ENCODER): 3, left(1, ENCODER): 2, **hurt},
    )


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.trained_here(SMOKE, Store.default())


def row(each: study.Subject, block: tuple[Kind, int], choice: Choice) -> pd.Series:
    rows = study._blocks(each).set_index(["kind", "layer", "choice"])
    return rows.loc[(str(block[0]), block[1] + 1, str(choice))]


def test_the_head_is_chosen_on_one_set_and_scored_on_another(known: study.Subject):
    by_validation, by_test = (
        row(known, ENCODER, choice) for choice in (Choice.VALIDATION, Choice.TEST)
    )
    heads = study._heads(known).query("kind == 'encoder' and layer == 1")["change"].tolist()
    assert (by_validation["head"], by_test["head"]) == (2, 3)
    assert by_validation["change"] == pytest.approx(heads[1]) and heads[1] < 0
    assert by_test["change"] == heads[2] == 0
    assert by_validation["significant"] and not by_test["significant"]


def test_a_random_head_is_the_mean_over_heads(known: study.Subject):
    chance = row(known, ENCODER, Choice.RANDOM)
    heads = study._heads(known).query("kind == 'encoder' and layer == 1")["change"]
    assert chance["change"] == pytest.approx(heads.mean())
    assert chance["low"] < chance["change"] < chance["high"] < 0 and pd.isna(chance["p"])


def claims_of(each: study.Subject) -> pd.DataFrame:
    return pd.DataFrame(study._claims(each, study._blocks(each))).set_index("claim")


def test_claims_of_known_blocks(known: study.Subject):
    found = claims_of(known)
    # 6 blocks: encoder 1, decoder 2 and the last cross-attention lose, and are shown to
    assert found.loc["michel-t5-one-head-suffices", ["value", "low", "high"]].tolist() == [0.5] * 3
    heads = study._heads(known).set_index(["kind", "layer", "head"])["change"]
    exception = heads["cross", 2, 1] - min(heads["encoder", 1, 2], heads["decoder", 2, 1])
    value, low, high = found.loc["michel-t2-last-cross-exception", ["value", "low", "high"]]
    assert value == pytest.approx(exception) and low < value < high < 0


def test_a_block_that_gains_by_losing_heads_suffices():
    gained = {left(head, ENCODER): -2 for head in range(3)}
    found = claims_of(subject(gained, gained))
    assert found.loc["michel-t5-one-head-suffices", "value"] == 1
    assert found.loc["michel-t2-last-cross-exception", "value"] == 0


def test_masks_leave_one_head_of_a_block_and_touch_no_other(tables: Tables):
    model = trained(SMOKE.one_model(), Store.default())
    heads = all_heads(model.untrained())
    sentences = SMOKE.preset.pruning.translated
    run = study._subject(model, sentences, Store.default()).test.run
    assert run.masks[0] == () and len(run.masks) == 1 + len(heads)
    for kept, mask in zip(heads, run.masks[1:], strict=True):
        same = {head for head in heads if (head.kind, head.layer) == (kept.kind, kept.layer)}
        assert set(mask) == same - {kept}
    again = masked(model, MaskedRun(run.test, sentences, run.masks[3:4]), Store.default())
    assert tables["heads"]["bleu"].iloc[2] == pytest.approx(again.bleu[0])


def test_all_blocks_at_once_keep_one_head_each(tables: Tables):
    together = tables["together"].set_index("scope")
    assert together["heads_left"].to_dict() == {"encoder": 10, "decoder": 10, "cross": 10, "all": 6}
    alone = tables["blocks"].query("choice == @Choice.VALIDATION")
    assert together.loc["all", "sum_of_changes"] == pytest.approx(alone["change"].sum())


def test_every_claim_of_the_study_has_a_row_a_model(tables: Tables):
    known = ledger.load()
    rows = checked(known, tables["claims"], PAGE, "smoke")
    assert set(rows["claim"]) == {each.id for each in known.claims if each.study == PAGE}
    assert not rows["claim"].duplicated().any()
