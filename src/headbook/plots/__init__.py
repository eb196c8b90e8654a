"""The book's figures: a few forms of one family, as wide as the column they stand in.

`heads` maps a value over layers and heads, `intervals` draws estimates with their intervals row by
row, `curves` lines over training, layers or heads left; all take tidy tables and give a `Drawing`.
`film` shows pairs of heads through training, `sentence` weights between words.
"""

from headbook.plots.film import Run, film
from headbook.plots.lines import curves
from headbook.plots.maps import heads
from headbook.plots.rows import intervals
from headbook.plots.svg import Drawing
from headbook.plots.view import draw as sentence

__all__ = ["Drawing", "Run", "curves", "film", "heads", "intervals", "sentence"]
