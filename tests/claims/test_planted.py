"""An effect planted in attention is replicated, and its opposite is not.

Heads are planted on the bundled treebank. The package's own measures read their weights, what they
say is published as a page's table, and a claim of the ledger judges it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import known_heads as planted
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from published_table import put

import headbook as hb
from headbook import paths, tables
from headbook.claims import scorecard
from headbook.claims.ledger import load
from headbook.claims.verdict import Verdict
from headbook.heads import baselines, scores
from headbook.heads.measure import Measure, RatioSums, sums
from headbook.heads.recording import Shared
from headbook.text.alignment import align_all
from headbook.text.batches import Batch, collate
from headbook.text.treebank import read_conllu

LONGEST, REPLICATES = 14, 60
OBJECT, ADJECTIVE = 2, 4
"""A verb's object and a noun's adjective, among the questions of a tree."""
Head = Callable[[Batch], torch.Tensor]


@lru_cache(maxsize=1)
def text() -> tuple[list, list[Batch]]:
    """Short sentences of the treebank, with words for tokens and EOS behind them."""
    every = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")
    trees = [tree for tree in every if len(tree) <= LONGEST] * 2
    known: dict[str, int] = {}
    pairs = [([*(known.setdefault(form.lower(), 3 + len(known)) for form in tree.forms), 1], [1])
             for tree in trees]  # fmt: skip
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][0]))
    groups = [order[first : first + 50] for first in range(0, len(order), 50)]
    aligned = [align_all(tree, [*tree.words, None]) for tree in trees]
    return aligned, [collate([pairs[at] for at in group], group) for group in groups]


def at(offset: int, share: float = 0.95, seed: int = 0) -> Head:
    """A head at a fixed offset, in that share of its tokens; the others look anywhere."""

    def head(batch: Batch) -> torch.Tensor:
        noise = torch.Generator().manual_seed(1_000 * seed + int(batch.sentences[0]))
        chance, place = torch.rand(2, *batch.source.shape, generator=noise)
        place = (place * (batch.source_mask.sum(1, keepdim=True) - 1)).long()
        anywhere = torch.nn.functional.one_hot(place, batch.source.shape[1]).float()
        hit = (chance < share) | ~batch.source_mask
        return torch.where(hit[..., None], planted.at_offset(batch, offset), anywhere)

    return head


def following(question: int) -> Head:
    return lambda batch: planted.at_partner(batch, text()[0], question)


def anywhere(seed: int) -> Head:
    return at(0, share=0.0, seed=100 + seed)


def read(measure: Measure, *layers: list[Head]) -> RatioSums:
    """The measure over all sentences of a network with these heads."""
    recorded = (
        (Shared(planted.recording(*([head(batch) for head in layer] for layer in layers))), batch)
        for batch in text()[1]
    )
    return sums({"": measure}, recorded, REPLICATES)[""]


def accuracy(heads: list[Head], question: int) -> pd.DataFrame:
    """The best head's accuracy on the half it was not chosen on, and the best fixed offset's."""
    trees = text()[0]
    found = read(partial(scores.syntactic, trees=trees), heads)[question]
    best = int(found.ratio(half=0)[0].argmax())
    hits, asked = baselines.offset_hits(trees), baselines.asked(trees)
    baseline = (hits.sum(0) / asked.sum(0))[:, question].max()
    value = found.replicates(half=1)[:, 0, [best]].numpy()
    return hb.table({"model": "firefox-en-pt"}, value=value).assign(baseline=baseline)


def row(values: np.ndarray) -> pd.DataFrame:
    """A released model with this number and its replicates."""
    return hb.table({"model": "firefox-en-pt"}, value=np.asarray(values, float)[:, None])


def scores_are_asymmetric(so: bool) -> pd.DataFrame:
    """By the page's own measure."""
    (path,) = paths.NOTEBOOKS.glob("01_*.ipynb")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    page = {"np": np, "hb": hb, "torch": torch}
    for first in ("def share(S)", "def of_sentence(S)"):
        (code,) = (cell for cell in cells if first in cell)
        exec(code.partition("\nassert")[0], page)
    noise = np.random.default_rng(0)
    sizes = range(2, LONGEST)
    given = [noise.normal(size=(1, 4, size, size)) for size in sizes for _ in range(10)]
    page["scores"] = lambda _, each: each if so else each + each.mT
    return row(page["measured"](None, given)[:, :, 0].min(1))


def a_share_exceeds_its_baseline(so: bool) -> pd.DataFrame:
    return accuracy([following(OBJECT) if so else at(1), anywhere(0)], OBJECT)


def a_share_is_near_its_baseline(so: bool) -> pd.DataFrame:
    return accuracy([at(-1, share=1.0) if so else following(ADJECTIVE), anywhere(0)], ADJECTIVE)


def a_count_lies_within(so: bool) -> pd.DataFrame:
    heads = [at(-1), at(1), at(-1), anywhere(0)] if so else [anywhere(n) for n in range(4)]
    found = read(scores.positional, heads).replicates()[:, 0]
    beside = found[..., [scores.REACH - 1, scores.REACH + 1]].amax(-1)
    return row((beside >= 0.9).sum(1).numpy())


def a_difference_is_negative(so: bool) -> pd.DataFrame:
    """A head that spreads its weight, minus one that does not, in the same resamples."""
    sharp = at(-1)
    heads = [planted.uniform, sharp] if so else [sharp, sharp]
    found = read(scores.confidence, heads).replicates()[:, 0].numpy()
    return row(found[:, 0] - found[:, 1])


FORMS = {
    scores_are_asymmetric: "why-scores-not-symmetric",
    a_share_exceeds_its_baseline: "voita-t1-dobj-head-to-dependent",
    a_share_is_near_its_baseline: "voita-t1-amod-head-to-dependent",
    a_count_lies_within: "voita-f1c-positional",
    a_difference_is_negative: "voita-f1b-rare-not-confident",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_planted_is_replicated_and_its_opposite_is_not(
    form: Callable[[bool], pd.DataFrame], tmp_path: Path
) -> None:
    verdicts = []
    for so in (True, False):
        frame = form(so).assign(closed="none")
        put(tmp_path / str(so), "99/planted", tables.csv(frame))
        given = {"value": "99/planted[].value", "settled": "planted", "role": None}
        given["baseline"] = "baseline" if "baseline" in frame else None
        claim = replace(load().claim(FORMS[form]), **given)
        ledger = replace(load(), claims=(claim,))
        verdicts.append(scorecard.current(tmp_path / str(so), ledger)[claim.id].verdict)
    assert verdicts[0] is Verdict.REPLICATED
    assert verdicts[1] in (Verdict.CONTRADICTED, Verdict.INCONCLUSIVE)
