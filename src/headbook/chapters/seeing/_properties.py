"""Probed properties of page 55: labels of words and sentences, identity, paraphrases."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.chapters.seeing._probed import spread, usable
from headbook.corpora import download
from headbook.corpora.pairs import text_lines
from headbook.corpora.rated import decided, load_rated, written
from headbook.layers.mutual_information import clusters
from headbook.layers.probe import Split, control, divided, hits_of, majority
from headbook.looking.states import sentence_states, word_states
from headbook.looking.text import text
from headbook.models.loaded import Loaded
from headbook.statistics import REPLICATES, Replicates, draws, resampled_ratio
from headbook.trees import Tree
from headbook.types import UserError

IDENTITY, POSITION, TAG, RELATION = "word identity", "position", "part of speech", "relation"
SENTIMENT, PARAPHRASE = "sentiment", "paraphrase"
PROPERTIES = (IDENTITY, POSITION, TAG, RELATION, PARAPHRASE, SENTIMENT)
POSITIONS = (1, 2, 3, 4, 6, 8, 11, 15, 21)
"""First position of each class: about as many words in each."""
TYPES, CLUSTERS = 50, 100
"""Most frequent words whose identity is looked for, and clusters of states."""
RATED, PAIRS = 1_200, 300
"""Sentences with a sentiment, a third of them scored, and pairs of paraphrases."""
SHORTEST, OVERLAP = 5, 0.34
"""Words of a paraphrase at least, and the share of words that the two have in common at most."""
SST, PARAPHRASED = "sst", "tatoeba-de"


@dataclass(frozen=True)
class Profile:
    """One property through the layers: how much is found, and how much by the control task."""

    name: str
    found: list[Replicates]
    control: list[Replicates]
    chance: Replicates
    """The most frequent label, or what shuffling or guessing leaves."""

    @property
    def above(self) -> Float[np.ndarray, "replicate layer"]:
        """Value minus that of the control task."""
        return np.stack(self.found, axis=1) - np.stack(self.control, axis=1)

    @property
    def above_chance(self) -> Float[np.ndarray, "replicate layer"]:
        """Value minus chance."""
        return np.stack(self.found, axis=1) - self.chance[:, None]


@dataclass(frozen=True)
class Sentences:
    """Parsed, rated and paraphrased sentences; the latter two may be left out."""

    trees: list[Tree]
    rated: list[tuple[str, bool]]
    paraphrases: list[tuple[str, str]]


def sentences(name: str, count: int, *, meaning: bool) -> Sentences:
    """So many trees of a text, and the rated and paraphrased sentences where wanted."""
    trees = spread(usable(text(name).trees, name), count)
    return Sentences(trees, rated() if meaning else [], paraphrases() if meaning else [])


def rated() -> list[tuple[str, bool]]:
    """Sentences of SST as text, and whether they are positive: train's first, then test's."""
    parts = load_rated(SST)
    found = []
    for part, count in (("train", 2 * RATED // 3), ("test", RATED // 3)):
        chosen = spread(decided(parts[part]), count)  # the files have long runs of one rating
        found += [(written(each.words)[0], each.positive) for each in chosen]
    return found


def paraphrases() -> list[tuple[str, str]]:
    """Pairs of English sentences with one German translation and few words in common."""
    by_german: dict[str, list[str]] = defaultdict(list)
    for line in text_lines(download.locate(PARAPHRASED).files["train.tsv"]):
        english, _, german = line.partition("\t")
        if len(english.split()) >= SHORTEST:
            by_german[german].append(english)
    found = []
    for group in by_german.values():
        first = set(_words(group[0]))
        other = next((each for each in group[1:] if _overlap(first, set(_words(each))) <= OVERLAP),
                     None)  # fmt: skip
        if other is not None:
            found.append((group[0], other))
        if len(found) == PAIRS:
            return found
    raise UserError(f"{PARAPHRASED} has {len(found)} pairs of paraphrases; {PAIRS} are needed")


def _words(sentence: str) -> list[str]:
    return ["".join(filter(str.isalnum, word)) for word in sentence.lower().split()]


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)


def profiles(model: Loaded, of: Sentences) -> Iterator[Profile]:
    """Every property of one network, its weights as they are."""
    yield from _of_words(model, of.trees)
    if of.rated:
        yield _of_sentences(model, of.rated)
    if of.paraphrases:
        yield _of_pairs(model, of.paraphrases)


def _of_words(model: Loaded, trees: Sequence[Tree]) -> Iterator[Profile]:
    states = torch.cat(word_states(model, trees), dim=1)
    forms = [form.lower() for tree in trees for form in tree.forms]
    groups = np.repeat(np.arange(len(trees)), [len(tree) for tree in trees])
    yield identity(states, forms, groups)
    labels = {
        POSITION: np.digitize([at for tree in trees for at in range(len(tree))], POSITIONS),
        TAG: [tag for tree in trees for tag in tree.tags],
        RELATION: [each.partition(":")[0] for tree in trees for each in tree.relations],
    }
    named = {name: np.array(each) for name, each in labels.items()}
    yield from probed(states, named, forms, groups, divided(len(trees), len(trees) // 3))


def _of_sentences(model: Loaded, rated: Sequence[tuple[str, bool]]) -> Profile:
    states = sentence_states(model, [each for each, _ in rated]).transpose(0, 1)
    labels = {SENTIMENT: np.array([positive for _, positive in rated])}
    types = [each for each, _ in rated]  # every sentence is a type of its own
    split = divided(len(rated), len(rated) // 3)
    return next(probed(states, labels, types, np.arange(len(rated)), split))


def probed(
    states: Float[Tensor, "layer item model"], labels: dict[str, np.ndarray],
    types: Sequence[str], groups: Int[np.ndarray, " item"], split: Split,
) -> Iterator[Profile]:  # fmt: skip
    """Profiles of linear probes; `groups` are the sentences that `split` and resamples are of."""
    items = split.of(groups)
    tasks = [*labels.values(), *(control(types, each) for each in labels.values())]
    size = int(groups.max()) + 1
    counts = np.bincount(groups[items.scored], minlength=size)[split.scored]

    def ratio(hit: np.ndarray) -> Replicates:
        sums = np.bincount(groups[items.scored], hit, size)[split.scored]
        return resampled_ratio(sums, counts, seed=0)

    by_layer = [[ratio(hit) for hit in hits_of(each.double().numpy(), tasks, items)]
                for each in states]  # fmt: skip
    for number, name in enumerate(labels):
        found, drawn = ([layer[at] for layer in by_layer] for at in (number, number + len(labels)))
        yield Profile(name, found, drawn, ratio(majority(labels[name], items)))


def identity(
    states: Float[Tensor, "layer item model"], forms: Sequence[str],
    groups: Int[np.ndarray, " item"],
) -> Profile:  # fmt: skip
    """Mutual information of clusters of states with the most frequent words, over their entropy.

    The control shuffles the words. Resamples are over sentences, clusters being as they are.
    """
    frequent = [form for form, _ in Counter(forms).most_common(TYPES)]
    place = {form: number for number, form in enumerate(frequent)}
    kept = np.array([number for number, form in enumerate(forms) if form in place])
    words = np.array([place[forms[number]] for number in kept])
    drawn = np.random.default_rng(0).permutation(words)
    size = int(groups.max()) + 1
    drawn_often = np.concatenate([np.ones((1, size)), draws(size, REPLICATES, 0)])
    weights = drawn_often[:, groups[kept]]
    found, shuffled = [], []
    for layer in states:
        own = clusters(layer[kept], CLUSTERS, 0)
        found.append(_information(own, words, weights))
        shuffled.append(_information(own, drawn, weights))
    return Profile(IDENTITY, found, shuffled, shuffled[0])


def _information(
    own: Int[np.ndarray, " item"], words: Int[np.ndarray, " item"],
    weights: Float[np.ndarray, "replicate item"],
) -> Replicates:  # fmt: skip
    """Mutual information over the words' entropy, for every weighting of the items.

    A resample has fewer different words, which raises its information: resamples are laid around
    the plain value.
    """
    cells = own * TYPES + words
    found = np.empty(len(weights))
    for number, each in enumerate(weights):
        joint = np.bincount(cells, each, CLUSTERS * TYPES).reshape(CLUSTERS, TYPES) / each.sum()
        of_words = _entropy(joint.sum(0))
        found[number] = (of_words + _entropy(joint.sum(1)) - _entropy(joint.ravel())) / of_words
    found[1:] += found[0] - found[1:].mean()
    return found


def _entropy(shares: Float[np.ndarray, " value"]) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def _of_pairs(model: Loaded, pairs: Sequence[tuple[str, str]]) -> Profile:
    one, other = (sentence_states(model, [pair[side] for pair in pairs]) for side in (0, 1))
    found = [resampled_ratio(nearest(a, b), np.ones(len(pairs)), seed=0)
             for a, b in zip(one.unbind(1), other.unbind(1), strict=True)]  # fmt: skip
    chance = np.full(REPLICATES + 1, 1 / len(pairs))
    return Profile(PARAPHRASE, found, [chance] * len(found), chance)


def nearest(
    one: Float[Tensor, "pair model"], other: Float[Tensor, "pair model"]
) -> Float[np.ndarray, " pair"]:
    """1 where the other sentence of a pair has the largest cosine, states less their mean."""
    unit = [torch.nn.functional.normalize(each - each.mean(0), dim=1) for each in (one, other)]
    return (unit[0] @ unit[1].T).argmax(1).eq(torch.arange(len(one))).double().numpy()
