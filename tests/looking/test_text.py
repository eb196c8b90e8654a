"""Texts by name, file or list, and one line for what is none."""

import gzip
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import tiny_hugging as tiny
import torch
from refusing import refused

import headbook as hb
from headbook.looking.text import SAMPLE, Text, reads
from headbook.models.loaded import UNDETERMINED
from headbook.types import UserError

QUICK = {"nulls": 0, "ablated": 1, "progress": False, "diverse": False}
TREE = "# text = a\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("language", "read"),
    [("pt", {"ud-pud-pt", "mine.txt"}), (UNDETERMINED, {SAMPLE, "ud-pud-pt", "mine.txt"})],
)
def test_a_model_reads_its_own_language_and_what_is_in_an_unknown_one(language, read, planted):
    model = replace(planted, languages=(language, None))
    assert {each for each in (SAMPLE, "ud-pud-pt", "mine.txt") if reads(model, each)} == read


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Says "a" again and again, to the last of its 80 positions."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bart")
    model = tiny.bart()
    model.final_logits_bias[0, 4] = 100
    tiny.save(model, ["a b c d"], folder)
    return hb.load(folder)


def test_a_sentence_that_is_too_long_is_left_out_and_counted(translator):
    long, *few = "c " * 100, "a b", "c d a"
    found, wanted = (hb.measure(translator, Text("mine", tuple(each), (), "none"), **QUICK)
                     for each in ([few[0], long, few[1]], few))  # fmt: skip
    pd.testing.assert_frame_equal(found, wanted)
    notes = found.attrs["headbook"].notes
    assert sum("left out" in note and "1" in note for note in notes) == 1
    with refused("tokens"):
        hb.measure(translator, Text("mine", (long,), (), "none"), **QUICK)


def test_a_translation_ends_at_the_last_position_and_empty_ones_are_said(translator, monkeypatch):
    read = Text("mine", ("a b c d " * 15, "a b"), (), "none")
    said = translator.translate(read.sentences)
    assert set("".join(said)) == {"a", " "} and 70 < len(said[0].split()) < 80
    assert hb.measure(translator, read, **QUICK)["confidence"].notna().all()
    monkeypatch.setattr(type(translator), "translate", lambda self, given: ["", "a"][: len(given)])
    notes = hb.measure(translator, read, **QUICK).attrs["headbook"].notes
    assert sum("mpty translations" in note and "1" in note for note in notes) == 1


@pytest.mark.parametrize("name", ["mine.conll", "MINE.CONLLU", "mine.CoNLLU.GZ"])
def test_a_conllu_file_by_any_of_its_names(tmp_path: Path, name: str):
    content = gzip.compress(TREE.encode()) if name.endswith(".GZ") else TREE.encode()
    (tmp_path / name).write_bytes(content)
    text = hb.text(tmp_path / name)
    assert (text.parser, text.sentences, text.name) == ("gold", ("a",), name)


def test_plain_text_may_be_packed_and_marked_and_a_column_is_sentences(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("headbook.looking.text._parsed", lambda sentences: ((), "none"))
    lines = "\ufeffOne sentence.\r\nAnother one.\n"
    (tmp_path / "mine.txt").write_text(lines, "utf-8", newline="")
    (tmp_path / "mine.txt.gz").write_bytes(gzip.compress(lines.encode()))
    column = pd.DataFrame({"text": ["One sentence.", "Another one."]})["text"]
    for given in (tmp_path / "mine.txt", tmp_path / "mine.txt.gz", column, iter(column)):
        assert hb.text(given).sentences == ("One sentence.", "Another one.")


def test_plain_sentences_without_a_parser_have_no_trees(tmp_path: Path, monkeypatch):
    def none(*_: object) -> None:
        raise UserError("no spaCy pipeline")

    monkeypatch.setattr("headbook.looking.text._parsed", none)
    (path := tmp_path / "mine.txt").write_text("One sentence.\n\n  Another one. \n")
    for given in (path, ["One sentence.", "Another one."]):
        with pytest.warns(UserWarning, match="no spaCy pipeline"):
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
        ("é".encode("latin-1"), "Latin-1"),
        (Path(), "is a folder"),
        ("two words\n".encode("utf-16"), "is in UTF-16"),
        ("two words\n".encode("utf-16-be"), "is in UTF-16"),
        ("two words\n".encode("utf-32-le"), "is in UTF-32"),
        (pd.DataFrame({"text": ["one"]}), "one column"),
        (pd.Series(["one", None]), "sentence 2 is"),
        (["fine", "half a \ud83d"], "sentence 2 is"),
    ],
)
def test_what_is_no_text_is_said_in_one_line(given: object, said: str, tmp_path: Path):
    if isinstance(given, bytes):
        (tmp_path / "mine.txt").write_bytes(given)
        given = tmp_path / "mine.txt"
    with refused(said):
        hb.text(given)
