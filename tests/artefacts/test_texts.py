"""Texts to measure heads on: gold trees, parses kept, treebanks."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from headbook import paths
from headbook.artefacts import texts
from headbook.artefacts.texts import AUTO, HELD_OUT, held_out, parsed, treebank
from headbook.corpora import controlled
from headbook.corpora.pairs import Pairs
from headbook.corpora.readers import ParallelCorpus, load
from headbook.runs.store import Store
from headbook.syntax import parse as parsing
from headbook.trees import ROOT
from headbook.types import UserError

LINES = ("the dog sees a ball", "my sister didn't sleep", "“birds” sing  here")
CONLLU = """# sent_id = 1
# text = Dogs bark.
1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

# sent_id = 2
# text = Birds sing
1\tBirds\tbird\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tsing\tsing\tVERB\t_\t_\t0\troot\t_\t_

"""
ENTRY = """
[toy-bank]
title = "t"
kind = "{kind}"
target = "en"
licence = "l"
pairs = 2
bytes = 3
mirror = [{{ part = "test.conllu", path = "bank/test.conllu", sha256 = "{digest}" }}]
"""


@Language.component("headbook_test_texts")
def subject_first(doc: Doc) -> Doc:
    """Hangs every token on the last; the first is its subject."""
    for token in doc:
        token.head = doc[len(doc) - 1]
        token.dep_ = "nsubj" if token.i == 0 else "dep"
    doc[len(doc) - 1].dep_ = "ROOT"
    return doc


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    language = spacy.blank("en")
    language.add_pipe("headbook_test_texts")
    language.meta["name"], language.meta["version"] = "subjects", "1.2.3"
    path = tmp_path_factory.mktemp("pipelines") / "subjects"
    language.to_disk(path)
    return str(path)


@pytest.fixture
def corpus(tmp_path: Path) -> ParallelCorpus:
    """A user's folder with the three lines as its test set."""
    for part in ("train", "valid", "test"):
        for language in ("en", "de"):
            (tmp_path / f"{part}.{language}").write_text("\n".join(LINES) + "\n")
    return load(str(tmp_path))


def test_a_line_without_spaces_is_measured_in_part(
    corpus: ParallelCorpus, pipeline: str, store: Store
):
    long = Pairs(("a" * 20_000, *LINES), ("b" * 20_000, *LINES))
    text = held_out(replace(corpus, tests={"test": long}), None, pipeline, store)
    assert text.sentences == ("a" * 2_000, *LINES) and text.trees[0].text == "a" * 2_000
    assert text.targets == ("b" * 2_000, *LINES)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each call to the parser was given."""
    asked: list[int] = []
    parse = parsing.parse
    monkeypatch.setattr(
        parsing, "parse", lambda lines, where: asked.append(len(lines)) or parse(lines, where)
    )
    return asked


@pytest.fixture
def no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the pipeline a user would install."""
    monkeypatch.setattr(texts, "INSTALLED", "en_no_such_pipeline")


def test_the_controlled_corpus_has_gold_trees(store: Store, parses: list[int]):
    text = held_out(load("controlled-sov", 10), 25, AUTO, store)
    test = controlled.split()[2]
    assert (text.name, text.parser, len(text.sentences)) == (HELD_OUT, "gold", 25)
    assert (text.sentences, text.targets) == (test.source[:25], test.target[:25])
    assert text.trees == test.trees[:25]
    assert [tree.text for tree in text.trees] == list(text.sentences)
    assert parses == [] and not store.root.exists()


def test_a_folders_test_set_is_parsed_and_kept(
    corpus: ParallelCorpus, pipeline: str, store: Store, parses: list[int]
):
    text = held_out(corpus, None, pipeline, store)
    assert text.sentences == text.targets == corpus.tests["test"].source
    assert text.parser == f"en_subjects 1.2.3 (spaCy {spacy.__version__})"
    assert [tree.text for tree in text.trees] == list(text.sentences)
    assert text.trees[0].relations == ("nsubj", "dep", "dep", "dep", "root")
    assert text.trees[0].heads == (4, 4, 4, 4, ROOT)
    assert "n't" in text.trees[1].forms
    assert held_out(corpus, None, pipeline, store) == text
    assert parses == [3]


def test_the_first_sentences_are_parsed_apart(
    corpus: ParallelCorpus, pipeline: str, store: Store, parses: list[int]
):
    text = held_out(corpus, 2, pipeline, store)
    assert len(text.sentences) == len(text.targets or ()) == len(text.trees) == 2
    held_out(corpus, None, pipeline, store)
    assert parses == [2, 3]


def test_kept_parses_do_without_a_pipeline(
    pipeline: str, store: Store, parses: list[int], no_pipeline: None
):
    kept = parsed(LINES, pipeline, store)
    assert parsed(LINES, AUTO, store) == kept
    with pytest.raises(UserError, match="no spaCy pipeline"):
        parsed(LINES[:2], AUTO, store)
    with pytest.raises(UserError, match="en_other: not found"):
        parsed(LINES, "en_other", store)
    assert parses == [3]


def test_parses_of_an_older_version_are_not_taken_for_kept(
    pipeline: str, store: Store, no_pipeline: None
):
    parsed(LINES, pipeline, store)
    (record,) = (store.root / "parses").glob("*/run.json")
    made = json.loads(record.read_text())
    made["ingredients"]["stage"]["version"] = 0
    record.write_text(json.dumps(made))
    with pytest.raises(UserError, match="no spaCy pipeline"):
        parsed(LINES, AUTO, store)


def test_a_missing_pipeline_is_one_line(store: Store, tmp_path: Path, no_pipeline: None):
    for named in (AUTO, "en_other", str(tmp_path / "nowhere")):
        with pytest.raises(UserError, match="spacy download") as caught:
            parsed(LINES, named, store)
        assert "\n" not in str(caught.value)
        assert named in str(caught.value) or "HEADBOOK_DATA" in str(caught.value)


def test_the_data_folders_pipeline_is_found(
    pipeline: str, store: Store, tmp_path: Path, no_pipeline: None, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "mirror" / "spacy").mkdir(parents=True)
    (tmp_path / "mirror" / texts.MIRRORED).symlink_to(pipeline)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "mirror"))
    assert parsed(LINES, AUTO, store)[1].startswith("en_subjects 1.2.3")


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a registry of one entry of a kind, and its file in a mirror; gives that file."""
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "mirror"))

    def write(kind: str) -> Path:
        file = tmp_path / "mirror" / "bank" / "test.conllu"
        file.parent.mkdir(parents=True)
        file.write_text(CONLLU)
        digest = hashlib.sha256(CONLLU.encode()).hexdigest()
        (tmp_path / "corpora.toml").write_text(ENTRY.format(kind=kind, digest=digest))
        return file

    return write


def test_a_treebank_is_read_from_the_mirror(bank):
    bank("treebank")
    text = treebank("toy-bank", None)
    assert (text.name, text.parser, text.targets) == ("toy-bank", "gold", None)
    assert text.sentences == ("Dogs bark.", "Birds sing")
    assert text.trees[0].relations == ("nsubj", "root", "punct")
    assert treebank("toy-bank", 1).sentences == text.sentences[:1]


def test_a_treebank_with_a_wrong_digest_is_refused(bank):
    bank("treebank").write_text(CONLLU.replace("nsubj", "obj"))
    with pytest.raises(UserError, match=r"test\.conllu has sha256"):
        treebank("toy-bank", None)


def test_what_is_no_treebank_is_refused(bank):
    bank("text")
    with pytest.raises(UserError, match="toy-bank is not a treebank"):
        treebank("toy-bank", None)


def test_the_digest_moves_with_sentences_translations_and_trees(store: Store):
    text = held_out(load("controlled-sov", 10), 3, AUTO, store)
    others = [
        texts.Text("x", text.sentences, text.targets, text.trees, "other parser"),
        texts.Text("x", text.sentences[:2], text.targets, text.trees, "gold"),
        texts.Text("x", text.sentences, None, text.trees, "gold"),
        texts.Text("x", text.sentences, text.targets, text.trees[::-1], "gold"),
    ]
    moved = [other.digest != text.digest for other in others]
    assert moved == [False, True, True, True]
