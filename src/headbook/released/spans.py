"""The characters that each piece of a foreign tokenizer stands for."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from unicodedata import combining, normalize

from headbook.models.loaded import Span
from headbook.types import UserError

MARK = "▁"
"""SentencePiece's sign for a space before a piece."""

ALIKE = 0.8
"""Share of a sentence's characters that its pieces must spell for their places to be trusted."""


def trimmed(sentence: str, span: Span) -> Span:
    """The span without spaces at its ends; one of spaces alone stays.

    Byte-level tokenizers count the space before a word to the word, and a piece belongs to the word
    that holds its first character.
    """
    inside = sentence[span[0] : span[1]]
    if not inside.strip():
        return span
    return (
        span[0] + len(inside) - len(inside.lstrip()),
        span[1] - len(inside) + len(inside.rstrip()),
    )


def cover(sentence: str, spans: Sequence[Span]) -> bool:
    """Whether the spans stand in order, lie within the sentence and leave out nothing visible."""
    edge = before = 0
    gaps = []
    for start, end in spans:
        if start < before or not start <= end <= len(sentence):
            return False
        gaps.append(sentence[edge:start])
        before, edge = start, max(edge, end)
    gaps.append(sentence[edge:])
    return not any(
        letter.isprintable() and not letter.isspace() and not combining(letter)
        for gap in gaps
        for letter in gap
    )


def matched(sentence: str, pieces: Sequence[str]) -> list[Span]:
    """The spans of pieces whose text is the sentence, apart from spaces and Unicode's forms.

    For tokenizers that give no offsets. Where pieces and sentence differ (an unknown token, quotes
    made straight) the stretch between the nearest agreements is shared by all pieces in it.
    UserError where they have too little in common.
    """
    letters, places = _letters(sentence)
    spelled = [normalize("NFKC", piece.replace(MARK, "")) for piece in pieces]
    spelled = ["".join(letter for letter in piece if not letter.isspace()) for piece in spelled]
    starts, ends = _places(letters, "".join(spelled), sentence)
    spans: list[Span] = []
    at, edge = 0, 0
    for piece in spelled:
        if piece:
            first, last = starts[at], ends[at + len(piece) - 1]
            spans.append((places[first], places[last - 1] + 1) if last > first else (edge, edge))
        else:
            spans.append((edge, edge))
        edge = max(edge, spans[-1][1])
        at += len(piece)
    return spans


def _letters(sentence: str) -> tuple[str, list[int]]:
    """The visible letters in compatibility form, and the place each came from."""
    pairs = [
        (letter, place)
        for place, character in enumerate(sentence)
        for letter in normalize("NFKC", character)
        if not letter.isspace()
    ]
    return "".join(letter for letter, _ in pairs), [place for _, place in pairs]


def _places(letters: str, spelled: str, sentence: str) -> tuple[list[int], list[int]]:
    """For each letter of the pieces, the half-open range of the sentence's letters it stands for."""
    starts, ends, agree = [], [], 0
    matcher = SequenceMatcher(None, letters, spelled, autojunk=False)
    for operation, first, last, left, right in matcher.get_opcodes():
        if operation == "equal":
            starts += range(first, last)
            ends += range(first + 1, last + 1)
            agree += last - first
        else:
            starts += [first] * (right - left)
            ends += [last] * (right - left)
    if agree < ALIKE * len(letters):
        raise UserError(
            f"the tokenizer gives no offsets and its pieces do not spell {sentence[:60]!r}; "
            "use a model with a fast tokenizer (tokenizer.json)"
        )
    return starts, ends
