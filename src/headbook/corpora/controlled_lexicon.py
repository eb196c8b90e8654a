"""The words of the controlled corpus: English ones, their invented translations, rare ones."""

import random
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import accumulate, cycle

RARE_LEXEMES = 1200

NOUNS = """dog garden door baker teacher sailor river window farmer street doctor letter
king house singer market bird painter table driver forest girl boy hunter castle horse player
road mother miller island father writer cat gardener bridge neighbor lamp soldier tower friend
stone actor ship dancer valley banker hill lawyer mirror queen tailor wagon bear cook basket
goat poet boat clown ladder crow monk bottle pirate fountain tiger wizard blanket lion spider
pilot button nurse hammer barber candle turtle judge kettle guard pillow rabbit beggar saddle
lobster rider anchor weaver"""
TRANSITIVE = """see find help follow want paint hear greet like visit love call push
open remember build clean answer watch sell thank trust draw need admire pull
chase hide ignore borrow welcome defend avoid interrupt annoy"""
INTRANSITIVE = """sleep walk sing wait run laugh swim dance jump travel smile shout sneeze
wander tremble snore stumble kneel"""
ADJECTIVES = """old small young big red tall quiet good new black kind white strong little happy
green dark rich clever blue poor loud cold brave gentle lazy yellow proud tired strange warm thin
famous bitter narrow wild pale honest hungry rusty silver clumsy nervous polite"""
ADVERBS = """often slowly now quietly still always today gladly soon suddenly calmly secretly
sometimes quickly proudly rarely politely loudly sadly bravely gently eagerly twice"""
DEGREES = "very quite rather truly"
NOUN_PREPOSITIONS = "near behind beside above"
VERB_PREPOSITIONS = "with under after without"
MODALS = "will can must"


class Gender(StrEnum):
    MASCULINE = "m"
    FEMININE = "f"


@dataclass(frozen=True)
class Lexeme:
    """A source word with its translation's stem; `plural` is the other form where there is one."""

    form: str
    tag: str
    stem: str
    plural: str = ""
    gender: Gender = Gender.MASCULINE
    rare: bool = False


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; `ending` is what the target's verb says in its place."""

    subject: str
    object: str
    ending: str
    stem: str
    third_singular: bool = False


@dataclass(frozen=True)
class Zipf:
    """Lexemes in order of rank, drawn with probability proportional to 1 / (rank + 1)."""

    lexemes: tuple[Lexeme, ...]
    cumulative: tuple[float, ...]

    @classmethod
    def ranked(cls, lexemes: tuple[Lexeme, ...]) -> "Zipf":
        return cls(lexemes, tuple(accumulate(1 / (rank + 2) for rank in range(len(lexemes)))))

    def draw(self, chance: random.Random) -> Lexeme:
        """As random.choices draws, without what that looks up anew for every word."""
        place = chance.random() * self.cumulative[-1]
        return self.lexemes[bisect(self.cumulative, place, 0, len(self.lexemes) - 1)]


@dataclass(frozen=True)
class Lexicon:
    """Every word of both languages."""

    nouns: Zipf
    transitive: Zipf
    intransitive: Zipf
    adjectives: Zipf
    adverbs: Zipf
    degrees: Zipf
    noun_prepositions: Zipf
    verb_prepositions: Zipf
    modals: Zipf
    rare_nouns: tuple[Lexeme, ...]
    rare_adjectives: tuple[Lexeme, ...]


PRONOUNS = (
    Pronoun("she", "her", "ara", "sul", third_singular=True),
    Pronoun("he", "him", "or", "lon", third_singular=True),
    Pronoun("i", "me", "im", "mek"),
    Pronoun("you", "you", "is", "tek"),
    Pronoun("they", "them", "oren", "losh"),
    Pronoun("we", "us", "imen", "mesh"),
    Pronoun("it", "it", "ut", "lut", third_singular=True),
)
PERIOD = Lexeme(".", "PUNCT", ".")
RELATIVE = Lexeme("that", "PRON", "ke")
SINGULAR_DETERMINERS = (
    Lexeme("the", "DET", ""),
    Lexeme("a", "DET", ""),
    Lexeme("this", "DET", "dov"),
    Lexeme("every", "DET", "hap"),
)
PLURAL_DETERMINERS = (
    Lexeme("the", "DET", ""),
    Lexeme("some", "DET", "yem"),
    Lexeme("these", "DET", "dov"),
)


def invented(chance: random.Random, onsets: str, codas: str) -> Iterator[str]:
    """Endless distinct pronounceable words of two syllables, sometimes three."""
    seen: set[str] = set()
    while True:
        syllables = [
            chance.choice(onsets) + chance.choice("aeiou") for _ in range(chance.choice((2, 2, 3)))
        ]
        word = "".join(syllables) + chance.choice(codas)
        if word not in seen:
            seen.add(word)
            yield word


def _with_s(form: str) -> str:
    """A noun's plural or a verb's third person."""
    return f"{form}es" if form.endswith(("sh", "ch", "x")) else f"{form}s"


def _lexemes(forms: str, tag: str, stems: Iterator[str]) -> tuple[Lexeme, ...]:
    """One lexeme for each word of the list, the genders by turns."""
    return tuple(
        Lexeme(
            form=form,
            tag=tag,
            stem=next(stems),
            plural=_with_s(form) if tag in ("NOUN", "VERB") else "",
            gender=gender,
        )
        for form, gender in zip(forms.split(), cycle(Gender), strict=False)
    )


def _rare(words: Iterator[str], tag: str, count: int) -> tuple[Lexeme, ...]:
    """Loan words: the target keeps the stem, and its last letter tells the gender."""
    drawn = [next(words) for _ in range(count)]
    return tuple(
        Lexeme(
            form=word,
            tag=tag,
            stem=word,
            plural=_with_s(word) if tag == "NOUN" else "",
            gender=Gender.FEMININE if word[-1] in "ln" else Gender.MASCULINE,
            rare=True,
        )
        for word in drawn
    )


@cache
def lexicon() -> Lexicon:
    """The one lexicon, the same in every run: its own seed, whatever the corpus's."""
    stems = invented(random.Random(1), onsets="bdgklmnprstvz", codas="bdgmpvz")
    english = set(f"{NOUNS} {TRANSITIVE} {INTRANSITIVE} {ADJECTIVES} {ADVERBS}".split())
    coined = invented(random.Random(2), onsets="bdfglmnprtvw", codas="lnrtkx")
    rare = (word for word in coined if word not in english)
    return Lexicon(
        nouns=Zipf.ranked(_lexemes(NOUNS, "NOUN", stems)),
        transitive=Zipf.ranked(_lexemes(TRANSITIVE, "VERB", stems)),
        intransitive=Zipf.ranked(_lexemes(INTRANSITIVE, "VERB", stems)),
        adjectives=Zipf.ranked(_lexemes(ADJECTIVES, "ADJ", stems)),
        adverbs=Zipf.ranked(_lexemes(ADVERBS, "ADV", stems)),
        degrees=Zipf.ranked(_lexemes(DEGREES, "ADV", stems)),
        noun_prepositions=Zipf.ranked(_lexemes(NOUN_PREPOSITIONS, "ADP", stems)),
        verb_prepositions=Zipf.ranked(_lexemes(VERB_PREPOSITIONS, "ADP", stems)),
        modals=Zipf.ranked(_lexemes(MODALS, "AUX", stems)),
        rare_nouns=_rare(rare, "NOUN", RARE_LEXEMES * 2 // 3),
        rare_adjectives=_rare(rare, "ADJ", RARE_LEXEMES // 3),
    )
