"""headbook: an executable book on what the heads of multi-head attention do.

The public interface is `load`, `text`, `measure`, `roles` and `plots`:

    import headbook as hb

    model = hb.load("firefox-en-pt")
    heads = hb.measure(model, hb.text("ewt-sample"))
    hb.roles(heads)
    hb.plots.heads(heads, "confidence")
"""

import warnings
from importlib import import_module

__version__ = "0.1.0"
RESULTS = ("cached", "publish", "show", "table")
__all__ = ["cached", "load", "measure", "plots", "publish", "roles", "show", "table", "text"]

# Several libraries load tqdm's notebook bars, which ask for widgets. The bars used here are plain
# text, and the warning would stand, with a path of this machine, on every page of the book.
warnings.filterwarnings("ignore", message="IProgress not found")


def __getattr__(name: str) -> object:
    """The public names, imported when first used: importing headbook alone loads no torch."""
    if name == "plots":
        return import_module("headbook.plots")
    if name in RESULTS:
        return getattr(import_module("headbook.results"), name)
    if name in __all__:
        return getattr(import_module(f"headbook.looking.{name}"), name)
    raise AttributeError(f"module 'headbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
