"""Language models derived from another: the same fields in another kind of run, fewer weights."""

from dataclasses import fields, replace

from headbook.artefacts.language import DelightRun, LanguageRun
from headbook.artefacts.model import ModelRun
from headbook.artefacts.watching import Watched


def given(run: ModelRun | LanguageRun) -> dict[str, object]:
    """The fields of a run by name, for a run of another kind that is alike in them."""
    return {field.name: getattr(run, field.name) for field in fields(run)}


def light(base: LanguageRun) -> tuple[LanguageRun, ...]:
    """A model, one of DeLighT's blocks at its width, and one of ours at three quarters of it.

    The last two have about as many weights in their blocks.
    """
    same = given(base)
    same["watched"] = Watched(every=0)  # a single head has no other
    size = base.size
    thinner = replace(size, width=size.width * 3 // 4, feed_forward=size.feed_forward * 3 // 4)
    return (
        base,
        DelightRun(**same | {"size": replace(size, heads=1)}),
        LanguageRun(**same | {"size": thinner}),
    )
