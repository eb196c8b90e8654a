"""Hybrids, and models that are measured in part, in another form, or refused with the reason."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from refusing import refused
from tiny_hugging import DECODER, bart, built, save
from torch import Tensor

import headbook as hb
from headbook.looking.text import Text
from headbook.models.capture import Point, capture
from headbook.models.gates import closed
from headbook.released.network import HuggingNetwork
from headbook.types import HeadId, Kind, UserError

SENTENCES = ["the dog sees a cat", "a cat"]
SIZE = DECODER | {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
GROUPED = {**SIZE, "num_key_value_heads": 2}
SEEING = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 48, "image_size": 32, "patch_size": 8}  # fmt: skip
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1,
         "mamba_chunk_size": 8}  # fmt: skip
HYBRIDS = {
    "Lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "Jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2,
              "use_mamba_kernels": False, "mamba_d_state": 4},
    "Qwen3Next": {"head_dim": 8, "num_experts": 2, "num_experts_per_tok": 1,
                  "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
                  "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                  "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                  "layer_types": ["linear_attention", "full_attention"] * 2},
    "FalconH1": {"mamba_d_ssm": 32, **MAMBA},
}  # fmt: skip


@pytest.mark.parametrize("family", HYBRIDS)
def test_layers_of_a_hybrid_keep_their_numbers(family: str, tmp_path: Path):
    original = built(f"{family}ForCausalLM", **GROUPED, **HYBRIDS[family])
    save(original, SENTENCES, tmp_path)
    model = hb.load(tmp_path)
    counts = [block.heads for _, _, block in model.network.attentions()]
    parallel = family == "FalconH1"  # both in every layer
    assert counts == ([4] * 4 if parallel else [0, 4, 0, 4])
    assert ("no attention in layers 1, 3" in model.origin) != parallel
    (batch,) = model.batches(SENTENCES)
    with torch.no_grad(), capture(model.network, {Point.WEIGHTS}) as tape:
        logits = model.network(batch)
        expected = original(batch.target_in, attention_mask=batch.target_mask.long()).logits
    assert len(tape[Kind.DECODER, Point.WEIGHTS]) == (4 if parallel else 2)
    real = batch.target_mask
    torch.testing.assert_close(logits[real], expected[real], rtol=0, atol=1e-5)
    with torch.no_grad(), closed(model.network, [HeadId(Kind.DECODER, 1, 0)]):
        assert not torch.equal(model.network(batch), logits)
    with nullcontext() if parallel else pytest.raises(UserError), hb.close(model, "L1H1"):
        pass


@pytest.mark.parametrize(
    ("family", "suffix", "config", "said"),
    [
        ("Mamba", "ForCausalLM", {"num_hidden_layers": 2, "state_size": 4}, "no attention"),
        ("Rwkv", "ForCausalLM", {"num_hidden_layers": 2}, "no attention"),
        ("DiffLlama", "ForCausalLM", GROUPED, "computed 8 times in 4 layers"),
        ("ViT", "Model", SEEING, "pixel_values, no text"),
        ("CLIP", "Model", {"text_config": SIZE, "vision_config": SEEING}, "text model alone"),
        ("Wav2Vec2", "Model", {**SIZE, "conv_dim": (16,), "conv_kernel": (10,), "conv_stride": (5,),
                               "num_conv_pos_embedding_groups": 2}, "input_values, no text"),
        ("XLNet", "Model", {"d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 32}, "interface"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_with_the_reason(
    family: str, suffix: str, config: dict, said: str
):
    small = {"vocab_size": 64} | ({} if "d_model" in config else {"hidden_size": 32})
    config = config if family in ("ViT", "CLIP") else small | config
    with refused(said):
        HuggingNetwork(built(family + suffix, **config))


def test_whatever_a_model_raises_is_one_line():
    model = built("BertModel", **SIZE)

    model.embeddings.forward = Mock(side_effect=ZeroDivisionError("two\nlines"))
    with refused(r"BertModel.*\(ZeroDivisionError: two lines\)"):
        HuggingNetwork(model)


def test_a_folder_of_a_model_that_sees_is_said_to_be_one(tmp_path: Path):
    built("BeitModel", **SEEING).save_pretrained(tmp_path)
    with refused("images or sound"):
        hb.load(tmp_path)


@pytest.mark.parametrize(
    ("family", "suffix", "config", "kinds", "predicts"),
    [
        ("Electra", "ForPreTraining", {**SIZE, "embedding_size": 16}, {Kind.ENCODER}, False),
        ("T5", "EncoderModel", {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48,
                                "num_layers": 2, "num_heads": 4}, {Kind.ENCODER}, False),
        ("T5Gemma", "ForConditionalGeneration",
         {"vocab_size": 64, "encoder": {**GROUPED, "head_dim": 8},
          "decoder": {**GROUPED, "head_dim": 8, "num_hidden_layers": 3}}, {*Kind}, True),
        ("Qwen3", "Model", {**GROUPED, "head_dim": 8}, {Kind.DECODER}, False),
        ("Llava", "ForConditionalGeneration",
         {"text_config": {"model_type": "llama", **GROUPED}, "image_token_index": 60,
          "vision_config": {"model_type": "clip_vision_model", **SEEING}}, {Kind.DECODER}, True),
    ],
)  # fmt: skip
def test_what_is_measured_as_text_alone(
    family: str, suffix: str, config: dict, kinds: set[Kind], predicts: bool, tmp_path: Path
):
    save(built(family + suffix, **config), SENTENCES, tmp_path)
    model = hb.load(tmp_path)
    assert {each for each, _, _ in model.network.attentions()} == kinds
    assert model.network.predicts == predicts
    (batch,) = model.batches(SENTENCES)
    assert model.network(batch).isfinite().all()
    if not predicts:
        with pytest.raises(UserError, match="no head that predicts"):
            model.losses(batch)


def test_a_decoder_without_a_language_head_is_measured_by_its_sentence_vectors(tmp_path: Path):
    save(built("Qwen3Model", **GROUPED, head_dim=8), SENTENCES, tmp_path)
    model, text = hb.load(tmp_path), Text("mine", tuple(SENTENCES), (), "none")
    heads = hb.measure(model, text, nulls=0, ablated="all", progress=False)
    assert "importance_gradient" not in heads and heads["induction"].notna().all()

    def vectors() -> Tensor:
        with torch.no_grad():
            states = [model.network(model.batches([each])[0]).mean(1) for each in SENTENCES]
        return torch.cat(states).double()

    whole = vectors()
    with closed(model.network, [HeadId(Kind.DECODER, 1, 2)]):
        lost = 1 - torch.cosine_similarity(whole, vectors(), dim=-1).mean()
    found = heads.set_index(["layer", "head"]).loc[(2, 3), "importance_ablation"]
    assert found == pytest.approx(float(lost), rel=1e-4)


def test_a_translator_that_is_not_told_how_to_begin_says_so(tmp_path: Path):
    save(bart(), SENTENCES, tmp_path)
    model = hb.load(tmp_path)
    for settings in (model.network.model.config, model.network.model.generation_config):
        settings.decoder_start_token_id = settings.bos_token_id = None
    with refused("cannot translate"):
        model.translate(SENTENCES)
