"""One attention, trained to recall values by their keys, with few query-key dimensions (page 41).

A position holds a key and its value, a query one of the keys. All keys and values occur once per
sequence, in random order and pairing, so only query-key products can tell where a value stands. The
published table (200 updates, two rates, three seeds: 48 trainings) took three minutes on one core.
"""

from collections.abc import Sequence
from itertools import product

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from headbook.corpora.recall import Recall, each_once
from headbook.experiments.learning import descent
from headbook.models.attention import Attention, AttentionPath, split
from headbook.runs.seeds import derived
from headbook.statistics import over_seeds

WIDTH, HEADS, COUNT = 64, 8, 32
DIMS, RATES, SEEDS = (64, 32, 16, 8), (3e-3, 1e-2), (0, 1, 2)
BATCH, FRESH = 32, 200


class Concatenated(Attention):
    """Ordinary heads of `dims` query and key dimensions in all; values keep their width."""

    def __init__(self, width: int, heads: int, dims: int) -> None:
        super().__init__(width, heads, 0.0, AttentionPath.AUTO)
        self.query, self.key = (nn.Linear(width, dims, bias=False) for _ in range(2))


class Collaborative(Concatenated):
    """Heads that share all `dims` dimensions, each weighing them by its row of `mixing`.

    Mixing vectors start as normal entries, which spreads scores as those of ordinary heads.
    """

    def __init__(self, width: int, heads: int, dims: int) -> None:
        super().__init__(width, heads, dims)
        self.mixing = nn.Parameter(torch.randn(heads, dims))

    def _queries(self, states: Tensor) -> Tensor:
        return self.query(states)[:, None] * self.mixing[:, None]

    def _project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        keys = self.key(memory)[:, None].expand(-1, self.heads, -1, -1)
        return keys, split(self.value(memory), self.heads)


KINDS = {"collaborative": Collaborative, "concatenated": Concatenated}


class Recaller(nn.Module):
    """Embeddings of keys and values, one attention and a linear layer that names the value."""

    def __init__(self, heads: str, dims: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(COUNT, WIDTH), nn.Embedding(COUNT, WIDTH)
        self.attention = KINDS[heads](WIDTH, HEADS, dims)
        self.logits = nn.Linear(WIDTH, COUNT)

    def forward(self, drawn: Recall) -> Tensor:
        """Logits of the value of every key, [batch key value]."""
        memory = self.keys(drawn.keys) + self.values(drawn.values)
        queries = self.keys.weight.expand(len(memory), -1, -1)
        return self.logits(self.attention(queries, memory))


def recalled(heads: str, dims: int, rate: float, updates: int, seed: int) -> dict[str, float]:
    """Loss, and share of keys whose value is named, on fresh sequences after the last update."""

    def answers(drawn: Recall) -> tuple[Tensor, Tensor]:
        wanted = drawn.values.gather(1, drawn.last)  # the value of every key
        logits = model(drawn)
        return functional.cross_entropy(logits.mT, wanted), (logits.argmax(-1) == wanted)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "initial weights"))
        model = Recaller(heads, dims)
    descend = descent(model.parameters(), lr=rate)
    sequences = torch.Generator().manual_seed(derived(seed, "sequences"))
    for _ in range(updates):
        descend(answers(each_once(COUNT, BATCH, sequences))[0])
    fresh = torch.Generator().manual_seed(derived(seed, "fresh"))
    with torch.no_grad():
        loss, right = answers(each_once(COUNT, FRESH, fresh))
    return {"loss": float(loss), "right": float(right.double().mean())}


def sweep(
    updates: int = 200,
    dims: Sequence[int] = DIMS,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = SEEDS,
) -> pd.DataFrame:
    """One row per kind of heads, number of dimensions, learning rate and seed.

    Parameters are those of queries and keys, with the mixing vectors.
    """
    rows = []
    for heads, each, rate, seed in product(KINDS, dims, rates, seeds):
        run = {"heads": heads, "dims": each, "rate": rate, "seed": seed, "updates": updates}
        run["parameters"] = (2 * WIDTH + HEADS * (heads == "collaborative")) * each
        rows.append(run | recalled(heads, each, rate, updates, seed))
    return pd.DataFrame(rows)


def best(trained: pd.DataFrame) -> pd.DataFrame:
    """Of each kind and number of dimensions the rate with the lower mean loss, all its seeds."""
    mean = trained.groupby(["heads", "dims", "rate"])["loss"].mean()
    chosen = mean.reset_index().sort_values("loss").drop_duplicates(["heads", "dims"])
    return trained.merge(chosen[["heads", "dims", "rate"]])


def gain(trained: pd.DataFrame) -> pd.DataFrame:
    """Share of keys recalled with the fewest dimensions, collaborative minus concatenated, by seed.

    Closed where the fewest cost ordinary heads nothing.
    """
    right = best(trained).set_index(["heads", "dims", "seed"])["right"].sort_index()
    few, most = (right["concatenated", dims] for dims in (min(DIMS), max(DIMS)))
    useless = over_seeds(most - few).low <= 0
    closed = "diagnostic: few dimensions cost these models nothing" if useless else "none"
    value = (right["collaborative", min(DIMS)] - few).rename("value").reset_index()
    whose = {"model": f"one attention, width {WIDTH}", "corpus": "", "target": ""}
    whose["question"] = "keys recalled, shared minus separate"
    return value.assign(**whose, closed=closed)
