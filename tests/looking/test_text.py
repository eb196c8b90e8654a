"""Texts by name, file or list, and one line for what is none."""

from dataclasses import replace
from pathlib import Path

import pytest

import headbook as hb
from headbook.looking.text import SAMPLE, reads
from headbook.models.loaded import UNDETERMINED
from headbook.types import UserError

TREE = "# text = a\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


def test_the_sample_is_always_there():
    text = hb.text("ewt-sample")
    assert len(text.sentences) == len(text.trees) == 500
    assert text.parser == "gold" and text.trees[0].text == text.sentences[0]
    assert hb.text("ewt-sample", first=3).sentences == text.sentences[:3]


@pytest.mark.parametrize(
    ("language", "read"),
    [("pt", {"ud-pud-pt", "mine.txt"}), (UNDETERMINED, {SAMPLE, "ud-pud-pt", "mine.txt"})],
)
def test_a_model_reads_its_own_language_and_what_is_in_an_unknown_one(language, read, planted):
    model = replace(planted, languages=(language, None))
    assert {each for each in (SAMPLE, "ud-pud-pt", "mine.txt") if reads(model, each)} == read


def test_a_conllu_file_by_its_path(tmp_path: Path):
    (path := tmp_path / "mine.conllu").write_text(TREE)
    text = hb.text(path)
    assert text == hb.text(str(path)) and (text.sentences, text.name) == (("a",), "mine.conllu")


def test_plain_sentences_without_a_parser_have_no_trees(tmp_path: Path, monkeypatch):
    def none(*_: object) -> None:
        raise UserError("no spaCy pipeline")

    monkeypatch.setattr("headbook.looking.text._parsed", none)
    (path := tmp_path / "mine.txt").write_text("One sentence.\n\n  Another one. \n")
    for given in (path, ["One sentence.", "Another one."]):
        with pytest.warns(UserWarning, match="no syntax is measured: no spaCy pipeline"):
            text = hb.text(given)
        assert text.sentences == ("One sentence.", "Another one.") and text.trees == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no sentence is left"),
        (["fine", "  "], "sentence 2 is '  '"),
        ("ud-ewtt", "did you mean ud-ewt"),
        ("multi30k-de", "is no treebank"),
        (b"\n \n", "no sentence is left"),
        ("é".encode("latin-1"), "no plain text in UTF-8"),
        (Path(), "is a folder"),
    ],
)
def test_what_is_no_text_is_said_in_one_line(given: object, said: str, tmp_path: Path):
    if isinstance(given, bytes):
        (tmp_path / "mine.txt").write_bytes(given)
        given = tmp_path / "mine.txt"
    with pytest.raises(UserError) as caught:
        hb.text(given)
    assert said in str(caught.value) and "\n" not in str(caught.value)
