"""The stage `fewer-keys`: a masked encoder goes on learning, with attention to fewer keys."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.artefacts.catalogue import weights_folder
from headbook.artefacts.model import corpus_of
from headbook.corpora.batches import EOS, Batch, EncodedPair, collate
from headbook.corpora.masked import masked_copies
from headbook.corpora.readers import ParallelCorpus
from headbook.corpora.subwords import Subwords
from headbook.models.fewer_keys import Fewer, FewerKeys, Mixed, look_at_fewer, means
from headbook.models.loaded import digest
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.scoring import losses
from headbook.types import UserError

FEWER_KEYS = Stage("fewer-keys", version=1)
MODEL = "mixture-fr-256-masked"
NOISE = 0.01
"""Spread of what is added to the means of neighbours that learned mixtures start from."""
WARMUP = 20
TOKENS = 4096
"""Of a batch when texts are scored."""


@dataclass(frozen=True)
class GoingOn:
    """Keys that the encoder sees (None: all), texts of its further training, and its length.

    Texts have `length` tokens; `batch` of them make an update, `tested` are held out. `rate` is of
    the encoder's own weights, `mixing_rate` of mixing matrices. UserError for no update, and for
    keys that were chosen for another length.
    """

    fewer: FewerKeys | None
    length: int
    updates: int
    batch: int = 8
    tested: int = 300
    rate: float = 3e-4
    mixing_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.updates, self.batch, self.tested) < 1:
            raise UserError("updates, batch and tested are 1 or more")
        if self.fewer is not None and self.fewer.length != self.length:
            raise UserError(
                f"keys for texts of {self.fewer.length} tokens, and the texts have {self.length}"
            )


def gone_on(run: GoingOn, store: Store) -> pd.DataFrame:
    """Nats per hidden token of every held-out text before, halfway and at the end; from the store
    or trained now."""
    read = {"model": digest(_start()), "corpus": _corpus().digest}
    asked = Ingredients(FEWER_KEYS, run, read, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return pd.read_csv(folder / "losses.csv")


def updates_before() -> int:
    """Number of updates of the weights that training continues from."""
    return _record()["updates"]


def _record() -> dict[str, Any]:
    return json.loads((weights_folder(MODEL) / "run.json").read_text())


def _write(run: GoingOn, folder: Path) -> None:
    subwords = Subwords.load(weights_folder(MODEL) / "source.json")
    train = texts(subwords, _corpus().train.source, run.length, run.updates * run.batch, run.seed)
    # the same held-out texts for every seed
    tested = texts(subwords, _corpus().valid.source, run.length, run.tested, 0)
    pd.DataFrame(learn(_start(), run, train, tested)).to_csv(folder / "losses.csv", index=False)


def _start() -> Transformer:
    """Read anew every time: training changes it."""
    return checkpoint.load_transformer(weights_folder(MODEL) / "best.safetensors")


@cache
def _corpus() -> ParallelCorpus:
    return corpus_of(_record()["ingredients"]["config"]["text"]["corpus"], None)


def texts(
    subwords: Subwords, sentences: Sequence[str], length: int, count: int, seed: int
) -> list[EncodedPair]:
    """Sentences in a random order, joined and cut into texts, in which tokens are hidden.

    UserError where they do not make so many.
    """
    generator = torch.Generator().manual_seed(derived(seed, "order of sentences"))
    order = torch.randperm(len(sentences), generator=generator).tolist()
    whole = list(_joined(subwords, (sentences[at] for at in order), length, count))
    if len(whole) < count:
        raise UserError(f"{len(sentences)} sentences make {len(whole)} texts of {length} tokens, "
                        f"not {count}: ask for fewer")  # fmt: skip
    return masked_copies(whole, len(subwords), 1, derived(seed, "hidden tokens"))


def _joined(
    subwords: Subwords, sentences: Iterator[str], length: int, count: int
) -> Iterator[list[int]]:
    left: list[int] = []
    for sentence in sentences:
        (ids,) = subwords.encode([sentence])
        left += [each for each in ids if each != EOS]
        while len(left) >= length - 1:
            yield [*left[: length - 1], EOS]
            left = left[length - 1 :]
            count -= 1
            if not count:
                return


def learn(
    model: Transformer, run: GoingOn, train: list[EncodedPair], tested: list[EncodedPair]
) -> dict[str, Tensor]:
    """Adam at a constant rate after a warm-up; nats per hidden token of every held-out text.

    Changes the model. Learned mixtures start as means of neighbours, which the heads know better
    what to do with than with mixtures drawn at random.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "mixtures and dropout"))
        if run.fewer is not None:
            start_as_means(look_at_fewer(model, run.fewer), run.fewer)
        found = {"before": _scored(model, tested)}
        optimiser = torch.optim.Adam(_groups(model, run), betas=(0.9, 0.98), fused=True)
        rate = torch.optim.lr_scheduler.LinearLR(optimiser, 1 / WARMUP, total_iters=WARMUP)
        bar = tqdm(range(run.updates), desc=_label(run), unit="update", mininterval=5)
        for step in bar:
            if step == run.updates // 2:
                found["half"] = _scored(model, tested)
            first = step * run.batch
            batch = collate(train[first : first + run.batch], range(run.batch))
            optimiser.zero_grad()
            hidden_nats(model.train(), batch).mean().backward()
            optimiser.step()
            rate.step()
    return {**found, "end": _scored(model, tested)}


def start_as_means(model: Transformer, fewer: FewerKeys) -> None:
    """Learned mixing matrices become means of neighbours with a little noise."""
    if fewer.kind is Fewer.LINFORMER:
        for each in mixing(model):
            noise = NOISE * torch.randn(each.shape)
            each.data.copy_(means(fewer.keys, fewer.length) + noise)


def mixing(model: Transformer) -> list[nn.Parameter]:
    """The mixing matrices that are learned, each once however many layers share it."""
    found = [each for _, _, block in model.attentions() if isinstance(block, Mixed)
             for each in (block.of_keys, block.of_values) if each.requires_grad]  # fmt: skip
    return list({id(each): each for each in found}.values())


def _groups(model: Transformer, run: GoingOn) -> list[dict[str, object]]:
    matrices = mixing(model)
    known = {id(each) for each in matrices}
    own = [each for each in model.parameters() if id(each) not in known and each.requires_grad]
    groups = [{"params": own, "lr": run.rate}]
    return [*groups, {"params": matrices, "lr": run.mixing_rate}] if matrices else groups


def hidden_nats(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the hidden tokens, [token]; logits of no other token are computed."""
    hidden = batch.target_mask
    states, _ = model.encode(batch.source)
    return cross_entropy(model.logits(states[hidden]), batch.target_out[hidden], reduction="none")


def _scored(model: Transformer, tested: list[EncodedPair]) -> Tensor:
    found = losses(model.eval(), tested, TOKENS)
    return found.nats / found.tokens


def _label(run: GoingOn) -> str:
    if run.fewer is None:
        return "all keys"
    return f"{run.fewer.kind}, {run.fewer.keys} keys, shared by {run.fewer.sharing}"
