"""Speed of batched relevance: all predictions together against one position at a time."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.utils.flop_counter import FlopCounterMode

from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, build, device
from headbook.bench.rounds import Spread, interleaved, ratio
from headbook.bench.shares import COPIES, MATRICES, REST, shares_of
from headbook.bench.speed import pair
from headbook.bench.table import Row
from headbook.corpora.batches import Batch, EncodedPair, collate, in_order
from headbook.heads.relevance import propagate, relevances
from headbook.heads.relevance_pass import forward_pass
from headbook.heads.relevance_rules import Variant, rules_of
from headbook.models.transformer import Transformer
from headbook.runs.timing import seconds

SENTENCES = 8
"""Sentences a round, of 5 to 30 tokens."""
TOKENS = 256
"""Padded tokens a batch, as the book's relevance is measured."""
RULES = rules_of(Variant.CODE_2019)
TOGETHER = "relevance: all predictions of a batch together"
ALONE = "relevance: one position of one sentence at a time"


def together(model: Transformer, batches: Sequence[Batch]) -> None:
    """All predictions of all sentences of a batch in the same products."""
    for batch in batches:
        relevances(model, batch, RULES)


@torch.no_grad()
def one_at_a_time(model: Transformer, sentences: Sequence[Batch]) -> None:
    """A forward pass a sentence, then a way down for each of its target positions."""
    for sentence in sentences:
        passed = forward_pass(model, sentence)
        for position in range(sentence.target_in.shape[1]):
            propagate(sentence, passed, RULES, range(position, position + 1))


def relevance(config: BenchConfig, width: int) -> list[Row]:
    """Sentences a second both ways, and their ratio round by round."""
    torch.manual_seed(config.seed)
    model = build(Contestant.OURS, config.model(width)).eval()
    pairs = _pairs(config)
    batches = [batch.to(device()) for batch in in_order(pairs, TOKENS)]
    sentences = [collate([each], [0]).to(device()) for each in pairs]
    quicker, slower = partial(together, model, batches), partial(one_at_a_time, model, sentences)
    works = {TOGETHER: lambda number: seconds(quicker), ALONE: lambda number: seconds(slower)}
    taken = interleaved(works, config.rounds, f"relevance, width {width}")
    rows = [
        Row(name, Spread.of([len(pairs) / each for each in taken[name]]), "sentences/s", width)
        for name in works
    ]
    over = ratio(taken[ALONE], taken[TOGETHER])
    rows.append(Row("relevance: together over one at a time", over, "times", width))
    return rows + _bounds(quicker, slower, config.rounds, width)


def _bounds(
    quicker: Callable[[], None], slower: Callable[[], None], rounds: int, width: int
) -> list[Row]:
    """What bounds the gain: the arithmetic of both ways, and where the time of the faster goes."""
    more = Spread.of([_operations(slower) / _operations(quicker)])
    found = [shares_of(quicker) for _ in range(rounds)]
    for each in found:
        each[REST] = 1 - each[MATRICES] - each[COPIES]  # with the few operators of other kinds
    rows = [
        Row(f"relevance: share of {kind}", Spread.of([each[kind] for each in found]),
            "of the time", width)
        for kind in (MATRICES, COPIES, REST)
    ]  # fmt: skip
    return [Row("relevance: operations, one at a time over together", more, "times", width), *rows]


def _operations(work: Callable[[], None]) -> int:
    """Floating-point operations of its matrix products."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def _pairs(config: BenchConfig) -> list[EncodedPair]:
    chance = torch.Generator().manual_seed(config.seed)
    lengths = torch.randint(5, 31, (SENTENCES,), generator=chance).tolist()
    return [pair(length, config.vocabulary, chance) for length in lengths]
