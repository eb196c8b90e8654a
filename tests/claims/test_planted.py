"""For each form of rule: an effect planted in attention is replicated, and its opposite is not.

Heads are planted on the bundled treebank. The package's own measures read their weights, what they
say is published as a page's table, and a claim of the ledger judges it.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import known_heads as planted
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from published_table import judged

import headbook as hb
from headbook import paths, statistics
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
    return lambda batch: planted.with_noise(
        batch, planted.at_offset(batch, offset), 1 - share, seed
    )


def following(question: int) -> Head:
    return lambda batch: planted.at_partner(batch, text()[0], question)


def rare(batch: Batch) -> torch.Tensor:
    return planted.at_rarest(batch, scores.ranks_in(text()[1]))


def anywhere(seed: int) -> Head:
    return at(0, share=0.0, seed=100 + seed)


def read(measure: Measure, *layers: list[Head]) -> RatioSums:
    """The measure over all sentences of a network with these heads."""
    recorded = (
        (Shared(planted.recording(*([head(batch) for head in layer] for layer in layers))), batch)
        for batch in text()[1]
    )
    return sums({"": measure}, recorded, REPLICATES)[""]


def rarest() -> Measure:
    return partial(scores.rare, ranks=scores.ranks_in(text()[1]))


def neighbours(*heads: Head) -> np.ndarray:
    """Share of each head at the previous token, by replicate."""
    return read(scores.positional, [*heads]).replicates()[:, 0, :, scores.REACH - 1].numpy()


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


def a_share_is_at_least(so: bool) -> pd.DataFrame:
    head = at(-1, share=0.95 if so else 0.3)
    weights = [lambda batch: 0.6 * head(batch) + 0.4 * planted.uniform(batch)]
    confident = read(scores.confidence, [head] if so else weights)
    return row(confident.replicates().flatten().numpy())


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


def a_layer_is_at_most(so: bool) -> pd.DataFrame:
    layers = [[rare], [anywhere(0)]] if so else [[anywhere(0)], [rare]]
    found = read(rarest(), *layers).replicates()
    return row(1 + found[..., 1].amax(-1).argmax(-1).numpy())


def a_difference_is_negative(so: bool) -> pd.DataFrame:
    """A head that spreads its weight, minus one that does not, in the same resamples."""
    sharp = at(-1)
    heads = [planted.uniform, sharp] if so else [sharp, sharp]
    found = read(scores.confidence, heads).replicates()[:, 0].numpy()
    return row(found[:, 0] - found[:, 1])


def ranks_correlate(so: bool) -> pd.DataFrame:
    """Heads more and more at a neighbour, and another measure in their order or in none."""
    shares = neighbours(*(at(-1, share=n / 12, seed=n) for n in range(12)))[0].reshape(2, 6)
    other = shares**2 if so else np.random.default_rng(0).normal(size=shares.shape)
    return row(statistics.resampled_within_layers(shares, other))


def seeds_are_one_model(so: bool) -> pd.DataFrame:
    """Three trainings; without an effect they spread about the bound."""
    shares = (0.9, 0.85, 0.95) if so else (0.2, 0.5, 0.9)
    value = [neighbours(at(-1, share, seed))[0, 0] for seed, share in enumerate(shares)]
    return pd.DataFrame({"model": "ours", "corpus": "wmt-ru", "seed": range(3), "value": value})


def settings_are_tested_together(so: bool) -> pd.DataFrame:
    """Ten settings of one model, five seeds each: all gain, or one has the luck of ten."""
    noise, rows = np.random.default_rng(3), []
    for number in range(10):
        gain = neighbours(at(-1, 0.5, seed=number))[0, 0] if so else 0.0
        own = statistics.over_seeds(gain + noise.normal(0, 0.05, 5))
        rows.append({"model": f"setting {number}", "value": own.mean, "value_low": own.low})
        rows[-1] |= {"value_high": own.high, "corpus": "ours"}
    if not so:
        rows[-1] |= {"value": 0.05, "value_low": 0.004, "value_high": 0.096}
    return pd.DataFrame(rows)


FORMS = {
    a_share_is_at_least: "voita-f1b-positional-confident",
    scores_are_asymmetric: "why-scores-not-symmetric",
    a_share_exceeds_its_baseline: "voita-t1-dobj-head-to-dependent",
    a_share_is_near_its_baseline: "voita-t1-amod-head-to-dependent",
    a_count_lies_within: "voita-f1c-positional",
    a_layer_is_at_most: "voita-f5-first-layer",
    a_difference_is_negative: "voita-f1b-rare-not-confident",
    ranks_correlate: "voita-f1a-follows-roles",
    seeds_are_one_model: "voita-f5-two-rarest-long",
    settings_are_tested_together: "lee-inter-head-helps",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_planted_is_replicated_and_its_opposite_is_not(
    form: Callable[[bool], pd.DataFrame], tmp_path: Path
) -> None:
    verdicts = []
    for so in (True, False):
        frame = form(so).assign(closed="none")
        given = {"baseline": "baseline" if "baseline" in frame else None, "role": None}
        folder = tmp_path / str(so)
        verdicts.append(judged(frame, folder, FORMS[form], settled="planted", **given))
    assert verdicts[0] is Verdict.REPLICATED
    assert verdicts[1] in (Verdict.CONTRADICTED, Verdict.INCONCLUSIVE)
