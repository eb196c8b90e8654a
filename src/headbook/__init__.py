"""headbook: an executable book on what the heads of multi-head attention do.

    import headbook as hb

    model = hb.load("firefox-en-pt")
    heads = hb.measure(model, hb.text("ewt-sample"))
    hb.roles(heads)
    hb.plots.heads(heads, "confidence")
    hb.view(model, "The clerics demanded talks with local US commanders.", ["L6H5"])

The pages of the book are written with these names and show what they are made of.
"""

import sys
import warnings
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"
_HOMES = {
    "load": "looking.load",
    "text": "looking.text",
    "measure": "looking.measure",
    "roles": "looking.roles",
    "attention": "looking.attention",
    "close": "looking.close",
    "nulls": "looking.close",
    "prune": "looking.prune",
    "compare": "looking.compare",
    "save": "looking.measured",
    "read": "looking.measured",
    "answers": "looking.answers",
    "loss": "looking.effects",
    "source": "looking.source",
    "best": "heads.halves",
    "shares": "heads.halves",
    "table": "results",
    "show": "results",
    "publish": "results",
    "cached": "results",
    "paper": "claims.paper",
    "tabs": "plots.tabs",
    "view": "looking.view",
}
"""The module of the package that each public name lives in."""
__all__ = [*_HOMES, "plots"]

# Several libraries load tqdm's notebook bars, which ask for widgets. The bars used here are plain
# text, and the warning would stand, with a path of this machine, on every page of the book.
warnings.filterwarnings("ignore", message="IProgress not found")


def __getattr__(name: str) -> object:
    """The public names, imported when first used: importing headbook alone loads no torch."""
    if name in __all__:
        from headbook.extras import extras

        with extras():
            if name == "plots":
                return import_module("headbook.plots")
            return getattr(import_module(f"headbook.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'headbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


class _Package(ModuleType):
    """`hb.text` is the function although a folder has its name, which importing would put there."""

    @property
    def text(self) -> object:
        return __getattr__("text")

    @text.setter
    def text(self, _folder: ModuleType) -> None:
        """The folder stays reachable by its imports: `from headbook.text.trees import Tree`."""


sys.modules[__name__].__class__ = _Package
