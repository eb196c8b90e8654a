"""Packing: data for a machine without network and spaCy, to train and publish a profile."""

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from headbook import paths
from headbook.artefacts.catalogue import runs
from headbook.artefacts.language import LanguageRun
from headbook.artefacts.model import corpus_of
from headbook.artefacts.recipe import Run
from headbook.artefacts.texts import HELD_OUT, PARSES, asked_parses, held_out
from headbook.artefacts.tokenised import IDS, SIDES, TOKENISED, tokenised
from headbook.chapters.config import Config
from headbook.corpora.download import locate, sha256
from headbook.corpora.registry import Corpus, Place, corpus, place, registry
from headbook.runs.store import Store
from headbook.types import UserError

ELSEWHERE = {"multi30k": ("tatoeba",), "tatoeba": ("multi30k", "msdocs"), "msdocs": ("tatoeba",)}
"""Texts of another kind for a corpus with one test set: the first there is."""
LARGEST = 60 * 2**20
"""Bytes of one corpus: more is not carried along with the code."""
DATA, DOWNLOADS, RUNS = "data", "downloads", "runs"
"""Folders of a pack, named as HEADBOOK_DATA, HEADBOOK_DOWNLOADS and HEADBOOK_RUNS there."""
PARSE_FILES = ("trees.json", "run.json")
"""Files of stored parses for a machine without spaCy; the record comes last, as in the store."""
TOKEN_FILES = (*(f"{side}.json" for side in SIDES), IDS, "run.json")
COMMANDS = """\
To run there, in the repository's folder (with other paths, where the pack lies elsewhere there):

export PYTHONPATH=src:build/packages
export HEADBOOK_DATA={data} HEADBOOK_DOWNLOADS={downloads} HEADBOOK_RUNS={runs}
python3 -m headbook plan {models}
python3 -m headbook train {models} --minutes 30\
"""
PUBLISH = "\npython3 -m headbook publish {models} --minutes 30"
"""Such a machine is rented for so many minutes: `train` and `publish` continue the next time."""


@dataclass(frozen=True)
class Item:
    """Files that belong together: where each goes below the pack, and where it is now."""

    name: str
    files: Mapping[Path, Path]

    @property
    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files.values())

    def line(self, copied: int) -> str:
        """As it is printed, with how many of its files were not in the pack before."""
        done = f"copied: {copied}" if copied else "there already"
        return f"{self.name:<28} {_megabytes(self.bytes):>12}  {done}"


def lines(config: Config, folder: Path, store: Store) -> Iterator[str]:
    """Packs the profile's corpora, treebanks, parses and subwords into `folder`, a line for each.

    A file that is there with the same bytes is not copied again. UserError before anything is
    copied where a corpus is over LARGEST, and where `folder` cannot be written.
    """
    made = chain(parses(config, store), subwords(config.translation_models(), store))
    yield from _packed(corpora_of(config), made, folder)
    profile = f"--profile {config.profile}"
    yield f"\n{commands(profile, folder)}{PUBLISH.format(models=profile)}"


def named_lines(names: Sequence[str], folder: Path, store: Store) -> Iterator[str]:
    """Packs what the trainings of these models read: their corpora and subwords, no parses."""
    runs_of = runs(*names)
    texts = [run.corpus for run in runs_of]
    needed = [needs for name in texts for needs in _sets(corpus(name))]
    yield from _packed(list(dict.fromkeys([*texts, *needed])), subwords(runs_of, store), folder)
    yield f"\n{commands(' '.join(names), folder)}"


def _packed(names: Sequence[str], made: Iterable[Item], folder: Path) -> Iterator[str]:
    here, without = _sorted_out(names)
    # Named there as HEADBOOK_DATA, so it has to be a folder, whether or not a file goes into it.
    _make_folder(folder / DATA)
    yield from without
    packed: dict[Path, Path] = {}
    for item in (*here, *made):
        if item.bytes > LARGEST:
            yield f"{item.name}: left out, {_megabytes(item.bytes)} is too large; computed there"
            continue
        yield item.line(sum([_copied(file, folder / to) for to, file in item.files.items()]))
        packed |= item.files
    yield f"{'in all':<28} {_megabytes(Item('', packed).bytes):>12}"


def corpora_of(config: Config) -> list[str]:
    """Names of the models' corpora, of the treebanks, and of what is read besides them."""
    models = [run.corpus for run in config.translation_models()]
    models += [run.corpus for run in config.preset.language]
    treebanks = [text for text in config.texts if text != HELD_OUT]
    others = [name for model in models for name in _elsewhere(model)]
    names = [*models, *treebanks, *others]
    needed = [needs for name in names for needs in _sets(corpus(name))]
    return list(dict.fromkeys([*names, *needed]))


def _elsewhere(name: str) -> list[str]:
    """The corpus that gives a model of this one a text of another kind, where one is known."""
    collection, _, target = name.rpartition("-")
    others = [f"{other}-{target}" for other in ELSEWHERE.get(collection, ())]
    return [other for other in others if other in registry()][:1]


def _sets(entry: Corpus) -> list[str]:
    """A mixture's corpora, and the sets without which a public download cannot be read."""
    named = (*entry.held_out, *entry.tests, entry.valid)
    return [*entry.of, *(name for name in named if name and place(entry) is Place.DOWNLOADED)]


def _sorted_out(names: Sequence[str]) -> tuple[list[Item], list[str]]:
    """Corpora to copy, and a line for each that has no file or is not here."""
    here, without = [], []
    for name in names:
        found = place(corpus(name))
        if found is Place.GENERATED:
            without.append(f"{name}: generated there, no file")
        elif found is Place.ABSENT:
            without.append(
                f"{name}: left out, it is not here: set HEADBOOK_DATA to a folder that has it, or "
                f"`headbook corpora fetch {name}`, and pack again"
            )
        else:
            here.append(_corpus_item(name))
    return here, without


def _corpus_item(name: str) -> Item:
    """A corpus with its digests checked, each file where it is looked for below its root."""
    located = locate(name)
    root, below = (
        (paths.mirror(), DATA) if located.place is Place.MIRROR else (paths.downloads(), DOWNLOADS)
    )
    assert root is not None
    files = {Path(below) / file.relative_to(root): file for file in located.files.values()}
    item = Item(name, files)
    if item.bytes > LARGEST:
        raise UserError(
            f"{name} is {_megabytes(item.bytes)} packed, and a pack takes {_megabytes(LARGEST)} of "
            "a corpus: cut it to its first pairs, enter those in data/corpora.toml under a name of "
            "their own, and let the profile name them"
        )
    return item


def parses(config: Config, store: Store) -> Iterator[Item]:
    """The store's parses of every text that has no gold trees and that pages parse.

    They are made where the store lacks them; UserError where that needs spaCy and it is not here.
    """
    here = {run.corpus: run for run in config.translation_models() if _is_here(run.corpus)}
    for name, run in here.items():
        text = held_out(corpus_of(name, run.pairs), config.sentence_count, config.pipeline, store)
        if text.parser != "gold":
            folder = store.folder(asked_parses(text.sentences, text.parser))
            below = Path(RUNS) / PARSES.name / folder.name
            files = {below / file: folder / file for file in PARSE_FILES}
            yield Item(f"{name}, parses", files)


def _is_here(name: str) -> bool:
    return place(corpus(name)) is not Place.ABSENT


def subwords(given: Iterable[Run], store: Store) -> Iterator[Item]:
    """The store's subwords of every corpus of files, with its training pairs as ids.

    They are learnt where the store lacks them.
    """
    of_pairs = (run for run in given if not isinstance(run, LanguageRun))
    asked = ((run.corpus, run.pairs, run.vocabulary) for run in of_pairs if _has_files(run.corpus))
    for name, pairs, size in dict.fromkeys(asked):
        folder = tokenised(corpus_of(name, pairs), size, store).folder
        below = Path(RUNS) / TOKENISED.name / folder.name
        files = {below / file: folder / file for file in TOKEN_FILES}
        yield Item(f"{name}, {size:,} subwords", files)


def _has_files(name: str) -> bool:
    return place(corpus(name)) not in (Place.ABSENT, Place.GENERATED)


def _copied(file: Path, to: Path) -> bool:
    """Copies a file unless the same bytes are there; a kill leaves none that is half written."""
    if to.is_file() and sha256(to) == sha256(file):
        return False
    _make_folder(to.parent)
    aside = to.with_name(f"{to.name}.partial")
    with _writing(to):
        shutil.copyfile(file, aside)
        aside.replace(to)
    return True


def _make_folder(folder: Path) -> None:
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}): make room there, or name another folder"
        ) from None


def commands(models: str, folder: Path) -> str:
    """The commands to type there, of a profile or of models by name.

    A pack in the repository is named from the repository's folder.
    """
    whole = folder.resolve()
    inside = whole.is_relative_to(paths.REPOSITORY)
    shown = whole.relative_to(paths.REPOSITORY) if inside else whole
    named = {each: shlex.quote(str(shown / each)) for each in (DATA, DOWNLOADS, RUNS)}
    return COMMANDS.format(models=models, **named)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
