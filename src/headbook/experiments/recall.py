"""Memories trained to recall the value of a key (page 45): Schlag et al. 2021, section 6.1.

The 63 published trainings took up to ten minutes each on one core, two hours together.
"""

import math
import re
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from headbook.corpora.recall import Recall, each_once, repeated
from headbook.experiments.learning import descent
from headbook.models import fast_weights
from headbook.models.attention import split
from headbook.runs.seeds import derived
from headbook.types import UserError

BATCH, EVERY, TESTED, FRESH = 32, 100, 20, 100  # updates between tests, and their sequences
ENOUGH, STRIKES = 1e-3, 10  # stops at this loss, or after more tests without a new best one


@dataclass(frozen=True)
class Setting:
    """One training: a feature map or "softmax" as memory, "sum", "delta rule" or "softmax" as rule.

    FAVOR+ draws directions at every pass, as in the authors' code, or "once", keys "scaled" or not.
    Heads split "features", or "features and values". Keys are given "once", or some "again".
    """

    memory: str = "ELU + 1"
    rule: str = "sum"
    heads: int = 1
    split: str = "features"
    setting: str = "once"
    keys: int = 20
    width: int = 64
    seed: int = 0

    def drawn(self, batch: int, noise: torch.Generator, length: int = 0) -> Recall:
        """Sequences of keys and values, twice as long as there are keys where keys repeat."""
        if self.setting == "once":
            return each_once(self.keys, batch, noise)
        return repeated(self.keys, length or 2 * self.keys, batch, noise)

    def noise(self, use: str) -> torch.Generator:
        return torch.Generator().manual_seed(derived(self.seed, use))


def feature_map(name: str, width: int, noise: torch.Generator) -> fast_weights.Features:
    """φ for one pass; UserError for an unknown name."""
    if name == "ELU + 1":
        return fast_weights.elu_plus_one
    if not (match := re.fullmatch(r"(?:DPFP-|FAVOR\+ )(\d+)(, scaled)?(, once)?", name)):
        raise UserError(f"unknown feature map {name!r}; use ELU + 1, DPFP-1 or FAVOR+ 64")
    if name.startswith("DPFP"):
        return lambda x: fast_weights.dpfp(x, int(match[1]))
    seed = 0 if match[3] else int(torch.randint(2**31, (), generator=noise))
    half = fast_weights.orthogonal_directions(int(match[1]), width, seed, torch.float32)
    scale = width**-0.25 if match[2] else 1.0
    return lambda x: fast_weights.favor(x * scale, torch.cat([half, -half]))


class Recaller(nn.Module):
    """Stores pairs of a key and a one-hot value and answers queries, as the authors' model does."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        count, dim, self.setting = setting.keys, setting.width, setting
        width, self.noise = int(2.2 * count), setting.noise("random features")
        self.embedding = nn.Parameter(torch.randn(count, width))
        self.key_of_key = nn.Linear(width, dim)
        self.key_of_value = nn.Parameter(torch.empty(count, dim))
        self.query, self.key_strength = nn.Linear(width, dim), nn.Linear(width, 1)
        self.value_strength = nn.Parameter(torch.zeros(count, 1))
        gains = torch.ones(setting.heads) / (setting.heads if setting.split == "features" else 1)
        self.gains = nn.Parameter(gains, requires_grad=setting.heads > 1)
        keys, queries = dim**-0.5, dim**-0.5  # the softmax: Glorot, one matrix for key and value
        if setting.rule == "softmax":
            keys, queries = math.sqrt(6 / (width + count + dim)), math.sqrt(6 / (width + dim))
        nn.init.uniform_(self.key_of_key.weight, -keys, keys)
        nn.init.uniform_(self.key_of_value, -keys, keys)
        nn.init.uniform_(self.query.weight, -queries, queries)

    def forward(self, drawn: Recall, queries: Tensor) -> Tensor:
        """Loss ½ |v̂ − v|² of each query [batch, query], v̂ a sum of one-hot values."""
        setting, values, at = self.setting, drawn.values, nn.functional.embedding
        key = at(drawn.keys, self.key_of_key(self.embedding)) + at(values, self.key_of_value)
        key, query = (
            split(x, setting.heads) for x in (key, self.query(at(queries, self.embedding)))
        )
        if setting.rule == "softmax":
            weights = (query @ key.mT / math.sqrt(key.shape[-1])).softmax(-1)
        else:
            phi = feature_map(setting.memory, key.shape[-1], self.noise)
            key, query = phi(key), phi(query)
        if setting.rule == "sum":
            weights = query @ key.mT
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
        if setting.rule == "delta rule":
            strength = self.key_strength(self.embedding)[drawn.keys] + self.value_strength[values]
            weights = fast_weights.delta_weights(query, key, strength[..., 0].sigmoid()[:, None])
        if setting.split != "features":  # a value is stored by the head of its slice alone
            owner = nn.functional.one_hot(values * setting.heads // setting.keys, setting.heads)
            weights = weights * owner.mT[:, :, None]
        mixed = torch.einsum("h,bhqt->bqt", self.gains, weights)
        read = mixed.new_zeros(*mixed.shape[:2], setting.keys)
        read = read.scatter_add(2, values[:, None].expand_as(mixed), mixed)
        right = read.gather(2, drawn.wanted(queries)[..., None])[..., 0]
        return (read.square().sum(-1) - 2 * right + 1) / 2


@torch.inference_mode()
def score(model: Recaller, drawn: Recall) -> float:
    """Mean loss over all keys that occur, each sequence's counting alike."""
    known, total = drawn.last >= 0, 0.0
    for rows in torch.arange(len(known)).split(10):
        part = Recall(drawn.keys[rows], drawn.values[rows], drawn.last[rows].clamp(min=0))
        each = model(part, torch.arange(known.shape[1]).expand(len(rows), -1)) * known[rows]
        total += float((each.sum(1) / known[rows].sum(1)).double().sum())
    return total / len(known)


def train(setting: Setting) -> dict[str, object]:
    """Adam on one query per sequence until the authors' stop rule, or a loss that is no number.

    `best` is the lowest test on the way, as in the authors' logs, on sequences of one position per
    key; `loss` and `untrained` are of fresh sequences as long as those in training.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(setting.seed, "initial weights"))
        model = Recaller(setting)
    untrained = score(model, setting.drawn(FRESH, setting.noise("fresh")))
    descend = descent(model.parameters(), lr=1e-3)
    sequences, tested = setting.noise("sequences"), setting.noise("evaluations")
    best, strikes, steps, loss = math.inf, 0, 0, 0.0
    while strikes <= STRIKES and best > ENOUGH and math.isfinite(loss):
        steps += 1
        drawn = setting.drawn(BATCH, sequences)
        place = torch.randint(drawn.keys.shape[1], (BATCH, 1), generator=sequences)
        loss = descend(model(drawn, drawn.keys.gather(1, place)).mean())
        if steps % EVERY == 0:
            found = score(model, setting.drawn(TESTED, tested, setting.keys))
            best, strikes = min(found, best), 0 if found < best else strikes + 1
    if math.isfinite(loss):
        loss = score(model, setting.drawn(FRESH, setting.noise("fresh")))
    found = {"best": best if best < math.inf else math.nan, "loss": loss, "untrained": untrained}
    return asdict(setting) | {"steps": steps} | found
