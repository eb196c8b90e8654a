"""Whisper as CTranslate2 stores it (the folders of faster-whisper): sound in, text out.

`model.bin` is little-endian: version, kind of model and its revision; name, shape, type and bytes
of every array; pairs of names where two are the same (CTranslate2's specs/model_spec.py). The
network is that of `transformers`.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor

from headbook.models.loaded import UNDETERMINED
from headbook.released import tap
from headbook.released.catalogue import Entry
from headbook.released.hugging_files import quiet, said
from headbook.released.network import HuggingNetwork
from headbook.released.tap import TappedBlock
from headbook.types import Kind, UserError

RATE, FRAME, WINDOW = 16_000, 320, 30
"""Samples a second, samples of one frame (20 ms), seconds that are read at once."""
KNOWN = (6, "WhisperSpec")
TYPES = ("<f4", "i1", "<i2", "<i4", "<f2")
RENAMED = (
    ("encoder/", "model.encoder."), ("decoder/", "model.decoder."), ("/", "."),
    ("model.decoder.projection", "proj_out"), ("gamma", "weight"), ("beta", "bias"),
    ("layer_norm", "norm"), ("layer_", "layers."), ("embeddings.", "embed_tokens."),
    ("position_encodings.encodings", "embed_positions.weight"), ("ffn.norm", "final_layer_norm"),
    ("ffn.linear_0", "fc1"), ("ffn.linear_1", "fc2"), ("self_attention.", "self_attn."),
    ("attention.", "encoder_attn."), ("self_attn.linear_1", "self_attn.out_proj"),
    ("linear_2", "out_proj"), ("attn.norm", "attn_layer_norm"), (".norm", ".layer_norm"),
)  # fmt: skip
"""Parts of CTranslate2's names and of those in `transformers`, in this order."""
JOINED = {"self_attn.linear_0": "qkv", "encoder_attn.linear_0": "q", "encoder_attn.linear_1": "kv"}
"""Projections that lie in one array, one below the other."""


class SpeechNetwork(HuggingNetwork):
    """Whisper with its three kinds of attention; a batch gives the logits of its text."""

    def _found(self) -> list[tuple[Kind, TappedBlock]]:
        kinds = {"model.encoder": Kind.ENCODER, "model.decoder": Kind.DECODER}
        return [
            (Kind.CROSS if "encoder_attn" in name else kinds[name[:13]],
             TappedBlock(name, each.num_heads, each, each.out_proj))
            for name, each in self.model.named_modules() if name.endswith("_attn")
        ]  # fmt: skip

    def forward(
        self, batch: Mapping[str, Tensor], heard: Tensor | None = None
    ) -> Float[Tensor, "batch token vocabulary"]:
        """With what was `heard`, the encoder's states of the same sounds, it does not run again."""
        inputs, kinds = {name: each.to(self.device) for name, each in batch.items()}, set(Kind)
        if heard is not None:
            inputs["encoder_outputs"], kinds = (heard,), {Kind.DECODER, Kind.CROSS}
        return self._run(self.model, kinds, **inputs).logits

    def encode(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "batch frame width"]:
        """The encoder's last states."""
        features = batch["input_features"].to(self.device)
        return self._run(self.model.get_encoder(), {Kind.ENCODER}, input_features=features)[0]


@dataclass(frozen=True)
class SpeechModel:
    """A loaded Whisper, which hears and writes: its inputs are pairs (samples, sentence), one
    channel at 16 kHz between -1 and 1 with the text that is spoken in it.

    `hb.close`, `hb.nulls` and `hb.attention` take it; `network.model.generation_config` lists its
    alignment heads, layer and head from zero. What needs a text alone is refused: UserError.
    """

    name: str
    origin: str
    languages: tuple[str, None]
    network: SpeechNetwork
    tokenizer: Tokenizer  # puts its own special tokens around a text
    features: Any  # WhisperFeatureExtractor
    unknown = None

    def batch(self, inputs: Sequence[Any]) -> dict[str, Tensor]:
        """What the network reads: spectrograms of 30 seconds, and texts, filled up on the right.

        UserError for other inputs, and for sound that is longer or has several channels.
        """
        if not all(isinstance(each, tuple) and len(each) == 2 for each in inputs):
            raise UserError(f"{self.name} hears: give a sound with its text, (samples, sentence)")
        sounds = [np.asarray(sound, "float32") for sound, _ in inputs]
        if any(each.ndim != 1 or not 0 < len(each) <= RATE * WINDOW for each in sounds):
            raise UserError(f"{self.name} hears one channel of at most {WINDOW} s, {RATE} Hz")
        rows = [self.tokenizer.encode(f" {text.strip()}").ids[:-1] for _, text in inputs]
        width, end = max(map(len, rows)), self.network.model.config.eos_token_id
        ids = torch.tensor([[*row, *[end] * (width - len(row))] for row in rows])
        given = self.features(sounds, sampling_rate=RATE, return_tensors="pt")
        return {"input_features": given.input_features, "decoder_input_ids": ids}

    def units(self, given: Any, kind: Kind) -> tuple[list[str], list[str]]:
        """What asks and what is looked at: tokens, and frames by the second that they begin at.

        In the decoder a token asks when it is read, in cross-attention when it is predicted.
        """
        tokens = self.tokenizer.encode(f" {given[1].strip()}").tokens
        tokens = [each.replace("Ġ", "▁") for each in tokens]
        frames = [f"{at * FRAME / RATE:.2f}" for at in range(-(-len(given[0]) // FRAME))]
        if kind is Kind.CROSS:
            return tokens[1:], frames
        return (frames, frames) if kind is Kind.ENCODER else (tokens[:-1], tokens[:-1])

    @torch.no_grad()
    def transcribe(self, sound: Float[np.ndarray, " sample"]) -> str:
        """The text that it hears, each token the likeliest, gates applied."""
        features = self.batch([(sound, "")])["input_features"].to(self.network.device)
        with tap.listening(self.network._hear), quiet():
            ids = self.network.model.generate(features, use_cache=True)
        return self.tokenizer.decode(ids[0].tolist()).strip()

    def batches(self, *_: Any, **__: Any) -> NoReturn:
        """UserError: what needs a text, as `hb.measure` does, cannot be asked of it."""
        raise UserError(f"{self.name} hears sound: the words of a text are not what it looks at")

    spans = pieces = losses = encoded = translate = batches


def load(folder: Path, entry: Entry | None = None) -> SpeechModel:
    """The Whisper in a folder: model.bin, config.json, tokenizer.json.

    UserError, in one line, for files that are missing, damaged or others than the catalogue's.
    """
    from transformers import WhisperFeatureExtractor

    file, origin = folder / "model.bin", f"the folder {folder}"
    if entry is not None:
        entry.check(file)
        origin = entry.origin
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        settings = json.loads((folder / "config.json").read_text("utf-8"))
        model = _model(_arrays(file.read_bytes()), tokenizer, settings)
    except Exception as error:  # whatever the readers of three files raise
        raise UserError(f"{folder}: no whole Whisper ({said(error)}); fetch it again") from None
    language = entry.languages[0] if entry else UNDETERMINED
    features = WhisperFeatureExtractor(feature_size=model.config.num_mel_bins)
    network = SpeechNetwork(model)
    name = entry.name if entry else str(folder)
    return SpeechModel(name, origin, (language, None), network, tokenizer, features)


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """Every array by its name in float32, integers divided by the scales that go with them."""
    file = BytesIO(content)

    def number(form: str) -> int:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0]

    def name() -> str:
        return file.read(number("H"))[:-1].decode("utf-8")

    if (found := (number("I"), name())) != KNOWN:
        raise ValueError(f"{found} where {KNOWN} is known")
    number("I")
    arrays = {}
    for _ in range(number("I")):
        key, shape = name(), [number("I") for _ in range(number("B"))]
        form, size = TYPES[number("B")], number("I")
        arrays[key] = np.frombuffer(file.read(size), form).reshape(shape).astype("float32")
    same = [(name(), name()) for _ in range(number("I"))]
    for key in [each for each in arrays if each.endswith("_scale")]:
        whole, scale = arrays[key.removesuffix("_scale")], arrays.pop(key)
        arrays[key.removesuffix("_scale")] = whole / scale.reshape(-1, *[1] * (whole.ndim - 1))
    return arrays | {alias: arrays[key] for alias, key in same if key in arrays}


def _model(arrays: dict[str, np.ndarray], tokenizer: Tokenizer, settings: dict) -> Any:
    """The network of `transformers` with these weights and settings."""
    from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

    state = {}
    for key, values in arrays.items():
        for old, new in RENAMED:
            key = key.replace(old, new)
        place, _, end = key.rpartition(".")
        letters = next((JOINED[each] for each in JOINED if place.endswith(each)), "")
        block = place.rpartition(".")[0]
        names = [f"{block}.{letter}_proj.{end}" for letter in letters] or [key]
        state |= dict(
            zip(names, np.split(values, len(names)) if letters else [values], strict=True)
        )
    vocabulary, width = state["model.decoder.embed_tokens.weight"].shape
    end = tokenizer.token_to_id("<|endoftext|>")
    marks = {f"{each}_token_id": end for each in ("bos", "eos", "pad")}
    marks["decoder_start_token_id"] = tokenizer.token_to_id("<|startoftranscript|>")
    shape = {"vocab_size": vocabulary, "d_model": width}
    shape["num_mel_bins"] = state["model.encoder.conv1.weight"].shape[1]
    for side, limit in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        rows = [
            len(each) for key, each in state.items() if f"{side}.layers" in key and "fc1.b" in key
        ]
        shape |= {f"{side}_layers": len(rows), f"{side}_ffn_dim": rows[0]}
        shape[f"{side}_attention_heads"] = int(state[f"model.{side}.num_heads"])
        shape[limit] = len(state[f"model.{side}.embed_positions.weight"])
    with quiet():
        model = WhisperForConditionalGeneration(WhisperConfig(**shape, **marks))
    # a key's bias adds the same to every score of a row: `transformers` has none
    named = {key: each for key, each in state.items() if each.ndim and "k_proj.b" not in key}
    model.load_state_dict({key: torch.from_numpy(each) for key, each in named.items()})
    model.generation_config = GenerationConfig(
        **marks, no_timestamps_token_id=tokenizer.token_to_id("<|notimestamps|>"),
        suppress_tokens=settings["suppress_ids"], is_multilingual=False,
        begin_suppress_tokens=settings["suppress_ids_begin"], max_length=shape[limit],
        alignment_heads=settings["alignment_heads"],
    )  # fmt: skip
    return model
