"""Memory that a forward pass holds for the backward pass."""

from collections.abc import Callable

import torch
from torch import Tensor


def kept_bytes(work: Callable[[], object]) -> int:
    """Bytes of the tensors that `work` saves for its gradients, each storage once.

    A count, not a measurement: it is the same on every machine. Parameters that are saved count
    too, as they do in memory.
    """
    storages: dict[int, tuple[Tensor, int]] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        # the tensor is held, so that its address is not given to another one
        storages[storage.data_ptr()] = tensor, storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = work()
    del result
    return sum(size for _, size in storages.values())
