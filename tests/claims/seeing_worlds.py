"""Worlds in which a claim of data/claims/5_seeing.yml holds, and others in which it does not.

As in why_worlds.py: rows by the pages' own measures and claim functions, from planted weights,
graphs, importances and words where a page computes from these in a second, else from the score of
each training, sentence or word that it reads.
"""

from contextlib import nullcontext
from itertools import combinations, product
from types import SimpleNamespace
from unicodedata import category
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from claims.planted_heads import PARALLEL, cell, claimed, ran
from claims.simulated import ledger
from scipy.spatial.distance import jensenshannon
from scipy.special import entr, expit, logit
from scipy.stats import kendalltau

import headbook as hb
from headbook.corpora.winobias import MALE, Case, Version
from headbook.experiments import (
    chooser,
    composing,
    explained,
    removed_first,
    shared_roles,
    sharing_maps,
    together,
    word_links,
)
from headbook.experiments import chosen_heads as choosing
from headbook.experiments import pronouns as following_pronouns
from headbook.experiments import read_off as reading_off
from headbook.experiments import through_layers as following
from headbook.experiments.gender_heads import table
from headbook.experiments.genders import GENDERS, Translated, genders
from headbook.experiments.pixels import SIDE, distance
from headbook.experiments.pooling import Outputs
from headbook.experiments.properties import Property
from headbook.experiments.read_off import Found
from headbook.experiments.shared_roles import LAYER, MATCHED, ROLES, SAME
from headbook.heads.random_head import random_heads
from headbook.looking.effects import VECTORS, Effects
from headbook.models.capture import Point
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.statistics import (
    drawn_within,
    interval,
    over_seeds,
    resampled_mean,
    resampled_ratio,
)
from headbook.text.batches import EOS, Batch
from headbook.text.portuguese_gender import Gender
from headbook.types import HeadId, Kind

SEEDS = range(3)
RESAMPLES = 200


def _text(count: int, tokens: int) -> Batch:
    """So many sentences of drawn tokens, each with EOS behind it."""
    ids = torch.randint(10, 1000, (count, tokens), generator=torch.Generator().manual_seed(0))
    ids[:, -1] = EOS
    return Batch(ids, ids[:, :1], ids[:, :1], torch.arange(count))


def _drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def looks(holds: bool) -> list:
    """Maps of six layers: broad below, half on EOS above, one head at the previous token, and norms
    with little on EOS; or heads that are drawn at random, with norms as their weights."""
    count, tokens, layers, heads = 24, 12, 6, 4
    batch = _text(count, tokens)
    drawn = random_heads(batch, Kind.ENCODER, layers, heads)
    trained = norms = drawn

    def maps(on_eos: float) -> dict:
        previous = torch.eye(tokens).roll(-1, 1)
        previous[0] = torch.eye(tokens)[0]
        found = []
        for layer in range(layers):
            eos = torch.eye(tokens)[-1].expand(tokens, -1)
            sharp = (4 * _drawn(count, heads, tokens, tokens, seed=layer)).softmax(-1)
            below = torch.full((tokens, tokens), 1 / tokens)
            own = on_eos * eos + (1 - on_eos) * (below if layer == 0 else sharp)
            own = own.expand(count, heads, -1, -1).clone()
            if layer == 1:
                own[:, 0] = 0.9 * previous + 0.1 / tokens
            found.append(own)
        return {(Kind.ENCODER, Point.WEIGHTS): found}

    if holds:
        trained, norms = maps(0.5), maps(0.1)
    page: dict = {"np": np, "entr": entr, "category": category}
    for first in ("def kinds(", "def on_kinds("):
        exec(cell("50", first), page)
    model = SimpleNamespace(spans=lambda _: [*((n, n + 1) for n in range(tokens - 1)), None])
    which, asks = page["kinds"](model, "a" * tokens)
    anew, hits = "weights, drawn anew", {}
    for way, tape in (("weights", trained), ("norms", norms), (anew, drawn)):
        every = torch.stack(tape[Kind.ENCODER, Point.WEIGHTS], 1).double().numpy()
        hits[way] = np.stack([page["on_kinds"](each, which, asks) for each in every])
    asked = np.array([[asks.sum()] * len(page["KINDS"]) + [tokens]] * count)
    whose = {"model": "firefox-en-pt", "text": PARALLEL, "sentences": count}
    given = {"measured": [(whose, hits, asked)], "anew": anew, "nulls": 1, "KINDS": page["KINDS"]}
    return list(claimed("50", ran("50", "KEYS = [", **given)["summary"]))


def alike(holds: bool) -> list:
    """Heads of a layer that share most of a drawn map, or each with a map of its own; and the loss
    by draw where heads share maps, at half of the maps."""
    noise, weights = np.random.default_rng(0), ["trained", "drawn anew"]
    layer, batch = np.repeat(np.arange(3), 4), _text(16, 10)
    drawn = random_heads(batch, Kind.ENCODER, 3, 4)[Kind.ENCODER, Point.WEIGHTS]
    shared = [0.8 * each[:, :1] + 0.2 * each for each in drawn]
    page: dict = {"np": np, "entr": entr}
    for first in ("def divergence(", "def profile("):
        exec(cell("51", first), page)
    found, special = {}, np.arange(10) == 9
    for name, maps in zip(weights, (shared if holds else drawn, drawn), strict=True):
        every = torch.cat(maps, 1).double().numpy()
        apart = sum(map(page["divergence"], every)) / 160
        near = sum(page["profile"](each, special) for each in every) / 160
        found["firefox-en-pt", name] = apart, page["divergence"](near[:, None]), layer
    ways = sharing_maps.ALIKE, sharing_maps.RANDOM, sharing_maps.ANY
    merged = [{"model": "firefox-en-pt", "way": way, "saved": 6, "share": 0.5, "draw": draw,
               "value": (0.3 if holds and way == ways[0] else 1.0) + 0.05 * noise.normal()}
              for way in ways for draw in range(1 if way == ways[0] else 5)]  # fmt: skip
    given = {"models": ["firefox-en-pt"], "saved": ["firefox-en-pt"], "text": "toy", "draws": 5,
             "held": 60, "sentences": 16, "found": found, "TRAINED": weights,
             "over_seeds": over_seeds, "resampled_mean": resampled_mean,
             "sharing_maps": sharing_maps}  # fmt: skip
    exec(cell("51", "def contrasts("), page)
    given |= {"merged": pd.DataFrame(merged), "contrasts": page["contrasts"]}
    return list(claimed("51", ran("51", "layers = []", **given)["summary"]))


def _graphs(effect) -> list:
    """Page 52 on weights drawn for three layers, and an effect of each word: of the scores, or its
    own where there is none; weights drawn anew have nothing to do with the effect."""
    words, rows = np.arange(7), []
    every, others = np.ones((1, 7), bool), ~np.eye(7, dtype=bool)
    outputs = {following.WORD: (np.eye(7), others), following.VECTOR: (every / 7, every)}
    for state, form, at in product(("released", "drawn anew"), outputs, range(10)):
        seed = at + 1000 * (state == "drawn anew")
        weights = (4 * _drawn(3, 1, 7, 7, seed=seed)).softmax(-1).double().numpy()
        asks, counted = outputs[form]
        found = following.scores(list(weights), [], asks, words)
        truth = _drawn(*asks.shape, seed=at + 77).numpy()
        if state == "released" and effect:
            truth = effect(found) + 0.002 * _drawn(7, seed=at).numpy()
        rows += [{"model": "minilm", "form": form, "weights": state, "effect": "blank-out",
                  "among": "other words" if form == following.WORD else "all words",
                  "method": method, "layer": layer, "sentence": at,
                  "value": following.agreement(score, truth, counted)}
                 for method, layers in found.items()
                 for layer, score in enumerate(layers, start=1)]  # fmt: skip
    return list(claimed("52", ran("52", "def over_", each=pd.DataFrame(rows))["summary"]))


def through_layers(holds: bool) -> list:
    """Words that matter as weights bring them through three layers, or by an order of their own."""
    return _graphs((lambda found: found["rollout"][-1]) if holds else None)


def first_layer(holds: bool) -> list:
    """Words that matter as the first layer's weights say, or by an order of their own."""
    return _graphs((lambda found: found["raw weights"][0]) if holds else None)


def aligned(holds: bool) -> list:
    """Links that each head finds in a sentence: few heads align, better by norms and at the step
    that reads; or all align alike, a little better than the diagonal."""
    noise, count = np.random.default_rng(0), 60
    shares = {
        ("predicting", "weights of a head"): (0.2, 0.6),
        ("reading", "weights of a head"): (0.2, 0.8),
        ("predicting", "norms of a head"): (0.3, 0.6), ("reading", "norms of a head"): (0.4, 0.8),
        ("predicting", "weights of a layer"): (0.2, 0.5),
        ("reading", "weights of a layer"): (0.2, 0.6),
        ("predicting", "norms of a layer"): (0.2, 0.6), ("reading", "norms of a layer"): (0.2, 0.8),
        ("predicting", "diagonal"): (0.4, 0.4), ("reading", "diagonal"): (0.2, 0.2),
    }  # fmt: skip
    names, means = [], []
    for (step, matrix), (most, best) in shares.items():
        layers, heads = (1, 1) if matrix == "diagonal" else (4, 1 if "layer" in matrix else 4)
        for layer, head in np.ndindex(layers, heads):
            names.append(["firefox-en-pt", 1000, matrix, step, 1 + layer, 1 + head])
            own = best if (layer, head) == (1, 0) else most
            means.append(own if holds or matrix == "diagonal" else 0.45)
    columns = ["model", "sentences", "matrix", "step", "layer", "head"]
    hits = noise.binomial(20, np.broadcast_to(means, (count, 4, len(means))))
    page: dict = {"hb": hb, "measured": [], "word_links": word_links}
    exec(cell("53", "def scores("), page)
    halves = [page["scores"](hits, np.full_like(hits, 20), half) for half in (0, 1, None)]
    runs = [(pd.DataFrame(names, columns=columns), *halves)]
    given = {"runs": runs, "word_links": word_links, "published": lambda *_: None}
    return list(claimed("53", ran("53", "KEYS = [", **given, again=False)["summary"]))


def read_off(holds: bool) -> list:
    """Words whose head each probe finds in a sentence: as in the works, or no more by weights than
    without them, on the control task and in a network that was not trained."""
    noise, count = np.random.default_rng(0), 150

    def hits(share: float) -> np.ndarray:
        return resampled_ratio(noise.binomial(20, share, count), np.full(count, 20), seed=0)

    task, control, learnt = "task", "control task", "released"
    shares = {
        ("best single head", learnt, task): (0.35, 0.7), ("weights", learnt, task): (0.61, 0.4),
        ("weights", learnt, control): (0.3, 0.4), ("weights + words", learnt, task): (0.77, 0.58),
        ("weights + words", learnt, control): (0.6, 0.58),
        ("distance + words", "none", task): (0.58, 0.58),
        ("weights + words", "drawn anew", task): (0.3, 0.58),
    }  # fmt: skip
    own = SimpleNamespace(of={"model": "toy"}, relations=[])
    own.probes = [Found("head", *key, hits(pair[0] if holds else pair[1]))
                  for key, pair in shares.items()]  # fmt: skip
    for relation in ("det", "dobj", "nsubj", "nmod:poss"):
        value, offset = hits(0.8 if holds else 0.5), hits(0.5)
        row = {"relation": relation, "value": value[0], "baseline": offset[0]}
        ends = zip(("margin", "margin_low", "margin_high"), interval(value - offset), strict=True)
        own.relations.append(row | dict(ends))
    own.relations = pd.DataFrame(own.relations)
    page = ran("54", "LEARNT, FREE", asked={"toy": own}, whole=True, read_off=reading_off)
    rows = list(claimed("54", page["summary"]))
    offsets = page["summary"].set_index("question")["baseline"]
    for row in rows:
        if row["claim"].startswith("clark-relation"):
            claim = ledger().claim(row["claim"])
            question = claim.value.partition("question=")[2].partition("]")[0]
            row["baseline"] = offsets[question]
    return rows


def _page_55(**given: object) -> dict[str, object]:
    """What page 55 leaves, a model's properties or the maps of its vision encoders planted."""
    page: dict = {"np": np, "vision": [[seed, 15] for seed in SEEDS], "whole": False}
    exec(cell("55", "def centre("), page)
    known = ("word identity", "part of speech", "relation")
    idle = [Property(name, *np.zeros((2, 3, 5)), np.zeros(3)) for name in known]
    page |= {"models": ["toy"], "profiles": {("toy", "released"): idle}, "trees": [None] * 100}
    looks = pd.DataFrame({"seed": [0], "epochs": 0, "layer": 1, "head": 1, "pixels": 1.0})
    page |= {"pixels": SimpleNamespace(distance=None, distances=lambda *_: looks)}
    return ran("55", "layers, centres = [], []", **{**page, **given})


def layers_know(holds: bool) -> list:
    """Labels that a probe finds in a sentence, by layer: tags, then relations, then meaning, and
    less and less of a word's identity; or each property in all layers alike."""
    noise, count = np.random.default_rng(0), 100

    def hits(share: float) -> np.ndarray:
        return resampled_ratio(noise.binomial(20, share, count), np.full(count, 20), seed=0)

    def planted(name: str, layer: int, known: bool) -> Property:
        found = [hits(0.5 + 0.4 * (known and at == layer)) for at in range(5)]
        if name == "word identity" and known:
            found = [hits(0.9 - 0.1 * at) for at in range(5)]
        control = np.stack([hits(0.4) for _ in range(5)], 1)
        return Property(name, np.stack(found, 1), control, hits(0.3))

    where = {"word identity": 0, "part of speech": 0, "relation": 2, "sentiment": 4,
             "paraphrase": 4}  # fmt: skip
    name = "firefox-en-pt"
    profiles = {(name, weights): [planted(*each, known) for each in where.items()]
                for weights, known in (("released", holds), ("drawn anew", False))}  # fmt: skip
    found = _page_55(models=[name], profiles=profiles, whole=True)
    return list(claimed("55", found["summary"]))


def far_pixels(holds: bool) -> list:
    """Maps of three trainings: from the own pixel to all of them, or drawn at random."""

    def looks(seed: int, epochs: int) -> pd.DataFrame:
        found = []
        for layer in range(3):
            drawn = (3 * _drawn(4, 2, SIDE**2, SIDE**2, seed=10 * seed + layer)).softmax(-1)
            share = layer / 2 if holds else 1.0
            pixels = distance(share * drawn + (1 - share) * torch.eye(SIDE**2)).numpy()
            labels = {"seed": seed, "epochs": epochs, "layer": layer + 1, "head": [1, 2]}
            found.append(pd.DataFrame({**labels, "pixels": pixels, "accuracy": 1.0}))
        return pd.concat(found)

    planted = SimpleNamespace(distance=None, distances=looks)
    rows = _page_55(pixels=planted)["growth"].assign(claim="digits-distance-grows", target="")
    return rows.astype({"seed": str}).to_dict("records")


def explanations(holds: bool) -> list:
    """Weights, scores and importances of words: attention orders them in its own way and says
    little; or as the gradient does, and one word decides. Accuracies and falls by training."""
    noise, kinds, uniform = np.random.default_rng(0), ("BiLSTM",), "BiLSTM, uniform weights"
    lengths = [8 + at % 6 for at in range(20)]
    common = [noise.random(length) for length in lengths]
    page: dict = {"np": np, "pd": pd, "explained": explained, "over_seeds": over_seeds}
    page |= {"expit": expit, "logit": logit, "product": product, "jensenshannon": jensenshannon}
    page |= {"kendalltau": kendalltau, "strengths": [], "whose": ["", "toy", 4, 20]}
    for first in ("KEYS = [", "def farthest(", "def stressed("):
        exec(cell("56", first).partition("long = ")[0], page)
    page["columns"] = ["accuracy", "permuted", "farthest", "unbounded"]

    def near(values: list, size: float) -> list:
        return [each + size * noise.random(len(each)) for each in values]

    def seen(idle: bool) -> Outputs:
        weights = [2 * own + 0.1 * noise.normal(size=len(own)) for own in common]
        scores = [0.02 * noise.normal(size=length) for length in lengths]
        if not idle:  # weight and decision lie on one word
            keys = [np.arange(length) == noise.integers(length) for length in lengths]
            weights, scores = ([size * key for key in keys] for size in (9.0, 2.0))
        weights = [np.exp(each) / np.exp(each).sum() for each in weights]
        logits = np.array([a @ s for a, s in zip(weights, scores, strict=True)])
        return Outputs(expit(logits), weights, scores)

    agreement, stress, erasure, others = [], [], [], {}
    run, fall = {"corpus": "toy", "epochs": 4, "sentences": 20}, 0.2 if holds else 0.0
    for seed in SEEDS:
        gradient = near(common, 0.3)
        attention = near(gradient, 0.05) if not holds else [noise.random(n) for n in lengths]
        values = {"attention": attention, "gradient": gradient}
        values["leave-one-out"] = near(common, 0.3) if holds else near(attention, 0.05)
        values["random order"] = [noise.random(length) for length in lengths]
        agreement += [{**run, "model": "BiLSTM", "seed": seed, "of": of, "tau": tau}
                      for of, tau in page["taus"](values)]  # fmt: skip
        falls = {
            "random order": 0.2 - fall / 2,
            "attention": 0.2,
            "integrated gradients": 0.2 + fall,
        }
        erasure += [{**run, "model": "BiLSTM", "seed": seed, "method": method, "share": 0.5,
                     "drop": drop + 0.01 * noise.normal()}
                    for method, drop in falls.items()]  # fmt: skip
        others[seed] = seen(idle=holds)
        for model, found in (("BiLSTM", others[seed]), (uniform, seen(idle=False))):
            right = 0.8 + 0.1 * (not holds and model == "BiLSTM") + 0.002 * noise.normal()
            numbers = dict(zip(page["columns"], [right, *page["stressed"](found)], strict=True))
            stress.append({**run, "model": model, "seed": seed, **numbers})
    trainings = [{**run, "model": kind, "seed": f"{one}-{other}",
                  **explained.apart(others[one], others[other])}
                 for kind, (one, other) in product(kinds, combinations(SEEDS, 2))]  # fmt: skip
    right = {"uniform": 0.7, "the BiLSTM's": 0.76, "an adversary's": 0.71}
    imposed = [{**run, "model": "MLP", "seed": seed, "weights": name,
                "accuracy": (each if holds else 0.7) + 0.005 * noise.normal()}
               for seed, (name, each) in product(SEEDS, right.items())]  # fmt: skip
    tried = [{**run, "model": "BiLSTM", "seed": seed, "strength": 0.001, "change": 0.0,
              "divergence": (0.1 if holds else 0.6) + 0.01 * noise.normal()}
             for seed in SEEDS]  # fmt: skip
    tables = {"trainings": trainings, "adversaries": tried, "imposed": imposed}
    page |= {"agreement": pd.DataFrame(agreement), "erasure": pd.DataFrame(erasure),
             "stress": pd.DataFrame(stress),
             "published": lambda _, name: pd.DataFrame(tables[name])}  # fmt: skip
    return list(claimed("56", ran("56", "RUN, UNIFORM =", **page)["summary"]))


def cooperation(holds: bool) -> list:
    """What a sentence loses without heads: more than the sum together, most within a layer, less
    where higher heads may change, and between layers as heads compose; or the sum of each."""
    heads = [HeadId(Kind.ENCODER, at // 4, at % 4) for at in range(12)]
    names, layers = [head.label for head in heads], np.array([head.layer for head in heads])
    noise, count = np.random.default_rng(0), 30
    own, each = noise.random((12, 12)), 1 + 0.5 * noise.normal(size=(12, count))
    scores = np.where(layers[:, None] < layers, 1 + 0.1 * noise.normal(size=(3, 12, 12)), np.nan)

    def added(model: None, batches: None, sets: list[list[str]]) -> Effects:
        rows = [each[[*map(names.index, chosen)]].sum(0) for chosen in sets]
        for row, chosen in zip(rows, sets, strict=True):
            if holds and len(chosen) == 2:
                one, other = map(names.index, chosen)
                row += 1.5 if layers[one] == layers[other] else own[one, other]
            row += row * (holds and len(chosen) > 2)
        rows = np.array(rows) + 0.05 * noise.normal(size=(len(sets), count))
        return Effects(torch.tensor(rows), torch.ones(count).double(), torch.arange(count), "nats")

    read = {"model": None, "batches": None, "all": heads, "heads": heads, "of": {"model": "toy"}}
    read["pairs"] = together.random_pairs(heads, 60)
    page: dict = {"np": np, "pd": pd}
    exec(cell("57", "def beyond_sum(").partition("found = ")[0], page)
    page |= {
        "read": {"toy": SimpleNamespace(**read)}, "removed": added, "drawn": 60,
        "together": SimpleNamespace(
            sets=together.sets, RANDOM=together.RANDOM,
            held=lambda *_: SimpleNamespace(mean=torch.tensor(each.mean(1) * (1 + 0.5 * holds))),
        ),
        "composing": SimpleNamespace(
            over_redrawn=lambda _: scores + 0.5 * own * holds, agreement=composing.agreement
        ),
        "hb": Mock(table=hb.table, shares=hb.shares, publish=lambda frame, *_: frame),
        "VECTORS": VECTORS, "resampled": resampled_ratio, "over_seeds": over_seeds,
        "interval": interval, "drawn_within": drawn_within,
    }  # fmt: skip
    return list(claimed("57", ran("57", "given, names = (m.model", **page)["summary"]))


def _choosing(holds: bool) -> dict[str, object]:
    """What page 58's cells leave of a model of eight heads whose loss is known: a head is worth as
    much to all tokens of a sentence, as its vector says, or something to single tokens alone."""
    own = torch.rand(32, 12, 8, generator=torch.Generator().manual_seed(0))
    needs = torch.stack([own[each // 8, 0].roll(each % 8) for each in range(32)])
    worth = needs[:, None] ** 2 + 0.01 * own if holds else own**2
    network, ids = Transformer(TransformerConfig(9, 9, 2, 0, 8, 8, 4)), torch.full((16, 12), 5)
    tested, learnt = (Batch(ids, ids, ids, torch.arange(16) + first) for first in (0, 16))

    def losses(given: Batch, shortlist: bool = False) -> torch.Tensor:
        blocks = [block for _, _, block in network.attentions()]
        gates = [torch.ones(16, block.heads) if block.gate is None else block.gate()
                 for block in blocks]  # fmt: skip
        closed = 1 - torch.cat(gates, 1)[:, None]
        return (worth[given.sentences] * closed).sum(-1).flatten()

    model = Mock(spec=Loaded, network=network, losses=losses)
    model.predicted = None
    halves = torch.stack([worth[:16, half::2].sum(1).T for half in (0, 1)]).double().numpy()
    names = [head.label for head in all_heads(network)]
    given = {
        "hb": Mock(publish=lambda frame, *_: frame), "torch": torch, "chooser": chooser,
        "chosen_heads": choosing, "over_seeds": over_seeds, "resampled_mean": resampled_mean,
        "read": {"toy": (model, [tested], names, halves)}, "every": [""] * 32, "models": ["toy"],
        "text": "toy", "sentences": 16, "learnt": 16, "updates": 60, "seeds": SEEDS, "taught": True,
    }  # fmt: skip

    def vectors(_: Loaded, batches: list[Batch]) -> list[torch.Tensor]:
        return [worth[each.sentences].mean(1) for each in batches]

    teach = choosing.trained

    def trained(model, batches, x, made, *more):
        if made.weight.requires_grad:
            return teach(model, batches, x, made, *more)
        made.bias.data = 0.1 * _drawn(8, seed=more[1])  # one set for all is as good as another
        return made.eval()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "trained", trained)
        patch.setattr(choosing, "own_batches", lambda *_: [learnt])
        patch.setattr(choosing, "vectors", vectors)
        return ran("58", "def top(", **given)


def taught_on_the_tested() -> list[float]:
    """Share of the loss that gates spare which were taught on the tokens they are tested on, where
    heads are worth something to single tokens alone; of each seed."""
    found = _choosing(holds=False)["measured"]
    found = found.pivot_table(index="seed", columns="gate", values="value")
    return list(1 - found["taught on the same tokens"] / found["fixed gate"])


def chosen(holds: bool) -> list:
    """Heads that a whole sentence needs, and gates that are told which, or neither."""
    return list(claimed("58", _choosing(holds)["summary"]))


def _cases() -> list[Case]:
    """Sixteen occupations of each stereotype, every pair once; either is the referent."""
    found = []
    for male, female in product(range(16), repeat=2):
        names, own = (f"m{male:02d}", f"f{female:02d}"), (male + female) % 2
        version = Version(" ".join([names[own], names[1 - own]]), (0, 0), (0, 3), (4, 7))
        found.append(Case(1, version.text, GENDERS[own], dict.fromkeys(GENDERS, version)))
    return found


def two_languages(holds: bool) -> list:
    """Roles of heads, weights of pronouns, genders of nouns, and what is lost without heads: alike
    by place in two models, stereotyped, masculine, in one head; or none of it."""
    noise, cases = np.random.default_rng(0), _cases()
    strength = noise.normal(size=(6, 8, 1)) if holds else 0.0
    first, second, other = (strength + noise.normal(size=(6, 8, len(ROLES))) / 3 for _ in range(3))
    if holds:
        other = noise.normal(size=(6, 8, len(ROLES)))
    pairs = {SAME: (first, second), MATCHED: (first, second), LAYER: (first, other)}

    weights = noise.uniform(0.4, 0.6, size=(len(cases), 2, 2, 4, 2))
    if holds:
        for at, case in enumerate(cases):
            for version, gender in enumerate(GENDERS):
                weights[at, version, 0, 0] = [0.8, 0.2] if gender == case.stereotype else [0.2, 0.8]

    rows = []
    for at, case in enumerate(cases):
        for gender in GENDERS:
            fits, male = gender == case.stereotype, gender == MALE
            share = 0.53 + 0.2 * (1 if male else -1) + 0.1 * (1 if fits else -1)
            right = noise.random() < (share if holds else 0.8)
            said = gender if right else next(each for each in GENDERS if each != gender)
            nouns = (Gender((0, 1), said, None), Gender((2, 3), MALE, None))
            rows.append(Translated(at, gender, "", *nouns))

    whole = {"case": np.arange(len(cases))}
    whole |= {name: 1 + noise.normal(size=len(cases)) / 3
              for name in ("stereotype", "agreement", "leak", "loss")}  # fmt: skip
    changes = {name: noise.normal(size=(len(cases), 8)) / 3 for name in whole if name != "case"}
    if holds:
        changes["stereotype"][:, 2] -= 0.4
        changes["agreement"][:, 2] -= 0.8
    heads = [HeadId(Kind.ENCODER, at // 4, at % 4) for at in range(8)]
    name = "firefox-en-pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_roles, "load", lambda _: None)
        patch.setattr(shared_roles, "compared", lambda *_: pairs)
        patch.setattr(following_pronouns, "load", lambda _: Mock(spec=Loaded, network=None))
        patch.setattr(following_pronouns, "without_knowledge", lambda *_: nullcontext())
        shares = weights[..., 0] / weights.sum(-1)
        patch.setattr(following_pronouns, "referent_shares", lambda *_: shares)
        found = {
            "roles": shared_roles.roles(10), "pronouns": following_pronouns.pronouns([name], cases),
            "genders": genders(cases, rows), "heads": table(whole, changes, cases, heads),
        }  # fmt: skip
    given = {"translator": name, "sentences": 10, "cases": len(cases), "ablated": len(cases)}
    summary = ran("59", "def beside(", found=found, published=None, **given)["summary"]
    return list(claimed("59", summary))


def tuned(holds: bool) -> list[dict[str, object]]:
    """What each fine-tuning does to heads: last layers move most, to polar words and negations,
    heads with a role matter more, and more above, and those removed before are missed less; or all
    of it alike, with other sets of heads costing more. The page's summary cell reads the tables."""
    noise, keys = np.random.default_rng(0), list(product(range(1, 7), range(1, 5)))
    before, true, shuffled, twice = "before", "true labels", "shuffled labels", "two trainings"
    heads, moves, removed, again = [], [], [], []
    for kind, seed, (layer, head) in product((before, true, shuffled), "012", keys):
        turned = 0.5 * (holds and kind == true)
        polar = 1 + turned * (1 + (head == 1)) + 0.05 * noise.normal()
        matters = 2.0 ** (layer / 3) if holds and head == 1 else 1.0
        values = 1 + turned + 0.05 * noise.normal(), matters * np.exp(0.2 * noise.normal())
        heads.append((kind, seed, layer, head, polar, *values))
    far = {true: 0.1, shuffled: 0.05, twice: 0.03}
    for kind, seed, (layer, head) in product(far, "012", keys):
        size = far[kind] * (layer if kind == true else 1) if holds else 0.1
        moves.append((kind, seed, layer, head, size + 0.01 * noise.normal()))
    for kind, seed, name in product((before, true), "012", ("none", "early", "middle", "late")):
        nats = {"none": 0.3, "late": 0.5 + 0.4 * holds}.get(name, 0.5) + 0.01 * noise.normal()
        removed.append((kind, seed, name, 0.9 + 0.001 * noise.normal(), nats, 0.5))
    whens, sets = (removed_first.AFTER, removed_first.BEFORE), ("early", "middle", "late")
    for seed, when, name in product("012", whens, (*sets, removed_first.DRAWN)):
        nats = 1.0 if when == removed_first.AFTER or not holds else 0.2
        lost = 0.005 if holds else 0.05 + 0.1 * (name == "late")
        noisy = 0.9 - lost + 0.001 * noise.normal(), 0.3 + nats + 0.01 * noise.normal()
        again.append((seed, when, name, *noisy))
    again += [(seed, removed_first.AFTER, removed_first.NONE, 0.9, 0.3) for seed in "012"]
    of_head, scores = ["labels", "seed", "layer", "head"], ["accuracy", "nats", "larger"]
    tables = {
        "heads": (heads, [*of_head, "polar", "negators", "importance"]),
        "moves": (moves, [*of_head, "distance"]),
        "removed": (removed, ["labels", "seed", "removed", *scores]),
        "again": (again, ["seed", "when", "removed", *scores[:2]]),
        "roles": ([(layer, 1) for layer in range(1, 7)], ["layer", "head"]),
    }
    given = {
        name: pd.DataFrame(rows, columns=columns).assign(model="minilm", corpus="sst")
        for name, (rows, columns) in tables.items()
    }
    given |= {"TRUE": true, "SHUFFLED": shuffled, "TWICE": twice, "MARKS": ("polar", "negators")}
    given |= {"scores": ["removed", *scores], "catalogue": dict, "over_seeds": over_seeds}
    given |= {
        "VALUE": ["distance", "distance_low", "distance_high"],
        "removed_first": removed_first,
    }
    return list(claimed("61", ran("61", "summary, FIRST, THEN", **given)["summary"]))


WORLDS = {
    looks: ("clark-half-on-separator", "clark-neighbour-heads", "clark-broad-below",
            "clark-half-on-special", "clark-special-learnt", "kobayashi-special-short"),
    alike: ("alike-within-layer", "alike-beyond-offsets", "alike-merge-over-random",
            "alike-merge-over-remove"),
    through_layers: ("rollout-blank-out", "rollout-beats-raw", "flow-beats-raw", "rollout-grows",
                     "rollout-learnt", "rollout-beyond-nearness"),
    first_layer: ("raw-first-layer-only",),
    aligned: ("align-norms-better", "align-input-better", "align-norms-heads", "align-input-heads",
              "align-best-beats-diagonal", "align-reader-better", "align-most-heads-do-not"),
    read_off: ("clark-no-single-head", "clark-relation-det", "clark-relation-dobj",
               "clark-relation-nsubj", "clark-relation-poss", "clark-probe-attention",
               "clark-probe-over-head", "clark-probe-words", "clark-probe-learnt",
               "probe-selective", "probe-words-less-selective"),
    layers_know: ("pipeline-relations-after-tags", "pipeline-meaning-after-syntax",
                  "pipeline-order-learnt", "pipeline-identity-fades"),
    far_pixels: ("digits-distance-grows",),
    explanations: ("explain-gradient", "explain-leave-one-out", "explain-others-agree",
                   "explain-permuted", "explain-farthest", "explain-uniform",
                   "explain-seeds-nearer", "explain-imposed", "explain-imposed-adversary",
                   "explain-consistent", "explain-erasure-attention", "explain-erasure-others"),
    cooperation: ("heads-self-repair", "pairs-more-than-sum", "pairs-within-layer",
                  "sets-more-than-sum", "composition-beyond-redrawn",
                  "composition-with-interaction", "composition-apart-from-effects"),
    chosen: ("useful-heads-differ", "chosen-over-fixed", "chosen-reads-the-sentence",
             "chosen-room"),
    two_languages: ("roles-same-number", "roles-matched", "roles-matched-beyond-layers",
                    "gender-masculine", "gender-accuracy", "gender-stereotyped",
                    "pronouns-stereotyped", "stereotype-in-one-head", "agreement-in-one-head"),
    tuned: ("tuning-last-layers", "tuning-polar", "tuning-negation", "tuning-late-heads",
            "tuning-specialised-contribute", "tuning-specialised-later", "tuning-polar-heads",
            "tuning-beyond-shuffled", "tuning-beyond-seeds", "tuning-removed-before",
            "tuning-random-nearly-whole", "tuning-any-third"),
}  # fmt: skip
