"""Sentences with a sentiment, and pairs of paraphrases: what layers know of meaning (page 55)."""

from collections import defaultdict

from headbook.corpora.rated import decided, load_rated, written
from headbook.statistics import spread
from headbook.text import download
from headbook.text.files import text_lines

SENTENCES, PAIRS = {"train": 800, "test": 400}, 300
SHORTEST, OVERLAP = 5, 0.34
"""Words of a paraphrase at least, and the share of words that the two have in common at most."""


def rated() -> list[tuple[str, bool]]:
    """Sentences of SST and whether they are positive."""
    parts = load_rated("sst")  # its files have long runs of one rating
    some = [spread(decided(parts[part]), count) for part, count in SENTENCES.items()]
    return [(written(each.words)[0], each.positive) for own in some for each in own]


def paraphrases() -> list[tuple[str, str]]:
    """Pairs of English sentences with one German translation and few words in common."""
    by_german: dict[str, list[str]] = defaultdict(list)
    for line in text_lines(download.locate("tatoeba-de")["train.tsv"]):
        english, _, german = line.partition("\t")
        if len(english.split()) >= SHORTEST:
            by_german[german].append(english)
    found = []
    for first, *others in by_german.values():
        if other := next((each for each in others if _overlap(first, each) <= OVERLAP), None):
            found.append((first, other))
    return found[:PAIRS]


def _overlap(*sentences: str) -> float:
    """Share of the words of two sentences that both have."""
    first, second = (
        {"".join(filter(str.isalnum, word)) for word in each.lower().split()} for each in sentences
    )
    return len(first & second) / len(first | second)
