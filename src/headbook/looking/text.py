"""Sentences to measure on, parsed where possible: a treebank by name, a file, or a list."""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from headbook import paths
from headbook.models.loaded import UNDETERMINED, Loaded
from headbook.text import download
from headbook.text.files import text_lines
from headbook.text.registry import CorpusKind, nearest, registry
from headbook.text.treebank import read_conllu
from headbook.text.trees import Tree
from headbook.types import UserError

SAMPLE = "ewt-sample"
"""The first 500 trees of the test set of the English Web Treebank; always there."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, from text that was decoded wrongly: no tokenizer takes it."""
HELD_OUT = ("dev", "test")
"""Parts of a treebank that parsers are not trained on."""
INSTALLED, MIRRORED = "en_core_web_sm", Path("spacy/en_ud_ewt")
"""The spaCy pipeline a user would install, and the one in the data folder."""


@dataclass(frozen=True)
class Text:
    """Sentences with their dependency trees.

    `trees` has one tree per sentence, or none at all where the text is not parsed. Of a tree, with
    words counted from zero: `text`, `forms` (the words), `words` (their spans of characters), and
    word by word `heads` (-1 for the root), `relations` to these, and `tags` (universal parts of
    speech); `len(tree)` counts its words.
    """

    name: str
    sentences: tuple[str, ...]
    trees: tuple[Tree, ...]
    parser: str  # "gold", or the pipeline's name and version


def text(
    source: str | Path | Iterable[str],
    *,
    parts: Sequence[str] | None = None,
    first: int | None = None,
) -> Text:
    """Sentences with their dependency trees, to measure heads on; `Text` says what they hold.

    `source` is the name of a treebank ("ewt-sample", which is always there; "ud-ewt", "ud-pud-en",
    …), a CoNLL-U file (.conllu, .conll, packed or not), a plain text file with one sentence per
    line (or .gz), or sentences: a list, a column of a DataFrame. `parts` of a treebank are dev and
    test by default, where they exist; `first` limits the number of sentences.

    Invalid trees (a cycle, heads that are missing) are left out, and a warning counts them. Plain
    sentences are parsed with an English spaCy pipeline, whatever their language (give others as
    CoNLL-U); without one a warning says so, and the text has no trees. UserError, in one line, for
    a name or file that does not exist, a malformed treebank, and a text without sentences.
    """
    if first is not None and first < 1:
        raise UserError(f"first is {first}; use at least 1 sentence")
    if not isinstance(source, str | Path):
        listed = isinstance(source, Iterable) and not isinstance(source, Mapping)
        if not listed or hasattr(source, "columns"):
            kind = type(source).__name__
            raise UserError(f"a {kind} is no list of sentences; give a list, or one column")
        return _sentences("sentences", list(source)[:first])
    name = str(source)
    if name == SAMPLE:
        return _gold(name, _sample(paths.DATA / "sample" / "ewt-test-500.conllu")[:first])
    if name in registry():
        return _gold(name, _treebank(name, parts)[:first])
    path = paths.expanded(source)
    if not path.is_file():
        raise UserError(_unknown(name, path))
    if path.name.lower().removesuffix(".gz").endswith((".conllu", ".conll")):
        return _gold(path.name, read_conllu(path)[:first])
    return _sentences(path.name, _lines(path)[:first])


def reads(model: Loaded, source: str) -> bool:
    """Whether a text is in the language that a model reads; True where either is not known."""
    entry = registry().get(source)
    own = entry.target if entry else "en" if source == SAMPLE else UNDETERMINED
    return UNDETERMINED in (own, model.languages[0]) or own == model.languages[0]


@cache
def _sample(path: Path) -> tuple[Tree, ...]:
    """Read once: a page asks for its sentences again and again, and they do not change."""
    return tuple(read_conllu(path))


def _treebank(name: str, parts: Sequence[str] | None) -> list[Tree]:
    if registry()[name].kind is not CorpusKind.TREEBANK:
        raise UserError(
            f"{name} is no treebank; use one of {', '.join(_treebanks())}, or a list of sentences"
        )
    files = download.locate(name)
    if parts is None:
        parts = [part for part in HELD_OUT if f"{part}.conllu" in files]
    missing = [part for part in parts if f"{part}.conllu" not in files]
    if missing:
        there = ", ".join(file.removesuffix(".conllu") for file in files)
        raise UserError(f"{name} has no part {missing[0]!r}; it has {there}")
    return [tree for part in parts for tree in read_conllu(files[f"{part}.conllu"])]


def _treebanks() -> list[str]:
    known = registry().values()
    return [SAMPLE, *(entry.name for entry in known if entry.kind is CorpusKind.TREEBANK)]


def _unknown(name: str, path: Path) -> str:
    if path.is_dir():
        return f"{name} is a folder; name a CoNLL-U or text file in it"
    near = ", ".join(nearest(name, _treebanks())[:3])
    return (
        f"no text {name!r}: neither a file nor a treebank (did you mean {near}?); "
        "sentences are given as a list"
    )


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in text_lines(path) if line.strip()]


def readable(model: Loaded, read: Text) -> tuple[Text, int]:
    """The text without sentences that the model cannot take, mostly too long, and how many these
    are; UserError where none is left."""
    taken = fitting(model, read.sentences)
    if len(taken) == len(read.sentences):
        return read, 0
    sentences, trees = (tuple(each[at] for at in taken) if each else ()
                        for each in (read.sentences, read.trees))  # fmt: skip
    return replace(read, sentences=sentences, trees=trees), len(read.sentences) - len(taken)


def fitting(
    model: Loaded, sentences: Sequence[str], targets: Sequence[str] | None = None
) -> list[int]:
    """The places of sentences that the model takes, with their translations if there are any;
    UserError where it takes none."""

    def refusal(places: Sequence[int]) -> UserError | None:
        own = None if targets is None else [targets[at] for at in places]
        try:
            model.batches([sentences[at] for at in places], own)
        except UserError as error:
            return error
        return None

    every = list(range(len(sentences)))
    if (why := refusal(every)) is None:
        return every
    found = [at for at in every if refusal([at]) is None]
    if not found:
        raise why
    return found


def _gold(name: str, trees: Sequence[Tree]) -> Text:
    if not trees:
        raise UserError(f"{name} holds no sentence; use a text with at least one")
    return Text(name, tuple(tree.text for tree in trees), tuple(trees), "gold")


def _sentences(name: str, sentences: list) -> Text:
    if not sentences:
        raise UserError(f"{name}: no sentence is left; use a text with at least one")
    for number, sentence in enumerate(sentences, start=1):
        if not isinstance(sentence, str) or not sentence.strip() or SURROGATE.search(sentence):
            raise UserError(f"sentence {number} is {sentence!r}; use plain text that is not blank")
    try:
        trees, parser = _parsed(sentences)
    except UserError as error:
        warnings.warn(f"sentences are not parsed, so no syntax is measured: {error}", stacklevel=3)
        trees, parser = (), "none"
    return Text(name, tuple(sentences), trees, parser)


def _parsed(sentences: Sequence[str]) -> tuple[tuple[Tree, ...], str]:
    """A tree for every sentence and the parser's name; UserError where spaCy or it is missing."""
    if find_spec("spacy") is None:
        raise UserError("spaCy is not installed: install it, or give a treebank")
    from spacy.util import get_package_path, is_package, load_meta

    from headbook.text.parse import parse

    mirrored = paths.mirror() and paths.mirror() / MIRRORED
    if is_package(INSTALLED):
        where, folder = INSTALLED, get_package_path(INSTALLED)
    elif mirrored and mirrored.is_dir():
        where = folder = mirrored
    else:
        raise UserError(
            f"no spaCy pipeline: install one (`python -m spacy download {INSTALLED}`) or set "
            f"HEADBOOK_DATA to a folder that holds {MIRRORED}"
        )
    meta = load_meta(folder / "meta.json")
    named = f"{meta['lang']}_{meta['name']} {meta['version']} (spaCy {version('spacy')})"
    return tuple(parse(sentences, where)), named
