"""The folder of a pruned model of `transformers`, and the model that was in it."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_model
from torch import nn

from headbook.types import UserError

NOTE = "pruned.json"
"""Where a folder says that its layers are smaller than its configuration has them."""
WEIGHTS = "model.safetensors"


def resize(layer: nn.Module) -> None:
    """The sizes that a layer knows of itself, from its weight."""
    first, second = layer.weight.shape
    if isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = first, second
    elif isinstance(layer, nn.Embedding):
        layer.embedding_dim = second
    else:  # GPT-2's
        layer.nx, layer.nf = first, second


def save(model: nn.Module, folder: Path, left: Sequence[tuple[int, int]] | None) -> bool:
    """Writes weights and configuration; whether plain `transformers` reads them.

    `left` are heads and groups of every block where there are fewer than the model was made with.
    What a configuration cannot say stands in a note beside it.
    """
    kept, plain = model.config, not left
    config = copy.deepcopy(kept)
    config.use_cache = True
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    if left and len({*left}) == 1:
        fewer = copy.deepcopy(config)
        for name, size in zip(("num_attention_heads", "num_key_value_heads"), left[0], strict=True):
            if hasattr(fewer, name):
                setattr(fewer, name, size)
        if plain := _fits(model, fewer):
            config = fewer
    model.config = config
    try:
        model.save_pretrained(folder, max_shard_size="1TB")
    finally:
        model.config = kept
    if not plain:
        write(model, folder)
    return plain


def write(model: nn.Module, folder: Path) -> None:
    """Weights by the names that modules have here, and the sizes that these know of themselves."""
    sizes = {name: found for name, module in model.named_modules() if (found := _sizes(module))}
    save_model(model, str(folder / WEIGHTS))
    (folder / NOTE).write_text(json.dumps(sizes), "utf-8")


def _fits(model: nn.Module, config: Any) -> bool:
    """Whether a model of that configuration has weights of these shapes."""
    try:
        with torch.device("meta"):
            made = type(model)(config)
    except (ValueError, RuntimeError):
        return False
    shapes = [{name: each.shape for name, each in one.state_dict().items()}
              for one in (made, model)]  # fmt: skip
    return shapes[0] == shapes[1]


def _sizes(module: nn.Module) -> dict[str, int]:
    """The whole numbers that a module has as attributes of its own: sizes, mostly."""
    return {name: each for name, each in vars(module).items()
            if type(each) is int and not name.startswith("_")}  # fmt: skip


def restored(reader: str, config: Any, folder: Path) -> nn.Module:
    """The model of a folder with a note, by this class of transformers; UserError as of `fill`."""
    made = getattr(transformers, reader).from_config
    model = fill(made(config, dtype=torch.float32, attn_implementation="eager"), folder)
    model.tie_weights()
    return model


def fill(model: nn.Module, folder: Path) -> nn.Module:
    """A whole model gets the sizes and weights that `write` wrote; UserError where they are
    damaged."""
    try:
        sizes = json.loads((folder / NOTE).read_text("utf-8"))
        for name, own in sizes.items():
            for attribute, size in own.items():
                setattr(model.get_submodule(name), attribute, size)
        for name, weight in load_file(folder / WEIGHTS).items():
            owner, _, leaf = name.rpartition(".")
            getattr(model.get_submodule(owner), leaf).data = weight
    except (OSError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(f"{folder} is damaged ({error}); prune and save again") from None
    return model
