"""Page 14: what heads point at against a count in plain loops, planted heads, and known tables."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.chapters.specialised_heads import rare_word_head as page
from headbook.chapters.specialised_heads._released import Reading, in_their_language, read, trees_of
from headbook.chapters.specialised_heads._targets import (
    LONG_NOT_RARE,
    LONGEST,
    NEAR,
    NEAR_COMMONEST,
    NEAR_RAREST,
    NOUN,
    NOUN_COMMONEST,
    NOUN_RAREST,
    NOUNS,
    RARE_NOT_LONG,
    TARGETS,
    Rivals,
    TargetChance,
    TargetShare,
)
from headbook.chapters.words import SMALL
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.batches import Batch
from headbook.heads import planted
from headbook.heads.rare import OUTSIDE_TOP, RareUnit
from headbook.looking.load import load
from headbook.looking.passes import ranks_in
from headbook.types import UserError

SENTENCES, HEAD = 110, (1, 3)
"""Enough sentences for more than 500 kinds of tokens, and a head that points at its neighbours."""


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read(load("firefox-en-pt"), "ewt-sample", trees_of("ewt-sample", SENTENCES))


@pytest.fixture(scope="module")
def sums(reading: Reading) -> page.Sums:
    return reading.sums(page._measures(reading))


def counted_by_loops(reading: Reading, batch: Batch, keys: torch.Tensor) -> dict[str, list[bool]]:
    """Hits of every query at each target, from lists; `keys` is [batch, query]."""
    found: dict[str, list[bool]] = {target: [] for target in TARGETS}
    ranks = ranks_in(reading.batches).tolist()
    characters = Rivals(reading, torch.tensor(ranks)).characters.tolist()
    for row, sentence in enumerate(batch.sentences.tolist()):
        tree, aligned = reading.parsed[sentence], reading.trees[sentence]
        spans = reading.model.spans(tree.text)
        at = [place for place, span in enumerate(spans) if span]
        rank = {place: ranks[int(batch.source[row, place])] for place in at}
        if max(rank.values()) < OUTSIDE_TOP:
            continue
        width = {place: characters[int(batch.source[row, place])] for place in at}
        nouns = [p for p in at if aligned.tags and aligned.pieces[p] >= 0
                 and aligned.tags[int(aligned.pieces[p])] in NOUNS]  # fmt: skip
        rarest = {p for p in at if rank[p] == max(rank.values())}
        two = sorted(set(width.values()))[-2:]
        longest = {p for p in at if width[p] == two[-1]}
        for query in at:
            key = int(keys[row, query])
            near = [place for place in (query - 1, query, query + 1) if place in at]
            ordered = sorted({rank[place] for place in near})
            if len(near) == 3:
                found[NEAR].append(key in near)
                if len(ordered) > 1:
                    found[NEAR_RAREST].append(key in near and rank[key] == ordered[-1])
                    found[NEAR_COMMONEST].append(key in near and rank[key] == ordered[0])
            found[NOUN].append(key in nouns)
            if len({rank[place] for place in nouns}) > 1:
                ends = [end(rank[place] for place in nouns) for end in (max, min)]
                found[NOUN_RAREST].append(key in nouns and rank[key] == ends[0])
                found[NOUN_COMMONEST].append(key in nouns and rank[key] == ends[1])
            found[LONGEST].append(key in at and width[key] in two)
            if not rarest & longest:
                found[RARE_NOT_LONG].append(key in rarest)
                found[LONG_NOT_RARE].append(key in longest)
    return found


def test_targets_are_those_of_a_count_in_plain_loops(reading: Reading) -> None:
    few = replace(reading, batches=reading.batches[:2])
    measure = TargetShare(Rivals(few, ranks_in(few.batches)), replicates=0)
    generator = torch.Generator().manual_seed(0)
    expected: dict[str, list[bool]] = {target: [] for target in TARGETS}
    for batch in few.batches:
        weights = torch.rand(*batch.source.shape, batch.source.shape[1], generator=generator)
        weights[:, :, 0] += 0.05
        own = weights.masked_fill((~batch.source_mask | batch.source_boundary)[:, None], 0)
        measure.update(planted.recording([weights]), batch)
        for target, hits in counted_by_loops(few, batch, own.argmax(-1)).items():
            expected[target] += hits
    found = dict(zip(TARGETS, measure.compute()[0, 0].tolist(), strict=True))
    for target, hits in expected.items():
        assert hits
        assert found[target] == pytest.approx(sum(hits) / len(hits)), target


def test_planted_heads_are_told_apart(reading: Reading) -> None:
    rivals = Rivals(reading, ranks_in(reading.batches))
    for unit in RareUnit:
        measure = TargetShare(rivals, unit, replicates=0)
        for batch in reading.batches:
            heads = [planted.at_rarest(batch, each) for each in (rivals.ranks, rivals.characters)]
            measure.update(planted.recording([*heads, planted.at_offset(batch, 0)]), batch)
        of = dict(zip(TARGETS, measure.compute()[0].T.tolist(), strict=True))
        assert of[RARE_NOT_LONG][0] > 0.9  # a rare token that occurs twice draws half as much
        assert of[LONG_NOT_RARE][0] == 0
        assert of[RARE_NOT_LONG][1] == 0
        assert of[LONG_NOT_RARE][1] > 0.9
        near = of[NEAR]
        assert near[2] == 1 if unit is RareUnit.QUERY else all(each != each for each in near)


def test_chance_is_the_mean_over_heads_that_each_point_at_one_place(reading: Reading) -> None:
    batch = reading.batches[0]
    rivals = Rivals(reading, ranks_in(reading.batches))
    share, chance = (each(rivals, replicates=0) for each in (TargetShare, TargetChance))
    row = Batch(**{name: getattr(batch, name)[:1] for name in vars(batch)})
    length = int((row.source_mask & ~row.source_boundary).sum())
    heads = []
    for key in range(length):
        weights = torch.zeros(*row.source.shape, row.source.shape[1])
        weights[:, :, key] = 1
        heads.append(weights)
    for measure in (share, chance):
        measure.update(planted.recording(heads), row)
    torch.testing.assert_close(
        share.compute().mean(1), chance.compute()[:, 0], equal_nan=True, rtol=1e-9, atol=1e-9
    )


def test_the_best_heads_are_scored_on_the_other_half(reading: Reading, sums: page.Sums) -> None:
    rows = pd.DataFrame(page._best(reading, sums)).query("ranks == 'text'")
    assert len(rows) == 2 * 2 * 2
    for row in rows.to_dict("records"):
        rare = sums[f"{row['unit']} text"]
        column = page.POINTING.index(row["pointing"])
        at = (row["layer"] - 1, row["head"] - 1)
        assert row["value"] == pytest.approx(float(rare.ratio(1)[(*at, column)]))
        layers = 1 if row["scope"] == page.FIRST else None
        assert rare.ratio(0)[:layers, :, 1].max() == rare.ratio(0)[(*at, 1)]
    heads = page._heads(reading, sums)
    expected = float(sums["query text"].ratio()[(*HEAD, 1)])
    row = heads.query("layer == 2 and head == 4").iloc[0]
    assert row["one of the two rarest, by query"] == expected


def test_claims_are_of_the_treebanks_and_need_a_head(reading: Reading, sums: page.Sums) -> None:
    assert not list(page._claims(reading, sums))
    rows = pd.DataFrame(page._claims(replace(reading, text=page.EWT), sums))
    assert set(rows["claim"]) == {c.id for c in ledger.load().claims if c.study == _study()}
    checked(ledger.load(), rows, _study(), "test")
    closed = rows.set_index("claim")["closed"]
    assert closed["voita-f5-first-layer"] == "present: no rare-word head"
    assert closed["voita-f5-two-rarest-long"] == "none"
    assert page._closed("voita-f5-first-layer", True) == "none"


def _study() -> str:
    return "14_rare_word_head"


def test_tables_stand_beside_the_papers_and_those_trained_here() -> None:
    columns = ["unit", "pointing", "scope", "ranks", "layer", "head", "value", "low", "high",
               "baseline", "kept", "model", "text", "sentences"]  # fmt: skip
    rows = [(unit, pointing, page.EVERY, page.TEXT, 2, 4, 0.3, 0.2, 0.4, 0.1, 9, model, text, 10)
            for model in ("firefox-en-pt", "minilm") for text in ("ewt-sample", page.EWT)
            for unit in ("query", "sentence") for pointing in page.POINTING]  # fmt: skip
    chosen = pd.DataFrame(
        [("query", "one of two rarest", page.EVERY, "best", value, 0.1, name)
         for value, name in ((0.2, "a"), (0.4, "b"))],
        columns=["unit", "pointing", "scope", "update", "value", "chance", "model"],
    )  # fmt: skip
    tables = {"released": pd.DataFrame(rows, columns=columns), "chosen": chosen}
    shown = page.beside(tables)
    assert set(shown["text"].dropna()) == {page.EWT}
    own = shown[shown["model"] == SMALL].iloc[0]
    assert (own["value"], own["low"], own["high"]) == (pytest.approx(0.3), 0.2, 0.4)
    assert own["pointing"] == page.POINTING[1]
    first = shown.dropna(subset="paper")
    assert set(first["model"]) == {"Firefox en→pt"}
    assert page.paper() == {"the rarest": 0.66, "one of the two rarest": 0.83}
    assert page.summary(tables).iloc[0]["the rarest, by query"] == "L2H4 30 / 10"


def test_models_are_measured_on_texts_of_their_language() -> None:
    found = list(in_their_language(("firefox-pt-en",), ("ewt-sample",), 4))
    assert not found
    with pytest.raises(UserError, match="multi30k-de is no treebank"):
        list(in_their_language(("firefox-pt-en",), ("multi30k-de",), 4))
