"""The stage `nested-lists`: a small encoder trained to say what a nested list comes to."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from headbook.artefacts.retrieval import BATCH, Retriever, learn
from headbook.corpora.nested_lists import VALUES, VOCABULARY, NestedLists, nested_lists
from headbook.models.mixing import Mixing, Sizes
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store

NESTED = Stage("nested-lists", version=1)
TRAINED, TESTED = 12_800, 4_000


@dataclass(frozen=True)
class NestedRun:
    """The kind of attention in every layer and its sizes; the first token answers."""

    mixing: Mixing
    sizes: Sizes
    layers: int = 2
    updates: int = 400
    seed: int = 0


def solved(run: NestedRun, store: Store) -> float:
    """Accuracy on lists it was not trained on; from the store or trained now."""
    asked = Ingredients(NESTED, run, {}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return float(json.loads((folder / "outcome.json").read_text())["accuracy"])


def texts(run: NestedRun) -> tuple[NestedLists, NestedLists]:
    """Lists to learn from, and others for the test."""
    return nested_lists(run.sizes.length, TRAINED, TESTED)


def _write(run: NestedRun, folder: Path) -> None:
    outcome = {"accuracy": accuracy(train(run), texts(run)[1])}
    (folder / "outcome.json").write_text(json.dumps(outcome))


def train(run: NestedRun) -> Retriever:
    """The encoder after its updates, each on lists drawn from the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "initial weights"))
        model = Retriever(run.mixing, run.sizes, run.layers, VOCABULARY, VALUES)
    known, _ = texts(run)
    generator = torch.Generator().manual_seed(derived(run.seed, "texts"))

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(len(known), (BATCH,), generator=generator)
        return known.texts[rows], known.values[rows]

    learn(model, draw, run.updates, f"{run.mixing}, nested lists, seed {run.seed}")
    return model


@torch.inference_mode()
def accuracy(model: torch.nn.Module, lists: NestedLists) -> float:
    """Share of lists whose value is named."""
    model.eval()
    found = torch.cat([model(rows).argmax(-1) for rows in lists.texts.split(200)])
    return float((found == lists.values).double().mean())
