"""Relevance beside confidence and roles: planted sums give known claims, the page draws them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.texts import Text
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.specialised_heads import _trained_relevance as study
from headbook.chapters.tables import model_labels
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.measure import RatioSums
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import resampled_within_layers, within_layers
from headbook.types import Kind

PAGE = "16_relevance"

CONFIG = Config("smoke")
TEXT = Text("planted", ("a",), ("b",), (), "gold")
PART = [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.15, 0.05], [0.25, 0.2, 0.15, 0.4]]
EVEN = [[0.25] * 4] * 3
CONFIDENCE = [[0.9, 0.8, 0.7, 0.6], [0.7, 0.3, 0.4, 0.2], [0.6, 0.5, 0.4, 0.7]]


def sums(values: Any) -> RatioSums:
    """The same in every replicate."""
    each = torch.tensor(values, dtype=torch.float64) / 2
    numerator = each.expand(2, 4, *each.shape).contiguous()
    return RatioSums(numerator, torch.full_like(numerator, 0.5))


def planted_relevance(part: list[list[float]]) -> dict[str, RatioSums]:
    found = {f"{name}/{kind}": sums(part) for kind in Kind for name in
             ("normalised", "raw")}  # fmt: skip
    return found


@dataclass
class Asked:
    """What the study asked of the stage."""

    runs: list[Any]

    def relevance(self, trained: Any, run: Any, store: Store) -> dict[str, RatioSums]:
        self.runs.append(run)
        return planted_relevance(EVEN if run.update == 0 else PART)


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked([])


@pytest.fixture(scope="module")
def tables(
    asked: Asked, planted: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tables]:
    rare = torch.zeros(3, 4, 2, dtype=torch.float64)
    rare[0, 3, 1] = 0.6
    chance = torch.tensor([[[0.1, 0.2]]])
    found = {"confidence/encoder": sums(CONFIDENCE), "rare": sums(rare.tolist()),
             "rare chance": sums(chance.tolist())}  # fmt: skip
    roles = pd.DataFrame(
        {"layer": [1, 2], "head": [4, 1], "role": ["rare", "positional"],
         "detail": ["one of two rarest", "-1"], "score": [0.6, 0.95], "threshold": [0.5, 0.9],
         "held": True, "update": "best", "text": "t", "parser": "p", **model_labels(planted.model)}
    )  # fmt: skip
    grid = pd.MultiIndex.from_product([range(1, 4), range(1, 5)], names=["layer", "head"])
    scores = pd.DataFrame({"confidence": np.ravel(CONFIDENCE), "nearness": np.ravel(PART)}, grid)
    measured = Measurement(planted.model, TEXT, HeadsRun(TEXT.name), found)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "trained": lambda run, store: planted.model,
            "relevance": asked.relevance,
            "text_of": lambda *given: TEXT,
            "measure": lambda *given: measured,
            "role_rows": lambda measurement: roles,
            "encoder_scores": lambda measurement, size: scores,
        }.items():
            patch.setattr(study, name, value)
        yield study.trained_here(CONFIG, Store(tmp_path_factory.mktemp("runs")))


def test_the_untrained_model_is_asked_for(tables: Tables, asked: Asked):
    assert {(run.variant, run.update) for run in asked.runs} == {
        *((variant, None) for variant in Variant),
        (Variant.CODE_2019, 0),
    }
    rows = tables["layers"].query("kind == 'encoder' and update == 'untrained'")
    assert set(rows["variant"]) == {"code-2019"} and rows["largest"].tolist() == [1] * 3


def test_claims_are_what_was_planted(tables: Tables):
    claims = checked(ledger.load(), tables["claims"].astype({"seed": str}), PAGE, "test")
    assert set(claims["claim"]) == {
        claim.id for claim in ledger.load().claims if claim.study == PAGE
    }
    rows = claims.set_index("claim")
    assert rows.loc["voita-f1a-few-dominate", "value"] == pytest.approx(4 * (0.4 + 0.7 + 0.4) / 3)
    # the first layer, where the order is turned round, does not count
    assert rows.loc["voita-f1a-follows-confidence", "value"] == pytest.approx(1)
    rare = rows.loc["voita-f1a-rare-most-relevant"]
    assert (rare["value"], rare["baseline"]) == pytest.approx((0.6, 0.2))
    assert rows.loc["voita-f1a-top-heads-have-roles", "value"] == pytest.approx(2 / 3)
    roles = rows.loc["voita-f1a-follows-roles"]
    assert roles["value"] == pytest.approx(1) and roles["low"] > 0


def test_layers_are_correlated_each_for_itself():
    first, second = np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[4.0, 5, 6], [3, 2, 1]])
    assert list(within_layers(first, second)) == pytest.approx([1, -1])
    found = resampled_within_layers(first, second)
    assert found[0] == pytest.approx(0)
    assert np.nanmin(found) >= -1 and np.nanmax(found) <= 1 and np.nanstd(found) > 0
