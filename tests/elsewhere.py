"""A second device that needs no hardware: tensors that refuse to meet those of the first.

What lives there is an `Elsewhere`, whose data are on the CPU. As on a GPU, an operation on it and a
plain tensor fails (but for numbers and for plain indices), so does `.numpy()`, and `.cpu()` and
`.to` bring it back. Only what asks a tensor for its device meets a difference: it is told DEVICE.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as tree

DEVICE = torch.device("xla", 0)
"""A name of a device that no code asks for."""
HOME = ("cpu", torch.device("cpu"))
PLACES = (Tensor.__getitem__, Tensor.__setitem__)


class Elsewhere(Tensor):
    """A tensor on the second device."""


class _Rules(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        flat = [*_tensors(args), *_tensors(tuple(kwargs.values()))]
        there = [isinstance(each, Elsewhere) for each in flat]
        name = getattr(function, "__name__", "")
        if function == Tensor.device.__get__:
            return DEVICE if there[0] else torch.device("cpu")
        asked = kwargs.get("device", args[1] if name == "to" and len(args) > 1 else None)
        if isinstance(asked, Tensor):
            asked = DEVICE if isinstance(asked, Elsewhere) else "cpu"
        if isinstance(asked, str) and asked not in ("cpu", str(DEVICE)):
            asked = None
        moving = name in ("to", "cpu") or not flat
        result_there = any(there)
        if name == "cpu" or asked in HOME:
            result_there = False
        elif asked in (DEVICE, str(DEVICE)):
            result_there = True
        if asked is not None and isinstance(asked, str | torch.device):
            swap = lambda each: "cpu" if each in (DEVICE, str(DEVICE)) else each  # noqa: E731
            args = tuple(swap(each) if isinstance(each, str | torch.device) else each
                         for each in args)  # fmt: skip
            kwargs = {key: swap(each) if isinstance(each, str | torch.device) else each
                      for key, each in kwargs.items()}  # fmt: skip
        if name in ("numpy", "__array__") and any(there):
            raise TypeError("can't convert a tensor of the second device to numpy")
        mixed = any(there) and any(
            not here and each.dim() for here, each in zip(there, flat, strict=True)
        )
        if mixed and not moving and function not in PLACES and name not in ("__get__", "__set__"):
            raise RuntimeError(f"{name}: tensors of two devices")
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **kwargs)
        kind = Elsewhere if result_there else Tensor
        if isinstance(result, Tensor):
            return _as(result, kind)
        return tree.tree_map_only(Tensor, lambda each: _as(each, kind), result)


def _tensors(given: object) -> Iterator[Tensor]:
    """Torch's own walk through a tree takes as long as an operation."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _tensors(each)


def _as(tensor: Tensor, kind: type) -> Tensor:
    if isinstance(tensor, nn.Parameter) or type(tensor) is kind:
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(kind)


@contextmanager
def elsewhere(network: nn.Module) -> Iterator[nn.Module]:
    """The network with its weights on the second device, whose rules hold within."""
    sent: dict[nn.Parameter, nn.Parameter] = {}  # tied weights stay tied
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is not None and weight not in sent:
                there = weight.detach().as_subclass(Elsewhere)
                sent[weight] = nn.Parameter(there, weight.requires_grad)
            module._parameters[name] = sent.get(weight)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.as_subclass(Elsewhere)
    with _Rules():
        yield network
