"""Everything a training run needs to go on, in one safetensors file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from headbook.models.attention import AttentionPath
from headbook.models.transformer import HeadCounts, NormPlacement, Transformer, TransformerConfig
from headbook.types import UserError

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def write(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Writes aside and renames: an interrupted write leaves the previous file whole.

    UserError where the disk is full.
    """
    aside = path.with_suffix(".aside")
    kept, seen = {}, set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        # safetensors refuses a matrix that two names share, such as tied embeddings
        kept[name] = whole.clone() if whole.data_ptr() in seen else whole
        seen.add(whole.data_ptr())
    try:
        save_file(kept, aside, metadata={"note": json.dumps(note)})
    except SafetensorError as error:
        raise UserError(f"{aside} cannot be written ({error})") from None
    aside.replace(path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and note of a file `write` made; UserError where it is none."""
    try:
        with safe_open(path, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            return tensors, json.loads((opened.metadata() or {}).get("note", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is no checkpoint ({error}); delete it or name another") from None


def load_model(model: nn.Module, path: Path) -> None:
    """Copies saved parameters into the model; UserError where the shapes are another model's."""
    tensors, _ = read(path)
    _fill(model, tensors, path)


def _fill(model: nn.Module, parameters: dict[str, Tensor], path: Path) -> None:
    try:
        model.load_state_dict(parameters)
    except RuntimeError as error:
        wrong = str(error).splitlines()[1].strip()
        raise UserError(f"{path} was saved by a model of another shape: {wrong}") from None


def save_model(model: nn.Module, path: Path) -> None:
    """Saves the parameters, and a transformer's shape, be it whole or pruned."""
    note = {"config": asdict(model.config)} if isinstance(model, Transformer) else {}
    write(path, model.state_dict(), note)


def load_transformer(path: Path) -> Transformer:
    """The model `save_model` saved, in eval mode; UserError for a file that is no model."""
    tensors, note = read(path)
    try:
        model = Transformer(_config(note["config"]))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} holds no model's shape; save it with `save_model`") from None
    _fill(model, tensors, path)
    return model.eval()


def _config(plain: dict[str, Any]) -> TransformerConfig:
    """A config from its JSON values."""
    counts = plain["head_counts"] and {k: tuple(v) for k, v in plain["head_counts"].items()}
    given = plain | {"norm": NormPlacement(plain["norm"]), "path": AttentionPath(plain["path"])}
    return TransformerConfig(**given | {"head_counts": HeadCounts(**counts) if counts else None})


def save_state(
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    note: dict[str, Any],
    random: Sequence[Tensor],
) -> None:
    """Saves model, Adam's moments, a note of plain values, and each process's random state."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, moments in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": moments[name] for name in MOMENTS}
    tensors |= {_random(process): state for process, state in enumerate(random)}
    write(path, tensors, note)


def _random(process: int) -> str:
    """The name of a process's random state; the first's is that of a training in one process."""
    return f"random.{process}" if process else "random"


def load_state(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, process: int = 0
) -> dict[str, Any]:
    """Restores what `save_state` saved and returns its note; UserError where it saved none.

    The random state is that of the given process, left alone where there were fewer processes.
    """
    tensors, note = read(path)
    if "random" not in tensors:
        raise UserError(f"{path} holds a model alone, no training to go on with; delete it")
    if _random(process) in tensors:
        torch.set_rng_state(tensors[_random(process)])
    parameters = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    _fill(model, parameters, path)
    state = optimiser.state_dict()
    # A parameter that never had a gradient has no moments: that of a block without heads.
    saved = sorted({int(k.split(".")[1]) for k in tensors if k.startswith("optimiser.")})
    state["state"] = {
        index: {name: tensors[f"optimiser.{index}.{name}"] for name in MOMENTS} for index in saved
    }
    optimiser.load_state_dict(state)
    return note
