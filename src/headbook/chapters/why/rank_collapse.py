"""Page 46: the states of an encoder of attention alone (Dong, Cordonnier and Loukas 2021)."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, mean_claim, released_claim, stacked
from headbook.chapters.why import _path_lengths as path_lengths
from headbook.corpora.batches import Batch
from headbook.heads.nulls import Null, without_knowledge
from headbook.layers.collapse import paths, residual_norm, residual_ratio
from headbook.looking.load import load
from headbook.looking.sublayers import Encoder, encoder, of_ours
from headbook.looking.text import text
from headbook.models.attention import Attention, AttentionPath
from headbook.models.loaded import Loaded
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.statistics import resampled_mean
from headbook.types import UserError

NUMBER = 46
TITLE = "Would attention alone collapse?"
WORK = "dong2021"
KEYS = ("model", "weights", "sentences", "task", "seed", "updates")

ALONE, MLP, SKIP, FULL = "attention alone", "+ feed-forward", "+ skip", "full model"
VARIANTS = {
    ALONE: {"skip": False, "feed_forward": False},
    MLP: {"skip": False, "feed_forward": True},
    SKIP: {"skip": True, "feed_forward": False},
    FULL: {"skip": True, "feed_forward": True},
}
"""As the authors' code has them: norms stay, and the feed-forward part always has its own skip."""
RELEASED_WEIGHTS, REDRAWN, INITIAL = "released", "drawn anew", "initial"
PAPER = {
    SKIP: (0.69, 0.72, 0.64, 0.50, 0.36, 0.23, 0.21, 0.25, 0.24, 0.18, 0.15, 0.10, 0.08),
    FULL: (0.69, 0.67, 0.57, 0.51, 0.47, 0.41, 0.39, 0.39, 0.40, 0.40, 0.40, 0.38, 0.32),
}
"""BERT-base pre-trained, layers 0 to 12: read off the work's Figure 2."""
LEAST_TOKENS = 15
"""Shorter sentences say little about tokens becoming alike."""
MODELS = {"BERT-base": (12, 12), "MiniLM": (6, 12), "GPT-3": (96, 96)}
"""Layers and heads whose paths are counted."""
SPREADS = (0.1, 0.13, 0.17, 0.22, 0.3)
"""What sets tokens apart, as a share of what they have in common."""


@dataclass(frozen=True)
class Parameters:
    """Models whose encoder is taken apart, sentences of the sample, and updates of small networks
    whose paths answer alone (0: none)."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    sentences: int = 32
    updates: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Residual by layer, model, weights and variant; its powers; numbers of paths; claims."""
    sentences = [each for each in text("ewt-sample").sentences if len(each.split()) >= LEAST_TOKENS]
    sentences = sentences[: parameters.sentences]
    if len(sentences) < 2:
        raise UserError(f"sentences is {parameters.sentences}; give 2 or more")
    rows = [row for name in parameters.models for row in _of(load(name), sentences)]
    rows += list(_untrained(sentences))
    each = pd.DataFrame(rows).assign(sentences=len(sentences))
    tables = {"residual": _summed(each), "paths": pd.DataFrame(_path_rows()),
              "powers": pd.DataFrame(power_rows())}  # fmt: skip
    found = stacked([claims(each), claims_table([_power_claim(tables["powers"])])])
    if parameters.updates:
        tables["answers"] = path_lengths.answers(parameters.updates, store)
        found = stacked([found, claims_table(path_lengths.claim_rows(tables["answers"]))])
    return {**tables, "claims": found}


def _of(model: Loaded, sentences: list[str]) -> Iterator[dict[str, object]]:
    batches = [batch for each in sentences for batch in model.batches([each])]
    for weights in (RELEASED_WEIGHTS, REDRAWN):
        ignorant = without_knowledge(model.network, Null.DRAWN, 0)
        with nullcontext() if weights == RELEASED_WEIGHTS else ignorant:
            labels = {"model": model.name, "weights": weights}
            yield from ({**labels, **row} for row in residuals(encoder(model), batches))


def _untrained(sentences: list[str]) -> Iterator[dict[str, object]]:
    """Our encoder as it is initialised, with norms before and after; tokens drawn as long."""
    model = load("firefox-en-pt")
    lengths = [batch.source.shape[1] for each in sentences for batch in model.batches([each])]
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(10, 1_000, (1, length), generator=generator) for length in lengths]
    batches = [Batch(ids, ids[:, :1], ids[:, :1], torch.tensor([0])) for ids in rows]
    for norm in NormPlacement:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = Transformer(TransformerConfig(1_000, 1_000, decoder_layers=0, width=256,
                                                    feed_forward=1024, norm=norm))  # fmt: skip
        labels = {"model": f"ours, {norm}-norm", "weights": INITIAL}
        yield from ({**labels, **row} for row in residuals(of_ours(network), batches))


def residuals(taken_apart: Encoder, batches: list[Batch]) -> Iterator[dict[str, object]]:
    """One row per variant, sentence and layer, the embeddings being layer 0."""
    for variant, parts in VARIANTS.items():
        for number, batch in enumerate(batches):
            for layer, states in enumerate(taken_apart.states(batch, **parts)):
                yield {"variant": variant, "sentence": number, "layer": layer,
                       "value": residual_ratio(states[0])}  # fmt: skip


def _summed(each: pd.DataFrame) -> pd.DataFrame:
    """Mean over sentences with its interval."""
    rows = []
    for keys, own in each.groupby(["model", "weights", "variant", "layer"], sort=False):
        low, high = resampled_mean(own["value"], seed=0)
        names = dict(zip(("model", "weights", "variant", "layer"), keys, strict=True))
        rows.append({**names, "value": own["value"].mean(), "low": low, "high": high,
                     "sentences": own["sentences"].iloc[0]})  # fmt: skip
    return pd.DataFrame(rows)


def _path_rows() -> Iterator[dict[str, object]]:
    for name, (layers, heads) in MODELS.items():
        for length, share in enumerate(paths(layers, heads).tolist()):
            yield {"of": name, "layers": layers, "heads": heads, "length": length, "share": share}


def power_rows(layers: int = 2) -> Iterator[dict[str, object]]:
    """Residual behind layers of drawn attention alone over that before them, in 64-bit numbers.

    Without skips and norms. Tokens have one part in common and `spread` times a part of their own.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = [Attention(32, 4, 0.0, AttentionPath.EXPLICIT).double() for _ in range(layers)]
        common, own = (torch.randn(1, size, 32, dtype=torch.float64) for size in (1, 16))
    for spread in SPREADS:
        before = states = common + spread * own
        for layer, block in enumerate(blocks, start=1):
            states = block(states, states).detach()
            yield {"layers": layer, "spread": spread, "before": residual_norm(before[0]),
                   "behind": residual_norm(states[0])}  # fmt: skip


def exponents(powers: pd.DataFrame) -> pd.Series:
    """The power of the residual before the layers that it is behind them, by their number."""
    logs = powers.assign(before=np.log(powers["before"]), behind=np.log(powers["behind"]))
    return pd.Series({layers: np.polyfit(own["before"], own["behind"], 1)[0]
                      for layers, own in logs.groupby("layers")})  # fmt: skip


def _power_claim(powers: pd.DataFrame) -> dict[str, object]:
    """The exponent over 3^layers that is farthest from one."""
    shares = exponents(powers) / 3.0 ** exponents(powers).index
    worst = float(shares[(shares - 1).abs().idxmax()])
    return released_claim("collapse-cubed", "64-bit numbers", worst, corpus="")


def claims(each: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and released model, intervals over sentences."""
    rows = []
    for model, own in each[each["weights"] == RELEASED_WEIGHTS].groupby("model", sort=False):
        last = own[own["layer"] == own["layer"].max()]
        ends = last.pivot(index="sentence", columns="variant", values="value")
        above = own[own["layer"] > 0].groupby(["sentence", "variant"])["value"].mean().unstack()
        found = {
            "collapse-attention-alone": ends[ALONE],
            "collapse-skip-prevents": ends[SKIP],
            "collapse-feed-forward-slows": above[MLP] - above[ALONE],
        }
        rows += [mean_claim(claim, model, values) for claim, values in found.items()]
    return claims_table(rows)


def paper(variant: str) -> pd.DataFrame:
    """The work's values of a variant, by layer."""
    return pd.DataFrame({"layer": range(len(PAPER[variant])), "value": PAPER[variant]})


def last_layers(tables: Tables) -> pd.DataFrame:
    """Residual after the last layer, one row per model and weights, a column per variant."""
    rows = tables["residual"]
    last = rows[rows["layer"] == rows.groupby("model")["layer"].transform("max")]
    wide = last.pivot(index=["model", "weights"], columns="variant", values="value")
    wide = wide[list(VARIANTS)].map("{:.3f}".format).reset_index().rename_axis(columns=None)
    return wide.assign(model=wide["model"].replace(words.TITLES))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: ratios of MiniLM and of the student by variant."""
    rows = tables["residual"].query("weights == @RELEASED_WEIGHTS")
    last = rows[rows["layer"] == rows.groupby("model")["layer"].transform("max")]
    keys = {ALONE: "alone", MLP: "mlp", SKIP: "skip", FULL: "full"}
    found: Facts = {"sentences": str(int(rows["sentences"].iloc[0]))}
    for row in last.itertuples():
        digits = "{:.2f}" if row.value >= 0.005 else "{:.0e}"
        name = f"{row.model.replace('-', '_')}_{keys[row.variant]}"
        value, *ends = (digits.format(each) for each in (row.value, row.low, row.high))
        found |= {name: value, f"{name}_estimate": f"{value} [{', '.join(ends)}]"}
    first = rows.query("layer == 0").drop_duplicates("model")
    for row in first.itertuples():
        found[f"{row.model.replace('-', '_')}_embedded"] = f"{row.value:.2f}"
    lengths = tables["paths"].query("of == 'BERT-base'").set_index("length")["share"]
    read_off = {"paper_skip": str(PAPER[SKIP][-1]), "paper_full": str(PAPER[FULL][-1])}
    answers = path_lengths.facts(tables["answers"]) if "answers" in tables else {}
    powers = {f"power_{layers}": f"{value:.1f}"
              for layers, value in exponents(tables["powers"]).items()}  # fmt: skip
    short = {"short_paths": f"{lengths[:4].sum():.0e}"}
    return {**found, **read_off, **answers, **powers, **short}
