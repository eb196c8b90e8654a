"""A tiny Llama as a GGUF file, laid out as llama.cpp does."""

from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from tokenizers import pre_tokenizers

TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "at", "<s>"]
CONFIG = {
    "vocab_size": len(TOKENS), "hidden_size": 32, "num_hidden_layers": 2, "head_dim": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 64, "bos_token_id": len(TOKENS) - 1, "eos_token_id": len(TOKENS) - 1,
    "tie_word_embeddings": True,
}  # fmt: skip


def llama() -> transformers.LlamaForCausalLM:
    torch.manual_seed(3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG)).eval()


def write(model: transformers.LlamaForCausalLM, file: Path) -> None:
    """The model with a byte-level vocabulary of bytes and the piece `at`."""
    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * (len(TOKENS) - 1) + [3])
    writer.add_token_merges(["a t"])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        values = tensor.numpy()
        if "q_proj" in name or "k_proj" in name:  # halves of a rotary pair stand side by side
            pairs = values.reshape(-1, 2, config.head_dim // 2, config.hidden_size)
            values = np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
        writer.add_tensor(names.get_name(name, (".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
