"""Packing: what trainings read, in one folder, for a machine without a network."""

import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headbook import paths
from headbook.recipes import select
from headbook.runs.store import RECORD, Store
from headbook.text.download import locate
from headbook.text.registry import Place, corpus, place
from headbook.training.models import Run, corpus_of, run
from headbook.training.train import SUBWORDS, subwords
from headbook.types import UserError

DATA, DOWNLOADS, RUNS = "data", "downloads", "runs"
"""Folders of a pack, named as HEADBOOK_DATA, HEADBOOK_DOWNLOADS and HEADBOOK_RUNS there."""
COMMANDS = """
To run there, in the repository's folder:

export PYTHONPATH=src:build/packages
export HEADBOOK_DATA={data} HEADBOOK_DOWNLOADS={downloads} HEADBOOK_RUNS={runs}
python3 -m headbook train {names} --plan
python3 -m headbook train {names} --minutes 30\
"""


def pack(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Copies corpora and subwords of these models and families to `folder`, a line for each.

    Corpora that are not here are fetched, and subwords learnt where the store lacks them. UserError
    for an unknown model, a corpus that cannot be had, and a folder that cannot be written.
    """
    chosen = select(names)
    runs = [run(name) for name in chosen]
    try:
        (folder / DATA).mkdir(parents=True, exist_ok=True)  # HEADBOOK_DATA has to be a folder
        for name in _needed(each.text.corpus for each in runs):
            yield _copied(name, _of_corpus(name), folder)
        for name, files in _of_subwords(runs).items():
            yield _copied(name, files, folder)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror}): make room there, or name another"
        ) from None
    there = {each: shlex.quote(str(folder / each)) for each in (DATA, DOWNLOADS, RUNS)}
    yield COMMANDS.format(names=shlex.join(chosen), **there)


def _needed(texts: Iterable[str]) -> list[str]:
    """Corpora with those of a mixture, and the sets without which a download cannot be read."""
    found = list(dict.fromkeys(texts))
    for name in found:
        entry = corpus(name)
        found += entry.of
        if place(entry) not in (Place.MIRROR, Place.GENERATED):
            found += filter(None, (*entry.held_out, *entry.tests, entry.valid))
    return list(dict.fromkeys(found))


def _of_corpus(name: str) -> dict[Path, Path]:
    """Files, digests checked, by where they are looked for below the pack; none if generated."""
    entry = corpus(name)
    if entry.of or place(entry) is Place.GENERATED:  # a mixture's corpora have lines of their own
        return {}
    mirrored = place(entry) is Place.MIRROR
    root, below = (paths.mirror(), DATA) if mirrored else (paths.downloads(), DOWNLOADS)
    return {Path(below) / file.relative_to(root or ""): file for file in locate(name).values()}


def _of_subwords(runs: Sequence[Run]) -> dict[str, dict[Path, Path]]:
    found = {}
    for name, pairs, size in {(x.text.corpus, x.text.pairs, x.text.vocabulary): x for x in runs}:
        there = subwords(corpus_of(name, pairs), size, Store.default())
        below = Path(RUNS) / SUBWORDS.name / there.name
        files = ("source.json", "target.json", RECORD)  # the record comes last, as in the store
        found[f"{name}, {size:,} subwords"] = {below / each: there / each for each in files}
    return found


def _copied(name: str, files: dict[Path, Path], folder: Path) -> str:
    for below, file in files.items():
        (folder / below).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / below)
    return f"{name}: {sum(file.stat().st_size for file in files.values()) / 1e6:,.1f} MB"
