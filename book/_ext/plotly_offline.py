"""Give the pages that hold a plotly figure, and no others, plotly's script from its own wheel."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from sphinx.application import Sphinx

SCRIPT = "plotly.min.js"


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object
) -> None:
    if "Plotly.newPlot" in str(context.get("body", "")):
        # in the head and not deferred: the figures in the body call it while the page loads
        app.add_js_file(SCRIPT, priority=100)
        app.env.headbook_plotly = True


def copy_script(app: Sphinx, error: Exception | None) -> None:
    if error is None and getattr(app.env, "headbook_plotly", False):
        static = Path(app.outdir, "_static")
        with as_file(files("plotly") / "package_data" / SCRIPT) as script:
            shutil.copyfile(script, static / SCRIPT)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
