"""The book's figures: a few forms of one family, as wide as the column they stand in.

`heads` maps a value over layers and heads, `intervals` draws estimates with their intervals row by
row, `curves` lines over training, `pruning` quality over heads left, `paired` two values per row;
all take tidy tables and give a `Drawing`. `film` shows pairs of heads through training, `points`
heads on a plane by their layers, `sentence` weights between words.
"""

from headbook.plots.film import Film, Run, film
from headbook.plots.lines import curves, pruning
from headbook.plots.maps import heads
from headbook.plots.palette import EVIDENCE, KINDS, ROLES
from headbook.plots.points import points
from headbook.plots.rows import intervals, paired
from headbook.plots.svg import Drawing
from headbook.plots.view import draw as sentence

__all__ = [
    "EVIDENCE", "KINDS", "ROLES", "Drawing", "Film", "Run", "curves", "film",
    "heads", "intervals", "paired", "points", "pruning", "sentence",
]  # fmt: skip
