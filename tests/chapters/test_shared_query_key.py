"""Page 40: what is shared is found, and turning heads takes it away."""

import pandas as pd
import torch

from headbook.chapters.why.shared_query_key import (
    BY_WIDTH,
    UNTRAINED,
    by_width,
    claims,
    facts,
    random_spectra,
    summary,
    turned_spectrum,
)
from headbook.heads.query_key import dimensions, spectra
from headbook.looking.load import load
from headbook.looking.weights import QueryKey, query_key
from headbook.models.capture import Point, capture
from headbook.types import Kind


def test_the_projections_give_the_scores_that_the_model_computes():
    model = load("firefox-en-pt")
    (batch,) = model.batches(["A small test of heads ."])
    with torch.no_grad(), capture(model.network, {Point.QUERIES, Point.KEYS}) as tape:
        model.network(batch)
    (first, *_) = query_key(model)
    states = model.network.embedded_source(batch.source)
    bias = model.network.encoder[0].attention.query.bias.unflatten(0, (8, -1))
    queries = torch.einsum("btm,hmd->bhtd", states, first.queries) + bias[:, None]
    torch.testing.assert_close(queries, tape[Kind.ENCODER, Point.QUERIES][0], atol=1e-4, rtol=1e-4)


def test_turning_keeps_each_heads_spectrum_and_destroys_a_shared_space():
    one = torch.randn(1, 16, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    block = QueryKey(Kind.ENCODER, 0, one.expand(4, -1, -1), one.expand(4, -1, -1))
    assert dimensions(spectra(block.queries, block.keys)[1], 1.0) == 2
    assert dimensions(turned_spectrum(block), 0.999) > 6
    assert random_spectra(block)[0].shape == (4, 2)


def test_models_before_training_stand_beside_those_by_width_and_are_no_evidence():
    """One encoder layer per model; before training all of them need 0.375 of the dimensions."""
    shares = {"minilm": 0.15, BY_WIDTH[1]: 0.25, BY_WIDTH[0]: 0.3}
    shares |= {name + UNTRAINED: 0.375 for name in (*BY_WIDTH[:2], "mixture-fr-256-masked")}
    layers = pd.DataFrame(
        {"model": name, "kind": "encoder", "layer": 1, "alone": 0.7, "random_alone": 0.8,
         "together": share, "turned_together": 0.35, "random_together": 0.38, "third": 0.95,
         "random_third": 0.87}
        for name, share in shares.items()
    )  # fmt: skip
    trained = pd.DataFrame(
        {"model": BY_WIDTH[1::-1], "width": [128, 64], "updates": 400, "bleu": [20.0, 10.04]}
    )
    tables = {"layers": layers, "trained": trained, "claims": claims(layers)}
    found = by_width(tables)
    assert found["width"].tolist() == [64, 128] and found["BLEU"].tolist() == ["10.0", "20.0"]
    assert found["all heads"].tolist() == ["30\N{NO-BREAK SPACE}%", "25\N{NO-BREAK SPACE}%"]
    assert set(found["all heads, untrained"]) == {"38\N{NO-BREAK SPACE}%"}
    assert summary(tables)["model"].tolist() == ["MiniLM", "Our masked encoder, untrained"]
    assert set(tables["claims"]["model"]) == {"minilm", *BY_WIDTH[:2]}
    assert facts(tables)["multi30k_de_64_untrained_together"] == "38\N{NO-BREAK SPACE}%"
    assert facts(tables)["width_updates"] == "400"
