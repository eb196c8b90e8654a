"""Heads closed by learned gates, and as many at random or by importance (pages 18 and 19).

A translator is trained on its own earlier translations, so that no parallel text is needed (Kim and
Rush 2016), with Hard Concrete gates on its heads (Voita et al. 2019, section 6) or without.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from torch.nn.functional import normalize

from headbook.looking.effects import loss
from headbook.looking.importance import by_gradient
from headbook.models.gates import all_heads, close_heads
from headbook.models.loaded import Translator
from headbook.pruning import gating
from headbook.pruning.hard_concrete import CONSTANTS
from headbook.pruning.ranking import random_order
from headbook.runs.seeds import derived
from headbook.text.batches import Batch, EncodedPair, in_order
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.types import HeadId, Kind

Heads, Load = tuple[HeadId, ...], Callable[[], Translator]


@dataclass(frozen=True)
class Setting:
    """What the trainings of a sweep share; the defaults are those of page 18's released models."""

    kinds: tuple[Kind, ...] = (Kind.ENCODER,)
    updates: int = 600
    seed: int = 0
    tokens: int = 2_000  # of a batch, padded
    rate: float = 1e-4
    gate_rate: float = 0.03
    warmup: int = 50
    start: float = 2.0  # log α of every gate
    held: int = 400  # pairs that are not trained on

    def rate_of(self, update: int) -> float:
        """Learning rate of an update, from 1: up over `warmup` updates, then down to zero."""
        left = (self.updates - update + 1) / max(self.updates - self.warmup, 1)
        return self.rate * min(update / self.warmup, left)


def own_translations(model: Translator, sentences: Sequence[str]) -> list[EncodedPair]:
    """Ids of the sentences and of the model's greedy translations, in random order."""
    pairs = []
    for batch in model.batches(sentences, model.translate(sentences)):
        sources = map(torch.masked_select, batch.source, batch.source_mask)
        targets = map(torch.masked_select, batch.target_out, batch.target_mask)
        pairs += [(a.tolist(), b.tolist()) for a, b in zip(sources, targets, strict=True)]
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
    return [pairs[at] for at in order.tolist()]


def prune(
    model: Translator,
    pairs: Sequence[EncodedPair],
    setting: Setting,
    penalty: float = 0.0,
    closed: Heads | None = None,
) -> Heads:
    """Trains the model with gates at λ = `penalty`, or with the heads `closed` from the start.

    Gives the heads closed in the end, which the model is left without. λ is in nats per open head.
    """
    network, addition = model.network, None
    for name, parameter in network.named_parameters():  # embeddings are never trained
        parameter.requires_grad_(not name.startswith(("source.", "target.")))
    if closed is None:
        constants, seed = CONSTANTS["code"], derived(setting.seed, "gates")
        gating.gate_heads(network, setting.kinds, constants, seed, start=setting.start)
        addition = gating.HeadPenalty(penalty)
    else:
        close_heads(network, closed)
    groups = gating.parameter_groups(network, setting.gate_rate / setting.rate)
    more = {"groups": [group for group in groups if group["params"]], "rate": setting.rate_of}
    more |= {"collate": model.one_batch, "losses": partial(_losses, model), "addition": addition}
    learnt, held = pairs[setting.held :], pairs[: setting.held]
    config = TrainingConfig(setting.updates, setting.tokens, 1.0, 1, 0.0, seed=setting.seed)
    with TemporaryDirectory() as folder:
        Trainer(network, config, learnt, held, Path(folder), **more).run()
    closed = gating.decided_closed(network) if closed is None else closed
    close_heads(network, closed)
    network.eval()
    return closed


def _losses(model: Translator, network: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Nats per target token, with a draw of every gate for each sentence in training."""
    for _, _, gate in gating.gates(network):
        gate.rows = len(batch)
    return model.losses(batch, shortlist=True)


def orders(model: Translator, pairs: Sequence[EncodedPair], setting: Setting) -> dict[str, Heads]:
    """Orders in which the controls close heads: random, and the least important first.

    Importance is Michel et al.'s, by gradient before anything is closed, each layer's at length 1.
    """
    batches = list(in_order(pairs, setting.tokens, model.one_batch))
    layers = sum(kind in setting.kinds for kind, _, _ in model.network.attentions())
    found = by_gradient(model, batches, kinds=setting.kinds).ratio().unflatten(0, (layers, -1))
    heads = [head for head in all_heads(model.network) if head.kind in setting.kinds]
    scored = zip(normalize(found).flatten().tolist(), heads, strict=True)
    least_first = tuple(head for _, head in sorted(scored))
    return {"random": random_order(least_first, setting.seed), "importance": least_first}


def sweep(
    load: Load, sentences: Sequence[str], penalties: Sequence[float], setting: Setting
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """At each λ gates and controls, beside the whole model: rows per training, and per head of it.

    `load` gives the model anew for each training; `loss` is that of held pairs.
    """
    pairs = own_translations(load(), sentences)
    held = pairs[: setting.held]
    order, trainings, heads = orders(load(), held, setting), [], []

    def add(chosen: str, penalty: float, closed: Heads | None) -> int:
        model = load()
        every = [head for head in all_heads(model.network) if head.kind in setting.kinds]
        gone = prune(model, pairs, setting, penalty, closed)
        of = {"model": model.name, "chosen": chosen, "penalty": penalty, "seed": setting.seed}
        nats, tokens = loss(model, list(in_order(held, 2_000, model.one_batch)))
        counts = {"kept": len(every) - len(gone), "of": len(every)}
        trainings.append(of | counts | {"loss": nats.sum() / tokens.sum()})
        heads.extend({**of, "head": each.label, "kept": each not in gone} for each in every)
        return len(gone)

    add("whole", 0.0, ())
    for each in penalties:
        count = add("gates", each, None)
        for way in order:
            add(way, each, order[way][:count])
    return pd.DataFrame(trainings), pd.DataFrame(heads)
