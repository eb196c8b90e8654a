"""The book, built once from the executed notebooks."""

from pathlib import Path

import pytest

from headbook.publishing import book


@pytest.fixture(scope="session")
def html(executed_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("folder with a space") / "book"
    return book.build(output, executed=executed_folder).parent
