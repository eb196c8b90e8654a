"""A student's sizes and weights from a Marian file; other architectures are refused."""

import re
from collections.abc import Iterator

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


def read_student(file: MarianFile, name: str) -> Student:
    """The network of a Marian file, float32; `name` stands in errors.

    Raises UserError for another architecture: another value of an option, an array too many or too
    few, or one of another shape than the others have.
    """
    for option, allowed in REQUIRED.items():
        if (value := file.options.get(option)) not in allowed:
            raise UserError(
                f"{name} is another architecture: {option} is {value!r}, and only "
                f"{' or '.join(map(repr, allowed))} can be read"
            )
    try:
        shape = _shape(file)
        with torch.device("meta"):  # no numbers are drawn that the file's would replace
            student = Student(shape)
        names = dict(_names(shape))
        if other := set(file.arrays) ^ set(names.values()):
            raise ValueError(f"{min(other)} is missing or too many")
        state = {ours: _laid_out(file, ours, names[ours]) for ours in student.state_dict()}
        student.load_state_dict(state, assign=True)
    except (KeyError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{name} is another architecture, or damaged: {reason}") from None
    return student.eval()


def _shape(file: MarianFile) -> Shape:
    arrays = file.arrays
    shared, heads = "Wemb" in arrays, int(file.options["transformer-heads"])
    source, target = (arrays[name].shape for name in _embeddings(shared))
    if source[1] % (2 * heads):
        raise ValueError(f"{heads} heads are no share of a width of {source[1]}")
    return Shape(
        encoder_layers=_layers(arrays, "encoder"),
        decoder_layers=_layers(arrays, "decoder"),
        width=source[1],
        heads=heads,
        encoder_inner=arrays["encoder_l1_ffn_W1"].shape[1],
        decoder_inner=arrays["decoder_l1_ffn_W1"].shape[1],
        source_vocabulary=source[0],
        target_vocabulary=target[0],
        shared=shared,
    )


def _layers(arrays: dict, stack: str) -> int:
    return len({found[0] for name in arrays if (found := re.match(rf"{stack}_l\d+", name))})


def _laid_out(file: MarianFile, ours: str, theirs: str) -> Tensor:
    given = file.arrays[theirs]
    if ours.endswith("bias") or "norm" in ours:
        given = given.reshape(-1)
    elif not theirs.endswith("Wemb"):
        given = given.T  # torch multiplies by [out, in]
    return torch.from_numpy(given.copy("C"))


def _names(shape: Shape) -> Iterator[tuple[str, str]]:
    """Every parameter of ours and the array it is read from."""
    yield from zip(
        ("source.tokens.weight", "target.tokens.weight"), _embeddings(shape.shared), strict=True
    )
    yield "bias", "decoder_ff_logit_out_b"
    for layer in range(shape.encoder_layers):
        ours, theirs = f"encoder.{layer}", f"encoder_l{layer + 1}"
        yield from _attention(ours, "attention", f"{theirs}_self")
        yield from _feed_forward(ours, theirs)
    for layer in range(shape.decoder_layers):
        ours, theirs = f"decoder.{layer}", f"decoder_l{layer + 1}"
        yield f"{ours}.attention.candidate.weight", f"{theirs}_rnn_W"
        yield f"{ours}.attention.forget.weight", f"{theirs}_rnn_Wf"
        yield f"{ours}.attention.forget.bias", f"{theirs}_rnn_bf"
        yield from _norm(f"{ours}.around_attention", f"{theirs}_rnn_ffn")
        yield from _attention(ours, "cross", f"{theirs}_context")
        yield from _feed_forward(ours, theirs)


def _embeddings(shared: bool) -> tuple[str, str]:
    return ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")


def _attention(layer: str, ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    for part in ("query", "key", "value", "output"):
        yield f"{layer}.{ours}.{part}.weight", f"{theirs}_W{part[0]}"
        yield f"{layer}.{ours}.{part}.bias", f"{theirs}_b{part[0]}"
    yield from _norm(f"{layer}.around_{ours}", f"{theirs}_Wo")


def _feed_forward(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(("inner", "outer"), start=1):
        yield f"{ours}.feed_forward.{part}.weight", f"{theirs}_ffn_W{number}"
        yield f"{ours}.feed_forward.{part}.bias", f"{theirs}_ffn_b{number}"
    yield from _norm(f"{ours}.around_feed_forward", f"{theirs}_ffn_ffn")


def _norm(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield f"{ours}.norm.weight", f"{theirs}_ln_scale"
    yield f"{ours}.norm.bias", f"{theirs}_ln_bias"
