"""The three label schemes count the same words under the four relations."""

import pytest

from headbook.text.labels import normalised


@pytest.mark.parametrize(
    ("label", "form", "expected"),
    [
        ("obj", "her", "dobj"),
        ("pobj", "house", "pobj"),
        ("nsubj:outer", "she", "nsubj"),
        ("nsubj:pass", "she", "nsubjpass"),
        ("amod", "old", "amod"),
        ("advmod", "often", "advmod"),
        ("advmod", "Not", "neg"),
        ("advmod", "n't", "neg"),
        ("neg", "not", "neg"),
        ("ROOT", "see", "root"),
        ("acl:relcl", "see", "acl:relcl"),
    ],
)
def test_labels_are_brought_to_the_papers_reading(label: str, form: str, expected: str):
    assert normalised(label, form) == expected
    assert normalised(expected, form) == expected
