"""Subwords: text goes in and comes out, spans say where, files are the same for the same text."""

import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from headbook.text.batches import EOS, PAD, UNK
from headbook.text.subwords import Subwords, frequency_ranks

LETTERS = "abcdefghij é ü ж щ 0 1 2 . , ! ? ' - / < > & \" ( ) ▂ s"
CORPUS = [
    "the dog sees the small dog .",
    "a small cat doesn't see the dog , does it ?",
    'Kätzchen und Hündchen - 12,5 % <b> (sehr) & "klein" !',
    "собака видит кошку",
    "one </s> two <pad> three <unk>",
    *[LETTERS, LETTERS[::-1], "abcdefghij" * 2],
] * 3
ALPHABET = sorted({*"".join(CORPUS), " "})
TEXT = st.lists(
    st.text([letter for letter in ALPHABET if letter != " "], min_size=1, max_size=8), max_size=8
).map(" ".join)
"""Normalised text over the trained alphabet: words with one space between them."""
SUBWORDS = Subwords.train(CORPUS, 200)


@given(TEXT.map(lambda text: unicodedata.normalize("NFC", text)))
def test_text_comes_back(text: str):
    (ids,) = SUBWORDS.encode([text])
    assert ids[-1] == EOS and UNK not in ids and PAD not in ids and EOS not in ids[:-1]
    assert SUBWORDS.decode(ids) == text
    pieces = SUBWORDS.pieces(ids[:-1])
    assert "".join(pieces).count("▁") == len(text.split())
    # no piece crosses a word or its punctuation
    assert all(len(each) == 1 or each.isalnum() for each in (p.lstrip("▁") for p in pieces) if each)


@given(st.text([*ALPHABET, " ", "\t", "\u00a0", "☃"], max_size=40))
def test_spans_are_the_visible_characters_in_order(text: str):
    spans = SUBWORDS.spans(text)
    assert len(spans) == len(SUBWORDS.encode([text])[0]) - 1
    covered = [position for start, end in spans for position in range(start, end)]
    assert covered == [at for at, letter in enumerate(text) if not letter.isspace()]
    assert all(start <= end for start, end in spans)


def test_the_names_of_reserved_pieces_are_text():
    for text in ("</s>", "one </s> two", "<pad>", "a <unk> b"):
        (ids,) = SUBWORDS.encode([text])
        assert min(ids[:-1]) > UNK
        assert SUBWORDS.decode(ids) == text


def test_an_unknown_character_is_one_piece_and_empty_text_its_end_alone():
    (ids,) = SUBWORDS.encode(["a ☃ b"])
    assert ids.count(UNK) == 1
    assert SUBWORDS.encode(["", "  "]) == [[EOS], [EOS]]
    assert SUBWORDS.spans("") == [] and SUBWORDS.decode([EOS, PAD]) == ""


def test_saved_and_loaded_it_is_the_same(tmp_path: Path):
    SUBWORDS.save(tmp_path / "source.json")
    Subwords.train(CORPUS, 200).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "source.json").read_bytes()
    assert Subwords.load(tmp_path / "source.json").encode(CORPUS) == SUBWORDS.encode(CORPUS)


def test_a_broken_file_is_said_in_one_line(tmp_path: Path):
    (path := tmp_path / "source.json").write_text('{"version": "1.0"')
    with refused(r"source\.json is not a saved tokenizer"):
        Subwords.load(path)


def test_frequency_ranks_by_hand():
    # Counts: 1 three times, 4 and 2 twice, 0 and 3 never.
    ranks = frequency_ranks([[4, 2, 1], [1, 4], [1, 2]], vocabulary=5)
    assert ranks.tolist() == [3, 0, 1, 4, 2]
