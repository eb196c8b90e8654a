"""Rated sentences: the trees' leaves and roots, text with spans, and planted words."""

import gzip

from headbook.corpora import rated
from headbook.corpora.rated import Rated, decided, load_rated, read_rated, written
from headbook.text import download

LINE = "(3 (2 It) (4 (1 (2 is) (1 n't)) (3 (4 lovely) (2 -LRB-))))"


def test_a_tree_gives_its_leaves_and_its_root():
    (found,) = read_rated([LINE, ""])
    assert found == Rated(("It", "is", "n't", "lovely", "("), (2, 2, 1, 4, 2), 3)
    assert found.polar == (False, False, False, True, False)
    assert found.negators == (False, False, True, False, False)
    assert found.positive
    others = read_rated(["(2 (2 a) (2 film))", "(0 (2 a) (0 bore))"])
    assert [each.rating for each in decided([found, *others])] == [3, 0]


def test_spans_spell_the_words():
    words = ("It", "does", "n't", "work", ",", "Anna", "'s", "film", ".")
    text, spans = written(words)
    assert text == "It doesn't work, Anna's film."
    assert tuple(text[start:end] for start, end in spans) == words


def test_a_mirror_is_read_and_another_corpus_refused(tmp_path, monkeypatch):
    path = tmp_path / "part.trees.gz"
    path.write_bytes(gzip.compress(LINE.encode()))
    found = {f"{split}.trees": path for split in rated.SPLITS}
    monkeypatch.setattr(download, "locate", lambda name: found)
    assert [len(load_rated("sst")[split]) for split in rated.SPLITS] == [1, 1, 1]


def test_a_negation_turns_the_rating_of_a_template():
    found = load_rated(rated.TEMPLATES)
    for each in found["test"]:
        said = next(word for word, polar in zip(each.words, each.polar, strict=True) if polar)
        assert each.positive == ((rated.SAID[said] == rated.HIGHEST) != any(each.negators))
    assert 0.4 < sum(each.positive for each in found["test"]) / len(found["test"]) < 0.6
