"""Worlds in which a claim of data/claims/4_why.yml holds, and others in which it does not.

Every world gives the rows of claims that a page makes of it, by the page's own measures and claim
functions. What is planted is named in each docstring: projections, weights, states or keys where a
page computes from these in a second, else the score of each training or text that it reads.
"""

from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from claims.planted_heads import ran
from claims.simulated import labels, ledger
from torch import nn

from headbook.artefacts.brackets import Solved
from headbook.artefacts.paths_alone import ALONG, FREQUENT, LAYERS, NO_LENGTH, UP_TO, WHOLE
from headbook.chapters.why import (
    _collaborating_from_scratch,
    _path_lengths,
    binding,
    capacity,
    collaborating_heads,
    frozen_transformers,
    low_rank,
    rank_collapse,
    shared_query_key,
)
from headbook.corpora.batches import Batch
from headbook.corpora.retrieval import CHANCE
from headbook.experiments import far_values
from headbook.experiments import fewer_keys as trained
from headbook.looking import routing
from headbook.looking.sublayers import Encoder, Layer
from headbook.looking.weights import QueryKey
from headbook.models.binding import Roles
from headbook.models.capture import Point
from headbook.models.fast_weights import elu_plus_one
from headbook.models.fewer_keys import means
from headbook.models.loaded import Loaded
from headbook.models.mixing import Mixing
from headbook.models.new_ends import Trainable
from headbook.models.recall import Rule
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.results import published
from headbook.runs.store import Store
from headbook.statistics import over_seeds, percentile_interval
from headbook.types import Kind

SEEDS = range(3)


@cache
def _store() -> Store:
    return Store(Path(mkdtemp()))


def _drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def shared_directions(holds: bool) -> pd.DataFrame:
    """Query and key projections of four heads: within four directions of the model, or anywhere."""

    def block(layer: int) -> QueryKey:
        heads, model, width = 4, 32, 8
        sides = []
        for side in (0, 100):
            own = _drawn(heads, model, width, seed=layer + side)
            common = _drawn(model, 4, seed=layer + side) @ _drawn(heads, 4, width, seed=layer)
            sides.append(common + 0.01 * own if holds else own)
        return QueryKey(Kind.ENCODER, layer, *sides)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_query_key, "load", lambda _: None)
        patch.setattr(shared_query_key, "query_key", lambda _: map(block, range(4)))
        given = shared_query_key.Parameters(models=("toy",))
        return shared_query_key.compute(given, _store())["claims"]


class _Reader:
    """Distance of a toy layer's mean output from that with ordinary heads, on drawn states."""

    def __init__(self, held: dict) -> None:
        self.held, self.states, self.before = held, _drawn(30, 8, 32, seed=5), None

    def cost(self) -> np.ndarray:
        scores = self.held["factors"].scores(self.states, self.states)
        mean = (scores.softmax(-1) @ self.states[:, None]).mean(2).flatten(1).double()
        self.before = mean if self.before is None else self.before
        return 1 - nn.functional.cosine_similarity(mean, self.before).numpy()


def _collaborating(queries: list, keys: list) -> pd.DataFrame:
    """Page 41 on layers of these projections, [head model dim]; sentences meet the first."""
    model = Mock(spec=Loaded, network=None, languages=("en", None))
    places, held = [], {}
    for layer, sides in enumerate(zip(queries, keys, strict=True)):
        linear = [nn.Linear(32, each.shape[0] * each.shape[2], bias=False) for each in sides]
        for one, each in zip(linear, sides, strict=True):
            one.weight = nn.Parameter(each.mT.flatten(0, 1))
        heads = SimpleNamespace(heads=len(sides[0]))
        places.append((Kind.ENCODER, layer, heads, *linear, None))

    @contextmanager
    def shared(_, own):
        held["factors"] = own[0]
        yield

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for name, value in (("load", lambda _: model), ("projections", lambda _: iter(places)),
                            ("_reader", lambda *_: _Reader(held)),
                            ("reparametrised", shared)):  # fmt: skip
            patch.setattr(collaborating_heads, name, value)
        given = collaborating_heads.Parameters(("toy",), ("2/3", "1/2"), iterations=15)
        return collaborating_heads.compute(given, _store())["claims"]


def collaboration(holds: bool) -> pd.DataFrame:
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


def separate_heads(holds: bool) -> pd.DataFrame:
    """Heads within common directions, or each in four directions of its own that suffice it."""
    if holds:
        return collaboration(True)
    own = torch.eye(32)[:, :16].unflatten(1, (4, 4)).permute(1, 0, 2) * 2
    own = nn.functional.pad(own, (0, 12))
    noisy = [[own + 0.01 * _drawn(4, 32, 16, seed=at + side) for at in range(3)]
             for side in (0, 9)]  # fmt: skip
    return _collaborating(*noisy)


def recall_from_scratch(holds: bool) -> list:
    """Share of keys recalled by each training: shared dimensions help, or seeds spread alone."""
    scratch, noise = _collaborating_from_scratch, np.random.default_rng(0)
    rows = []
    for kind, dims, rate, seed in product(scratch.KINDS, scratch.DIMS, scratch.RATES, SEEDS):
        few = dims == min(scratch.DIMS)
        right = 1.0 if not few else 0.5 + 0.3 * (holds and kind == scratch.COLLABORATIVE)
        right += 0.02 * noise.normal()
        rows.append({"heads": kind, "dims": dims, "rate": rate, "seed": seed, "loss": 1 - right,
                     "right": right})  # fmt: skip
    return scratch.claim_rows(pd.DataFrame(rows))


def _spectra(weights, redrawn) -> pd.DataFrame:
    """Page 42 on scores by (layer, length) instead of those that a model computes."""
    drawn = [False]

    @contextmanager
    def captured(*_):
        make = redrawn if drawn[0] else weights
        scores = [make(layer, captured.length)[None] for layer in range(4)]
        yield {(Kind.ENCODER, Point.SCORES): scores,
               (Kind.ENCODER, Point.WEIGHTS): [each.softmax(-1) for each in scores]}  # fmt: skip

    @contextmanager
    def ignorant(*_):
        drawn[0] = True
        yield
        drawn[0] = False

    def texts(_, length, count):
        captured.length = length
        ids = torch.full((1, 2), 10)
        return [Batch(ids, ids, ids, torch.tensor([0]))] * count

    model = Mock(spec=Loaded, network=lambda _: None, origin="", languages=("en", None))
    model.name = "toy"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("load", lambda _: model), ("of_length", texts),
                            ("capture", captured), ("without_knowledge", ignorant),
                            ("LENGTHS", (16, 128))):  # fmt: skip
            patch.setattr(low_rank, name, value)
        return low_rank.compute(low_rank.Parameters(("toy",), 1, 128), _store())["claims"]


def low_rank_scores(holds: bool) -> pd.DataFrame:
    """Scores by the kinds of two tokens, six kinds in any text, or independent ones."""

    def independent(layer: int, size: int) -> torch.Tensor:
        return 3 * _drawn(2, size, size, seed=layer + size)

    def few(layer: int, size: int) -> torch.Tensor:
        kinds = 6
        of = torch.arange(size) % kinds
        return 3 * _drawn(2, kinds, kinds, seed=layer)[:, of][:, :, of]

    return _spectra(few if holds else independent, independent)


def flat_above(holds: bool) -> pd.DataFrame:
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


def memories(holds: bool) -> pd.DataFrame:
    """Losses of the best matrix of each memory's rank, or of one rank whatever the features.

    Several heads have directions of their own, or all the same. What is written again adds up
    beside the rank's loss where the rule is a sum.
    """
    noise, rows = np.random.default_rng(0), []
    for setting, run in capacity.plan():
        memory = run.memory
        soft = memory.rule is Rule.SOFTMAX
        name = capacity.SOFTMAX if soft else memory.map
        rank = 1000 if soft else memory.features
        if name.startswith("FAVOR"):
            rank = 2
        rank = rank if holds else 32
        own = rank if holds else rank // memory.heads
        again = 0.1 * (holds and memory.rule is Rule.SUM and run.again)
        best = capacity.bound(run.keys, own) + again + 1e-4 * noise.random()
        rows.append((setting, name, str(memory.rule), np.nan if soft else memory.features,
                     memory.heads, str(memory.split), run.keys, run.seed, best, best, 0.5,
                     100))  # fmt: skip
    return capacity.claims(pd.DataFrame(rows, columns=list(capacity.ROW)))


def _collapsed(attention, feed_forward) -> pd.DataFrame:
    """Page 46 on an encoder of twelve such layers without norms, on drawn states."""

    def same(states: torch.Tensor) -> torch.Tensor:
        return states

    def embed(batch: Batch) -> torch.Tensor:
        return _drawn(1, 12, 16, seed=int(batch.sentences[0])).double()

    ids = torch.full((1, 12), 10)
    texts = [Batch(ids, ids[:, :1], ids[:, :1], torch.tensor([each])) for each in range(8)]
    apart = Encoder(embed, [Layer(attention, same, feed_forward, same)] * 12)
    rows = [{"model": "toy", "weights": rank_collapse.RELEASED_WEIGHTS, **row}
            for row in rank_collapse.residuals(apart, texts)]  # fmt: skip
    return rank_collapse.claims(pd.DataFrame(rows))


def _around(states: torch.Tensor) -> torch.Tensor:
    return states - states.mean(1, keepdim=True)


def averaging(holds: bool) -> pd.DataFrame:
    """Attention that gives each token half of the mean, and feed-forward parts that set tokens
    apart; or attention to the own token alone, and feed-forward parts that bring them together."""
    if holds:
        return _collapsed(lambda x: x - 0.6 * _around(x), lambda x: 0.5 * _around(x))
    return _collapsed(lambda x: x, lambda x: -0.5 * _around(x))


def skips(holds: bool) -> pd.DataFrame:
    """Attention that adds a little of the mean to a token, or so much that the token is lost."""
    size = 0.05 if holds else 10
    return _collapsed(lambda x: size * (x - _around(x)), lambda x: 0 * x)


def paths(holds: bool) -> list:
    """Right labels of each training's paths: short ones answer, or none does more than guess."""
    noise, rows = np.random.default_rng(0), []
    right = {(FREQUENT, NO_LENGTH): 0.1, (WHOLE, NO_LENGTH): 1.0, (UP_TO, 2): 0.1 + 0.88 * holds}
    right |= {(ALONG, each): 0.1 + 0.8 * (holds and each == 1) for each in range(LAYERS + 1)}
    right |= {(f"{ALONG}, untrained", each): 0.1 for each in range(LAYERS + 1)}
    for task, seed, (by, steps) in product(_path_lengths.PAPER, SEEDS, right):
        rows.append(
            {
                "task": task,
                "seed": seed,
                "by": by,
                "length": steps,
                "right": right[by, steps] + 0.005 * noise.normal() * (by != WHOLE),
            }
        )
    return _path_lengths.claim_rows(pd.DataFrame(rows))


def _tuned(accuracy) -> pd.DataFrame:
    """Page 47 on trainings with such a test accuracy by cell; seeds spread a little."""
    page, noise = frozen_transformers, np.random.default_rng(0)

    def row(cell) -> dict:
        right = accuracy(cell) + 0.002 * noise.normal()
        known = accuracy(cell) + 0.002 * noise.normal()
        known = 1.0 if cell.trainable is Trainable.NORMS and right > 0.9 else known
        return {**vars(cell), "validation": known, "loss": 1.0, "test": right}

    rows = []
    for name in page.TASKS:
        first = [row(cell) for cell in page.sweep(name)]
        rows += first + [row(cell) for cell in page.further(name, pd.DataFrame(first))]
    return page.claims(pd.DataFrame(rows))


def frozen(holds: bool) -> pd.DataFrame:
    """Test accuracy of each training. Training in full wants another rate than the one that all
    were given, and one tunes norms and trained matrices with success; or the frozen network is as
    good as one redrawn, and behind at either rate by as much."""

    def accuracy(cell) -> float:
        if cell.trainable is Trainable.ALL:
            return 0.95 if cell.rate == 3e-4 or not holds else 0.7
        if cell.trainable is Trainable.NORMS:
            return 0.98 if holds else 0.5
        if not holds:
            return 0.7
        return 0.8 - 0.1 * (cell.start == "redrawn")

    return _tuned(accuracy)


def frozen_at_best(holds: bool) -> pd.DataFrame:
    """Test accuracy of each training: in full it is ahead at its own rate, or at none."""

    def accuracy(cell) -> float:
        full = cell.trainable is Trainable.ALL and cell.rate == 3e-4
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


def routing_head(holds: bool) -> list:
    """A head with all weight on the previous token, whose value is the token's own; or weights that
    are drawn at random, more than half of each on the previous token."""
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(9, 9, 1, 0, 8, 8, 2))
    noise = torch.Generator().manual_seed(0)
    embedded = _drawn(12, 2, 4, seed=1) * 2

    def planted(_, sentences: list, seed: int = 0) -> routing.Pairs:
        kept = []
        for number in range(len(sentences)):
            ids = torch.randint(12, (12,), generator=noise)
            values = embedded[ids].transpose(0, 1) + 0.05 * torch.randn(2, 12, 4, generator=noise)
            drawn = torch.rand(2, 12, 12, generator=noise)
            weights = drawn / drawn.sum(-1, keepdim=True)
            drawn_again = weights.flip(-1)
            if holds:
                weights = torch.stack([torch.eye(12).roll(-1, 1), weights[1]])
                weights[0, 0] = torch.eye(12)[0]
            contexts = {routing.ALL: weights @ values,
                        routing.MASKED: routing.without_edge(weights) @ values,
                        routing.RANDOM: drawn_again @ values}  # fmt: skip
            for at in range(1, 12):
                state = {name: torch.zeros(3) for name in (routing.WHOLE, routing.CUT,
                                                           routing.CUT_NEXT)}  # fmt: skip
                kept.append((int(ids[at - 1]), number, weights[None, :, at, at - 1],
                             values[None, :, at - 1],
                             {name: each[None, :, at] for name, each in contexts.items()},
                             state | {"id": ids[at]}))  # fmt: skip
        previous, sentence, weight, values, contexts, states = zip(*kept, strict=True)
        return routing.Pairs(
            np.array(previous), np.array(sentence), torch.stack(weight), torch.stack(values),
            {name: torch.stack([each[name] for each in contexts]) for name in contexts[0]},
            {name: torch.stack([each[name] for each in states]) for name in states[0]},
        )  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "load", lambda _: SimpleNamespace(network=network))
        patch.setattr(binding, "pairs", planted)
        patch.setattr(binding, "HALF", 0.0)  # so that the rule answers, not the gate
        return binding._routed("toy", ["sentence"] * 32)[2]


def roles(holds: bool) -> list:
    """Right answers of each training: roles of the query help more with depth, or seeds spread."""
    noise, rows = np.random.default_rng(0), []
    for run in binding.plan(10):
        gain = 0.02 * holds * (run.roles is Roles.QUERY)
        values = {str(depth): 0.92 + gain * depth + 0.002 * noise.normal() for depth in range(1, 5)}
        rows += binding.rows_of(run, Solved(values, dict.fromkeys(values, 0.4),
                                            dict.fromkeys(values, 500), 100, [0.5]))  # fmt: skip
    return binding.learnt_claims(pd.DataFrame(rows))


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
