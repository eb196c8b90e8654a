"""Trees hold together."""

import pytest

from headbook.text.trees import ROOT, Tree

WHOLE = {
    "text": "dogs see her",
    "words": ((0, 4), (5, 8), (9, 12)),
    "heads": (1, ROOT, 1),
    "relations": ("nsubj", "root", "dobj"),
}


@pytest.mark.parametrize(
    "broken",
    [{"relations": ("nsubj", "root")}, {"heads": (1, ROOT, 3)},
     {"words": ((0, 4), (3, 8), (9, 12))}, {"words": ((0, 4), (5, 8), (9, 13))}],
)  # fmt: skip
def test_a_tree_that_does_not_fit_together_is_refused(broken: dict):
    with pytest.raises(ValueError):
        Tree(**{**WHOLE, **broken})
