"""What a parser's errors do to syntactic accuracies: gold trees against its own, same sentences."""

from dataclasses import replace

import pandas as pd

from headbook.artefacts.model import trained
from headbook.artefacts.texts import HELD_OUT, parsed
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measure, text_of
from headbook.chapters.tables import stacked
from headbook.heads.measure import percentiles
from headbook.heads.offset_baseline import offset_accuracies
from headbook.heads.syntactic import best_accuracies
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS

EFFECT = ["relation", "direction", "arcs_gold", "arcs_parsed", "gold", "parsed", "moved",
          "moved_low", "moved_high", "baseline_gold", "baseline_parsed"]  # fmt: skip


def parser_effect(config: Config, store: Store) -> pd.DataFrame:
    """The first model on every treebank under gold trees and under the parser's; may be empty."""
    tables = []
    for name in config.texts:
        if name != HELD_OUT:
            model = trained(config.one_model(), store)
            gold = text_of(model, name, config, store)
            trees, parser = parsed(gold.sentences, config.pipeline, store)
            both = [gold, replace(gold, trees=trees, parser=parser)]
            tables.append(effect_rows(*(measure(model, text, store) for text in both)))
    columns = ["model", "corpus", "target", "seed", "update", "text", "parser", *EFFECT]
    return stacked(tables)[columns] if tables else pd.DataFrame(columns=columns)


def effect_rows(gold: Measurement, automatic: Measurement) -> pd.DataFrame:
    """What other trees of the same sentences do to the heads that the gold trees choose.

    Head and offset are chosen under gold trees on one half; both sorts of trees score them on the
    other. The resamples are shared, so `moved` has a paired interval.
    """
    both = [gold.sums, automatic.sums]
    scores = [best_accuracies(each["syntactic"], both[0]["syntactic"]) for each in both]
    moved = scores[1] - scores[0]
    arcs = [each["syntactic"].denominator[1, 0, 0, 0] for each in both]
    baselines = [offset_accuracies(each["offsets"], both[0]["offsets"])[0] for each in both]
    columns = [*arcs, scores[0][0], scores[1][0], moved[0], *percentiles(moved[1:]), *baselines]
    frame = pd.DataFrame(RELATION_DIRECTIONS, columns=EFFECT[:2]).astype(str)
    numbers = {name: each.tolist() for name, each in zip(EFFECT[2:], columns, strict=True)}
    return frame.assign(**numbers, **automatic.labels)
