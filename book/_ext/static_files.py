"""Leave out of the book what no page needs: source maps, translations, a second copy of the icons.

The theme has Font Awesome as fonts and again as a script of 1.5 MB, for icons that a site adds; its
own icons come from the fonts.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

SCRIPT = "scripts/fontawesome.js"
UNUSED = ("*.map", "*.ttf", "*.LICENSE.txt", "locales")


def leave_out(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    for pattern in UNUSED:
        for path in list(static.rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if (static / SCRIPT).exists():  # the theme's layout names it
        (static / SCRIPT).write_text("/* the icons are in the fonts */\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
