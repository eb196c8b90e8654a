"""The anatomy study at profile smoke: columns, the two products, ties, claims and pictures."""

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from headbook.claims.ledger import load
from headbook.claims.scorecard import checked
from headbook.corpora.controlled import TargetOrder, split
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.studies import anatomy
from headbook.studies.config import Config
from headbook.studies.results import Tables
from headbook.types import Kind

CONFIG = Config("smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("anatomy"))


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return anatomy.compute(CONFIG, store)


@pytest.fixture
def weights(tables: Tables) -> pd.DataFrame:
    return tables["matrices"].query("version == 'trained'")


def _square(rows: pd.DataFrame, column: str) -> np.ndarray:
    return rows.pivot(index="query", columns="key", values=column).to_numpy()


def test_the_sentence_is_generated_and_ends_in_eos(tables: Tables) -> None:
    tokens = tables["sentence"]["tokens"].iloc[0]
    shown = "".join(tokens.split()[:-1]).replace("▁", " ").strip()
    assert tokens.endswith(" </s>")
    assert shown in split(TargetOrder.SVO)[2].source


def test_one_row_a_query_key_and_version(tables: Tables) -> None:
    length = len(tables["sentence"]["tokens"].iloc[0].split())
    assert list(tables["matrices"].groupby("version").size()) == [length**2] * 3
    assert len(tables["vectors"]) == length * 8  # width 16, 2 heads


def test_the_two_products_give_scores_weights_and_context(
    tables: Tables, weights: pd.DataFrame
) -> None:
    vectors = tables["vectors"].pivot(index="token", columns="dimension")
    queries, keys, values, context = (
        vectors[point].to_numpy() for point in ("queries", "keys", "values", "context")
    )
    scores = queries @ keys.T / np.sqrt(queries.shape[1])
    assert _square(weights, "score") == pytest.approx(scores, abs=1e-5)
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert _square(weights, "weight") == pytest.approx(softmax, abs=1e-5)
    assert context == pytest.approx(softmax @ values, abs=1e-5)


def test_the_parts_add_up_to_the_scores(tables: Tables) -> None:
    for _, rows in tables["matrices"].groupby("version"):
        symmetric, other = _square(rows, "symmetric"), _square(rows, "antisymmetric")
        assert symmetric + other == pytest.approx(_square(rows, "score"), abs=1e-9)
        assert symmetric == pytest.approx(symmetric.T)
        assert other == pytest.approx(-other.T)


def test_the_share_is_that_of_the_parts_without_eos(tables: Tables, weights: pd.DataFrame) -> None:
    symmetric = _square(weights, "symmetric")[:-1, :-1]
    other = _square(weights, "antisymmetric")[:-1, :-1]
    share = (other**2).sum() / ((other**2).sum() + (symmetric**2).sum())
    found = tables["sentence"].set_index("version")["share"]
    assert found["trained"] == pytest.approx(share)
    assert found["trained"] > 1e-4 > found["tied"]


def test_tied_heads_are_symmetric_and_others_are_not(tables: Tables) -> None:
    shares = tables["asymmetry"].set_index("version")
    assert len(shares) == 3 * 2 * 2
    assert (shares.loc["tied", ["scores", "projections"]] < 1e-6).all(axis=None)
    for version in ("trained", "untrained"):
        of_version = shares.loc[version]
        assert (of_version["projections"] > 0.2).all()
        assert (of_version["scores"] > 1e-5).all()
        assert (of_version["low"] <= of_version["scores"]).all()
        assert (of_version["scores"] <= of_version["high"]).all()


def test_tying_changes_the_copy_only_and_only_encoder_keys() -> None:
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocabulary=11, target_vocabulary=13, encoder_layers=2, decoder_layers=1,
            width=8, feed_forward=16, heads=2, dropout=0.0,
        )
    )  # fmt: skip
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copy = anatomy.tied(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    changed = {
        name for name, value in copy.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed == {f"encoder.{layer}.attention.key.weight" for layer in (0, 1)}
    for kind, _, block in copy.attentions():
        same = torch.equal(block.query.weight, block.key.weight)
        assert same == (kind is Kind.ENCODER)


def test_the_claims_are_the_heads_at_the_edge(tables: Tables) -> None:
    claims = checked(load(), tables["claims"].astype({"seed": str}), anatomy.STUDY, "test")
    found = claims.set_index("claim")
    shares = tables["asymmetry"].set_index("version")["scores"]
    assert found.loc["why-scores-not-symmetric", "value"] == pytest.approx(shares["trained"].min())
    assert found.loc["why-tied-scores-symmetric", "value"] == pytest.approx(shares["tied"].max())
    assert (found["low"] <= found["value"]).all()
    assert (found["value"] <= found["high"]).all()


def test_the_pictures_and_the_reading_stand_on_the_tables_alone(tables: Tables) -> None:
    for draw in (
        anatomy.draw_products,
        anatomy.draw_parts,
        anatomy.draw_asymmetry,
        anatomy.draw_projections,
    ):
        assert isinstance(draw(tables), Figure)
    assert "Over 4 encoder heads in 1 models" in anatomy.read(tables)


def test_computing_again_gives_the_same_tables(tables: Tables, store: Store) -> None:
    again = anatomy.compute(CONFIG, store)
    assert again.keys() == tables.keys()
    for name, table in tables.items():
        pd.testing.assert_frame_equal(again[name], table)
