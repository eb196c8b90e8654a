"""Small models trained on nested arithmetic, with roles in their heads or without (page 49).

Schlag et al. (2019) multiply what a head fetches by a role that the fetching position computes. The
nine published trainings of 5,000 updates took two to eight minutes each on one core.
"""

import random
import zlib
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.experiments.learning import descent, rise_and_fall
from headbook.models.attention import AttentionPath
from headbook.models.binding import Bound, ConstantRole, QueryRole
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.text.batches import PAD

ROLES = {"plain": None, "constant roles": ConstantRole, "roles of the query": QueryRole}
ALPHABET, NO_VALUE = "()+-*0123456789", -100
MODULUS, LONGEST = 3, 17  # of numbers, and characters of an expression
TRAINED, DEEPEST = (1, 2, 3), 4  # depths trained on, and the depth up to which is tested
BATCH, EXPRESSIONS, TESTED, HELD_OUT = 64, 40_000, 500, 5  # every fifth by a hash is held out


@dataclass(frozen=True)
class Setting:
    """One training; every closing bracket is to show its value. The defaults are published."""

    roles: str = "roles of the query"
    seed: int = 0
    updates: int = 5_000
    width: int = 32


def expression(depth: int, noise: random.Random) -> str:
    """Brackets so deep, one pair per operation: ((1+2)*0)."""

    def nested(depth: int) -> str:
        if not depth:
            return str(noise.randrange(MODULUS))
        operands = [nested(depth - 1), nested(noise.randrange(depth))]
        noise.shuffle(operands)
        return f"({operands[0]}{noise.choice('+-*')}{operands[1]})"

    while len(found := nested(depth)) > LONGEST:
        pass
    return found


def values(text: str) -> list[int | None]:
    """The value of each closing bracket, at its place; None elsewhere."""
    found, stack = [], []
    for character in text:
        stack.append(int(character) if character.isdigit() else character)
        if character == ")":
            _, left, how, right, _ = stack[-5:]
            result = {"+": left + right, "-": left - right, "*": left * right}[how]
            stack[-5:] = [result % MODULUS]
        found.append(stack[-1] if character == ")" else None)
    return found


def training_set(seed: int) -> list[str]:
    """Expressions of all trained depths in turn, none of them held out."""
    noise, found = random.Random(derived(seed, "expressions")), []
    while len(found) < EXPRESSIONS:
        text = expression(TRAINED[len(found) % len(TRAINED)], noise)
        found += [text] * (zlib.crc32(text.encode()) % HELD_OUT != 0)
    return found


def held_out() -> dict[int, list[str]]:
    """Different held-out expressions by depth, few of depth 1; the same for every seed."""
    noise, sets = random.Random(0), {}
    for depth in range(1, DEEPEST + 1):
        found, tries = {}, 4 * HELD_OUT * TESTED + 1_000
        while len(found) < TESTED and tries:
            text, tries = expression(depth, noise), tries - 1
            if zlib.crc32(text.encode()) % HELD_OUT == 0:
                found[text] = None
        sets[depth] = list(found)
    return sets


def encoded(texts: list[str]) -> tuple[Tensor, Tensor]:
    """Ids of characters and, at closing brackets, of the values' digits [row, character]."""
    ids = torch.full((len(texts), max(map(len, texts))), PAD)
    wanted = torch.full_like(ids, NO_VALUE)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([1 + ALPHABET.index(each) for each in text])
        for place, value in enumerate(values(text)):
            if value is not None:
                wanted[row, place] = 1 + ALPHABET.index(str(value))
    return ids, wanted


def start(setting: Setting) -> Transformer:
    """A causal model; without roles of the query it has wider feed-forward layers instead."""
    width, inner, role = setting.width, 2 * setting.width, ROLES[setting.roles]
    if role is not QueryRole:
        inner += -(-(width + 1) * width // (2 * width + 1))
    path, sizes = AttentionPath.EXPLICIT, {"heads": 4, "width": width, "feed_forward": inner}
    config = TransformerConfig(0, 1 + len(ALPHABET), 0, 2, dropout=0.0, path=path, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(setting.seed, "initial weights"))
        model = Transformer(config)
        for layer in model.decoder if role else ():
            layer.attention = Bound(layer.attention, role(width))
        return model


def train(setting: Setting) -> list[dict[str, object]]:
    """One row per depth: the share of held-out expressions whose value is right; `majority` is that
    of the value most frequent in training, `loss` the mean of the last tenth of the updates."""
    texts, model, updates = training_set(setting.seed), start(setting), setting.updates
    (ids, wanted), deep, losses, found = encoded(texts), len(TRAINED), [], []
    rate = rise_and_fall(updates, max(1, updates // 20))
    descend = descent(model.parameters(), rate, lr=3e-3, betas=(0.9, 0.98))
    order = torch.Generator().manual_seed(derived(setting.seed, "batches"))
    for step in range(updates):  # a batch has one depth, so that no padding is computed
        rows = step % deep + deep * torch.randint(len(ids) // deep, (BATCH,), generator=order)
        some = slice(int((ids[rows] != PAD).sum(1).max()))
        known = wanted[rows, some] != NO_VALUE
        states = model.decode(ids[rows, some], None, None)[known]
        loss = cross_entropy(model.logits(states), wanted[rows, some][known])
        losses.append(descend(loss))
    last, size = losses[-max(1, updates // 10) :], sum(map(torch.numel, model.parameters()))
    for depth, tests in held_out().items():
        own = [values(each)[-1] for each in texts[min(depth, deep) - 1 :: deep]]
        frequent = max(set(own), key=own.count)
        share = sum(values(each)[-1] == frequent for each in tests) / len(tests)
        scores = {"value": right(model, tests), "majority": share, "loss": sum(last) / len(last)}
        of = {"depth": depth, "tested": len(tests), "parameters": size}
        found.append(asdict(setting) | of | scores)
    return found


@torch.inference_mode()
def right(model: Transformer, texts: list[str]) -> float:
    """Share of expressions whose value, at the last bracket, is found."""
    ids, wanted = encoded(texts)
    ends = torch.arange(len(ids)), torch.tensor([len(each) - 1 for each in texts])
    found = model.logits(model.decode(ids, None, None)[ends]).argmax(-1)
    return float((found == wanted[ends]).double().mean())
