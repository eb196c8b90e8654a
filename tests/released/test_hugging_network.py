"""Every family of `transformers`: weights, gates and masks against the library's own eager path."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

from headbook.heads.collect import recordings
from headbook.heads.scores import confidence
from headbook.models.capture import Point, capture
from headbook.models.edits import edited
from headbook.models.gates import FixedGate, closed
from headbook.released import tap
from headbook.released.hugging_face import GROWTH, SHORT, HuggingModel, load
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind, UserError

SPECIAL = ["<pad>", "</s>", "<s>", "<unk>", "<mask>"]
WORDS = [f"w{number}" for number in range(59)]
VOCABULARY = len(SPECIAL) + len(WORDS)
IDS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
SIZE = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 32, "max_position_embeddings": 160, **IDS,
}  # fmt: skip
PAIR = {
    "vocab_size": VOCABULARY, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "max_position_embeddings": 160, "decoder_start_token_id": 0, **IDS,
}  # fmt: skip
OLD = {
    "vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 160, **IDS
}  # fmt: skip
GROUPED = {**SIZE, "num_key_value_heads": 2, "head_dim": 4}
LENGTHS = (1, 2, 9, 33, 129)
CLOSE = {"rtol": 0, "atol": 1e-6}


@dataclass(frozen=True)
class Family:
    """A class with its small configuration, and where W_O stands beside the attention module."""

    architecture: str
    config: dict
    projection: Callable[[str], str]

    def built(self) -> nn.Module:
        torch.manual_seed(7)
        known = getattr(transformers, self.architecture)
        model = known(known.config_class(**self.config, attn_implementation="eager")).eval()
        # As the library starts them, weights are so small that every head is nearly uniform.
        for weight in model.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight.data, std=0.25)
        return model


def _beside(name: str) -> str:
    return name.removesuffix("self") + "output.dense"


FAMILIES = {
    "bert": Family("BertForMaskedLM", SIZE, _beside),
    "roberta": Family("RobertaForMaskedLM", {**SIZE, "max_position_embeddings": 140}, _beside),
    "distilbert": Family(
        "DistilBertForMaskedLM",
        {"vocab_size": VOCABULARY, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 32,
         "max_position_embeddings": 160, **IDS},
        "{}.out_lin".format,
    ),
    "albert": Family("AlbertForMaskedLM", {**SIZE, "embedding_size": 8}, "{}.dense".format),
    "modernbert": Family(
        "ModernBertForMaskedLM",
        {**SIZE, "cls_token_id": 2, "sep_token_id": 1, "local_attention": 8},
        "{}.Wo".format,
    ),
    "marian": Family("MarianMTModel", PAIR, "{}.out_proj".format),
    "bart": Family("BartForConditionalGeneration", PAIR, "{}.out_proj".format),
    "nllb": Family("M2M100ForConditionalGeneration", PAIR, "{}.out_proj".format),
    "t5": Family(
        "T5ForConditionalGeneration",
        {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2,
         "num_heads": 4, "decoder_start_token_id": 0, **IDS},
        "{}.o".format,
    ),
    "gpt2": Family("GPT2LMHeadModel", OLD, "{}.c_proj".format),
    "llama": Family("LlamaForCausalLM", GROUPED, "{}.o_proj".format),
    "mistral": Family("MistralForCausalLM", {**GROUPED, "sliding_window": 4}, "{}.o_proj".format),
    "gemma2": Family("Gemma2ForCausalLM", {**GROUPED, "sliding_window": 4}, "{}.o_proj".format),
    "gpt-oss": Family(
        "GptOssForCausalLM",
        {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        "{}.o_proj".format,
    ),
    "mpnet": Family("MPNetForMaskedLM", SIZE, str),
    "deberta": Family(
        "DebertaV2ForMaskedLM", {**SIZE, "relative_attention": True, "pos_att_type": ["c2p"]}, str
    ),
    "gpt-neo": Family(
        "GPTNeoForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 16, "num_layers": 2, "num_heads": 4,
         "attention_types": [[["global", "local"], 1]], "window_size": 4,
         "max_position_embeddings": 160, **IDS},
        str,
    ),
    "gpt-j": Family("GPTJForCausalLM", {**OLD, "rotary_dim": 4}, str),
    "bloom": Family(
        "BloomForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 2, "n_head": 4, **IDS},
        str,
    ),
    "falcon": Family("FalconForCausalLM", SIZE, str),
}  # fmt: skip
HOOKED = {"mpnet", "deberta", "gpt-neo", "gpt-j", "bloom", "falcon"}
PAIRED = {"marian", "bart", "nllb", "t5"}
CAUSAL = {
    "gpt2", "llama", "mistral", "gemma2", "gpt-oss", "gpt-neo", "gpt-j", "bloom", "falcon",
}  # fmt: skip


def save_tokenizer(folder: Path, around: str, **named: object) -> None:
    """A tokenizer of words w0 … w58; `around` is what it adds, such as `<s> $A </s>`."""
    vocabulary = {token: at for at, token in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[("<s>", 2), ("</s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", bos_token="<s>",
        unk_token="<unk>", mask_token="<mask>", **named,
    ).save_pretrained(folder)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where a family's random model is saved, with its tokenizer; each is built once."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            FAMILIES[family].built().save_pretrained(made[family])
            around = "$A </s>" if family in PAIRED else "<s> $A </s>"
            save_tokenizer(made[family], "<s> $A" if family in CAUSAL else around)
        return made[family]

    return folder


def sentences() -> list[str]:
    return [" ".join(WORDS[at % 59] for at in range(count, 2 * count)) for count in LENGTHS]


def everything(model: HuggingModel, tokens: int = 10**6) -> list[Batch]:
    """All lengths in one ragged batch; cross-attention gets targets of other lengths."""
    if model.network.stacks == "encoder-decoder":
        return model.batches(sentences(), sentences()[::-1], tokens)
    return model.batches(sentences(), tokens=tokens)


def recorded(model: HuggingModel, batch: Batch, *points: Point) -> tuple[dict, Tensor]:
    points = points or (Point.WEIGHTS,)
    with torch.no_grad(), capture(model.network, set(points)) as tape:
        logits = model.network(batch)
    kinds = dict.fromkeys(kind for kind, _, _ in model.network.attentions())
    return {(kind, point): tape[kind, point] for kind in kinds for point in points}, logits


def eager(folder: Path, family: str, batch: Batch) -> tuple[dict, Tensor]:
    """Weights and logits as the library gives them without any tap."""
    known = getattr(transformers, FAMILIES[family].architecture)
    model = known.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
    if family in CAUSAL:
        inputs = {"input_ids": batch.target_in, "attention_mask": batch.target_mask.long()}
    if family in PAIRED:
        inputs |= {
            "decoder_input_ids": batch.target_in,
            "decoder_attention_mask": batch.target_mask.long(),
        }
    with torch.no_grad():
        output = model(**inputs, output_attentions=True, use_cache=False, return_dict=True) if (
            family in CAUSAL | PAIRED
        ) else model(**inputs, output_attentions=True, return_dict=True)  # fmt: skip
    if family in PAIRED:
        weights = {
            Kind.ENCODER: output.encoder_attentions,
            Kind.DECODER: output.decoder_attentions,
            Kind.CROSS: output.cross_attentions,
        }
    else:
        weights = {Kind.DECODER if family in CAUSAL else Kind.ENCODER: output.attentions}
    return weights, output.logits


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_logits_are_those_of_the_eager_path(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    assert model.network.hooked == (family in HOOKED)
    (batch,) = everything(model)
    given, logits = recorded(model, batch)
    expected, expected_logits = eager(folders(family), family, batch)
    torch.testing.assert_close(logits, expected_logits, **CLOSE)
    assert {kind for kind, _ in given} == set(expected)
    for kind, layers in expected.items():
        assert len(given[kind, Point.WEIGHTS]) == len(layers) == 2
        for one, two in zip(given[kind, Point.WEIGHTS], layers, strict=True):
            torch.testing.assert_close(one, two, **CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sentence_in_a_padded_batch_is_the_sentence_alone(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    together, _ = recorded(model, batch)
    for alone in everything(model, tokens=1):
        row = batch.sentences.tolist().index(int(alone.sentences))
        for (kind, point), layers in recorded(model, alone)[0].items():
            for layer, weights in enumerate(layers):
                query, key = weights.shape[-2:]
                same = together[kind, point][layer][row : row + 1, :, :query, :key]
                torch.testing.assert_close(same, weights, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", sorted(CAUSAL | PAIRED))
def test_no_token_sees_the_future_or_padding(family: str, folders: Callable[[str], Path]) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    given, _ = recorded(model, batch)
    for weights in given[Kind.DECODER, Point.WEIGHTS]:
        # A padded query may have no key at all in its window, and then a softmax of nothing.
        assert (weights.triu(1).movedim(1, -1)[batch.target_mask] == 0).all()
    for kind in set(Kind) & {kind for kind, _ in given} - {Kind.DECODER}:
        for weights in given[kind, Point.WEIGHTS]:
            padded = weights.masked_select(~batch.source_mask[:, None, None])
            assert len(padded) and (padded == 0).all()


def test_without_its_mask_registered_a_causal_model_would_see_the_future(
    folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault of the test above."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as MASKS

    model = load(folders("gpt2"))
    mapping = {name: mask for name, mask in MASKS._global_mapping.items() if name != tap.NAME}
    monkeypatch.setattr(type(MASKS), "_global_mapping", mapping)
    (batch,) = everything(model)
    seen = recorded(model, batch)[0][Kind.DECODER, Point.WEIGHTS][0]
    assert (seen.triu(1) > 0).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_of_zero_is_the_head_s_columns_of_w_o_at_zero(
    family: str, folders: Callable[[str], Path]
) -> None:
    gated, zeroed = load(folders(family)), load(folders(family))
    (batch,) = everything(gated)
    places = dict(zeroed.network.model.named_modules())
    whole = gated.network(batch)
    heads = [
        HeadId(kind, layer, block.heads - 1)
        for kind, layer, block in gated.network.attentions()
        # the layers of ALBERT share W_O
        if layer == 1 or family == "albert"
    ]
    for kind, layer, block in zeroed.network.attentions():
        if HeadId(kind, layer, block.heads - 1) in heads:
            weight = places[FAMILIES[family].projection(block.name)].weight.data
            inputs = weight if family == "gpt2" else weight.T
            inputs[-(len(inputs) // block.heads) :] = 0
    with torch.no_grad(), closed(gated.network, heads):
        closed_logits = gated.network(batch)
    torch.testing.assert_close(closed_logits, zeroed.network(batch), **CLOSE)
    assert (closed_logits - whole).abs().max() > 1e-4
    torch.testing.assert_close(gated.network(batch), whole, **CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
def test_w_o_is_found_whatever_the_architecture_calls_it(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    places = dict(model.network.model.named_modules())
    for _, _, block in model.network.attentions():
        weight = places[FAMILIES[family].projection(block.name)].weight
        assert torch.equal(block.output_weight, weight.T if family == "gpt2" else weight)


class Learned(nn.Module):
    def __init__(self, multipliers: Tensor) -> None:
        super().__init__()
        self.multipliers = nn.Parameter(multipliers)

    def forward(self) -> Tensor:
        return self.multipliers


@pytest.mark.parametrize("family", ["bert", "albert", "t5", "marian", "gpt2", "llama", "mpnet"])
def test_gradients_of_gates_are_finite_differences(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    network = model.network.double()
    # T5 and Llama normalise in single precision whatever their weights are.
    size, close = (1e-2, 1e-2) if family in {"t5", "llama"} else (1e-5, 1e-5)
    pair = (["w1 w2 w3", "w4"],) * (2 if family in PAIRED else 1)
    (batch,) = model.batches(*pair)
    for _, _, block in network.attentions():
        block.gate = Learned(torch.ones(block.heads, dtype=torch.float64))
    network(batch).square().mean().backward()
    for kind, layer, block in network.attentions():
        ends = []
        for step in (size, -size):
            block.gate.multipliers.data[1] += step
            with torch.no_grad():
                ends.append(network(batch).square().mean())
            block.gate.multipliers.data[1] -= step
        slope = float(ends[0] - ends[1]) / (2 * size)
        assert float(block.gate.multipliers.grad[1]) == pytest.approx(slope, rel=close), (
            kind,
            layer,
        )


@pytest.mark.parametrize("family", ["bert", "gpt-j"])
def test_a_gate_may_differ_from_sentence_to_sentence(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = model.batches(["w1 w2 w3", "w4 w5 w6"])
    block = next(iter(model.network.attentions()))[2]
    whole = model.network(batch)
    block.gate = Learned(torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]))
    gated = model.network(batch)
    torch.testing.assert_close(gated[0], whole[0])
    assert (gated[1] - whole[1]).abs().max() > 1e-4


def without_first(given: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(given[:, :1]), given[:, 1:]], dim=1)


@pytest.mark.parametrize("family", ["bert", "t5", "llama", "gpt-j"])
def test_an_edit_of_a_head_s_weights_or_context_to_zero_is_the_closed_head(
    family: str, folders: Callable[[str], Path]
) -> None:
    """Llama's heads share values in groups; GPT-J's weights are out of reach."""
    model = load(folders(family))
    (batch,) = everything(model)
    place = next(iter(model.network.attentions()))[:2]
    with torch.no_grad():
        whole = model.network(batch)
        with closed(model.network, [HeadId(*place, 0)]):
            without = model.network(batch)
        for point in (Point.WEIGHTS, Point.CONTEXT):
            if family == "gpt-j" and point is Point.WEIGHTS:
                with (
                    pytest.raises(UserError, match="weights of this model cannot be edited"),
                    edited(model.network, {place: {point: without_first}}),
                ):
                    pass
                continue
            with edited(model.network, {place: {point: without_first}}):
                torch.testing.assert_close(model.network(batch), without, **CLOSE)
            with edited(model.network, {place: {point: lambda given: given}}):
                torch.testing.assert_close(model.network(batch), whole, **CLOSE)
        assert (without - whole).abs().max() > 1e-4


@pytest.mark.parametrize("family", ["bert", "gpt-j"])
def test_contexts_are_in_the_graph_and_are_weights_times_values(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    kind = Kind.DECODER if family in CAUSAL else Kind.ENCODER
    with capture(model.network, {Point.CONTEXT}) as tape:
        logits = model.network(batch)
    gradients = torch.autograd.grad(logits.square().sum(), tape[kind, Point.CONTEXT])
    assert all(each.abs().max() > 0 for each in gradients)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - HOOKED))
def test_scores_and_values_give_weights_and_contexts(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    given, _ = recorded(model, batch, *set(Point) - {Point.OUTPUT})
    for kind in dict.fromkeys(kind for kind, _ in given):
        parts = (Point.SCORES, Point.WEIGHTS, Point.KEYS, Point.VALUES, Point.CONTEXT)
        for scores, weights, keys, values, context in zip(
            *(given[kind, part] for part in parts), strict=True
        ):
            assert keys.shape[:3] == values.shape[:3]
            torch.testing.assert_close(weights @ values, context, rtol=0, atol=1e-5)
            share = weights.sum(-1, keepdim=True)
            seen = ~scores.isneginf().all(-1)  # not so where a padded query's window is empty
            given_by_scores = (scores.softmax(-1) * share)[seen]
            torch.testing.assert_close(given_by_scores, weights[seen], rtol=0, atol=1e-5)
            assert (scores.isneginf() == (weights == 0))[seen].all()


def test_t5_s_scores_are_unscaled_and_hold_its_position_bias(
    folders: Callable[[str], Path],
) -> None:
    model = load(folders("t5"))
    (batch,) = everything(model)
    points = (Point.SCORES, Point.QUERIES, Point.KEYS)
    given = recorded(model, batch, *points)[0]
    scores, queries, keys = (given[Kind.ENCODER, point][1] for point in points)
    bias = (scores - queries @ keys.transpose(-2, -1))[-1, 0]
    real = int(batch.source_mask[-1].sum())
    diagonals = [bias[:real, :real].diagonal(offset) for offset in (-1, 0, 1)]
    for diagonal in diagonals:  # one number per offset
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)
    assert (diagonals[0][0] - diagonals[2][0]).abs() > 1e-3


def test_rows_of_a_model_with_sinks_lack_what_the_sink_took(
    folders: Callable[[str], Path],
) -> None:
    model = load(folders("gpt-oss"))
    block = model.network.model.model.layers[0].self_attn
    block.sinks.data.fill_(1.0)
    (batch,) = model.batches(["w1"])
    given = recorded(model, batch, Point.WEIGHTS, Point.SCORES)[0]
    weights = given[Kind.DECODER, Point.WEIGHTS][0]
    scores = given[Kind.DECODER, Point.SCORES][0]
    total = scores.exp().sum(-1) + torch.e
    torch.testing.assert_close(tap.sink(weights), torch.e / total)
    assert (tap.sink(weights) > 0.1).all()


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gpt-neo"])
def test_only_keys_in_a_sliding_window_have_weight(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    local = 1 if family == "gpt-neo" else 0
    weights = recorded(model, batch)[0][Kind.DECODER, Point.WEIGHTS][local][-1]
    assert batch.target_mask[-1].all()
    assert (weights.tril(-4) == 0).all()
    row = weights[:, 20]
    assert (row[:, 17:21] > 0).all()
    torch.testing.assert_close(row.sum(-1), torch.ones(4))


def test_heads_that_share_keys_are_blocks_of_query_heads(folders: Callable[[str], Path]) -> None:
    model = load(folders("llama"))
    blocks = [block for _, _, block in model.network.attentions()]
    assert [(block.heads, block.key_value_heads) for block in blocks] == [(4, 2), (4, 2)]
    (batch,) = everything(model)
    keys = recorded(model, batch, Point.KEYS)[0][Kind.DECODER, Point.KEYS][0]
    assert keys.shape[1] == 4
    assert (keys[:, 0] == keys[:, 1]).all() and not (keys[:, 1] == keys[:, 2]).all()


def test_tied_layers_are_blocks_of_their_own(folders: Callable[[str], Path]) -> None:
    model = load(folders("albert"))
    (batch,) = everything(model)
    one, two = recorded(model, batch)[0][Kind.ENCODER, Point.WEIGHTS]
    assert (one - two).abs().max() > 1e-4
    whole = model.network(batch)
    with torch.no_grad(), closed(model.network, [HeadId(Kind.ENCODER, 1, 0)]):
        upper = model.network(batch)
        again = recorded(model, batch)[0][Kind.ENCODER, Point.WEIGHTS]
    torch.testing.assert_close(again, [one, two])
    with torch.no_grad(), closed(model.network, [HeadId(Kind.ENCODER, 0, 0)]):
        lower = model.network(batch)
    assert min((upper - lower).abs().max(), (upper - whole).abs().max()) > 1e-4


def test_a_layer_that_does_not_record_is_an_error(folders: Callable[[str], Path]) -> None:
    model = load(folders("bert"))
    encoder = model.network.model.bert.encoder
    encoder.layer = encoder.layer[:1]
    with pytest.raises(RuntimeError, match="called 0 times"):
        recorded(model, everything(model)[0])


def test_an_architecture_that_cannot_be_reached_is_refused(tmp_path: Path) -> None:
    config = transformers.XLNetConfig(
        vocab_size=VOCABULARY, d_model=16, n_layer=2, n_head=4, d_inner=32
    )
    transformers.XLNetModel(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, "$A </s>")
    with pytest.raises(UserError, match="xlnet: this architecture does not use"):
        load(tmp_path)


def test_recording_in_training_with_dropout_is_refused(folders: Callable[[str], Path]) -> None:
    model = load(folders("bert"))
    model.network.train()
    with pytest.raises(RuntimeError, match=r"call eval\(\)"):
        recorded(model, everything(model)[0])


@pytest.mark.parametrize("family", ["bert", "albert", "mpnet"])
def test_a_copy_records_and_gates_itself(family: str, folders: Callable[[str], Path]) -> None:
    model = load(folders(family))
    (batch,) = everything(model)
    other = copy.deepcopy(model.network)
    block = next(iter(other.attentions()))[2]
    block.gate = FixedGate(torch.zeros(4))
    assert (other(batch) - model.network(batch)).abs().max() > 1e-4
    with capture(other, {Point.WEIGHTS}) as tape:
        other(batch)
    torch.testing.assert_close(
        tape[Kind.ENCODER, Point.WEIGHTS][0],
        recorded(model, batch)[0][Kind.ENCODER, Point.WEIGHTS][0],
    )


@pytest.mark.parametrize("family", ["bert", "marian", "gpt2"])
def test_measures_run_on_it(family: str, folders: Callable[[str], Path]) -> None:
    model = load(folders(family))
    kind = Kind.DECODER if family in CAUSAL else Kind.ENCODER
    for tape, batch in recordings(model.network, model.batches(["w1 w2 w3", "w4 w5"])):
        hits, asked = confidence(tape, batch, kind)
        assert hits.shape == (len(batch), 2, 4) and ((hits > 0) & (hits <= asked)).all()


@pytest.mark.parametrize("family", sorted(PAIRED))
def test_losses_of_a_translation_model_are_the_library_s(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    (batch,) = model.batches(["w1 w2"], ["w3 w4 w5"])
    known = getattr(transformers, FAMILIES[family].architecture)
    other = known.from_pretrained(folders(family)).eval()
    with torch.no_grad():
        loss = other(input_ids=batch.source, labels=batch.target_out).loss
    losses = model.losses(batch)
    assert losses.shape == (4,) and losses.requires_grad
    torch.testing.assert_close(losses.mean(), loss)


def test_losses_of_a_decoder_are_the_library_s(folders: Callable[[str], Path]) -> None:
    model = load(folders("gpt2"))
    (batch,) = model.batches(["w1 w2 w3"])
    other = transformers.GPT2LMHeadModel.from_pretrained(folders("gpt2")).eval()
    with torch.no_grad():
        loss = other(input_ids=batch.target_in, labels=batch.target_in).loss
    torch.testing.assert_close(model.losses(batch).mean(), loss)
    assert len(model.losses(batch)) == int(model.predicted(batch).sum()) == 3


def test_losses_of_a_masked_language_model_do_not_depend_on_the_batch(
    folders: Callable[[str], Path],
) -> None:
    model = load(folders("bert"))
    (together,) = everything(model)
    alone = [(int(batch.sentences), model.losses(batch)) for batch in everything(model, tokens=1)]
    assert [len(losses) for _, losses in sorted(alone, key=lambda one: one[0])] == [1, 1, 1, 5, 19]
    order = {sentence: losses for sentence, losses in alone}
    expected = torch.cat([order[sentence] for sentence in together.sentences.tolist()])
    torch.testing.assert_close(model.losses(together), expected, rtol=0, atol=1e-5)
    hidden = model.predicted(together)
    assert not (hidden & together.source_boundary).any()


@pytest.mark.parametrize("family", sorted(PAIRED))
def test_translations_are_the_library_s_and_gates_change_them(
    family: str, folders: Callable[[str], Path]
) -> None:
    model = load(folders(family))
    given = ["w1 w2 w3 w4 w5", "w7 w8 w9 w10 w11"]
    known = getattr(transformers, FAMILIES[family].architecture)
    other = known.from_pretrained(folders(family)).eval()
    expected = []
    for sentence in given:
        (batch,) = model.batches([sentence])
        longest = SHORT + GROWTH * batch.source.shape[1]
        ids = other.generate(batch.source, num_beams=1, do_sample=False, max_new_tokens=longest)
        expected.append(model.text.tokenizer.decode(ids[0], skip_special_tokens=True))
    assert model.translate(given) == expected
    (batch,) = model.batches([given[0]])
    before = model.network.generate(batch, max_new_tokens=8)
    for _, _, block in model.network.attentions():
        block.gate = FixedGate(torch.full((block.heads,), -9.0))
    assert not torch.equal(model.network.generate(batch, max_new_tokens=8), before)


def test_vectors_are_means_over_real_tokens(folders: Callable[[str], Path]) -> None:
    model = load(folders("bert"))
    (batch,) = everything(model)
    other = transformers.BertModel.from_pretrained(folders("bert")).eval()
    vectors = model.vectors(batch)
    assert vectors.requires_grad
    for row, length in enumerate(batch.source_mask.sum(-1).tolist()):
        with torch.no_grad():
            states = other(input_ids=batch.source[row : row + 1, :length]).last_hidden_state[0]
        torch.testing.assert_close(vectors[row], states.mean(0), rtol=0, atol=1e-5)


def test_what_a_model_does_not_do_is_one_line(folders: Callable[[str], Path]) -> None:
    with pytest.raises(UserError, match="does not translate"):
        load(folders("gpt2")).translate(["w1"])
    decoder = load(folders("gpt2"))
    with pytest.raises(UserError, match="need an encoder"):
        decoder.vectors(decoder.batches(["w1"])[0])
    with pytest.raises(UserError, match="takes no targets"):
        decoder.batches(["w1"], ["w2"])
