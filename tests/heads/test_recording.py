"""What measures share of one batch."""

import torch

from headbook.heads.confidence import Confidence
from headbook.heads.positional import PositionalShare
from headbook.heads.rare import RareShare
from headbook.heads.recording import Shared, once
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.types import Kind


def test_a_shared_tape_makes_a_thing_once_and_a_plain_one_each_time() -> None:
    made: list[int] = []
    for tape, expected in ((Shared({}), 1), ({}, 2)):
        made.clear()
        for _ in range(2):
            once(tape, "key", lambda: made.append(1))
        assert len(made) == expected


def test_measures_that_share_give_what_each_gives_alone(corpus, ranks, attention) -> None:
    def measures() -> list:
        return [
            Confidence(Kind.ENCODER),
            PositionalShare(Kind.ENCODER),
            *(RareShare(ranks, outside_top=top) for top in (0, 990)),
            SyntacticAccuracy(corpus.trees),
            Confidence(Kind.ENCODER, replicates=3),
        ]

    batch = corpus.batch(list(range(12)))
    shared = Shared(attention(batch))
    for together, alone in zip(measures(), measures(), strict=True):
        together.update(shared, batch)
        alone.update(attention(batch), batch)
        assert torch.equal(together.numerator, alone.numerator)
        assert torch.equal(together.denominator, alone.denominator)
