"""A corpus of short pairs for trainings of a second."""

import pytest
from small import write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_corpus(tmp_path_factory.mktemp("text") / "corpus"))
