"""Notebook 26: when heads specialise, and how well the model translates by then."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch

from headbook.heads.importance import Form
from headbook.heads.positional import Place, place_of
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.stages.importance import ImportanceRun, importance
from headbook.stages.model import TrainedModel, trained
from headbook.stages.relevance import RelevanceRun, relevance
from headbook.stages.texts import HELD_OUT
from headbook.studies.config import Config
from headbook.studies.emergence_figures import (
    BLEU,
    draw_against_bleu,
    draw_concentration,
    draw_emergence,
)
from headbook.studies.measurements import Measurement, claim_row, measure, model_labels, text_of
from headbook.studies.pruning_curves import score
from headbook.studies.pruning_orders import SCORED_ON
from headbook.studies.results import Tables
from headbook.studies.specialisation import (
    ANY_OFFSET,
    CONFIDENCE,
    ROLES,
    Replicates,
    Score,
    Sharpest,
    ends,
    most_confident,
    offset_of,
    sharpest,
    threshold,
)
from headbook.types import Kind

__all__ = ["STUDY", "compute", "draw_against_bleu", "draw_concentration", "draw_emergence",
           "moments_table", "read"]  # fmt: skip

STUDY = "26_when_heads_specialise"
LEAST_BLEU = 1.0
"""Below it a model does not translate."""
QUALITY = 0.9
"""Of the last checkpoint's BLEU: from where a model is said to translate."""
WATCHED = 100
"""Sentences at most that relevance and importance are measured on, at every checkpoint."""
TOP = 0.1
"""The share of all heads whose part of the importance is looked at."""
MOMENTS = {
    BLEU: f"BLEU at {QUALITY:.0%} of its last",
    Score.NEIGHBOUR: "first positional head, at a neighbour",
    Score.MARGIN: "first syntactic head",
    Score.RARE: "first rare-word head",
}
ANY_MOMENT = "first head at one offset, own token among them"
"""Of tables published before the places of offsets were apart."""
CLAIMS = {
    Score.NEIGHBOUR: "emergence-neighbour",
    Score.MARGIN: "emergence-syntactic",
    Score.RARE: "emergence-rare",
}
SUPERSEDED = ("emergence-positional", "emergence-after-quality", "emergence-own-domain",
              "emergence-width")  # fmt: skip
"""Claims about the best of all offsets, the own token's among them: published, not asked again."""


@dataclass(frozen=True)
class Checkpoint:
    """One model after so many updates, measured on each text; the first is its own held-out."""

    model: TrainedModel
    update: int
    bleu: float
    measured: tuple[Measurement, ...]
    relevance: Replicates
    importance: Replicates

    def sharpest(self, scored: Score, text: int = 0) -> Sharpest:
        return sharpest(self.measured[text], scored)


@dataclass(frozen=True)
class Emergence:
    """The checkpoints of one model, from the untrained one to the last."""

    model: TrainedModel
    checkpoints: tuple[Checkpoint, ...]

    @property
    def labels(self) -> dict[str, object]:
        size = self.model.run.size
        return {**model_labels(self.model), "width": size.width,
                "head_width": size.width // size.heads}  # fmt: skip

    @property
    def last(self) -> Checkpoint:
        return self.checkpoints[-1]

    @cached_property
    def translates(self) -> Checkpoint | None:
        """The first checkpoint whose BLEU is nearly that of the last; None where that is none."""
        least = max(LEAST_BLEU, QUALITY * self.last.bleu)
        return next((each for each in self.checkpoints if each.bleu >= least), None)

    def highest(self, scored: Score) -> Sharpest:
        """Over all checkpoints; the checkpoint is chosen as its head is, on the first half."""
        found = [each.sharpest(scored) for each in self.checkpoints]
        return max(found, key=lambda each: each.chosen)

    def first(self, scored: Score) -> Checkpoint | None:
        """Where a head first has the role; None where none ever does."""
        reached = (
            each for each in self.checkpoints if each.sharpest(scored).value >= threshold(scored)
        )
        return next(reached, None)


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every checkpoint of every model: BLEU, the most specialised heads, and who matters."""
    store = store or Store.default()
    models = [trained(run, store) for run in config.emerging_models()]
    found = [Emergence(each, tuple(_checkpoints(each, config, store))) for each in models]
    rows = [row for each in found for row in _rows(each)]
    moments = [row for each in found for row in _moments(each)]
    claims = [row for each in found for row in _claims(each)]
    return {
        "checkpoints": pd.DataFrame(rows),
        "moments": pd.DataFrame(moments),
        "claims": pd.DataFrame([*claims, *_width_claims(found)]),
    }


def _checkpoints(model: TrainedModel, config: Config, store: Store) -> Iterator[Checkpoint]:
    preset = config.preset.pruning
    texts = [text_of(model, name, config, store) for name in config.texts[:2]]
    sentences = min(WATCHED, preset.examined)
    for update in (0, *model.snapshots):
        yield Checkpoint(
            model,
            update,
            float(score(model, (), preset.translated, store, update).bleu[0]),
            tuple(measure(model, text, store, update=update) for text in texts),
            _relevance(model, update, sentences, store),
            _importance(model, update, sentences, store),
        )


def _relevance(model: TrainedModel, update: int, sentences: int, store: Store) -> Replicates:
    """The largest part that one head has of its layer's relevance, mean over encoder layers."""
    found = relevance(model, RelevanceRun(Variant.CODE_2019, sentences, update), store)
    return found[f"normalised/{Kind.ENCODER}"].replicates().amax(-1).mean(-1)


def _importance(model: TrainedModel, update: int, sentences: int, store: Store) -> Replicates:
    """The part of all heads' importance, of whatever kind, that the top tenth of them holds."""
    found = importance(model, ImportanceRun(sentences, update, SCORED_ON), store)
    kinds = [found[f"{Form.POSITION}/{kind}"].replicates().flatten(1) for kind in Kind]
    every = torch.cat(kinds, dim=1).sort(dim=1, descending=True).values
    count = max(1, round(TOP * every.shape[1]))
    return every[:, :count].sum(1) / every.sum(1)


def _rows(emergence: Emergence) -> Iterator[dict[str, object]]:
    """One row a checkpoint and text; what is measured on held-out sentences alone is empty else."""
    for each in emergence.checkpoints:
        for number, measured in enumerate(each.measured):
            row = {**emergence.labels, "update": each.update, "text": measured.text.name,
                   "parser": measured.text.parser}  # fmt: skip
            for scored in Score:
                found = each.sharpest(scored, number)
                row |= _named(scored, found.value, *found.ends)
                if scored in (Score.NEIGHBOUR, Score.OTHER):
                    row[f"{scored}_offset"] = offset_of(found, Place(scored))
            confident = most_confident(measured)
            row |= _named(CONFIDENCE, confident.value, *confident.ends)
            own = measured.text.name == HELD_OUT
            row[BLEU] = each.bleu if own else float("nan")
            for name in ("relevance", "importance"):
                values = getattr(each, name)
                numbers = (float(values[0]), *ends(values)) if own else [float("nan")] * 3
                row |= _named(name, *numbers)
            yield row


def _named(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {str(name): value, f"{name}_low": low, f"{name}_high": high}


def _moments(emergence: Emergence) -> Iterator[dict[str, object]]:
    """One row a moment: the update, BLEU then, and the highest score reached at all."""
    for name in MOMENTS:
        at = emergence.translates if name == BLEU else emergence.first(Score(name))
        highest = emergence.last.bleu if name == BLEU else emergence.highest(Score(name)).value
        yield {
            **emergence.labels, "moment": MOMENTS[name],
            "update": float("nan") if at is None else at.update,
            "bleu": float("nan") if at is None else at.bleu,
            "updates": emergence.last.update, "last_bleu": emergence.last.bleu,
            "highest": highest,
        }  # fmt: skip


def _claims(emergence: Emergence) -> Iterator[dict[str, object]]:
    labels, last = emergence.labels, emergence.last
    for scored, claim in CLAIMS.items():
        found = emergence.highest(scored)
        yield claim_row(claim, labels, found.value, *found.ends, threshold(scored))
    neighbour = last.sharpest(Score.NEIGHBOUR).replicates
    then = emergence.translates
    earlier = torch.full_like(neighbour, torch.nan)
    if then is not None and then is not last:
        earlier = then.sharpest(Score.NEIGHBOUR).replicates
    yield _difference("emergence-neighbour-after-quality", labels, neighbour - earlier)
    first = emergence.checkpoints[0]
    dominating = last.relevance - first.relevance
    yield _difference("emergence-relevance-dominated", labels, dominating)
    for number in range(1, len(last.measured)):
        elsewhere = last.sharpest(Score.NEIGHBOUR, number).replicates
        yield _difference("emergence-neighbour-own-domain", labels, neighbour - elsewhere)


def _width_claims(found: Sequence[Emergence]) -> Iterator[dict[str, object]]:
    """The widest model of a corpus against the narrowest of the same seed, at their last update."""
    of_corpus: dict[tuple[object, object], list[Emergence]] = {}
    for each in found:
        key = (each.labels["corpus"], each.labels["seed"])
        of_corpus.setdefault(key, []).append(each)
    for group in of_corpus.values():
        group.sort(key=lambda each: each.labels["width"])
        narrow, wide = group[0], group[-1]
        if narrow.labels["width"] < wide.labels["width"]:
            both = (each.last.sharpest(Score.NEIGHBOUR).replicates for each in (wide, narrow))
            yield _difference("emergence-neighbour-width", wide.labels, torch.sub(*both))


def _difference(claim: str, labels: dict[str, object], values: Replicates) -> dict[str, object]:
    return claim_row(claim, labels, float(values[0]), *ends(values))


def moments_table(tables: Tables) -> pd.DataFrame:
    """When each thing first came, how well the model translated then, and how far it ever came."""
    rows = tables["moments"]
    never = rows["update"].isna()
    return pd.DataFrame(
        {
            "model": rows["model"],
            "heads": [f"{width} wide" for width in rows["head_width"]],
            "moment": rows["moment"],
            "update": ["never" if none else f"{int(at):,}"
                       for at, none in zip(rows["update"].fillna(0), never, strict=True)],
            "of": [f"{updates:,}" for updates in rows["updates"]],
            "BLEU then": rows["bleu"].map("{:.1f}".format).where(~never, ""),
            "highest": rows["highest"].map("{:.3g}".format),
        }
    )  # fmt: skip


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    moments = tables["moments"]
    every = moments[moments["moment"] == MOMENTS[BLEU]]
    quality = every.dropna(subset="update")
    widths = " to ".join(dict.fromkeys(map(str, (every["width"].min(), every["width"].max()))))
    said = [f"Models watched: {len(every)}, {widths} wide."]
    if len(quality):
        said.append(
            f"Of them {len(quality)} translate, and come within {1 - QUALITY:.0%} of their last "
            f"BLEU after {_span(quality['update'] / quality['updates'])} of the updates."
        )
    for scored in ROLES:
        rows = moments[moments["moment"] == MOMENTS[scored]]
        if rows.empty:
            continue
        reached = rows.dropna(subset="update")
        when = ""
        if len(reached):
            when = f", at a BLEU of {_plain(reached['bleu'])}"
        what, highest = MOMENTS[scored].removeprefix("first "), rows["highest"].max()
        said.append(
            f"A {what} ({threshold(scored):.0%}) appears in {len(reached)} of {len(rows)}{when}; "
            f"the highest score is {highest:.1%}."
        )
    return " ".join([*said, *_no_roles(tables["checkpoints"]), *_not_apart(tables)])


def _no_roles(checkpoints: pd.DataFrame) -> Iterator[str]:
    """How far heads come to look at their own token or far away, which is no role."""
    if Score.OWN in checkpoints:
        own, other = (checkpoints[str(each)].max() for each in (Score.OWN, Score.OTHER))
        yield (
            f"No role, and measured apart: a head comes to look at its own token for up to "
            f"{own:.1%} of the tokens, and at one offset farther away than the neighbour for up "
            f"to {other:.1%}."
        )


def _not_apart(tables: Tables) -> Iterator[str]:
    """What tables that were published before the places were apart can tell, and what not."""
    checkpoints = tables["checkpoints"]
    if ANY_OFFSET not in checkpoints:
        return
    yield (
        "These tables were published before own token, neighbour and other offsets were measured "
        "apart. They hold the largest share at one offset, the own token's among them, which comes "
        f"to {checkpoints[ANY_OFFSET].max():.1%}, and they do not tell the offset: whether a head "
        "came to look at a neighbour cannot be told from them."
    )
    if "offsets_told" in tables:
        told = tables["offsets_told"]
        places = told["offset"].map(lambda offset: place_of(int(offset)))
        own, near = (told[places == place] for place in (Place.OWN, Place.NEIGHBOUR))
        listed = ", ".join(
            f"{row['model']} (layer {row['layer']}, {row['share']:.0%} at {row['offset']})"
            for _, row in told.iterrows()
        )
        yield (
            f"The page on confidence and roles tells it for {len(told)} of these "
            f"{checkpoints['model'].nunique()} models as they are at their best: the head with the "
            f"largest share looks at its own token in {len(own)}, at a neighbour in {len(near)}: "
            f"{listed}."
        )


def _span(shares: pd.Series) -> str:
    return " to ".join(dict.fromkeys(f"{end:.0%}" for end in (shares.min(), shares.max())))


def _plain(values: Iterable[float]) -> str:
    values = list(values)
    return " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(values), max(values))))
