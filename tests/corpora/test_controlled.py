"""The invented corpus: deterministic, and a translation that follows its sentences."""

from headbook.corpora.controlled import generate


def test_the_same_seed_gives_the_same_sentences_and_a_longer_corpus_begins_with_them():
    corpus = generate(800, seed=0)
    assert corpus.first(50) == generate(50, 0) != generate(50, 1)
    assert len(set(corpus.source)) == len(corpus) == 800


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
