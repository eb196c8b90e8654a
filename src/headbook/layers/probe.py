"""A linear probe of representations, and the control task that it is compared with.

The probe is a ridge classifier: least squares on one-hot labels, which has a closed form. In the
control task of Hewitt and Liang (2019) each word type has a label drawn at random, as often as
labels occur; a probe can be right there by its own memory alone. Selectivity is the accuracy on the
task minus that on the control task.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from headbook.statistics import of_type
from headbook.types import UserError

PENALTIES = (1e1, 1e2, 1e3, 1e4)

Labels = Shaped[np.ndarray, " item"]


@dataclass(frozen=True)
class Split:
    """Items a probe is fitted on, those its penalty is chosen on, and those it is scored on."""

    fitted: np.ndarray
    chosen: np.ndarray
    scored: np.ndarray

    def of(self, groups: Shaped[np.ndarray, " item"]) -> "Split":
        """The same of items by the group (a sentence) that each belongs to."""
        return Split(*(np.flatnonzero(np.isin(groups, each)) for each in vars(self).values()))


def divided(count: int, scored: int) -> Split:
    """Of so many sentences the last `scored` for scores; of the others every fifth for the penalty.

    UserError where any of the three would be empty.
    """
    rest = np.arange(count - scored)
    if scored < 1 or len(rest) < 5:
        raise UserError(f"{count} sentences, {scored} of them for scores: give more sentences")
    last = rest % 5 == 4
    return Split(rest[~last], rest[last], np.arange(count - scored, count))


def hits_of(
    features: Float[np.ndarray, "item feature"], labels: Sequence[Labels], split: Split
) -> list[Float[np.ndarray, " scored"]]:
    """Of each set of labels 1 for every scored item whose label the probe finds.

    Features are scaled to mean 0 and spread 1. UserError where the fitted items have one label.
    """
    scale, found = StandardScaler().fit(features[split.fitted]), []
    fitted, held, scored = (scale.transform(features[each]) for each in vars(split).values())
    for each in labels:
        if len(np.unique(each[split.fitted])) < 2:
            raise UserError("a probe needs two different labels at least; give more sentences")
        probes = [RidgeClassifier(of).fit(fitted, each[split.fitted]) for of in PENALTIES]
        best = max(probes, key=lambda probe, own=each: probe.score(held, own[split.chosen]))
        found.append((best.predict(scored) == each[split.scored]).astype(float))
    return found


def majority(labels: Labels, split: Split) -> Float[np.ndarray, " scored"]:
    """1 for every scored item that has the most frequent label of the fitted ones."""
    names, counts = np.unique(labels[split.fitted], return_counts=True)
    return (labels[split.scored] == names[counts.argmax()]).astype(float)


def control(types: Sequence[str], labels: Labels, seed: int = 0) -> Labels:
    """A label per item that depends on nothing but its type, drawn as often as labels occur."""
    names, counts = np.unique(labels, return_counts=True)
    bounds = (counts / counts.sum()).cumsum()[:-1]
    drawn = {each: names[np.searchsorted(bounds, of_type(each, seed))] for each in set(types)}
    return np.array([drawn[each] for each in types])
