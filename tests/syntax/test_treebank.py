"""CoNLL-U files: ranges, empty nodes, spans, and faults named by file and line."""

import gzip
from pathlib import Path

import pytest

from headbook.syntax.treebank import read_conllu
from headbook.trees import ROOT
from headbook.types import UserError


def row(number: str, form: str, head: str = "_", label: str = "_", tag: str = "_") -> str:
    return "\t".join([number, form, "_", tag, "_", "_", head, label, "_", "_"])


CONTRACTION = [
    "# sent_id = made-up-1",
    "# text = She didn't eat apples, Bob pears.",
    row("1", "She", "4", "nsubj", "PRON"),
    row("2-3", "didn't"),
    row("2", "did", "4", "aux", "AUX"),
    row("3", "n't", "4", "advmod", "PART"),
    row("4", "eat", "0", "root", "VERB"),
    row("5", "apples", "4", "obj", "NOUN"),
    row("6", ",", "7", "punct", "PUNCT"),
    row("7", "Bob", "4", "conj", "PROPN"),
    row("7.1", "ate"),
    row("8", "pears", "7", "orphan", "NOUN"),
    row("9", ".", "4", "punct", "PUNCT"),
    "",
]
FUSED = [
    "# text = Am Tor  wird er gesehen",
    row("1-2", "Am"),
    row("1", "An", "3", "case", "ADP"),
    row("2", "dem", "3", "det", "DET"),
    row("3", "Tor", "6", "obl", "NOUN"),
    row("4", "wird", "6", "aux:pass", "AUX"),
    row("5", "er", "6", "nsubj:pass", "PRON"),
    row("6", "gesehen", "0", "root", "VERB"),
    "",
]


def write(folder: Path, *sentences: list[str]) -> Path:
    path = folder / "made-up.conllu"
    path.write_text("\n".join(line for lines in sentences for line in lines) + "\n", "utf-8")
    return path


def test_a_contraction_is_its_words_and_an_empty_node_is_none(tmp_path: Path):
    (tree,) = read_conllu(write(tmp_path, CONTRACTION))
    assert tree.forms == ("She", "did", "n't", "eat", "apples", ",", "Bob", "pears", ".")
    assert tree.heads == (3, 3, 3, ROOT, 3, 6, 3, 6, 3)
    assert tree.relations[:5] == ("nsubj", "aux", "neg", "root", "dobj")
    assert tree.tags[3] == "VERB"
    assert tree.words[1:3] == ((4, 7), (7, 10))


def test_a_fused_token_goes_to_its_first_word_and_leaves_the_others_empty(tmp_path: Path):
    (tree,) = read_conllu(write(tmp_path, FUSED))
    assert tree.forms == ("Am", "", "Tor", "wird", "er", "gesehen")
    assert tree.words[:3] == ((0, 2), (2, 2), (3, 6))
    assert tree.relations[4] == "nsubjpass"


def test_a_gzipped_file_reads_as_the_plain_one(tmp_path: Path):
    plain = write(tmp_path, CONTRACTION, FUSED)
    packed = tmp_path / "made-up.conllu.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read_conllu(plain)) == 2
    assert read_conllu(packed) == read_conllu(plain)


def test_windows_line_ends_and_a_missing_last_blank_line_change_nothing(tmp_path: Path):
    plain = write(tmp_path, CONTRACTION, FUSED)
    trees = read_conllu(plain)
    plain.write_bytes(plain.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n"))
    assert read_conllu(plain) == trees


def test_a_separator_inside_a_sentence_is_no_line_end(tmp_path: Path):
    lines = ["# text = a\x85b", row("1", "a\x85b", "0", "root"), ""]
    (tree,) = read_conllu(write(tmp_path, lines))
    assert tree.forms == ("a\x85b",)


@pytest.mark.parametrize(
    ("line", "replacement", "told"),
    [
        (2, "1\tShe\t4", "line 3: 3 columns"),
        (2, row("2", "She", "4", "nsubj"), "line 3: word '2' where word 1"),
        (2, row("1", "She", "12", "nsubj"), "line 3: head '12'"),
        (2, row("1", "She", "1", "nsubj"), "line 3: head '1'"),
        (2, row("1", "She", "_", "nsubj"), "line 3: head '_'"),
        (2, row("1", "He", "4", "nsubj"), "line 3: 'He' does not follow"),
        (3, row("3-2", "didn't"), "line 4: '3-2' is no range"),
        (3, row("2-x", "didn't"), "line 4: '2-x' is no range"),
        (1, "# no text here", "line 3: a sentence without"),
        (3, row("3-4", "didn't"), "line 4: the words of range '3-4' do not follow"),
        (3, row("2-20", "didn't"), "line 4: the words of range '2-20' do not follow"),
        (3, row("x-3", "didn't"), "line 4: 'x-3' is no range"),
        (3, row("2-4", "didn't") + "\n" + row("2-3", "didn't"), "line 5: the words of range '2-3'"),
        (6, row("4", "eat", "5", "obj"), "line 7: the heads above 'eat' form a cycle"),
        (9, row("7", "Bob", "8", "conj"), "line 10: the heads above 'Bob' form a cycle"),
    ],
    ids=str,
)
def test_a_fault_is_named_by_file_and_line(tmp_path: Path, line: int, replacement: str, told: str):
    lines = [*CONTRACTION[:line], replacement, *CONTRACTION[line + 1 :]]
    with pytest.raises(UserError, match=r"made-up\.conllu, ") as caught:
        read_conllu(write(tmp_path, lines))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"absent\.conllu"):
        read_conllu(tmp_path / "absent.conllu")
    cut = tmp_path / "cut.conllu.gz"
    packed = gzip.compress(write(tmp_path, CONTRACTION).read_bytes())
    for broken in (b"no gzip at all", packed[:-20]):
        cut.write_bytes(broken)
        with pytest.raises(UserError, match=r"cut\.conllu\.gz"):
            read_conllu(cut)
    latin = tmp_path / "latin.conllu"
    latin.write_bytes("# text = é\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.conllu"):
        read_conllu(latin)


def test_an_empty_file_has_no_trees(tmp_path: Path):
    assert read_conllu(write(tmp_path, [])) == []
