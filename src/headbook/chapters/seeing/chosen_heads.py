"""Page 58: heads that matter in one sentence, and gates that choose them (Peng et al. 2020)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._choosing import (
    by_sentence,
    gated,
    gated_halves,
    halved,
    overlaps,
    standardised,
    top,
    train,
    vectors,
)
from headbook.chapters.tables import claims_table, mean_claim, released_claim
from headbook.claims.verdict import COLUMNS
from headbook.corpora.batches import Batch
from headbook.looking.effects import Effects, own_batches
from headbook.looking.load import load
from headbook.looking.passes import bar
from headbook.looking.text import text
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.pruning.choosing import Chooser
from headbook.runs.store import Store
from headbook.statistics import over_seeds, resampled_mean
from headbook.types import HeadId, UserError

NUMBER = 58
TITLE = "Could heads be chosen per input?"
WORK = "peng2020"
KEYS = ("model", "text", "sentences", "gate")

SHARES = (1 / 12, 1 / 6, 1 / 3, 1 / 2)
OPEN = 1 / 3
"""Share of the heads that a gate leaves open."""
TOKENS = 256
"""Padded tokens per batch of training: some dozen sentences."""
OWN, OTHERS, CHANCE = "same sentence", "other sentences", "chance"
FIXED, READING, SHUFFLED = "fixed gate", "gate that reads", "gate that read another sentence"
IMPORTANT, RANDOM = "most important heads", "random heads"
ORACLE, TAUGHT = "sentence's own most important heads", "gate taught on the sentence"
HALF_FIXED = "fixed gate, on halves of a sentence"
HALF_TAUGHT = "gate taught on one half, on the other"


@dataclass(frozen=True)
class Parameters:
    """Models and a text that all of them read; sentences on which every head is removed and gates
    are tested; sentences behind them that gates learn from (0: none), updates, and seeds.

    With `halves` nothing but the gates on halves of a sentence, which are added to published rows.
    """

    models: tuple[str, ...] = ("firefox-en-pt",)
    text: str = "ewt-sample"
    sentences: int = 12
    train: int = 0
    updates: int = 100
    seeds: int = 3
    halves: bool = False


def compute(parameters: Parameters, store: Store) -> Tables:
    """Overlap of the top heads of two halves of sentences; gates of one size where trained."""
    if parameters.sentences < 3 or min(parameters.train, parameters.updates - 1) < 0:
        raise UserError("give 3 or more sentences, train of 0 or more, and 1 or more updates")
    every = text(parameters.text).sentences
    shared, heads, gates, claims = [], [], [], []
    for name in parameters.models:
        model = load(name)
        labels = {"model": name, "text": parameters.text, "sentences": parameters.sentences}
        measured = _Measured.of(model, every[: parameters.sentences], parameters.halves)
        if not parameters.halves:
            shared.append(measured.overlap().assign(**labels))
            heads.append(measured.chosen().assign(**labels))
        learnt = every[parameters.sentences :][: parameters.train]
        if learnt:
            rows = measured.gates(learnt, parameters.updates, range(parameters.seeds))
            gates.append(pd.DataFrame(rows).assign(**labels, learnt=len(learnt)))
            claims += _claims(name, measured, gates[-1])
    tables = {} if parameters.halves else {
        "overlap": pd.concat(shared, ignore_index=True),
        "heads": pd.concat(heads, ignore_index=True),
    }  # fmt: skip
    if gates:
        tables["gates"] = pd.concat(gates, ignore_index=True)
        tables["claims"] = claims_table(claims)
    return tables


@dataclass(frozen=True)
class _Measured:
    """Every head's effect on both halves of each sentence's tokens; None where it is left out."""

    model: Loaded
    heads: Sequence[HeadId]
    batches: Sequence[Batch]
    halves: np.ndarray | None  # [half, head, sentence]

    @classmethod
    def of(cls, model: Loaded, sentences: Sequence[str], gates_alone: bool) -> "_Measured":
        kind = next(iter(model.network.attentions()))[0]
        heads = [head for head in all_heads(model.network) if head.kind is kind]
        batches = own_batches(model, sentences, TOKENS)
        show = partial(bar, what="removing heads", unit="head")
        if gates_alone:
            return cls(model, heads, batches, None)
        return cls(model, heads, batches, halved(model, batches, heads, show))

    @property
    def effects(self) -> np.ndarray:
        """Of both halves together, [head, sentence]."""
        return self.halves.sum(0)

    def overlap(self) -> pd.DataFrame:
        """Shared share of the top heads by size: within a sentence, between two, by chance."""
        rows = []
        for share in SHARES:
            count = max(round(share * len(self.heads)), 1)
            own, others = overlaps(self.halves, count)
            for name, values in ((OWN, own), (OTHERS, others)):
                low, high = resampled_mean(values, seed=0)
                rows.append({"of": name, "top": count, "share": share, "value": values.mean(),
                             "low": low, "high": high})  # fmt: skip
            chance = count / len(self.heads)
            rows.append({"of": CHANCE, "top": count, "share": share, "value": chance,
                         "low": chance, "high": chance})  # fmt: skip
        return pd.DataFrame(rows)

    def chosen(self) -> pd.DataFrame:
        """Per head: the share of sentences in which it is among the top third, and its effect."""
        among = top(self.effects, self.open_heads).mean(1)
        return pd.DataFrame({
            "layer": [head.layer + 1 for head in self.heads],
            "head": [head.head + 1 for head in self.heads],
            "among the top": among, "effect": self.effects.mean(1),
        })  # fmt: skip

    @property
    def open_heads(self) -> int:
        return max(round(OPEN * len(self.heads)), 1)

    def gates(
        self, learnt: Sequence[str], updates: int, seeds: Sequence[int]
    ) -> Iterator[dict[str, object]]:
        """One row per gate and seed: the effect with a third of the heads open."""
        kind, count = self.heads[0].kind, len(self.heads)
        taught = own_batches(self.model, learnt, TOKENS)
        train_x = vectors(self.model, taught)
        test_x = standardised(vectors(self.model, self.batches), train_x)
        train_x = standardised(train_x, train_x)

        def learnt_by(reads: bool, seed: int) -> Chooser:
            chooser = Chooser(count, train_x[0].shape[1], self.open_heads, reads)
            show = partial(bar, what=f"training a gate, seed {seed}", unit="update")
            return train(self.model, kind, taught, train_x, chooser, updates, seed, show)

        if self.halves is not None:
            yield from self._untrained(seeds)
        for seed in seeds:
            fixed = learnt_by(False, seed)
            yield from self._on_halves(fixed, updates, seed, test_x)
            if self.halves is None:
                continue
            reading, noise = learnt_by(True, seed), torch.Generator().manual_seed(seed)
            yield self._row(FIXED, seed, [fixed(x) for x in test_x])
            yield self._row(READING, seed, [reading(x) for x in test_x])
            yield self._row(SHUFFLED, seed, _shuffled([reading(x) for x in test_x], self.batches,
                                                      noise))  # fmt: skip
            yield self._row(TAUGHT, seed, self._taught(fixed, updates, seed))

    def _on_halves(
        self, fixed: Chooser, updates: int, seed: int, test_x: Sequence[torch.Tensor]
    ) -> Iterator[dict[str, object]]:
        """The fixed gate, and gates taught on either half of a sentence's tokens, on the other."""
        yield self._half_row(HALF_FIXED, seed, [(fixed(x), fixed(x)) for x in test_x])
        first, second = (self._taught(fixed, updates, seed, half) for half in (0, 1))
        yield self._half_row(HALF_TAUGHT, seed, list(zip(second, first, strict=True)))

    def _untrained(self, seeds: Sequence[int]) -> Iterator[dict[str, object]]:
        sentences = self.effects.shape[1]
        ranked = np.repeat(self.effects.mean(1)[:, None], sentences, axis=1)
        yield self._row(IMPORTANT, 0, by_sentence(top(ranked, self.open_heads), self.batches))
        own = top(self.effects, self.open_heads)
        yield self._row(ORACLE, 0, by_sentence(own, self.batches))
        for seed in seeds:
            drawn = np.random.default_rng(seed).random(len(self.heads))
            same = np.repeat(drawn[:, None], sentences, axis=1)
            yield self._row(RANDOM, seed, by_sentence(top(same, self.open_heads), self.batches))

    def _taught(
        self, fixed: Chooser, updates: int, seed: int, half: int | None = None
    ) -> list[torch.Tensor]:
        """Gates learnt on the tested sentences, or half of their tokens, from the fixed gate on."""
        found = []
        for batch in self.batches:
            x = torch.eye(len(batch))
            chooser = Chooser(len(self.heads), len(batch), self.open_heads, reads=True)
            chooser.load_state_dict({"bias": fixed.bias, "weight": chooser.weight})
            steps = max(updates // 2, 1)
            found.append(train(self.model, self.heads[0].kind, [batch], [x], chooser, steps, seed,
                               weight_rate=0.1, half=half)(x))  # fmt: skip
        return found

    def _row(self, gate: str, seed: int, gates: Sequence[torch.Tensor]) -> dict[str, object]:
        with torch.no_grad():
            found: Effects = gated(self.model, self.heads[0].kind, self.batches, gates)
        return self._numbers(gate, seed, found, gates)

    def _half_row(
        self, gate: str, seed: int, gates: Sequence[tuple[torch.Tensor, torch.Tensor]]
    ) -> dict[str, object]:
        """Gates for the first and for the second half of each sentence's tokens."""
        with torch.no_grad():
            found = gated_halves(self.model, self.heads[0].kind, self.batches, gates)
        return self._numbers(gate, seed, found, [each for pair in gates for each in pair])

    def _numbers(
        self, gate: str, seed: int, found: Effects, gates: Sequence[torch.Tensor]
    ) -> dict[str, object]:
        scaled = (found.added[0] / found.weights.mean()).numpy()
        low, high = resampled_mean(scaled, seed=0)
        rows = torch.cat([each.detach() for each in gates])
        return {"gate": gate, "seed": seed, "open": self.open_heads, "of": len(self.heads),
                "value": float(scaled.mean()), "low": low, "high": high,
                "different": len({tuple(row) for row in rows.tolist()}),
                "unit": found.unit}  # fmt: skip


def _shuffled(
    gates: Sequence[torch.Tensor], batches: Sequence[Batch], noise: torch.Generator
) -> list[torch.Tensor]:
    """Every sentence with the gates of another: one step on in a random order."""
    rows = torch.cat(list(gates))
    order = torch.randperm(len(rows), generator=noise)
    moved = torch.empty_like(rows)
    moved[order] = rows[order.roll(1)]
    return list(moved.split([len(batch) for batch in batches]))


def _claims(name: str, measured: _Measured, gates: pd.DataFrame) -> Iterator[dict[str, object]]:
    if measured.halves is not None:
        own, others = overlaps(measured.halves, measured.open_heads)
        yield mean_claim("useful-heads-differ", name, own - others)
    values = gates.pivot_table(index="seed", columns="gate", values="value")
    for claim, gate, other in (("chosen-over-fixed", READING, FIXED),
                               ("chosen-reads-the-sentence", READING, SHUFFLED),
                               ("chosen-room", HALF_TAUGHT, HALF_FIXED)):  # fmt: skip
        if gate not in values:
            continue
        spared = over_seeds(1 - values[gate] / values[other])
        yield released_claim(claim, name, spared.mean, spared.low, spared.high)


def bars(tables: Tables, model: str) -> pd.DataFrame:
    """One row per gate: mean over seeds with its interval, or over sentences where untrained."""
    rows = []
    own = tables["gates"].query("model == @model")
    for gate in (gate for gate in GATES if gate in set(own["gate"])):
        each = own[own["gate"] == gate]
        over = over_seeds(each["value"])
        one = each.iloc[0]
        ends = (one["low"], one["high"]) if len(each) == 1 else (over.low, over.high)
        rows.append({"gate": gate, "value": over.mean, "low": ends[0], "high": ends[1],
                     "seeds": len(each), "different": each["different"].mean()})  # fmt: skip
    return pd.DataFrame(rows)


def summary(tables: Tables) -> pd.DataFrame:
    """One row per model and gate, as text."""
    if "gates" not in tables:
        return pd.DataFrame(columns=["model", "gate"])
    parts = [bars(tables, model).assign(model=words.TITLES.get(model, model))
             for model in dict.fromkeys(tables["gates"]["model"])]  # fmt: skip
    rows = pd.concat(parts, ignore_index=True)
    return pd.DataFrame({
        "model": rows["model"], "gate": rows["gate"],
        "effect": [words.number(*each, 3) for each in rows[["value", "low", "high"]].to_numpy()],
        "different sets of heads": rows["different"].map("{:.0f}".format),
    })  # fmt: skip


def common(tables: Tables, model: str) -> float:
    """Share common to all sentences of the overlap that a sentence's halves have beyond chance."""
    own = tables["overlap"].query("model == @model")
    own = own[own["top"] == _middle(own)].set_index("of")["value"]
    return (own[OTHERS] - own[CHANCE]) / (own[OWN] - own[CHANCE])


def _middle(overlap: pd.DataFrame) -> int:
    return int(overlap.loc[(overlap["share"] - OPEN).abs().idxmin(), "top"])


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by model, at a third of the heads."""
    overlap = tables["overlap"]
    found: Facts = {"sentences": words.count(overlap["sentences"].max())}
    for model in dict.fromkeys(overlap["model"]):
        name = str(model).replace("-", "_")
        own = overlap.query("model == @model")
        own = own[own["top"] == _middle(own)].set_index("of")
        for of, key in ((OWN, "own"), (OTHERS, "others"), (CHANCE, "chance")):
            found[f"{name}_{key}"] = words.percent(own["value"][of])
            found[f"{name}_{key}_interval"] = words.interval(own["low"][of], own["high"][of])
        found |= {f"{name}_common": words.percent(common(tables, model)),
                  f"{name}_top": str(own["top"].iloc[0])}  # fmt: skip
        heads = tables["heads"].query("model == @model")
        found |= {f"{name}_heads": str(len(heads)),
                  f"{name}_always": str(int((heads["among the top"] >= 0.9).sum())),
                  f"{name}_ever": str(int((heads["among the top"] > 0).sum()))}  # fmt: skip
    for model in dict.fromkeys(tables.get("gates", pd.DataFrame({"model": []}))["model"]):
        gates = tables["gates"]
        found |= {"seeds": str(gates["seed"].nunique()), "train": str(gates["learnt"].max())}
        for row in bars(tables, model).to_dict("records"):
            key = f"{model}_{GATES[row['gate']]}".replace("-", "_")
            estimate = words.number(row["value"], row["low"], row["high"], 3)
            found[key], found[f"{key}_interval"] = estimate.split(" ", 1)
            found[f"{key}_sets"] = f"{row['different']:.0f}"
    for row in tables.get("claims", pd.DataFrame(columns=COLUMNS)).to_dict("records"):
        key = f"{row['model']}_{CLAIMS[row['claim']]}".replace("-", "_")
        found[key] = words.percent(row["value"]).replace("-", "−")
        found[f"{key}_interval"] = words.interval(row["low"], row["high"])
    return found


CLAIMS = {"useful-heads-differ": "differ", "chosen-over-fixed": "gain",
          "chosen-reads-the-sentence": "reads", "chosen-room": "room"}  # fmt: skip
GATES = {ORACLE: "oracle", TAUGHT: "taught", HALF_TAUGHT: "half_taught", HALF_FIXED: "half_fixed",
         READING: "reading", FIXED: "fixed", SHUFFLED: "shuffled", IMPORTANT: "important",
         RANDOM: "random"}  # fmt: skip
"""Gates in the order of the figure, by the names of facts."""


def overlap_curves(tables: Tables, model: str) -> pd.DataFrame:
    """Shared shares by the length of the lists, of the largest number of sentences."""
    own = tables["overlap"].query("model == @model")
    own = own[own["sentences"] == own["sentences"].max()]
    return own[["of", "top", "value", "low", "high"]]


def shown(tables: Tables, model: str) -> pd.DataFrame:
    """Every head of a model on the largest number of sentences."""
    own = tables["heads"].query("model == @model")
    return own[own["sentences"] == own["sentences"].max()]
