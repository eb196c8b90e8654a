"""The font of formulas: STIX Two Math from the package ziamath, cut to what formulas use."""

import os
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path

from fontTools import subset
from sphinx.application import Sphinx

FILE = "maths.woff"
ONES = [0x1D7D9, 0x210E, 0x2016, 0x221A, 0x22A4]
"""𝟙, ℎ, ‖, √ and ⊤, which no range below holds."""
RANGES = [
    (0x20, 0x7F), (0xA0, 0x100), (0x2BC, 0x330), (0x391, 0x3FF), (0x2010, 0x2040), (0x2190, 0x21D5),
    (0x2200, 0x22A6), (0x22C0, 0x22F0), (0x2308, 0x230C), (0x27E6, 0x27EC), (0x1D434, 0x1D468),
    (0x1D49C, 0x1D4D0), (0x1D538, 0x1D56C), (0x1D6E2, 0x1D71C),
]  # fmt: skip
"""Letters, Greek, arrows, operators, fences; italic, script and double-struck letters."""


def write_font(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    options = subset.Options(flavor="woff", layout_features=["ssty"], name_IDs=["*"])
    with as_file(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf") as path:
        font = subset.load_font(os.fspath(path), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=chain(ONES, *(range(*each) for each in RANGES)))
    cut.subset(font)
    subset.save_font(font, os.fspath(Path(app.outdir, "_static", FILE)), options)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
