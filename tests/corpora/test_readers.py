"""A user's folder, a mixture, and what can be wrong with them, in one line."""

import gzip
import hashlib

import pytest
from refusing import refused, refuses
from registered import entry, files, lines

from headbook import paths
from headbook.corpora.pairs import Reason
from headbook.corpora.readers import load

WORDS = ["one", "two", "three", "four", "five", "six"]
EINS = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]


@pytest.fixture
def folder(tmp_path):
    whole = {"train": slice(0, 4), "valid": slice(4, 5), "test": slice(5, 6)}
    for split, part in whole.items():
        (tmp_path / f"{split}.en").write_bytes(lines(*WORDS[part]))
        (tmp_path / f"{split}.de.gz").write_bytes(gzip.compress(lines(*EINS[part])))
    return tmp_path


def test_a_folder_of_plain_and_packed_files_is_a_corpus(folder, monkeypatch):
    corpus = load(str(folder))
    assert (corpus.target_language, corpus.left_out) == ("de", "")
    assert list(corpus.train) == list(zip(WORDS[:4], EINS[:4], strict=True))
    assert list(corpus.valid) == [("five", "fünf")]
    assert list(corpus.tests["test"]) == [("six", "sechs")]
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load(f"~/{folder.name}").digest == corpus.digest


def test_the_digest_is_of_the_pairs_and_not_of_the_form(folder, tmp_path_factory):
    other, content = tmp_path_factory.mktemp("tables"), hashlib.sha256()
    for split, (start, end) in {"train": (0, 4), "valid": (4, 5), "test": (5, 6)}.items():
        rows = [f"{WORDS[index]}\t{EINS[index]}" for index in range(start, end)]
        (other / f"{split}.tsv").write_bytes(lines(*(f"{row}\tnote" for row in rows)))
        content.update(lines(f"{split} {len(rows)}", *rows))
    table = load(str(other))
    assert table.target_language == "und"
    assert table.digest == load(str(folder)).digest == content.hexdigest()
    (folder / "valid.en").write_bytes(lines("Five"))
    assert table.digest != load(str(folder)).digest


def test_limit_keeps_the_first_training_pairs_and_changes_the_digest(folder):
    whole, part = load(str(folder)), load(str(folder), limit=2)
    assert part.train == whole.train.first(2)
    assert (part.valid, part.tests) == (whole.valid, whole.tests)
    assert part.digest != whole.digest == load(str(folder), limit=99).digest
    with refused("limit 0"):
        load(str(folder), limit=0)


BROKEN = gzip.compress(lines(*EINS[:4]))[:-9]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"valid.de.gz": None}, r"valid\.de is missing.*valid\.tsv"),
        ({"train.de.gz": None}, "0 target languages"),
        ({"valid.en": b"\n", "valid.de.gz": gzip.compress(b"\n")}, "no pair of valid is left"),
        ({"train.en": b"", "train.de.gz": gzip.compress(b"")}, "no training pair is left"),
        ({"train.en": b"one\ntwo\nth\0ree\nfour\n"}, r"train\.en, line 3: a NUL byte"),
        ({"train.en": b"one\ntwo\nna\xefve\nfour\n"}, r"train\.en, line 3: not valid UTF-8 at"),
        ({"train.de.gz": BROKEN}, r"train\.de\.gz, after line \d: it cannot be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_line_that_names_it(folder, changed, said):
    for name, content in changed.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
    with refused(said):
        load(str(folder))


def test_a_byte_order_mark_is_no_text_and_only_a_newline_ends_a_line(folder):
    (folder / "train.en").write_bytes("\ufeffo\u2028ne\r\ntw\x0bo\nthree\n\ufefffour".encode())
    assert load(str(folder)).train.source == ("o\u2028ne", "tw\x0bo", "three", "\ufefffour")


def test_pairs_that_cannot_be_used_are_dropped_on_both_sides_and_counted(folder):
    long = " ".join(["very"] * 201)
    (folder / "train.en").write_bytes(lines("one", "", long, " ".join(["word"] * 200)))
    for name in ("test.en", "test.de.gz"):
        (folder / name).unlink()
    (folder / "test.tsv").write_bytes(lines("six\tsechs", "seven sieben", "eight\t\u00a0 "))
    corpus = load(str(folder))
    assert list(corpus.train.target) == ["eins", "vier"]
    assert list(corpus.tests["test"]) == [("six", "sechs")]
    assert corpus.dropped == {Reason.EMPTY_SIDE: 2, Reason.OVER_LONG: 1, Reason.NOT_A_PAIR: 1}
    assert "1: no tab between two sides" in corpus.left_out and "\n" not in corpus.left_out


def test_what_is_no_corpus_of_pairs_is_refused():
    refuses(lambda: load("ud-ewt"), "not pairs of sentences")
    refuses(lambda: load("./nowhere"), "^/.*nowhere is not a folder")


def test_a_mixture_joins_training_pairs_in_hash_order_and_keeps_each_test_set(
    tmp_path, monkeypatch
):
    """Two small corpora in a mirror, of which one's test sentence is the other's training text."""
    texts = {
        "a": {"train": ["one", "two", "Three."], "valid": ["four"], "test_b": ["five"]},
        "b": {"train": ["seven", "eight"], "valid": ["nine"], "test_b": ["three"]},
    }
    texts["b"]["test_a"] = ["ten"]  # the first test set stands in the mixture
    written = [entry("mixed-de", 'of = ["part-b-de", "part-a-de"]', kind="mixture")]
    for corpus, splits in texts.items():
        parts = {}
        for split, english in splits.items():
            content = lines(*(f"{word}\tÜ {word}" for word in english))
            (tmp_path / f"{corpus}.{split}").write_bytes(content)
            parts[f"{split}.tsv"] = f"{corpus}.{split}", content
        written.append(entry(f"part-{corpus}-de", files("mirror", parts)))
    (tmp_path / "corpora.toml").write_text("".join(written), encoding="utf-8")
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))
    corpus = load("mixed-de")
    pairs = [(word, f"Ü {word}") for word in ("one", "two", "seven", "eight")]
    order = sorted(pairs, key=lambda pair: hashlib.sha256("\t".join(pair).encode()).digest())
    assert list(corpus.train) == order
    assert corpus.valid.source == ("nine", "four")
    tests = {name: pairs.source for name, pairs in corpus.tests.items()}
    assert tests == {"part-b-de": ("three",), "part-a-de": ("five",)}
    assert +corpus.dropped == {Reason.IN_EVALUATION: 1}  # a's "Three." is b's test sentence
