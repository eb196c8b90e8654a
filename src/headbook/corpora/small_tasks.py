"""Small tasks that are no text, as sequences of vectors: memory and XOR of bits, ListOps, digits.

Tasks of Lu et al. 2021, section 2.2, in small, with splits that share no row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median_low

import torch
from jaxtyping import Bool, Float, Int
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

SEED = 47
"""Draws rows and splits, the same ones for every network."""
BITS = 5
XOR_ROWS, DIGIT_ROWS, LISTOPS_ROWS = (614, 205, 205), (1197, 300, 300), (4000, 300, 600)
NAMES = ("[MAX", "[MIN", "[MED", "[SM", "]", *map(str, range(10)))
"""Tokens of ListOps (Nangia and Bowman 2018)."""
OPERATORS = (max, min, median_low, lambda arguments: sum(arguments) % 10)
STRINGS, STRING, AT_ONCE = 5, 40, 20
"""Of bit memory: strings, bits of each, and bits that stand at one position."""
MEMORY_ROWS = (8000, 300, 300)
"""As many for training as 500 updates read, so that no row is learnt by heart."""
UNASKED = -100
"""The label of a bit that is shown; a class of no task."""


@dataclass(frozen=True)
class Split:
    """Rows of a task: vectors, True where there is one, and the class of every answer.

    The class is UNASKED where nothing is asked for.
    """

    inputs: Float[Tensor, "row time feature"]
    real: Bool[Tensor, "row time"]
    labels: Int[Tensor, "row answer"]

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Task:
    """Three splits without a common row.

    There are `each` answers per position, read at the last `positions`, or one per row, of all its
    positions together (None).
    """

    train: Split
    validation: Split
    test: Split
    classes: int
    positions: int | None = None
    each: int = 1

    @property
    def features(self) -> int:
        return self.train.inputs.shape[2]

    @property
    def majority(self) -> float:
        """Accuracy on the test split of the most frequent class of the training split."""
        train, test = (part.labels[part.labels != UNASKED] for part in (self.train, self.test))
        return float((test == train.bincount().argmax()).double().mean())


@cache
def task(name: str) -> Task:
    """A task by its name, one of TASKS."""
    return TASKS[name]()


def xor() -> Task:
    """Two strings of five bits, one bit per position; their element-wise XOR at the last five."""
    rows = torch.cartesian_prod(*[torch.arange(2)] * (2 * BITS))
    labels = rows[:, :BITS] ^ rows[:, BITS:]
    return Task(*_divided(XOR_ROWS, functional.one_hot(rows, 2).float(), labels), 2, BITS)


def bit_memory() -> Task:
    """Five strings of bits, then one of them in which half of the bits are hidden and asked for.

    A bit is −1 or 1, a hidden one 0. The authors count shown bits as answers, too, so that
    guessing is right in three quarters of cases; here it is in half.
    """
    generator = torch.Generator().manual_seed(SEED)
    rows = sum(MEMORY_ROWS)
    strings = torch.randint(2, (rows, STRINGS, STRING), generator=generator)
    chosen = torch.randint(STRINGS, (rows,), generator=generator)
    asked = strings[torch.arange(rows), chosen]
    hidden = torch.randint(2, asked.shape, generator=generator).bool()
    shown = (2 * asked - 1).masked_fill(hidden, 0)
    read = torch.cat([2 * strings - 1, shown[:, None]], dim=1)
    read, labels = read.reshape(rows, -1, AT_ONCE).float(), asked.masked_fill(~hidden, UNASKED)
    return Task(*_divided(MEMORY_ROWS, read, labels), 2, STRING // AT_ONCE, AT_ONCE)


def digits() -> Task:
    """The 8 × 8 digits of scikit-learn as four patches of 4 × 4 pixels from 0 to 1."""
    found = load_digits()
    images = torch.from_numpy(found.images).float() / 16
    patches = images.unfold(1, 4, 4).unfold(2, 4, 4).reshape(-1, 4, 16)
    labels = torch.from_numpy(found.target).long()[:, None]
    return Task(*_divided(DIGIT_ROWS, patches, labels), 10)


def listops() -> Task:
    """Nested expressions of at most nine tokens and their value, a digit."""
    ids, values = expressions(sum(LISTOPS_ROWS), range(10), 3, SEED)
    real = ids >= 0
    vectors = functional.one_hot(ids.clamp_min(0), len(NAMES)).float() * real[..., None]
    return Task(*_divided(LISTOPS_ROWS, vectors, values[:, None], real), 10)


TASKS = {"XOR": xor, "ListOps": listops, "digits": digits, "bit memory": bit_memory}


def expressions(
    count: int, lengths: range, most: int, seed: int
) -> tuple[Int[Tensor, "text token"], Int[Tensor, " text"]]:
    """Different expressions as token ids, -1 behind their ends, and their values.

    Operators have two to `most` arguments.
    """
    generator, found = torch.Generator().manual_seed(seed), {}
    while len(found) < count:
        tokens = tuple(expression(generator, most))
        # without an operator inside another there is nothing to nest
        if len(tokens) in lengths and sum(token < 4 for token in tokens) > 1:
            found[tokens] = value(tokens)
    ids = torch.full((count, lengths[-1]), -1)
    for row, tokens in enumerate(found):
        ids[row, : len(tokens)] = torch.tensor(tokens)
    return ids, torch.tensor(list(found.values()))


def expression(generator: torch.Generator, most: int, depth: int = 0) -> Iterator[int]:
    """Token ids of a random expression: an operator on some digits or expressions."""
    if depth == 2 or (depth and _uniform(3, generator)):
        yield 5 + _uniform(10, generator)
        return
    yield _uniform(4, generator)
    for _ in range(2 + _uniform(most - 1, generator)):
        yield from expression(generator, most, depth + 1)
    yield NAMES.index("]")


def value(tokens: Sequence[int]) -> int:
    """The value of an expression, by a stack: maximum, minimum, lower median, sum modulo 10."""
    stack: list[list[int]] = [[]]
    for token in tokens:
        if token < 4:
            stack.append([token])
        elif NAMES[token] != "]":
            stack[-1].append(int(NAMES[token]))
        else:
            operator, *arguments = stack.pop()
            stack[-1].append(OPERATORS[operator](arguments))
    return stack[0][0]


def _uniform(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))


def _divided(
    counts: Sequence[int], inputs: Tensor, labels: Tensor, real: Tensor | None = None
) -> Iterator[Split]:
    """The rows in random order."""
    real = torch.ones(inputs.shape[:2], dtype=torch.bool) if real is None else real
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(SEED))
    for rows in order.split(list(counts)):
        yield Split(inputs[rows], real[rows], labels[rows])
