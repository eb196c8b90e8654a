"""A student's sizes and weights from a Marian file; other architectures are refused."""

import re

import numpy as np
import torch
from torch import Tensor

from headbook.released.marian_binary import MarianFile
from headbook.released.student import Shape, Student
from headbook.types import UserError

REQUIRED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("rnn",),
    "dec-cell": ("ssru",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan", "an"),  # dropout (in training), add, norm
    "transformer-postprocess-emb": ("d", ""),
    "transformer-ffn-activation": ("relu",),
    "right-left": (False, None),
    "transformer-pool": (False, None),
}
"""Values of the options that the names of the arrays do not tell."""
EMBEDDINGS = {True: ("Wemb", "Wemb"), False: ("encoder_Wemb", "decoder_Wemb")}
"""Of source and target, whether they are shared or not."""


def read_student(file: MarianFile, name: str) -> Student:
    """The network of a Marian file, float32; `name` stands in errors.

    Raises UserError for another architecture: another value of an option, an array too many or too
    few, or one of another shape than the others have.
    """
    options, arrays = file
    for option, allowed in REQUIRED.items():
        if (value := options.get(option)) not in allowed:
            raise UserError(
                f"{name} is another architecture: {option} is {value!r}, and only "
                f"{' or '.join(map(repr, allowed))} can be read"
            )
    try:
        shape = _shape(arrays, int(options["transformer-heads"]))
        with torch.device("meta"):  # no numbers are drawn that the file's would replace
            student = Student(shape)
        known = names(shape)
        theirs = {ours: known[ours] for ours in student.state_dict()}
        if other := set(arrays) ^ set(theirs.values()):
            raise ValueError(f"{min(other)} is missing or too many")
        state = {ours: _laid_out(arrays[each], ours) for ours, each in theirs.items()}
        student.load_state_dict(state, assign=True)
    except (KeyError, ValueError, RuntimeError, UserError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{name} is another architecture, or damaged: {reason}") from None
    return student.eval()


def _shape(arrays: dict[str, np.ndarray], heads: int) -> Shape:
    shared = "Wemb" in arrays
    source, target = (arrays[name].shape for name in EMBEDDINGS[shared])
    layers = [
        len({found[0] for name in arrays if (found := re.match(rf"{stack}_l\d+", name))})
        for stack in ("encoder", "decoder")
    ]
    return Shape(
        *layers,
        width=source[1],
        heads=heads,
        encoder_inner=arrays["encoder_l1_ffn_W1"].shape[1],
        decoder_inner=arrays["decoder_l1_ffn_W1"].shape[1],
        source_vocabulary=source[0],
        target_vocabulary=target[0],
        shared=shared,
    )


def _laid_out(given: np.ndarray, ours: str) -> Tensor:
    if ours.endswith("bias") or "norm" in ours:
        given = given.reshape(-1)
    elif "tokens" not in ours:
        given = given.T  # torch multiplies by [out, in]
    return torch.from_numpy(given.copy("C"))


def names(shape: Shape) -> dict[str, str]:
    """Our name of every parameter, and the array it is read from."""
    sides = ("source.tokens.weight", "target.tokens.weight")
    found = dict(zip(sides, EMBEDDINGS[shape.shared], strict=True))
    found["bias"] = "decoder_ff_logit_out_b"
    inside = _block("feed_forward", "ffn", {"inner": "1", "outer": "2"}, "ffn")
    attends = {"query": "q", "key": "k", "value": "v", "output": "o"}
    encoder = _block("attention", "self", attends, "Wo") | inside
    decoder = _block("attention", "rnn", {"candidate": "", "forget": "f"}, "ffn") | inside
    decoder |= _block("cross", "context", attends, "Wo")
    stacks = ("encoder", shape.encoder_layers, encoder), ("decoder", shape.decoder_layers, decoder)
    for stack, layers, block in stacks:
        for layer in range(layers):
            for ours, theirs in block.items():
                found[f"{stack}.{layer}.{ours}"] = f"{stack}_l{layer + 1}_{theirs}"
    return found


def _block(ours: str, theirs: str, linears: dict[str, str], norm: str) -> dict[str, str]:
    """The parameters of one block and of the norm behind it."""
    found = {}
    for name, end in linears.items():
        found[f"{ours}.{name}.weight"] = f"{theirs}_W{end}"
        found[f"{ours}.{name}.bias"] = f"{theirs}_b{end}"
    found[f"around_{ours}.norm.weight"] = f"{theirs}_{norm}_ln_scale"
    found[f"around_{ours}.norm.bias"] = f"{theirs}_{norm}_ln_bias"
    return found
