"""What the layers of three models know of tokens, and how they change them (page 39): the measures.

Of the models of `objectives.py`, on the same tokens of their training text. Ten minutes on one core
for the published six.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from headbook.corpora.masked import masked_copies
from headbook.corpora.plain_text import NO_SOURCE
from headbook.experiments.objectives import LANGUAGE, MASKED, TABLES, TASKS, Setting, start, trained
from headbook.experiments.small_models import texts
from headbook.layers.mutual_information import clusters, information
from headbook.layers.pwcca import basis, distance, shuffled_distance
from headbook.layers.states import flat, frequent, occurrences, token_states
from headbook.looking.diversity import diversity
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.text.batches import PAD, in_order
from headbook.text.subwords import frequency_ranks
from headbook.types import Kind

Places = Int[Tensor, " _"]
MASKINGS = {"replaced tokens": (0.0, 1.0), "masked tokens": (1.0, 0.0)}
BINS = {"1 to 10": (0, 10), "11 to 100": (10, 100), "101 to 1,000": (100, 1_000),
        "above 1,000": (1_000, 10**9)}  # fmt: skip
"""Ranks of tokens by frequency."""


class Measures:
    """Sentences as ids, and every table of some models on them."""

    def __init__(self, setting: Setting) -> None:
        text = texts(setting.corpus, setting.vocabulary, 0)
        self.setting, self.size = setting, len(text.subwords[0])
        self.rows = [row for row, _ in text.train[: setting.sentences] if len(row) > 1]
        self.tokens = flat(self.rows)
        self.common = frequent(self.tokens, setting.kinds)

    def drawn(self, tokens: Places, allowed: Tensor) -> Places:
        """Places of frequent tokens, as many of each."""
        most, seed = self.setting.occurrences, derived(0, "occurrences")
        return occurrences(tokens, self.common, most, seed, allowed)

    def some(self, among: Places, most: int) -> Places:
        """Of these places so many at most, at random."""
        noise = torch.Generator().manual_seed(derived(0, "compared"))
        order = torch.randperm(len(among), generator=noise)[: min(most, self.setting.compared)]
        return among[order].sort().values

    def information(self, network: Transformer, task: str = "") -> Iterator[dict[str, object]]:
        """One row per text, token and layer: mutual information, its null, the most there is.

        About the token that is read; with a task about the next one or the one that was masked.
        """
        inner = flat([[0, *[1] * (len(row) - 2), 0] for row in self.rows]) > 0
        places = self.drawn(self.tokens, inner)
        asked = self.tokens[places]
        yield from self._rows("whole text", network, self.rows, places, {"input token": asked})
        if task == LANGUAGE:
            about = {"predicted token": asked}
            yield from self._rows("whole text", network, self.rows, places - 1, about)
        for name, shares in MASKINGS.items() if task == MASKED else ():
            given = 2, derived(0, "changed"), *shares, self.common.tolist()
            pairs = masked_copies(self.rows, self.size, *given)
            shown, wanted = ([list(row) for row in side] for side in zip(*pairs, strict=True))
            target = flat(wanted)
            places = self.drawn(target, target != PAD)
            about = {"predicted token": target[places]}
            if name == "replaced tokens":  # elsewhere the input is the mask
                about["input token"] = flat(shown)[places]
            yield from self._rows(name, network, shown, places, about)

    def _rows(
        self, text: str, network: Transformer, sentences: Sequence[Sequence[int]], places: Places,
        about: dict[str, Places],
    ) -> Iterator[dict[str, object]]:  # fmt: skip
        seed = derived(0, "clusters")
        for layer, states in enumerate(token_states(network, sentences, places)):
            own = clusters(states, self.setting.clusters, seed)
            for token, asked in about.items():
                row = {"text": text, "token": token, "layer": layer, "occurrences": len(places)}
                found = information(own, asked, seed)
                row |= {"nats": found.nats, "null_nats": found.null, "entropy_nats": found.entropy}
                yield row

    def bins(self) -> dict[str, Places]:
        """As many tokens of each range of ranks; none of one with fewer than five a dimension."""
        ranks = frequency_ranks([self.tokens.tolist()], self.size)[self.tokens]
        found = {name: torch.nonzero((ranks >= first) & (ranks < last))[:, 0]
                 for name, (first, last) in BINS.items()}  # fmt: skip
        found = {k: own for k, own in found.items() if len(own) >= 5 * self.setting.width}
        fewest = min(map(len, found.values()), default=0)
        return {name: self.some(own, fewest) for name, own in found.items()}

    def dissimilarity(self, network: Transformer, task: str) -> list[float]:
        """Scale-free output dissimilarity by layer, mean over pairs of heads, of 200 sentences."""
        kind = Kind.DECODER if task == LANGUAGE else Kind.ENCODER
        pairs = [(NO_SOURCE, row) if task == LANGUAGE else (row, NO_SOURCE)
                 for row in self.rows[:200]]  # fmt: skip
        found = diversity(network, [kind], list(in_order(pairs, 2048)))
        return found["output dissimilarity, scale-free"].tolist()


def tables(setting: Setting, seeds: Sequence[int]) -> dict[str, pd.DataFrame]:
    """Every table of the page, of three tasks with each seed."""
    own, bases = Measures(setting), {}
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    places = {"": own.some(torch.arange(len(own.tokens)), setting.compared), **own.bins()}
    for task, seed in product(TASKS, seeds):
        whose, (network, nats) = {"task": task, "seed": seed}, trained(setting, task, seed)
        rows["models"].append({**whose, "updates": setting.updates, "valid_nats": nats})
        found = [("trained", own.information(network, task))]
        if seed == 0:
            found.append(("untrained", own.information(start(setting, task, seed))))
        for version, each in found:
            rows["information"] += [{**whose, "version": version, **row} for row in each]
        for layer, unlike in enumerate(own.dissimilarity(network, task), 1):
            rows["heads"].append({**whose, "layer": layer, "dissimilarity": unlike})
        for ranks, where in places.items():
            layers = [basis(each) for each in token_states(network, own.rows, where)]
            bases.setdefault((task, seed), layers)
            for layer, pair in enumerate(pairwise(layers), 1):
                row = {**whose, "layer": layer, "distance": distance(*pair)}
                name = "frequency" if ranks else "steps"
                rows[name].append({**row, "ranks": ranks} if ranks else row)
    for one, other in combinations(bases, 2):
        if (one[0] == other[0]) == (one[1] == other[1]):
            continue
        whose = {"between": "tasks" if one[0] != other[0] else "seeds", "one": one[0],
                 "other": other[0], "seed": one[1], "other_seed": other[1]}  # fmt: skip
        for layer, pair in enumerate(zip(bases[one], bases[other], strict=True)):
            far = {"distance": distance(*pair),
                   "shuffled": shuffled_distance(*pair, derived(0, "clusters"))}  # fmt: skip
            rows["between"].append({**whose, "layer": layer, **far})
    return {name: pd.DataFrame(each) for name, each in rows.items()}
