"""Figures are numbered by their page: the first of page 13 is Figure 13.1 wherever it stands.

Sphinx would count them through the whole book, so that a new page renumbers all that follow.
"""

import re

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PAGE = re.compile(r"(?:^|/)(\d+)_")


def by_page(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Replaces the number of each figure on a numbered page by (page, place on it)."""
    for name, kinds in env.toc_fignumbers.items():
        if page := PAGE.search(name):
            for figures in kinds.values():
                for place, figure in enumerate(figures, 1):
                    figures[figure] = (int(page[1]), place)
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-get-updated", by_page, priority=900)  # after Sphinx has given its own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
