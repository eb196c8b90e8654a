"""Sentences with a sentiment, and pairs of paraphrases: what layers know of meaning (page 55)."""

from collections import defaultdict

from headbook.corpora.rated import decided, load_rated, written
from headbook.statistics import spread
from headbook.text import download
from headbook.text.files import text_lines
from headbook.types import UserError

SENTENCES, PAIRS = 1_200, 300
SHORTEST, OVERLAP = 5, 0.34
"""Words of a paraphrase at least, and the share of words that the two have in common at most."""
RATED, PARAPHRASED = "sst", "tatoeba-de"


def rated(count: int = SENTENCES) -> list[tuple[str, bool]]:
    """Sentences of SST and whether they are positive: two thirds of train, then a third of test."""
    parts, found = load_rated(RATED), []
    for part, share in (("train", 2 * count // 3), ("test", count // 3)):
        chosen = spread(decided(parts[part]), share)  # the files have long runs of one rating
        found += [(written(each.words)[0], each.positive) for each in chosen]
    return found


def paraphrases(count: int = PAIRS) -> list[tuple[str, str]]:
    """Pairs of English sentences with one German translation and few words in common.

    UserError where the corpus has fewer.
    """
    by_german: dict[str, list[str]] = defaultdict(list)
    for line in text_lines(download.locate(PARAPHRASED)["train.tsv"]):
        english, _, german = line.partition("\t")
        if len(english.split()) >= SHORTEST:
            by_german[german].append(english)
    found = []
    for first, *others in by_german.values():
        if other := next((each for each in others if _overlap(first, each) <= OVERLAP), None):
            found.append((first, other))
    if len(found) < count:
        raise UserError(f"{PARAPHRASED} has {len(found)} pairs of paraphrases; {count} are needed")
    return found[:count]


def _overlap(one: str, other: str) -> float:
    """Share of the words of two sentences that both have."""
    first, second = (
        {"".join(filter(str.isalnum, word)) for word in each.lower().split()}
        for each in (one, other)
    )
    return len(first & second) / len(first | second)
