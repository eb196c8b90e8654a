"""A tiny Whisper in a folder as CTranslate2 writes it."""

import json
import struct
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
END, START, PLAIN = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"
TOKENS = [*BYTES, "at", "Ġc", "Ġcat", END, START, PLAIN]
SHAPE = {
    "vocab_size": len(TOKENS), "d_model": 16, "num_mel_bins": 80, "max_target_positions": 64,
    "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
    "decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 24,
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), TOKENS.index(END)),
    "decoder_start_token_id": TOKENS.index(START),
}  # fmt: skip
SETTINGS = {"alignment_heads": [[1, 0], [2, 3]], "suppress_ids": [], "suppress_ids_begin": [0]}


def whisper() -> transformers.WhisperForConditionalGeneration:
    torch.manual_seed(3)
    config = transformers.WhisperConfig(**SHAPE, init_std=0.3)
    return transformers.WhisperForConditionalGeneration(config).eval()


def tokenizer() -> Tokenizer:
    found = Tokenizer(models.BPE({t: i for i, t in enumerate(TOKENS)}, [("a", "t"), ("Ġ", "c"),
                                                                       ("Ġc", "at")]))  # fmt: skip
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens([END, START, PLAIN])
    around = [(each, TOKENS.index(each)) for each in (START, PLAIN, END)]
    found.post_processor = processors.TemplateProcessing(f"{START} {PLAIN} $A {END}", None, around)
    return found


def write(model: transformers.WhisperForConditionalGeneration, folder: Path, kind: str) -> None:
    """The files of a folder; `kind` is the type of its matrices, float16 or int8."""
    arrays = _arrays(model)
    if kind == "int8":
        for name in [each for each in arrays if each.endswith("weight") and arrays[each].ndim == 2]:
            largest = np.abs(arrays[name]).max(1)
            scale = 127 / np.where(largest == 0, 127, largest)
            arrays[f"{name}_scale"] = scale.astype("f4")
            arrays[name] = np.rint(arrays[name] * scale[:, None]).astype("i1")
    types = {"f4": 0, "i1": 1, "i2": 2, "f2": 4}

    def text(given: str) -> bytes:
        return struct.pack("<H", len(given) + 1) + given.encode() + b"\0"

    out = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<II", 3, len(arrays))]
    for name, values in arrays.items():
        values = values.astype("f2") if kind == "float16" and values.dtype == "f4" else values
        code = types[values.dtype.str[1:]]
        shape = struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)
        out += [text(name), shape, struct.pack("<BI", code, values.nbytes), values.tobytes()]
    out += [struct.pack("<I", 1), text("decoder/projection/weight")]
    out.append(text("decoder/embeddings/weight"))
    (folder / "model.bin").write_bytes(b"".join(out))
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    tokenizer().save(str(folder / "tokenizer.json"))


def _arrays(model: transformers.WhisperForConditionalGeneration) -> dict[str, np.ndarray]:
    """The weights by CTranslate2's names, projections that it joins one below the other."""
    state, found = {key: each.numpy() for key, each in model.model.state_dict().items()}, {}

    def linear(name: str, *layers: str) -> None:
        weights = [state[f"{each}.weight"] for each in layers]
        zero = np.zeros(len(weights[0]), "f4")  # keys have no bias
        found[f"{name}/weight"] = np.concatenate(weights)
        found[f"{name}/bias"] = np.concatenate([state.get(f"{each}.bias", zero) for each in layers])

    def norm(name: str, layer: str) -> None:
        found[f"{name}/layer_norm/gamma"] = state[f"{layer}.weight"]
        found[f"{name}/layer_norm/beta"] = state[f"{layer}.bias"]

    for side in ("encoder", "decoder"):
        config = model.config
        found[f"{side}/num_heads"] = np.array(getattr(config, f"{side}_attention_heads"), "i2")
        found[f"{side}/position_encodings/encodings"] = state[f"{side}.embed_positions.weight"]
        norm(side, f"{side}.layer_norm")
        for at in range(getattr(config, f"{side}_layers")):
            own, there = f"{side}.layers.{at}", f"{side}/layer_{at}"
            heads = [f"{own}.self_attn.{each}_proj" for each in "qkv"]
            linear(f"{there}/self_attention/linear_0", *heads)
            linear(f"{there}/self_attention/linear_1", f"{own}.self_attn.out_proj")
            norm(f"{there}/self_attention", f"{own}.self_attn_layer_norm")
            if side == "decoder":
                cross = f"{own}.encoder_attn"
                linear(f"{there}/attention/linear_0", f"{cross}.q_proj")
                linear(f"{there}/attention/linear_1", f"{cross}.k_proj", f"{cross}.v_proj")
                linear(f"{there}/attention/linear_2", f"{cross}.out_proj")
                norm(f"{there}/attention", f"{cross}_layer_norm")
            linear(f"{there}/ffn/linear_0", f"{own}.fc1")
            linear(f"{there}/ffn/linear_1", f"{own}.fc2")
            norm(f"{there}/ffn", f"{own}.final_layer_norm")
    for each in ("conv1", "conv2"):
        linear(f"encoder/{each}", f"encoder.{each}")
    found["decoder/embeddings/weight"] = state["decoder.embed_tokens.weight"]
    return found
