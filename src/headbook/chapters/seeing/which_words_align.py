"""Page 53: word alignment read off cross-attention, by weights and by norms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._parallel import (
    ENGLISH,
    GROUPS,
    Parallel,
    aligned,
    as_table,
    parallel,
    published_links,
    same_links,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.corpora.batches import Batch
from headbook.heads.alignment import (
    AlignmentAgreement,
    LinkPrecision,
    Step,
    WordPair,
    diagonal,
)
from headbook.heads.collect import collect
from headbook.heads.measure import REPLICATES, RatioSums, best_head
from headbook.heads.norms import ByLayer, by_norm
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.outputs import output_parts
from headbook.heads.random_head import random_heads
from headbook.looking.load import load
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind, UserError

NUMBER = 53
TITLE = "Which words align?"
WORK = "kobayashi2020"
KEYS = ("model", "sentences", "matrix", "step")

WEIGHTS, NORMS, REDRAWN = "weights", "norms", "weights, drawn anew"
LAYER_WEIGHTS, LAYER_NORMS = "weights of a layer", "norms of a layer"
"""A layer's heads together: the mean of their weights, the norm of the sum of their vectors."""
PAPER = {(LAYER_WEIGHTS, "output"): 0.4774, (LAYER_NORMS, "output"): 0.4136,
         (LAYER_WEIGHTS, "input"): 0.2977, (LAYER_NORMS, "input"): 0.2498}  # fmt: skip
"""Best layer, German to English, mean of five seeds; from the run that the authors released."""
PAPER_MATRICES = (LAYER_WEIGHTS, LAYER_NORMS)
BEST_HEAD = "head, weights, predicting / reading"
DIAGONAL, RANDOM, AGAIN = "diagonal", "random head", "the aligner again"
PUBLISHED, EFLOMAL = "published", "eflomal"
PORTUGUESE = "pt"
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Parameters:
    """Translation models, who aligned the reference, its first sentences, and redrawn networks.

    Nothing is measured where no model is named: the treebanks are not bundled. `aligner` is
    "published", the links published with the page (English and Portuguese), or "eflomal", which is
    run.
    """

    models: tuple[str, ...] = ()
    aligner: str = PUBLISHED
    sentences: int | None = None
    nulls: int = 0


Sums = dict[tuple[str, Step], tuple[RatioSums, RatioSums]]
"""By matrix and step: agreement with the links, and precision by group."""


def compute(parameters: Parameters, store: Store) -> Tables:
    """Errors of every head, of the best ones and of the controls, and claims; nothing without a
    model."""
    if parameters.aligner not in (PUBLISHED, EFLOMAL):
        raise UserError(f"aligner is {parameters.aligner!r}; use {PUBLISHED} or {EFLOMAL}")
    if not parameters.models:
        return {}
    heads: list[pd.DataFrame] = []
    best, claims, texts = [], [], dict[str, Parallel]()
    for name in parameters.models:
        model = load(name)
        other = _other(model)
        if other not in texts:
            texts[other] = parallel(other, _kept(parameters.aligner, other))
            if parameters.aligner == EFLOMAL:
                best.append(_again(texts[other]))
        pairs = texts[other] if model.languages[0] == ENGLISH else texts[other].turned()
        subject = Subject(model, pairs.first(parameters.sentences))
        sums = subject.heads(parameters.nulls)
        labels = {"model": name, "sentences": len(subject.pairs)}
        for (matrix, step), (agreement, precision) in sums.items():
            own = labels | {"matrix": matrix, "step": str(step)}
            heads.append(_heads(agreement, precision).assign(**own))
            best.append(own | _best(agreement, precision))
        controls = subject.controls()
        for matrix, (agreement, precision) in controls.items():
            own = labels | {"matrix": matrix, "step": str(Step.OUTPUT)}
            best.append(own | _best(agreement, precision))
        claims += _claims(name, sums, controls[DIAGONAL][0])
    found = {"heads": pd.concat(heads, ignore_index=True), "best": pd.DataFrame(best)}
    if parameters.aligner == EFLOMAL:
        # Links of English and Portuguese come with the page, so that it needs no aligner.
        kept = texts.get(PORTUGUESE, next(iter(texts.values())))
        found |= {"links": as_table(kept.links),
                  "claims": claims_table(claims)}  # fmt: skip
    return found


def _other(model: Loaded) -> str:
    """The language beside English; UserError for a model that does not translate from or to it."""
    others = [each for each in model.languages if each != ENGLISH]
    if ENGLISH not in model.languages or len(others) != 1 or others[0] is None:
        raise UserError(
            f"{model.name} does not translate from or to English: it reads {model.languages[0]} "
            f"and writes {model.languages[1] or 'nothing'}; name a model that does"
        )
    return others[0]


def _kept(aligner: str, other: str) -> list | None:
    if aligner == EFLOMAL:
        return None
    if other != PORTUGUESE:
        raise UserError(f"published links are of English and Portuguese: give aligner={EFLOMAL}")
    return published_links("53_which_words_align")


@dataclass(frozen=True)
class Subject:
    """A model that reads the reference translations, one word after the other."""

    model: Loaded
    text: Parallel

    @cached_property
    def pairs(self) -> list[WordPair]:
        return self.text.on(self.model)

    @cached_property
    def batches(self) -> list[Batch]:
        sources, targets = ([tree.text for tree in side]
                            for side in (self.text.sources, self.text.targets))  # fmt: skip
        return self.model.batches(sources, targets, BATCH_TOKENS)

    def heads(self, nulls: int) -> Sums:
        """All heads of cross-attention, by weights and norms, at either step; and the best of
        several redrawn networks."""
        network, batches, pairs = self.model.network, self.batches, self.pairs
        parts = {Kind.CROSS: output_parts(network, Kind.CROSS)}
        weights, norms = _measures(pairs), by_norm(network, _measures(pairs))
        layers = {matrix: {name: ByLayer(each, own) for name, each in _measures(pairs).items()}
                  for matrix, own in ((LAYER_WEIGHTS, None), (LAYER_NORMS, parts))}  # fmt: skip
        wrapped = {NORMS: norms} | layers
        every = [*weights.values(), *(each for some in wrapped.values() for each in some.values())]
        collect(network, batches, every, progress=iter)
        sums = {WEIGHTS: {name: each.sums() for name, each in weights.items()}} | {
            matrix: {name: each.measure.sums() for name, each in some.items()}
            for matrix, some in wrapped.items()
        }
        found = {(matrix, step): (own[f"agreement, {step}"], own[f"precision, {step}"])
                 for matrix, own in sums.items() for step in Step}  # fmt: skip
        if nulls:
            drawn = [self._redrawn(seed) for seed in range(nulls)]
            found[REDRAWN, Step.OUTPUT] = max(drawn, key=lambda each: float(each[0].ratio().max()))
        return found

    def _redrawn(self, seed: int) -> tuple[RatioSums, RatioSums]:
        measures = _measures(self.pairs, (Step.OUTPUT,))
        with without_knowledge(self.model.network, Null.DRAWN, seed):
            collect(self.model.network, self.batches, list(measures.values()), progress=iter)
        agreement, precision = (each.sums() for each in measures.values())
        return agreement, precision

    def controls(self) -> dict[str, tuple[RatioSums, RatioSums]]:
        """The diagonal, and one head of random weights."""
        makers = {DIAGONAL: diagonal, RANDOM: lambda batch: random_heads(batch, Kind.CROSS)}
        found, pairs, batches = {}, self.pairs, self.batches
        for name, make in makers.items():
            measures = _measures(pairs, (Step.OUTPUT,))
            for batch in batches:
                for each in measures.values():
                    each.update(make(batch), batch)
            found[name] = tuple(each.sums() for each in measures.values())
        return found


def _measures(pairs: Sequence[WordPair], steps: Sequence[Step] = tuple(Step)) -> dict:
    return {
        f"{name}, {step}": measure(pairs, step)
        for step in steps
        for name, measure in (("agreement", AlignmentAgreement), ("precision", LinkPrecision))
    }


def _heads(agreement: RatioSums, precision: RatioSums) -> pd.DataFrame:
    error, right = 1 - agreement.ratio(), precision.ratio()
    return pd.DataFrame(
        {"layer": layer + 1, "head": head + 1, "error": float(error[layer, head])}
        | dict(zip(GROUPS, right[layer, head].tolist(), strict=True))
        for layer, head in np.ndindex(*error.shape)
    )


def _best(agreement: RatioSums, precision: RatioSums) -> dict[str, object]:
    """The head of the lowest error, chosen on one half, scored on the other; precision on all."""
    best = best_head(agreement)
    layer, head = int(best.layer), int(best.head)
    right = precision.ratio()[layer, head].tolist()
    return {"layer": layer + 1, "head": head + 1, "error": 1 - float(best.score),
            "low": 1 - float(best.high), "high": 1 - float(best.low),
            **dict(zip(GROUPS, right, strict=True))}  # fmt: skip


def _again(text: Parallel) -> dict[str, object]:
    """The sure links of a second run of the aligner against those of the first, as for heads."""
    second = aligned(text.sources, text.targets, text.languages[1])
    rows = torch.tensor([
        (len(two.sure & one.sure) + len(two.sure & one.possible), len(two.sure) + len(one.sure))
        for one, two in zip(text.links, second, strict=True)
    ], dtype=torch.float64)  # fmt: skip
    agreement = RatioSums.over(rows[:, 0], rows[:, 1], torch.arange(len(rows)), REPLICATES)
    low, high = agreement.interval()
    found = {name: same_links(text, tag) for name, tag in GROUPS.items()}
    return {"model": "-".join(text.languages), "sentences": len(rows), "matrix": AGAIN,
            "step": "", "layer": 0, "head": 0, "error": 1 - float(agreement.ratio()),
            "low": 1 - float(high), "high": 1 - float(low), **found}  # fmt: skip


def _claims(name: str, sums: Sums, order: RatioSums) -> Iterator[dict[str, object]]:
    """One row per claim, intervals over sentences."""
    error = {key: 1 - each[0].replicates() for key, each in sums.items()}
    weights, norms = (error[each, Step.OUTPUT] for each in (WEIGHTS, NORMS))
    best = {key: _of_best(each[0]) for key, each in sums.items()}
    found = {
        "align-norms-better": best[LAYER_NORMS, Step.OUTPUT] - best[LAYER_WEIGHTS, Step.OUTPUT],
        "align-input-better": best[LAYER_NORMS, Step.INPUT] - best[LAYER_NORMS, Step.OUTPUT],
        "align-norms-heads": (weights - norms).mean((-2, -1)),
        "align-input-heads": (norms - error[NORMS, Step.INPUT]).mean((-2, -1)),
        "align-best-beats-diagonal": best[WEIGHTS, Step.OUTPUT]
        - order.replicates(1).flatten(1)[:, 0],
        "align-reader-better": best[WEIGHTS, Step.INPUT] - best[WEIGHTS, Step.OUTPUT],
        "align-most-heads-do-not": (weights > 1 - order.replicates()).double().mean((-2, -1)),
    }
    for claim, each in found.items():
        yield released_claim(claim, name, *interval(each.numpy()))


def _of_best(agreement: RatioSums) -> Tensor:
    """In every replicate of the second half, of the head that is best on the first."""
    chosen = agreement.ratio(0).flatten().argmax()
    return agreement.replicates(1).flatten(1)[:, chosen]


LABELS = {
    (LAYER_WEIGHTS, "output"): "layer, weights, predicting",
    (LAYER_NORMS, "output"): "layer, norms, predicting",
    (LAYER_WEIGHTS, "input"): "layer, weights, reading",
    (LAYER_NORMS, "input"): "layer, norms, reading",
    (WEIGHTS, "output"): "head, weights, predicting",
    (NORMS, "output"): "head, norms, predicting",
    (WEIGHTS, "input"): "head, weights, reading",
    (NORMS, "input"): "head, norms, reading",
    (DIAGONAL, "output"): DIAGONAL,
    (RANDOM, "output"): RANDOM,
    (REDRAWN, "output"): "drawn anew",
    (AGAIN, ""): AGAIN,
}
"""Rows of the figure: source of the links, and the step of the decoder."""
_READ = (WEIGHTS, NORMS, LAYER_WEIGHTS, LAYER_NORMS)
_KEYS = {WEIGHTS: "weights", NORMS: "norms", DIAGONAL: "diagonal", RANDOM: "random",
         REDRAWN: "redrawn", AGAIN: "again", LAYER_WEIGHTS: "layer_weights",
         LAYER_NORMS: "layer_norms"}  # fmt: skip


def errors(tables: Tables) -> pd.DataFrame:
    """Error of the best layer, head and of the controls, by way to read links off and model.

    The work's values stand in the rows of the first model, column `paper`.
    """
    rows = tables["best"].assign(step=tables["best"]["step"].fillna(""))
    keys = list(zip(rows["matrix"], rows["step"], strict=True))
    first = rows["model"] == rows.loc[rows["matrix"].isin(_READ), "model"].iloc[0]
    paper = [PAPER.get(key) if own else None for key, own in zip(keys, first, strict=True)]
    rows = rows.assign(read=[LABELS[key] for key in keys], model=rows["model"].map(title_of),
                       paper=np.array(paper, dtype=float))  # fmt: skip
    order = list(LABELS.values())
    return rows.sort_values("read", key=lambda names: names.map(order.index), kind="stable")


def beside(tables: Tables, added: Sequence[Mapping] = ()) -> pd.DataFrame:
    """Errors in per cent: the work's beside those of every model measured, a column each.

    `added` are the records of rows added later, which say how long a model of ours was trained.
    """
    weights = {each.get("model"): each.get("weights") for each in added}
    own = tables["best"].assign(step=tables["best"]["step"].fillna(""))
    own = own[own["matrix"].isin((WEIGHTS, *PAPER_MATRICES))].set_index(["model", "matrix", "step"])
    shown = [LABELS[key] for key in PAPER]
    columns = {
        "links from": [*shown, BEST_HEAD],
        "Kobayashi et al., de→en": [*map(words.percent, PAPER.values()), "not compared"],
    }
    for model in own.index.unique("model"):
        of = own.loc[model]
        cells = [words.estimate(*of.loc[key, ["error", "low", "high"]]) for key in PAPER]
        ends = (
            words.percent(of.loc[(WEIGHTS, str(step)), "error"])
            for step in (Step.OUTPUT, Step.INPUT)
        )
        title = title_of(model)
        if made := weights.get(model):
            title += f", {words.count(made['updates'])} of {words.count(made['planned'])} updates"
        columns[title] = [*cells, " / ".join(ends)]
    return pd.DataFrame(columns)


def summary(tables: Tables) -> pd.DataFrame:
    """`errors` in per cent, with the head and its precision on words written alike."""
    rows = errors(tables)
    heads = [words.head(row.layer, row.head) if row.matrix in (WEIGHTS, NORMS)
             else f"L{row.layer}" if row.matrix in _READ else ""
             for row in rows.itertuples()]  # fmt: skip
    shown = {name: rows[name].map(words.percent) for name in GROUPS}
    error = [words.estimate(row.error, row.low, row.high) for row in rows.itertuples()]
    return rows[["model", "read"]].assign(head=heads, error=error, **shown)


def title_of(model: str) -> str:
    """As figures and tables name it."""
    return (words.TITLES | {f"{ENGLISH}-{PORTUGUESE}": "eflomal"}).get(model, model)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    found: Facts = {f"paper_{_KEYS[matrix]}_{step}": words.percent(value)
                    for (matrix, step), value in PAPER.items()}  # fmt: skip
    for row in errors(tables).assign(model=tables["best"]["model"]).itertuples():
        name = f"{str(row.model).replace('-', '_')}_{_KEYS[row.matrix]}"
        key = f"{name}_{row.step}" if row.matrix in _READ else name
        found |= {key: words.percent(row.error), f"{key}_head": words.head(row.layer, row.head),
                  f"{key}_interval": words.estimate(row.error, row.low, row.high)}  # fmt: skip
        found |= {f"{key}_{group}": words.percent(getattr(row, group)) for group in GROUPS}
    heads = tables["heads"].query("matrix == @WEIGHTS and step == 'output'")
    for model, rows in heads.groupby("model", sort=False):
        own = tables["best"].query("model == @model and matrix == @DIAGONAL")["error"].iloc[0]
        key = str(model).replace("-", "_")
        found[f"{key}_below"] = f"{(rows['error'] < own).sum()} of {len(rows)}"
        found[f"{key}_sentences"] = words.count(rows["sentences"].iloc[0])
    return found
