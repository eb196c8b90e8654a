"""What pages 31 and 49 compute for their claims, of planted effects and of their opposites."""

import ast
from collections import Counter
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import RidgeClassifier

from headbook import paths, statistics
from headbook.claims.ledger import load
from headbook.claims.rule import Outcome, judge
from headbook.types import Kind


def cells(page: int, *parts: str, **given: object) -> dict:
    """What the page's cells that hold these parts define; of "def …" the functions alone."""
    (path,) = paths.NOTEBOOKS.glob(f"{page:02}_*.ipynb")
    every = [each.source for each in nbformat.read(path, as_version=4).cells]
    known = {"np": np, "pd": pd, "torch": torch, "stats": statistics} | given
    for part in parts:
        (code,) = (each for each in every if part in each)
        functions = [each for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)]
        exec(ast.unparse(functions) if part.startswith("def ") else code, known)
    return known


@pytest.mark.parametrize(("share", "brings"), [(0.97, True), (0.5, False), (0.0, False)])
def test_a_head_brings_the_previous_token_where_that_has_its_weight(
    share: float, brings: bool
) -> None:
    """Its values tell the token in most cases; the rest of the weight lies anywhere."""
    parts = ("HEAD, MASKED, RANDOM =", "def contexts", "def pairs", "def nearest", "def prepared")
    draw, often = np.random.default_rng(0), 1 / np.arange(1, 31)
    texts = [draw.choice(30, 12, p=often / often.sum()) for _ in range(200)]
    vectors = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))

    def read(_: object, text: np.ndarray) -> tuple:
        size, noise = len(text), torch.Generator().manual_seed(int(text @ np.arange(12)))
        weights = share * torch.eye(size).roll(-1, 1)  # on the token before
        other = torch.randint(2, size, (size,), generator=noise) + torch.arange(size)
        weights = weights + (1 - share) * torch.nn.functional.one_hot(other % size, size)
        values = vectors[torch.as_tensor(text)] + 1.2 * torch.randn(size, 16, generator=noise)
        real = torch.ones(1, size, dtype=torch.bool)
        batch = SimpleNamespace(source_mask=real, source_boundary=~real)
        return batch, *(each[None, None].float() for each in (weights, values, weights @ values))

    given = {"texts": texts, "Counter": Counter, "RidgeClassifier": RidgeClassifier, "Kind": Kind}
    given["output_parts"] = lambda *_: [[torch.eye(16)]]
    page = cells(49, "def read(", *parts, "def named(", **given)
    page["read"] = read  # in the place of a model's
    model = SimpleNamespace(network=None, pieces=lambda text: [str(each) for each in text])
    hits = page["named"](*page["prepared"](model))
    full, most = (1.0 * hits["probe", page[of]] for of in ("HEAD", "SOURCE"))
    least = hits["baseline", page["FREQUENT"]]
    shares = statistics.resampled_ratio(full - least, most - least, 0)
    row = dict(zip(("value", "low", "high"), statistics.interval(shares), strict=True))
    row["baseline"] = np.nan
    assert (judge(load().claim("binding-head-routes-token").rule, row) is Outcome.PASS) is brings


def test_what_page_31_answers_of_a_training_by_hand() -> None:
    """Of four layers two rise and two fall, three quarters of the way in ten batches."""
    names = {"QUERIES": "queries", "FREE": "aligned", "OUTPUTS": "outputs", "ATTENTION": "maps"}
    answers = cells(31, "def ends(", "def answers(", **names)["answers"]
    times = [(at, layer, log) for at, log in ((0, 0.0), (10, 0.75), (20, 1)) for layer in range(4)]
    looks = pd.DataFrame(times, columns=["update", "layer", "log"]).assign(aligned=0.5)
    looks["outputs"] = looks["outputs, variance"] = looks["log"] * np.tile([1, 1, -1, -1], 3)
    looks = looks.assign(queries=np.exp(looks["log"]), maps=np.exp(-looks["log"]))
    assert answers(looks) == pytest.approx({
        "queries rise": 1, "outputs rise": 0.5, "variance of outputs rises": 0.5,
        "done at batch ten": 0.75, "first layer over others": 0,
        "first layer over others, scale-free": 0, "first three over others": 4 / 3,
        "attention above over first": -1 - 1,
    })  # fmt: skip
