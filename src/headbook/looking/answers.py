"""`hb.answers`: questions that dependency trees ask of heads, and who answers them right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from tqdm import tqdm

from headbook.heads.collect import collect
from headbook.heads.measure import HeadMeasure
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.recording import Recording
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tag_rules import RULES, TagRuleShare
from headbook.looking.naming import shape_of
from headbook.looking.text import Text
from headbook.models.loaded import Loaded
from headbook.text.alignment import align_all
from headbook.text.batches import Batch
from headbook.text.trees import Tree
from headbook.types import Kind, UserError

QUESTIONS = (
    "verb → subject",
    "subject → verb",
    "verb → object",
    "object → verb",
    "noun → adjective",
    "adjective → noun",
    "verb → adverb",
    "adverb → verb",
)
"""The four relations of Voita et al. 2019 in both directions: who asks → the right answer."""


@dataclass(frozen=True)
class Answers:
    """Right answers per sentence, of heads, of fixed offsets and of part-of-speech rules.

    `asked` is [sentence, question] for the eight questions of `questions`. `right` is [sentence,
    head, question], heads named by the array `heads` ("L1H1", …); `offsets` likewise for the
    offsets `reach` words to the left up to as many to the right, and `rules` for the part-of-speech
    rules named by the array `rule_names`, none where a tree lacks parts of speech. Special tokens
    are no answers, a tie of the largest weights is no answer, and an arc whose word has no token of
    its own is not asked.
    """

    questions: tuple[str, ...]
    heads: np.ndarray
    asked: Float[np.ndarray, "sentence question"]
    right: Float[np.ndarray, "sentence head question"]
    offsets: Float[np.ndarray, "sentence offset question"]
    rules: Float[np.ndarray, "sentence rule question"]
    rule_names: np.ndarray

    @property
    def reach(self) -> int:
        return self.offsets.shape[1] // 2


def answers(model: Loaded, trees: Text | Sequence[Tree]) -> Answers:
    """Counts of the right answers to every tree's questions, sentence by sentence.

    Each arc of the four relations asks two questions: a head answers the one of a word with the
    word that gets most of its attention (Voita et al. 2019, section 5.2). The rival rules read
    words alone: a fixed offset of up to 20 words, and the nearest word of certain parts of speech.
    UserError for a text without trees, and for a model without an encoder or with layers of
    different numbers of heads.
    """
    trees = trees.trees if isinstance(trees, Text) else tuple(trees)
    if not trees:
        raise UserError("the text has no trees: name a treebank, or install a spaCy pipeline")
    shape = shape_of(model.network).get(Kind.ENCODER, [])
    if len(set(shape)) != 1:
        raise UserError(f"{model.name} has no encoder with as many heads in each of its layers")
    aligned = [align_all(tree, model.spans(tree.text)) for tree in trees]
    measures: dict[str, HeadMeasure] = {
        "heads": SyntacticAccuracy(aligned, replicates=0),
        "offsets": OffsetShare(aligned, replicates=0),
    }
    rules = RULES if all(tree.tags for tree in trees) else ()
    if rules:
        measures["rules"] = TagRuleShare(aligned, replicates=0)
    found = per_sentence(model, [tree.text for tree in trees], measures)
    right, asked = found["heads"]
    layers, heads = range(1, len(shape) + 1), range(1, shape[0] + 1)
    return Answers(
        questions=QUESTIONS,
        heads=np.array([f"L{layer}H{head}" for layer in layers for head in heads]),
        asked=asked.reshape(len(trees), -1),
        right=right.reshape(len(trees), len(shape) * shape[0], -1),
        offsets=found["offsets"][0],
        rules=found["rules"][0] if rules else np.zeros((len(trees), 0, len(QUESTIONS))),
        rule_names=np.array(list(map(str, rules))),
    )


class _Kept:
    """A measure that keeps what each sentence adds to it."""

    def __init__(self, measure: HeadMeasure) -> None:
        self.measure, self.point = measure, measure.point
        self.rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def update(self, tape: Recording, batch: Batch) -> None:
        parts = [part.cpu().numpy() for part in self.measure.contributions(tape, batch)]
        for row, numerator, denominator in zip(batch.sentences.tolist(), *parts, strict=True):
            self.rows[row] = numerator, denominator


def per_sentence(
    model: Loaded, sentences: Sequence[str], measures: Mapping[str, HeadMeasure]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Numerators and denominators of each measure for every sentence, [sentence, …] each."""
    kept = {name: _Kept(measure) for name, measure in measures.items()}
    batches = model.batches(sentences, None, 2048)
    with torch.inference_mode():
        collect(
            model.network,
            batches,
            list(kept.values()),
            lambda items: tqdm(items, "measuring", leave=False, delay=5),
        )
    order = range(len(sentences))
    return {
        name: tuple(np.stack([each.rows[row][part] for row in order]) for part in (0, 1))
        for name, each in kept.items()
    }
