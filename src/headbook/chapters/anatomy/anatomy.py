"""Page 01: attention's two matrix products, and that its scores are not symmetric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.anatomy._heads import cells, constructions
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claim_row, claims_table
from headbook.chapters.words import TITLES
from headbook.claims.gates import NONE
from headbook.claims.ledger import load as ledger
from headbook.claims.rule import Outcome, judge
from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.heads.nulls import null_values
from headbook.heads.positional import PositionalShare
from headbook.heads.symmetry import (
    Part,
    PartPositionalShare,
    TokenAsymmetry,
    part_of,
    projection_asymmetry,
)
from headbook.looking.load import load
from headbook.looking.text import reads
from headbook.looking.text import text as sentences_of
from headbook.looking.weights import encoder_weights, tied
from headbook.models.capture import Capturable, Point, capture
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind

NUMBER = 1
TITLE = "What is a head, and is it symmetric?"
WORK = "adaloglou2021"
KEYS = ("model", "text", "sentences", "head", "version")

FREE, ONE = "two projections", "one projection"
"""The model as it is, and with every key projection replaced by the query projection."""
SENTENCE = "Does anybody use it for anything else?"
"""Of the bundled sample (CC BY-SA 4.0); the figure's."""
MATRICES = {"score": "S", "symmetric": "(S + Sᵀ) / 2", "antisymmetric": "(S − Sᵀ) / 2"}
OFFSETS = {"previous": -1, "own": 0, "next": 1}
SHOWN = "firefox-en-pt"
CLAIMS = ("why-scores-not-symmetric", "why-tied-scores-symmetric")


@dataclass(frozen=True)
class Parameters:
    """Released models, treebanks (each model reads those in its language), how many sentences of
    each, and null networks per model (0: none, and then no claim is judged)."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int = 100
    nulls: int = 0


@dataclass(frozen=True)
class Subject:
    """One model on one text; the copy has one projection for queries and keys."""

    model: Loaded
    text: str
    batches: Sequence[Batch]
    copy: Capturable

    @property
    def labels(self) -> dict[str, object]:
        count = sum(len(batch) for batch in self.batches)
        return {"model": self.model.name, "text": self.text, "sentences": count}


def compute(parameters: Parameters, store: Store) -> Tables:
    """Every head's asymmetry and what its parts point at, constructions, one sentence, claims."""
    heads, claims = [], []
    for subject in _subjects(parameters):
        sums = _sums(subject.model.network, subject.batches)
        same = _asymmetry(subject.copy, subject.batches)
        heads.append(_heads(subject, sums, same))
        if parameters.nulls:
            claims += _claims(subject, sums["scores"], same, parameters.nulls)
    shown = load(parameters.models[0])
    return {
        "released": pd.concat(heads, ignore_index=True),
        "constructions": pd.DataFrame(constructions()),
        "matrices": _matrices(shown, _positional(heads[0])),
        "claims": claims_table(claims),
    }


def _subjects(parameters: Parameters) -> Iterator[Subject]:
    for name in parameters.models:
        model = load(name)
        copy = tied(model.network)
        for text in parameters.texts:
            if reads(model, text):
                trees = sentences_of(text, first=parameters.sentences).trees
                yield Subject(model, text, model.batches([tree.text for tree in trees]), copy)


def _measures() -> dict[str, HeadMeasure]:
    return {
        "scores": TokenAsymmetry(),
        "centred": TokenAsymmetry(centred=True, replicates=0),
        "points": PositionalShare(Kind.ENCODER),
        **{part: PartPositionalShare(part) for part in Part},
    }


def _sums(network: Capturable, batches: Sequence[Batch]) -> dict[str, RatioSums]:
    measures = _measures()
    collect(network, batches, list(measures.values()), progress=iter)
    return {name: measure.sums() for name, measure in measures.items()}


def _asymmetry(network: Capturable, batches: Sequence[Batch]) -> RatioSums:
    measure = TokenAsymmetry()
    collect(network, batches, [measure], progress=iter)
    return measure.sums()


def _heads(subject: Subject, sums: dict[str, RatioSums], same: RatioSums) -> pd.DataFrame:
    """One row per head: shares of antisymmetric energy, and shares of queries by offset under the
    scores and under each of their parts."""
    low, high = sums["scores"].interval()
    columns = {
        "scores": sums["scores"].ratio(), "low": low, "high": high,
        "centred": sums["centred"].ratio(), "tied": same.ratio(),
        "projections": projection_asymmetry(*encoder_weights(subject.model.network)),
    }  # fmt: skip
    for source in ("points", *Part):
        shares = sums[source].ratio()
        ends = sums[source].interval()
        for name, offset in OFFSETS.items():
            at = offset + shares.shape[-1] // 2
            columns[f"{name}_{source}"] = shares[..., at]
            if offset:
                columns |= {f"{name}_{source}_low": ends[0][..., at],
                            f"{name}_{source}_high": ends[1][..., at]}  # fmt: skip
    frame = cells(("layer", "head"), columns)
    return frame.assign(kind="encoder", **subject.labels)


def _positional(heads: pd.DataFrame) -> tuple[int, int]:
    """Layer and head, from zero, of the head that points most at the previous token."""
    row = heads.loc[heads["previous_points"].idxmax()]
    return int(row["layer"]) - 1, int(row["head"]) - 1


@torch.inference_mode()
def _matrices(model: Loaded, head: tuple[int, int]) -> pd.DataFrame:
    """One row per (query, key) of the shown sentence without special tokens: the head's score less
    the sentence's mean, and its two parts, with the model's projections and with one."""
    (batch,) = model.batches([SENTENCE])
    places = zip(model.pieces(SENTENCE), model.spans(SENTENCE), strict=True)
    tokens = [piece for piece, span in places if span is not None]
    inner = ~batch.source_special[0]
    frames = []
    for version, network in ((FREE, model.network), (ONE, tied(model.network))):
        with capture(network, {Point.SCORES}) as tape:
            network(batch)
        scores = tape[Kind.ENCODER, Point.SCORES][head[0]][0, head[1]].double()[inner][:, inner]
        scores = scores - scores.mean()
        numbers = {"score": scores, **{str(part): part_of(scores, part) for part in Part}}
        frame = cells(("query", "key"), numbers)
        names = dict(enumerate(tokens, start=1))
        frames.append(frame.assign(
            query_token=frame["query"].map(names), key_token=frame["key"].map(names),
            version=version, model=model.name, head=words.head(head[0] + 1, head[1] + 1),
        ))  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def _claims(
    subject: Subject, free: RatioSums, same: RatioSums, nulls: int
) -> Iterator[dict[str, object]]:
    """The head at the edge: an interval of the extreme itself, chosen anew in every replicate."""
    labels = {"model": subject.model.name, "corpus": "released",
              "target": subject.model.languages[1] or "", "seed": ""}  # fmt: skip
    edges = (free.replicates().flatten(1).amin(1), same.replicates().flatten(1).amax(1))
    for name, edge in zip(CLAIMS, edges, strict=True):
        closed = _closed(subject, nulls) if edge is edges[0] else NONE
        yield claim_row(name, labels, *interval(edge)) | {"closed": closed}


def _closed(subject: Subject, nulls: int) -> str:
    """Whether networks of redrawn weights pass the rule, too: it then says nothing of training."""
    found = null_values(
        subject.model.network, subject.batches, lambda: {"scores": TokenAsymmetry(replicates=0)},
        nulls,
    )  # fmt: skip
    rule = ledger().claim(CLAIMS[0]).rule
    least = found.values["scores"].flatten(1).amin(1).tolist()
    passes = sum(
        judge(rule, {"value": each, "low": each, "high": each}) is Outcome.PASS for each in least
    )
    if 2 * passes > nulls:
        return f"diagnostic: of {nulls} null networks {passes} pass, too"
    return NONE


def neighbours(tables: Tables, count: int = 4) -> pd.DataFrame:
    """The heads of each model that point at one neighbour most, with all scores and with parts."""
    rows = []
    for (name, text), heads in tables["released"].groupby(["model", "text"], sort=False):
        for offset in ("previous", "next"):
            top = heads.nlargest(count // 2, f"{offset}_points")
            for row in top.to_dict("records"):
                place = words.head(row["layer"], row["head"])
                rows.append({
                    "model": TITLES.get(name, name), "text": text, "head": place,
                    "row": f"{place}, {TITLES.get(name, name)}", "points at": f"{offset} token",
                    "energy": row["scores"], "value": row[f"{offset}_points"],
                    "low": row[f"{offset}_points_low"], "high": row[f"{offset}_points_high"],
                    **{part: row[f"{offset}_{part}"] for part in Part},
                })  # fmt: skip
    return pd.DataFrame(rows)


def parts(tables: Tables) -> pd.DataFrame:
    """`neighbours` in per cent."""
    frame = neighbours(tables)
    return pd.DataFrame({
        "model": frame["model"], "head": frame["head"], "points at": frame["points at"],
        "with S": frame["value"].map(words.percent),
        "with (S + Sᵀ) / 2": frame[Part.SYMMETRIC].map(words.percent),
        "with (S − Sᵀ) / 2": frame[Part.ANTISYMMETRIC].map(words.percent),
        "antisymmetric energy": frame["energy"].map(words.percent),
    })  # fmt: skip


def built(tables: Tables) -> pd.DataFrame:
    """Heads written by hand."""
    rows = tables["constructions"]
    return pd.DataFrame({
        "head": rows["head"],
        "antisymmetric, known": rows["known"].map("{:.3f}".format),
        "measured": rows["measured"].map("{:.3f}".format),
        "points at the previous token": rows["previous"].map(words.percent),
        "with (S + Sᵀ) / 2": rows["previous_symmetric"].map(words.percent),
    })  # fmt: skip


def summary(tables: Tables) -> pd.DataFrame:
    """Released models and those trained here: smallest, mean and largest share over heads."""
    frames = []
    for (name, text), heads in tables["released"].groupby(["model", "text"], sort=False):
        frames.append((TITLES.get(name, name), text, heads))
    for version, heads in tables.get("asymmetry", pd.DataFrame({"version": []})).groupby("version"):
        frames.append((f"trained here: {version}", "held-out", heads))
    return pd.DataFrame([
        {
            "model": name, "text": text, "heads": len(heads),
            "scores, least": words.tenths(heads["scores"].min()).lstrip("+"),
            "mean": words.percent(heads["scores"].mean()),
            "largest": words.percent(heads["scores"].max()),
            "projections, mean": words.percent(heads["projections"].mean()),
        }
        for name, text, heads in frames
    ])  # fmt: skip


def threshold() -> float:
    """The ledger's: the share that every head must have."""
    found = ledger().claim(CLAIMS[0]).rule.threshold
    assert found is not None
    return found


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    released = tables["released"]
    found: Facts = {"threshold": f"{threshold():.2f}"}
    for key, name in (("student", "firefox-en-pt"), ("back", "firefox-pt-en"), ("bert", "minilm")):
        heads = released[released["model"] == name]
        if len(heads):
            found |= {
                f"{key}_least": words.tenths(heads["scores"].min()).lstrip("+"),
                f"{key}_mean": words.percent(heads["scores"].mean()),
                f"{key}_projections": words.percent(heads["projections"].mean()),
                f"{key}_tied": words.percent(heads["tied"].max()),
                f"{key}_heads": str(len(heads)),
                "sentences": words.count(int(heads["sentences"].iloc[0])),
            }  # fmt: skip
            best = heads.loc[heads["previous_points"].idxmax()]
            found |= {
                f"{key}_head": words.head(int(best["layer"]), int(best["head"])),
                f"{key}_previous": words.percent(best["previous_points"]),
                f"{key}_symmetric": words.percent(best["previous_symmetric"]),
                f"{key}_energy": words.tenths(best["scores"]).lstrip("+"),
                f"{key}_energy_estimate": words.exact_estimate(*best[["scores", "low", "high"]]),
            }
            for column in ("previous_points", "previous_symmetric"):
                three = best[[column, f"{column}_low", f"{column}_high"]]
                found[f"{key}_{column}_estimate"] = words.estimate(*three)
    if "asymmetry" in tables:
        own = tables["asymmetry"].set_index("version")
        trained, before = own.loc["trained"], own.loc["untrained"]
        found |= {
            "young_least": words.tenths(trained["scores"].min()).lstrip("+"),
            "young_mean": words.percent(trained["scores"].mean()),
            "young_projections": words.percent(trained["projections"].mean()),
            "young_tied": words.percent(own.loc["tied", "scores"].max()),
            "young_models": str(trained["model"].nunique()),
            "before_mean": words.percent(before["scores"].mean()),
        }
    return found
