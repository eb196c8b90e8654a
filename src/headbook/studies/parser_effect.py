"""What a parser's errors do to syntactic accuracies: gold trees against its own, same sentences."""

from dataclasses import replace

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import best_head, percentiles
from headbook.runs.store import Store
from headbook.stages.heads import DEFAULT, Choices, HeadsRun, measured
from headbook.stages.model import TrainedModel, trained
from headbook.stages.texts import HELD_OUT, Text, parsed
from headbook.studies.config import Config
from headbook.studies.measurements import Measurement, stacked, text_of
from headbook.trees import RELATION_DIRECTIONS

EFFECT = ["relation", "direction", "arcs_gold", "arcs_parsed", "gold", "parsed", "moved",
          "moved_low", "moved_high", "baseline_gold", "baseline_parsed"]  # fmt: skip


def measure(
    model: TrainedModel, text: Text, store: Store, choices: Choices = DEFAULT
) -> Measurement:
    """One trained model on one text."""
    run = HeadsRun(text.name, None, choices)
    return Measurement(model, text, run, measured(model, text, run, store))


def accuracies(
    measurement: Measurement, chooser: Measurement | None = None
) -> Float[Tensor, "replicate 8"]:
    """Accuracy of the best heads on the scoring half; `chooser` chose them where it is another."""
    best = best_head((chooser or measurement).sums["syntactic"])
    every = measurement.sums["syntactic"].replicates(half=1)
    return every[:, best.layer, best.head, torch.arange(len(RELATION_DIRECTIONS))]


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
    both = (gold, automatic)
    scores = [accuracies(each, chooser=gold) for each in both]
    moved = scores[1] - scores[0]
    arcs = [each.sums["syntactic"].denominator[1, 0, 0, 0] for each in both]
    baselines = [_at_offset_of(gold, each) for each in both]
    columns = [*arcs, scores[0][0], scores[1][0], moved[0], *percentiles(moved[1:]), *baselines]
    frame = pd.DataFrame(RELATION_DIRECTIONS, columns=EFFECT[:2]).astype(str)
    numbers = {name: each.tolist() for name, each in zip(EFFECT[2:], columns, strict=True)}
    return frame.assign(**numbers, **automatic.labels)


def _at_offset_of(chooser: Measurement, measurement: Measurement) -> Float[Tensor, " 8"]:
    """The baseline on the scoring half, its offset chosen by another measurement."""
    shares = measurement.sums["offsets"].ratio(half=1)
    offset = chooser.baseline.offset + shares.shape[0] // 2
    return shares[offset, torch.arange(len(RELATION_DIRECTIONS))]
