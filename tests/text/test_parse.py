"""Parsing with a spaCy pipeline: one made here, whose parses are known beforehand."""

from pathlib import Path

import pytest
import spacy
from refusing import refuses
from spacy.language import Language
from spacy.tokens import Doc

from headbook.text.parse import parse, to_tree
from headbook.text.trees import ROOT

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
    path = tmp_path_factory.mktemp("pipelines") / "chain"
    language.to_disk(path)
    return path


def test_words_heads_and_labels_are_the_pipelines_own(pipeline: Path):
    often, empty, negated = parse(["She often eats.", "", "She did not, didn't see"], pipeline)
    assert often.text == "She often eats." and len(empty) == 0
    assert often.words == ((0, 3), (4, 9), (10, 14), (14, 15))
    assert often.heads == (1, 2, 3, ROOT)
    assert often.relations == ("nsubj", "advmod", "dobj", "root")
    assert negated.forms == ("She", "did", "not", ",", "did", "n't", "see")
    assert negated.relations[2] == "neg"


def test_a_line_is_one_sentence_whatever_the_parser_thinks(pipeline: Path):
    text = "She eats. Old men walk."
    alone = to_tree(chain(spacy.blank("en").make_doc(text)))
    assert alone.heads.count(ROOT) == 2, "unforced, this component splits"
    (tree,) = parse([text], pipeline)
    assert tree.heads.count(ROOT) == 1


def test_whitespace_tokens_are_left_out_and_their_dependents_hang_on_the_word_above():
    doc = chain(spacy.blank("en").make_doc("old  men"))
    assert [token.text for token in doc] == ["old", " ", "men"]
    tree = to_tree(doc)
    assert (tree.forms, tree.words, tree.heads) == (("old", "men"), ((0, 3), (5, 8)), (1, ROOT))


def test_a_missing_pipeline_or_one_that_does_not_parse_is_refused(tmp_path: Path):
    refuses(lambda: parse(["a"], "en_no_such"), "en_no_such: .*spacy download en_core_web_sm")
    spacy.blank("en").to_disk(tmp_path / "blank")
    refuses(lambda: parse(["She eats", ""], tmp_path / "blank"), "sets no dependencies")
