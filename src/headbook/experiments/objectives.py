"""One text, one shape, three objectives (page 39): the trainings.

Voita, Sennrich and Titov (2019) compare a translation encoder, a left-to-right and a masked
language model. The published six, two seeds of each, have width 128 and took 1,500 updates, twenty
minutes each on one core.
"""

from dataclasses import dataclass

import numpy as np
import torch

from headbook.corpora.masked import masked_copies
from headbook.corpora.plain_text import NO_SOURCE
from headbook.experiments.small_models import best, texts
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.results import cached
from headbook.runs.seeds import derived
from headbook.text.batches import EncodedPair
from headbook.training.config import TrainingConfig

TASKS = ("translation", "language model", "masked language model")
TRANSLATION, LANGUAGE, MASKED = TASKS
TABLES = {
    "models": ["task", "seed"],
    "information": ["task", "version", "text", "token", "seed", "layer"],
    "steps": ["task", "seed", "layer"],
    "heads": ["task", "seed", "layer"],
    "frequency": ["task", "ranks", "seed", "layer"],
    "between": ["between", "one", "other", "seed", "other_seed", "layer"],
}
"""Published tables with their keys."""


@dataclass(frozen=True)
class Setting:
    """How the models are trained, and on how much text their layers are compared."""

    corpus: str = "multi30k-de"
    vocabulary: int = 6000
    width: int = 128
    layers: int = 6
    updates: int = 1500
    warmup: int = 600
    copies: int = 10  # of each training sentence, differently masked
    sentences: int = 20_000  # the first of the training text
    kinds: int = 100  # most frequent tokens, for mutual information,
    occurrences: int = 300  # of each of them at most,
    clusters: int = 300  # and of their states
    compared: int = 10_000  # tokens on which layers are compared


def start(setting: Setting, task: str, seed: int) -> Transformer:
    """The model before its first update; a masked one has an id more, the mask's."""
    size, other = map(len, texts(setting.corpus, setting.vocabulary, 0).subwords)
    ids = {TRANSLATION: (size, other), LANGUAGE: (size,) * 2, MASKED: (size + 1,) * 2}[task]
    layers = (setting.layers * (task != LANGUAGE), setting.layers * (task != MASKED))
    width = setting.width
    torch.manual_seed(derived(seed, "initial weights"))
    return Transformer(TransformerConfig(*ids, *layers, width, 4 * width, 8, 0.15)).eval()


def examples(setting: Setting, task: str, seed: int, use: str) -> list[EncodedPair]:
    """The pairs of "training" or "validation" as the task reads them."""
    text = texts(setting.corpus, setting.vocabulary, 0)
    pairs, copies = (text.train, setting.copies) if use == "training" else (text.valid, 1)
    if task == TRANSLATION:
        return pairs
    sources = [source for source, _ in pairs]
    if task == LANGUAGE:
        return [(NO_SOURCE, row) for row in sources]
    return masked_copies(sources, len(text.subwords[0]), copies, derived(seed, f"masks of {use}"))


def weights(setting: Setting, task: str, seed: int) -> dict[str, np.ndarray]:
    """Those with the least validation loss, and this loss as `valid_nats`."""
    network = start(setting, task, seed)
    config = TrainingConfig(
        setting.updates, warmup=setting.warmup, seed=derived(seed, "training"),
        label_smoothing=0.1 if task == TRANSLATION else 0.0,
    )  # fmt: skip
    read = [examples(setting, task, seed, use) for use in ("training", "validation")]
    curve = best(network, config, *read)
    found = {name: each.cpu().numpy() for name, each in network.state_dict().items()}
    return found | {"valid_nats": np.array([curve["valid_loss_nats"].min()])}


def trained(setting: Setting, task: str, seed: int) -> tuple[Transformer, float]:
    """The trained model, in evaluation mode, and its validation loss; kept once trained."""
    kept = dict(cached(weights, setting=setting, task=task, seed=seed))
    nats = float(kept.pop("valid_nats")[0])
    network = start(setting, task, seed)
    network.load_state_dict({name: torch.tensor(each) for name, each in kept.items()})
    return network.eval(), nats
