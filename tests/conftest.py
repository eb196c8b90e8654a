"""What every test stands on: one run store per test run, no corpora from outside, no network.

Workers of pytest-xdist share the run store and the executed notebooks, so a model of a profile is
trained, and a notebook executed, once per test run.
"""

import functools
import gc
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

# Small products wait for each other on a busy machine, and workers share its cores. Set before
# anything imports torch; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import checked
import pytest
from filelock import FileLock
from hypothesis import settings

checked.install()  # before a test imports the package

# no timed asserts: a busy machine must not make a property fail
settings.register_profile("headbook", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("headbook")

SLOW = {"notebooks"}
"""Folders of tests that train or measure models; elsewhere the mark stands at the test."""
PAGES = {"executed", "executed_folder", "html"}
"""Fixtures that execute notebooks, and then build the book."""
LOCAL = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname()}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--complete", action="store_true",
                     help="a test that is skipped for want of something fails")  # fmt: skip


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where slow tests are left out, their folders need not be imported, which takes a quarter."""
    return (config.option.markexpr == "not slow" and collection_path.name in SLOW) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What is imported stays: garbage is not looked for in it, now or later."""
    gc.disable()
    collected = yield
    gc.enable()
    gc.freeze()
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: a worker that got it last would be waited for.

    Before all the executions of notebooks: a worker that asks for the book executes them from the
    other end meanwhile. Then files by their number of slow tests: a worker that asks for the book
    while another builds it waits.
    """
    for item in items:
        if item.path.parent.name in SLOW or PAGES & set(item.fixturenames):
            item.add_marker("slow")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None,
                                 PAGES & set(item.fixturenames) != {"executed"},
                                 -slow[item.path]))  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under --complete only `skipif`, which is for other platforms, can skip."""
    report = yield
    wanting = report.skipped and not hasattr(report, "wasxfail")
    if wanting and item.config.getoption("complete") and not item.get_closest_marker("skipif"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr[-1]}"
    return report


@pytest.fixture(scope="session")
def of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this test run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def isolated(of_the_run: Path) -> Iterator[None]:
    """Run store and downloads in the shared folder; a mirror set in the shell is not seen."""
    resolve = socket.getaddrinfo

    def only_local(host: object, *arguments: object, **named: object) -> list:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in LOCAL:
            raise OSError(f"tests have no network: {name} was asked for")
        return resolve(host, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADBOOK_RUNS", str(of_the_run / "runs"))
        patch.setenv("HEADBOOK_DOWNLOADS", str(of_the_run / "downloads"))
        patch.delenv("HEADBOOK_DATA", raising=False)
        patch.setattr(socket, "getaddrinfo", only_local)
        yield


@pytest.fixture
def few_generated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Generated corpora of some dozens of sentences: whole ones take seconds each."""
    from headbook.corpora import controlled
    from headbook.training.models import corpus_of

    few = functools.partial(controlled.split, train=60, valid=10, test=10)
    monkeypatch.setattr(controlled, "split", few)
    corpus_of.cache_clear()
    yield
    corpus_of.cache_clear()


@pytest.fixture(scope="module")
def running() -> Iterator[object]:
    """A browser."""
    import browser

    if browser.executable() is None:
        pytest.skip("no Chromium: install it")
    with browser.chromium() as found:
        yield found


@pytest.fixture(scope="session")
def executed(isolated: None, of_the_run: Path) -> Callable:
    """Gives the `Executed` of a notebook on next to nothing, failed or not.

    Whoever asks first executes it; another worker that asks meanwhile waits.
    """
    from headbook.publishing import notebooks
    from headbook.publishing.templates import select

    folder = of_the_run / "executed"
    folder.mkdir(exist_ok=True)

    def page(name: str) -> notebooks.Executed:
        kept = folder / f"{name}.outcome.json"
        with FileLock(folder / f"{name}.lock"):
            if not kept.exists():
                (done,) = notebooks.attempt(select([name]), {}, notebooks.SMOKE, destination=folder)
                kept.write_text(json.dumps(asdict(done), default=str), "utf-8")
        found = json.loads(kept.read_text("utf-8"))
        found |= {"path": Path(found["path"]), "differing": tuple(found["differing"])}
        return notebooks.Executed(**found)

    return page


@pytest.fixture(scope="session")
def executed_folder(executed: Callable) -> Path:
    """Where the executed copies of all notebooks lie."""
    from headbook.publishing.templates import templates

    # backwards, as another worker may come from the front
    names = [template.name for template in templates()][::-1]
    return {executed(name).path.parent for name in names}.pop()
