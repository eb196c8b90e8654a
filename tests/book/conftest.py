"""The book, built once per test run from the executed notebooks."""

from pathlib import Path

import pytest
from filelock import FileLock

from headbook.publishing import book


@pytest.fixture(scope="session")
def html(executed_folder: Path, of_the_run: Path) -> Path:
    output = of_the_run / "folder with a space" / "book"
    output.parent.mkdir(exist_ok=True)
    built = output / "_build" / "html"
    with FileLock(of_the_run / "book.lock"):
        if not built.exists():
            assert book.build(output, executed=executed_folder).parent == built
    return built
