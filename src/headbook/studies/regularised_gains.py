"""How sure a gain on test text is: both models on the same sentences, and those drawn again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.statistics import draws, percentile_interval
from headbook.studies.regularised_readings import Reading
from headbook.studies.regularised_runs import NONE
from headbook.training.paired import SAMPLES, SEED, resampled
from headbook.training.scoring import Losses

NATS, BLEU = "gain_nats", "gain_bleu"
Drawn = Float[np.ndarray, " sample"]
Of = tuple[str, str, str]
"""A task, a variant, and NATS or BLEU."""


@dataclass(frozen=True, eq=False)
class Gain:
    """What one model gains over the base of its seed on each resampled test set."""

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
    """One row a model and gain, with its 95 % interval over test sentences."""
    columns = ["task", "variant", "gain", "seed", "low", "high"]
    rows = [(*each.of, each.seed, *percentile_interval(each.drawn)) for each in found]
    return pd.DataFrame(rows, columns=columns)
