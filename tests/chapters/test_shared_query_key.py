"""Page 40: what is shared is found, and turning heads takes it away."""

import torch

from headbook.chapters.why.shared_query_key import random_spectra, turned_spectrum
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
