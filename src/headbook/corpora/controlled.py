"""An invented corpus: English of a small grammar, so that trees are known, and a translation.

It is there without a download: tests train on it, and a reader's first training can. The target
language says words backwards, puts the verb last, lets adjectives agree with their noun, and drops
the pronoun of which the verb's ending tells.
"""

import random
from dataclasses import dataclass
from functools import lru_cache

from headbook.text.trees import ROOT, Tree

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
Word = tuple[str, str, str, str]
"""Form, part of speech, relation to its head, and translation."""


@dataclass(frozen=True)
class Controlled:
    """Sentences, their translations and their gold trees."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    trees: tuple[Tree, ...]

    def __len__(self) -> int:
        return len(self.source)

    def part(self, start: int, stop: int) -> "Controlled":
        """The sentences from `start` up to `stop`, out."""
        return Controlled(*(each[start:stop] for each in vars(self).values()))


def generate(sentences: int, seed: int) -> Controlled:
    """So many different sentences; the first ones are the same however many are asked for."""
    chance = random.Random(seed)
    found: dict[str, tuple[str, Tree]] = {}
    while len(found) < sentences:
        target, tree = _sentence(chance)
        found.setdefault(tree.text, (target, tree))
    targets, trees = zip(*found.values(), strict=True)
    return Controlled(tuple(found), targets, trees)


@lru_cache(maxsize=4)  # a page asks for its corpus many times over
def split(
    train: int = 6000, valid: int = 300, test: int = 500
) -> tuple[Controlled, Controlled, Controlled]:
    """Training, validation and test parts; no source sentence is in two of them."""
    whole, end = generate(train + valid + test, seed=0), train + valid
    return whole.part(0, train), whole.part(train, end), whole.part(end, end + test)


def _sentence(chance: random.Random) -> tuple[str, Tree]:
    """Subject, verb and object, either of which may have an adverb before it: translation, tree."""
    if chance.random() < 0.3:
        pronoun = chance.choice(list(PRONOUNS))
        subject = [(pronoun, "PRON", "nsubj", "")]
        ending, plural = PRONOUNS[pronoun], pronoun in ("they", "we")
    else:
        subject, plural = _noun_phrase(chance, "nsubj")
        ending = "oren" if plural else "or"
    verb = _drawn(chance, VERBS)
    adverb = _drawn(chance, ADVERBS)
    adverbs = [(adverb, "ADV", "advmod", adverb[::-1])] if chance.random() < 0.6 else []
    before, behind = (adverbs, []) if chance.random() < 0.5 else ([], adverbs)
    thing = _noun_phrase(chance, "dobj")[0] if chance.random() < 0.8 else []
    root = (verb if plural else f"{verb}s", "VERB", "root", verb[::-1] + ending)
    phrases = [subject, before, [root], thing, behind, [(".", "PUNCT", "punct", "")]]
    said = [word for phrase in (subject, adverbs, thing, [root]) for word in phrase]
    return " ".join(filter(None, (word[3] for word in said))) + ".", _tree(phrases)


def _noun_phrase(chance: random.Random, relation: str) -> tuple[list[Word], bool]:
    """Determiner, adjectives and noun, or a name that is rare; and whether it is plural."""
    if chance.random() < 0.15:
        name = "".join(chance.choice("bdfglmnprtvw") + chance.choice("aeiou") for _ in range(3))
        return [(name, "PROPN", relation, name)], False
    plural = chance.random() < 0.35
    words = [("some" if plural else "the", "DET", "det", "")]
    while chance.random() < 0.35:
        adjective = _drawn(chance, ADJECTIVES)
        words.append((adjective, "ADJ", "amod", adjective[::-1] + ("oi" if plural else "o")))
    noun = _drawn(chance, NOUNS)
    form, target = (f"{noun}s", f"{noun[::-1]}en") if plural else (noun, noun[::-1])
    return [*words, (form, "NOUN", relation, target)], plural


def _drawn(chance: random.Random, words: str) -> str:
    """One of the words, with a probability that falls with its rank."""
    each = words.split()
    return each[int(len(each) * chance.random() ** 2)]


def _tree(phrases: list[list[Word]]) -> Tree:
    """Every phrase hangs on the verb by its last word, on which its others hang."""
    said = [word for phrase in phrases for word in phrase]
    verb = next(place for place, word in enumerate(said) if word[1] == "VERB")
    heads: list[int] = []
    for phrase in filter(None, phrases):
        last = len(heads) + len(phrase) - 1
        heads += [last] * (len(phrase) - 1)
        heads.append(ROOT if last == verb else verb)
    text, spans = "", []
    for form, tag, _, _ in said:
        text += " " if text and tag != "PUNCT" else ""
        spans.append((len(text), len(text) + len(form)))
        text += form
    tags, relations = zip(*((tag, relation) for _, tag, relation, _ in said), strict=True)
    return Tree(text, tuple(spans), tuple(heads), relations, tags)
