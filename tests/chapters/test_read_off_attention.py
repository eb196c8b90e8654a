"""Page 54: samples whose parts are apart, probes on planted weights, tables for the page."""

import numpy as np
import pytest
import torch

from headbook.chapters.seeing import _probed as probed
from headbook.chapters.seeing.read_off_attention import (
    RELATIONS,
    Parameters,
    by_probe,
    by_relation,
    compute,
    facts,
    relation_table,
    selectivity,
)
from headbook.looking.states import WordMaps
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture(scope="module")
def of() -> probed.Sample:
    return probed.sample("ewt-sample", 90)


def planted(of: probed.Sample, chance: torch.Generator) -> list[WordMaps]:
    """Two heads: one looks at each word's head, the other anywhere; vectors say nothing."""
    found = []
    for tree in of.trees:
        count = len(tree)
        weights = torch.rand(2, count, count, generator=chance)
        for word, head in enumerate(tree.heads):
            weights[0, word, max(head, 0)] += 3
        vectors = torch.randn(count, 4, generator=chance)
        found.append(WordMaps(tree, weights, torch.zeros(2, count), vectors))
    return found


def test_planted_heads_are_found_and_the_control_task_is_not(of):
    maps = planted(of, torch.Generator().manual_seed(0))
    heads = probed.HeadProbes(of, maps, [each.vectors for each in maps], {})
    assert heads.probe(False, False, probed.TASK)[0] > 0.99
    assert heads.probe(False, False, probed.CONTROL)[0] < 0.6
    assert heads.probe(True, False, probed.TASK)[0] < 0.5
    fitted, scored = heads.by_head
    assert fitted.mean(0).argmax() == 0
    assert heads.over(scored[:, 0])[0] > 0.99 > 0.6 > heads.over(scored[:, 1])[0]


def test_relations_on_their_arcs_are_those_of_the_asking_words(of):
    maps = planted(of, torch.Generator().manual_seed(0))
    heads = probed.HeadProbes(of, maps, [each.vectors for each in maps], {})
    relations = heads.relations(2)
    assert len(relations) == len(heads.pairs[2].right) == len(heads.pairs[2].sentence)
    assert "punct" not in relations and "root" not in relations


def test_a_sample_is_scored_on_sentences_that_no_probe_saw(of):
    parts = [set(each.tolist()) for each in vars(of.split).values()]
    assert len(of.trees) == 90 and sum(map(len, parts)) == 90 == len(set.union(*parts))
    assert len({tree.text for tree in of.trees}) == 90


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("runs"))
    return compute(Parameters(models=("firefox-en-pt",), sentences=60), store)


def test_a_run_without_controls_has_tables_for_the_page(tables):
    assert tables["claims"].empty
    assert set(tables["relations"]["relation"]) <= set(RELATIONS)
    head = tables["probes"].query("target == 'head'").set_index("features")["value"]
    assert head["next word"] == head["best offset"]
    assert 0 < head["distance"] < head["weights"] < 1
    for made in (by_probe(tables), by_relation(tables), relation_table(tables)):
        assert len(made)
    assert set(selectivity(tables)["target"]) == {"relation", "part of speech"}
    assert "firefox_en_pt_head_weights_estimate" in facts(tables)


def test_margins_are_over_the_same_resamples(tables):
    rows = tables["relations"]
    np.testing.assert_allclose(rows["margin"], rows["value"] - rows["baseline"])
    assert (rows["margin_low"] <= rows["margin"]).all()


def test_too_few_sentences_are_refused(tmp_path):
    with pytest.raises(UserError, match="30 or more"):
        compute(Parameters(sentences=20), Store(tmp_path))
