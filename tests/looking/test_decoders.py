"""Decoders: their measures against numpy on a ragged batch, planted heads, and what is ablated."""

import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from small import told
from tiny_hugging import GROUPED, IDS, built, save

import headbook as hb
from headbook.heads.collect import layer_sums
from headbook.heads.recording import Recording
from headbook.heads.repeats import DUPLICATE, INDUCTION, REPEATS, SHUFFLED, repeated
from headbook.heads.scores import first
from headbook.looking import measure as measuring
from headbook.looking.measured import measured
from headbook.looking.random_tokens import unembedding
from headbook.looking.roles import DUPLICATES, INDUCES, SINK
from headbook.looking.text import Text
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind

LENGTHS = (1, 2, 9, 33)
WORDS = [f"w{each}" for each in range(80)]
LAYERS, HEADS, DIM = 2, 6, 4


@pytest.fixture(scope="module")
def sentences() -> tuple[str, ...]:
    generator = np.random.default_rng(0)
    return tuple(" ".join(generator.choice(WORDS, size)) for size in LENGTHS)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, sentences: tuple[str, ...]) -> Loaded:
    folder = tmp_path_factory.mktemp("llama")
    save(built("LlamaForCausalLM", **GROUPED), WORDS, folder)
    return hb.load(folder)


@pytest.fixture(scope="module")
def table(tiny: Loaded, sentences: tuple[str, ...]) -> pd.DataFrame:
    text = Text("ragged", sentences, (), "none")
    return hb.measure(tiny, text, nulls=2, progress=False)


def weights_of(tiny: Loaded, ids: torch.Tensor) -> np.ndarray:
    """[sentence, layer, head, query, key] by the library's own eager attention."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tiny.origin.removeprefix("the folder "), attn_implementation="eager"
    )
    with torch.no_grad():
        return torch.stack(model(input_ids=ids, output_attentions=True).attentions, 1).numpy()


def test_measures_of_causal_attention_are_numpy_s(
    table: pd.DataFrame, tiny: Loaded, sentences: tuple[str, ...]
):
    first, sides, chance, tokens = 0, np.zeros((2, LAYERS, HEADS)), np.zeros(2), np.zeros(2)
    for sentence in sentences:
        weights = weights_of(tiny, torch.tensor([tiny.text.encoded(sentence).ids]))
        own = weights[0, :, :, :-1, :-1]  # the last token is special
        for query in range(own.shape[-1]):
            chance += np.array([1, query > 0]) / (query + 1)
            tokens += [1, query > 0]
            if query:
                first = first + own[:, :, query, 0]
                sides += [own[:, :, query].max(-1), own[:, :, query, 1:].max(-1)]
    expected = {
        "first": first / tokens[1],
        "confidence_with_first": sides[0] / tokens[1],
        "confidence_without_first": sides[1] / tokens[1],
        "own_chance": np.full((LAYERS, HEADS), chance[0] / tokens[0]),
        "previous_chance": np.full((LAYERS, HEADS), chance[1] / tokens[1]),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values.ravel(), rtol=1e-4, err_msg=name)
    assert "next" not in table


def test_induction_and_duplicates_are_the_weights_at_their_places(
    table: pd.DataFrame, tiny: Loaded
):
    """No start token here: 25 random tokens, and again."""
    weights = weights_of(tiny, repeated(tiny.vocabulary).target_in)
    sums = np.zeros((2, LAYERS, HEADS))
    for query in range(25, 50):
        sums[DUPLICATE] += weights[..., query, query - 25].mean(0) / 25
        sums[INDUCTION] += weights[..., query, query - 24].mean(0) / 25
    np.testing.assert_allclose(table["duplicate"], sums[DUPLICATE].ravel(), rtol=1e-4)
    np.testing.assert_allclose(table["induction"], sums[INDUCTION].ravel(), rtol=1e-4)


def test_random_tokens_are_no_special_ones_and_repeat(tiny: Loaded):
    plain, shuffled = (
        repeated(tiny.vocabulary, [1], 9, 5, shuffled=each).target_in for each in (False, True)
    )
    special = set(tiny.text.tokenizer.all_special_ids)
    assert (plain[:, 0] == 1).all() and not special & set(plain[:, 1:].flatten().tolist())
    (first, second), (other, turned) = (each[:, 1:].chunk(2, 1) for each in (plain, shuffled))
    assert torch.equal(first, second) and all(len(set(row)) == 9 for row in first.tolist())
    assert torch.equal(other, first) and not torch.equal(turned, first)
    assert torch.equal(turned.sort().values, first.sort().values)


def test_copying_is_the_logit_of_what_is_looked_at(tiny: Loaded, table: pd.DataFrame):
    """By a forward pass of the parts: value, W_O, last norm without its length, unembedding."""
    batch = repeated(tiny.vocabulary, halves=1)
    model = tiny.network.model
    with torch.no_grad(), capture(tiny.network, {Point.VALUES}) as tape:
        tiny.network(batch)
    rows = model.lm_head.weight * model.model.norm.weight
    expected = np.zeros((LAYERS, HEADS))
    for layer, values in enumerate(tape[Kind.DECODER, Point.VALUES]):
        out = model.model.layers[layer].self_attn.o_proj.weight
        for head in range(HEADS):
            part = out[:, head * DIM : (head + 1) * DIM]
            for row, ids in zip(values[:, head], batch.target_in, strict=True):
                logits = row @ part.T @ rows[ids].T
                expected[layer, head] += float((logits.argmax(1) == torch.arange(25)).sum())
    np.testing.assert_allclose(table["copying"], expected.ravel() / (16 * 25))


def test_the_unembedding_behind_a_centring_norm_is_what_moves_a_logit():
    """Against the gradient of a logit, along directions that leave the state's length alone."""
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=90, n_embd=16, n_layer=1, n_head=2)
    )
    norm = model.transformer.ln_f
    torch.nn.init.normal_(norm.weight)
    (rows,) = unembedding(model, torch.tensor([[7]]))
    state = torch.randn(16)
    state = (state - state.mean()).requires_grad_()
    logit = model.get_output_embeddings()(norm(state))[7]
    (gradient,) = torch.autograd.grad(logit, state)
    state = state.detach()
    along = rows[0] - state * (rows[0] @ state) / (state @ state)
    assert torch.cosine_similarity(along, gradient, dim=0) == pytest.approx(1, abs=1e-4)


def test_planted_heads_of_random_tokens_have_their_roles(table: pd.DataFrame):
    """The table's own sums with one head that looks behind the copy, one at it, one at token 1."""
    sums = dict(measured(table).sums[Kind.DECODER])
    for name, at in (
        (REPEATS, (..., 0, INDUCTION, INDUCTION)),
        (REPEATS, (..., 0, DUPLICATE, DUPLICATE)),
        ("first", (slice(None), slice(None), 0, 2)),
    ):
        numerator = sums[name].numerator.clone()
        numerator[at] = sums[name].denominator.expand_as(numerator)[at]
        sums[name] = replace(sums[name], numerator=numerator)
    found = hb.roles(told(table, sums={Kind.DECODER: sums}))
    held = {(row.role, row.layer, row.head) for row in found.itertuples() if row.score == 1}
    assert {(INDUCES, 1, 2), (DUPLICATES, 1, 1), (SINK, 1, 3)} <= held
    every = hb.roles(table, held=False)
    rows = every[every["role"] == INDUCES].sort_values(["layer", "head"])
    shuffled = sums[SHUFFLED][INDUCTION].ratio(1).flatten().numpy()
    np.testing.assert_allclose(rows["baseline"], shuffled)


def test_the_heads_that_the_gradient_puts_first_are_removed(
    sentences: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
):
    monkeypatch.setattr(measuring, "SHORT", 0)
    shape = {"vocab_size": 400, "n_positions": 80, "n_embd": 24, "n_layer": 2, "n_head": 12}
    save(built("GPT2LMHeadModel", **shape, **IDS), WORDS, tmp_path)
    wide, text = hb.load(tmp_path), Text("ragged", sentences[1:], (), "none")
    found = hb.measure(wide, text, nulls=0, diverse=False)
    assert "16 of 24" in capsys.readouterr().err
    removed, gradient = found["importance_ablation"].notna(), found["importance_gradient"]
    assert removed.sum() == 16 and gradient[removed].min() >= gradient[~removed].max()
    every = hb.measure(wide, text, ablated="all", nulls=0, diverse=False, progress=False)
    assert every["importance_ablation"].notna().all()
    columns = ["importance_ablation", "importance_ablation_low", "importance_ablation_high"]
    pd.testing.assert_frame_equal(found[removed][columns], every[removed][columns])


def test_one_layers_weights_are_held_at_a_time(tiny: Loaded, sentences: tuple[str, ...]):
    seen, most = [], []

    def watch(tape: Recording, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        (weights,) = tape[Kind.DECODER, Point.WEIGHTS]
        seen.append(weakref.ref(weights))
        most.append(sum(each() is not None for each in seen))
        return first(tape, batch)

    layer_sums(tiny.network, tiny.batches(sentences, None, 1), Kind.DECODER, {"": watch})
    assert len(seen) == LAYERS * len(LENGTHS) and max(most) == 1
