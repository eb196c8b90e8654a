"""Page 41's models trained from scratch: one attention recalls the values of keys.

A position holds a key and its value, a query one of the keys. All keys and values occur once per
sequence, in random order and pairing, so only query-key products can tell where a value stands.
"""

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from headbook.chapters import words
from headbook.chapters.tables import released_claim
from headbook.claims.gates import NONE
from headbook.corpora.recall import Recall, each_once
from headbook.models.collaborative import Collaborative, Narrow
from headbook.runs.seeds import derived
from headbook.statistics import over_seeds

WIDTH, HEADS, COUNT, SEEDS = 64, 8, 32, 3
DIMS = (64, 32, 16, 8)
RATES = (3e-3, 1e-2)
BATCH, FRESH = 32, 200
COLLABORATIVE, CONCATENATED = "collaborative", "concatenated"
KINDS = {COLLABORATIVE: Collaborative, CONCATENATED: Narrow}
PAPER_BLEU = {
    COLLABORATIVE: (27.58, 27.41, 27.40, 27.31),
    CONCATENATED: (27.40, 27.10, 26.89, 26.77),
}
"""On WMT14 English-German with 512, 256, 128 and 64 dimensions (second version of the paper)."""


class Recaller(nn.Module):
    """Embeddings of keys and values, one attention and a linear layer that names the value."""

    def __init__(self, kind: str, dims: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(COUNT, WIDTH), nn.Embedding(COUNT, WIDTH)
        self.attention = KINDS[kind](WIDTH, HEADS, dims)
        self.logits = nn.Linear(WIDTH, COUNT)

    def forward(self, drawn: Recall) -> Tensor:
        """Logits of the value of every key, [batch key value]."""
        memory = self.keys(drawn.keys) + self.values(drawn.values)
        queries = self.keys.weight.expand(len(memory), -1, -1)
        return self.logits(self.attention(queries, memory))


def wanted(drawn: Recall) -> Tensor:
    """The value of every key, [batch key]."""
    return drawn.wanted(torch.arange(COUNT).expand(len(drawn.keys), -1))


def recalled(kind: str, dims: int, rate: float, updates: int, seed: int) -> dict[str, float]:
    """Loss and share of keys whose value is named, on fresh sequences behind the last update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "initial weights"))
        model = Recaller(kind, dims)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    sequences = torch.Generator().manual_seed(derived(seed, "sequences"))
    for _ in range(updates):
        drawn = each_once(COUNT, BATCH, sequences)
        loss = functional.cross_entropy(model(drawn).mT, wanted(drawn))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    fresh = each_once(COUNT, FRESH, torch.Generator().manual_seed(derived(seed, "fresh")))
    with torch.no_grad():
        found = model(fresh)
    right = (found.argmax(-1) == wanted(fresh)).double().mean()
    return {"loss": float(functional.cross_entropy(found.mT, wanted(fresh))), "right": float(right)}


def from_scratch(updates: int) -> pd.DataFrame:
    """One row per kind of heads, dimensions, learning rate and seed."""
    runs = [(kind, dims, rate, seed) for kind in KINDS for dims in DIMS for rate in RATES
            for seed in range(SEEDS)]  # fmt: skip
    rows = []
    for kind, dims, rate, seed in tqdm(runs, desc="training", unit="model", mininterval=5):
        # mixing vectors come on top of the projections
        parameters = (2 * WIDTH + (HEADS if kind == COLLABORATIVE else 0)) * dims
        run = {"heads": kind, "dims": dims, "rate": rate, "seed": seed}
        found = recalled(kind, dims, rate, updates, seed)
        rows.append({**run, "updates": updates, "parameters": parameters, **found})
    return pd.DataFrame(rows)


def best(scratch: pd.DataFrame) -> pd.DataFrame:
    """Of each kind and number of dimensions the rate with the lower mean loss, all its seeds."""
    mean = scratch.groupby(["heads", "dims", "rate"])["loss"].mean()
    chosen = mean.reset_index().sort_values("loss").drop_duplicates(["heads", "dims"])
    return scratch.merge(chosen[["heads", "dims", "rate"]])


def claim_rows(scratch: pd.DataFrame) -> list[dict[str, object]]:
    """Gain of sharing at the fewest dimensions, per seed."""
    right = best(scratch).set_index(["heads", "dims", "seed"])["right"].sort_index()
    few, every = (right[CONCATENATED, dims] for dims in (DIMS[-1], DIMS[0]))
    matters = over_seeds(every - few).low > 0
    closed = NONE if matters else "diagnostic: few dimensions cost these models nothing"
    gain = right[COLLABORATIVE, DIMS[-1]] - few
    model = f"one attention, width {WIDTH}"
    return [
        released_claim("collaborating-from-scratch", model, value, corpus="", closed=closed)
        | {"seed": seed}
        for seed, value in gain.items()
    ]


def summary(scratch: pd.DataFrame) -> pd.DataFrame:
    """Share of keys recalled by dimensions, with the parameters of query and key, beside the
    paper's BLEU at the same share."""
    right = best(scratch).groupby(["heads", "dims"])["right"].apply(over_seeds)
    parameters = scratch.groupby(["heads", "dims"])["parameters"].first()
    rows = []
    for place, dims in enumerate(DIMS):
        row = {"dimensions": f"{dims} of {WIDTH}"}
        row["parameters"] = " / ".join(words.count(parameters[kind, dims]) for kind in KINDS)
        row |= {kind: words.estimate(own.mean, own.low, own.high)
                for kind in KINDS for own in [right[kind, dims]]}  # fmt: skip
        paper = {f"BLEU, {kind}": f"{PAPER_BLEU[kind][place]:.1f}" for kind in KINDS}
        rows.append(row | {"paper": f"{8 * dims} of 512"} | paper)
    return pd.DataFrame(rows)


def facts(scratch: pd.DataFrame) -> dict[str, str]:
    """Shares of keys recalled and parameters of query and key, by kind of heads and dimensions."""
    found = {"updates": str(int(scratch["updates"].iloc[0])), "seeds": str(SEEDS),
             "recalled_keys": str(COUNT), "recalled_dims": str(WIDTH)}  # fmt: skip
    for (kind, dims), own in best(scratch).groupby(["heads", "dims"]):
        found[f"{kind}_{dims}"] = words.percent(own["right"].mean())
        found[f"{kind}_{dims}_parameters"] = words.count(own["parameters"].iloc[0])
    for kind, bleu in PAPER_BLEU.items():
        found[f"paper_{kind}"] = f"{bleu[-1]:.1f}"
    return found
