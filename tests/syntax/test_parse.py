"""Parsing with a spaCy pipeline: one made here, whose parses are known beforehand."""

from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from headbook.syntax.labels import LabelScheme
from headbook.syntax.parse import load_docs, parse, parse_docs, save_docs, to_tree
from headbook.trees import ROOT
from headbook.types import UserError

LABELS = {"she": "nsubj", "often": "advmod", "not": "advmod", "old": "amod"}


@Language.component("headbook_test_chain")
def chain(doc: Doc) -> Doc:
    """Hangs each token on the next; the last one of a sentence is its root.

    As spaCy's parser does, it keeps to a start of sentence that was ruled out beforehand; else a
    sentence ends behind each full stop.
    """
    heads = []
    for at, token in enumerate(doc):
        follows = at + 1 < len(doc)
        open_start = follows and doc[at + 1].is_sent_start is not False
        heads.append(at if not follows or (token.text == "." and open_start) else at + 1)
    for token, head in zip(doc, heads, strict=True):
        token.head = doc[head]
        token.dep_ = "ROOT" if head == token.i else LABELS.get(token.lower_, "obj")
    return doc


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    language = spacy.blank("en")
    language.add_pipe("headbook_test_chain")
    language.meta["name"], language.meta["version"] = "chain", "1.2.3"
    path = tmp_path_factory.mktemp("pipelines") / "chain"
    language.to_disk(path)
    return path


def test_words_heads_and_labels_are_the_pipelines_own(pipeline: Path):
    (tree,) = parse(["She often eats."], pipeline)
    assert tree.text == "She often eats."
    assert tree.words == ((0, 3), (4, 9), (10, 14), (14, 15))
    assert tree.heads == (1, 2, 3, ROOT)
    assert tree.relations == ("nsubj", "advmod", "dobj", "root")


def test_contractions_and_negation(pipeline: Path):
    (tree,) = parse(["She did not, didn't see"], pipeline)
    assert tree.forms == ("She", "did", "not", ",", "did", "n't", "see")
    assert tree.relations[2] == "neg"


def test_a_line_is_one_sentence_whatever_the_parser_thinks(pipeline: Path):
    text = "She eats. Old men walk."
    alone = to_tree(chain(spacy.blank("en").make_doc(text)))
    assert alone.heads.count(ROOT) == 2, "unforced, this component splits"
    (tree,) = parse([text], pipeline)
    assert tree.heads.count(ROOT) == 1


def test_every_line_has_its_tree_even_when_empty_or_blank(pipeline: Path):
    trees = parse(["", "She eats", "   ", "old"], pipeline, batch=2)
    assert [len(tree) for tree in trees] == [0, 2, 0, 1]
    assert [tree.text for tree in trees] == ["", "She eats", "   ", "old"]


def test_batches_change_nothing(pipeline: Path):
    lines = [f"She often eats {number} pears." for number in range(20)]
    assert parse(lines, pipeline, batch=3) == parse(lines, pipeline, batch=100)


def test_whitespace_tokens_are_left_out_and_their_dependents_hang_on_the_word_above():
    language = spacy.blank("en")
    doc = chain(language.make_doc("old  men"))
    assert [token.text for token in doc] == ["old", " ", "men"]
    tree = to_tree(doc)
    assert tree.forms == ("old", "men")
    assert tree.words == ((0, 3), (5, 8))
    assert tree.heads == (1, ROOT)


def test_the_record_says_who_parsed(pipeline: Path):
    record = parse_docs(["She eats pears"], pipeline).record
    assert (record.name, record.version) == ("en_chain", "1.2.3")
    assert record.spacy == spacy.__version__
    assert record.scheme is LabelScheme.UNIVERSAL


def test_parses_kept_and_loaded_are_the_same(pipeline: Path, tmp_path: Path):
    parses = parse_docs(["She did  not eat 1,000.50 pears.", "", "“Old” naïve café"], pipeline)
    beside = save_docs(parses, tmp_path / "train.spacy")
    assert beside.read_text("utf-8").count("en_chain") == 1
    loaded = load_docs(tmp_path / "train.spacy")
    assert loaded.record == parses.record
    assert loaded.trees() == parses.trees()


@pytest.mark.parametrize("name", ["en_no_such_pipeline", Path("nowhere/at/all")])
def test_a_missing_pipeline_says_what_to_do(name: str | Path):
    with pytest.raises(UserError, match="spacy download en_core_web_sm") as caught:
        parse(["She eats"], name)
    assert str(name) in str(caught.value)


def test_a_pipeline_that_does_not_parse_is_refused(tmp_path: Path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UserError, match="sets no dependencies"):
        parse(["She eats", ""], tmp_path / "blank")


def test_broken_kept_parses_are_refused(pipeline: Path, tmp_path: Path):
    path = tmp_path / "train.spacy"
    record = save_docs(parse_docs(["She eats"], pipeline), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"train\.spacy"):
        load_docs(path)
    path.write_bytes(whole)
    assert len(load_docs(path)) == 1
    record.write_text("{}", "utf-8")
    with pytest.raises(UserError, match=r"train\.spacy"):
        load_docs(path)
