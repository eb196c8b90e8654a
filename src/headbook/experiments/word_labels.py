"""What attention says of single relations, and of words (page 54).

The best head of each relation (Clark et al. 2019, section 4.2); linear probes of relations and
parts of speech, with the control task of Hewitt and Liang (2019) and beside the words' vectors.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch

from headbook.experiments import read_off
from headbook.experiments.head_probe import asking, both_ways
from headbook.experiments.read_off import Found, Sample, over, reduced
from headbook.experiments.word_maps import WordMaps, word_features
from headbook.layers import probe as linear
from headbook.results import table

RELATIONS = "all det dobj nsubj nmod:poss aux aux:pass amod advmod mark ccomp compound case flat"


def relations(
    of: Sample, maps: Sequence[WordMaps], drawn: Sequence[WordMaps], per_layer: int
) -> pd.DataFrame:
    """One row per relation: the head that finds most from the dependent on, chosen on the fitted
    sentences and scored on the others, beside the best offset and the best head `drawn` anew."""
    (fitted, _, scored), (lots, _, drawn_scored) = (
        of.parts([each.weights for each in every]) for every in (maps, drawn)
    )
    of_fitted, of_scored = of.relations("fitted"), of.relations("scored")
    hits_of, lots_of, rows, shares = fitted.by_feature(), lots.by_feature(), [], []
    for relation in RELATIONS.split():
        here, there = (each == relation for each in (of_fitted, of_scored))
        if relation == "all":
            here, there = here | True, there | True
        if not here.any() or there.sum() < 2:
            continue
        best, lot = (int(each[here].mean(0).argmax()) for each in (hits_of, lots_of))
        step = max(read_off.OFFSETS, key=lambda each, on=here: float(fitted.at(each)[on].mean()))
        sides = (
            scored.hits(scored.features[:, best]),
            scored.at(step),
            drawn_scored.hits(drawn_scored.features[:, lot]),
        )
        shares.append([over(scored.sentence, each, torch.from_numpy(there)) for each in sides])
        head = "L{}H{}".format(*np.add(divmod(best, per_layer), 1))
        rows.append({"relation": relation, "head": head, "offset": step, "arcs": int(there.sum())})
    value, baseline, redrawn = np.moveaxis(shares, 0, -1)
    ours = {"value": value, "baseline": baseline[0], "margin": value - baseline}
    return table(pd.DataFrame(rows).to_dict("list"), **ours, redrawn=redrawn[0])


def labels(of: Sample, maps: Sequence[WordMaps], weights: str) -> Iterator[Found]:
    """Relations from the weights on each arc, parts of speech from a summary of each word's rows;
    of the released weights with word vectors, too, the most frequent label and control tasks."""
    trees, vectors = of.trees, reduced(of, maps)
    ends = [torch.tensor([(at, t.heads[at]) for at in asking(t)]).T for t in trees]
    arcs = [both_ways(m.weights)[:, a, b].T for m, (a, b) in zip(maps, ends, strict=True)]
    pairs = [torch.cat([v[a], v[b]], 1) for v, (a, b) in zip(vectors, ends, strict=True)]
    rows = [word_features(each.weights, each.special) for each in maps]
    relations = [[t.relations[at].partition(":")[0] for at in asking(t)] for t in trees]
    forms = [[form.lower() for form in tree.forms] for tree in trees]
    own = [[row[at] for at in asking(tree)] for row, tree in zip(forms, trees, strict=True)]
    tags = [tree.tags for tree in trees]
    for target, features, words, names, types in (
        ("relation", arcs, pairs, relations, own),
        ("part of speech", rows, vectors, tags, forms),
    ):
        groups = np.repeat(np.arange(len(trees)), [len(each) for each in names])
        split, right = of.split.of(groups), np.array([label for each in names for label in each])
        given = {read_off.WEIGHTS: torch.cat(features).numpy()}
        asked, found = {read_off.TASK: right}, {}
        if weights == read_off.RELEASED:
            given["words"] = torch.cat(words).numpy()
            given[read_off.BOTH] = np.concatenate([*given.values()], axis=1)
            found["most frequent", read_off.NONE, read_off.TASK] = linear.majority(right, split)
            lots = linear.control([form for each in types for form in each], right)
            asked[read_off.CONTROL] = lots
        for name, values in given.items():
            shown = read_off.NONE if name == "words" else weights
            hits = linear.hits_of(values, [*asked.values()], split)
            found |= {(name, shown, task): hit for task, hit in zip(asked, hits, strict=True)}
        sentence = torch.from_numpy(groups[split.scored] - of.split.scored[0])
        for key, hit in found.items():
            yield Found(target, *key, over(sentence, torch.from_numpy(hit)))
