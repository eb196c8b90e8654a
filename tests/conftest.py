"""What every test stands on: its own run store, no corpora from outside, no network."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from headbook import paths

# no timed asserts: a busy machine must not make a property fail
settings.register_profile("headbook", deadline=None, derandomize=True)
settings.load_profile("headbook")

LOCAL = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname()}


@pytest.fixture(scope="session", autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run store and downloads in a session folder; a mirror set in the shell is not seen."""
    folder = tmp_path_factory.mktemp("headbook")
    resolve = socket.getaddrinfo

    def only_local(host: object, *arguments: object, **named: object) -> list:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in LOCAL:
            raise OSError(f"tests have no network: {name} was asked for")
        return resolve(host, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADBOOK_RUNS", str(folder / "runs"))
        patch.setenv("HEADBOOK_DOWNLOADS", str(folder / "downloads"))
        patch.delenv("HEADBOOK_DATA", raising=False)
        patch.setattr(socket, "getaddrinfo", only_local)
        yield


@pytest.fixture(scope="session")
def executed(isolated: None, tmp_path_factory: pytest.TempPathFactory) -> list:
    """Every notebook of the book, executed once at profile `smoke`; failures stay in the list."""
    from headbook.publishing import notebooks

    destination = tmp_path_factory.mktemp("executed")
    return notebooks.attempt(notebooks.templates(), "smoke", {}, destination=destination)


@pytest.fixture(scope="session")
def executed_folder(executed: list) -> Path:
    """Where the executed copies lie; fails when there is no notebook at all."""
    assert executed, f"no notebooks in {paths.NOTEBOOKS}"
    return executed[0].path.parent


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small products wait for each other on a busy machine: one thread is the faster there."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
