"""The three label schemes count the same words under the four relations."""

import pytest

from headbook.text.labels import normalised


@pytest.mark.parametrize(
    ("label", "form", "expected"),
    [
        ("pobj", "house", "pobj"),
        ("nsubj:outer", "she", "nsubj"),
        ("advmod", "often", "advmod"),
        ("advmod", "Not", "neg"),
        ("ROOT", "see", "root"),
        ("acl:relcl", "see", "acl:relcl"),
    ],
)
def test_labels_are_brought_to_the_papers_reading(label: str, form: str, expected: str):
    assert normalised(label, form) == expected
    assert normalised(expected, form) == expected
