"""A student's sizes and weights from a Marian file; other architectures are refused."""

from collections.abc import Iterator
from typing import NoReturn

import torch
from torch import Tensor

from headbook.released.marian_binary import MarianFile
from headbook.released.student import Shape, Student
from headbook.types import UserError

REQUIRED: dict[str, tuple] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("rnn",),
    "dec-cell": ("ssru",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan", "an"),  # dropout (in training), add, norm
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-ffn-activation": ("relu",),
    "transformer-ffn-depth": (2,),
}
"""Required values of options."""

ALLOWED: dict[str, tuple] = {
    "transformer-decoder-ffn-depth": (0, 2),  # 0: as in the encoder
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-pool": (False,),
    "output-omit-bias": (False,),
    "right-left": (False,),
    "tied-embeddings-src": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "input-types": ([],),
}
"""Required values of options that older files may lack."""


def read_student(file: MarianFile, name: str) -> Student:
    """The network of a Marian file, float32; `name` stands in errors.

    Raises UserError for another architecture, and where an array is missing or has another shape
    than the options say.
    """
    shape = _shape(file.options, name)
    _agree(shape, file, name)
    with torch.random.fork_rng(devices=[]):  # loading leaves the caller's random numbers alone
        student = Student(shape)
    needed = dict(_names(shape))
    state = {}
    for ours, tensor in student.state_dict().items():
        given = file.arrays[needed[ours]]
        state[ours] = _fitted(torch.from_numpy(given.copy()), ours, tensor.shape)
        if state[ours].shape != tensor.shape:
            _misshapen(name, needed[ours], given.shape)
    student.load_state_dict(state, assign=True)
    return student.eval()


def _agree(shape: Shape, file: MarianFile, name: str) -> None:
    """Nothing is built by sizes of which the file has no arrays: they may be damaged."""
    for _, theirs in _names(shape):
        if theirs not in file.arrays:
            raise UserError(f"{name} has no {theirs}: it is not a student that can be read")
    source, target = _embeddings(shape)
    for theirs, expected in (
        (source, (shape.source_vocabulary, shape.width)),
        (target, (shape.target_vocabulary, shape.width)),
        ("encoder_l1_ffn_W1", (shape.width, shape.encoder_inner)),
        ("decoder_l1_ffn_W1", (shape.width, shape.decoder_inner)),
    ):
        if file.arrays[theirs].shape != expected:
            _misshapen(name, theirs, file.arrays[theirs].shape)


def _misshapen(name: str, array: str, shape: tuple[int, ...]) -> NoReturn:
    raise UserError(
        f"{name}: {array} has shape {list(shape)}, which does not fit its own options: copy or "
        "fetch it again"
    )


def _fitted(given: Tensor, ours: str, shape: torch.Size) -> Tensor:
    if len(shape) == 1:
        return given.reshape(-1)
    embedding = ours in ("source.weight", "target.weight")
    return given if embedding else given.T.contiguous()  # torch multiplies by [out, in]


def _shape(options: dict, name: str) -> Shape:
    for option, allowed in (REQUIRED | ALLOWED).items():
        value = options.get(option, None if option in REQUIRED else allowed[0])
        if value not in allowed:
            raise UserError(
                f"{name} is another architecture: {option} is {value!r}, and only "
                f"{' or '.join(map(repr, allowed))} can be read"
            )
    shared = bool(options.get("tied-embeddings-all"))
    if not shared and not options.get("tied-embeddings"):
        raise UserError(
            f"{name} is another architecture: its target embeddings are not its output matrix"
        )
    try:
        inner = int(options["transformer-dim-ffn"])
        source, target = map(int, options["dim-vocabs"])
        shape = Shape(
            encoder_layers=int(options["enc-depth"]),
            decoder_layers=int(options["dec-depth"]),
            width=int(options["dim-emb"]),
            heads=int(options["transformer-heads"]),
            encoder_inner=inner,
            decoder_inner=int(options.get("transformer-decoder-dim-ffn") or inner),
            source_vocabulary=source,
            target_vocabulary=target,
            shared=shared,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{name} does not say its sizes ({error}): fetch it again") from None
    _check(shape, name)
    return shape


def _check(shape: Shape, name: str) -> None:
    sizes = [value for value in vars(shape).values() if not isinstance(value, bool)]
    if min(sizes) < 1 or shape.width % (2 * shape.heads):
        raise UserError(f"{name} has impossible sizes ({shape}): fetch it again")
    if shape.shared and shape.source_vocabulary != shape.target_vocabulary:
        raise UserError(f"{name} shares embeddings between vocabularies of unequal size")


def _names(shape: Shape) -> Iterator[tuple[str, str]]:
    """Every parameter of ours and the array it is read from."""
    source, target = _embeddings(shape)
    yield from (("source.weight", source), ("target.weight", target))
    yield "bias", "decoder_ff_logit_out_b"
    for layer in range(shape.encoder_layers):
        ours, theirs = f"encoder.{layer}", f"encoder_l{layer + 1}"
        yield from _attention(f"{ours}.attention", f"{theirs}_self")
        yield from _feed_forward(ours, theirs)
    for layer in range(shape.decoder_layers):
        ours, theirs = f"decoder.{layer}", f"decoder_l{layer + 1}"
        yield f"{ours}.recurrence.candidate.weight", f"{theirs}_rnn_W"
        yield f"{ours}.recurrence.forget.weight", f"{theirs}_rnn_Wf"
        yield f"{ours}.recurrence.forget.bias", f"{theirs}_rnn_bf"
        yield from _norm(f"{ours}.recurrence_norm", f"{theirs}_rnn_ffn")
        yield from _attention(f"{ours}.cross", f"{theirs}_context")
        yield from _feed_forward(ours, theirs)


def _embeddings(shape: Shape) -> tuple[str, str]:
    return ("Wemb", "Wemb") if shape.shared else ("encoder_Wemb", "decoder_Wemb")


def _attention(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    for part in ("query", "key", "value", "output"):
        yield f"{ours}.{part}.weight", f"{theirs}_W{part[0]}"
        yield f"{ours}.{part}.bias", f"{theirs}_b{part[0]}"
    yield from _norm(f"{ours}_norm", f"{theirs}_Wo")


def _feed_forward(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(("first", "second"), start=1):
        yield f"{ours}.feed_forward.{part}.weight", f"{theirs}_ffn_W{number}"
        yield f"{ours}.feed_forward.{part}.bias", f"{theirs}_ffn_b{number}"
    yield from _norm(f"{ours}.feed_forward_norm", f"{theirs}_ffn_ffn")


def _norm(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield f"{ours}.weight", f"{theirs}_ln_scale"
    yield f"{ours}.bias", f"{theirs}_ln_bias"
