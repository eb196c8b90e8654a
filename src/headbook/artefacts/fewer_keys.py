"""The stage `fewer-keys`: a masked language model of segments of one length, by kind of attention."""

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headbook.artefacts.language import text_of
from headbook.artefacts.model import Size
from headbook.artefacts.trained import Trained, numeric_policy, trained_folder
from headbook.corpora.batches import Batch, EncodedPair
from headbook.corpora.masked import mask_id, masked_copies
from headbook.corpora.plain_text import PlainText, cut
from headbook.corpora.subwords import Subwords
from headbook.models.fewer_keys import FewerKeys, look_at_fewer
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer

FEWER_KEYS = Stage("fewer-keys", version=1)
COPIES = 4
"""Of each training segment, differently masked."""
TESTED = 4
"""The same of each test segment."""


@dataclass(frozen=True)
class FewerKeysRun:
    """Everything that decides a model; `fewer` is None where every query sees every key."""

    stage: ClassVar[Stage] = FEWER_KEYS

    corpus: str
    size: Size
    vocabulary: int
    context: int
    training: TrainingConfig
    fewer: FewerKeys | None = None
    dropout: float = 0.0
    lines: int | None = None  # the first so many training lines; all where None

    @property
    def label(self) -> str:
        kind = "full" if self.fewer is None else f"{self.fewer.kind}, {self.fewer.keys} keys"
        return f"{self.corpus} {kind}, seed {self.training.seed}"

    def with_seed(self, seed: int) -> "FewerKeysRun":
        return replace(self, training=replace(self.training, seed=seed))

    def ingredients(self) -> Ingredients:
        """The key material of a model that may not be trained yet."""
        digest = text_of(self.corpus, self.lines).digest
        return Ingredients(FEWER_KEYS, self, {"text": digest}, numeric_policy(self.training))

    def trained(self, store: Store, deadline: float = math.inf) -> "FewerKeysModel":
        """From the store or trained now. OutOfTimeError at the deadline."""
        text = text_of(self.corpus, self.lines)
        folder = trained_folder(
            store, self.ingredients(), lambda aside: _train(self, text, aside, deadline)
        )
        return FewerKeysModel(self, folder, text)


@dataclass(frozen=True)
class FewerKeysModel(Trained):
    """A finished run of the stage."""

    run: FewerKeysRun
    folder: Path
    text: PlainText

    @property
    def asked(self) -> Ingredients:
        return self.run.ingredients()

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords.load(self.folder / "subwords.json")

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode; all kinds start from the same weights."""
        torch.manual_seed(derived(self.run.training.seed, "initial weights"))
        return initial(self.run, len(self.subwords)).eval()

    def segments(self, lines: tuple[str, ...], copies: int, use: str) -> list[EncodedPair]:
        """Segments of `context` tokens with some of them masked, each `copies` times."""
        whole = [segment for _, segment in cut(self.subwords.encode(lines), self.run.context)]
        seed = derived(self.run.training.seed, f"masks of {use}")
        return masked_copies(whole, len(self.subwords), copies, seed)


def initial(run: FewerKeysRun, vocabulary: int) -> Transformer:
    """The run's model with random weights."""
    size, ids = run.size, mask_id(vocabulary) + 1
    config = TransformerConfig(
        ids, ids, size.layers, 0, size.width, size.feed_forward, size.heads, run.dropout
    )
    model = Transformer(config)
    return model if run.fewer is None else look_at_fewer(model, run.fewer)


def hidden_losses(model: nn.Module, batch: Batch) -> Float[Tensor, " token"]:
    """Cross-entropy of the tokens to be predicted; of the others there are no logits at all."""
    states, _ = model.encode(batch.source)
    wanted = batch.target_mask
    logits = model.logits(states[wanted])
    return functional.cross_entropy(logits, batch.target_out[wanted], reduction="none")


def _train(run: FewerKeysRun, text: PlainText, folder: Path, deadline: float) -> None:
    made = FewerKeysModel(run, folder, text)
    if not (folder / "subwords.json").exists():
        Subwords.train(text.train, run.vocabulary).save(folder / "subwords.json")
    training = replace(run.training, seed=derived(run.training.seed, "training"))
    trainer = Trainer(
        made.untrained(), training, made.segments(text.train, COPIES, "training"),
        made.segments(text.valid, 1, "validation"), folder, losses=hidden_losses,
        deadline=deadline,
    )  # fmt: skip
    pd.DataFrame(trainer.run().curve).to_csv(folder / "curve.csv", index=False)
    checkpoint.load_model(trainer.model, folder / "best.safetensors")
    trainer.valid = made.segments(text.test, TESTED, "test")
    (folder / "scores.json").write_text(json.dumps({"test_nats": trainer.validate()}))
