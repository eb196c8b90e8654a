"""Links between the words of parallel sentences, by eflomal (Östling and Tiedemann 2016).

The tool aligns in both directions. Links that both directions have count as sure, those that either
has as possible (Och and Ney 2003 have people say which). It draws at random, so two runs differ a
little: measurements that shall be repeated keep the links.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headbook.types import UserError

INSTALL = 'pip install "headbook[align]"'
Link = tuple[int, int]
"""Place of a word in the source sentence and in the target sentence."""


@dataclass(frozen=True)
class WordLinks:
    """Links of one sentence pair; every sure one is possible, too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def word_links(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[WordLinks]:
    """Links of every pair, learnt from all of them; words are compared in lower case.

    UserError where eflomal is not installed, and for unequal numbers of sentences.
    """
    if len(sources) != len(targets):
        raise UserError(f"{len(sources)} sentences have {len(targets)} translations")
    try:
        import eflomal
    except ImportError:
        raise UserError(
            "words are aligned by eflomal, which is not installed (it is built with a C compiler): "
            + INSTALL
        ) from None
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("forward", "backward")]
        eflomal.Aligner().align(
            [_line(each) for each in sources], [_line(each) for each in targets],
            links_filename_fwd=str(files[0]), links_filename_rev=str(files[1]),
        )  # fmt: skip
        both = [[_links(line) for line in file.read_text().splitlines()] for file in files]
    return [WordLinks(one & other, one | other) for one, other in zip(*both, strict=True)]


def _line(words: Sequence[str]) -> str:
    """The words with spaces between them and none within."""
    return " ".join("_".join(word.lower().split()) or "_" for word in words)


def _links(line: str) -> frozenset[Link]:
    pairs = (pair.split("-") for pair in line.split())
    return frozenset((int(source), int(target)) for source, target in pairs)
