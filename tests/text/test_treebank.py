"""CoNLL-U files: ranges, empty nodes, spans, and faults named by file and line."""

import gzip
from pathlib import Path

import pytest
from refusing import refused

from headbook.text.treebank import read_conllu
from headbook.text.trees import ROOT


def row(number: str, form: str, head: str = "_", label: str = "_", tag: str = "_") -> str:
    return "\t".join([number, form, "_", tag, "_", "_", head, label, "_", "_"])


CONTRACTION = [
    "# sent_id = made-up-1",
    "# text = She didn't eat apples, Bob pears.",
    row("1", "She", "4", "nsubj:outer", "PRON"),
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
    assert tree.tags[3] == "VERB" and tree.words[1:3] == ((4, 7), (7, 10))


def test_a_fused_token_goes_to_its_first_word_and_leaves_the_others_empty(tmp_path: Path):
    (tree,) = read_conllu(write(tmp_path, FUSED))
    assert tree.forms == ("Am", "", "Tor", "wird", "er", "gesehen")
    assert tree.words[:3] == ((0, 2), (2, 2), (3, 6))
    assert tree.relations[4] == "nsubjpass"


def test_packing_line_ends_blanks_trailing_tabs_and_a_mark_change_nothing(tmp_path: Path):
    plain = write(tmp_path, CONTRACTION, FUSED)
    trees = read_conllu(plain)
    assert len(trees) == 2
    packed = tmp_path / "made-up.conllu.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    lines = plain.read_text("utf-8").rstrip("\n").split("\n")
    messy = [f"{line}\t\t" if "\t" in line else line or " \t" for line in lines]
    messy = "\r\n".join(messy).replace("# text = ", "#text=  ")
    plain.write_text(f"\ufeff{messy}", "utf-8", newline="")
    assert read_conllu(packed) == trees == read_conllu(plain)


@pytest.mark.parametrize(
    ("line", "replacement", "told"),
    [
        (2, "1\tShe\t4", "3 columns"),
        (2, row("2", "She", "4", "nsubj"), "not numbered one by one"),
        (2, row("1", "He", "4", "nsubj"), "'He' does not follow in `# text` at character 0"),
        (3, row("3-4", "didn't"), "the words of 3-4 do not follow"),
    ],
)
def test_a_fault_is_named_by_file_and_line(tmp_path: Path, line: int, replacement: str, told: str):
    lines = [*CONTRACTION[:line], replacement, *CONTRACTION[line + 1 :]]
    with refused(r"made-up\.conllu, sentence from line 10: ", told):
        read_conllu(write(tmp_path, FUSED, lines))


def test_an_unreadable_file_is_named_and_an_empty_one_has_no_trees(tmp_path: Path):
    with refused(r"absent\.conllu"):
        read_conllu(tmp_path / "absent.conllu")
    cut = tmp_path / "cut.conllu.gz"
    cut.write_bytes(gzip.compress(write(tmp_path, CONTRACTION).read_bytes())[:-20])
    with refused(r"cut\.conllu\.gz"):
        read_conllu(cut)
    assert read_conllu(write(tmp_path, [], ["# a comment alone", ""])) == []


@pytest.mark.parametrize(
    ("heads", "why"),
    [
        (["2", "1", "0"], "cycle"),
        (["_", "_", "_"], "a head is '_'"),
        (["2", "9", "0"], "outside"),
    ],
)
def test_a_sentence_whose_heads_make_no_tree_is_left_out_and_counted(tmp_path, heads, why):
    words = [row(str(at), form, head, "dep") for at, (form, head) in
             enumerate(zip(("one", "two", "three"), heads, strict=True), start=1)]  # fmt: skip
    path = write(tmp_path, CONTRACTION, [*words, ""], FUSED)
    with pytest.warns(UserWarning, match=rf"1 of 3 sentences .* \(line 15: .*{why}"):
        trees = read_conllu(path)
    assert [len(tree) for tree in trees] == [9, 6]


def test_without_its_text_a_sentence_is_that_of_its_words(tmp_path: Path):
    lines = [line[:-1] + "Gloss=a|SpaceAfter=No" if line.startswith(("5\t", "8\t")) else line
             for line in CONTRACTION]  # fmt: skip
    (tree,) = read_conllu(write(tmp_path, CONTRACTION))
    assert read_conllu(write(tmp_path, ["# no text here", *lines[2:]])) == [tree]


def test_composed_letters_and_kinds_of_spaces_are_alike(tmp_path: Path):
    forms = ("Caf\u00e9s", "10\u00a0000", "cost", "e\u0301t\u00e9")
    text = "Cafe\u0301s 10 000\u00a0cost \u00e9te\u0301"
    rows = [row(str(at), form, "0" if at == 1 else "1", "dep")
            for at, form in enumerate(forms, start=1)]  # fmt: skip
    (tree,) = read_conllu(write(tmp_path, [f"# text = {text}", *rows, ""]))
    assert tree.forms == ("Cafe\u0301s", "10 000", "cost", "\u00e9te\u0301")
