"""Every family of `transformers`: weights, gates and masks against the library's own eager path."""

import copy
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
import tiny_hugging
import torch
import transformers
from refusing import refuses
from tiny_hugging import DECODER, GROUPED, built, save
from torch import Tensor, nn

from headbook.models.capture import Point, capture
from headbook.models.edits import edited
from headbook.models.gates import FixedGate, closed
from headbook.released.hugging_face import GROWTH, SHORT, HuggingModel, load
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind

WORDS = [f"w{number}" for number in range(59)]
IDS = tiny_hugging.IDS | {"vocab_size": 64}
SIZE = DECODER | IDS | {"max_position_embeddings": 160}
LOCAL = GROUPED | IDS | {"sliding_window": 4}
RELATIVE = SIZE | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
LENGTHS = (1, 2, 9, 33)
CLOSE = {"rtol": 0, "atol": 1e-6}


FAMILIES = {
    "bert": ("BertForMaskedLM", SIZE),
    "albert": ("AlbertForMaskedLM", {**SIZE, "embedding_size": 8}),
    "modernbert": (
        "ModernBertForMaskedLM",
        {**SIZE, "cls_token_id": 2, "sep_token_id": 1, "local_attention": 8},
    ),
    "marian": (
        "MarianMTModel",
        {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
         "max_position_embeddings": 160, "decoder_start_token_id": 0, **IDS},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4,
         "decoder_start_token_id": 0, **IDS},
    ),
    "gpt2": (
        "GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 160, **IDS}
    ),
    "llama": ("LlamaForCausalLM", LOCAL),
    "gemma2": ("Gemma2ForCausalLM", LOCAL),
    "gpt-oss": (
        "GptOssForCausalLM",
        {**LOCAL, "num_local_experts": 2, "num_experts_per_tok": 1,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    ),
    "mpnet": ("MPNetForMaskedLM", SIZE),
    "deberta": ("DebertaForMaskedLM", RELATIVE),
    "deberta-v2": ("DebertaV2ForMaskedLM", RELATIVE),
    "bloom": ("BloomForCausalLM", {"hidden_size": 16, "n_layer": 2, "n_head": 4, **IDS}),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {"hidden_size": 16, "num_layers": 2, "num_heads": 4, "window_size": 4,
         "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 160, **IDS},
    ),
    "gptj": (
        "GPTJForCausalLM",
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 160, "rotary_dim": 4, **IDS},
    ),
    "falcon": ("FalconForCausalLM", SIZE),
}  # fmt: skip
PAIRED = {"marian", "t5"}
HOOKED = {"mpnet", "deberta", "deberta-v2", "bloom", "gpt_neo", "gptj", "falcon"}
CAUSAL = {"gpt2", "llama", "gemma2", "gpt-oss", "bloom", "gpt_neo", "gptj", "falcon"}
Folders = Callable[[str], Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Where a family's random model is saved; each is built once."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            name, config = FAMILIES[family]
            save(built(name, **config), WORDS, made[family])
        return made[family]

    return folder


def everything(model: HuggingModel, tokens: int = 10**6) -> list[Batch]:
    """All lengths in one ragged batch; cross-attention gets targets of other lengths."""
    given = [" ".join(WORDS[at % 59] for at in range(count, 2 * count)) for count in LENGTHS]
    return model.batches(
        given, given[::-1] if model.network.stacks == "encoder-decoder" else None, tokens
    )


def recorded(model: HuggingModel, batch: Batch, *points: Point) -> tuple[dict, Tensor]:
    points = points or (Point.WEIGHTS,)
    with torch.no_grad(), capture(model.network, set(points)) as tape:
        logits = model.network(batch)
    kinds = dict.fromkeys(kind for kind, _, _ in model.network.attentions())
    return {(kind, point): tape[kind, point] for kind in kinds for point in points}, logits


def library(folder: Path, family: str) -> nn.Module:
    known = getattr(transformers, FAMILIES[family][0])
    return known.from_pretrained(folder, attn_implementation="eager").eval()


@torch.no_grad()
def eager(folder: Path, family: str, batch: Batch) -> tuple[dict, Tensor]:
    model, options = library(folder, family), {"output_attentions": True}
    read, real = batch.source, batch.source_mask.long()
    if family in CAUSAL:
        read, real = batch.target_in, batch.target_mask.long()
    if family in CAUSAL | PAIRED:
        options["use_cache"] = False
    if family in PAIRED:
        options["decoder_input_ids"] = batch.target_in
        options["decoder_attention_mask"] = batch.target_mask.long()
    output = model(input_ids=read, attention_mask=real, **options)
    if family in PAIRED:
        return {kind: output[f"{kind}_attentions"] for kind in Kind}, output.logits
    return {Kind.DECODER if family in CAUSAL else Kind.ENCODER: output.attentions}, output.logits


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_logits_are_the_library_s_alone_and_in_a_padded_batch(
    family: str, folders: Folders
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    together, logits = recorded(model, batch)
    expected, expected_logits = eager(folders(family), family, batch)
    torch.testing.assert_close(logits, expected_logits, **CLOSE)
    assert {kind for kind, _ in together} == set(expected)
    for kind, layers in expected.items():
        torch.testing.assert_close(together[kind, Point.WEIGHTS], list(layers), **CLOSE)
    for alone in everything(model, tokens=1):
        row = batch.sentences.tolist().index(int(alone.sentences))
        for (kind, point), layers in recorded(model, alone)[0].items():
            for layer, weights in enumerate(layers):
                query, key = weights.shape[-2:]
                same = together[kind, point][layer][row : row + 1, :, :query, :key]
                torch.testing.assert_close(same, weights, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_of_zero_is_the_head_s_columns_of_w_o_at_zero(family: str, folders: Folders) -> None:
    gated, zeroed = load(folders(family)), load(folders(family))
    (batch,) = everything(gated)
    whole = gated.network(batch)
    # The layers of ALBERT share W_O.
    heads = [HeadId(kind, layer, block.heads - 1) for kind, layer, block
             in gated.network.attentions() if layer == 1 or family == "albert"]  # fmt: skip
    with torch.no_grad():
        for kind, layer, block in zeroed.network.attentions():
            if HeadId(kind, layer, block.heads - 1) in heads:
                weight = block.output_weight
                weight[:, -(weight.shape[1] // block.heads) :] = 0
        with closed(gated.network, heads):
            closed_logits = gated.network(batch)
    torch.testing.assert_close(closed_logits, zeroed.network(batch), **CLOSE)
    assert (closed_logits - whole).abs().max() > 1e-4
    torch.testing.assert_close(gated.network(batch), whole, **CLOSE)


def without_first(given: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(given[:, :1]), given[:, 1:]], dim=1)


@pytest.mark.parametrize("family", ["t5", "llama", "mpnet"])
def test_an_edit_of_a_head_s_weights_or_context_to_zero_is_the_closed_head(
    family: str, folders: Folders
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    place = next(iter(model.network.attentions()))[:2]
    with torch.no_grad():
        whole = model.network(batch)
        with closed(model.network, [HeadId(*place, 0)]):
            without = model.network(batch)
        for point in (Point.CONTEXT,) if family in HOOKED else (Point.WEIGHTS, Point.CONTEXT):
            with edited(model.network, {place: {point: without_first}}):
                torch.testing.assert_close(model.network(batch), without, **CLOSE)
        assert (without - whole).abs().max() > 1e-4


@pytest.mark.parametrize("family", [each for each in FAMILIES if each not in HOOKED])
def test_scores_and_values_give_weights_and_contexts(family: str, folders: Folders) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    parts = (Point.SCORES, Point.WEIGHTS, Point.KEYS, Point.VALUES, Point.CONTEXT)
    given, _ = recorded(model, batch, *parts)
    for kind in dict.fromkeys(kind for kind, _ in given):
        for scores, weights, keys, values, context in zip(
            *(given[kind, part] for part in parts), strict=True
        ):
            assert keys.shape[:3] == values.shape[:3]
            torch.testing.assert_close(weights @ values, context, rtol=0, atol=1e-5)
            share = weights.sum(-1, keepdim=True)  # less than one where a sink took the rest
            assert (share.min() < 0.99) == (family == "gpt-oss")
            seen = ~scores.isneginf().all(-1)  # not so where a padded query's window is empty
            given_by_scores = (scores.softmax(-1) * share)[seen]
            torch.testing.assert_close(given_by_scores, weights[seen], rtol=0, atol=1e-5)
            assert (scores.isneginf() == (weights == 0))[seen].all()


@pytest.mark.parametrize("family", ["mpnet", "albert"])
def test_tied_layers_and_copies_have_hooks_and_gates_of_their_own(
    family: str, folders: Folders
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    changed, both = [], [model.network, copy.deepcopy(model.network)]
    with torch.no_grad():
        whole = model.network(batch)
        for layer, network in enumerate(both):
            with closed(network, [HeadId(Kind.ENCODER, layer, 0)]):
                changed.append(network(batch))
                torch.testing.assert_close(both[1 - layer](batch), whole)
    changed.append(whole)
    assert min((one - other).abs().max() for one, other in combinations(changed, 2)) > 1e-4


@pytest.mark.parametrize("family", ["marian", "t5", "gpt2"])
def test_losses_are_the_library_s(family: str, folders: Folders) -> None:
    model = load(folders(family))
    (batch,) = model.batches(["w1 w2 w3"], *((["w3 w4 w5"],) if family in PAIRED else ()))
    given = {"input_ids": batch.source, "labels": batch.target_out}
    if family in CAUSAL:
        given = {"input_ids": batch.target_in, "labels": batch.target_in}
    losses = model.losses(batch)
    assert losses.shape == (4 if family in PAIRED else 3,) and losses.requires_grad
    torch.testing.assert_close(losses.mean(), library(folders(family), family)(**given).loss)


def test_losses_of_a_masked_language_model_do_not_depend_on_the_batch(folders: Folders) -> None:
    model = load(folders("bert"))
    (together,) = everything(model)
    alone = {int(batch.sentences): model.losses(batch) for batch in everything(model, tokens=1)}
    assert [len(alone[sentence]) for sentence in range(len(LENGTHS))] == [1, 1, 1, 5]
    expected = torch.cat([alone[sentence] for sentence in together.sentences.tolist()])
    torch.testing.assert_close(model.losses(together), expected, rtol=0, atol=1e-5)
    assert not (model.predicted(together) & together.source_boundary).any()


@pytest.mark.parametrize("family", sorted(PAIRED))
def test_translations_are_the_library_s_and_gates_change_them(
    family: str, folders: Folders
) -> None:
    model, other = load(folders(family)), library(folders(family), family)
    given, expected = ["w1 w2 w3 w4 w5", "w7 w8 w9 w10 w11"], []
    for sentence in given:
        (batch,) = model.batches([sentence])
        longest = SHORT + GROWTH * batch.source.shape[1]
        ids = other.generate(batch.source, num_beams=1, do_sample=False, max_new_tokens=longest)
        expected.append(model.text.tokenizer.decode(ids[0], skip_special_tokens=True))
    assert model.translate(given) == expected
    for _, _, block in model.network.attentions():
        block.gate = FixedGate(torch.full((block.heads,), -9.0))
    assert model.translate(given) != expected


def test_what_cannot_be_done_is_one_line(folders: Folders) -> None:
    decoder, bert = load(folders("gpt2")), load(folders("bert"))
    refuses(lambda: decoder.translate(["w1"]), "does not translate")
    refuses(lambda: decoder.encoded(decoder.batches(["w1"])[0]), "need an encoder")
    refuses(lambda: decoder.batches(["w1"], ["w2"]), "takes no targets")
    hooked = load(folders("mpnet"))
    weights = {(Kind.ENCODER, 0): {Point.WEIGHTS: without_first}}
    refuses(lambda: edited(hooked.network, weights).__enter__(), "only context")
    (batch,) = everything(bert)
    for each in (bert, hooked):
        each.network.train()
        with pytest.raises(RuntimeError, match=r"call eval\(\)"):
            recorded(each, batch)
