"""Gates on the heads of a translator trained here, until its loss settles (pages 18 and 19).

Voita et al. (2019, section 6) train a converged translator on with gates, on its parallel text. As
many heads, at random and by importance, are closed from the start of as long a training, and those
that gates leave are also trained from scratch. Each training is kept when it is done, and one that
was interrupted goes on. On two cores one takes an hour; on a GPU several run side by side.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file, save_file
from tqdm import tqdm

from headbook.experiments import pruning
from headbook.looking.load import load
from headbook.machine import accelerator
from headbook.models import checkpoint
from headbook.models.decoding import translate_corpus
from headbook.models.gates import all_heads, close_heads
from headbook.models.loaded import Translator, digest
from headbook.models.transformer import Transformer
from headbook.pruning import gating
from headbook.pruning.hard_concrete import CONSTANTS
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store, checked
from headbook.statistics import interval, spread
from headbook.text.batches import EncodedPair
from headbook.training.config import TrainingConfig
from headbook.training.loop import BEST, Trainer
from headbook.training.models import TRAINING, corpus_of, cut, run, untrained
from headbook.training.paired import corpus_bleu, paired, resampled, statistics
from headbook.types import HeadId, Kind, UserError

STAGE, FOUND = Stage("settled", version=1), "found.safetensors"
WHOLE, GATES, RANDOM, IMPORTANCE, SCRATCH = "whole", "gates", "random", "importance", "scratch"
NEVER = 1 << 40
KEYS = ["model", "kinds", "chosen", "penalty", "seed", "draw", "updates"]
"""Columns that say which training a row is of."""
AT_ONCE = {"cpu": 1, "cuda": 8}
"""Trainings side by side; each has the text in memory."""
Key, Arrays = tuple[str, float, int], dict[str, np.ndarray]
"""Choice of heads, λ and draw; what is kept of a training."""


@dataclass(frozen=True)
class Setting:
    """What the trainings of a sweep share: those of the book's first sweep of `mixture-fr-256`, but
    for their length.

    After `updates` a training goes on by a third as many, until the loss of held-out pairs falls by
    less than `settled` nats in a third, or `most` updates are made. In the encoder alone the
    decoder is frozen (section 6.2).
    """

    model: str = "mixture-fr-256"
    kinds: tuple[Kind, ...] = (Kind.ENCODER,)
    updates: int = 3000
    settled: float = 0.005
    most: int = 9000
    tokens: int = 2048  # of a batch, padded
    scale: float = 0.05
    warmup: int = 40
    gate_factor: float = 100.0  # of the gates' learning rate over the weights'
    sentences: int = 500  # of the first test set, translated by the model's own search
    seed: int = 0

    def __post_init__(self) -> None:
        if self.updates < 2:
            raise UserError(f"updates is {self.updates}: give at least 2, to see the loss fall")

    @property
    def training(self) -> TrainingConfig:
        """Settings of the first `updates`."""
        return TrainingConfig(
            self.updates, self.tokens, self.scale, self.warmup, seed=derived(self.seed, "training"),
            validate_every=max(self.updates // 3, 1), first_snapshot=NEVER,
        )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """One training: with gates at λ = `penalty`, or with the heads `closed`; `scratch` says that
    these were closed before the model was first trained. `weights` is the whole model's digest."""

    setting: Setting
    weights: str
    penalty: float = 0.0
    closed: tuple[str, ...] | None = None
    scratch: bool = False


@cache
def pairs(name: str, part: str) -> list[EncodedPair]:
    """Pairs of ids to "train" on, or held-out ones, "valid", of the text that a model learnt."""
    wanted, model = run(name), load(name)
    text = getattr(corpus_of(wanted.text.corpus, wanted.text.pairs), part)
    use = TRAINING if part == "train" else "validation"
    return wanted.examples(text, (model.source, model.target), use)


def found(wanted: Training) -> Arrays:
    """Of a training, made now or kept: which heads are open and their log α [head], the
    `statistics` [sentence, 10] of BLEU, held-out loss and its last fall in nats, updates."""
    folder = Store.default().get(_asked(wanted), partial(_train, wanted))
    return load_file(checked(folder, FOUND))


def _asked(wanted: Training) -> Ingredients:
    """The key, whatever the device, as results are carried from one machine to another."""
    return Ingredients(STAGE, wanted, {}, {})


def _train(wanted: Training, folder: Path) -> None:
    if (folder / FOUND).exists():  # killed at the very end
        return
    setting, model = wanted.setting, load(wanted.setting.model)
    network, recipe = model.network, run(setting.model)
    text = [pairs(setting.model, part) for part in ("train", "valid")]
    heads = {head.label: head for head in all_heads(network)}
    closed = None if wanted.closed is None else [heads[each] for each in wanted.closed]
    if wanted.scratch:
        begin_anew(network, closed, text, setting, folder / SCRATCH)
    if closed is None:
        noise = derived(setting.seed, "gates")
        gating.gate_heads(network, setting.kinds, CONSTANTS["code"], noise)
    else:
        close_heads(network, closed)
    if setting.kinds == (Kind.ENCODER,):
        for part in (network.target, network.decoder, network.decoder_norm, network.logits):
            part.requires_grad_(requires_grad=False)
    groups = gating.parameter_groups(network, setting.gate_factor)
    trainer = Trainer(
        network, setting.training, *text, folder,
        groups=[each for each in groups if each["params"]],
        addition=gating.HeadPenalty(wanted.penalty) if closed is None else None,
    )  # fmt: skip
    loss, fell, updates = _until_settled(trainer, setting)
    alphas = {HeadId(kind, layer, head): value for kind, layer, gate in gating.gates(network)
              for head, value in enumerate(gate.log_alpha.tolist())}  # fmt: skip
    gone = gating.decided_closed(network) if closed is None else closed
    close_heads(network, gone)
    tests = corpus_of(recipe.text.corpus, recipe.text.pairs).tests
    asked = next(iter(tests.values())).first(setting.sentences)
    source = cut(model.source.encode(asked.source), "test")
    said = translate_corpus(network.eval(), source, model.target, recipe.search)
    kept = {"open": [head not in gone for head in heads.values()],
            "log_alpha": [alphas.get(head, math.nan) for head in heads.values()],
            "statistics": statistics(said, asked.target),
            "loss": loss, "fell": fell, "updates": updates}  # fmt: skip
    save_file({name: np.array(each) for name, each in kept.items()}, folder / FOUND)
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    for file in folder.glob("*.safetensors"):
        if file.name != FOUND:
            file.unlink()


def begin_anew(
    network: Transformer, closed: Sequence[HeadId], text: Sequence[list[EncodedPair]],
    setting: Setting, folder: Path,
) -> None:  # fmt: skip
    """The model as its own recipe trains it from random weights, with the heads closed."""
    folder.mkdir(exist_ok=True)
    recipe = run(setting.model).training
    network.load_state_dict(untrained(network.config, recipe.seed).state_dict())
    close_heads(network, closed)
    recipe = replace(recipe, seed=derived(recipe.seed, "training"), first_snapshot=NEVER)
    Trainer(network, recipe, *text, folder).run()
    checkpoint.load_model(network, folder / BEST)


def _until_settled(trainer: Trainer, setting: Setting) -> tuple[float, float, int]:
    """Trains; held-out loss, what it fell by in the last third of `updates`, and all updates."""
    while True:
        *_, before, last = (row["valid_loss_nats"] for row in trainer.run().curve)
        made = trainer.progress.update
        if before - last < setting.settled or made >= setting.most:
            return last, before - last, made
        longer = min(made + trainer.config.validate_every, setting.most)
        trainer.config = replace(trainer.config, updates=longer)


def sweep(
    penalties: Sequence[float], draws: int = 5, scratch: int = 0, workers: int | None = None,
    minutes: float = math.inf, **given: object,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Rows per training, and per head of it: the whole model, gates at each λ, and as many heads.

    These are drawn `draws` times in each block, or the most important; for `scratch` of the counts
    the gates' own are also trained from scratch. `given` are fields of `Setting`. After so many
    minutes no further training begins, and rows are of those that are done.
    """
    setting = Setting(**given | {"kinds": tuple(map(Kind, given.get("kinds", ["encoder"])))})
    model, deadline = load(setting.model), time.time() + 60 * minutes
    one, heads = partial(Training, setting, digest(model.network)), all_heads(model.network)
    with side_by_side(workers or AT_ONCE[accelerator()]) as each_of:
        make = partial(_made, each_of=each_of, deadline=deadline)
        made = make({(WHOLE, 0.0, 0): one(closed=())} | {(GATES, x, 0): one(x) for x in penalties})
        gone = {key[1]: [head for head, open_ in zip(heads, each["open"], strict=True) if not open_]
                for key, each in made.items() if key[0] == GATES}  # fmt: skip
        gone = {penalty: closed for penalty, closed in gone.items() if closed}
        made |= make(_controls(model, gone, one, setting, draws, scratch))
    return _tables(made, setting, heads)


@contextmanager
def side_by_side(workers: int) -> Iterator[Callable]:
    """`map` by so many processes, of one thread each, which begin at once; of one, Python's own."""
    if workers == 1:
        yield map
        return
    start = get_context("spawn"), torch.set_num_threads, (1,)
    with ProcessPoolExecutor(workers, *start) as pool:
        yield pool.map


def _controls(
    model: Translator, gone: Mapping[float, Sequence[HeadId]], one: Callable[..., Training],
    setting: Setting, draws: int, scratch: int,
) -> dict[Key, Training]:  # fmt: skip
    """Trainings beside the gates at each λ that closed heads, as many heads as these."""
    some = pruning.Setting(setting.kinds, seed=setting.seed)
    order = pruning.orders(model, pairs(setting.model, "valid")[: some.held], some)[IMPORTANCE]
    others = {(IMPORTANCE, x, 0): order[: len(closed)] for x, closed in gone.items()}
    for draw in range(draws):
        drawn = {x: at_random(closed, model.network, draw) for x, closed in gone.items()}
        others |= {(RANDOM, x, draw): closed for x, closed in drawn.items()}
    others = {key: one(closed=_labels(closed)) for key, closed in others.items()}
    by_count = sorted({len(closed): x for x, closed in gone.items()}.items())
    for _, x in spread(by_count, scratch, np.round):
        others[SCRATCH, x, 0] = one(closed=_labels(gone[x]), scratch=True)
    return others


def _labels(heads: Sequence[HeadId]) -> tuple[str, ...]:
    return tuple(head.label for head in sorted(heads))


def at_random(closed: Sequence[HeadId], network: Transformer, draw: int) -> list[HeadId]:
    """As many heads of each block as are closed there, at random."""
    noise, found = torch.Generator().manual_seed(derived(draw, "random heads")), []
    for kind, layer, block in network.attentions():
        count = sum((head.kind, head.layer) == (kind, layer) for head in closed)
        order = torch.randperm(block.heads, generator=noise)[:count]
        found += [HeadId(kind, layer, head) for head in order.tolist()]
    return found


def _made(wanted: Mapping[Key, Training], each_of: Callable, deadline: float) -> dict[Key, Arrays]:
    """Each training's result, but of those that the deadline left out."""
    results = each_of(partial(_in_time, deadline=deadline), wanted.values())
    bar = tqdm(results, "trainings until settled", len(wanted), unit="training")
    done = {key: each for key, each in zip(wanted, bar, strict=True) if each}
    if len(done) < len(wanted):
        print(f"{len(done)} of {len(wanted)} trainings were made in time: the same call goes on")
    return done


def _in_time(wanted: Training, deadline: float) -> Arrays | None:
    kept = Store.default().has(_asked(wanted))
    return found(wanted) if kept or time.time() < deadline else None


def _tables(
    made: Mapping[Key, Arrays], setting: Setting, heads: Sequence[HeadId]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`change` is of BLEU beside the whole model's, `gap` that of gates minus this choice's."""
    trainings, rows, whole = [], [], made.get((WHOLE, 0.0, 0))
    asked = [at for at, head in enumerate(heads) if head.kind in setting.kinds]
    for (chosen, penalty, draw), each in made.items():
        key = (setting.model, " ".join(setting.kinds), chosen, penalty, setting.seed, draw)
        of, open_ = dict(zip(KEYS, (*key, setting.updates), strict=True)), each["open"][asked]
        row = of | {"trained": each["updates"].item(), "kept": open_.sum(), "of": len(open_)}
        row |= {name: each[name].item() for name in ("loss", "fell")}
        bleu = interval([corpus_bleu(each["statistics"]), *resampled(each["statistics"])])
        row |= dict(zip(("bleu", "bleu_low", "bleu_high"), bleu, strict=True))
        if whole and chosen != WHOLE:
            row |= _compared("change", each, whole)
        if chosen not in (WHOLE, GATES):
            row |= _compared("gap", made[GATES, penalty, 0], each)
        trainings.append(row)
        rows.append(pd.DataFrame(of | {
            "head": [heads[at].label for at in asked], "kept": open_,
            "log_alpha": each["log_alpha"][asked],
        }))  # fmt: skip
    return pd.DataFrame(trainings), pd.concat(rows or [pd.DataFrame()], ignore_index=True)


def _compared(name: str, one: Arrays, other: Arrays) -> dict[str, float]:
    test = paired(one["statistics"], other["statistics"])
    return {name: test.difference, f"{name}_low": test.low, f"{name}_high": test.high}
