"""Trees hold together."""

import pytest

from headbook.text.trees import ROOT, Arc, Tree

WHOLE = {
    "text": "dogs see her",
    "words": ((0, 4), (5, 8), (9, 12)),
    "heads": (1, ROOT, 1),
    "relations": ("nsubj", "root", "dobj"),
}


def test_arcs_are_all_dependencies_but_the_root():
    tree = Tree(**WHOLE)
    assert list(tree.arcs()) == [Arc("nsubj", 0, 1), Arc("dobj", 2, 1)]
    assert [arc.offset for arc in tree.arcs()] == [-1, 1]
    assert tree.forms == ("dogs", "see", "her")
    assert len(tree) == 3


@pytest.mark.parametrize(
    "broken",
    [
        {"heads": (1, ROOT)},
        {"relations": ("nsubj", "root")},
        {"tags": ("NOUN",)},
        {"heads": (1, ROOT, 3)},
        {"heads": (1, 2, 1)},
        {"words": ((0, 4), (3, 8), (9, 12))},
        {"words": ((0, 4), (5, 8), (9, 13))},
    ],
    ids=str,
)
def test_a_tree_that_does_not_fit_together_is_refused(broken: dict):
    with pytest.raises(ValueError):
        Tree(**{**WHOLE, **broken})
