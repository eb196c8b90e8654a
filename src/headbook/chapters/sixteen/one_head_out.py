"""Page 20: one head removed at a time (Michel et al. 2019, section 3.2, Table 1, Figures 1, 2)."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from scipy.stats import spearmanr

from headbook import tables as published
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.sixteen._ablations import improving
from headbook.chapters.sixteen._released import (
    Subject,
    bleu_changes,
    by_model,
    claim,
    head_columns,
    losses_added,
    named,
    of_tests,
    titled,
    whole,
)
from headbook.chapters.tables import claims_table
from headbook.chapters.words import TITLES
from headbook.claims.ledger import load as ledger
from headbook.claims.published import EQUIVALENT, harmless
from headbook.runs.store import Store
from headbook.types import Kind

NUMBER = 20
TITLE = "Can a head be removed?"
WORK = "michel2019"
FLAGS = ("significant", "significant_holm", "harmless", "harmful")
KEYS = ("model", "text", "sentences", "kind", "layer", "head")


LIVE = (
    "L5H7", "L2H4", "L5H8", "L6H6", "L1H1", "L3H5",
    "cross L1H6", "cross L2H7",
)  # fmt: skip
"""Heads that the page removes again wherever it is executed; all where none is named."""


@dataclass(frozen=True)
class Parameters:
    """Translation models, the heads removed on the bundled sentences (all for none), how many of
    these sentences, and how many of the test text every head is removed on (0: none)."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    heads: tuple[str, ...] = LIVE
    sentences: int = 100
    tested: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Loss and BLEU without each head, the whole model, claims."""
    rows, wholes, claims = [], [], []
    for name in parameters.models:
        subject = Subject.of(name, store)
        heads = named(parameters.heads, subject.heads)
        sample = subject.on_sample(((), *((head,) for head in heads)), parameters.sentences)
        found = pd.concat([head_columns(heads), losses_added(sample)], axis=1)
        rows.append(_labelled(subject, subject.sample_name, parameters.sentences, found))
        wholes.append(whole(subject, sample, subject.sample_name))
        if parameters.tested:
            test = subject.on_test(subject.one_out, parameters.tested)
            found = pd.concat(
                [head_columns(subject.heads), losses_added(test), bleu_changes(test)], axis=1
            )
            rows.append(_labelled(subject, subject.test, parameters.tested, found))
            wholes.append(whole(subject, test, subject.test))
            claims += _claims(subject, found)
    return {
        "released": pd.concat(rows, ignore_index=True),
        "wholes": pd.DataFrame(wholes),
        "claims": claims_table(claims),
    }


def _labelled(subject: Subject, text: str, sentences: int, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(model=subject.model.name, text=text, sentences=sentences)


def _claims(subject: Subject, found: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Of the encoder's heads, as in the paper's Table 1."""
    encoder = found[found["kind"] == Kind.ENCODER]
    yield claim("michel-t1-few-significant", subject, **harmless(encoder))
    yield claim("michel-t1-half-improve", subject, *improving(encoder))
    worst = encoder.loc[encoder["change"].idxmin()]
    numbers = (float(worst[name] / worst["whole_bleu"]) for name in ("change", "low", "high"))
    yield claim("michel-t1-range", subject, *numbers)


def tested(tables: Tables, model: str = "") -> pd.DataFrame:
    """The rows of test texts, of all models or one: every head's effect on BLEU and losses."""
    rows = of_tests(tables["released"])
    rows = rows[rows["model"] == model] if model else rows
    # Empty in the rows of the bundled text, so that published tables hold them as words.
    return rows.assign(**{name: rows[name].astype(str) == "True" for name in FLAGS if name in rows})


def mapped(tables: Tables, model: str) -> pd.DataFrame:
    """Every head of a model's test, with its change of BLEU as a short text for the map."""
    rows = tested(tables, model)
    texts = [words.signed(each, 1) for each in rows["change"]]
    return rows.assign(shown=texts, loss_added=rows["own_added"])


def most_missed(tables: Tables, count: int = 6) -> pd.DataFrame:
    """The encoder heads of each model whose removal lowers BLEU most, named by model and head.

    `paper` stands beside the first of each: the paper's largest loss, of this model's BLEU.
    """
    rows = titled(tested(tables).query("kind == 'encoder'").sort_values("change"))
    rows = rows.groupby("model", sort=False).head(count).sort_values("model", kind="stable")
    first = ~rows["model"].duplicated()
    return rows.assign(
        head=rows["model"].str.removeprefix("Firefox ") + ", " + rows["label"],
        paper=(paper()["range"] * rows["whole_bleu"]).where(first),
    )


def role_of(model: str, label: str) -> str:
    """The role that page 11 gives an encoder head on parallel text, `none` for a head without."""
    heads = published.typed("11", "heads")
    found = heads[(heads["model"] == model) & heads["text"].str.startswith("ud-pud")]
    names = "L" + found["layer"].astype(str) + "H" + found["head"].astype(str)
    return str(found.loc[names == label, "role"].squeeze())


def agreement(tables: Tables, model: str) -> float:
    """Rank correlation over heads of the losses that removing them adds on the two texts."""
    rows = tables["released"].query("model == @model")
    one, other = rows.pivot_table(index="label", columns="text", values="own_added").T.to_numpy()
    return float(spearmanr(one, other, nan_policy="omit").statistic)


def extremes(tables: Tables) -> pd.DataFrame:
    """Every head of the test, the most missed first: effects with intervals."""
    rows = tested(tables).sort_values("change")
    return pd.DataFrame(
        {
            "model": rows["model"].replace(TITLES),
            "head": rows["label"],
            "BLEU": [words.signed(each) for each in rows["change"]],
            "95 %": [words.between(*pair) for pair in zip(rows["low"], rows["high"], strict=True)],
            "p (Holm)": [f"{each:.2g}" for each in rows["p_holm"]],
            "loss, own": [words.signed(each, 3) for each in rows["own_added"]],
            "loss, references": [words.signed(each, 3) for each in rows["reference_added"]],
        }
    )


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: BLEU of the whole, heads of each kind, the largest loss by one."""
    rows = []
    for (model, kind), heads in tables["heads"].groupby(["model", "kind"], sort=False):
        worst = heads.loc[heads["change"].idxmin()]
        rows.append(
            {
                "model": words.model(model), "heads": f"{len(heads)} {kind}",
                "BLEU, all heads": f"{worst['whole_bleu']:.1f}",
                "p < 0.01": int(heads["significant"].sum()),
                "most missed": f"L{worst['layer']}H{worst['head']}",
                "change": words.signed(worst["change"]),
                "95 %": words.between(worst["low"], worst["high"]),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def trained(tables: Tables) -> dict[str, float | int]:
    """The encoder heads of models trained here: how many, how many significant, the worst."""
    heads = tables["heads"].query("kind == 'encoder'")
    worst = heads.loc[heads["change"].idxmin()]
    return {
        "heads": len(heads), "models": heads["model"].nunique(),
        "significant": int(heads["significant"].sum()), "worst": float(worst["change"]),
        "whole": float(worst["whole_bleu"]),
    }  # fmt: skip


def paper() -> dict[str, float]:
    """The paper's numbers, from the ledger."""
    known = {name: ledger().claim(f"michel-t1-{name}").paper[0].values[0]
             for name in ("few-significant", "half-improve", "range")}  # fmt: skip
    return {"share": known["few-significant"], "improve": known["half-improve"],
            "range": known["range"]}  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; those of test texts once they are measured."""
    found: Facts = {"margin": words.percent(EQUIVALENT)}
    known = paper()
    found |= {"paper_share": words.percent(known["share"]),
              "paper_range": words.tenths(known["range"])}  # fmt: skip
    if len(tested(tables)):
        found |= by_model(tables, _of_test)
    if "heads" in tables:
        young = trained(tables)
        found |= {
            "young_share": f"{young['significant']} of {young['heads']}",
            "young_range": words.tenths(young["worst"] / young["whole"]),
            "young_models": str(young["models"]),
        }
    return found


def _of_test(tables: Tables) -> Facts:
    rows = tested(tables)
    (one,) = of_tests(tables["wholes"]).to_dict("records")
    encoder, decoder, cross = (rows[rows["kind"] == kind] for kind in Kind)
    worst = rows.loc[rows["change"].idxmin()]
    worst_encoder = encoder.loc[encoder["change"].idxmin()]
    second = rows.loc[rows["change"].nsmallest(2).index[1]]
    loudest = rows.nlargest(4, "own_added")
    return {
        "sentences": words.count(one["sentences"]),
        "bleu": f"{one['bleu']:.1f}",
        "own_loss": f"{one['own_loss']:.3f}",
        "heads": str(len(rows)),
        "encoder_heads": str(len(encoder)),
        "significant": str(int(encoder["significant"].sum())),
        "share": f"{int(encoder['significant'].sum())} of {len(encoder)}",
        "significant_holm": str(int(rows["significant_holm"].sum())),
        "significant_holm_encoder": str(int(encoder["significant_holm"].sum())),
        "significant_holm_cross": str(int(cross["significant_holm"].sum())),
        "significant_holm_decoder": str(int(decoder["significant_holm"].sum())),
        "harmless": str(int(rows["harmless"].sum())),
        "harmless_encoder": str(int(encoder["harmless"].sum())),
        "worst_points": f"{-worst['change']:.1f}",
        "worst_lost": _lost(worst),
        "harmful": str(int(rows["harmful"].sum())),
        "open": str(int((~rows["harmless"] & ~rows["harmful"]).sum())),
        "better": str(int((rows["significant_holm"] & (rows["change"] > 0)).sum())),
        "worst": str(worst["label"]),
        "worst_change": words.signed(worst["change"]),
        "worst_interval": words.between(worst["low"], worst["high"]),
        "second": str(second["label"]),
        "second_change": words.signed(second["change"]),
        "second_lost": _lost(second),
        "reference_falls": str(int((rows["reference_high"] < 0).sum())),
        "reference_rises": str(int((rows["reference_low"] > 0).sum())),
        "worst_encoder": str(worst_encoder["label"]),
        "worst_encoder_points": f"{-worst_encoder['change']:.1f}",
        "worst_encoder_lost": _lost(worst_encoder),
        "worst_encoder_change": words.signed(worst_encoder["change"]),
        "range": words.tenths(worst_encoder["change"] / one["bleu"]),
        "loudest": ", ".join(f"{row['label']} {words.signed(row['own_added'], 3)}"
                             for row in loudest.to_dict("records")),
        "louder": str(int((rows["own_low"] > 0).sum())),
        "agreement": f"{agreement(tables, one['model']):.2f}",
    }  # fmt: skip


def _lost(row: pd.Series) -> str:
    """The fall of BLEU by removing a head, with its interval over sentences: `9.1 [7.0, 11.2]`."""
    return words.number(-row["change"], -row["high"], -row["low"], 1)
