"""Worlds in which a claim of data/claims/4_why.yml holds, and others in which it does not.

Every world gives the rows of claims that a page makes of it, by the page's own measures and claim
functions. What is planted is named in each docstring: projections, weights, states or keys where a
page computes from these in a second, else the score of each training or text that it reads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import islice, product
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from unittest.mock import Mock

import nbformat
import numpy as np
import pandas as pd
import tensorly.decomposition
import torch
from claims.planted_heads import _released as released
from claims.planted_heads import claimed, ran
from claims.simulated import Row, labels, ledger
from torch import nn

import headbook as hb
from headbook import cells
from headbook.corpora.retrieval import CHANCE
from headbook.experiments import collaborating as scratch
from headbook.experiments import far_values
from headbook.experiments import fewer_keys as trained
from headbook.heads.nulls import Null
from headbook.looking.sublayers import Encoder, Layer
from headbook.models.capture import Point
from headbook.models.fast_weights import elu_plus_one
from headbook.models.fewer_keys import means
from headbook.models.mixing import Mixing
from headbook.paths import NOTEBOOKS
from headbook.results import published
from headbook.runs.store import Store
from headbook.statistics import (
    interval,
    over_seeds,
    percentile_interval,
    resampled_mean,
    resampled_ratio,
)
from headbook.text.batches import Batch
from headbook.types import Kind

SEEDS = range(3)


@cache
def _store() -> Store:
    return Store(Path(mkdtemp()))


def _drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def shared_directions(holds: bool) -> Iterator[Row]:
    """Query and key projections of four heads: within four directions of the model, or anywhere."""

    def attentions(_: object) -> Iterator[tuple]:
        heads, model, width = 4, 32, 8
        for layer in range(4):
            sides = []
            for side in (0, 100):
                own = _drawn(heads, model, width, seed=layer + side)
                common = _drawn(model, 4, seed=layer + side) @ _drawn(heads, 4, width, seed=layer)
                sides.append((common + 0.01 * own if holds else own).double())
            yield Kind.ENCODER, layer, *sides

    *_, queries, keys = next(attentions(None))
    book = SimpleNamespace(
        table=hb.table,
        publish=lambda frame, *_: frame,
        plots=Mock(),
        load=lambda name: SimpleNamespace(name=name),
    )
    given = {"hb": book, "torch": torch, "attentions": attentions, "Q": queries, "K": keys}
    found = ran("40", "def energy(", **given, models=["firefox-en-pt"])
    yield from claimed("40", found["summary"])


class _Reader:
    """Distance of drawn vectors from those of the first call, which is of ordinary heads."""

    def __init__(self, now: dict) -> None:
        self.now, self.before = now, None

    def cost(self) -> np.ndarray:
        self.before = self.now["vectors"] if self.before is None else self.before
        return 1 - nn.functional.cosine_similarity(self.now["vectors"], self.before).numpy()


def _collaborating(queries: list, keys: list) -> Iterator[Row]:
    """Page 41's own cells on layers of these projections, [head model dim].

    Sentences are drawn states that meet the first layer; their vectors are its mean output.
    """
    layers, states, now = [], _drawn(30, 8, 32, seed=5), {}
    for sides in zip(queries, keys, strict=True):
        linear = [nn.Linear(32, each.shape[0] * each.shape[2]) for each in sides]
        for one, each in zip(linear, sides, strict=True):
            one.weight, one.bias = nn.Parameter(each.mT.flatten(0, 1)), nn.Parameter(0 * one.bias)
        layers.append((*linear, *sides))
    query, _, *sides = layers[0]

    @contextmanager
    def rewritten(_: object, terms: list, scores: Callable) -> Iterator[None]:
        weights = scores(terms[0], query, sides[1], states, states).softmax(-1)
        now["vectors"] = (weights @ states[:, None]).mean(2).flatten(1).double().detach()
        yield

    model = SimpleNamespace(name="toy", languages=("en", None))
    book = Mock(publish=lambda frame, *_: frame, load=lambda _: model)
    given = {
        "hb": book, "torch": torch, "tensorly": tensorly, "Fraction": Fraction, "model": model,
        "attentions": lambda _: layers, "Reader": lambda *_: _Reader(now), "rewritten": rewritten,
        "collaborating": Mock(sweep=lambda **_: pd.DataFrame({"updates": [1]})),
        "resampled_mean": resampled_mean, "Q": sides[0], "K": sides[1],
        "rows": [{"dimensions": 1, "lacking, %": 0}],
    }  # fmt: skip
    parameters = {"models": ["toy"], "shares": ["2/3", "1/2"], "iterations": 15, "sentences": 30,
                  "translated": 0, "training": {"updates": 1}}  # fmt: skip
    summary = ran("41", "def separate(", **given, **parameters)["summary"]
    yield from claimed("41/summary", summary)


def collaboration(holds: bool) -> Iterator[Row]:
    """Projections of four heads, 16 wide: within eight directions that each weighs in its own way,
    or anywhere."""
    sides = []
    for side in (0, 100):
        own = [_drawn(4, 32, 16, seed=side + layer) / 2 for layer in range(3)]
        if holds:
            common = [torch.linalg.qr(_drawn(32, 8, seed=side + layer)).Q for layer in range(3)]
            own = [each * (2 + _drawn(4, 1, 8, seed=at).tanh()) for at, each in enumerate(common)]
            own = [nn.functional.pad(each, (0, 8)) + 0.001 * _drawn(4, 32, 16, seed=at)
                   for at, each in enumerate(own)]  # fmt: skip
        sides.append(own)
    return _collaborating(*sides)


def separate_heads(holds: bool) -> Iterator[Row]:
    """Heads within common directions, or each in four directions of its own that suffice it."""
    if holds:
        return collaboration(True)
    own = torch.eye(32)[:, :16].unflatten(1, (4, 4)).permute(1, 0, 2) * 2
    own = nn.functional.pad(own, (0, 12))
    noisy = [[own + 0.01 * _drawn(4, 32, 16, seed=at + side) for at in range(3)]
             for side in (0, 9)]  # fmt: skip
    return _collaborating(*noisy)


def recall_from_scratch(holds: bool) -> Iterator[Row]:
    """Share of keys recalled by each training: shared dimensions help, or seeds spread alone."""
    noise, rows = np.random.default_rng(0), []
    for heads, dims, rate, seed in product(
        scratch.KINDS, scratch.DIMS, scratch.RATES, scratch.SEEDS
    ):
        few = dims == min(scratch.DIMS)
        right = 1.0 if not few else 0.5 + 0.3 * (holds and heads == "collaborative")
        right += 0.02 * noise.normal()
        rows.append({"heads": heads, "dims": dims, "rate": rate, "seed": seed, "loss": 1 - right,
                     "right": right})  # fmt: skip
    for row in scratch.gain(pd.DataFrame(rows)).to_dict("records"):
        given = released("collaborating-from-scratch", row["value"], np.nan, np.nan)
        yield {**given, "seed": str(row["seed"]), "closed": row["closed"]}


def _spectra(weights: Callable, redrawn: Callable) -> Iterator[Row]:
    """Page 42's own cells on scores by (layer, length) instead of those that a model computes."""
    drawn, tape = [False], {}

    def network(batch: Batch) -> None:
        make = redrawn if drawn[0] else weights
        scores = [make(layer, batch.source.shape[1])[None] for layer in range(4)]
        tape[Kind.ENCODER, Point.SCORES] = scores
        tape[Kind.ENCODER, Point.WEIGHTS] = [each.softmax(-1) for each in scores]

    @contextmanager
    def ignorant(*_):
        drawn[0] = True
        yield
        drawn[0] = False

    def batches(texts: list[str]) -> list[Batch]:
        ids = torch.full((1, len(texts[0].split())), 10)
        return [Batch(ids, ids, ids, torch.tensor([0]))]

    model = SimpleNamespace(name="toy", network=network, pieces=str.split, batches=batches)
    book = SimpleNamespace(
        attention=lambda *_, **__: {"L1H1": np.eye(4)},
        load=lambda _: model,
        plots=Mock(),
        publish=lambda frame, *_: frame,
        text=lambda _: SimpleNamespace(sentences=["word " * 1000]),
    )
    given = {
        "hb": book, "torch": torch, "capture": lambda *_: nullcontext(tape), "islice": islice,
        "without_knowledge": ignorant, "Null": Null, "replace": replace, "Point": Point,
        "Kind": Kind, "resampled_mean": resampled_mean, "model": model, "sentence": "",
    }  # fmt: skip
    parameters = {"models": ["toy"], "lengths": [16, 128], "texts": 1, "heads": ["L1H1"]}
    yield from claimed("42", ran("42", "def held(", **given, **parameters)["summary"])


def low_rank_scores(holds: bool) -> Iterator[Row]:
    """Scores by the kinds of two tokens, six kinds in any text, or independent ones."""

    def independent(layer: int, size: int) -> torch.Tensor:
        return 3 * _drawn(2, size, size, seed=layer + size)

    def few(layer: int, size: int) -> torch.Tensor:
        kinds = 6
        of = torch.arange(size) % kinds
        return 3 * _drawn(2, kinds, kinds, seed=layer)[:, of][:, :, of]

    return _spectra(few if holds else independent, independent)


def flat_above(holds: bool) -> Iterator[Row]:
    """Independent scores, which spread less from layer to layer, or everywhere alike."""

    def scores(layer: int, size: int) -> torch.Tensor:
        spread = 3 / (1 + 2 * layer) if holds else 3
        return spread * _drawn(8, size, size, seed=layer + size)

    return _spectra(scores, scores)


def mixed_keys(holds: bool, *, by_layer: bool = False) -> list:
    """Tokens that come in 32 groups of four places: the same in every text, or others in each.

    With `by_layer` they are others in each layer instead. Given is what mixtures learn: the mean of
    the groups of the texts and layers that they are for.
    """
    size, groups, width, layers = 128, 32, 16, 2

    def group(text: int, layer: int) -> torch.Tensor:
        own = 0 if holds else (layer if by_layer else 1 + text)
        return torch.randperm(size, generator=torch.Generator().manual_seed(own)) % groups

    def side(seed: int) -> torch.Tensor:
        of_group = [_drawn(groups, width, seed=seed)[group(0, layer)] for layer in range(layers)]
        return torch.stack(of_group)

    def attended(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return (queries @ keys.mT * width**-0.5).softmax(-1) @ values

    def lost(mixing: torch.Tensor) -> float:
        whole, mean = attended(keys, values), values.mean(-2, keepdim=True)
        mixed = attended(mixing @ keys, mixing @ values)
        wrong, most = ((x - whole).square().sum((-2, -1)) for x in (mixed, mean))
        return float((wrong / most).mean())

    queries, keys, values = 2 * _drawn(layers, size, width, seed=50), side(0), side(99)
    places = [[nn.functional.one_hot(group(text, layer), groups).mT / 4.0
               for layer in range(layers)] for text in (1, 2)]  # fmt: skip
    places = torch.stack([torch.stack(each) for each in places]).mean(0)
    rows = []
    for seed in SEEDS:
        noise = 0.001 * _drawn(*places.shape, seed=seed)
        own = lost(places + noise)
        found = {"quarter-is-enough": own, "beats-means": lost(means(groups, size)) - own,
                 "one-matrix-is-enough": lost(places.mean(0) + noise[0]) - own}  # fmt: skip
        nothing = dict.fromkeys(("low", "high", "baseline"), np.nan)
        rows += [{"claim": f"linformer-{name}", **labels(seed=str(seed)), "value": value, **nothing}
                 for name, value in found.items()]  # fmt: skip
    return rows


def mixed_keys_by_layer(holds: bool) -> list:
    """The same groups in both layers, or others in each."""
    return mixed_keys(holds, by_layer=True)


def going_on(holds: bool) -> list:
    """Nats of each held-out text after training: as good with few mixtures, or worse by a tenth."""
    noise, found = np.random.default_rng(0), {}
    worse = {trained.ALL: 0.0, trained.HEAD: 0.01, trained.LAYER: 0.01, trained.ONE: 0.02,
             trained.MEANS: 0.2}  # fmt: skip
    if not holds:
        worse |= {trained.LAYER: 0.2, trained.ONE: 0.2}
    for (name, more), seed in product(worse.items(), SEEDS):
        nats = 4 + more + 0.01 * noise.normal(size=60)
        found[name, 1 if name == trained.ALL else 4, seed] = pd.DataFrame(dict(half=nats, end=nats))
    claims = {"a quarter": "quarter-is-enough", "means": "beats-means",
              "sharing": "sharing-costs-little"}  # fmt: skip
    return [
        {"claim": f"linformer-trained-{claims[row['question']]}", **labels(seed=str(row["seed"])),
         "value": row["value"], "low": row["value_low"], "high": row["value_high"],
         "baseline": np.nan, "closed": row["closed"]}
        for row in trained.differences(found)
    ]  # fmt: skip


def feature_map(holds: bool) -> list:
    """Weights of heads: those of ELU + 1 on their queries and keys, or at one token, anywhere."""
    gains = []
    for layer in range(4):
        queries, keys = (3 * _drawn(4, 12, 16, seed=layer + side).double() for side in (0, 20))
        if holds:  # as far from uniform as such weights can be
            keys[:, 3:] -= 20
        products = torch.matmul(*(elu_plus_one(x * 16**-0.25) for x in (queries, keys.mT)))
        mapped = products / products.sum(-1, keepdim=True)
        place = torch.randint(12, (4, 12), generator=torch.Generator().manual_seed(layer))
        weights = mapped if holds else nn.functional.one_hot(place, 12).double()
        uniform, far = ((weights - each).abs().sum(-1).mean(-1) / 2 for each in (1 / 12, mapped))
        gains.append(uniform - far)
    drawn = np.random.default_rng(0).integers(16, size=(2000, 16))
    gain = torch.cat(gains).numpy()
    low, high = percentile_interval(gain[drawn].mean(1))
    value = {"value": gain.mean(), "low": low, "high": high, "baseline": np.nan}
    return [{"claim": "fast-weights-untrained-map", **labels(), **value}]


def memories(holds: bool) -> Iterator[dict[str, object]]:
    """Losses of the best matrix of each memory's rank, or of one rank whatever the features.

    Several heads have directions of their own, or all the same. What is written again adds up
    beside the rank's loss where the rule is a sum. Random features have rank two.
    """
    noise = np.random.default_rng(0)

    def loss(keys: int, features: int, heads: int = 1) -> float:
        rank = features if holds else 32 // heads
        return max(0.0, (1 - rank / keys) / 2) + 1e-4 * noise.random()

    def kept(keys: int, features: int, heads: int = 1) -> float:
        return keys * (1 - 2 * loss(keys, features, heads))

    for seed in SEEDS:
        found = {
            "until-features": loss(60, 64),
            "grows-with-features": kept(100, 128) - kept(100, 64),
            "random-features-less": kept(60, 128) - kept(60, 2),
            "softmax-more": loss(300, 1000),
            "delta-updates": loss(40, 128) + 0.1 * holds - loss(40, 128),
            "several-heads-more": kept(100, 64, 4) - kept(100, 64),
        }
        for claim, value in found.items():
            yield {"claim": f"capacity-{claim}", **labels(seed=seed), "value": value}


def _page(number: str, *words: str, **given: object) -> dict:
    """What a page's imports and its cells that hold these words leave; none draws or publishes."""
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    made: dict[str, pd.DataFrame] = {}
    book = SimpleNamespace(table=hb.table, paper=hb.paper)
    book.publish = lambda frame, name, *_: made.setdefault(name, frame)
    found = {"made": made}
    for cell in nbformat.read(path, as_version=4).cells:
        hidden = "remove-cell" in cell.metadata.get("tags", [])
        if cell.cell_type == "code" and (hidden or any(each in cell.source for each in words)):
            exec(compile(cell.source, path.name, "exec"), found)
            found |= {"hb": book} | (given if hidden else {})
    return found


def _claimed(number: str, made: dict[str, pd.DataFrame]) -> list[dict]:
    """The rows of the page's tables that its claims point at."""
    rows = []
    for claim in ledger().claims:
        if claim.study.startswith(number):
            reference = cells.parse(claim.value)
            table = made[f"{number}/{reference.table}"]
            for column, _, value in (key.partition("=") for key in reference.keys):
                table = table[table[column] == value]
            table = table.rename(columns={"value_low": "low", "value_high": "high"})
            other = {"claim": claim.id, "corpus": "", "target": ""}
            rows += [{"seed": "", **row, **other} for row in table.to_dict("records")]
    return rows


def _collapsed(attention, feed_forward) -> list[dict]:
    """Page 46 on an encoder of twelve such layers without norms, on drawn states."""

    def same(states: torch.Tensor) -> torch.Tensor:
        return states

    def embed(batch: Batch) -> torch.Tensor:
        return _drawn(1, 12, 16, seed=int(batch.sentences[0])).double()

    ids = torch.full((1, 12), 10)
    texts = [Batch(ids, ids[:, :1], ids[:, :1], torch.tensor([each])) for each in range(8)]
    apart = Encoder(embed, [Layer(attention, same, feed_forward, same)] * 12)
    measured = _page("46", "def around(", "def states(", "def size(", "def measured(")["measured"]
    return _rank_collapse(every={("toy", "released"): measured(apart, texts)})


def _rank_collapse(**planted: object) -> list[dict]:
    given = {"models": [], "every": {}, "slopes": [3, 9], "answers": _answers(True)} | planted
    given["models"] = [name for name, _ in given["every"]] or ["none"]
    given["every"] = given["every"] or {("none", "released"): np.ones((8, 4, 3))}
    return _claimed("46", _page("46", "def intervals(", "ASKED = ", **given)["made"])


def _around(states: torch.Tensor) -> torch.Tensor:
    return states - states.mean(1, keepdim=True)


def averaging(holds: bool) -> list:
    """Attention that gives each token half of the mean, and feed-forward parts that set tokens
    apart; or attention to the own token alone, and feed-forward parts that bring them together."""
    if holds:
        return _collapsed(lambda x: x - 0.6 * _around(x), lambda x: 0.5 * _around(x))
    return _collapsed(lambda x: x, lambda x: -0.5 * _around(x))


def skips(holds: bool) -> list:
    """Attention that adds a little of the mean to a token, or so much that the token is lost."""
    size = 0.05 if holds else 10
    return _collapsed(lambda x: size * (x - _around(x)), lambda x: 0 * x)


def _answers(holds: bool) -> pd.DataFrame:
    noise, rows = np.random.default_rng(0), []
    right = {("most frequent", -1): 0.1, ("whole", -1): 1.0, ("up to", 2): 0.1 + 0.88 * holds}
    right |= {("along", 1): 0.1 + 0.8 * holds, ("along", 6): 0.1}
    right |= {("along, untrained", 1): 0.1, ("along, untrained", 6): 0.1}
    tasks = ("memorising", "sorting", "convex hull")
    for task, seed, (by, steps) in product(tasks, SEEDS, right):
        value = right[by, steps] + 0.005 * noise.normal() * (by != "whole")
        rows.append({"task": task, "seed": seed, "by": by, "length": steps, "right": value})
    return pd.DataFrame(rows)


def paths(holds: bool) -> list:
    """Right labels of each training's paths: short ones answer, or none does more than guess."""
    return _rank_collapse(answers=_answers(holds))


def _tuned(accuracy: Callable) -> list[dict]:
    """Page 47 on its trainings, each with every seed and such a test accuracy; seeds spread."""
    noise, first = np.random.default_rng(0), published(47, "trainings")
    first = first.query("model == 'minilm' and seed == 0")
    rows = pd.concat([first.assign(seed=seed) for seed in SEEDS], ignore_index=True)
    rows["shuffled"] = rows["shuffled"].astype(bool)
    right = np.array([accuracy(row) for row in rows.itertuples()])
    for column in ("test", "validation"):
        rows[column] = right + 0.002 * noise.normal(size=len(rows))
    knows = (rows["trainable"] == "+ norms") & (right > 0.9)
    rows["validation"], rows["loss"] = rows["validation"].mask(knows, 1), 1.0
    words = ("def chosen(", "one, best =", "both = pd.concat", "def ask(")
    made = _page("47", *words, rows=rows)["made"]
    return _claimed("47", made)


def frozen(holds: bool) -> list[dict]:
    """Test accuracy of each training. Training in full wants another rate than the one that all
    were given, and one tunes norms and trained matrices with success; or the frozen network is as
    good as one redrawn, and behind at either rate by as much."""

    def accuracy(row) -> float:
        if row.trainable == "all":
            return 0.95 if row.rate == 3e-4 or not holds else 0.7
        if row.trainable == "+ norms":
            return 0.98 if holds else 0.5
        if not holds:
            return 0.7
        return 0.8 - 0.1 * (row.start == "redrawn")

    return _tuned(accuracy)


def frozen_at_best(holds: bool) -> list[dict]:
    """Test accuracy of each training: in full it is ahead at its own rate, or at none."""

    def accuracy(row) -> float:
        full = row.trainable == "all" and row.rate == 3e-4
        return 0.95 if full and holds else 0.7

    return _tuned(accuracy)


SIZES = (512, 1024, 2048, 4096, 8192)
FEEDING, WAYS = "feed-forward", ("forward", "there and back")


def page_48(**planted: pd.DataFrame) -> pd.DataFrame:
    """Rows of claims by the page's own summary of planted tables; the others are published ones."""
    given = {name: published(48, name) for name in ("times", "memory", "retrieval", "lists")}
    made = {"FORWARD": WAYS[0], "BACK": WAYS[1], "FEEDING": FEEDING, "MASKED": "window, masked"}
    made |= {"far": far_values, "CHANCE": CHANCE, "over_seeds": over_seeds}
    summary = ran("48", "def slope(", **(given | made | planted))["summary"]
    claims = {each.value: each.id for each in ledger().claims if each.study == "48_length"}
    named = summary["question"].map(lambda each: claims.get(f"48/summary[question={each}].value"))
    names = {"value_low": "low", "value_high": "high"}
    return summary.assign(claim=named, target="", baseline=np.nan).rename(columns=names)


def costs(holds: bool) -> pd.DataFrame:
    """Seconds of each round: full attention by the square, others by the length.

    Where the claims do not hold it is the other way round.
    """
    noise, times = np.random.default_rng(0), []
    for kind, size, way in product((*Mixing, FEEDING), SIZES, WAYS):
        square = (kind in (Mixing.FULL, Mixing.FUSED)) is holds and kind != FEEDING
        taken = size**2 / 256 / 8 if square else float(size) / 8
        taken = taken if kind != FEEDING else size / 64
        times += [
            {
                "kind": str(kind),
                "length": size,
                "direction": way,
                "round": number,
                "seconds": taken * (1 + 0.01 * noise.normal()),
            }
            for number in range(5)
        ]
    return page_48(times=pd.DataFrame(times))


def retrieved(holds: bool) -> pd.DataFrame:
    """Values that each training finds far away: all but windows see there, or windows alone do."""
    noise, rows = np.random.default_rng(0), []
    for kind, seed in product(far_values.FINDING, SEEDS):
        sees = kind == Mixing.FULL or (kind != Mixing.WINDOW) is holds
        far = (0.98 if sees else CHANCE) + 0.003 * noise.normal()
        rows.append({"kind": str(kind), "asks": far_values.FIRST, "seed": seed, "near": 0.99,
                     "far": far})  # fmt: skip
    return page_48(retrieval=pd.DataFrame(rows))


def lists(holds: bool) -> pd.DataFrame:
    """Lists that each training solves: windows and linear attention guess, or they alone do not."""
    noise, rows = np.random.default_rng(0), []
    for kind, seed in product(far_values.SOLVING, SEEDS):
        guesses = (kind in (Mixing.WINDOW, Mixing.LINEAR)) is holds and kind != Mixing.FULL
        right = (0.35 if guesses else 0.8) + 0.003 * noise.normal()
        rows.append({"kind": str(kind), "seed": seed, "right": right, "guess": 0.35})
    return page_48(lists=pd.DataFrame(rows))


def routing_head(holds: bool) -> Iterator[dict[str, object]]:
    """A head with all weight on the previous token, whose value is the token's own; or weights that
    are drawn at random. Tokens are named by the nearest of all tokens' values."""
    noise, spread = np.random.default_rng(0), 0.05
    tokens, known = noise.integers(12, size=(40, 12)), noise.normal(size=(12, 4))
    values = known[tokens] + spread * noise.normal(size=(40, 12, 4))
    drawn = noise.dirichlet(np.ones(12), size=(40, 12))
    weights = np.broadcast_to(np.eye(12, k=-1), drawn.shape) if holds else drawn
    edge = np.eye(12, k=-1, dtype=bool)
    masked = np.where(edge, 0, drawn)
    masked /= masked.sum(-1, keepdims=True)

    def hits(context: np.ndarray) -> np.ndarray:
        named = np.linalg.norm(context[:, 1:, None] - known, axis=-1).argmin(-1)
        return (named == tokens[:, :-1]).ravel().astype(float)

    brought = hits(weights @ values)
    most, least = hits(np.roll(values, 1, 1)), (tokens[:, :-1] == 0).ravel()
    rows = {
        "head-routes-token": resampled_ratio(brought - least, most - least, seed=0),
        "head-is-the-path": resampled_ratio(brought - hits(masked @ values), most - least, seed=0),
    }
    found = {claim: interval(shares) for claim, shares in rows.items()}
    found["affine-nearest"] = brought.mean(), *resampled_mean(brought, 0)
    for claim, ends in found.items():
        named = dict(zip(("value", "low", "high"), ends, strict=True))
        yield {"claim": f"binding-{claim}", **labels(), **named}


def roles(holds: bool) -> Iterator[dict[str, object]]:
    """Right answers of each training: roles of the query help more with depth, or seeds spread."""
    noise = np.random.default_rng(0)
    gain = 0.02 * holds * np.arange(1, 4)
    plain, constant, query = 0.92 + 0.002 * noise.normal(size=(3, 3, 3))  # [roles, seed, depth]
    query = query + gain
    found = {
        "roles-help": (query - plain).mean(1),
        "roles-of-the-query": (query - constant).mean(1),
        "deeper-gains-more": (query - plain)[:, -1] - (query - plain)[:, 0],
    }
    for claim, seeds in found.items():
        own = over_seeds(seeds)
        named = {"value": own.mean, "low": own.low, "high": own.high}
        yield {"claim": f"binding-{claim}", **labels(), **named}


WORLDS = {
    shared_directions: ("why-query-key-low-rank", "why-query-key-shared"),
    collaboration: ("collaborating-two-thirds", "collaborating-beyond-random"),
    separate_heads: ("collaborating-beats-separate",),
    recall_from_scratch: ("collaborating-from-scratch",),
    low_rank_scores: ("low-rank-beyond-random", "low-rank-log-length", "low-rank-learnt"),
    flat_above: ("low-rank-upper-layers",),
    mixed_keys: ("linformer-quarter-is-enough", "linformer-beats-means"),
    mixed_keys_by_layer: ("linformer-one-matrix-is-enough",),
    going_on: ("linformer-trained-quarter-is-enough", "linformer-trained-beats-means",
               "linformer-trained-sharing-costs-little"),
    feature_map: ("fast-weights-untrained-map",),
    memories: ("capacity-until-features", "capacity-grows-with-features",
               "capacity-random-features-less", "capacity-softmax-more", "capacity-delta-updates",
               "capacity-several-heads-more"),
    averaging: ("collapse-attention-alone", "collapse-feed-forward-slows"),
    skips: ("collapse-skip-prevents",),
    paths: ("paths-short-solve", "paths-shorter-better", "paths-shallow-carry"),
    frozen: ("frozen-norms-lift-xor", "frozen-rate-makes-claim", "frozen-trained-over-redrawn",
             "frozen-norms-suffice", "frozen-matches-full"),
    frozen_at_best: ("frozen-less-when-tuned",),
    costs: ("length-full-quadratic", "length-others-linear", "length-linformer-quicker-512",
            "length-linformer-quicker-4096"),
    retrieved: ("length-window-stays-near", "length-far-is-repaired", "length-linformer-finds"),
    lists: ("length-lists-window-loses", "length-lists-linear-loses", "length-lists-others-keep"),
    routing_head: ("binding-head-routes-token", "binding-head-is-the-path",
                   "binding-affine-nearest"),
    roles: ("binding-roles-help", "binding-roles-of-the-query", "binding-deeper-gains-more"),
}  # fmt: skip
