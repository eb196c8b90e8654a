"""How far heads have specialised, snapshot by snapshot of a training (pages 26 and 27): a
translator's, or its encoder's that learns to find hidden words. The published ones took days."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from headbook.corpora.masked import masked_copies
from headbook.corpora.readers import ParallelCorpus, load
from headbook.heads.scores import REACH
from headbook.looking.answers import QUESTIONS
from headbook.looking.ours import OurEncoder, OurModel
from headbook.looking.passes import aligned, text_sums
from headbook.looking.relevance import relevance
from headbook.looking.text import Text, text
from headbook.models import checkpoint
from headbook.models.loaded import Loaded
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.text.subwords import Subwords
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.scoring import bleu
from headbook.types import Kind

TRANSLATION, HIDDEN, OWN, NEIGHBOUR = "translation", "hidden words", "own token", "a neighbour"
RARE, RELATION = "rarest words", "relation"
PLACES = {OWN: [0], NEIGHBOUR: [-1, 1]}
PLACES["farther away"] = [at for at in range(-REACH, REACH + 1) if abs(at) > 1]


def scores(model: Loaded, text: Text) -> pd.DataFrame:
    """The encoder head that looks most at each sort of place, chosen on half of the sentences with
    the score `chosen`; `scores` are [1 + replicate] on the other half. Relations, where there are
    trees, are in accuracy above the best fixed offset's."""
    batches = model.batches(text.sentences, None, 2048)
    trees = aligned(model, text)
    sums = text_sums(model, batches, trees)
    halves = {name: (found.ratio(0), found.replicates(1)) for name, found in sums.items()}
    at, asked, cells = halves["positional"], {}, {}
    for name, offsets in PLACES.items():
        asked[name] = [x[..., [REACH + each for each in offsets]] for x in at]
        cells[name] = [f"{each:+d}" for each in offsets]
    asked[RARE], cells[RARE] = [x[..., 1:] for x in halves["rare"]], [""]
    if trees:
        (right, rights), (by, on) = halves["syntactic"], halves["offsets"]
        best = by.nan_to_num(-torch.inf).argmax(0), torch.arange(by.shape[1])
        asked[RELATION] = right - by[best], rights - on[:, *best][:, None, None]
        cells[RELATION] = list(QUESTIONS)
    found = {}
    for name, (chosen, scored) in asked.items():
        index = int(chosen.flatten().nan_to_num(-torch.inf).argmax())
        layer, head, cell = np.unravel_index(index, chosen.shape)
        numbers = float(chosen.flatten()[index]), scored.flatten(1)[:, index].numpy()
        found[name] = layer + 1, head + 1, cells[name][cell], *numbers
    return pd.DataFrame(found, ["layer", "head", "at", "chosen", "scores"]).T


@dataclass(frozen=True)
class Setting:
    """A training; by default page 27's small translator, as it is."""

    corpus: str = "tatoeba-de"
    task: str = TRANSLATION
    updates: int = 800
    tokens: int = 2048  # of a batch
    pairs: int = 174_477  # the first so many, which are all of tatoeba-de
    width: int = 64
    seed: int = 0


def trained(setting: Setting, corpus: ParallelCorpus) -> Iterator[tuple[int, Loaded]]:
    """The model before training, after 64 updates times powers of √2, and at the end."""
    hides, train, valid = setting.task == HIDDEN, corpus.train, corpus.valid
    source, target = (Subwords.train(each, 6000) for each in (train.source, train.target))
    ids = [len(source) + 1] * 2 if hides else [len(source), len(target)]
    sizes = 6, 0 if hides else 6, setting.width, 4 * setting.width, 8
    torch.manual_seed(derived(setting.seed, "initial weights"))
    network = Transformer(TransformerConfig(*ids, *sizes, dropout=0.1)).eval()
    if hides:
        model = OurEncoder(setting.task, "", ("en", None), network, source)
        pairs = []
        for use, side, copies in (("training", train, 10), ("validation", valid, 1)):
            seed = derived(setting.seed, f"masks of {use}")
            pairs.append(masked_copies(source.encode(side.source), len(source), copies, seed))
    else:
        model = OurModel(setting.task, "", ("en", "und"), network, source, target)
        sides = [(source.encode(x.source), target.encode(x.target)) for x in (train, valid)]
        pairs = [list(zip(*each, strict=True)) for each in sides]
    yield 0, model
    smoothing, seed = 0.0 if hides else 0.1, derived(setting.seed, "training")
    config = TrainingConfig(setting.updates, setting.tokens, label_smoothing=smoothing, seed=seed)
    with TemporaryDirectory() as folder:
        short = [pair for pair in pairs[0] if max(map(len, pair)) <= 200]
        Trainer(network, config, short, pairs[1], Path(folder)).run()
        for file in sorted(Path(folder).glob("snapshot-*.safetensors")):
            checkpoint.load_model(network.eval(), file)
            yield int(file.stem.rpartition("-")[2]), model


class Snapshot(NamedTuple):
    """Scores on held-out and on web text; of a translator BLEU, and [1 + replicate] the part of a
    layer's relevance that its most relevant encoder head has, mean over layers."""

    update: int
    own: pd.DataFrame
    web: pd.DataFrame
    bleu: float
    relevance: np.ndarray


def course(setting: Setting) -> Iterator[Snapshot]:
    """What there is to know of every snapshot of a training."""
    corpus, web = load(setting.corpus, setting.pairs), text("ewt-sample")
    test, some = next(iter(corpus.tests.values())), corpus.valid.first(100)
    held, few = text(list(test.source)), test.first(500)
    for update, model in trained(setting, corpus):
        quality, parts = np.nan, np.array([np.nan])
        if setting.task == TRANSLATION:
            quality = bleu(model.translate(few.source), few.target).score
            sums = relevance(model, model.batches(some.source, some.target, 2048))
            parts = sums[f"normalised/{Kind.ENCODER}"].replicates().amax(-1).mean(-1).numpy()
        yield Snapshot(update, scores(model, held), scores(model, web), quality, parts)


def answers(every: Sequence[Snapshot], narrow: Sequence[Snapshot] = ()) -> dict[str, np.ndarray]:
    """What claims ask of a translator, [1 + replicate] each: highest scores, chosen as heads are;
    at a neighbour, the last snapshot over the first with nine tenths of its BLEU, over web text (if
    untrained it is not) and over a narrower model; and the relevance that one head gained."""
    first, last, found = every[0], every[-1], {}
    for name in (NEIGHBOUR, RELATION, RARE):
        best = max((each.own.loc[name] for each in every), key=lambda row: row["chosen"])
        found[f"highest, {name}"] = best["scores"]
    near, web = ([x[at]["scores"][NEIGHBOUR] for x in every] for at in (1, 2))
    there = [x.bleu >= max(1, 0.9 * last.bleu) for x in every[:-1]]  # the last one tells nothing
    found["since it translates"] = near[-1] - (near[there.index(True)] if any(there) else np.nan)
    found["relevance gained"] = last.relevance - first.relevance
    if np.quantile(near[0] - web[0], 0.025) <= 0:
        found["own text over web"] = near[-1] - web[-1]
    if narrow:
        found["wide over narrow"] = near[-1] - narrow[-1].own["scores"][NEIGHBOUR]
    return found
