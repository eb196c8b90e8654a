"""Page 16: relevance of heads by LRP (Voita et al. 2019, Figure 1a), in translation models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads._released import read, trees_of
from headbook.chapters.specialised_heads._roles import ONE_OF_TWO, Roles
from headbook.chapters.specialised_heads._subject import (
    MAIN,
    Subject,
    parts_of,
    pass_of,
    propagated,
)
from headbook.chapters.tables import claims_table, released_claim, small_models
from headbook.chapters.words import SMALL, TITLES
from headbook.claims.gates import NONE
from headbook.claims.ledger import load as ledger
from headbook.claims.rule import Outcome, judge
from headbook.heads.measure import percentiles
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.relevance_rules import Variant
from headbook.heads.roles import Role
from headbook.looking.load import load
from headbook.looking.text import SAMPLE
from headbook.runs.store import Store
from headbook.statistics import interval, within_layers
from headbook.types import Kind, UserError

NUMBER = 16
TITLE = "Do a few heads carry most of the relevance?"
WORK = "voita2019"
KEYS = ("model", "text", "sentences", "rule", "network")

TREEBANKS = {"en": "ud-pud-en", "pt": "ud-pud-pt"}
"""Parallel text by the language that a model reads."""
NULL_NETWORKS = 3
RULES = {
    Variant.CODE_2019: "code of 2019: positive weights, rescaled",
    Variant.SIGNED: "the paper's text: signed ratios",
    Variant.CONSTANT_ATTENTION: "attention weights held constant",
}
PAPER = (0.184, 0.203, 0.188, 0.151, 0.174, 0.145)
"""Relevance of the most relevant head of each layer in Figure 1a (OpenSubtitles), read off."""
PAPER_HEADS = 8
DOMINANCE_CLAIM, RARE_CLAIM = "voita-f1a-few-dominate", "voita-f1a-rare-most-relevant"
ROLES_CLAIM = "voita-f1a-top-heads-have-roles"


@dataclass(frozen=True)
class Parameters:
    """Students or models trained here, and how many sentences are explained: of the bundled sample,
    where a model reads English; of the treebank of its language; and of that for other rules and
    null networks."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    sentences: int = 8
    treebank: int = 0
    controls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Relevance of all heads beside roles and importance, layers, other rules, nulls, claims."""
    subjects = list(_subjects(parameters))
    tables = {
        "relevance": pd.concat([_heads(each) for each in subjects], ignore_index=True),
        "released": pd.concat([_layers(each) for each in subjects], ignore_index=True),
        "agreement": pd.DataFrame([row for each in subjects for row in _agreement(each)]),
    }
    nulls = {}
    if parameters.controls:
        some = [Subject(each.roles, parameters.controls) for each in subjects
                if each.roles.reading.text != SAMPLE]  # fmt: skip
        tables["rules"] = pd.concat([_rules(each) for each in some], ignore_index=True)
        tables["null_layers"] = pd.concat([_nulls(each) for each in some], ignore_index=True)
        nulls = tables["null_layers"].groupby("model")["largest"].mean().to_dict()
    rows = [row for each in subjects for row in _claims(each, nulls)]
    return tables | {"claims": claims_table(rows)}


def _subjects(parameters: Parameters) -> Iterator[Subject]:
    if parameters.sentences < 1:
        raise UserError(f"sentences is {parameters.sentences}; relevance needs at least 1")
    for name in parameters.models:
        model = load(name)
        if pass_of(model) is None or model.languages[0] not in TREEBANKS:
            raise UserError(
                f"{name}: relevance is propagated through Firefox students and translation models "
                f"trained here that read {' or '.join(TREEBANKS)}; name one of these"
            )
        language = model.languages[0]
        texts = {SAMPLE: parameters.sentences} if language == "en" else {}
        if parameters.treebank:
            texts[TREEBANKS[language]] = parameters.treebank
        for text, sentences in texts.items():
            yield Subject(Roles.of(read(model, text, trees_of(text))), sentences)


def _heads(each: Subject) -> pd.DataFrame:
    """One row per head: its part of its layer, its rank there, and what else is known of it."""
    frame = each.roles.heads().drop(columns=["model", "text", "sentences"])
    low, high = percentiles(torch.as_tensor(each.parts[1:]))
    columns = {"relevance": each.parts[0], "low": low.numpy(), "high": high.numpy(),
               "gradient": each.gradient}  # fmt: skip
    frame = frame.assign(**{name: value.ravel() for name, value in columns.items()})
    rank = frame.groupby("layer")["relevance"].rank(ascending=False).astype(int)
    return frame.assign(rank=rank, **each.labels)


def _layers(each: Subject) -> pd.DataFrame:
    """One row per layer: the most relevant head, over an even part, and the part of the first two.

    The head is chosen anew in every replicate, so that its interval holds the choice.
    """
    parts = each.parts
    largest = parts.max(-1) * parts.shape[-1]
    two = np.sort(parts, -1)[..., -2:].sum(-1)
    frame = pd.DataFrame({"layer": range(1, parts.shape[1] + 1)})
    frame["head"] = parts[0].argmax(-1) + 1
    for name, values in (("value", largest), ("two", two)):
        low, high = percentiles(torch.as_tensor(values[1:]))
        bounds = {"value": ("low", "high"), "two": ("two_low", "two_high")}[name]
        frame[name], frame[bounds[0]], frame[bounds[1]] = values[0], low.numpy(), high.numpy()
    return frame.assign(heads=parts.shape[-1], **each.labels)


def _agreement(each: Subject) -> Iterator[dict[str, object]]:
    for name, (value, low, high) in each.correlations.items():
        yield {"with": name, "value": value, "low": low, "high": high, **each.labels}


def _rules(each: Subject) -> pd.DataFrame:
    """One row per rule and encoder layer: the relevance left below it, of 1 at the start; the same
    of absolute values; and how alike the rule and `MAIN` order the layer's heads."""
    frames = []
    for variant in Variant:
        sums = each.main if variant is MAIN else propagated(each.model, each.batches, variant)
        frame = pd.DataFrame({
            "conserved": sums[f"conservation/{Kind.ENCODER}"].ratio().tolist(),
            "absolute": sums[f"growth/{Kind.ENCODER}"].ratio().tolist(),
            "same_order": within_layers(parts_of(sums)[0], each.parts[0]).tolist(),
        })  # fmt: skip
        frame.insert(0, "layer", range(1, len(frame) + 1))
        frames.append(frame.assign(rule=str(variant), **each.labels))
    return pd.concat(frames, ignore_index=True)


def _nulls(each: Subject) -> pd.DataFrame:
    """Largest part over an even one by layer, in null networks; targets as above."""
    frames, batches = [], each.batches  # translated before the weights go
    for number in range(NULL_NETWORKS):
        null = list(Null)[number % len(Null)]
        with without_knowledge(each.model.network, null, number):
            parts = parts_of(propagated(each.model, batches, MAIN))[0]
        largest = parts.max(-1) * parts.shape[-1]
        frame = pd.DataFrame({"layer": range(1, len(largest) + 1), "largest": largest})
        frames.append(frame.assign(network=f"{null} {number}", **each.labels))
    return pd.concat(frames, ignore_index=True)


def _claims(each: Subject, nulls: Mapping[str, float]) -> Iterator[dict[str, object]]:
    """One row per claim for each model on its treebank."""
    if each.roles.reading.text == SAMPLE:
        return
    name, target = each.model.name, each.model.languages[1]
    parts, held = each.parts, each.roles.held
    values = {
        DOMINANCE_CLAIM: interval((parts.max(-1) * parts.shape[-1]).mean(-1)),
        "voita-f1a-follows-confidence": each.correlations["confidence, above layer 1"],
        "voita-f1a-follows-roles": each.correlations["nearness to a role"],
    }
    rare, top = each.roles.sums["rare"], int(parts[0, 0].argmax())
    values[RARE_CLAIM] = interval(rare.replicates()[:, 0, top, ONE_OF_TWO].numpy())
    any_role = torch.stack(list(held.values())).any(0).numpy()
    tops = parts.argmax(-1)[..., None]
    values[ROLES_CLAIM] = interval(np.take_along_axis(any_role, tops, -1)[..., 0].mean(-1))
    baselines = {
        DOMINANCE_CLAIM: 1.0,
        RARE_CLAIM: float(each.roles.sums["rare_chance"].ratio()[0, 0, ONE_OF_TWO]),
    }
    for claim, (value, low, high) in values.items():
        baseline = baselines.get(claim, float("nan"))
        closed = _closed(claim, {"model": name, "baseline": baseline}, nulls, held)
        yield released_claim(claim, name, value, low, high, baseline=baseline, target=target,
                             closed=closed)  # fmt: skip


def _closed(claim: str, row: Mapping, nulls: Mapping[str, float], held: Mapping) -> str:
    """The closed gates of a row: `present`, of rare-word heads, and `diagnostic`, by the nulls."""
    if claim == DOMINANCE_CLAIM:
        if row["model"] not in nulls:
            return "diagnostic: no null network was measured"
        unknown = float("nan")
        blank = {"value": nulls[row["model"]], "low": unknown, "high": unknown,
                 "baseline": row["baseline"]}  # fmt: skip
        passes = judge(ledger().claim(claim).rule, blank) is Outcome.PASS
        return "diagnostic: networks without knowledge pass, too" if passes else NONE
    if claim == RARE_CLAIM and not bool(held[Role.RARE][0].any()):
        return "present: no rare-word head"
    return NONE


def paper() -> pd.DataFrame:
    """Figure 1a: the most relevant head of each layer, over an even part."""
    values = [PAPER_HEADS * each for each in PAPER]
    return pd.DataFrame({"layer": range(1, len(PAPER) + 1), "paper": values})


def trained(tables: Tables) -> pd.DataFrame:
    """Models trained here: largest part over an even one by layer, mean, smallest and largest."""
    rows = tables["layers"].query("kind == 'encoder' and variant == @MAIN and update == 'best'")
    found = rows.groupby("layer")["largest"].agg(value="mean", low="min", high="max")
    return found.reset_index().assign(model=SMALL, models=rows["model"].nunique())


def beside(tables: Tables) -> pd.DataFrame:
    """Rows of the figure: one per layer and model, the paper and the nulls' mean beside."""
    rows = _shown(tables["released"]).merge(paper(), on="layer", how="left")
    first = rows["model"].iloc[0]
    if "null_layers" in tables:
        nulls = tables["null_layers"].query("model == @first").groupby("layer")["largest"].mean()
        rows["random"] = rows["layer"].map(nulls)
    rows.loc[rows["model"] != first, ["paper", "random"]] = float("nan")
    rows["model"] = rows["model"].replace(TITLES)
    frames = [rows, trained(tables)] if "layers" in tables else [rows]
    frame = pd.concat(frames, ignore_index=True).sort_values("layer", kind="stable")
    return frame.assign(layer="layer " + frame["layer"].astype(str))


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Heads sorted by relevance in their layer, as the paper's map: `head` is the rank, `label`
    the head's own number and, by a letter, its role."""
    short = {"previous token": "−", "next token": "+", "syntactic": "s", "rare words": "r"}
    role = rows["role"].map(short).fillna("")
    label = (rows["head"].astype(str) + " " + role).str.strip()
    return rows.assign(label=label, head=rows["rank"])


def tops(tables: Tables) -> pd.DataFrame:
    """The most relevant head of every layer and what it does, one row per model and layer."""
    rows = _shown(tables["relevance"]).query("rank == 1")
    frame = pd.DataFrame({
        "model": rows["model"].replace(TITLES),
        "head": [words.head(*pair) for pair in zip(rows["layer"], rows["head"], strict=True)],
        "of its layer": rows["relevance"].map(words.percent),
        "role": rows["role"],
        "previous": rows["previous"].map(words.percent),
        "next": rows["next"].map(words.percent),
        "own": rows["own"].map(words.percent),
        "two rarest": rows["rare"].map(words.percent),
        "confidence": rows["confidence"].map("{:.2f}".format),
    })  # fmt: skip
    return frame


def conservation(tables: Tables) -> pd.DataFrame:
    """Total relevance below the encoder's layers by rule, of 1 that a prediction starts with."""
    rows = tables["rules"]
    rows = rows[rows["model"] == rows["model"].iloc[0]]
    ends = [rows["layer"].max(), 1]
    wide = rows[rows["layer"].isin(ends)].pivot(index="rule", columns="layer", values="conserved")
    grown = rows.groupby("rule")["absolute"].max()
    order = rows.groupby("rule")["same_order"].mean()
    frame = pd.DataFrame({
        "rule": [RULES[each] for each in RULES],
        **{f"below layer {layer}": [_total(wide.loc[str(each), layer]) for each in RULES]
           for layer in ends},
        "absolute values, at most": [_total(grown[str(each)]) for each in RULES],
        "same order of heads": [f"{order[str(each)]:.2f}" for each in RULES],
    })  # fmt: skip
    return frame


def _total(value: float) -> str:
    """Three digits while it is near 1; where a rule blows up, a whole number or a power of ten."""
    if abs(value) < 10:
        return f"{value:.3f}"
    if abs(value) < 1e5:
        return f"{value:,.0f}".replace("-", "−")
    return f"{'−' if value < 0 else ''}10^{np.log10(abs(value)):.0f}"


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of treebanks; of a run without, those of the sample."""
    of_treebanks = rows[rows["text"] != SAMPLE]
    return of_treebanks if len(of_treebanks) else rows


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of treebanks where they are there."""
    found: Facts = {}
    layers, heads = _shown(tables["released"]), _shown(tables["relevance"])
    for model in dict.fromkeys(layers["model"]):
        title = words.prefix(model)
        mine, rows = layers[layers["model"] == model], heads[heads["model"] == model]
        tops = rows[rows["rank"] == 1]
        found |= {
            f"{title}_sentences": words.count(mine["sentences"].iloc[0]),
            f"{title}_largest": f"{mine['value'].mean():.2f}",
            f"{title}_least": f"{mine['value'].min():.2f}",
            f"{title}_most": f"{mine['value'].max():.2f}",
            f"{title}_top": words.percent(tops["relevance"].max()),
            f"{title}_top_mean": words.percent(tops["relevance"].mean()),
            f"{title}_two": words.percent(mine["two"].mean()),
            f"{title}_with_role": words.percent((tops["role"] != "none").mean()),
            f"{title}_rare": words.percent(tops.query("layer == 1")["rare"].iloc[0]),
            f"{title}_rare_best": words.percent(rows["rare"].max()),
        }
        for row in _shown(tables["agreement"]).query("model == @model").to_dict("records"):
            name = row["with"].split()[0].rstrip(",")
            found[f"{title}_{name}"] = f"{row['value']:+.2f}".replace("-", "−")
        found |= _estimates(tables["claims"], model, title)
    values = [PAPER_HEADS * each for each in PAPER]
    follows = ledger().claim("voita-f1a-follows-confidence")
    for name, claim in (("rare", RARE_CLAIM), ("with_role", ROLES_CLAIM)):
        found[f"paper_{name}"] = words.percent(ledger().claim(claim).paper[0].values[0])
    found |= {
        "paper_largest": f"{np.mean(values):.2f}", "paper_top": words.percent(max(PAPER)),
        "paper_top_mean": words.percent(float(np.mean(PAPER))),
        "paper_confidence": f"{follows.paper[0].values[0]:+.2f}",
    }  # fmt: skip
    if "layers" in tables:
        young = trained(tables)
        claims = small_models(tables["claims"]).groupby("claim")["value"].mean()
        found |= {"trained_largest": f"{young['value'].mean():.2f}",
                  "trained_top_mean": words.percent(young["value"].mean() / PAPER_HEADS),
                  "trained_models": str(young["models"].iloc[0]),
                  "trained_confidence": f"{claims[follows.id]:+.2f}",
                  "trained_with_role": words.percent(claims[ROLES_CLAIM]),
                  "trained_rare": words.percent(claims[RARE_CLAIM])}  # fmt: skip
    if "null_layers" in tables:
        nulls = tables["null_layers"].query("model == 'firefox-en-pt'")
        found["null_largest"] = f"{nulls['largest'].mean():.2f}"
        found["null_most"] = f"{nulls.groupby('network')['largest'].mean().max():.2f}"
        found["null_count"] = str(NULL_NETWORKS)
        found["control_sentences"] = str(int(tables["rules"]["sentences"].iloc[0]))
    return found


def _estimates(claims: pd.DataFrame, model: str, title: str) -> Facts:
    """The numbers of the answer with their intervals over sentences."""
    rows = claims.query("model == @model").set_index("claim")
    dominating, rare = (rows.loc[each, ["value", "low", "high"]]
                        for each in (DOMINANCE_CLAIM, RARE_CLAIM))  # fmt: skip
    return {
        f"{title}_largest_estimate": words.number(*dominating),
        f"{title}_rare_estimate": words.exact_estimate(*rare),
        f"{title}_rare_chance": words.percent(rows.loc[RARE_CLAIM, "baseline"]),
    }
