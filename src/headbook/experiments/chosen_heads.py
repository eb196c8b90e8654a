"""Gates that choose heads by the sentence, trained while the model stays as it is (page 58).

Peng et al. (2020) train a translator together with a gate that chooses among its heads. Here a
linear layer reads a sentence's mean embedding and opens a third of a released encoder's heads.
Sixty updates, three seeds and gates for each sentence took 10 to 60 minutes per model.
"""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from headbook.experiments.chooser import Chooser, Gates, blocks, given_gates, permuted, vectors
from headbook.experiments.learning import descent
from headbook.looking.effects import VECTORS, compared_by, own_batches
from headbook.models.loaded import Loaded
from headbook.statistics import resampled_mean
from headbook.text.batches import Batch

BIAS_RATE, WEIGHT_RATE, SENTENCE_RATE = 0.1, 0.05, 0.1
"""Adam's rates of b, of W, and of W where every sentence has gates of its own."""
TOKENS = 256
"""Padded tokens per batch: some dozen sentences."""


def trained(
    model: Loaded,
    batches: Sequence[Batch],
    x: Sequence[Tensor],
    chooser: Chooser,
    updates: int,
    seed: int,
    half: int | None = None,
    rate: float = WEIGHT_RATE,
) -> Chooser:
    """The chooser after some updates that lower what its gates add to the loss of the batches.

    With `half` (0 or 1) to the loss of every other token alone. The model keeps its weights.
    """
    read = compared_by(model, batches[0])
    losses = read.read if half is None else lambda batch: read.halves(batch)[half]
    noise, order = torch.Generator().manual_seed(seed), []
    groups = [{"params": [chooser.bias], "lr": BIAS_RATE}]
    if chooser.weight.requires_grad:
        groups.append({"params": [chooser.weight], "lr": rate})
    descend = descent(groups, fused=False)
    wanted = [each for each in model.network.parameters() if each.requires_grad]
    model.network.requires_grad_(requires_grad=False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        with torch.no_grad():
            whole = [losses(batch) for batch in batches]
        for _ in range(updates):
            order = order or torch.randperm(len(batches), generator=noise).tolist()
            at = order.pop()
            with given_gates(model.network, chooser.train()(x[at])):
                added = read.change(whole[at], losses(batches[at]))
            descend(added.sum() / read.weight(batches[at]).sum())
    for each in wanted:
        each.requires_grad_(requires_grad=True)
    return chooser.eval()


def cost(model: Loaded, batches: Sequence[Batch], *gates: Gates) -> dict[str, float | int | str]:
    """Loss that gates add, per predicted token (of vectors 1 - cosine), with its interval.

    Two gates are each for one half of a sentence's tokens. `different` counts sets of heads.
    """
    read, parts = compared_by(model, batches[0]), []
    losses = read.halves if gates[1:] else lambda batch: [read.read(batch)]
    with torch.no_grad():
        for batch, *rows in zip(batches, *gates, strict=True):
            whole, changes = losses(batch), []
            for half, row in enumerate(rows):
                with given_gates(model.network, row):
                    changes.append(read.change(whole[half], losses(batch)[half]))
            halves = len(rows) if read.unit == VECTORS else 1
            parts.append(torch.stack([sum(changes), read.weight(batch) * halves]))
    order = torch.cat([batch.sentences for batch in batches]).argsort()
    added, weights = torch.cat(parts, 1)[:, order].double().numpy()
    low, high = resampled_mean(added / weights.mean(), seed=0)
    sets = {tuple(row) for rows in gates for row in torch.cat(rows).tolist()}
    heads = {"open": int(gates[0][0][0].sum()), "heads": gates[0][0].shape[1], "unit": read.unit}
    value = {"value": float((added / weights.mean()).mean()), "value_low": low, "value_high": high}
    return {**heads, "different": len(sets), **value}


def sweep(
    model: Loaded,
    batches: Sequence[Batch],
    learnt: Sequence[str],
    updates: int,
    seeds: Sequence[int],
    taught: bool,
) -> pd.DataFrame:
    """One row per gate and seed: the `cost` on the batches with a third of the heads open.

    Gates learn from the sentences `learnt`; with `taught` also from each tested sentence, to be
    tested on the tokens that they learnt from and on others.
    """
    others = own_batches(model, learnt, TOKENS)
    heads, rows = sum(block.heads for block in blocks(model.network)), []
    known, third = vectors(model, others), max(round(heads / 3), 1)
    every = torch.cat(known)
    mean, spread = every.mean(0), every.std(0).clamp(min=1e-6) * every.shape[1] ** 0.5
    known = [(each - mean) / spread for each in known]
    x = [(each - mean) / spread for each in vectors(model, batches)]

    def add(gate: str, seed: int, *gates: Gates) -> None:
        of = {"learnt": len(learnt), "updates": updates, "gate": gate, "seed": seed}
        rows.append({**of, **cost(model, batches, *gates)})

    def learn(reads: bool, seed: int) -> Chooser:
        chooser = Chooser(heads, len(mean), third, reads)
        return trained(model, others, known, chooser, updates, seed)

    def own(fixed: Chooser, seed: int, half: int | None = None) -> Gates:
        found = []
        for batch in batches:
            chooser, one = Chooser(heads, len(batch), third, reads=True), torch.eye(len(batch))
            chooser.bias.data.copy_(fixed.bias)
            given = ([one], chooser, max(updates // 2, 1), seed, half, SENTENCE_RATE)
            found.append(trained(model, [batch], *given)(one))
        return found

    for seed in tqdm(seeds, "seeds"):
        fixed, reading = (learn(reads, seed) for reads in (False, True))
        same, chosen = ([gate(each).detach() for each in x] for gate in (fixed, reading))
        add("fixed gate", seed, same)
        add("reading gate", seed, chosen)
        add("reading gate, other sentence", seed, permuted(chosen, seed))
        if taught:
            add("taught on the same tokens", seed, own(fixed, seed))
            add("fixed gate, halves", seed, same, same)
            first, second = (own(fixed, seed, half) for half in (0, 1))
            add("taught on other tokens", seed, second, first)
    return pd.DataFrame(rows)
