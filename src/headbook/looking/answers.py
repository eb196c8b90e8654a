"""`hb.answers`: questions that dependency trees ask of heads, and who answers them right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from headbook.heads import baselines
from headbook.heads.collect import recordings
from headbook.heads.measure import Measure, counts
from headbook.heads.scores import syntactic
from headbook.looking.naming import shape_of
from headbook.looking.text import Text
from headbook.models.loaded import Loaded
from headbook.text.alignment import align_all
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
    measure = partial(syntactic, trees=aligned)
    right, _ = per_sentence(model, [tree.text for tree in trees], {"heads": measure})["heads"]
    tagged = all(tree.tags for tree in trees)
    layers, heads = range(1, len(shape) + 1), range(1, shape[0] + 1)
    return Answers(
        questions=QUESTIONS,
        heads=np.array([f"L{layer}H{head}" for layer in layers for head in heads]),
        asked=baselines.asked(aligned),
        right=right.reshape(len(trees), -1, len(QUESTIONS)),
        offsets=baselines.offset_hits(aligned),
        rules=baselines.rule_hits(aligned) if tagged else np.zeros((len(trees), 0, len(QUESTIONS))),
        rule_names=np.array(baselines.RULES if tagged else []),
    )


def per_sentence(
    model: Loaded, sentences: Sequence[str], measures: Mapping[str, Measure]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Numerators and denominators of each measure for every sentence, [sentence, …] each."""
    show = partial(tqdm, desc="measuring", leave=False, delay=5)
    batches = model.batches(sentences, None, 2048)
    return counts(measures, recordings(model.network, batches, progress=show))
