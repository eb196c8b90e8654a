"""Models on those of the texts that are in the language they read."""

from collections.abc import Iterator, Sequence

from headbook.corpora.registry import registry
from headbook.looking.load import load
from headbook.looking.text import SAMPLE, text
from headbook.models.loaded import Loaded
from headbook.types import UserError

ENGLISH, UNDETERMINED = "en", "und"


def language_of(source: str) -> str:
    """Of a treebank by its entry; of the bundled sample English, of another text not known."""
    entry = registry().get(source)
    return entry.target if entry else ENGLISH if source == SAMPLE else UNDETERMINED


def in_their_language(
    models: Sequence[str], texts: Sequence[str], sentences: int | None
) -> Iterator[tuple[Loaded, str, Sequence[str]]]:
    """Model, name of the text, and its first sentences; UserError for a model without a text."""
    if sentences is not None and sentences < 2:
        raise UserError(f"sentences is {sentences}; give 2 or more, as intervals are over them")
    given = {source: (language_of(source), text(source, first=sentences).sentences)
             for source in texts}  # fmt: skip
    for name in models:
        model = load(name)
        either = (UNDETERMINED, model.languages[0])
        own = [(source, each) for source, (spoken, each) in given.items()
               if spoken in either or either[1] == UNDETERMINED]  # fmt: skip
        if not own:
            raise UserError(f"{name} reads {model.languages[0]}, and no text given is in it")
        for source, each in own:
            yield model, source, each
