"""The stage `retrieval`: a small encoder trained to find a value far from where it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.corpora.retrieval import VALUES, VOCABULARY, Retrieval, retrieval
from headbook.models.attention import AttentionPath
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store

RETRIEVAL = Stage("retrieval", version=1)
WIDTH, HEADS, FEED_FORWARD = 64, 2, 128
BATCH, RATE, WARMUP = 32, 3e-3, 50
TESTED = 2000


@dataclass(frozen=True)
class RetrievalRun:
    """The kind of attention in every layer, its sizes, and the texts; `last`: who asks."""

    mixing: Mixing
    sizes: Sizes
    layers: int = 2
    pairs: int = 4
    updates: int = 400
    last: bool = False
    seed: int = 0

    @property
    def length(self) -> int:
        return self.sizes.length


def retrieved(run: RetrievalRun, store: Store) -> pd.DataFrame:
    """Fresh texts, one row each: distance and whether the answer is right; stored or trained."""
    asked = Ingredients(RETRIEVAL, run, {}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return pd.read_csv(folder / "answers.csv")


def _write(run: RetrievalRun, folder: Path) -> None:
    model = train(run)
    answers(model, _drawn(run, TESTED, "fresh")).to_csv(folder / "answers.csv", index=False)


class Retriever(nn.Module):
    """An encoder whose state at the asking token names one of `values`."""

    def __init__(
        self, mixing: Mixing, sizes: Sizes, layers: int, vocabulary: int, values: int,
        *, last: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        config = TransformerConfig(vocabulary, vocabulary, layers, 0, WIDTH, FEED_FORWARD,
                                   HEADS, 0.0, path=AttentionPath.EXPLICIT)  # fmt: skip
        self.encoder = Transformer(config)
        for layer in self.encoder.encoder:
            layer.attention = mix(mixing, layer.attention, sizes)
        self.place = -1 if last else 0
        self.answer = nn.Linear(WIDTH, values)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """Logits of the values, [text value]."""
        return self.answer(self.encoder.encode(texts)[0][:, self.place])


def start(run: RetrievalRun) -> Retriever:
    """The encoder before its first update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "initial weights"))
        return Retriever(run.mixing, run.sizes, run.layers, VOCABULARY, VALUES, last=run.last)


def train(run: RetrievalRun) -> Retriever:
    """The encoder after its updates, on ever new texts."""
    model = start(run)
    generator = torch.Generator().manual_seed(derived(run.seed, "texts"))

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        drawn = retrieval(run.length, run.pairs, BATCH, generator, last=run.last)
        return drawn.texts, drawn.values

    learn(model, draw, run.updates, f"{run.mixing}, seed {run.seed}")
    return model


def learn(
    model: Retriever, draw: Callable[[], tuple[torch.Tensor, torch.Tensor]], updates: int,
    label: str,
) -> None:  # fmt: skip
    """Adam on texts and values that are drawn; the rate rises, then falls along a cosine."""
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    rise = torch.optim.lr_scheduler.LinearLR(optimiser, 0.02, total_iters=WARMUP)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, updates - WARMUP))
    rate = torch.optim.lr_scheduler.SequentialLR(optimiser, [rise, fall], [WARMUP])
    for _ in tqdm(range(updates), desc=label, unit="update", mininterval=5):
        texts, values = draw()
        loss = cross_entropy(model(texts), values)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()


@torch.inference_mode()
def answers(model: nn.Module, drawn: Retrieval) -> pd.DataFrame:
    """One row per text: how far away the value stands, and whether it is found."""
    model.eval()
    found = torch.cat([model(texts).argmax(-1) for texts in drawn.texts.split(100)])
    right = (found == drawn.values).int()
    return pd.DataFrame({"distance": drawn.distances.numpy(), "right": right.numpy()})


def _drawn(run: RetrievalRun, count: int, use: str) -> Retrieval:
    generator = torch.Generator().manual_seed(derived(run.seed, use))
    return retrieval(run.length, run.pairs, count, generator, last=run.last)
