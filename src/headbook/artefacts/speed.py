"""The stage `speed`: how fast a model decodes once heads are cut out of it, and how large it is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.artefacts.model import TrainedModel
from headbook.corpora.batches import PAD, Batch, EncodedPair, collate
from headbook.models.gates import all_heads, closed
from headbook.models.transformer import Transformer
from headbook.pruning.surgery import take_out
from headbook.runs.store import Ingredients, Stage, Store
from headbook.runs.timing import seconds
from headbook.training.checkpoint import save_model
from headbook.types import HeadId, UserError

SPEED = Stage("speed", version=1)
LEAST = 8
"""A batch of one is measured on so many sentences, one after the other."""


class Task(StrEnum):
    """Operations that are timed."""

    DECODING = "decoding"  # greedily, with a cache, the same number of tokens for every model
    FORWARD = "forward"  # one pass with the reference given, as in classification


@dataclass(frozen=True)
class SpeedRun:
    """Heads to cut out, one set after another, and the length of each model's timing.

    () among `masks` is the whole model. `tokens` are decoded for every sentence, whatever comes.
    """

    masks: tuple[tuple[HeadId, ...], ...]
    batches: tuple[int, ...] = (1, 4, 16, 32, 64)
    tokens: int = 20
    rounds: int = 15

    def __post_init__(self) -> None:
        if min((self.tokens, self.rounds, *self.batches)) < 1:
            raise UserError("tokens, rounds and batch sizes must be 1 or more")


@dataclass(frozen=True)
class Speed:
    """Measurements of one run.

    `times`: one row per task, batch size, mask (its place in the run) and round, with the seconds,
    sentences and decoded tokens. `sizes`: one row per mask, with heads, parameters, those in
    attention, bytes on disk, bytes of keys and values at the end of decoding the largest batch, and
    the largest logits of the gated model and of the difference.
    """

    run: SpeedRun
    times: pd.DataFrame
    sizes: pd.DataFrame
    hardware: dict[str, object]


def speed(trained: TrainedModel, run: SpeedRun, store: Store) -> Speed:
    """Times and sizes, from the store or measured now, in rounds in which the models take turns."""
    made_by = trained.asked
    asked = Ingredients(SPEED, run, {"model": made_by.key}, made_by.policy)
    folder = store.get(asked, lambda aside: _measure(trained, run, aside))
    record = json.loads((folder / "run.json").read_text())
    tables = [pd.read_csv(folder / f"{name}.csv") for name in ("times", "sizes")]
    return Speed(run, *tables, record["hardware"])


def _measure(trained: TrainedModel, run: SpeedRun, folder: Path) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = trained.model().to(device)
    pairs = _sentences(trained, max(run.batches))
    cut = [_without(model, mask) for mask in run.masks]
    sizes = [
        {
            "mask": number,
            **_size(smaller, folder),
            "cached_bytes": _cached(smaller, pairs, run),
            **_difference(model, mask, smaller, pairs),
        }
        for number, (mask, smaller) in enumerate(zip(run.masks, cut, strict=True))
    ]
    pd.DataFrame(sizes).to_csv(folder / "sizes.csv", index=False)
    pd.DataFrame(_times(cut, pairs, run)).to_csv(folder / "times.csv", index=False)


def _sentences(trained: TrainedModel, count: int) -> list[EncodedPair]:
    """The first test pairs by length, repeated where there are too few."""
    pairs = trained.encode(next(iter(trained.corpus.tests.values())).first(count))
    repeated = [pairs[number % len(pairs)] for number in range(count)]
    return sorted(repeated, key=lambda pair: (len(pair[0]), len(pair[1])))


def _without(model: Transformer, mask: Sequence[HeadId]) -> Transformer:
    with closed(model, mask):
        return take_out(model)


def _size(model: Transformer, folder: Path) -> dict[str, int]:
    path = folder / "model.safetensors"
    save_model(model, path)
    size = path.stat().st_size
    path.unlink()
    attention = [block for _, _, block in model.attentions()]
    return {
        "heads": len(all_heads(model)),
        "parameters": sum(each.numel() for each in model.parameters()),
        "attention_parameters": sum(p.numel() for block in attention for p in block.parameters()),
        "bytes": size,
    }


@torch.inference_mode()
def _cached(model: Transformer, pairs: Sequence[EncodedPair], run: SpeedRun) -> int:
    """Bytes of keys and values that the decoder holds when it has decoded the pairs as one batch.

    None are held of a block without heads.
    """
    source = collate(pairs, range(len(pairs))).to(next(model.parameters()).device).source
    memory, mask = model.encode(source)
    cache = model.empty_cache()
    model.decode(source.new_full((len(source), run.tokens), PAD), memory, mask, cache)
    held = [each for kept in (*cache.own, *cache.cross) for each in (kept.keys, kept.values)]
    return sum(each.nbytes for each in held if each is not None)


@torch.inference_mode()
def _difference(
    model: Transformer, mask: Sequence[HeadId], smaller: Transformer, pairs: Sequence[EncodedPair]
) -> dict[str, float]:
    """Largest logits, at real positions, of the gated model and of its difference to the other."""
    batch = collate(pairs, range(len(pairs))).to(next(model.parameters()).device)
    with closed(model, mask):
        gated = model(batch)[batch.target_mask]
    apart = gated - smaller(batch)[batch.target_mask]
    return {
        "largest_logit": float(gated.abs().max()),
        "largest_difference": float(apart.abs().max()),
    }


def _times(
    models: Sequence[Transformer], pairs: Sequence[EncodedPair], run: SpeedRun
) -> list[dict[str, object]]:
    """Every model in every round, one after the other; a first round warms up and is not kept.

    Whatever else the machine does for a while then slows all of them, and not one.
    """
    device = next(models[0].parameters()).device
    batches = {size: [b.to(device) for b in _batches(pairs, size)] for size in run.batches}
    rows = []
    for number in tqdm(range(run.rounds + 1), desc="timing", unit="round", mininterval=2):
        for size, chosen in batches.items():
            sentences = sum(map(len, chosen))
            for task in Task:
                for mask, model in enumerate(models):
                    taken = seconds(lambda m=model, t=task, c=chosen: _work(m, t, c, run.tokens))
                    rows.append(
                        {"task": str(task), "batch": size, "mask": mask, "round": number,
                         "seconds": taken, "sentences": sentences,
                         "tokens": sentences * run.tokens}
                    )  # fmt: skip
    return [row for row in rows if row["round"]]


def _batches(pairs: Sequence[EncodedPair], size: int) -> list[Batch]:
    """Batches of `size` sentences; of small batches as many as hold LEAST, spread over lengths."""
    count = max(size, min(LEAST, len(pairs)) // size * size)
    spread = [pairs[(2 * number + 1) * len(pairs) // (2 * count)] for number in range(count)]
    return [collate(spread[at : at + size], range(size)) for at in range(0, count, size)]


@torch.inference_mode()
def _work(model: Transformer, task: Task, batches: Sequence[Batch], tokens: int) -> None:
    for batch in batches:
        if task is Task.FORWARD:
            model(batch)
        else:
            decode(model, batch.source, tokens)


def decode(
    model: Transformer, source: Int[Tensor, "batch source"], tokens: int
) -> Int[Tensor, "batch token"]:
    """Greedy decoding of so many tokens; it goes on behind EOS, so that all models work alike."""
    memory, mask = model.encode(source)
    cache = model.empty_cache()
    found = [source.new_full((len(source), 1), PAD)]
    for _ in range(tokens):
        states = model.decode(found[-1], memory, mask, cache)
        found.append(_likeliest(model.logits(states[:, -1])))
    return torch.cat(found[1:], dim=1)


def _likeliest(logits: Float[Tensor, "batch word"]) -> Int[Tensor, "batch 1"]:
    """The likeliest word that is not PAD."""
    return logits[:, PAD + 1 :].argmax(1, keepdim=True) + PAD + 1
