"""The three label schemes count the same words under the four relations."""

import pytest

from headbook.syntax.labels import LabelScheme, normalised, scheme


@pytest.mark.parametrize(
    ("label", "form", "expected"),
    [
        ("obj", "her", "dobj"),
        ("dobj", "her", "dobj"),
        ("obj:agent", "Paul", "dobj"),
        ("iobj", "her", "iobj"),
        ("pobj", "house", "pobj"),
        ("nsubj", "she", "nsubj"),
        ("nsubj:outer", "she", "nsubj"),
        ("nsubj:pass", "she", "nsubjpass"),
        ("nsubjpass", "she", "nsubjpass"),
        ("csubj", "swimming", "csubj"),
        ("amod", "old", "amod"),
        ("advmod", "often", "advmod"),
        ("advmod:emph", "even", "advmod"),
        ("advmod", "Not", "neg"),
        ("advmod", "n't", "neg"),
        ("advmod", "never", "neg"),
        ("neg", "not", "neg"),
        ("discourse", "not", "discourse"),
        ("ROOT", "see", "root"),
        ("root", "see", "root"),
        ("acl:relcl", "see", "acl:relcl"),
    ],
)
def test_labels_are_brought_to_the_papers_reading(label: str, form: str, expected: str):
    assert normalised(label, form) == expected
    assert normalised(expected, form) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["ROOT", "nsubj", "obj"], LabelScheme.UNIVERSAL),
        (["nsubj:pass"], LabelScheme.UNIVERSAL),
        (["ROOT", "nsubj", "dobj", "pobj"], LabelScheme.CLEARNLP),
        (["nsubj", "punct"], LabelScheme.UNKNOWN),
        ([], LabelScheme.UNKNOWN),
    ],
)
def test_a_scheme_is_told_by_its_objects(labels: list[str], expected: LabelScheme):
    assert scheme(labels) is expected
