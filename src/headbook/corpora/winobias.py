"""WinoBias (Zhao et al. 2018): two occupations and a pronoun that means one of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from headbook.text import download
from headbook.text.files import text_lines

Span = tuple[int, int]
MALE, FEMALE = "male", "female"
GENDERS = {
    **dict.fromkeys(("he", "him", "his", "himself"), MALE),
    **dict.fromkeys(("she", "her", "hers", "herself"), FEMALE),
}
PARTS = ("type1.dev", "type1.test", "type2.dev", "type2.test")
BRACKETED = re.compile(r"\[\s*([^\]]*?)\s*\]")
ARTICLE = re.compile(r"^(the|an?)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Version:
    """One sentence with the characters of the pronoun and of both occupations, without articles."""

    text: str
    pronoun: Span
    referent: Span
    other: Span


@dataclass(frozen=True)
class Case:
    """A sentence with a male and with a female pronoun, the same but for that.

    `stereotype` is the gender that the referent's occupation is stereotyped with; the other
    occupation has the other one. `group` is the same for the sentences of one pair of occupations.
    In type 1 only the meaning says whom the pronoun means, in type 2 the syntax does, too.
    """

    kind: int
    group: str
    stereotype: str
    versions: Mapping[str, Version]


def load() -> list[Case]:
    """Every case whose two versions differ in the pronoun alone; UserError without the files."""
    files = download.locate("winobias")
    pairs = []
    for part in PARTS:
        both = (text_lines(files[f"{side}_{part}"]) for side in ("pro", "anti"))
        pairs += [(int(part[4]), pro, anti) for pro, anti in zip_longest(*both, fillvalue="")]
    return list(cases(pairs))


def cases(pairs: Iterable[tuple[int, str, str]]) -> Iterator[Case]:
    """From the type and the lines of a pro- and an anti-stereotypical sentence.

    Left out are pairs that differ in more than pronouns, and sentences in which not exactly one
    other known occupation stands.
    """
    read = [(kind, _read(pro), _read(anti)) for kind, pro, anti in pairs if pro and anti]
    known = {_named(each.referent, each.text) for _, *both in read for each in both if each}
    for kind, pro, anti in read:
        if pro is None or anti is None or pro.blanked != anti.blanked:
            continue
        versions = {each.gender: _version(each, known) for each in (pro, anti)}
        if len(versions) < 2 or None in versions.values():
            continue
        first = versions[pro.gender]
        group = sorted(_named(span, first.text) for span in (first.referent, first.other))
        yield Case(kind, f"{kind} {' '.join(group)}", pro.gender, versions)


@dataclass(frozen=True)
class _Line:
    text: str
    blanked: str
    gender: str
    pronoun: Span
    referent: Span


def _read(line: str) -> _Line | None:
    """A line such as `7 [The cook] left because [she] was late.`; None for one of another form."""
    line = re.sub(r"^\d+\s+", "", line.strip())
    text, spans, at = "", [], 0
    for found in BRACKETED.finditer(line):
        before = line[at : found.start()]
        if re.search(r"\bthe $", before) and ARTICLE.match(found[1]):  # "the [the chief]"
            before = before[:-4]
        text += before
        spans.append((len(text), len(text) + len(found[1])))
        text += found[1]
        at = found.end()
    text += line[at:]
    pronouns = [span for span in spans if text[slice(*span)].lower() in GENDERS]
    names = [span for span in spans if span not in pronouns]
    if len(names) != 1 or not pronouns:
        return None
    (start, end), pronoun = names[0], pronouns[0]
    article = ARTICLE.match(text[start:end])
    start += article.end() if article else 0
    parts = re.split(r"(\W+)", text)
    blanked = "".join("_" if part.lower() in GENDERS else part for part in parts)
    return _Line(text, blanked, GENDERS[text[slice(*pronoun)].lower()], pronoun, (start, end))


def _version(line: _Line, known: Iterable[str]) -> Version | None:
    own = _named(line.referent, line.text)
    others = "|".join(map(re.escape, sorted(set(known) - {own})))
    found = [each.span() for each in re.finditer(rf"\b({others})\b", line.text, re.IGNORECASE)]
    if len(found) != 1:
        return None
    return Version(line.text, line.pronoun, line.referent, found[0])


def _named(span: Span, text: str) -> str:
    return text[slice(*span)].lower()
