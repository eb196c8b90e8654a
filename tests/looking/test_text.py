"""Texts by name, file or list, and one line for what is none."""

from dataclasses import replace
from pathlib import Path

import pytest

import headbook as hb
from headbook.looking.text import SAMPLE, reads
from headbook.models.loaded import UNDETERMINED
from headbook.types import UserError

CYCLE = """# text = a b
1\ta\t_\tX\t_\t_\t2\tdep\t_\t_
2\tb\t_\tX\t_\t_\t1\tdep\t_\t_

"""


def test_the_sample_is_always_there():
    text = hb.text("ewt-sample")
    assert len(text.sentences) == len(text.trees) == 500
    assert text.parser == "gold" and text.trees[0].text == text.sentences[0]
    assert len(hb.text("ewt-sample", first=3).sentences) == 3


@pytest.mark.parametrize(
    ("language", "read"),
    [("en", {SAMPLE, "ud-ewt", "mine.txt"}), ("pt", {"ud-pud-pt", "mine.txt"}),
     (UNDETERMINED, {SAMPLE, "ud-ewt", "ud-pud-pt", "mine.txt"})],
)  # fmt: skip
def test_a_model_reads_its_own_language_and_what_is_in_an_unknown_one(language, read, planted):
    model = replace(planted, languages=(language, None))
    texts = (SAMPLE, "ud-ewt", "ud-pud-pt", "mine.txt")
    assert {each for each in texts if reads(model, each)} == read


def test_a_conllu_file_by_its_path(tmp_path: Path):
    path = tmp_path / "mine.conllu"
    path.write_text("# text = a\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n")
    assert hb.text(path) == hb.text(str(path))
    assert hb.text(path).sentences == ("a",) and hb.text(path).name == "mine.conllu"


def test_plain_sentences_without_a_parser_have_no_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def none(*_: object) -> None:
        raise UserError("no spaCy pipeline")

    monkeypatch.setattr("headbook.looking.text._parsed", none)
    path = tmp_path / "mine.txt"
    path.write_text("One sentence.\n\n  Another one. \n")
    for given in (path, ["One sentence.", "Another one."]):
        with pytest.warns(UserWarning, match="no syntax is measured: no spaCy pipeline"):
            text = hb.text(given)
        assert text.sentences == ("One sentence.", "Another one.") and text.trees == ()
    with pytest.raises(UserError, match="no spaCy pipeline"):
        hb.text(path, pipeline="nowhere")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no sentence is left"),
        (["fine", "  "], "sentence 2 is '  '"),
        ("ud-ewtt", "did you mean ud-ewt"),
        ("A sentence by itself.", "as a list"),
        ("multi30k-de", "is no treebank"),
    ],
)
def test_what_is_no_text_is_said_in_one_line(given: object, said: str):
    with pytest.raises(UserError) as caught:
        hb.text(given)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.txt", b"\n \n", "no sentence is left"),
        ("empty.conllu", b"", "holds no sentence"),
        ("latin.txt", "é".encode("latin-1"), "no plain text in UTF-8"),
        ("cycle.conllu", CYCLE.encode(), "the heads form a cycle"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, said: str):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        hb.text(path)
    assert name in str(caught.value) and said in str(caught.value)


def test_a_folder_and_senseless_numbers(tmp_path: Path):
    with pytest.raises(UserError, match="is a folder"):
        hb.text(tmp_path)
    with pytest.raises(UserError, match="at least 1 sentence"):
        hb.text("ewt-sample", first=0)
