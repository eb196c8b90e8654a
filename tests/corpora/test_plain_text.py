"""Text for language models: which lines, and segments of one length made of them."""

import pytest
from refusing import refuses

from headbook.corpora.plain_text import NO_SOURCE, cut, filled, load_text
from headbook.corpora.readers import load
from headbook.text import download
from headbook.text.batches import EOS, PAD

LINES = [[5, 6, 7, EOS], [8, EOS], [9] * 6 + [EOS]]


def targets(pairs):
    assert all(tuple(source) == NO_SOURCE for source, _ in pairs)
    return [list(target) for _, target in pairs]


def test_a_text_is_cut_without_a_gap():
    assert targets(cut(LINES, 4)) == [[5, 6, 7, EOS], [8, EOS, 9, 9], [9, 9, 9, 9]]


def test_whole_lines_are_padded_and_long_ones_are_cut():
    assert targets(filled(LINES, 6)) == [[5, 6, 7, EOS, 8, EOS], [9] * 6, [EOS] + [PAD] * 5]
    assert targets(filled(LINES[:2], 5)) == [[5, 6, 7, EOS, PAD], [8, EOS, PAD, PAD, PAD]]


def test_a_text_shorter_than_a_segment_is_refused():
    for make in (cut, filled):
        refuses(lambda make=make: make(LINES, 14), "13 tokens")


@pytest.mark.usefixtures("few_generated")
def test_the_english_side_of_pairs_is_a_text():
    text, pairs = load_text("controlled-sov", 50), load("controlled-sov")
    assert text.train == pairs.train.source[:50] and text.valid == pairs.valid.source


def test_a_registered_text_is_read_without_its_empty_lines(tmp_path, monkeypatch):
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(f" \n = {name} = \n\n words \n", encoding="utf-8")
    files = {f"{name}.txt": tmp_path / f"{name}.txt" for name in ("train", "valid", "test")}
    monkeypatch.setattr(download, "locate", lambda name: files)
    text = load_text("wikitext-2")
    assert text.train == ("= train =", "words") and text.test == ("= test =", "words")
