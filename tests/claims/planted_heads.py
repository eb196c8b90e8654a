"""Pages 01 to 16: a network of six layers of eight heads planted on the bundled treebank.

The weights of every head are planted, and the pages' own measures read them. In the network with
the effect a head of layer 1 points at rare words, five heads at a neighbour, eight follow a verb's
subject or object, and from all others every token looks somewhere at random; the network without
it has heads of that last sort alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

import known_heads as planted
import nbformat
import numpy as np
import pandas as pd
import torch
from claims.simulated import Row, World, claim_row, labels, ledger, standing_in

import headbook as hb
from headbook import paths
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure, RatioSums, best_head
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.heads.positional import REACH, Place, PositionalShare, at_place
from headbook.heads.rare import RareChance, RareShare
from headbook.heads.recording import Shared
from headbook.heads.roles import held_roles
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.looking.answers import QUESTIONS
from headbook.looking.passes import ranks_in
from headbook.models.loaded import Loaded
from headbook.statistics import interval, resampled_within_layers, within_layers
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.batches import Batch, collate
from headbook.text.treebank import read_conllu
from headbook.text.trees import RELATION_DIRECTIONS
from headbook.types import Kind

LAYERS, HEADS = 6, 8
PARALLEL = "ud-pud-en"
"""Text of the rows that claims are judged by."""
LONGEST, REPLICATES = 16, 60
"""Words of a sentence, so that a network is measured in two seconds."""
NEIGHBOURS = {(1, 0): -1, (1, 1): 1, (2, 0): -1, (3, 0): 1, (4, 0): -1}
FOLLOWING = {
    (2, 1): 0,
    (2, 2): 1,
    (3, 1): 2,
    (3, 2): 3,
    (4, 1): 0,
    (4, 2): 2,
    (5, 0): 3,
    (5, 1): 1,
}
"""Which of RELATION_DIRECTIONS a head follows; where it has nothing to follow it points at EOS."""
Weights = torch.Tensor
Grid = list[list[Callable[[Batch], Weights]]]


@dataclass(frozen=True)
class Reading:
    """A model that stands for its name and languages alone, and the text laid on its tokens."""

    model: Loaded
    trees: Sequence[AlignedTree]
    batches: Sequence[Batch]


@lru_cache(maxsize=2)
def reading(times: int = 1) -> Reading:
    """The treebank, so many times, with words for tokens and EOS behind them; no network runs."""
    every = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")
    trees = [tree for tree in every if len(tree) <= LONGEST] * times
    known: dict[str, int] = {}
    pairs = [
        ([*(known.setdefault(form.lower(), 3 + len(known)) for form in tree.forms), 1], [1])
        for tree in trees
    ]
    aligned = [align_all(tree, [*tree.words, None]) for tree in trees]
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][0]))
    groups = [order[first : first + 50] for first in range(0, len(order), 50)]
    batches = [collate([pairs[at] for at in group], group) for group in groups]
    model = standing_in(Loaded, name="planted", languages=("en", "pt"), unknown=0)
    return Reading(model, aligned, batches)


# ------------------------------------------------------------------ heads


def anywhere(seed: int) -> Callable[[Batch], Weights]:
    """Every token looks somewhere, with less than half of its weight: more in some heads."""
    share = 0.3 + 0.02 * (seed % HEADS)
    return lambda batch: mixed(batch, planted.with_noise(batch, uniform(batch), 1.0, seed), share)


def uniform(batch: Batch) -> Weights:
    return planted.uniform(batch)


def mixed(batch: Batch, weights: Weights, share: float) -> Weights:
    """A share of the weights, the rest spread over the sentence."""
    return share * weights + (1 - share) * uniform(batch)


def network(noise: float) -> Grid:
    """The heads with the effect; a share of their tokens looks somewhere at random."""
    grid: Grid = nothing(seed=7)

    def with_noise(weights: Weights, batch: Batch, at: tuple[int, int], share: float) -> Weights:
        seed = 100 + 10 * at[0] + at[1]
        return mixed(batch, planted.with_noise(batch, weights, noise, seed), share)

    for at, offset in NEIGHBOURS.items():
        grid[at[0]][at[1]] = lambda batch, at=at, offset=offset: with_noise(
            planted.at_offset(batch, offset), batch, at, 0.85
        )
    for at, column in FOLLOWING.items():
        grid[at[0]][at[1]] = lambda batch, at=at, column=column: with_noise(
            planted.at_partner(batch, reading().trees, column), batch, at, 0.5
        )
    ranks = ranks_in(reading().batches)
    grid[0][0] = lambda batch: with_noise(planted.at_rarest(batch, ranks), batch, (0, 0), 0.2)
    return grid


def nothing(seed: int) -> Grid:
    """As many heads that look somewhere at random."""
    return [
        [anywhere(1000 * seed + HEADS * layer + head) for head in range(HEADS)]
        for layer in range(LAYERS)
    ]


def measured(
    grid: Grid, measures: dict[str, HeadMeasure], text: Reading | None = None
) -> dict[str, RatioSums]:
    """What the measures say of these heads."""
    for batch in (text or reading()).batches:
        tape = Shared(planted.recording(*([head(batch) for head in layer] for layer in grid)))
        for measure in measures.values():
            measure.update(tape, batch)
    return {name: measure.sums() for name, measure in measures.items()}


def role_measures(replicates: int) -> dict[str, HeadMeasure]:
    """What roles are read off; frequency ranks are of the text's own tokens."""
    text, some = reading(), {"replicates": replicates}
    ranks = ranks_in(text.batches)
    return {
        "confidence": Confidence(Kind.ENCODER, **some),
        "positional": PositionalShare(Kind.ENCODER, **some),
        "syntactic": SyntacticAccuracy(text.trees, **some),
        "offsets": OffsetShare(text.trees, **some),
        "rare": RareShare(ranks, **some),
        "rare_chance": RareChance(ranks, **some),
    }


@lru_cache(maxsize=8)
def sums(so: bool, noise: float = 0.05, seed: int = 1) -> dict[str, RatioSums]:
    """The measures behind roles, of the heads with and without the effect."""
    return measured(network(noise) if so else nothing(seed), role_measures(REPLICATES))


@lru_cache(maxsize=2)
def counts(so: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The same sentence by sentence: hits [sentence, candidate, place], cases [sentence, place].

    Candidates are heads, of "offsets" offsets, and of "rare_chance" one.
    """
    grid, measures = network(0.05) if so else nothing(1), role_measures(0)
    kept = {name: ([], [], []) for name in measures}
    for batch in reading().batches:
        tape = Shared(planted.recording(*([head(batch) for head in layer] for layer in grid)))
        for name, parts in kept.items():
            for part, each in zip(parts, measures[name].contributions(tape, batch), strict=False):
                part += list(each.numpy())
            parts[2].extend(batch.sentences.tolist())
    found = {}
    for name, (hits, cases, order) in kept.items():
        hits, cases = (np.stack(part)[np.argsort(order)] for part in (hits, cases))
        of = {"offsets": hits.shape[1], "rare_chance": 1}.get(name, LAYERS * HEADS)
        hits = hits.reshape(len(hits), of, -1)
        found[name] = hits, cases.reshape(len(cases), -1) * np.ones(hits.shape[-1])
    return found


def answered(so: bool) -> SimpleNamespace:
    """Names of the heads and their answers to the questions of the trees, as a page has them."""
    places = [f"L{1 + layer}H{1 + head}" for layer in range(LAYERS) for head in range(HEADS)]
    found = counts(so)
    right, asked = found["syntactic"]
    offsets = found["offsets"][0]
    return SimpleNamespace(
        heads=np.array(places), questions=QUESTIONS, right=right, asked=asked, offsets=offsets,
        rules=np.zeros_like(offsets[:, :1]),
    )  # fmt: skip


# ------------------------------------------------------------------ worlds


def page_1(so: bool) -> Iterator[Row]:
    """Scores of unrelated numbers, and symmetric ones, by the page's own measure."""
    page = {"np": np, "hb": hb, "torch": torch}
    for first in ("def share(S)", "def of_sentence(S)"):
        exec(cell("01", first).partition("\nassert")[0], page)
    noise, sizes = np.random.default_rng(0), [len(tree.pieces) - 1 for tree in reading().trees]
    scores = [noise.normal(size=(1, HEADS, size, size)) for size in sizes]
    page["scores"] = lambda _, given: given if so else given + given.mT
    least = page["measured"](None, scores)[:, :, 0].min(1)
    yield _released("why-scores-not-symmetric", *interval(least))


def ran(number: str, first: str, **given: object) -> dict[str, object]:
    """What a page's cells leave, from the one that holds `first` to its summary; none publishes."""
    (path,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    start = next(at for at, cell in enumerate(code) if first in cell.source)
    end = next(at for at, cell in enumerate(code) if "summary" in cell.metadata.get("tags", []))
    book = SimpleNamespace(
        table=hb.table, shares=hb.shares, best=hb.best, publish=lambda frame, *_: frame,
        source=lambda _: None,
    )  # fmt: skip
    found = {"hb": book, "np": np, "pd": pd, "KEYS": ["model", "text", "sentences"], **given}
    for cell in code[start : end + 1]:
        if "hb.load(" not in cell.source:
            exec(compile(cell.source, path.name, "exec"), found)
    return found


def cell(number: str, first: str) -> str:
    """The code of a page's cell that holds `first`."""
    (path,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    return next(each.source for each in cells if first in each.source)


def page_11(so: bool) -> Iterator[Row]:
    """The page's own cells, from its thresholds to its summary, on the planted heads."""
    found = counts(so)
    names = {"right": "syntactic", "fixed": "offsets", "offsets": "positional"}
    given = {name: found[names.get(name, name)] for name in ("confidence", "rare", *names)}
    given = {"measured": [(reading().model, None, answered(so), given, _whose())]}
    summary = ran("11", "def shares(", **given)["summary"]
    values = dict(zip(summary["question"], summary["value"], strict=True))
    for row in claimed("11", summary):
        role = ledger().claim(row["claim"]).role
        shut = role is not None and not values[f"{role} heads"]
        yield {**row, "closed": "present" if shut else ""}


def _whose() -> dict[str, object]:
    return {"model": "firefox-en-pt", "text": PARALLEL, "sentences": len(reading().trees)}


def claimed(page: str, summary: pd.DataFrame) -> Iterator[Row]:
    """The row of the summary that each claim of a page, or of a table "41/summary", points at."""
    for claim in ledger().claims:
        of = claim.study[:2] == page[:2] and (claim.value or "").startswith(page)
        if of and "question=" in claim.value:
            question = claim.value.partition("question=")[2].partition("]")[0]
            (row,) = summary[summary["question"] == question].to_dict("records")
            yield _released(claim.id, *(float(row[f"value{end}"]) for end in ("", "_low", "_high")))


def page_13(so: bool) -> Iterator[Row]:
    """Heads that follow a verb's subject and object, and heads at a neighbour, which find adverbs
    and adjectives as fixed offsets do; the treebank stands there eight times."""
    text = reading(times=8)
    heads = [
        *(
            lambda batch, column=column: planted.at_partner(batch, text.trees, column)
            for column in range(4)
        ),
        *(lambda batch, offset=offset: planted.at_offset(batch, offset) for offset in (-1, 1)),
    ]
    noisy = [
        lambda batch, at=at, head=head: planted.with_noise(batch, head(batch), 0.02, at)
        for at, head in enumerate(heads)
    ]
    measures = {
        "heads": SyntacticAccuracy(text.trees, replicates=REPLICATES),
        "offsets": OffsetShare(text.trees, replicates=REPLICATES),
    }
    found = measured([noisy if so else [anywhere(seed) for seed in range(6)]], measures, text)
    best, scores = best_head(found["heads"]), found["heads"].replicates(half=1).numpy()
    value = scores[:, best.layer, best.head, range(scores.shape[-1])]
    offset = offset_baseline(found["offsets"]).accuracy[None].numpy()
    for at, (relation, direction) in enumerate(RELATION_DIRECTIONS):
        claim = f"voita-t1-{relation}-{direction.replace('_', '-')}"
        yield _released(claim, *interval(value[:, at]), offset[0, at])
    lead = (value - offset).clip(0)
    of_verbs = lead[:, :4].mean(1) - lead[:, 4:].mean(1)
    yield _released("voita-f4-verb-relations-strongest", *interval(of_verbs))


def _released(claim: str, value: float, low: float, high: float, baseline: float = np.nan) -> Row:
    numbers = {"value": value, "low": low, "high": high, "baseline": float(baseline)}
    return claim_row(claim, labels("firefox-en-pt", "released"), **numbers)


def page_14(so: bool) -> Iterator[Row]:
    """In a corpus of each length: the head of the first layer that is best at the two rarest."""
    rare, chance = sums(so)["rare"], sums(so)["rare_chance"]
    head = int(rare.ratio(half=0)[0, :, 1].argmax())
    layers = rare.replicates()[..., 1].amax(-1).argmax(-1).double() + 1
    there = bool((rare.ratio()[..., 1] >= 0.5).any())
    named = {"rarest": 0, "two-rarest-short": 1, "two-rarest-long": 1}
    for corpus in ("opensubtitles2018-ru", "wmt-ru"):
        of = labels(corpus=corpus, target="ru", seed=0)
        for claim, place in named.items():
            low, high = (float(end[0, head, place]) for end in rare.interval(half=1))
            yield claim_row(
                f"voita-f5-{claim}", of, float(rare.ratio(1)[0, head, place]), low, high,
                baseline=float(chance.ratio(1)[0, 0, place]),
            )  # fmt: skip
        closed = "none" if there else "present: no rare-word head"
        first = claim_row("voita-f5-first-layer", of, *interval(layers))
        yield {**first, "closed": closed}


def page_15(so: bool) -> Iterator[Row]:
    """The page's own cells, from the thresholds of roles to its summary, on the planted heads."""
    found, answers = counts(so), answered(so)
    near, beside = (each[..., [REACH - 1, REACH + 1]] for each in found["positional"])
    rare, there = (each[..., 1:] for each in found["rare"])
    right = np.concatenate([near, answers.right, rare], -1)
    asked = np.concatenate([beside, answers.asked, there], -1)
    chance = found["rare_chance"][0][..., 1:]
    given = {"counts": [(_whose(), True, answers, right, asked, chance)]}
    yield from claimed("15", ran("15", "def roles(", **given)["summary"])


def page_16(so: bool) -> Iterator[Row]:
    """Relevance that follows confidence and roles; or the same for every head but for noise."""
    found = sums(so)
    confidence = found["confidence"].replicates().numpy()
    neighbour = at_place(found["positional"].ratio(), Place.NEIGHBOUR).amax(-1)
    lead = (found["syntactic"].ratio() - found["offsets"].ratio().amax(0)).amax(-1)
    rare = found["rare"].ratio()[..., 1]
    near = torch.stack([neighbour / 0.9, lead / 0.1, rare / 0.5]).amax(0).numpy()
    raw = np.random.default_rng(0).normal(1, 0.005, confidence.shape)
    if so:
        raw = raw + near.clip(0, 1) + confidence
    parts = raw / raw.sum(-1, keepdims=True)
    tops, names = parts.argmax(-1)[..., None], ("positional", "syntactic", "offsets", "rare")
    held = held_roles(*(found[name].replicates() for name in names)).values()
    with_role = np.take_along_axis(np.stack([*held]).any(0), tops, -1).mean((1, 2))
    first = found["rare"].replicates()[:, 0, tops[0, 0, 0], 1].numpy()
    chance = found["rare_chance"].ratio()[0, 0, 1]
    follows = within_layers(parts[:, 1:], confidence[:, 1:]).mean(-1)
    largest = interval((HEADS * parts.max(-1)).mean(-1))
    yield _released("voita-f1a-few-dominate", *largest, 1.0)
    yield _released("voita-f1a-follows-confidence", *interval(follows))
    yield _released("voita-f1a-rare-most-relevant", *interval(first), chance)
    yield _released("voita-f1a-top-heads-have-roles", *interval(with_role))
    roles_of = interval(resampled_within_layers(near, parts[0]))
    yield _released("voita-f1a-follows-roles", *roles_of)


WORLDS = (
    World(("why-scores-not-symmetric",), page_1),
    World(
        tuple(
            f"voita-{each}"
            for each in (
                "f1b-positional-confident",
                "f1b-few-confident",
                "f1b-confident-are-positional",
                "f1b-rare-not-confident",
                "f1c-positional",
                "f1c-positional-adjacent",
                "f1c-both-neighbours",
                "f1c-syntactic",
                "f1c-rare",
                "f1c-unclassified",
            )
        ),
        page_11,
    ),
    World(
        (
            *(
                f"voita-t1-{relation}-{direction}"
                for relation in ("nsubj", "dobj", "amod", "advmod")
                for direction in ("head-to-dependent", "dependent-to-head")
            ),
            "voita-f4-verb-relations-strongest",
        ),
        page_13,
    ),
    World(
        (
            "voita-f5-rarest",
            "voita-f5-two-rarest-short",
            "voita-f5-two-rarest-long",
            "voita-f5-first-layer",
        ),
        page_14,
    ),
    World(("voita-f2-roles-in-every-language", "voita-f4-syntax-in-every-language"), page_15),
    World(
        tuple(
            f"voita-f1a-{each}"
            for each in (
                "few-dominate",
                "follows-confidence",
                "rare-most-relevant",
                "top-heads-have-roles",
                "follows-roles",
            )
        ),
        page_16,
    ),
)
