"""The grammatical gender of a Portuguese noun, read from its determiner or its ending."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MALE, FEMALE = "male", "female"
Span = tuple[int, int]
_PAIRS = (
    "o a", "os as", "um uma", "uns umas", "ao à", "aos às", "do da", "dos das", "no na", "nos nas",
    "pelo pela", "pelos pelas", "num numa", "dum duma", "este esta", "esse essa", "aquele aquela",
    "deste desta", "desse dessa", "neste nesta", "nesse nessa", "seu sua", "meu minha",
    "nosso nossa", "outro outra", "todo toda", "próprio própria",
)  # fmt: skip
DETERMINERS = {word: gender for pair in _PAIRS
               for word, gender in zip(pair.split(), (MALE, FEMALE), strict=True)}  # fmt: skip
OTHER_GENDER = {word: other for pair in map(str.split, _PAIRS)
                for word, other in zip(pair, reversed(pair), strict=True)}  # fmt: skip
"""The same determiner in the other gender."""
BOTH = re.compile(r"(ista|[ae]nte|eta|guarda|e|al|[^aeiou]a?z)$")
"""Endings of nouns that are the same in both genders: motorista, gerente, guarda, chefe."""
ENDINGS = ((FEMALE, re.compile(r"(a|ã|triz)$")), (MALE, re.compile(r"(o|or|ão)$")))
WORD = re.compile(r"\w+(?:-\w+)*")


@dataclass(frozen=True)
class Gender:
    """A noun, its gender (None: it cannot be read), and the determiner that says so, if any."""

    noun: Span
    gender: str | None
    determiner: Span | None = None


def gender_at(text: str, place: int) -> Gender | None:
    """The gender of the noun at a character of the text; None where no word stands.

    A determiner there belongs to the noun after it. The word right before the noun says the gender
    if it is a determiner; else the noun's ending, unless it is the same in both genders.
    """
    words = [each.span() for each in WORD.finditer(text)]
    at = next((number for number, (_, end) in enumerate(words) if place < end), None)
    if at is None:
        return None
    if _is_determiner(text, words[at]) and at + 1 < len(words):
        at += 1
    noun = words[at]
    if at and _is_determiner(text, words[at - 1]):
        before = words[at - 1]
        return Gender(noun, DETERMINERS[text[slice(*before)].lower()], before)
    return Gender(noun, by_ending(text[slice(*noun)]))


def by_ending(noun: str) -> str | None:
    """The gender that the ending says, plural or not; None where it is the same in both."""
    singular = re.sub(r"(?<=[aeo])s$|(?<=or)es$", "", noun.lower())
    if BOTH.search(singular):
        return None
    return next((gender for gender, ending in ENDINGS if ending.search(singular)), None)


def swapped(text: str, determiner: Span) -> str:
    """The text with this determiner in the other gender, its capital kept."""
    start, end = determiner
    word = text[start:end]
    other = OTHER_GENDER[word.lower()]
    return text[:start] + (other.capitalize() if word[0].isupper() else other) + text[end:]


def _is_determiner(text: str, word: Sequence[int]) -> bool:
    return text[slice(*word)].lower() in DETERMINERS
