"""Links of a toy language, where there is the tool; and one line where there is none."""

import random
import sys

import pytest

from headbook.corpora.word_links import word_links
from headbook.types import UserError


def test_a_word_for_word_translation_is_aligned() -> None:
    """Sixty words in random order; the target has the words in the reverse order."""
    pytest.importorskip("eflomal")
    chance = random.Random(0)
    sources = [[f"w{chance.randrange(60)}" for _ in range(6)] for _ in range(400)]
    targets = [[word.replace("w", "x") for word in reversed(each)] for each in sources]
    right = total = 0
    for source, found in zip(sources, word_links(sources, targets), strict=True):
        assert found.sure <= found.possible
        right += sum(source[s] == source[5 - t] for s, t in found.sure)
        total += len(found.sure)
    assert total > 0.9 * 400 * 6 and right > 0.97 * total


def test_unequal_sides_and_a_missing_tool_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="1 sentences have 2 translations"):
        word_links([["a"]], [["b"], ["c"]])
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(UserError, match="pip install"):
        word_links([["a"]], [["b"]])
