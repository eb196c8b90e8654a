"""Page 36, gains on resampled test sets and the claims that rest on them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.regularising import CONSTANT, NONE, Task, V
from headbook.chapters.diversity._regularised_measures import Reading
from headbook.chapters.tables import claim_row
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.statistics import draws, over_seeds, percentile_interval
from headbook.training.paired import SAMPLES, SEED, resampled
from headbook.training.regularising import Term
from headbook.training.scoring import Losses

NATS, BLEU = "gain_nats", "gain_bleu"
Drawn = Float[np.ndarray, " sample"]
Of = tuple[str, str, str]
"""A task, a variant, and NATS or BLEU."""
TERMS = tuple(map(str, Term))
LI_OTHERS = (Term.SUBSPACE, Term.POSITIONS)


@dataclass(frozen=True, eq=False)
class Gain:
    """Gain of one model over the base of its seed on each resampled test set."""

    of: Of
    seed: int
    drawn: Drawn


def gains(kept: Sequence[Reading]) -> Iterator[Gain]:
    """Of every model of one task but the bases themselves; in BLEU where it translates."""
    bases = {_seed(each): each for each in kept if each.made.asked.variant == NONE}
    for each in kept:
        base, asked = bases[_seed(each)], each.made.asked
        if each is base:
            continue
        drawn = nats_gained(base.losses, each.losses)
        yield Gain((str(asked.task), asked.variant, NATS), _seed(each), drawn)
        own, bases_own = each.made.bleu_statistics, base.made.bleu_statistics
        if own is not None and bases_own is not None:
            drawn = resampled(own) - resampled(bases_own)
            yield Gain((str(asked.task), asked.variant, BLEU), _seed(each), drawn)


def _seed(each: Reading) -> int:
    return each.made.asked.run.training.seed


def nats_gained(base: Losses, other: Losses) -> Drawn:
    """Nats a token that the other has less than the base, on each resampled test set."""
    weights = draws(len(base.tokens), SAMPLES, SEED)
    return weights @ (base.nats - other.nats).numpy() / (weights @ base.tokens.numpy())


def mean_over_seeds(found: Sequence[Gain]) -> Mapping[Of, Drawn]:
    """Each gain on the resampled test sets, mean over the seeds."""
    return {of: np.mean([each.drawn for each in found if each.of == of], axis=0)
            for of in dict.fromkeys(each.of for each in found)}  # fmt: skip


def gain_rows(found: Sequence[Gain]) -> pd.DataFrame:
    """One row per model and gain, with its 95 % interval over test sentences."""
    columns = ["task", "variant", "gain", "seed", "low", "high"]
    rows = [(*each.of, each.seed, *percentile_interval(each.drawn)) for each in found]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Asked:
    """A claim about a column of the changes: one row per task and variant, mean over seeds."""

    claim: str
    column: str
    tasks: tuple[Task, ...]
    variants: tuple[str, ...]


ASKED = (
    Asked("li-outputs-raise-bleu", BLEU, (Task.TRANSLATION,), (Term.OUTPUTS,)),
    Asked("li-subspaces-raise-bleu", BLEU, (Task.TRANSLATION,), (Term.SUBSPACE,)),
    Asked("li-positions-raise-bleu", BLEU, (Task.TRANSLATION,), (Term.POSITIONS,)),
    Asked("lee-inter-head-helps", NATS, (Task.TRANSLATION,), (Term.CONTEXTS, Term.SCORES)),
    Asked("zhou-drop-head-raises-bleu", BLEU, (Task.TRANSLATION,), (V,)),
    Asked("xray-no-regulariser-helps", NATS, (Task.LANGUAGE,), TERMS),
    Asked("regulariser-moves-own-term", "own_term", tuple(Task), TERMS),
    Asked("regulariser-bears-removal", "rise_at_half", tuple(Task), (*TERMS, CONSTANT, V)),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Evidence:
    """The changes of every model, the corpus of each task, and the gains on resampled test sets."""

    changes: pd.DataFrame
    corpora: Mapping[str, str]
    drawn: Mapping[Of, Drawn]

    def by_seed(self, task: str, variant: str, column: str) -> pd.Series:
        """A column of one task and variant, indexed by seed; empty where it was not trained."""
        same = (self.changes["task"] == task) & (self.changes["variant"] == variant)
        return self.changes[same].set_index("seed")[column]

    def combined(self, of: Sequence[Of], combine: Callable[..., Drawn]) -> Drawn | None:
        """Of every resampled test set; None where one of them was not trained."""
        found = [self.drawn[each] for each in of if each in self.drawn]
        return combine(*found) if len(found) == len(of) else None


def claims(evidence: Evidence, explained: pd.DataFrame) -> pd.DataFrame:
    """One row per claim, task and variant that was trained.

    Intervals are over seeds; of a single seed over test sentences, where a gain is asked for.
    """
    found = [row for asked in ASKED for row in _of_changes(asked, evidence)]
    found += _best_alone(evidence)
    found += _contrasts(evidence)
    found += _explained(explained, evidence.corpora)
    return pd.DataFrame(found)


def _of_changes(asked: Asked, evidence: Evidence) -> Iterator[dict[str, object]]:
    for task in asked.tasks:
        for variant in asked.variants:
            of_seeds = evidence.by_seed(task, variant, asked.column)
            sure = evidence.drawn.get((task, variant, asked.column))
            name = f"{task}, {variant}"
            yield from _row(asked.claim, name, evidence.corpora[task], of_seeds, sure)


def _best_alone(evidence: Evidence) -> Iterator[dict[str, object]]:
    """Of Li et al.'s three terms: the outputs' gain beyond the better of the two others."""
    task, column = Task.TRANSLATION, BLEU
    others = [evidence.by_seed(task, term, column) for term in LI_OTHERS]
    beyond = evidence.by_seed(task, Term.OUTPUTS, column) - pd.concat(others, axis=1).max(
        axis=1, skipna=False
    )
    asked = [(task, term, column) for term in (Term.OUTPUTS, *LI_OTHERS)]
    sure = evidence.combined(asked, lambda own, one, other: own - np.maximum(one, other))
    corpus = evidence.corpora[task]
    yield from _row("li-outputs-best-alone", str(task), corpus, beyond.dropna(), sure)


def _contrasts(evidence: Evidence) -> Iterator[dict[str, object]]:
    """Gain of a term in translation minus that in the language model, in nats."""
    named = " and ".join(dict.fromkeys(evidence.corpora.values()))
    for variant in TERMS:
        translation, language = (evidence.by_seed(task, variant, NATS) for task in Task)
        gap = (translation - language).dropna()
        sure = evidence.combined([(task, variant, NATS) for task in Task], np.subtract)
        yield from _row("xray-helps-translation-more", variant, named, gap, sure)


def _explained(explained: pd.DataFrame, corpora: Mapping[str, str]) -> Iterator[dict[str, object]]:
    for row in explained[explained["metric"] == DISSIMILARITY].itertuples():
        labels = _labels(row.task, corpora[row.task])
        yield claim_row("diversity-explains-gain", labels, row.correlation, row.low, row.high,
                        baseline=row.null_high)  # fmt: skip


def _row(
    claim: str, name: str, corpus: str, of_seeds: pd.Series, drawn: Drawn | None
) -> Iterator[dict[str, object]]:
    """The mean over seeds with its interval; no row where nothing was trained."""
    if len(of_seeds):
        found = over_seeds(of_seeds.to_numpy(dtype=float))
        low, high = found.low, found.high
        if found.count == 1 and drawn is not None:
            low, high = percentile_interval(drawn)
        yield claim_row(claim, _labels(name, corpus), found.mean, low, high)


def _labels(name: str, corpus: str) -> dict[str, object]:
    """Rows are of several seeds, and a contrast is of two tasks: both columns are empty."""
    return {"model": name, "corpus": corpus, "target": "", "seed": ""}
