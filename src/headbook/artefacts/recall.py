"""The stage `recall`: a memory trained to recall so many keys, by Schlag et al.'s stop rule."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from headbook.corpora.recall import Recall, each_once, repeated
from headbook.models.recall import Memory, Recaller
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store

RECALL = Stage("recall", version=1)
BATCH, RATE = 32, 1e-3
EVERY, TESTED = 100, 20
"""Updates between evaluations, and the sequences of one."""
ENOUGH, STRIKES = 1e-3, 10
"""Stops at this loss, or behind more evaluations in a row without a new best one."""
LONGEST = 100_000
FRESH = 100
"""Sequences that the trained memory is scored on at the end."""
LENGTH = 2
"""Positions per key where keys are written again."""


@dataclass(frozen=True)
class RecallRun:
    """A memory, the number of keys (and of values), and whether keys are written again."""

    memory: Memory
    keys: int
    again: bool = False
    seed: int = 0

    def drawn(self, batch: int, generator: torch.Generator, length: int | None = None) -> Recall:
        """Sequences of the setting; `length` counts where keys are written again."""
        if not self.again:
            return each_once(self.keys, batch, generator)
        return repeated(self.keys, length or LENGTH * self.keys, batch, generator)


@dataclass(frozen=True)
class Recalled:
    """Half the squared distance from the one-hot value, mean over queries: ½ for answering zero.

    `best` is the lowest of the evaluations on the way, which the authors' logs give; theirs have
    sequences of one position per key in both settings. `loss` is the trained memory's on fresh
    sequences as long as those in training, `untrained` the same before the first update.
    """

    best: float
    loss: float
    untrained: float
    steps: int


def recalled(run: RecallRun, store: Store) -> Recalled:
    """The outcome of a run, from the store or trained now."""
    asked = Ingredients(RECALL, run, {}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return Recalled(**json.loads((folder / "outcome.json").read_text()))


def _write(run: RecallRun, folder: Path) -> None:
    (folder / "outcome.json").write_text(json.dumps(asdict(train(run))))


def start(run: RecallRun) -> Recaller:
    """The memory before its first update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "initial weights"))
        return Recaller(run.keys, run.memory, _generator(run, "random features"))


def train(run: RecallRun) -> Recalled:
    """Adam on one query per sequence, until the stop rule; NaN ends it, as nothing follows it."""
    model = start(run)
    untrained = score(model, run.drawn(FRESH, _generator(run, "fresh")))
    optimiser = torch.optim.Adam((each for each in model.parameters() if each.requires_grad),
                                 lr=RATE, fused=True)  # fmt: skip
    sequences, tested = _generator(run, "sequences"), _generator(run, "evaluations")
    best, strikes, step = math.inf, 0, 0
    for step in tqdm(range(1, LONGEST + 1), desc=_label(run), unit="update", mininterval=5):
        loss = _query_loss(model, run.drawn(BATCH, sequences), sequences)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if not loss.isfinite():
            break
        if step % EVERY:
            continue
        found = score(model, run.drawn(TESTED, tested, run.keys))
        strikes = 0 if found < best else strikes + 1
        best = min(found, best)
        if found <= ENOUGH or strikes > STRIKES:
            break
    loss = score(model, run.drawn(FRESH, _generator(run, "fresh")))
    return Recalled(best if math.isfinite(best) else math.nan, loss, untrained, step)


def _query_loss(model: Recaller, drawn: Recall, generator: torch.Generator) -> torch.Tensor:
    """On the key of one position per sequence, so frequent keys are queried more often."""
    place = torch.randint(drawn.keys.shape[1], (len(drawn.keys), 1), generator=generator)
    queries = drawn.keys.gather(1, place)
    read = model(drawn.keys, drawn.values, queries)
    return _losses(read, drawn.wanted(queries)).mean()


@torch.inference_mode()
def score(model: Recaller, drawn: Recall) -> float:
    """Mean over all keys that occur, each sequence's counting alike."""
    queries = torch.arange(model.count).expand(len(drawn.keys), -1)
    total, known = 0.0, (drawn.last >= 0)
    for rows in torch.arange(len(queries)).split(10):
        part = Recall(drawn.keys[rows], drawn.values[rows], drawn.last[rows].clamp(min=0))
        read = model(part.keys, part.values, queries[rows])
        each = _losses(read, part.wanted(queries[rows])) * known[rows]
        total += float((each.sum(1) / known[rows].sum(1)).double().sum())
    return total / len(queries)


def _losses(read: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """½ |v̂ − v|² for one-hot v, [batch query]."""
    right = read.gather(2, wanted[..., None])[..., 0]
    return (read.square().sum(-1) - 2 * right + 1) / 2


def _generator(run: RecallRun, use: str) -> torch.Generator:
    return torch.Generator().manual_seed(derived(run.seed, use))


def _label(run: RecallRun) -> str:
    return f"{run.memory.map if run.memory.rule != 'softmax' else 'softmax'}, {run.keys} keys"
