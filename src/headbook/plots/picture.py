"""Numbers as a tiny picture, a pixel each."""

import base64
import io

import numpy as np
from jaxtyping import Float
from PIL import Image

STRENGTHS = 15


def picture(values: Float[np.ndarray, "row column"], positive: str, negative: str = "") -> str:
    """A data address of values from -1 to 1: the colour by their sign, as strong as they are large;
    for any ground. A value that is not a number is the ground."""
    strengths = np.rint(STRENGTHS * np.nan_to_num(values)).clip(-STRENGTHS, STRENGTHS)
    image = Image.fromarray((STRENGTHS + strengths).astype(np.uint8), "P")
    colours = [negative or positive] * STRENGTHS + [positive] * (STRENGTHS + 1)
    image.putpalette(bytes.fromhex("".join(colours).replace("#", "")))
    opacity = bytes(abs(at) * 255 // STRENGTHS for at in range(-STRENGTHS, STRENGTHS + 1))
    file = io.BytesIO()
    image.save(file, "PNG", transparency=opacity, optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
