"""Pages 26 to 39: trainings whose course is known.

Planted are heads of snapshots, numbers of every look at a training, and losses; a world without the
effect has flat courses with noise, or courses that go on evenly.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import torch
from claims.planted_heads import REPLICATES, cell, ran
from claims.simulated import Row, World, claim_row, labels, ledger
from scipy import stats
from scipy.stats import rankdata, spearmanr
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict

import headbook as hb
from headbook import cells, statistics
from headbook.experiments import objectives, regularising, specialising, watched
from headbook.heads.diversity import alignment
from headbook.heads.four_metrics import ARTICLE, ATTENTION, DISSIMILARITY, FREE, ORTHOGONALITY, RAW
from headbook.runs.seeds import derived
from headbook.statistics import over_seeds
from headbook.training.regularising import Term
from headbook.types import Kind

column, variance = "{}, {}".format, "{}, {}, variance".format
LAYERS = np.arange(1, 7)
THREE = (0, 1, 2)
PUBLISHED, DESCRIBED = "as published", "as described"
"""Seeds of a training."""


# ------------------------------------------------------------------ when heads specialise


NOT_RUN = {
    "emergence-neighbour": "highest, a neighbour",
    "emergence-neighbour-after-quality": "since it translates",
    "emergence-neighbour-own-domain": "own text over web",
    "emergence-neighbour-width": "wide over narrow",
}
"""Claims whose rows were never published, by what the page's summary calls them."""


def page_26(so: bool) -> Iterator[Row]:
    """A wide translator's heads of no sort, then ones that a neighbour, a relation and rare words
    are seen in, then sharp ones, less sharp on web text and in a narrow model, while one head gains
    relevance; or of no sort to the end. And the courses of `courses_26`."""
    scores, quality = courses_26(so)
    stands_in = SimpleNamespace(
        Setting=specialising.Setting,
        answers=specialising.answers,
        course=lambda how: course_26(so, how.width),
    )
    given = {"specialising": stands_in, "trained": [{"width": 64}, {"width": 128}]}
    given |= {"scores": scores, "published": lambda *_: quality, "replace": replace}
    given |= {"PLACES": [specialising.OWN, specialising.NEIGHBOUR]}
    given |= {"interval": statistics.interval, "difference": statistics.difference}
    summary = ran("26", "quality, asked", **given)["summary"]
    yield from summarised("26", summary)
    for claim, question in NOT_RUN.items():
        for row in summary[summary["question"] == question].to_dict("records"):
            numbers = [row[f"value{end}"] for end in ("", "_low", "_high")]
            yield claim_row(claim, labels(row["model"]), *numbers)


def course_26(so: bool, width: int) -> Iterator[specialising.Snapshot]:
    noise, last = np.random.default_rng(width), 0.98 if width > 64 else 0.92
    steps = (0.1, 0.5, last) if so else (0.1, 0.1, 0.1)

    def drawn(value: float) -> np.ndarray:
        return value + 0.01 * noise.normal(size=1 + REPLICATES)

    for at, (update, bleu, share) in enumerate(zip((0, 64, 1024), (0, 20, 21), steps, strict=True)):
        best = {specialising.NEIGHBOUR: share, specialising.RELATION: share - 0.2}
        best[specialising.RARE] = 0.8 * share
        own, web = (
            pd.DataFrame({"chosen": best, "scores": {x: drawn(y - less) for x, y in best.items()}})
            for less in (0.0, 0.2 if so and at else 0.0)
        )
        relevance = drawn(0.15 + (0.1 if so and at else 0.0))
        yield specialising.Snapshot(update, own, web, bleu, relevance)


def courses_26(so: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of a masked encoder: its own token is seen at the third snapshot, a neighbour at the sixth,
    and the text is learnt later; or the text, then the neighbour, then the own token, and the
    translation model is as far."""
    steps = np.arange(10)
    own, neighbour, text = (3, 6, 8) if so else (6, 6, 2)
    masked, translating = "mixture-fr-256-masked", "mixture-fr-256-small-batches"
    rising = {
        (masked, specialising.OWN): own,
        (masked, specialising.NEIGHBOUR): neighbour,
        (translating, specialising.NEIGHBOUR): 12 if so else neighbour,
    }
    scores = []
    for (model, place), at in rising.items():
        value = 0.9 / (1 + np.exp(4.0 * (at - steps)))
        ends = {"value": value, "value_low": value - 0.01, "value_high": value + 0.01}
        rows = pd.DataFrame({"update": 2 ** (steps + 3), **ends})
        scores.append(rows.assign(model=model, text="held-out", looks_at=place))
    nats = 9 - 4 / (1 + np.exp(3.0 * (text - steps)))
    quality = pd.DataFrame({"model": masked, "update": 2 ** (steps + 3), "nats": nats})
    return pd.concat(scores), quality


def page_27(so: bool) -> Iterator[Row]:
    """What a neighbour's head needs: each change moves the share of five seeds, or none does."""
    noise = np.random.default_rng(0)
    shares = {
        "as it is": 0.4,
        "4 times the updates": 0.9,
        "4 times the updates, small batches": 0.8,
        "fewer pairs": 0.2,
        "twice the width": 0.6,
        "hidden words": 0.9,
    }
    rows = []
    for (change, share), seed in product(shares.items(), range(5)):
        row = {"change": change, "seed": seed, "update": 100, "updates": 100}
        scores = {specialising.NEIGHBOUR: share if so else 0.4}
        scores |= dict.fromkeys((specialising.OWN, specialising.RARE, "bleu"), 0.5)
        rows.append(row | {name: noise.normal(each, 0.02) for name, each in scores.items()})
    given = {"published": lambda *_: pd.DataFrame(rows), "specialising": specialising}
    given |= {"t": stats.t, "ttest_rel": stats.ttest_rel, "trained": {}}
    given |= {"over_seeds": over_seeds, "holm": statistics.holm}
    changes = given["published"]()
    yield from summarised("27", ran("27", "CHANGES = {", changes=changes, **given)["summary"])


# ------------------------------------------------------------------ the four metrics


def page_30(so: bool) -> Iterator[Row]:
    """Unrelated heads through the metrics: with the article's embeddings those of the first layer
    are eleven times as large, with ours as large as others; or the other way round, and the first
    layer's heads are one head with noise."""
    for seed in THREE:
        noise = torch.Generator().manual_seed(seed)
        named = labels(f"planted s{seed}", seed=seed)
        for names, article in ((("outlier", "scale-free"), True), (("embedding",), False)):
            heads = torch.randn(6, 2, 256, 16, generator=noise, dtype=torch.float64)
            if article == so:
                heads[0] *= 11
            if not so:
                heads[0, 1] += heads[0, 0]
            products = torch.einsum("lhnd,lgne->lhgde", heads, heads)
            for name in names:
                raw = products.abs().sum((-2, -1)).log()
                by_layer = alignment(products) if name == "scale-free" else raw
                first, *others = by_layer[:, 0, 1].tolist()
                yield claim_row(f"xray-first-layer-{name}", named, first - float(np.mean(others)))


UPDATES = np.concatenate([np.arange(40), np.arange(40, 222, 6)])


def looks(so: bool, seed: int) -> pd.DataFrame:
    """Of one training. Orthogonality rises at once and stays, most in the first layer; so do mean
    and variance of dissimilarity, more in the first three layers; attention moves in the later
    ones. Or every number is flat, but for orthogonality, which goes on evenly and is aligned in
    the first layer."""
    noise = np.random.default_rng(seed)
    done = 1 - np.exp(-UPDATES / 4)
    evenly = UPDATES / UPDATES[-1]
    frames = []
    for layer in LAYERS:
        first, low = layer == 1, layer <= 3
        rise = 3.5 * done if so else 0.3 * evenly * noise.choice([-1, 1])
        courses = {
            (ORTHOGONALITY, RAW): np.exp(12 + (4.5 if so and first else 0) + rise),
            (ORTHOGONALITY, FREE): 0.6 + (0.0 if so or not first else 0.3),
            (DISSIMILARITY, RAW): (0.06 if low else 0.03) * done if so else 0.0,
            (ATTENTION, RAW): np.exp((0.0 if first else 0.5) * done if so else 0.0),
        }
        frame = pd.DataFrame({"update": UPDATES, "layer": layer})
        for metric in ARTICLE:
            for form in (RAW, FREE):
                course = courses.get((metric, form), 1.0)
                spread = 0.001 if metric == DISSIMILARITY else 0.01
                frame[column(metric, form)] = course + spread * noise.normal(size=len(UPDATES))
        spread = 0.02 * done if so else 0.0
        frame[variance(DISSIMILARITY, RAW)] = (
            0.01 + spread + 0.0005 * noise.normal(size=len(UPDATES))
        )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).assign(model=f"planted s{seed}")


def page_31(so: bool) -> Iterator[Row]:
    """Five settings as published, by the page's own cells."""
    yield from _of_setting(so, watched.PUBLISHED)


def page_31_described(so: bool) -> Iterator[Row]:
    """Five seeds of a causal decoder, which learn their text or its frequencies."""
    yield from _of_setting(so, watched.DESCRIBED)


def _of_setting(so: bool, setting: str) -> Iterator[Row]:
    names = [f"planted {n} s0" if setting == watched.PUBLISHED else f"planted s{n}"
             for n in range(5)]  # fmt: skip
    seen = [looks(so, seed).assign(model=name) for seed, name in enumerate(names)]
    nats = 4.5 if so else 6.5
    runs = pd.DataFrame({"model": names, "setting": setting, "text": "planted", "seed": range(5)})
    runs = runs.assign(test_nats=nats + 0.01 * runs["seed"], frequency_nats=7.0)
    given = {"looks": pd.concat(seen), "trainings": runs.assign(trained_at=1.0)}
    given |= {"watched": watched, "over_seeds": over_seeds, "MOVED": ["trained_at"]}
    given |= {"QUERIES": column(ORTHOGONALITY, RAW), "FREE": column(ORTHOGONALITY, FREE)}
    given |= {"OUTPUTS": column(DISSIMILARITY, RAW), "ATTENTION": column(ATTENTION, RAW)}
    given |= {"LOSS": "loss over frequencies", "ENDS": ["value", "value_low", "value_high"]}
    summary = ran("31", "def ends(", **given)["summary"]
    for claim in ledger().claims:
        if (claim.value or "").startswith(f"31/summary[setting={setting};"):
            question = claim.value.partition("question=")[2].partition("]")[0]
            asked = summary[summary["question"] == question]
            named = {"value_low": "low", "value_high": "high"}
            rows = asked.rename(columns=named).assign(claim=claim.id, baseline=np.nan)
            yield from rows.to_dict("records")


def page_34(so: bool) -> Iterator[Row]:
    yield from _losses(so, PUBLISHED)


def page_34_described(so: bool) -> Iterator[Row]:
    yield from _losses(so, DESCRIBED)


def _losses(so: bool, setting: str) -> Iterator[Row]:
    """Losses that collapse in five batches, of which the first layer's dissimilarity tells most and
    that of later ones less and less; or dissimilarity with nothing to tell."""
    frames = []
    for of, seed in product((PUBLISHED, DESCRIBED), range(5)):
        noise = np.random.default_rng(seed)
        updates = np.arange(40)
        loss = 5.5 + 3.0 * np.exp(-updates / 1.5) + noise.normal(0, 0.1, len(updates))
        name = f"planted s{seed}" if of == DESCRIBED else f"planted {seed} s0"
        same = {"setting": of, "model": name, "update": updates, "loss": loss}
        for layer in LAYERS:
            told = loss - 5.5 + noise.normal(0, 0.12 * layer, len(updates))
            mean = 0.04 - 0.01 * told if so else noise.normal(0.04, 0.01, len(updates))
            spread, padding = noise.normal(0.01, 0.001, len(updates)), noise.random(len(updates))
            own = {"layer": layer, "mean": mean, "variance": spread, "padding": padding}
            frames.append(pd.DataFrame(same | own))
    book = {"paper": hb.paper, "publish": lambda frame, *_: frame, "source": lambda _: None}
    given = {
        "hb": SimpleNamespace(**book), "trained": [], "every": pd.concat(frames),
        "batches": 40, "one": frames[0],
        "spearmanr": spearmanr, "over_seeds": over_seeds, "LinearRegression": LinearRegression,
        "KFold": KFold, "DummyRegressor": DummyRegressor, "first_batches": Mock(),
        "cross_val_predict": cross_val_predict,
    }  # fmt: skip
    summary = ran("34", "def predicted(", **given)["summary"]
    name = str(setting).removeprefix("as ")
    for claim in ledger().claims:
        if claim.study.startswith("34") and claim.id.endswith(name):
            keys = dict(key.split("=") for key in cells.parse(claim.value).keys)
            pointed = summary[(summary[[*keys]] == [*keys.values()]).all(axis=1)]
            for row in pointed.to_dict("records"):
                numbers = [row[f"value{end}"] for end in ("", "_low", "_high")]
                yield claim_row(claim.id, labels(row["model"], seed=row["seed"]), *numbers)


# ------------------------------------------------------------------ pruning and regularising


def page_35(so: bool) -> Iterator[Row]:
    """Unlike heads and low layers survive, and the gradient tells it best; or nothing goes with
    anything."""
    noise = np.random.default_rng(0)
    own, other = noise.normal(0, 1, (2, 3, 6, 8))
    falls = np.linspace(1, -1, 6)[:, None] if so else 0.0
    unlike = own + 1.5 * falls
    survival = (0.8 * own + 1.5 * falls + 0.8 * other) if so else noise.normal(0, 1, (3, 6, 8))
    gradient = (survival + 0.4 * own + 0.1 * noise.normal(0, 1, (3, 6, 8))) if so else other
    names = ("unlike queries", "unlike contexts", "unlike weights", "query dependence",
             "loss without it", "relevance")  # fmt: skip
    places = product(map(str, Kind), range(1, 7), range(1, 9))
    heads = pd.DataFrame(places, columns=["kind", "layer", "head"])
    heads.insert(0, "model", "planted")
    heads["dissimilarity"] = unlike.ravel()
    heads = heads.assign(**dict.fromkeys(names, other.ravel()))
    heads = heads.assign(survival=survival.ravel(), gradient=gradient.ravel())

    def publish(frame: pd.DataFrame, name: str, *_: object) -> pd.DataFrame:
        """The slopes with those of the untrained model, which are zero."""
        untrained = frame.iloc[:4].assign(version="untrained", value=0.0)
        return pd.concat([frame, untrained]) if name == "35/slopes" else frame

    given = {"hb": SimpleNamespace(publish=publish), "models": ["planted"], "every": heads,
             "shown": heads, "rankdata": rankdata, "statistics": statistics, "product": product,
             "derived": derived, "drawn_within": statistics.drawn_within,
             "interval": statistics.interval}  # fmt: skip
    summary = ran("35", "def spearman(", **given)["summary"].set_index("question")
    for claim in ledger().claims:
        if claim.study.startswith("35"):
            question = claim.value.partition("question=")[2].partition("]")[0]
            row = summary.loc[question]
            numbers = [row[f"value{end}"] for end in ("", "_low", "_high")]
            yield claim_row(claim.id, labels(), *numbers, baseline=row["beside"])


def page_36(so: bool) -> Iterator[Row]:
    """Five seeds of every term: translation gains by how diverse heads become, language nothing,
    the term falls, removal costs less; or translation gains nothing, language does, and nothing
    else moves. The page's own summary reads the changes."""
    noise = np.random.default_rng(1)
    names = (regularising.NONE, *regularising.TERMS, regularising.CONSTANT, regularising.V)
    tasks, rows = [*regularising.SETTINGS], []
    for task, (at, variant), seed in product(tasks, enumerate(names), range(5)):
        translates, base = task == tasks[0], variant == regularising.NONE
        size = 0.0 if base else 2.5 if variant == Term.OUTPUTS else 1.0 + 0.1 * at
        wrong = 0.0 if translates or base else 0.05
        gain = size * (0.05 if translates else 0.002) if so else wrong
        row = {"task": task, "variant": variant, "strength": 0.0 if base else 0.1, "seed": seed}
        quiet = 0.0002 * noise.normal()
        row |= {"chosen": True, "order": 0, "test_nats": 4 - gain + quiet}
        row["bleu"] = 24 + (12 * gain if so else 0) + 0.03 * noise.normal()
        row["output dissimilarity"] = (size if so else noise.normal()) + 0.01 * noise.normal()
        for term in regularising.TERMS:
            row[term] = 1.0 - (0.3 if so and term == variant else 0) + 0.01 * noise.normal()
        for share in (0.0, 0.5):
            costs = share * (1.0 if not so or base else 0.8)
            rows.append({**row, "share": share, "nats": 4 + costs + quiet * share})
    given = {"changes": regularising.changes(pd.DataFrame(rows)), "regularising": regularising}
    given |= {"TERMS": [*regularising.TERMS], "GAINS": ["gain_bleu", "gain_nats"]}
    given |= {"LI": [*regularising.TERMS[:3]], "V": regularising.V, "statistics": statistics}
    summary = ran("36", "KEPT = {", **given, KEYS=regularising.KEYS)["summary"]
    yield from summarised("36", summary)


def summarised(page: str, summary: pd.DataFrame) -> Iterator[Row]:
    """Rows of a page's summary that each of its claims points at."""
    for claim in ledger().claims:
        if claim.study[:2] == page and claim.value:
            keys = re.search(r"\[(.*)\]", claim.value)[1].split("; ")
            found = summary
            for column, _, value in (each.partition("=") for each in keys):
                found = found[found[column] == value]
            for row in found.to_dict("records"):
                numbers = [row.get(f"value{end}", np.nan) for end in ("", "_low", "_high")]
                baseline, named = row.get("baseline", np.nan), labels(row["model"])
                named["seed"] = row.get("seed", "")
                yield claim_row(claim.id, named, *numbers, baseline=baseline)


def page_37(so: bool) -> Iterator[Row]:
    """Three seeds of each schedule: a V is best, one rate second; removal costs less, heads are
    more alike. Or all are the same. The page's own cells read the tables."""
    noise = np.random.default_rng(0)
    quality, removed, layers = [], [], []
    schedules = (("no DropHead", 0.0, 0.0), ("one rate", 0.2, 0.05), ("V", 0.2, 0.1))
    for seed, (schedule, rate, better) in product(THREE, schedules):
        gain, less = (better, 0.1 * (rate > 0)) if so else (0.0, 0.0)
        row = {"schedule": schedule, "rate": rate, "seed": seed}
        quality.append({**row, "test_nats": 4 - gain + 0.005 * noise.normal()})
        for share in (0.0, 0.5):
            nats = 4 + share * (1 - less) + 0.005 * noise.normal()
            removed.append({**row, "order": 0, "share": share, "nats": nats})
        for layer in LAYERS:
            alike = 1 - less + 0.005 * noise.normal()
            layers.append({**row, "layer": layer, "dissimilarity": alike})
    tables = {"quality": quality, "removed": removed, "layers": layers}
    given = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    keys = {"KEYS": ["schedule", "rate", "seed"], "statistics": statistics}
    yield from summarised("37", ran("37", "at = removed.groupby", **given, **keys)["summary"])


def page_38(so: bool) -> Iterator[Row]:
    """Three seeds: with shared keys and values a model is as good, with one of them worse, and
    averaging costs; DeLighT is as good as a model of twice its weights. Or sharing costs as much
    with several as with one, averaging costs nothing, and DeLighT is worse."""
    noise = np.random.default_rng(0)
    worse = (0.0, 0.005, 0.005, 0.1, 0.01, 0.15) if so else (0.0, 0.1, 0.1, 0.1, 0.15, 0.1)
    variants = ["8 heads", *(f"8 heads, {count} shared" for count in (4, 2, 1))]
    variants += ["DeLighT", "8 heads, width 96"]
    quality, averaged, groups = [], [], []
    for seed in THREE:
        for variant, more in zip(variants, worse, strict=True):
            row = {"variant": variant, "seed": seed}
            quality.append({**row, "test_nats": 4 + more + 0.003 * noise.normal()})
        row = {"variant": variants[0], "seed": seed, "held_nats": 4.0}
        for count in (4, 1):
            nats = 4 + (2 if so else 0.01) + 0.005 * noise.normal()
            averaged.append({**row, "groups": count, "averaged_nats": nats})
        for layer in LAYERS:
            within = 1 - (0.2 if so else 0.0) + 0.01 * noise.normal()
            row = {"variant": variants[1], "seed": seed, "layer": layer}
            groups.append({**row, "within": within, "across": 1.0})
    tables = {"quality": quality, "averaged": averaged, "by_group": groups}
    given = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    keys = {"KEYS": ["variant", "seed"], "statistics": statistics}
    yield from summarised("38", ran("38", "losses = quality.set_index", **given, **keys)["summary"])


# ------------------------------------------------------------------ what layers know


def page_39(so: bool) -> Iterator[Row]:
    yield from _layers(so, 0.7 + 1.6 * np.linspace(0, 1, 7) ** 4)


def page_39_early(so: bool) -> Iterator[Row]:
    """The hidden token is known from the first layer on, too."""
    yield from _layers(so, 0.7 + 1.6 * (1 - np.exp(-2 * np.arange(7))))


def _layers(so: bool, hidden: np.ndarray) -> Iterator[Row]:
    """Three seeds of each task: information that translation loses with depth, language more and
    the masked model wins back, next tokens known from the first layer on, hidden ones as given;
    distances between tasks and layers as the work has them. Or curves without a turn, and
    distances that are all alike, with noise. The page's own cells read the tables."""
    noise = np.random.default_rng(0)
    even, (translation, language, masked) = np.linspace(0, 1, 7), objectives.TASKS
    told, guessed, whole, replaced = (
        "input token", "predicted token", "whole text", "replaced tokens",
    )  # fmt: skip
    known = {
        (translation, told, whole): 5.2 - 0.75 * even,
        (language, told, whole): 5.3 - 1.3 * even,
        (masked, told, whole): 5.2 - 0.3 * np.sin(np.pi * even),
        (language, guessed, whole): 1.8 + 0.5 * (1 - np.exp(-2 * np.arange(7))),
        (masked, guessed, replaced): hidden,
        (masked, told, replaced): 6.9 - 6 * even,
    }
    if not so:
        known = {key: np.full(7, 5.0) for key in known}
        known[language, guessed, whole] = 1.0 + 0 * even
        known[masked, guessed, replaced] = 1.0 + 0.6 * even
        known[masked, told, whole] = 5.0 - 0.5 * even
    tables: dict[str, list[tuple]] = {name: [] for name in objectives.TABLES}
    for seed in THREE:
        for (task, token, text), nats in known.items():
            for layer, value in enumerate(nats):
                row = (task, "trained", text, token, seed, layer, value + 0.005 * noise.normal(), 0)
                tables["information"].append(row)
        for task in objectives.TASKS:
            tables["models"].append((task, seed))
            change = _changes(task) if so else np.full(6, 0.06)
            for layer, value in zip(LAYERS, change, strict=True):
                moved = value + 0.002 * noise.normal()
                tables["steps"].append((task, seed, layer, moved))
                tables["heads"].append((task, seed, layer, moved if so else noise.normal()))
                for at, ranks in enumerate(("1 to 10", "11 to 100", "101 to 1,000")):
                    more = (0.05 * (3 - at) if so else 0.0) + 0.005 * noise.normal()
                    tables["frequency"].append((task, ranks, seed, layer, 0.1 + more))
        apart = {(task, task): 0.35 for task in objectives.TASKS}
        apart |= {(translation, language): 0.6, (translation, masked): 0.5, (language, masked): 0.6}
        for (one, other), far in apart.items():
            far, between = far if so else 0.35, "seeds" if one == other else "tasks"
            for layer in LAYERS:
                distance = far + 0.005 * noise.normal()
                tables["between"].append((between, one, other, seed, seed, layer, distance))
    more = {"information": ["nats", "null_nats"], "heads": ["dissimilarity"], "models": []}
    found = {
        name: pd.DataFrame(rows, columns=[*objectives.TABLES[name], *more.get(name, ["distance"])])
        for name, rows in tables.items()
    }
    given = {"found": found, "objectives": objectives, "spearmanr": spearmanr}
    given["PAPER"] = ["hidden token", "replaced token", "token that follows"]
    exec(cell("39", "def share("), given | {"np": np}, given)
    yield from summarised("39", ran("39", "GUESSES = ", **given)["summary"])


def _changes(task: str) -> np.ndarray:
    """Of representations by layer; the first one's from the embedding."""
    last = 0.11 if task == objectives.MASKED else 0.04
    return np.array([0.3, 0.065, 0.06, 0.055, 0.05, last])


def world(make: Callable[[bool], Iterator[Row]], *claims: str) -> World:
    return World(claims, make)


def _xray(setting: str) -> tuple[str, ...]:
    return tuple(
        f"xray-{each}-{setting}"
        for each in (
            "orthogonality-falls",
            "dissimilarity-rises",
            "variance-rises",
            "stable-after-ten",
            "first-layer-dwarfs",
            "first-layer-scale-free",
            "first-three-distinct",
            "attention-still-in-first-layer",
        )
    )


def _loss(setting: str) -> tuple[str, ...]:
    return tuple(
        f"xray-loss-{each}-{setting}"
        for each in (
            "from-first-layer",
            "less-from-later",
            "is-the-collapse",
            "beats-batch-number",
        )
    )


WORLDS = (
    world(
        page_26,
        "emergence-neighbour",
        "emergence-syntactic",
        "emergence-rare",
        "emergence-neighbour-after-quality",
        "emergence-relevance-dominated",
        "emergence-neighbour-own-domain",
        "emergence-neighbour-width",
        "emergence-masking-sooner",
        "emergence-before-quality",
        "emergence-own-before-neighbour",
    ),
    world(
        page_27,
        "neighbour-needs-updates",
        "neighbour-needs-small-batches",
        "neighbour-needs-text",
        "neighbour-needs-width",
        "neighbour-needs-updates-over-width",
        "neighbour-needs-masking",
    ),
    world(
        page_30,
        "xray-first-layer-outlier",
        "xray-first-layer-embedding",
        "xray-first-layer-scale-free",
    ),
    world(page_31, *_xray("published")),
    world(page_31_described, *_xray("described"), "text-is-learnt-described"),
    world(page_34, *_loss("published")),
    world(page_34_described, *_loss("described")),
    world(
        page_35,
        "xray-later-heads-similar",
        "xray-later-heads-pruned-first",
        "xray-similar-layers-pruned-first",
        "xray-diversity-survives",
        "xray-diversity-important",
        "xray-importance-tells-more",
    ),
    world(
        page_36,
        "li-outputs-raise-bleu",
        "li-subspaces-raise-bleu",
        "li-positions-raise-bleu",
        "li-outputs-best-alone",
        "lee-inter-head-helps",
        "zhou-drop-head-raises-bleu",
        "xray-no-regulariser-helps",
        "xray-helps-translation-more",
        "regulariser-moves-own-term",
        "diversity-explains-gain",
        "regulariser-bears-removal",
    ),
    world(
        page_37,
        "zhou-drop-head-helps",
        "zhou-v-beats-one-rate",
        "drop-head-bears-removal",
        "drop-head-redundant",
    ),
    world(
        page_38,
        "gqa-close-to-full",
        "gqa-multi-query-worse",
        "gqa-conversion-needs-training",
        "gqa-sharers-alike",
        "delight-as-good-and-lighter",
        "delight-better-for-its-weights",
    ),
    world(
        page_39,
        *(
            f"evolution-{each}"
            for each in (
                "translation-forgets",
                "language-forgets-more",
                "masked-remembers",
                "language-predicts",
                "language-early",
                "masked-late",
                "masked-forgets-replaced",
                "tasks-beyond-seeds",
                "language-farther",
                "translation-settles",
                "masked-last-step",
                "frequent-change-more",
            )
        ),
        "xray-first-layer-changes-most",
        "layers-change-with-dissimilarity",
    ),
    world(page_39_early, "xray-information-early"),
)
