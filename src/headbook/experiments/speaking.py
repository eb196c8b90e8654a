"""Speech made here, with the time of every word, and a drawing of it (page 75): espeak-ng, called
by its library.

The package espeakng-loader brings library and voices. The same calls in the same order give the
same sound; a voice wavers a little from call to call.
"""

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from itertools import takewhile

import matplotlib
import numpy as np
from jaxtyping import Float
from scipy.signal import resample_poly

from headbook.extras import extras
from headbook.looking.attention import Attention
from headbook.plots.svg import STYLE, Drawing, canvas
from headbook.types import UserError

SYNCHRONOUS, UTF8, SPEED, WORD = 2, 1, 1, 1
"""A kind of output, an encoding, a parameter and a kind of event, from espeak-ng's speak_lib.h."""
RATE, UP, DOWN = 16_000, 320, 441
"""Samples a second as Whisper reads them, and the way there from the synthesiser's 22,050."""


class Event(ctypes.Structure):
    """What happens while it speaks; `place` is that of a word in the text, from 1."""

    _fields_ = [
        *[(name, ctypes.c_int) for name in ("type", "id", "place", "length", "ms", "sample")],
        ("user", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]  # fmt: skip


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))
def _note(samples, count, events):
    if samples:
        _engine().wave.append(np.ctypeslib.as_array(samples, (count,)) / 2**15)
    for each in takewhile(lambda event: event.type, events):
        if each.type == WORD:
            _engine().begins[each.place - 1] = each.ms / 1000
    return 0


@cache
def _engine() -> ctypes.CDLL:
    with extras():
        import espeakng_loader
    engine = ctypes.CDLL(espeakng_loader.get_library_path())
    if engine.espeak_Initialize(SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0) < 0:
        raise UserError("espeak-ng does not find its voices: install espeakng-loader again")
    engine.espeak_SetSynthCallback(_note)
    engine.wave, engine.begins = [], {}
    return engine


def speak(
    text: str, voice: str = "en-us", speed: int = 160
) -> tuple[Float[np.ndarray, " sample"], Float[np.ndarray, " word"]]:
    """Sound at 16 kHz, and the second in which each word, between spaces, begins.

    NaN for a word that is run into the one before it ("of the"). `voice` is a name of espeak-ng, as
    "en+f3", `speed` in words a minute. UserError for an unknown voice.
    """
    engine, said = _engine(), text.encode()
    engine.wave.clear(), engine.begins.clear()
    if engine.espeak_SetVoiceByName(voice.encode()):
        raise UserError(f"espeak-ng has no voice {voice!r}; names are as en-us, en+f3")
    engine.espeak_SetParameter(SPEED, speed, 0)
    engine.espeak_Synth(said, len(said) + 1, 0, 1, 0, UTF8, None, None)
    places = [word.start() for word in re.finditer(r"\S+", text)]
    begins = np.array([engine.begins.get(place, np.nan) for place in places])
    return resample_poly(np.concatenate(engine.wave), UP, DOWN), begins


def plot(
    seen: Attention,
    sound: Float[np.ndarray, " sample"],
    begins: Float[np.ndarray, " word"],
    heads: Sequence[str],
) -> Drawing:
    """Weights of some heads, tokens by time, above the sound, with a line where a word begins."""
    rows, end = [token.strip("▁") for token in seen.words[1:-1]], len(sound) / RATE
    ratios = [*[5] * len(heads), 1]
    figure, axes = canvas(165 * len(heads) + 60, len(ratios), height_ratios=ratios, sharex=True)
    with matplotlib.rc_context(STYLE):
        for head, axis in zip(heads, axes[:, 0], strict=False):
            axis.imshow(seen[head][1:-1], aspect="auto", extent=(0, end, len(rows), 0))
            axis.vlines(begins, 0, len(rows), "w", linewidth=0.8)
            axis.set_yticks(np.arange(len(rows)) + 0.5, rows)
            axis.set_title(head, loc="left")
        axes[-1, 0].plot(np.arange(len(sound)) / RATE, sound, linewidth=0.4)
        axes[-1, 0].set(xlabel="seconds", yticks=[])
    return Drawing(figure, f"Weights of {', '.join(heads)}: tokens by seconds")
