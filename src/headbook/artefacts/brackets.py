"""The stage `brackets`: a small model trained on nested arithmetic, and what it gets right."""

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.corpora.batches import PAD
from headbook.corpora.brackets import Arithmetic
from headbook.models.attention import AttentionPath
from headbook.models.binding import Roles, bind
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store

BRACKETS = Stage("brackets", version=1)
ALPHABET = "()+-*0123456789"
BATCH, NO_VALUE = 64, -100
TESTED = 500
"""Held-out expressions per depth, fewer where there are no more."""
TRAINED, DEEPEST = (1, 2, 3), 4
"""Depths trained on, and the depth up to which is tested."""
CURVE = 10
"""Losses noted on the way, each the mean since the one before."""
ARITHMETIC = Arithmetic(modulus=3, longest=17)


@dataclass(frozen=True)
class BracketsRun:
    """A model's roles and size, the length of its training, and the seed of all of that."""

    roles: Roles
    updates: int
    seed: int = 0
    rate: float = 3e-3
    width: int = 32
    layers: int = 2
    heads: int = 4
    expressions: int = 40_000
    arithmetic: Arithmetic = ARITHMETIC


@dataclass(frozen=True)
class Solved:
    """Share of held-out expressions whose value is right, by depth; parameters; losses on the way.

    `majority` is the share of the value that is most frequent at that depth in the training set.
    """

    accuracy: dict[str, float]
    majority: dict[str, float]
    tested: dict[str, int]
    parameters: int
    losses: list[float]


def solved(run: BracketsRun, store: Store) -> Solved:
    """The outcome of a run, from the store or trained now."""
    asked = Ingredients(BRACKETS, run, {}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return Solved(**json.loads((folder / "outcome.json").read_text()))


def _write(run: BracketsRun, folder: Path) -> None:
    (folder / "outcome.json").write_text(json.dumps(asdict(train(run))))


def start(run: BracketsRun) -> Transformer:
    """A causal model before its first update, with as many parameters whatever its roles are.

    Models without roles of the query have as many units more in their feed-forward layers as the
    roles would have weights, rounded up.
    """
    width = run.width
    inner = 2 * width
    if run.roles is not Roles.QUERY:
        inner += -(-(width + 1) * width // (2 * width + 1))
    config = TransformerConfig(
        0, 1 + len(ALPHABET), encoder_layers=0, decoder_layers=run.layers, width=width,
        feed_forward=inner, heads=run.heads, dropout=0.0, path=AttentionPath.EXPLICIT,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "initial weights"))
        return bind(Transformer(config), run.roles)


def train(run: BracketsRun) -> Solved:
    """Adam, warmed up and then lowered to zero; every closing bracket is to show its value."""
    expressions = training_set(run)
    ids, values = encoded(expressions, run.arithmetic)
    model = start(run)
    optimiser = torch.optim.Adam(model.parameters(), lr=run.rate, betas=(0.9, 0.98), fused=True)
    warm = max(1, run.updates // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (run.updates - step) / (run.updates - warm))
    )
    order = torch.Generator().manual_seed(derived(run.seed, "batches"))
    losses: list[float] = []
    every = max(1, run.updates // CURVE)
    noted = 0.0
    for step in tqdm(range(run.updates), desc=f"{run.roles}, {run.seed}", mininterval=5):
        # batches of one depth after another: shallow ones are short, and no padding is computed
        place = step % len(TRAINED)
        rows = place + len(TRAINED) * torch.randint(len(ids) // len(TRAINED), (BATCH,),
                                                    generator=order)  # fmt: skip
        length = int((ids[rows] != PAD).sum(1).max())
        loss = bracket_loss(model, ids[rows, :length], values[rows, :length])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        noted += float(loss.detach()) / every
        if (step + 1) % every == 0:
            losses.append(noted)
            noted = 0.0
    return _scored(run, model, expressions, losses)


def training_set(run: BracketsRun) -> list[str]:
    """Expressions of all trained depths in turn, none of them held out."""
    drawn = random.Random(derived(run.seed, "expressions"))
    depths = (TRAINED[number % len(TRAINED)] for number in range(run.expressions))
    return [run.arithmetic.training(depth, drawn) for depth in depths]


def held_out_sets(run: BracketsRun) -> dict[int, list[str]]:
    """Held-out expressions by depth, the same for every seed."""
    drawn = random.Random(0)
    return {depth: run.arithmetic.held_out(depth, TESTED, drawn) for depth in range(1, DEEPEST + 1)}


def encoded(expressions: list[str], arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """Numbers of characters and, at closing brackets, of digits that are values, [row character].

    PAD and NO_VALUE behind the end; NO_VALUE wherever there is no value.
    """
    longest = max(map(len, expressions))
    ids = torch.full((len(expressions), longest), PAD)
    values = torch.full((len(expressions), longest), NO_VALUE)
    number = {character: 1 + place for place, character in enumerate(ALPHABET)}
    for row, expression in enumerate(expressions):
        ids[row, : len(expression)] = torch.tensor([number[each] for each in expression])
        values[row, : len(expression)] = torch.tensor(
            [NO_VALUE if each is None else number[str(each)]
             for each in arithmetic.values(expression)]
        )  # fmt: skip
    return ids, values


def bracket_loss(model: Transformer, ids: Tensor, values: Tensor) -> Tensor:
    """Cross-entropy of the values of all closing brackets."""
    states = model.decode(ids, None, None)[values != NO_VALUE]
    return cross_entropy(model.logits(states), values[values != NO_VALUE])


@torch.inference_mode()
def right(model: Transformer, expressions: list[str], arithmetic: Arithmetic) -> Tensor:
    """Whether the value of each whole expression, at its last bracket, is found, [expression]."""
    ids, values = encoded(expressions, arithmetic)
    ends = (torch.arange(len(ids)), torch.tensor([len(each) - 1 for each in expressions]))
    answers = model.logits(model.decode(ids, None, None)[ends]).argmax(-1)
    return answers == values[ends]


def _scored(
    run: BracketsRun, model: Transformer, expressions: list[str], losses: list[float]
) -> Solved:
    tests = held_out_sets(run)
    whole = [run.arithmetic.values(each)[-1] for each in expressions]
    accuracy, majority = {}, {}
    for depth, texts in tests.items():
        known = min(depth, max(TRAINED))
        own = whole[TRAINED.index(known) :: len(TRAINED)]
        frequent = max(set(own), key=own.count)
        wanted = [run.arithmetic.values(each)[-1] for each in texts]
        accuracy[str(depth)] = float(right(model, texts, run.arithmetic).double().mean())
        majority[str(depth)] = wanted.count(frequent) / len(wanted)
    parameters = sum(each.numel() for each in model.parameters())
    tested = {str(depth): len(texts) for depth, texts in tests.items()}
    return Solved(accuracy, majority, tested, parameters, losses)
