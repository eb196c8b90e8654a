"""The claims of notebook 36, from the changes of every regulariser against its base."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from headbook.claims.bootstrap import over_seeds
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.studies.measurements import claim_row
from headbook.studies.regularised_runs import CONSTANT, Task, V
from headbook.training.regularising import Term

TERMS = tuple(map(str, Term))
LI_OTHERS = (Term.SUBSPACE, Term.POSITIONS)


@dataclass(frozen=True)
class Asked:
    """A claim about a column of the changes: one row a task and variant, mean over seeds."""

    claim: str
    column: str
    tasks: tuple[Task, ...]
    variants: tuple[str, ...]


ASKED = (
    Asked("li-outputs-raise-bleu", "gain_bleu", (Task.TRANSLATION,), (Term.OUTPUTS,)),
    Asked("li-subspaces-raise-bleu", "gain_bleu", (Task.TRANSLATION,), (Term.SUBSPACE,)),
    Asked("li-positions-raise-bleu", "gain_bleu", (Task.TRANSLATION,), (Term.POSITIONS,)),
    Asked("lee-inter-head-helps", "gain_nats", (Task.TRANSLATION,), (Term.CONTEXTS, Term.SCORES)),
    Asked("zhou-drop-head-raises-bleu", "gain_bleu", (Task.TRANSLATION,), (V,)),
    Asked("xray-no-regulariser-helps", "gain_nats", (Task.LANGUAGE,), TERMS),
    Asked("regulariser-moves-own-term", "own_term", tuple(Task), TERMS),
    Asked("regulariser-bears-removal", "rise_at_half", tuple(Task), (*TERMS, CONSTANT, V)),
)  # fmt: skip


def claims(
    changes: pd.DataFrame, explained: pd.DataFrame, corpora: Mapping[str, str]
) -> pd.DataFrame:
    """One row a claim, task and variant that was trained; intervals are over seeds."""
    found = [row for asked in ASKED for row in _of_changes(asked, changes, corpora)]
    found += _best_alone(changes, corpora)
    found += _contrasts(changes, corpora)
    found += _explained(explained, corpora)
    return pd.DataFrame(found)


def _of_changes(
    asked: Asked, changes: pd.DataFrame, corpora: Mapping[str, str]
) -> Iterator[dict[str, object]]:
    for task in asked.tasks:
        for variant in asked.variants:
            of_seeds = by_seed(changes, task, variant, asked.column)
            yield from _row(asked.claim, f"{task}, {variant}", corpora[task], of_seeds)


def by_seed(changes: pd.DataFrame, task: str, variant: str, column: str) -> pd.Series:
    """A column of one task and variant, indexed by seed; empty where it was not trained."""
    rows = changes[(changes["task"] == task) & (changes["variant"] == variant)]
    return rows.set_index("seed")[column]


def _best_alone(changes: pd.DataFrame, corpora: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """Of Li et al.'s three terms: the outputs' gain beyond the better of the two others."""
    task, column = Task.TRANSLATION, "gain_bleu"
    others = [by_seed(changes, task, term, column) for term in LI_OTHERS]
    beyond = by_seed(changes, task, Term.OUTPUTS, column) - pd.concat(others, axis=1).max(
        axis=1, skipna=False
    )
    yield from _row("li-outputs-best-alone", str(task), corpora[task], beyond.dropna())


def _contrasts(changes: pd.DataFrame, corpora: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """How much more nats a term gains in translation than in the language model."""
    named = " and ".join(dict.fromkeys(corpora.values()))
    for variant in TERMS:
        translation, language = (by_seed(changes, task, variant, "gain_nats") for task in Task)
        gap = (translation - language).dropna()
        yield from _row("xray-helps-translation-more", variant, named, gap)


def _explained(explained: pd.DataFrame, corpora: Mapping[str, str]) -> Iterator[dict[str, object]]:
    for row in explained[explained["metric"] == DISSIMILARITY].itertuples():
        labels = _labels(row.task, corpora[row.task])
        yield claim_row("diversity-explains-gain", labels, row.correlation, row.low, row.high,
                        baseline=row.null_high)  # fmt: skip


def _row(claim: str, name: str, corpus: str, of_seeds: pd.Series) -> Iterator[dict[str, object]]:
    """The mean over seeds with its interval; no row where nothing was trained."""
    if len(of_seeds):
        found = over_seeds(of_seeds.to_numpy(dtype=float))
        yield claim_row(claim, _labels(name, corpus), found.mean, found.low, found.high)


def _labels(name: str, corpus: str) -> dict[str, object]:
    """Rows are of several seeds, and a contrast of two tasks: neither is told."""
    return {"model": name, "corpus": corpus, "target": "", "seed": ""}
