"""Models on those of the texts that are in the language they read."""

from collections.abc import Iterator, Sequence

from headbook.looking.load import load
from headbook.looking.text import reads, text
from headbook.models.loaded import Loaded
from headbook.types import UserError


def in_their_language(
    models: Sequence[str], texts: Sequence[str], sentences: int | None
) -> Iterator[tuple[Loaded, str, Sequence[str]]]:
    """Model, name of the text, and its first sentences; UserError for a model without a text."""
    if sentences is not None and sentences < 2:
        raise UserError(f"sentences is {sentences}; give 2 or more, as intervals are over them")
    given = {source: text(source, first=sentences).sentences for source in texts}
    for name in models:
        model = load(name)
        own = [(source, each) for source, each in given.items() if reads(model, source)]
        if not own:
            raise UserError(f"{name} reads {model.languages[0]}, and no text given is in it")
        for source, each in own:
            yield model, source, each
