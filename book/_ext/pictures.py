"""A directive that shows what a cell of an executed page shows: ``{picture} 13 at-work``.

Its arguments are the page's number and the cell's id. A page or cell that is not there, or shows no
drawing, is a warning, which the build takes as an error.
"""

from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class Picture(SphinxDirective):
    """The drawing of one cell of one page, as that page has it."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        number, cell = self.arguments
        for page in Path(self.env.srcdir, "_executed").glob(f"{number}_*.ipynb"):
            self.env.note_dependency(str(page))
            if drawing := _drawing(page, cell):
                shown = f'<div class="headbook-picture cell_output">{drawing}</div>'
                return [nodes.raw("", shown, format="html")]
        logger.warning("page %s shows nothing in a cell %r", number, cell,
                       location=self.get_location())  # fmt: skip
        return []


def _drawing(page: Path, cell: str) -> str:
    found = (each for each in nbformat.read(page, as_version=4).cells if each.get("id") == cell)
    shown = [output.get("data", {}) for each in found for output in each.get("outputs", ())]
    return next((data["text/html"] for data in shown if "text/html" in data), "")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
