"""Trained heads with shared dimensions: known decompositions, and models computed from them."""

import pytest
import torch

from headbook.looking import collaborating
from headbook.looking.collaborating import (
    Decomposition,
    factors,
    kept_terms,
    left_over,
    reparametrised,
    separate_terms,
    shared_terms,
)
from headbook.looking.load import load
from headbook.looking.weights import projections
from headbook.models.capture import Point, capture
from headbook.models.collaborative import Collaborative, concatenated
from headbook.runs.store import Store
from headbook.types import Kind, UserError

SENTENCES = ["A small test of heads .", "It rains ."]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def of_terms(dims: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Projections of four heads whose products share so many terms."""
    mixing, queries, keys = drawn(4, dims), drawn(16, dims, seed=1), drawn(16, dims, seed=2)
    return queries * mixing[:, None], keys.expand(4, -1, -1)


def test_shared_terms_are_found_where_separate_ones_are_not_enough():
    heads = of_terms(3)
    assert left_over(*heads, shared_terms(*heads, Decomposition(3, 300))) < 1e-4
    assert left_over(*heads, separate_terms(*heads, 3, evenly=False)) > 0.2


def test_separate_terms_have_the_singular_values_that_are_left_out():
    heads = drawn(4, 16, 5), drawn(4, 16, 5, seed=1)
    values = torch.linalg.svdvals(heads[0] @ heads[1].mT).square()
    evenly = left_over(*heads, separate_terms(*heads, 8, evenly=True))
    assert evenly == pytest.approx(float(values[:, 2:].sum() / values.sum()), rel=1e-4)
    best = left_over(*heads, separate_terms(*heads, 8, evenly=False))
    kept = values.flatten().topk(8).values.sum()
    assert best == pytest.approx(float(1 - kept / values.sum()), rel=1e-4) and best <= evenly


def test_terms_are_kept_and_never_worse_than_where_they_start(tmp_path):
    heads, asked = (drawn(4, 16, 5), drawn(4, 16, 5, seed=1)), Decomposition(8, 30)
    terms, seconds = kept_terms(*heads, asked, Store(tmp_path))
    start = separate_terms(*heads, 8, evenly=False)
    assert left_over(*heads, terms) < left_over(*heads, start)
    again, same = kept_terms(*heads, asked, Store(tmp_path))
    assert same == seconds and all(map(torch.equal, terms, again))


@pytest.mark.parametrize("name", ["firefox-en-pt", "minilm"])
def test_all_dimensions_compute_the_model_itself_with_ragged_padding(name):
    model = load(name)
    (batch,) = model.batches(SENTENCES)
    whole = {layer: concatenated(query, key, block.heads)
             for kind, layer, block, query, key, _ in projections(model.network)
             if kind is Kind.ENCODER}  # fmt: skip
    with torch.no_grad():
        before = model.network(batch)
        with reparametrised(model.network, whole):
            found = model.network(batch)
        again = model.network(batch)
    real = batch.source_mask if name == "minilm" else batch.target_mask
    torch.testing.assert_close(found[real], before[real], atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(again, before)


def test_a_students_edit_is_the_attention_of_the_same_factors():
    model = load("firefox-en-pt")
    (batch,) = model.batches(SENTENCES)
    layer = model.network.encoder[1]
    query, key = layer.attention.query, layer.attention.key
    by_head = (each.weight.detach().unflatten(0, (8, -1)).mT for each in (query, key))
    found = factors(separate_terms(*by_head, 64, evenly=True), query, key, 8)
    with torch.no_grad():
        with (
            reparametrised(model.network, {1: found}),
            capture(model.network, {Point.OUTPUT}) as tape,
        ):
            memory, _ = model.network.encode(batch.source, batch.source_mask)
        edited = tape[Kind.ENCODER, Point.OUTPUT][1]
        ordinary, layer.attention = layer.attention, Collaborative.of(layer.attention, found)
        try:
            with capture(model.network, {Point.OUTPUT}) as tape:
                wanted, _ = model.network.encode(batch.source, batch.source_mask)
        finally:
            layer.attention = ordinary
    torch.testing.assert_close(edited, tape[Kind.ENCODER, Point.OUTPUT][1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(memory, wanted, atol=1e-3, rtol=1e-3)


def test_what_it_cannot_do_is_said_in_one_line(monkeypatch):
    heads = of_terms(3)
    for dims in (0, 17):
        with pytest.raises(UserError, match=f"{dims} query-key dimensions"):
            shared_terms(*heads, Decomposition(dims, 1))
    model = load("firefox-en-pt")
    block = model.network.encoder[0].attention
    whole = concatenated(block.query, block.key, 8)
    with (
        pytest.raises(UserError, match="no encoder layer 10"),
        reparametrised(model.network, {9: whole}),
    ):
        pass
    monkeypatch.setattr(collaborating.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install"):
        shared_terms(*heads, Decomposition(3, 1))
