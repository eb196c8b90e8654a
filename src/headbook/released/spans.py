"""The characters that each piece of a foreign tokenizer stands for."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from unicodedata import normalize

from headbook.models.loaded import Span
from headbook.text.alignment import visible
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
    left = []
    for start, end in [*spans, (len(sentence), len(sentence))]:
        if not before <= start <= end <= len(sentence):
            return False
        left.append(sentence[edge:start])
        before, edge = start, max(edge, end)
    return not visible("".join(left))


def matched(sentence: str, pieces: Sequence[str]) -> list[Span]:
    """The spans of pieces whose text is the sentence, apart from spaces and Unicode's forms.

    For tokenizers that give no offsets. Where pieces and sentence differ (an unknown token, quotes
    made straight) the stretch between the nearest agreements is shared by all pieces in it.
    UserError where they have too little in common.
    """
    pairs = [
        (letter, place)
        for place, character in enumerate(sentence)
        for letter in normalize("NFKC", character)
        if not letter.isspace()
    ]
    spelled = ["".join(normalize("NFKC", piece.replace(MARK, "")).split()) for piece in pieces]
    starts, ends = _places("".join(letter for letter, _ in pairs), "".join(spelled), sentence)
    spans: list[Span] = []
    at, edge = 0, 0
    for piece in spelled:
        span = (edge, edge)
        if piece and starts[at] < (last := ends[at + len(piece) - 1]):
            span = (pairs[starts[at]][1], pairs[last - 1][1] + 1)
        spans.append(span)
        edge, at = max(edge, span[1]), at + len(piece)
    return spans


def _places(letters: str, spelled: str, sentence: str) -> tuple[list[int], list[int]]:
    """For each letter of the pieces, its half-open range among the sentence's letters."""
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
