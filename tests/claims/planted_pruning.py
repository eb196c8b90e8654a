"""Pages 17 to 25: models whose heads matter by a known amount.

Planted are the translations without some heads, as right n-grams of each sentence, the gates at the
end of a training, and seconds. The pages' own functions resample and compare them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from claims.planted_heads import FOLLOWING, NEIGHBOURS, cell, claimed, ran
from claims.simulated import Row, World, claim_row, labels
from scipy.stats import rankdata, spearmanr

from headbook import statistics as correlations
from headbook.experiments import by_importance, heads_out
from headbook.pruning.hard_concrete import CONSTANTS, HardConcrete, Source
from headbook.statistics import (
    block_matched_share,
    group_means,
    holm,
    interval,
    pair_share,
    permuted_gap,
    share_not_below,
)
from headbook.training.paired import corpus_bleu, paired, resampled
from headbook.types import HeadId, Kind

LAYERS, HEADS, SENTENCES = 6, 8, 60
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ENCODER = tuple(
    HeadId(Kind.ENCODER, layer, head) for layer in range(LAYERS) for head in range(HEADS)
)
EVERY = tuple(
    HeadId(kind, layer, head) for kind in Kind for layer in range(LAYERS) for head in range(HEADS)
)
FLAT = pd.DataFrame({"update": range(100, 1300, 100), "valid_loss_nats": 4.0})
"""The curve of a training at its plateau."""
Bleu = np.ndarray


def statistics(good: float, seed: int = 0) -> Bleu:
    """Of every sentence: its share of right n-grams is about `good`, more in some than in others;
    two seeds translate a few sentences differently."""
    lengths = 100 + np.arange(SENTENCES) % 7
    wobble = np.linspace(0.7, 0.9, SENTENCES)
    luck = np.random.default_rng(seed).normal(0, 0.002 if seed else 0, SENTENCES)
    totals = lengths[:, None] - np.arange(4)
    right = np.round(totals * ((good + luck) * wobble)[:, None]).astype(np.int64)
    return np.column_stack([lengths, lengths, right.clip(0), totals])


def masks_of(qualities: Sequence[float]) -> SimpleNamespace:
    """The whole model, then it without one set of heads after another."""
    found = np.stack([statistics(each, seed=at) for at, each in enumerate((1.0, *qualities))])
    return SimpleNamespace(statistics=found)


# ------------------------------------------------------------------ gates and sweeps


def page_17(so: bool) -> Iterator[Row]:
    """Gates far from their middle, and at it, in trainings that have ended."""
    noise = np.random.default_rng(0)
    alphas = noise.choice([-6.0, 6.0], 48) if so else noise.normal(0, 1, 48)
    gate = HardConcrete(torch.tensor(alphas), CONSTANTS[Source.CODE])
    decided = float(gate.saturated().mean())
    yield claim_row("voita-s6-gates-saturate", labels(), decided)


def points(so: bool, random_costs: float, claims: Sequence[str]) -> Iterator[Row]:
    """Points of a sweep that lose nothing, or much; controls from scratch that lose, or nothing;
    and random heads that lose so much of the quality. The last two claims are on controls."""
    good = [1.0 if so else 1.0 - 0.1 * (at + 1) for at in range(3)]
    whole = statistics(1.0)
    for claim, quality in zip(claims[:-2], good[1:], strict=False):
        test = paired(statistics(quality), whole)
        ends = {"value": test.difference, "low": test.low, "high": test.high}
        yield claim_row(claim, labels(), **ends, baseline=corpus_bleu(whole))
    scratch = 0.02 if so else 0.0
    for claim, costs, seed in zip(claims[-2:], (scratch, random_costs), (1, 11), strict=True):
        gaps = [
            replicates(statistics(each)) - replicates(statistics(each - costs, seed + at))
            for at, each in enumerate(good)
        ]
        yield claim_row(claim, labels(), *interval(np.mean(gaps, axis=0)), np.nan)


def replicates(found: Bleu) -> np.ndarray:
    return np.concatenate([[corpus_bleu(found)], resampled(found)])


def page_18(so: bool) -> Iterator[Row]:
    """Heads are kept by their nearness to a role, or at random."""
    noise, has_role = np.random.default_rng(3), np.zeros((LAYERS, HEADS), bool)
    for at in (*NEIGHBOURS, *FOLLOWING):
        has_role[at] = True
    has_role = has_role.ravel()
    nearness = noise.random(has_role.size) + has_role
    order = nearness if so else noise.random(has_role.size)
    kept = np.array([order >= np.quantile(order, 1 - share) for share in (0.6, 0.4, 0.2)])
    claims = ("f7-half", "f7-four-fifths", "s6-trained-beats-scratch", "s6-choice-matters")
    yield from points(so, 0.002 if so else 0.0, [f"voita-{each}" for each in claims])
    gap, share = permuted_gap(kept.mean(0), has_role), pair_share(nearness, kept)
    chance = block_matched_share(nearness, kept, np.repeat(range(LAYERS), HEADS).tolist())
    yield claim_row("voita-f8-specialised-last", labels(), *interval(gap), np.nan)
    yield claim_row("voita-f8-nearest-a-role-last", labels(), *interval(share), chance)


def page_19(so: bool) -> Iterator[Row]:
    """Of the encoder few heads are kept, of the decoder more in the low layers, of cross-attention
    most, and more in the high ones; or as many of every kind in every layer."""
    shares = np.full((3, LAYERS), 0.5)
    if so:
        shares = np.stack(
            [np.full(LAYERS, 0.2), np.linspace(0.7, 0.3, LAYERS), np.linspace(0.6, 1.0, LAYERS)]
        )
    noise = np.random.default_rng(0)
    kept = (noise.random((8, 3, LAYERS, HEADS)) < shares[..., None]).mean(0)
    claims = ("t2-half", "t2-trained-beats-scratch")
    everywhere = "budhraja-random-everywhere"
    rows = points(so, 0.002 if so else 0.0, [*(f"voita-{each}" for each in claims), everywhere])
    yield from (row for row in rows if row["claim"] != everywhere)
    encoder, decoder, cross = group_means(kept)
    orders = {"f9-encoder-first": (decoder + cross) / 2 - encoder}
    orders["f9-cross-last"] = cross - np.maximum(encoder, decoder)
    low, high = group_means([kept[1, :2], kept[1, -2:]])
    orders["f10-decoder-low"] = low - high
    low, high = group_means([kept[2, :2], kept[2, -2:]])
    orders["f10-cross-high"] = high - low
    for claim, values in orders.items():
        yield claim_row(f"voita-{claim}", labels(), *interval(values), np.nan)


def random_heads(so: bool) -> Iterator[Row]:
    """Random heads as good as chosen ones, or much worse."""
    claims = ("budhraja-random-hardly-worse", "budhraja-random-everywhere")
    for claim in claims:
        rows = points(True, 0.002 if so else 0.1, ["voita-t2-trained-beats-scratch", claim])
        yield from (row for row in rows if row["claim"] == claim)


# ------------------------------------------------------------------ heads removed


def page_20(so: bool) -> Iterator[Row]:
    """Without 40 of 48 encoder heads hardly anything changes, without four each it gets better and
    worse by a hundredth; or every head costs a tenth. The page's own summary reads it."""
    lost = np.full(48, -0.1)
    if so:
        lost = np.zeros(48)
        lost[:4], lost[4:8] = -0.006, 0.006
    found = heads_out.changes(masks_of(1 + lost).statistics)
    names = {"model": "firefox-en-pt", "text": "planted", "kind": "encoder", "own_added": -lost}
    heads = found.assign(head=[each.label for each in ENCODER], **names)
    given = {"every": heads, "holm": holm, "share_not_below": share_not_below}
    yield from claimed("20", ran("20", "def better(", **given)["summary"])


def page_21(so: bool) -> Iterator[Row]:
    """With one head left half of the blocks lose nothing and the last cross-attention most; or all
    lose alike."""
    blocks = [(kind, layer) for kind in Kind for layer in range(LAYERS)]
    lost = [0.0 if so and at % 2 else 0.05 if so else 0.1 for at in range(len(blocks))]
    last = max(at for at, (kind, _) in enumerate(blocks) if kind is Kind.CROSS)
    lost[last] = 0.3 if so else 0.1
    found = masks_of([1 - each for each in lost]).statistics
    places = {"kind": [str(k) for k, _ in blocks], "layer": [1 + at for _, at in blocks]}
    changes = heads_out.changes(found).assign(**places, model="firefox-en-pt", head="L1H1")
    left = changes.assign(own_added=0.0)
    given = {"published": lambda _, name: changes if name == "blocks" else None, "left": left}
    given |= {
        "tables": {"exception": []},
        "tested": {},
        "paired": paired,
        "share_not_below": share_not_below,
    }
    page = ran("21", "def gone(", **given)
    yield from claimed("21", page["summary"])
    test = page["exception"](changes, changes["change"], found)
    ends = {"value": test.difference, "low": test.low, "high": test.high}
    yield claim_row("michel-t2-last-cross-exception", labels(), **ends)


def damage(so: bool) -> dict[HeadId, float]:
    """What goes with each head: in either self-attention nearly all with a tenth of the heads, in
    cross-attention the same with each; or the same with every head of any kind."""
    if not so:
        return dict.fromkeys(EVERY, 0.02)
    few = {head for head in EVERY if head.head == 0 and head.layer < 4}
    return {
        head: 0.012 if head.kind is Kind.CROSS else 0.08 if head in few else 0.0003
        for head in EVERY
    }


def along(
    orders: dict[tuple[str, str, int], list[HeadId]], costs: dict[HeadId, float]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows and what is kept of BLEU where so much goes with every head."""
    named = {key: [head.label for head in heads] for key, heads in orders.items()}
    points = by_importance.along(named, LEVELS)
    lost = [sum(costs[head] for head in orders[key[:3]][: len(key[-1])]) for key in points]
    found = np.stack([statistics(max(0.02, 1 - each)) for each in (0, *lost)])
    sizes = [len(orders[point[:3]]) for point in points]
    return by_importance.rows(points, found, sizes), by_importance.kept(found)


def page_22(so: bool) -> Iterator[Row]:
    """In the order of what goes with each head, beside random orders; of single heads' removal
    only noise is known."""
    costs, noise = damage(so), np.random.default_rng(0)
    order = sorted(EVERY, key=lambda head: (costs[head], noise.random()))
    shuffled = [[EVERY[at] for at in noise.permutation(len(EVERY))] for _ in range(4)]
    orders = {("all", "importance", 0): order, ("all", "single-head ablation", 0): shuffled[0]}
    orders |= {("all", "random", at): each for at, each in enumerate(shuffled[1:])}
    for kind in Kind:
        orders[str(kind), "importance", 0] = [head for head in order if head.kind is kind]
    given = {"measured": {("firefox-en-pt", "planted", SENTENCES): along(orders, costs)}}
    given |= {"by_importance": by_importance, "partial": partial}
    summary = ran("22", "LEAST, MOST =", **given)["tables"]["summary"]
    yield from claimed("22", pd.concat(summary))


def page_23(so: bool) -> Iterator[Row]:
    """Early all heads matter alike; late a few matter, or still all alike."""
    measured = {}
    for name, update, costs in (("planted@64", 64, damage(False)), ("planted", 1024, damage(so))):
        order = sorted(EVERY, key=costs.__getitem__)
        ways = {("all", way, 0): order for way in ("importance", "random")}
        measured["planted", "text", SENTENCES, name, update] = along(ways, costs)
    given = {"measured": measured, "by_importance": by_importance, "product": product}
    page = ran("23", "def crossing(", **given)
    yield from claimed("23", pd.concat(page["tables"]["summary"]))


def page_24(so: bool) -> Iterator[Row]:
    """Half of the heads save a seventh of the seconds in large batches alone; or nothing."""
    seconds = np.random.default_rng(0).normal(1, 0.01, (15, 2, 2, 4))  # round, task, batch, share
    seconds[:, :, 1, 2] *= 0.86 if so else 1
    given = {"gains": seconds[..., :1] / seconds - 1, "batches": [1, 64], "rounds": 15}
    given |= {"SHARES": (0, 0.25, 0.5, 0.75), "rounding": [0.0] * 4}
    given |= {"sizes": pd.DataFrame({"attention_share": [0.33] * 4, "heads": range(4)})}
    given |= {"WORK": ["decoding", "forward"], "model": SimpleNamespace(name="toy"), "text": ""}
    yield from claimed("24", ran("24", "def median(", **given)["summary"])


# ------------------------------------------------------------------ do measures agree


def page_25(so: bool) -> Iterator[Row]:
    """What a head says of its token goes with its removal, what it says of shuffled tokens and its
    confidence do not; or nothing does. The page's own summary reads it."""
    noise, shuffled, rows = np.random.default_rng(0), np.random.default_rng(1), []
    for weights in ("released", "drawn anew"):
        for layer, head in np.ndindex(12, 12):
            told, other = noise.normal(0, 1, 2)
            added = noise.normal(0, 0.5) + (told if so and weights == "released" else 0)
            at = {"weights": weights, "layer": layer + 1, "head": head + 1}
            values = {"information": told, "shuffled": shuffled.normal(), "confidence": other}
            rows.append(at | values | {"entropy": other, "added": added})
    told = pd.DataFrame(rows).assign(model="firefox-en-pt", kind="encoder")
    yield from claimed("25", information_summary(told))


def information_summary(told: pd.DataFrame) -> pd.DataFrame:
    """Page 25's summary of such a table."""
    live = pd.DataFrame({"importance": [1.0, 3.0, 2.0], "own translations": [2.0, 3.0, 1.0]})
    given = {"live": live, "OWN": "own translations", "np": np, "rankdata": rankdata}
    given |= {"statistics": correlations, "spearmanr": spearmanr}
    exec(cell("25", "def agree("), given)
    given = {"told": told, "agree": given["agree"], "statistics": correlations}
    return ran("25", "named, drawn = ", **given)["summary"]


def world(make: Callable[[bool], Iterator[Row]], *claims: str) -> World:
    return World(claims, make)


WORLDS = (
    world(page_17, "voita-s6-gates-saturate"),
    world(
        page_18,
        "voita-f7-half",
        "voita-f7-four-fifths",
        "voita-f8-specialised-last",
        "voita-f8-nearest-a-role-last",
        "voita-s6-trained-beats-scratch",
        "voita-s6-choice-matters",
    ),
    world(
        page_19,
        "voita-t2-half",
        "voita-t2-trained-beats-scratch",
        "voita-f9-encoder-first",
        "voita-f9-cross-last",
        "voita-f10-decoder-low",
        "voita-f10-cross-high",
    ),
    world(random_heads, "budhraja-random-hardly-worse", "budhraja-random-everywhere"),
    world(
        page_20,
        "michel-t1-few-significant",
        "michel-t1-half-improve",
        "michel-t1-range",
    ),
    world(page_21, "michel-t5-one-head-suffices", "michel-t2-last-cross-exception"),
    world(
        page_22,
        "michel-f3-fifth-free",
        "michel-f3-importance-beats-ablation",
        "michel-f3-importance-beats-chance",
        "michel-f4-cross-needs-heads",
        "michel-f4-self-survives",
    ),
    world(page_23, "michel-f5-late-prunable", "michel-f5-early-heads-equal"),
    world(page_24, "michel-t4-faster-in-large-batches", "michel-t4-batch-size-matters"),
    world(
        page_25,
        "information-agrees-with-removal",
        "information-within-layer",
        "information-beyond-confidence",
    ),
)
