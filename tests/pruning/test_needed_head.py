"""A head known to be needed: found by every measure, kept by gates."""

import copy
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headbook.heads.importance import Form, contributions
from headbook.heads.relevance_rules import Variant, rules_of
from headbook.heads.relevance_sums import RelevanceSums, collect_relevance
from headbook.models.gates import all_heads, closed
from headbook.models.transformer import HeadCounts, Transformer, TransformerConfig
from headbook.pruning.gating import HeadPenalty, decided_closed, gate_heads, parameter_groups
from headbook.pruning.hard_concrete import CONSTANTS, Source
from headbook.text.batches import EOS, UNK, EncodedPair, collate, in_order
from headbook.training.config import Precision, TrainingConfig
from headbook.training.loop import Trainer
from headbook.types import HeadId, Kind

pytestmark = pytest.mark.slow

CODE = CONSTANTS[Source.CODE]
WORDS = range(UNK + 1, UNK + 13)


def repeated(count: int) -> list[EncodedPair]:
    """Targets say three words again and again; sources say nothing about them."""
    drawn = random.Random(0)
    return [
        ([*drawn.choices(WORDS, k=6), EOS], [*drawn.sample(WORDS, 3) * 3, EOS])
        for _ in range(count)
    ]


def trained_to_repeat(folder: Path) -> Trainer:
    """One layer: four heads of the encoder, four of cross-attention and a single decoder head."""
    pairs = repeated(300)
    torch.manual_seed(0)
    shape = {"width": 32, "feed_forward": 64, "heads": 4, "dropout": 0.0}
    counts = HeadCounts(encoder=(4,), decoder=(1,), cross=(4,))
    config = TransformerConfig(WORDS.stop, WORDS.stop, 1, 1, head_counts=counts, **shape)
    training = TrainingConfig(110, 512, 2.0, 20, precision=Precision.FULL, validate_every=1000)
    made = Trainer(Transformer(config), training, pairs, pairs[:30], folder)
    made.run()
    return made


def test_a_head_known_to_be_needed_is_found_and_kept(tmp_path: Path) -> None:
    """The one decoder head is the only way to the words before the last: closed, it is missed.

    Ablation, importance and relevance put it first; of several draws of the gates most keep it, and
    none of the other eight is kept more often.
    """
    needed, strength = HeadId(Kind.DECODER, 0, 0), 0.02
    whole = trained_to_repeat(tmp_path)
    model, loss = whole.model, whole.validate()
    missed = {}
    for head in all_heads(model):
        with closed(model, [head]):
            missed[head] = whole.validate() - loss
    assert max(missed, key=missed.get) == needed and missed[needed] > 10 * strength
    scores = importance_of(model.eval(), whole.valid)
    assert max(scores, key=scores.get) == needed
    for variant in Variant:
        relevant = relevance_of(model, whole.valid, variant)
        assert max(relevant, key=relevant.get) == needed
    kept = Counter(head for seed in range(4) for head in kept_by_gates(whole, strength, seed))
    assert kept[needed] == max(kept.values()) >= 2 and kept.total() < 4 * 9 / 2


def importance_of(model: Transformer, pairs: list[EncodedPair]) -> dict[HeadId, float]:
    """Position form, not normalised."""
    found = contributions(model, collate(pairs, range(len(pairs))))
    scores = {}
    for head in all_heads(model):
        numerator, denominator = found[f"{Form.POSITION}/{head.kind}"]
        scores[head] = float((numerator.sum(0) / denominator.sum(0))[head.layer, head.head])
    return scores


def relevance_of(
    model: Transformer, pairs: list[EncodedPair], variant: Variant
) -> dict[HeadId, float]:
    """The part of each prediction that goes through a head, without its sign."""
    sums = RelevanceSums()
    batches = list(in_order(pairs, 512))
    collect_relevance(with_silent_heads(model), batches, rules_of(variant), sums)
    found = {kind: sums.sums()[f"absolute/{kind}"].ratio() for kind in Kind}
    return {head: float(found[head.kind][head.layer, head.head]) for head in all_heads(model)}


def with_silent_heads(model: Transformer) -> Transformer:
    """The same function with equally many heads in every block: those that are added are zero."""
    wider = Transformer(replace(model.config, head_counts=None)).eval()
    weights = wider.state_dict()
    for name, given in model.state_dict().items():
        weights[name].zero_()
        weights[name][tuple(map(slice, given.shape))] = given
    return wider


def kept_by_gates(whole: Trainer, strength: float, seed: int) -> list[HeadId]:
    """The heads of a copy of the model whose gates stay open; its weights hardly move."""
    model = copy.deepcopy(whole.model)
    gate_heads(model, tuple(Kind), CODE, seed)
    folder = whole.folder / f"gates {seed}"
    folder.mkdir()
    training = replace(whole.config, updates=60, scale=0.02)
    groups = parameter_groups(model, 500.0)
    Trainer(model, training, whole.train, whole.valid, folder, groups=groups,
            addition=HeadPenalty(strength)).run()  # fmt: skip
    return [head for head in all_heads(model) if head not in decided_closed(model)]
