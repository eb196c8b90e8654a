"""Page 21: one head left in a block (Michel et al. 2019, section 3.3, Tables 2 and 5)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headbook import tables as published
from headbook.artefacts.released_masked import Mask, ReleasedMasked
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.sixteen._released import (
    STUDENTS,
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
from headbook.claims.ledger import load as ledger
from headbook.claims.published import EQUIVALENT, harmless
from headbook.pruning.ranking import keep_one
from headbook.runs.store import Store
from headbook.training.paired import paired
from headbook.types import HeadId, Kind, UserError

NUMBER = 21
TITLE = "Is one head per layer enough?"
WORK = "michel2019"
KEYS = ("model", "text", "sentences", "kind", "layer", "head")
CHOICE = "best on the validation set"
"""Rows of models trained here that stand beside ours: chosen on other sentences than tested."""
PAPER = {
    Kind.ENCODER: (-1.96, -0.57, -0.45, -0.30, -0.32, -0.67),
    Kind.DECODER: (0.03, -0.13, 0.00, -0.31, -0.66, -0.03),
    Kind.CROSS: (0.02, 0.09, -0.42, -0.60, -2.75, -18.89),
}
"""Change of BLEU by layer, Table 5 of the paper: chosen on newstest2013, tested on newstest2014."""
LOWER = 3
"""The first layers of the encoder, half of them."""
SCOPES = {"encoder": "every encoder layer", "decoder": "every decoder self-attention",
          "cross": "every cross-attention", "all": "every block"}  # fmt: skip
Block = tuple[Kind, int]


LIVE = (
    "L1H1", "L3H3", "L5H7", "L6H6", "cross L1H6", "cross L1H1",
    "cross L2H3", "cross L2H7",
)  # fmt: skip
"""Heads that the page removes again wherever it is executed; all where none is named."""


@dataclass(frozen=True)
class Parameters:
    """Translation models, the heads left alone on the bundled sentences (all for none), how many
    of these sentences, and how many of the test text the best heads are tested on (0: none)."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    heads: tuple[str, ...] = LIVE
    sentences: int = 100
    tested: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Loss with each head alone in its block, BLEU with the best of them, claims."""
    if parameters.tested and parameters.heads:
        raise UserError("tested needs the best of all heads: leave heads empty, []")
    heads, blocks, together, wholes, claims = [], [], [], [], []
    for name in parameters.models:
        subject = Subject.of(name, store)
        chosen = named(parameters.heads, subject.heads)
        masks = tuple(keep_one(subject.heads, head) for head in chosen)
        sample = subject.on_sample(((), *masks), parameters.sentences)
        labels = {"model": name, "text": subject.sample_name, "sentences": parameters.sentences}
        own = pd.concat([head_columns(chosen), losses_added(sample)], axis=1).assign(**labels)
        heads.append(own)
        wholes.append(whole(subject, sample, subject.sample_name))
        if parameters.tested:
            found = _tested(subject, best(subject.heads, own), parameters.tested)
            blocks.append(found[0])
            together.append(found[1])
            wholes.append(found[2])
            claims += found[3]
    tables = {"left": pd.concat(heads, ignore_index=True), "wholes": pd.DataFrame(wholes),
              "claims": claims_table(claims)}  # fmt: skip
    if blocks:
        tables["released"] = pd.concat(blocks, ignore_index=True)
        tables["at_once"] = pd.concat(together, ignore_index=True)
    return tables


def best(heads: tuple[HeadId, ...], own: pd.DataFrame) -> dict[Block, HeadId]:
    """Each block's head that adds least loss where it alone is left; ties to the first."""
    added = {(row["kind"], row["layer"], row["head"]): row["own_added"]
             for row in own.to_dict("records")}  # fmt: skip
    found: dict[Block, HeadId] = {}
    for head in heads:
        block = (head.kind, head.layer)
        cost = added[str(head.kind), head.layer + 1, head.head + 1]
        if block not in found or cost < _cost(added, found[block]):
            found[block] = head
    return found


def _cost(added: dict, head: HeadId) -> float:
    return added[str(head.kind), head.layer + 1, head.head + 1]


def _tested(subject: Subject, chosen: dict[Block, HeadId], sentences: int):
    """Blocks one by one, all at once, the whole model, and the claims, on the test text."""
    alone = {block: keep_one(subject.heads, head) for block, head in chosen.items()}
    kinds = [kind for kind in Kind if any(block[0] is kind for block in chosen)]
    scopes = {str(kind): [kind] for kind in kinds} | {"all": kinds}
    at_once: dict[str, Mask] = {
        name: tuple(head for block, mask in alone.items() if block[0] in of for head in mask)
        for name, of in scopes.items()
    }
    found = subject.on_test(((), *alone.values(), *at_once.values()), sentences)
    effects = pd.concat([losses_added(found), bleu_changes(found)], axis=1)
    labels = {"model": subject.model.name, "text": subject.test, "sentences": sentences}
    rows = pd.concat(
        [head_columns([*chosen.values()]), effects.iloc[: len(alone)].reset_index(drop=True)],
        axis=1,
    )
    together = effects.iloc[len(alone) :].reset_index(drop=True)
    left = [len(subject.heads) - len(mask) for mask in at_once.values()]
    together.insert(0, "scope", list(at_once))
    claims = [*_claims(subject, list(alone), found, rows)]
    return (rows.assign(**labels), together.assign(heads_left=left, **labels),
            whole(subject, found, subject.test), claims)  # fmt: skip


def _claims(
    subject: Subject, blocks: list[Block], found: ReleasedMasked, rows: pd.DataFrame
) -> Iterator[dict[str, object]]:
    yield claim("michel-t5-one-head-suffices", subject, **harmless(rows))
    masks = {block: number for number, block in enumerate(blocks, start=1)}
    last = masks.pop(max(block for block in masks if block[0] is Kind.CROSS))
    worst = min(masks.values(), key=lambda mask: found.bleu[mask])
    assert found.statistics is not None
    test = paired(found.statistics[last], found.statistics[worst])
    yield claim("michel-t2-last-cross-exception", subject, test.difference, test.low, test.high)


def layers(tables: Tables) -> pd.DataFrame:
    """One row per model and block: the head that stays, BLEU and losses."""
    rows = titled(tables["released"])
    pairs = zip(rows["low"], rows["high"], strict=True)
    return pd.DataFrame(
        {
            "model": rows["model"],
            "block": _blocks(rows),
            "head left": [f"H{each}" for each in rows["head"]],
            "BLEU": [words.signed(each) for each in rows["change"]],
            "95 %": [words.between(*pair) for pair in pairs],
            "p (Holm)": [f"{each:.2g}" for each in rows["p_holm"]],
            "loss, own": [words.signed(each, 3) for each in rows["own_added"]],
        }
    )


def _blocks(rows: pd.DataFrame) -> list[str]:
    kinds = rows["kind"].replace({"cross": "cross-attention", "decoder": "decoder self-attention"})
    return [f"{kind}, layer {layer}" for kind, layer in zip(kinds, rows["layer"], strict=True)]


def together(tables: Tables) -> pd.DataFrame:
    """All blocks of a kind reduced at once, model by model."""
    rows = titled(tables["at_once"])
    pairs = zip(rows["low"], rows["high"], strict=True)
    return pd.DataFrame(
        {
            "model": rows["model"],
            "one head left in": rows["scope"].replace(SCOPES),
            "heads left": rows["heads_left"],
            "BLEU": [f"{each:.1f}" for each in rows["bleu"]],
            "change": [words.signed(each) for each in rows["change"]],
            "95 %": [words.between(*pair) for pair in pairs],
        }
    )


def drawn(tables: Tables) -> pd.DataFrame:
    """The change of BLEU per student and block, as the figure draws it; the paper's beside it once.

    The paper's cross-attention has six layers: its first and last stand beside the students'.
    """
    frame = tables["released"]
    frame = titled(frame[frame["model"].isin(STUDENTS)])
    ends = {Kind.CROSS: (PAPER[Kind.CROSS][0], PAPER[Kind.CROSS][-1])}
    known = {(str(kind), layer): change for kind, of in (PAPER | ends).items()
             for layer, change in enumerate(of, start=1)}  # fmt: skip
    beside = [known[block] for block in zip(frame["kind"], frame["layer"], strict=True)]
    frame = frame.assign(block=_blocks(frame), paper=beside)
    return frame.assign(paper=frame["paper"].where(~frame["block"].duplicated()))


def mapped(tables: Tables, model: str) -> pd.DataFrame:
    """Every head of a model: the loss added where it alone is left in its block, for the map."""
    rows = tables["left"].query("model == @model")
    return rows.query("sentences == sentences.max()").assign(
        loss_added=lambda row: row["own_added"]
    )


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: blocks that lose significantly, and the worst of them."""
    rows = []
    for (model, kind), blocks in trained(tables).groupby(["model", "kind"], sort=False):
        worst = blocks.loc[blocks["change"].idxmin()]
        lowered = blocks["significant"] & (blocks["change"] < 0)
        rows.append(
            {
                "model": words.model(model), "blocks": f"{len(blocks)} {kind}",
                "p < 0.01": int(lowered.sum()),
                "worst layer": worst["layer"], "change": words.signed(worst["change"]),
                "95 %": words.between(worst["low"], worst["high"]),
                "BLEU, all heads": f"{worst['whole_bleu']:.1f}",
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def trained(tables: Tables) -> pd.DataFrame:
    """Models trained here: blocks with their best head alone, chosen on the validation set."""
    return tables["blocks"].query("choice == @CHOICE")


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    found: Facts = {"margin": words.percent(EQUIVALENT)}
    suffices = ledger().claim("michel-t5-one-head-suffices").paper[0].values[0]
    encoder, cross = PAPER[Kind.ENCODER], PAPER[Kind.CROSS]
    found |= {"paper_share": words.percent(suffices), "paper_last": words.signed(cross[-1]),
              "paper_first": words.signed(cross[0]),
              "paper_encoder": words.signed(min(encoder)),
              "paper_decoder": words.signed(min(PAPER[Kind.DECODER]))}  # fmt: skip
    if "released" in tables:
        found |= by_model(tables, _of_test)
    if "blocks" in tables:
        young = trained(tables)
        fine = ~(young["significant"] & (young["change"] < 0))
        last = young[young["kind"] == "cross"].groupby("model").apply(_last)
        found |= {"young_share": f"{int(fine.sum())} of {len(young)}",
                  "young_models": str(young["model"].nunique()),
                  "young_last": words.signed(last.min()),
                  "young_worst": words.signed(young["change"].min())}  # fmt: skip
    return found


def _last(rows: pd.DataFrame) -> float:
    return float(rows.loc[rows["layer"].idxmax(), "change"])


def alone(tables: Tables) -> float:
    """Of the encoder layer of a model that loses most: the largest change of BLEU by removing one
    of its heads, of page 20; NaN where that has not been measured."""
    rows = tables["released"].query("kind == 'encoder'")
    worst = rows.loc[rows["change"].idxmin()]
    singles = published.typed("20", "heads")
    for name in ("model", "kind", "layer"):
        singles = singles[singles[name] == worst[name]]
    return float(of_tests(singles)["change"].min())


def _of_test(tables: Tables) -> Facts:
    rows, at_once = tables["released"], tables["at_once"].set_index("scope")
    (one,) = of_tests(tables["wholes"]).to_dict("records")
    worst = rows.loc[rows["change"].idxmin()]
    encoder, cross = rows[rows["kind"] == "encoder"], rows[rows["kind"] == "cross"]
    lowered = rows["significant_holm"] & (rows["change"] < 0)
    lower = encoder[encoder["layer"] <= LOWER]
    least, most = (own.loc[own["change"].idxmin()] for own in (lower, encoder))
    spread = tables["left"].query("kind == 'encoder'").groupby("layer")["own_added"]
    worst_layer = encoder.loc[encoder["change"].idxmin(), "layer"]
    other = encoder["change"].min()
    return {
        "sentences": words.count(one["sentences"]),
        "bleu": f"{one['bleu']:.1f}",
        "blocks": str(len(rows)),
        "little": str(int((rows["change"] >= -EQUIVALENT * rows["whole_bleu"]).sum())),
        "lowered": str(int(lowered.sum())),
        "not_lowered": str(int((~(rows["significant"] & (rows["change"] < 0))).sum())),
        "harmless": str(int(rows["harmless"].sum())),
        "harmful": str(int(rows["harmful"].sum())),
        "worst_block": _blocks(rows)[int(np.argmin(rows["change"]))],
        "worst": words.signed(worst["change"]),
        "worst_interval": words.between(worst["low"], worst["high"]),
        "last_cross": words.signed(_last(cross)),
        "exception": words.signed(_last(cross) - other),
        "first_cross": words.signed(cross["change"].iloc[0]),
        "encoder_worst": words.signed(other),
        "decoder_worst": words.signed(rows.loc[rows["kind"] == "decoder", "change"].min()),
        "encoder_best": words.signed(encoder["change"].max()),
        "encoder_lower": words.signed(lower["change"].min()),
        "encoder_lower_change": words.difference(*least[["change", "low", "high"]], 1),
        "encoder_worst_change": words.difference(*most[["change", "low", "high"]], 1),
        "encoder_worst_layer": str(worst_layer),
        "encoder_alone": words.signed(alone(tables)),
        "all_bleu": f"{at_once.loc['all', 'bleu']:.1f}",
        "encoder_bleu": f"{at_once.loc['encoder', 'bleu']:.1f}",
        "cross_bleu": f"{at_once.loc['cross', 'bleu']:.1f}",
        "all_left": str(int(at_once.loc["all", "heads_left"])),
        "any_head": words.signed(spread.max().reindex([2, 3]).max(), 2),
        "best_added": words.signed(spread.min().max(), 2),
        "worst_added": words.signed(spread.max().max(), 2),
    }  # fmt: skip
