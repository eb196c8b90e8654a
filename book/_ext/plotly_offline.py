"""Interactive figures: drawn when they come into view, with plotly's script from its own wheel.

A page that holds none loads nothing. Until it is drawn an element of class `headbook-still` beside
the figure stands for it, if there is one.
"""

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from sphinx.application import Sphinx

PLOTLY = "plotly.min.js"
VIEWS = "views.js"
DRAWN = re.compile(
    r'<script(?: type="text/javascript")?>(?=(?:(?!</script>).)*Plotly\.newPlot)', re.DOTALL
)
HELD_BACK = '<script type="text/plain" class="headbook-view">'


def hold_back(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object
) -> None:
    """Scripts that draw are text until views.js runs them."""
    body = str(context.get("body", ""))
    if "Plotly.newPlot" in body:
        context["body"] = DRAWN.sub(HELD_BACK, body)
        app.add_js_file(VIEWS, loading_method="defer")
        app.env.headbook_plotly = True


def copy_scripts(app: Sphinx, error: Exception | None) -> None:
    static = Path(app.outdir, "_static")
    if error is not None or not getattr(app.env, "headbook_plotly", False):
        return
    # not in the book's _static, whose scripts jupyter-book gives to every page
    shutil.copyfile(Path(__file__).with_name(VIEWS), static / VIEWS)
    with as_file(files("plotly") / "package_data" / PLOTLY) as script:
        shutil.copyfile(script, static / PLOTLY)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", hold_back)
    app.connect("build-finished", copy_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
