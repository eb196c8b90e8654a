"""WinoBias (Zhao et al. 2018): two occupations and a pronoun that means one of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from headbook.text import download
from headbook.text.files import text_lines

Span = tuple[int, int]
MALE, FEMALE = "male", "female"
GENDERS = dict.fromkeys(("he", "him", "his", "himself"), MALE)
GENDERS |= dict.fromkeys(("she", "her", "hers", "herself"), FEMALE)
PRONOUN = re.compile(rf"\b({'|'.join(GENDERS)})\b", re.IGNORECASE)
PARTS = ("type1.dev", "type1.test", "type2.dev", "type2.test")
BRACKETED = re.compile(r"\[\s*([^\]]*?)\s*\]")
ARTICLE = re.compile(r"^(the|an?)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Version:
    """One sentence with the characters of the pronoun and of both occupations, without articles."""

    text: str
    pronoun: Span
    referent: Span
    other: Span | None = None

    @property
    def gender(self) -> str:
        return GENDERS[self.text[slice(*self.pronoun)].lower()]

    @property
    def occupation(self) -> str:
        """The referent's."""
        return self.text[slice(*self.referent)].lower()


@dataclass(frozen=True)
class Case:
    """A sentence with a male and with a female pronoun, the same but for that.

    `stereotype` is the gender that the referent's occupation is stereotyped with; the other
    occupation has the other one.
    """

    stereotype: str
    versions: Mapping[str, Version]


def load() -> list[Case]:
    """Every case whose two versions differ in the pronoun alone; UserError without the files."""
    files, pairs = download.locate("winobias"), []
    for part in PARTS:
        both = (text_lines(files[f"{side}_{part}"]) for side in ("pro", "anti"))
        pairs += zip(*both, strict=False)
    return list(cases(pairs))


def cases(pairs: Iterable[tuple[str, str]]) -> Iterator[Case]:
    """From the lines of a pro- and an anti-stereotypical sentence.

    Left out are pairs that differ in more than pronouns, and sentences in which not exactly one
    other known occupation stands.
    """
    read = [[_read(line) for line in both] for both in pairs if all(both)]
    known = {each.occupation for both in read for each in both if each}
    for both in read:
        if None in both or len({PRONOUN.sub("_", each.text) for each in both}) > 1:
            continue
        versions = {each.gender: _with_other(each, known) for each in both}
        if len(versions) == 2 and None not in versions.values():
            yield Case(both[0].gender, versions)


def _read(line: str) -> Version | None:
    """A line such as `7 [The cook] left because [she] was late.`; None for one of another form."""
    line = re.sub(r"^\d+\s+", "", line.strip())
    line = re.sub(r"\bthe (?=\[\s*(?i:the|an?)\s+[^\s\]])", "", line)  # "the [the chief]"
    text, spans = "", []
    for number, part in enumerate(BRACKETED.split(line)):
        if number % 2:
            spans.append((len(text), len(text) + len(part)))
        text += part
    pronouns = [span for span in spans if text[slice(*span)].lower() in GENDERS]
    names = [span for span in spans if span not in pronouns]
    if len(names) != 1 or not pronouns:
        return None
    ((start, end),) = names
    article = ARTICLE.match(text[start:end])
    return Version(text, pronouns[0], (start + (article.end() if article else 0), end))


def _with_other(version: Version, known: Iterable[str]) -> Version | None:
    others = "|".join(map(re.escape, sorted({*known} - {version.occupation})))
    found = [each.span() for each in re.finditer(rf"\b({others})\b", version.text, re.IGNORECASE)]
    return replace(version, other=found[0]) if len(found) == 1 else None
