"""What the layers of an encoder know of words and sentences (page 55).

Each property through the layers, with its control and with resamples over sentences. The published
rows, of two released models and one of ours, took eight minutes, weights drawn anew and the vision
encoders of `pixels.py` included.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.special import entr
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor

from headbook.experiments.meaning import paraphrases, rated
from headbook.layers.probe import control, divided, hits_of, majority
from headbook.looking.states import sentence_states, word_states
from headbook.models.loaded import Loaded
from headbook.statistics import REPLICATES, draws, resampled_ratio
from headbook.text.trees import Tree

ByLayer = Float[np.ndarray, "replicate layer"]
CLUSTERS, TYPES = 100, 50
"""Clusters of states, and the most frequent words whose identity they are asked for."""
POSITIONS = (1, 2, 3, 4, 6, 8, 11, 15, 21)
"""First position of each class: about as many words in each."""


class Property(NamedTuple):
    """How much of a property each layer knows, and how much of its control task.

    `chance` is the share of the most frequent label, or what shuffling or guessing leaves.
    """

    name: str
    found: ByLayer
    control: ByLayer
    chance: Float[np.ndarray, " replicate"]


def measured(
    model: Loaded,
    trees: Sequence[Tree],
    nearest: Callable | None = None,
    states: Float[Tensor, "layer item model"] | None = None,
) -> Iterator[Property]:
    """Parts of speech and relations; with `nearest` also what a position, a word's identity and
    sentences, which are downloaded, say: sentiment and paraphrases.

    `nearest` says of two sides [pair, model] which pairs are nearest to each other, `states` are
    those of all words, where they are known.
    """
    forms = [form.lower() for tree in trees for form in tree.forms]
    sentence = np.repeat(np.arange(len(trees)), [len(tree) for tree in trees])
    if states is None:
        states = torch.cat(word_states(model, trees), dim=1)
    labels = {
        "part of speech": np.array([tag for tree in trees for tag in tree.tags]),
        "relation": np.array([r.partition(":")[0] for tree in trees for r in tree.relations]),
    }
    if nearest is None:
        yield from probed(states, labels, forms, sentence)
        return
    yield identity(states, forms, sentence)
    places = np.digitize([at for tree in trees for at in range(len(tree))], POSITIONS)
    yield from probed(states, {"position": places, **labels}, forms, sentence)
    said, positive = zip(*rated(), strict=True)
    states = sentence_states(model, said).transpose(0, 1)
    yield from probed(states, {"sentiment": np.array(positive)}, said, np.arange(len(said)))
    one, other = (sentence_states(model, side) for side in zip(*paraphrases(), strict=True))
    hits = [nearest(*both) for both in zip(one.unbind(1), other.unbind(1), strict=True)]
    found = np.stack([resampled_ratio(each, np.ones(len(one)), seed=0) for each in hits], axis=1)
    guessing = np.full_like(found, 1 / len(one))
    yield Property("paraphrase", found, guessing, guessing[:, 0])


def probed(
    states: Float[Tensor, "layer item model"],
    labels: Mapping[str, np.ndarray],
    types: Sequence[str],
    groups: Int[np.ndarray, " item"],
) -> Iterator[Property]:
    """Linear probes of items, `groups` their sentences, the last third of which is scored.

    In the control task each of the `types` has a label by lot.
    """
    count = int(groups[-1]) + 1
    whole = divided(count, count // 3)
    split = whole.of(groups)
    tasks = [*labels.values(), *(control(types, each) for each in labels.values())]
    asked = np.bincount(groups[split.scored], minlength=count)[whole.scored]

    def share(hits: Float[np.ndarray, " scored"]) -> Float[np.ndarray, " replicate"]:
        right = np.bincount(groups[split.scored], hits, count)[whole.scored]
        return resampled_ratio(right, asked, seed=0)

    hits = [hits_of(layer.double().numpy(), tasks, split) for layer in states]
    found = [np.stack([share(layer[task]) for layer in hits], 1) for task in range(len(tasks))]
    for place, (name, own) in enumerate(labels.items()):
        yield Property(name, found[place], found[place + len(labels)], share(majority(own, split)))


def identity(
    states: Float[Tensor, "layer item model"],
    forms: Sequence[str],
    groups: Int[np.ndarray, " item"],
) -> Property:
    """Mutual information of clusters of states with the most frequent words, over their entropy.

    The control shuffles the words. Resamples are over sentences, clusters being as they are.
    """
    frequent = [form for form, _ in Counter(forms).most_common(TYPES)]
    kept = np.flatnonzero(np.isin(forms, frequent))
    words = np.array([frequent.index(forms[at]) for at in kept])
    tasks = words, np.random.default_rng(0).permutation(words)
    sentences = int(groups[-1]) + 1
    drawn = np.vstack([np.ones(sentences), draws(sentences, REPLICATES, 0)])[:, groups[kept]]
    found = []
    for layer in states:
        own = MiniBatchKMeans(CLUSTERS, n_init=1, random_state=0).fit_predict(layer[kept].numpy())
        found.append([information(own, each, drawn) for each in tasks])
    known, shuffled = np.transpose(found, (1, 2, 0))
    return Property("word identity", known, shuffled, shuffled[:, 0])


def information(
    own: Int[np.ndarray, " item"],
    words: Int[np.ndarray, " item"],
    drawn: Float[np.ndarray, "replicate item"],
) -> Float[np.ndarray, " replicate"]:
    """Mutual information over the words' entropy, for each weighting of the items, the first even.

    A resample has fewer different words, which raises its information: resamples are laid around
    the plain value.
    """
    places = np.arange(len(words)), TYPES * own + words
    cells = csr_array((np.ones(len(words)), places), (len(words), CLUSTERS * TYPES))
    joint = (drawn @ cells).reshape(-1, CLUSTERS, TYPES) / drawn.sum(1)[:, None, None]
    of_own, of_words = (entr(joint.sum(axis)).sum(1) for axis in (2, 1))
    found = (of_own + of_words - entr(joint).sum((1, 2))) / of_words
    found[1:] += found[0] - found[1:].mean()
    return found
