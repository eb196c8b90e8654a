"""Tables of what layers know and how they change: mutual information, PWCCA, by frequency."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from headbook.chapters.diversity._layer_models import Subject, Task, Text
from headbook.corpora.masked import Masking
from headbook.corpora.subwords import frequency_ranks
from headbook.layers.mutual_information import Information, information_by_layer
from headbook.layers.pwcca import Basis, basis, distance, shuffled_distance
from headbook.layers.states import States, token_states
from headbook.runs.seeds import derived

TRAINED, UNTRAINED = "trained", "untrained"
INPUT, PREDICTED = "input token", "predicted token"
WHOLE, REPLACED, HIDDEN = "whole text", "replaced tokens", "masked tokens"
MASKINGS = {REPLACED: Masking(0.0, 1.0), HIDDEN: Masking(1.0, 0.0)}
TASKS, SEEDS = "tasks", "seeds"
BINS = {"1 to 10": (0, 10), "11 to 100": (10, 100), "101 to 1,000": (100, 1_000),
        "above 1,000": (1_000, None)}  # fmt: skip
"""Ranks by frequency in the text."""
TOKENS_A_DIMENSION = 5
"""At least, where representations are compared: with fewer, any two are alike."""
SEED = derived(0, "clusters")

Bases = dict[tuple[Task, int], list[Basis]]


def information_rows(subjects: Sequence[Subject], text: Text) -> pd.DataFrame:
    """One row per model, text, token and layer: mutual information, its null, the most there is."""
    rows = [row for subject in subjects for row in _informed(subject, text)]
    return pd.DataFrame(rows)


def _informed(subject: Subject, text: Text) -> Iterator[dict[str, object]]:
    places = text.occurrences()
    versions = {TRAINED: subject.model} | (
        {UNTRAINED: subject.made.untrained()} if subject.seed == 0 else {}
    )
    for version, model in versions.items():
        states = token_states(model, text.sentences, places)
        yield from _measured(subject, version, WHOLE, states, {INPUT: text.tokens[places]}, text)
    if subject.task is Task.LANGUAGE:
        states = token_states(subject.model, text.sentences, places - 1)
        about = {PREDICTED: text.tokens[places]}
        yield from _measured(subject, TRAINED, WHOLE, states, about, text)
    if subject.task is Task.MASKED:
        for kind, masking in MASKINGS.items():
            changed = text.changed(masking)
            about = {PREDICTED: changed.wanted}
            if kind == REPLACED:  # elsewhere the input is the mask
                about[INPUT] = changed.shown
            states = changed.states(subject.model)
            yield from _measured(subject, TRAINED, kind, states, about, text)


def _measured(
    subject: Subject,
    version: str,
    kind: str,
    states: States,
    about: dict[str, Int[Tensor, " token"]],
    text: Text,
) -> Iterator[dict[str, object]]:
    bar = tqdm(
        states, desc=f"clusters: {subject.labels['model']}", unit="layer", delay=2, leave=False
    )
    found = information_by_layer(bar, list(about.values()), text.sample.clusters, SEED)
    for layer, informations in enumerate(found):
        for token, information in zip(about, informations, strict=True):
            yield {
                "task": str(subject.task), "seed": subject.seed, "version": version, "text": kind,
                "token": token, "layer": layer, "occurrences": states.shape[1],
                **_numbers(information),
            }  # fmt: skip


def _numbers(found: Information) -> dict[str, float]:
    return {"nats": found.nats, "null_nats": found.null, "entropy_nats": found.entropy}


def compared(subjects: Sequence[Subject], text: Text) -> tuple[Bases, pd.DataFrame]:
    """Every model's layers at the same tokens; and its steps for tokens of like frequency.

    A bin of ranks that is too small is left out, and all others are of as many tokens.
    """
    found: Bases = {}
    steps = [pd.DataFrame(columns=["task", "seed", "layer", "distance", "ranks"])]
    bins = _bins(text, least=TOKENS_A_DIMENSION * subjects[0].model.config.width)
    places = [text.everywhere(), *bins.values()]
    for each in tqdm(subjects, desc="representations", unit="model", delay=2, leave=False):
        states = token_states(each.model, text.sentences, torch.cat(places))
        whole, *others = states.split([len(own) for own in places], dim=1)
        address = each.task, each.seed
        found[address] = [basis(layer) for layer in whole]
        for ranks, own in zip(bins, others, strict=True):
            rows = step_rows({address: [basis(layer) for layer in own]})
            steps.append(rows.assign(ranks=ranks))
    return found, pd.concat(steps[1:] or steps, ignore_index=True)


def between_rows(found: Bases) -> pd.DataFrame:
    """One row per layer and two models: of two tasks with one seed, or of one task with two."""
    rows = [
        {
            "between": TASKS if one[0] != other[0] else SEEDS, "one": str(one[0]),
            "other": str(other[0]), "seed": one[1], "other_seed": other[1], "layer": layer,
            "distance": distance(*pair), "shuffled": shuffled_distance(*pair, SEED),
        }
        for one, other in combinations(found, 2)
        if (one[0] == other[0]) != (one[1] == other[1])
        for layer, pair in enumerate(zip(found[one], found[other], strict=True))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["between", "one", "other", "seed", "other_seed", "layer",
                                       "distance", "shuffled"])  # fmt: skip


def step_rows(found: Bases) -> pd.DataFrame:
    """One row per model and layer: how far the layer takes its input."""
    return pd.DataFrame(
        [
            {"task": str(task), "seed": seed, "layer": layer, "distance": distance(*pair)}
            for (task, seed), own in found.items()
            for layer, pair in enumerate(pairwise(own), start=1)
        ]
    )


def _bins(text: Text, least: int) -> dict[str, Int[Tensor, " token"]]:
    ranks = frequency_ranks([text.tokens.tolist()], text.vocabulary)[text.tokens]
    found = {
        name: torch.nonzero((ranks >= first) & (ranks < (last or text.vocabulary)))[:, 0]
        for name, (first, last) in BINS.items()
    }
    found = {name: places for name, places in found.items() if len(places) >= least}
    fewest = min(map(len, found.values()), default=0)
    return {name: text.compared(places, fewest) for name, places in found.items()}


def dissimilarity_rows(subjects: Sequence[Subject], text: Text) -> pd.DataFrame:
    """One row per model and layer: output dissimilarity of its heads."""
    return pd.DataFrame(
        [
            {"task": str(each.task), "seed": each.seed, "layer": layer, "dissimilarity": value}
            for each in tqdm(subjects, desc="heads", unit="model", delay=2, leave=False)
            for layer, value in enumerate(each.head_dissimilarity(text.sentences), start=1)
        ]
    )
