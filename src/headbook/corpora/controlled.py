"""An invented corpus: English of a small grammar, and a translation.

It is there without a download: tests train on it, and a reader's first training can. The target
language says words backwards, puts the verb last, lets adjectives agree with their noun, and drops
the pronoun of which the verb's ending tells.
"""

import random
from functools import lru_cache

from headbook.corpora.pairs import Pairs

NOUNS = """dog garden door baker teacher sailor river window farmer street doctor letter king house
singer market bird painter table driver forest girl hunter castle horse player road mother island
writer cat bridge lamp soldier tower friend stone actor ship valley"""
VERBS = """find help follow want paint hear greet like visit love call open remember clean answer
thank trust draw need admire pull"""
ADJECTIVES = """old small young big red tall quiet good new black kind white strong little green
dark rich clever blue poor loud cold brave"""
ADVERBS = "often slowly now quietly still always today gladly soon suddenly calmly twice"
PRONOUNS = {"she": "ara", "he": "or", "they": "oren", "we": "imen"}
"""With the ending of their verb."""
Words = list[tuple[str, str]]
"""Words and their translations."""


def generate(sentences: int, seed: int) -> Pairs:
    """So many different sentences; the first ones are the same however many are asked for."""
    chance = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < sentences:
        found.setdefault(*_sentence(chance))
    return Pairs.of(found.items())


@lru_cache(maxsize=4)
def split(train: int = 6000, valid: int = 300, test: int = 500) -> tuple[Pairs, Pairs, Pairs]:
    """Training, validation and test parts; no source sentence is in two of them."""
    whole = list(generate(train + valid + test, seed=0))
    parts = whole[:train], whole[train : train + valid], whole[train + valid :]
    return tuple(map(Pairs.of, parts))


def _sentence(chance: random.Random) -> tuple[str, str]:
    """Subject, verb and object, either of which may have an adverb before it; the translation."""
    if chance.random() < 0.3:
        pronoun = chance.choice(list(PRONOUNS))
        subject, ending, plural = [(pronoun, "")], PRONOUNS[pronoun], pronoun in ("they", "we")
    else:
        subject, plural = _noun_phrase(chance)
        ending = "oren" if plural else "or"
    verb = _drawn(chance, VERBS)
    adverb = _drawn(chance, ADVERBS)
    adverbs = [(adverb, adverb[::-1])] if chance.random() < 0.6 else []
    before, behind = (adverbs, []) if chance.random() < 0.5 else ([], adverbs)
    thing = _noun_phrase(chance)[0] if chance.random() < 0.8 else []
    root = (verb if plural else f"{verb}s", verb[::-1] + ending)
    source = [word for word, _ in (*subject, *before, root, *thing, *behind)]
    target = [said for _, said in (*subject, *adverbs, *thing, root) if said]
    return " ".join(source) + ".", " ".join(target) + "."


def _noun_phrase(chance: random.Random) -> tuple[Words, bool]:
    """Determiner, adjectives and noun, or a name that is rare; and whether it is plural."""
    if chance.random() < 0.15:
        name = "".join(chance.choice("bdfglmnprtvw") + chance.choice("aeiou") for _ in range(3))
        return [(name, name)], False
    plural = chance.random() < 0.35
    words = [("some" if plural else "the", "")]
    while chance.random() < 0.35:
        adjective = _drawn(chance, ADJECTIVES)
        words.append((adjective, adjective[::-1] + ("oi" if plural else "o")))
    noun = _drawn(chance, NOUNS)
    words.append((f"{noun}s", f"{noun[::-1]}en") if plural else (noun, noun[::-1]))
    return words, plural


def _drawn(chance: random.Random, words: str) -> str:
    """One of the words, with a probability that falls with its rank."""
    each = words.split()
    return each[int(len(each) * chance.random() ** 2)]
