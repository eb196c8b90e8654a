"""The stage `parses`: sentences to measure heads on, each with its dependency tree."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from headbook import paths
from headbook.corpora import controlled, download
from headbook.corpora.pairs import Pairs
from headbook.corpora.readers import ParallelCorpus
from headbook.corpora.registry import CorpusKind, corpus, registry
from headbook.runs.store import Ingredients, Stage, Store
from headbook.syntax.treebank import read_conllu
from headbook.trees import Tree
from headbook.types import UserError

PARSES = Stage("parses", version=1)
HELD_OUT = "held-out"
"""The name of the text that is the model's own primary test set."""
LONGEST = 2_000
"""Characters of a held-out line that are measured: attention takes their square."""
AUTO = "auto"
"""The pipeline a user would install, or the one in the data folder."""
INSTALLED, MIRRORED = "en_core_web_sm", Path("spacy/en_ud_ewt")


@dataclass(frozen=True)
class Text:
    """Sentences with their dependency trees, and their translations where the text is parallel.

    `trees` has one tree per sentence, or none at all where the text is not parsed. Of a tree, with
    words counted from zero: `text`, `forms` (the words), `words` (their spans of characters), and
    word by word `heads` (-1 for the root), `relations` to these, and `tags` (universal parts of
    speech); `len(tree)` counts its words.
    """

    name: str
    sentences: tuple[str, ...]
    targets: tuple[str, ...] | None
    trees: tuple[Tree, ...]
    parser: str  # "gold", or the pipeline's name and version

    @cached_property
    def digest(self) -> str:
        """SHA-256 of sentences, translations and trees."""
        whole = json.dumps([self.sentences, self.targets, [asdict(tree) for tree in self.trees]])
        return hashlib.sha256(whole.encode()).hexdigest()


def held_out(corpus_read: ParallelCorpus, count: int | None, pipeline: str, store: Store) -> Text:
    """The first `count` pairs of the primary test set; trees from spaCy, gold where there are."""
    pairs = next(iter(corpus_read.tests.values())).first(count)
    pairs = Pairs.of((source[:LONGEST], target[:LONGEST]) for source, target in pairs)
    gold = _controlled_trees(corpus_read.name)
    if gold is not None:
        return Text(HELD_OUT, pairs.source, pairs.target, gold[: len(pairs)], "gold")
    trees, parser = parsed(pairs.source, pipeline, store)
    return Text(HELD_OUT, pairs.source, pairs.target, trees, parser)


def treebank(name: str, count: int | None) -> Text:
    """The first `count` sentences of a gold treebank's test part."""
    if corpus(name).kind is not CorpusKind.TREEBANK:
        raise UserError(f"{name} is not a treebank; `headbook corpora list` shows which are")
    files = download.locate(name).files
    trees = read_conllu(files["test.conllu"])[:count]
    return Text(name, tuple(tree.text for tree in trees), None, tuple(trees), "gold")


def _controlled_trees(name: str) -> tuple[Tree, ...] | None:
    if name not in registry() or registry()[name].kind is not CorpusKind.GENERATED:
        return None
    return controlled.split()[2].trees


def parsed(sentences: Sequence[str], pipeline: str, store: Store) -> tuple[tuple[Tree, ...], str]:
    """A tree for every sentence and the parser's name; parsed once and kept as JSON, which a
    machine without spaCy reads.
    """
    text = _digest(sentences)
    try:
        where, parser = find_pipeline(pipeline)
    except UserError:
        if pipeline == AUTO and (kept := _kept(text, store)):
            return kept
        raise

    def make(folder: Path) -> None:
        from headbook.syntax.parse import parse  # a machine may lack spaCy

        rows = [asdict(tree) for tree in parse(sentences, where)]
        (folder / "trees.json").write_text(json.dumps(rows, ensure_ascii=False))

    return _read_trees(store.get(asked_parses(sentences, parser), make) / "trees.json"), parser


def asked_parses(sentences: Sequence[str], parser: str) -> Ingredients:
    """The key material of what a parser makes of sentences."""
    return Ingredients(PARSES, {"parser": parser}, {"sentences": _digest(sentences)}, {})


def _digest(sentences: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sentences).encode()).hexdigest()


def _kept(text: str, store: Store) -> tuple[tuple[Tree, ...], str] | None:
    """Parses of the same sentences made elsewhere: a machine without a pipeline can go on."""
    for file in sorted((store.root / PARSES.name).glob("*/run.json")):
        made = json.loads(file.read_text())["ingredients"]
        if made["inputs"]["sentences"] == text and made["stage"]["version"] == PARSES.version:
            return _read_trees(file.parent / "trees.json"), made["config"]["parser"]
    return None


def _read_trees(path: Path) -> tuple[Tree, ...]:
    return tuple(
        Tree(
            text=row["text"],
            words=tuple((start, end) for start, end in row["words"]),
            heads=tuple(row["heads"]),
            relations=tuple(row["relations"]),
            tags=tuple(row["tags"]),
        )
        for row in json.loads(path.read_text())
    )


def find_pipeline(named: str) -> tuple[str | Path, str]:
    """Where the pipeline is, and its name with its version; UserError where there is none."""
    if find_spec("spacy") is None:
        raise UserError("spaCy is not installed: install it, or bring parses made elsewhere")
    where = _found() if named == AUTO else (named if _package(named) else Path(named))
    meta = (_package(where) if isinstance(where, str) else where) / "meta.json"
    if not meta.exists():
        raise UserError(
            f"spaCy pipeline {named}: not found; install it (`python -m spacy download "
            f"{INSTALLED}`) or give the path of a pipeline's folder"
        )
    read = json.loads(meta.read_text())
    return where, f"{read['lang']}_{read['name']} {read['version']} (spaCy {version('spacy')})"


def _package(name: str) -> Path | None:
    """The folder of an installed pipeline; None where there is no package of that name."""
    spec = find_spec(name) if name.isidentifier() else None
    return Path(spec.origin).parent if spec and spec.origin else None


def _found() -> str | Path:
    mirror = paths.mirror()
    if _package(INSTALLED):
        return INSTALLED
    if mirror is not None and (mirror / MIRRORED).is_dir():
        return mirror / MIRRORED
    raise UserError(
        f"no spaCy pipeline: install one (`python -m spacy download {INSTALLED}`) or set "
        f"HEADBOOK_DATA to a folder that holds {MIRRORED}"
    )
