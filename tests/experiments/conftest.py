"""A corpus of short pairs for trainings of a second."""

import pytest
from small import backwards, write_pairs

WORDS = ["the", "a", "old", "red", "dog", "cat", "man", "ball", "house", "sees", "likes", "finds"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixty pairs of sentences of twelve words, whose translations are theirs backwards."""
    rows = [[WORDS[(at + 5 * step) % 12] for step in range(4 + at % 3)] for at in range(84)]
    return str(write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 12))
