"""Page 56: attention as explanation (Jain and Wallace 2019; Wiegreffe and Pinter 2019)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._classifiers import UNIFORM as EQUAL
from headbook.chapters.seeing._classifiers import (
    Outputs,
    Reviews,
    Training,
    accuracy,
    adversary,
    explained,
    outputs,
    reviews,
    stored,
    trained,
)
from headbook.chapters.seeing._explained import (
    ATTENTION,
    GRADIENT,
    LEFT_OUT,
    METHODS,
    RANDOM,
    TOLERANCE,
    agreement,
    apart,
    drawn,
    erasure,
    explanations,
    per_word,
    stress,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.claims.ledger import Gate
from headbook.corpora.batches import EncodedPair
from headbook.models.pooled import PooledClassifier, Reader
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.types import UserError

NUMBER = 56
TITLE = "Is attention explanation?"
WORK = "jain2019"
KEYS = ("model", "seed", "sentences")

LSTM, TRANSFORMER = str(Reader.LSTM), str(Reader.TRANSFORMER)
UNIFORM, KEY_WORD = "BiLSTM, uniform weights", "one word decides, by construction"
KINDS = {LSTM: (Reader.LSTM, False), TRANSFORMER: (Reader.TRANSFORMER, False),
         UNIFORM: (Reader.LSTM, True)}  # fmt: skip
STRENGTHS = (0.0003, 0.001, 0.005)
"""λ of the adversaries that are trained."""
FAR = 0.35
"""Half of ln 2, the largest divergence there is: the threshold of the claim about it."""
PAIRS = {
    "attention and gradient": (ATTENTION, GRADIENT),
    "attention and leave-one-out": (ATTENTION, LEFT_OUT),
    "gradient and leave-one-out": (GRADIENT, LEFT_OUT),
}
SEEDS = "{}, two trainings"
FLOOR = "attention and random order"
PAPER = {"attention and gradient": 0.35, "attention and leave-one-out": 0.29,
         "gradient and leave-one-out": 0.66}  # fmt: skip
"""SST, BiLSTM, additive attention: the authors' released output, graph_outputs/CorrStats."""
PAPER_ACCURACY = 0.81
OWN, OF_LSTM, OF_ADVERSARY = "its own", "the BiLSTM's", "an adversary's"


@dataclass(frozen=True)
class Parameters:
    """Text, trainings of each model (0: none, published tables are shown), passes over the text,
    test sentences that are explained, and the model whose word vectors a training starts from."""

    corpus: str = "sst"
    seeds: int = 0
    epochs: int = 4
    sentences: int = 200
    vectors: str = "minilm"


@dataclass(frozen=True)
class _Task:
    """The text, the sentences that are explained, how long is trained, and where it is stored."""

    text: Reviews
    pairs: list[EncodedPair]
    seeds: range
    epochs: int
    store: Store

    def classifier(
        self, reader: Reader, pooling: str, seed: int, make: Callable[..., PooledClassifier]
    ) -> PooledClassifier:
        """The stored one, or what `make` gives."""
        return stored(Training(reader, pooling, seed, self.epochs), self.text, self.store, make)


def compute(parameters: Parameters, store: Store) -> Tables:
    """Agreement, stress tests, seeds, trained adversaries, imposed weights, erasure, claims."""
    if not parameters.seeds:
        return {}
    if parameters.seeds < 2:
        raise UserError("seeds is 1; give 2 or more, as trainings are compared with each other")
    text = reviews(parameters.corpus, parameters.vectors)
    pairs = explained(text, parameters.sentences)
    task = _Task(text, pairs, range(parameters.seeds), parameters.epochs, store)
    models = {
        (kind, seed): task.classifier(
            reader,
            EQUAL if uniform else OWN,
            seed,
            partial(trained, text, reader, seed, task.epochs, uniform),
        )
        for seed in task.seeds
        for kind, (reader, uniform) in KINDS.items()
    }
    known = {key: explanations(each, pairs) for key, each in models.items() if key[0] != UNIFORM}
    seen = {key: outputs(model, pairs) for key, model in models.items()}
    tables = {
        "agreement": pd.DataFrame(_agreement_rows(task, known)),
        "stress": pd.DataFrame(_stress_rows(task, models, seen)),
        "trainings": pd.DataFrame(_pairs_of_seeds(task, seen)),
        "erasure": pd.DataFrame(_erasure_rows(task, models, known)),
    }
    tables |= _adversaries(task, models, seen)
    labels = {"corpus": parameters.corpus, "sentences": len(pairs)}
    tables = {name: table.assign(**labels) for name, table in tables.items()}
    return {**tables, "claims": claims(tables)}


def _agreement_rows(task: _Task, known: dict) -> Iterator[dict[str, object]]:
    """Kendall's τ, mean over sentences: one row per model, pair of rankings, and training."""
    for kind in (LSTM, TRANSFORMER):
        for seed in task.seeds:
            values = known[kind, seed]
            noise = drawn([len(ids) for ids, _ in task.pairs], seed)
            found = {name: agreement(values[a], values[b]) for name, (a, b) in PAIRS.items()}
            found[FLOOR] = agreement(values[ATTENTION], noise)
            for name, tau in found.items():
                yield {"model": kind, "of": name, "seed": str(seed), "tau": tau}
        for first, second in combinations(task.seeds, 2):
            for name in (ATTENTION, GRADIENT, LEFT_OUT):
                tau = agreement(known[kind, first][name], known[kind, second][name])
                yield {"model": kind, "of": SEEDS.format(name), "seed": f"{first}-{second}",
                       "tau": tau}  # fmt: skip


def _stress_rows(task: _Task, models: dict, seen: dict) -> Iterator[dict[str, object]]:
    """Accuracy on the whole test set, and means over the explained sentences, per training."""
    for (kind, seed), model in models.items():
        right = accuracy(outputs(model, task.text.test), task.text.test)
        yield {"model": kind, "seed": seed, "accuracy": right, **_stressed(seen[kind, seed])}
        if kind == UNIFORM:
            decided = one_word_decides([len(ids) for ids, _ in task.pairs], seed)
            yield {"model": KEY_WORD, "seed": seed, "accuracy": np.nan, **_stressed(decided)}


def one_word_decides(lengths: Sequence[int], seed: int) -> Outputs:
    """Result of a model whose weight and whose decision lie on one word of each sentence.

    Nothing can be changed of its weights: the adversary has to find nothing.
    """
    noise = np.random.default_rng(seed)
    weights, scores = [], []
    for length in lengths:
        key = np.arange(length) == noise.integers(length)
        weights.append(np.where(key, 0.99, 0.01 / (length - 1)))
        scores.append(np.where(key, noise.choice([-2.0, 2.0]), 0.0))
    logits = np.array([a @ s for a, s in zip(weights, scores, strict=True)])
    return Outputs(1 / (1 + np.exp(-logits)), weights, scores)


def _stressed(found: Outputs) -> dict[str, float]:
    rows = pd.DataFrame(stress(found))
    return {"permuted": float(rows["permuted"].median()),
            **rows[["farthest", "unbounded"]].mean().to_dict()}  # fmt: skip


def _pairs_of_seeds(task: _Task, seen: dict) -> Iterator[dict[str, object]]:
    for kind in (LSTM, TRANSFORMER):
        for first, second in combinations(task.seeds, 2):
            far, moved = apart(seen[kind, first], seen[kind, second])
            yield {"model": kind, "seed": f"{first}-{second}", "divergence": far, "change": moved}


def _adversaries(task: _Task, models: dict, seen: dict) -> Tables:
    """Trained adversaries of each BiLSTM, and an MLP that has to pool with weights of others."""
    text, rows, imposed = task.text, [], []
    parts = (text.train, text.valid, text.test)
    for seed in task.seeds:
        own = [outputs(models[LSTM, seed], part) for part in parts]
        weights = {EQUAL: None, OWN: None, OF_LSTM: [each.weights for each in own]}
        for strength in STRENGTHS:
            make = partial(adversary, text, own[0], Reader.LSTM, 100 + seed, task.epochs, strength)
            pooling = f"an adversary's, λ = {strength:g}"
            model = task.classifier(Reader.LSTM, pooling, seed, make)
            far, moved = apart(outputs(model, task.pairs), seen[LSTM, seed])
            right = accuracy(outputs(model, text.test), text.test)
            rows.append({"model": LSTM, "seed": seed, "strength": strength, "divergence": far,
                         "change": moved, "accuracy": right})  # fmt: skip
            if strength == max(STRENGTHS):
                weights[OF_ADVERSARY] = [outputs(model, part).weights for part in parts]
        for name, given in weights.items():
            right = _guided(task, seed, name, given)
            imposed.append({"model": str(Reader.WORDS), "seed": seed, "weights": name,
                            "accuracy": right})  # fmt: skip
    return {"adversaries": pd.DataFrame(rows), "imposed": pd.DataFrame(imposed)}


def _guided(task: _Task, seed: int, name: str, given: Sequence | None) -> float:
    """Test accuracy of an MLP whose pooling weights are given, uniform, or its own."""
    train, valid, test = given or (None, None, None)
    imposed = None if given is None else (train, valid)
    make = partial(trained, task.text, Reader.WORDS, seed, task.epochs, name == EQUAL, imposed)
    model = task.classifier(Reader.WORDS, name, seed, make)
    return accuracy(outputs(model, task.text.test, test), task.text.test)


def _erasure_rows(task: _Task, models: dict, known: dict) -> Iterator[dict[str, object]]:
    lengths = [len(ids) for ids, _ in task.pairs]
    for kind in (LSTM, TRANSFORMER):
        for seed in task.seeds:
            model: PooledClassifier = models[kind, seed]
            orders = {ATTENTION: known[kind, seed][ATTENTION], RANDOM: drawn(lengths, seed)}
            orders |= {name: per_word(model, task.pairs, each) for name, each in METHODS.items()}
            for row in erasure(model, task.pairs, orders):
                yield {"model": kind, "seed": seed, **row}


def claims(tables: Tables) -> pd.DataFrame:
    """One row per claim and model, intervals over trainings."""
    agreed, stressed, pairs = (tables[name] for name in ("agreement", "stress", "trainings"))
    rows: list[dict[str, object]] = []

    def add(claim: str, model: str, values: pd.Series | np.ndarray, closed: str = NONE):
        found = over_seeds(values)
        rows.append(released_claim(claim, model, found.mean, found.low, found.high,
                                   corpus=stressed["corpus"].iloc[0], closed=closed))  # fmt: skip

    by_seed = {kind: own.set_index("seed") for kind, own in stressed.groupby("model", sort=False)}
    free = over_seeds(by_seed[UNIFORM]["farthest"])
    everywhere = f"{Gate.DIAGNOSTIC}: a model that cannot choose its weights passes, too"
    for kind in (LSTM, TRANSFORMER):
        tau = agreed[agreed["model"] == kind].groupby("of", sort=False)["tau"].apply(np.array)
        gradient, left_out, both = (tau[name] for name in PAIRS)
        add("explain-gradient", kind, gradient)
        add("explain-leave-one-out", kind, left_out)
        add("explain-others-agree", kind, both - gradient)
        add("explain-permuted", kind, by_seed[kind]["permuted"])
        closed = everywhere if free.low >= FAR else NONE
        add("explain-farthest", kind, by_seed[kind]["farthest"], closed)
        own = pairs[pairs["model"] == kind]
        if len(own):
            gap = own["divergence"].mean() - by_seed[kind]["farthest"]
            add("explain-seeds-nearer", kind, gap)
        areas = tables["erasure"][tables["erasure"]["model"] == kind].groupby(["method", "seed"])
        area = areas["drop"].mean().unstack("seed").T
        add("explain-erasure-attention", kind, area[ATTENTION] - area[RANDOM])
        for name in METHODS:
            add("explain-erasure-others", f"{kind}, {name}", area[name] - area[ATTENTION])
    add("explain-uniform", LSTM, by_seed[LSTM]["accuracy"] - by_seed[UNIFORM]["accuracy"])
    mlp = tables["imposed"].pivot(index="seed", columns="weights", values="accuracy")
    add("explain-imposed", LSTM, mlp[OF_LSTM] - mlp[EQUAL])
    add("explain-imposed-adversary", LSTM, mlp[OF_LSTM] - mlp[OF_ADVERSARY])
    tried = tables["adversaries"].groupby("seed")
    bound = pairs[pairs["model"] == LSTM]["change"].mean()
    near = tried.apply(lambda own: own[own["change"] <= bound]["divergence"].max())
    add("explain-consistent", LSTM, near - by_seed[LSTM]["farthest"])
    return claims_table(rows)


def intervals(tables: Tables) -> pd.DataFrame:
    """Kendall's τ with its interval over trainings and the work's value, the figure's rows."""
    rows = []
    for (name, model), own in tables["agreement"].groupby(["of", "model"], sort=False):
        found = over_seeds(own["tau"])
        paper = PAPER.get(name, np.nan) if model == LSTM else np.nan
        shown = name.replace(" and ", " – ")
        rows.append({"of": shown, "model": model, "value": found.mean, "low": found.low,
                     "high": found.high, "paper": paper})  # fmt: skip
    names = [*PAIRS, *map(SEEDS.format, (ATTENTION, GRADIENT, LEFT_OUT)), FLOOR]
    order = {name.replace(" and ", " – "): at for at, name in enumerate(names)}
    return pd.DataFrame(rows).sort_values("of", key=lambda own: own.map(order), kind="stable")


def falls(tables: Tables) -> pd.DataFrame:
    """The fall of the probability by share of words removed, mean over trainings and interval."""
    rows = []
    for (model, method, share), own in tables["erasure"].groupby(
        ["model", "method", "share"], sort=False
    ):
        found = over_seeds(own["drop"])
        rows.append({"model": model, "method": method, "removed": 100 * share,
                     "value": found.mean, "low": found.low, "high": found.high})  # fmt: skip
    return pd.DataFrame(rows)


def distances(tables: Tables) -> pd.DataFrame:
    """Mean distance of a BiLSTM's weights and outputs from those of others, one row each."""
    pairs = tables["trainings"].query("model == @LSTM")
    stressed = tables["stress"].query("model == @LSTM")
    rows = [
        {"other": "another training", "divergence": pairs["divergence"].mean(),
         "change of output": pairs["change"].mean()},
        {"other": "sought per sentence", "divergence": stressed["farthest"].mean(),
         "change of output": TOLERANCE},
    ]  # fmt: skip
    for strength, own in tables["adversaries"].groupby("strength"):
        rows.append({"other": f"trained adversary, λ = {strength:g}",
                     "divergence": own["divergence"].mean(),
                     "change of output": own["change"].mean()})  # fmt: skip
    return pd.DataFrame(rows)


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers of a table with three digits behind the point."""
    shown = frame.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) else cell)
    return shown.replace("nan", "–")


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, means over trainings."""
    stressed = tables["stress"].groupby("model").mean(numeric_only=True)
    tau = tables["agreement"].groupby(["model", "of"])["tau"].mean()
    names = {LSTM: "lstm", TRANSFORMER: "transformer", UNIFORM: "uniform", KEY_WORD: "key"}
    found: Facts = {
        "sentences": str(tables["stress"]["sentences"].iloc[0]),
        "trainings": str(tables["stress"]["seed"].nunique()),
        "most": f"{np.log(2):.2f}",
        "paper_accuracy": words.percent(PAPER_ACCURACY),
    }
    for model, key in names.items():
        for column in ("farthest", "unbounded"):
            found[f"{key}_{column}"] = f"{stressed.loc[model, column]:.2f}"
        if model != KEY_WORD:
            found[f"{key}_accuracy"] = words.percent(stressed.loc[model, "accuracy"])
            found[f"{key}_permuted"] = f"{stressed.loc[model, 'permuted']:.3f}"
    short = dict(zip(PAIRS, ("gradient", "left", "both"), strict=True))
    short |= {SEEDS.format(ATTENTION): "twice", SEEDS.format(GRADIENT): "gradient_twice"}
    for model in (LSTM, TRANSFORMER):
        for of, key in short.items():
            found[f"{names[model]}_{key}"] = f"{tau[model, of]:.2f}"
    found |= {f"paper_{short[of]}": f"{value:.2f}" for of, value in PAPER.items()}
    erased = tables["erasure"].query("share == 0.2").groupby(["model", "method"])["drop"].mean()
    for model in (LSTM, TRANSFORMER):
        for method in (ATTENTION, RANDOM, *METHODS):
            key = method.split()[0].lower()
            found[f"{names[model]}_without_{key}"] = words.points(erased[model, method])
    mlp = tables["imposed"].groupby("weights")["accuracy"].mean()
    pooled = {"uniform": EQUAL, "own": OWN, "lstm": OF_LSTM, "adversary": OF_ADVERSARY}
    found |= {f"mlp_{k}": words.tenths(mlp[name]).lstrip("+") for k, name in pooled.items()}
    claims = tables["claims"].set_index(["claim", "model"])[["value", "low", "high"]]
    for key, claim in {"attention": ("explain-erasure-attention", LSTM),
                       "integrated": ("explain-erasure-others", f"{LSTM}, integrated gradients"),
                       }.items():  # fmt: skip
        found[f"lstm_{key}_estimate"] = words.points_estimate(*claims.loc[claim])
    found["mlp_gain"] = words.difference(*(100 * claims.loc[("explain-imposed", LSTM)]), 1)
    far = distances(tables).set_index("other")["divergence"]
    return found | {"seeds_apart": f"{far['another training']:.3f}"}
