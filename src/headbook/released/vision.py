"""Vision transformers, which read pictures as patches: of `transformers`, or DINOv2 from ONNX.

Nothing of a network is written here: an ONNX file's weights go into the class of `transformers`.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.extras import extras
from headbook.released.catalogue import Entry
from headbook.released.hugging_files import quiet, said
from headbook.released.network import HuggingNetwork
from headbook.types import Kind, UserError

COLOURS = SimpleNamespace(image_mean=(0.485, 0.456, 0.406), image_std=(0.229, 0.224, 0.225))
"""Of red, green and blue in ImageNet, from 0 to 1, as DINOv2 was given them."""
MOST = 2048
"""Patches that a picture may have: attention between so many is 1.2 GB in 72 heads."""
HEAD = 64
"""Width of a head in every size of DINOv2; the shapes of its weights do not tell."""
ONNX = {
    "Model": {"graph": (7, "Graph")},
    "Graph": {"node": (1, "*Node"), "initializer": (5, "*Tensor")},
    "Node": {"input": (1, "*string"), "name": (3, "string")},
    "Tensor": {"dims": (1, "*int64"), "name": (8, "string"), "raw_data": (9, "bytes")},
}
"""The messages of the format that hold weights: numbers and types of fields, lists with a star."""


class VisionNetwork(HuggingNetwork):
    """Called with pixels [picture, 3, height, width] it gives the states [picture, token, model]
    after the last layer, before the final norm; tokens are special ones, then patches."""

    reads = "pixel_values"

    def _probe(self) -> dict[str, Any]:
        side = self.model.config.patch_size
        return self._given(torch.zeros(1, 3, 2 * side, 3 * side, device=self.device))

    def _given(self, pixels: Tensor) -> dict[str, Any]:
        known, stretched = inspect.signature(self.model.forward), "interpolate_pos_encoding"
        # DINOv2 stretches its positions to any size unasked
        asked = {stretched: True} if stretched in known.parameters else {}
        return {"pixel_values": pixels, **asked}

    def forward(self, pixels: Float[Tensor, "picture 3 height width"]) -> Tensor:
        found: list[Tensor] = []
        norm = self.model.layernorm
        with norm.register_forward_pre_hook(lambda _, given: found.append(given[0])):
            self._run(self.model, set(Kind), **self._given(pixels.to(self.device)))
        return found[0]


@dataclass(frozen=True)
class VisionModel:
    """A vision transformer as a `Loaded` model; whatever needs text is refused.

    Pictures are arrays of uint8 [height, width, 3], read at their own size with edges cut to whole
    patches; `mean` and `spread` are of the colours that it was trained on.
    """

    name: str
    origin: str
    network: VisionNetwork
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    languages: tuple[str, str | None] = ("zxx", None)
    unknown: int | None = None

    def grid(self, picture: Any) -> tuple[int, int]:
        """Rows and columns of patches; UserError for what is no picture or has too many."""
        if getattr(picture, "dtype", None) != np.uint8 or picture.shape[2:] != (3,):
            self._no_text()
        side = self.network.model.config.patch_size
        rows, columns = picture.shape[0] // side, picture.shape[1] // side
        if not 0 < rows * columns <= MOST:
            raise UserError(
                f"a picture of {picture.shape[0]} × {picture.shape[1]} pixels has {rows * columns} "
                f"patches of {side} × {side}; {self.name} reads 1 to {MOST}: change its size"
            )
        return rows, columns

    def units(self, picture: Any, kind: Kind) -> tuple[list[str], list[str]]:
        """Names of special tokens and patches, which ask and are looked at."""
        config, (rows, columns) = self.network.model.config, self.grid(picture)
        special = 1 + (config.model_type == "deit") + getattr(config, "num_register_tokens", 0)
        names = ["<|class|>", *(f"<|special {at}|>" for at in range(2, special + 1))]
        names += [f"{row}, {at}" for row in range(1, rows + 1) for at in range(1, columns + 1)]
        return names, names

    def batch(self, pictures: Sequence[Any]) -> Float[Tensor, "picture 3 height width"]:
        """Pixels of pictures of one size, as the network takes them."""
        grids = {self.grid(each) for each in pictures}
        if len(grids) != 1:
            raise UserError(f"a batch is of pictures of one size; these have {len(grids)}")
        height, width = (each * self.network.model.config.patch_size for each in grids.pop())
        pixels = torch.from_numpy(np.stack([each[:height, :width] for each in pictures]))
        mean, spread = (torch.tensor(each).view(3, 1, 1) for each in (self.mean, self.spread))
        return (pixels.permute(0, 3, 1, 2).float() / 255 - mean) / spread

    def _no_text(self, *given: Any, **named: Any) -> NoReturn:
        raise UserError(
            f"{self.name} reads pictures, no text: give hb.attention and hb.measure arrays of "
            "uint8 [height, width, 3]; what needs words cannot be asked of it"
        )

    batches = spans = pieces = losses = encoded = translate = _no_text


def of(model: Any, processor: Any, name: str, origin: str) -> VisionModel:
    """A vision model of `transformers`, from now on in evaluation mode with its attention tapped;
    its image processor says how colours are scaled. UserError as of `HuggingNetwork`."""
    if not hasattr(processor, "image_mean"):
        raise UserError(f"{name} reads pictures: give its image processor beside it")
    colours = tuple(processor.image_mean), tuple(processor.image_std)
    with quiet():
        return VisionModel(name, origin, VisionNetwork(model.base_model), *colours)


def load_onnx(file: Path, entry: Entry | None = None) -> VisionModel:
    """The DINOv2 in an ONNX file, or in that of an entry's folder; the rest of it is left out.

    UserError where the file's package or protobuf is missing, and for a file that is damaged,
    another than the catalogue's or no DINOv2.
    """
    from transformers import Dinov2Config, Dinov2Model

    name, origin = str(file), f"the file {file}"
    if entry is not None:
        name, file = entry.name, next(file.glob("*.onnx"), file / "the .onnx file")
        entry.check(file)
        origin = entry.origin
    try:
        state = weights(file)
        width, _, side, _ = state["embeddings.patch_embeddings.projection.weight"].shape
        layers = sum(name.endswith("norm1.weight") for name in state)
        config = Dinov2Config(
            hidden_size=width,
            num_attention_heads=width // HEAD,
            num_hidden_layers=layers,
            mlp_ratio=len(state["encoder.layer.0.mlp.fc1.bias"]) // width,
            patch_size=side,
            image_size=side * round(state["embeddings.position_embeddings"].shape[1] ** 0.5),
            use_mask_token="embeddings.mask_token" in state,
        )
        with quiet():
            model, report = Dinov2Model.from_pretrained(
                None, config=config, state_dict=state, output_loading_info=True
            )
        if wrong := sorted(map(str, report["missing_keys"] | report["mismatched_keys"])):
            raise ValueError(f"{wrong[0]} is missing")
    except UserError:
        raise
    except Exception as error:  # protobuf's and the library's
        raise UserError(f"{file} holds no DINOv2 in ONNX, or is damaged ({said(error)})") from None
    return of(model, COLOURS, name, origin)


def weights(file: Path) -> dict[str, Tensor]:
    """Weights of an ONNX file in float32, by their names in `transformers`.

    An exporter renames what it transposes, and the node that multiplies by it still has its name;
    positions are the two stacks without a name, the class token's and the patches'.
    """
    with extras():
        graph = message("Model").FromString(file.read_bytes()).graph
    named = {
        each.name: torch.from_numpy(np.frombuffer(each.raw_data, "<f4").reshape(each.dims).copy())
        for each in graph.initializer
        if each.raw_data
    }
    state = {name: each for name, each in named.items() if not name.startswith("onnx::")}
    (start,) = (name.partition("embeddings.cls")[0] for name in state if "s.cls_token" in name)
    stacks = [each for name, each in named.items() if name not in state and each.ndim == 3]
    if stacks:
        whole = torch.cat(sorted(stacks, key=lambda each: each.shape[1]), 1)
        state[f"{start}embeddings.position_embeddings"] = whole
    for node in graph.node:
        *module, operation = node.name.strip("/").replace("/", ".").split(".")
        if operation == "MatMul" and node.input[-1] in named:
            state[".".join([*module, "weight"])] = named[node.input[-1]].T.contiguous()
    return {name.removeprefix(start): each for name, each in state.items() if start in name}


@cache
def message(name: str) -> Any:
    """The class of protobuf for one of the messages in `ONNX`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="onnx", package="onnx", syntax="proto2")
    for owner, fields in ONNX.items():
        own = file.message_type.add(name=owner).field
        for field, (number, kind) in fields.items():
            made = own.add(name=field, number=number, label=3 if "*" in kind else 1)
            if (kind := kind.strip("*")) in ONNX:
                made.type_name = f".onnx.{kind}"
            else:
                made.type = getattr(made, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"onnx.{name}"))
