"""The invented corpus: deterministic, with trees that hold and a translation that follows them."""

from collections import Counter

import pytest

from headbook.corpora.controlled import Controlled, generate
from headbook.text.trees import RELATIONS, ROOT


@pytest.fixture(scope="module")
def corpus() -> Controlled:
    return generate(800, seed=0)


def test_the_same_seed_gives_the_same_sentences_and_a_longer_corpus_begins_with_them(corpus):
    assert corpus.part(0, 50) == generate(50, 0) != generate(50, 1)
    assert len(set(corpus.source)) == len(corpus) == 800


def test_a_tree_has_one_root_and_joins_the_parts_of_speech_it_should(corpus):
    joined: dict[str, Counter] = {relation: Counter() for relation in RELATIONS}
    for tree, text in zip(corpus.trees, corpus.source, strict=True):
        assert tree.text == text and "".join(tree.forms) == text.replace(" ", "")
        assert tree.heads.count(ROOT) == 1 and tree.tags[tree.heads.index(ROOT)] == "VERB"
        for arc in tree.arcs():
            if arc.relation in joined:
                joined[arc.relation][tree.tags[arc.dependent], tree.tags[arc.head]] += 1
    things = {(tag, "VERB") for tag in ("NOUN", "PROPN")}
    assert set(joined["nsubj"]) == {*things, ("PRON", "VERB")} and set(joined["dobj"]) == things
    assert set(joined["amod"]) == {("ADJ", "NOUN")} and set(joined["advmod"]) == {("ADV", "VERB")}
    assert min(counts.total() for counts in joined.values()) > 300


def test_a_sentence_by_hand():
    """Words backwards, the verb last with its subject's ending, adjectives as their noun is."""
    found = generate(2000, 0)
    translation = dict(zip(found.source, found.target, strict=True))
    assert translation["the baker opens the actor."] == "rekab rotca nepoor."
    assert translation["he helps the dog."] == "god plehor."
    plural = next(
        text for text in found.source if text.startswith("some old ") and "they" not in text
    )
    assert "dlooi " in translation[plural]
