"""The page of the public interface, from the docstrings and signatures of the public names."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import get_args

import headbook as hb

OPENING = """\
# The public interface

```python
import headbook as hb
```

`pip install .` in a clone of the repository installs it; `[models]` brings released models,
`[parse]` a parser. These names load a model of any origin, look at the attention of its heads and
measure them; {doc}`page 60 </_executed/60_five_lines>` uses them. `hb.publish`, `hb.cached`,
`hb.paper`, `hb.tabs` and `hb.source` make pages of this book. An error that the caller can mend,
such as an unknown name, is a `headbook.types.UserError` of one line."""
ENTRY = re.compile(r"([a-z_][\w, …]*): (\S.*)", re.DOTALL)
"""An entry of a list of columns: `score, low, high: on the second half, …`."""


def page() -> str:
    """The page in MyST Markdown: every name with signature, docstring, and what it returns.

    A class stands where it is first returned.
    """
    parts, described = [OPENING], set()
    for name in (each for each in hb.__all__ if each != "plots"):
        function = getattr(hb, name)
        parts.append(_function(f"hb.{name}", function))
        hint = inspect.signature(function).return_annotation
        classes = [each for each in (hint, *get_args(hint)) if inspect.isclass(each)]
        for each in classes:
            if each.__module__.startswith("headbook.") and each not in described:
                parts.append(_members(f"hb.{name} returns {each.__name__}", each))
                described.add(each)
    parts.append(f"## hb.plots\n\n{markdown(inspect.getdoc(hb.plots))}")
    for name in hb.plots.__all__:
        if inspect.isfunction(member := getattr(hb.plots, name)):
            parts.append(_function(f"hb.plots.{name}", member, "###"))
    return "\n\n".join(parts) + "\n"


def _function(name: str, of: Callable, level: str = "##") -> str:
    return f"{level} {name}\n\n{_signature(name, of)}\n\n{markdown(inspect.getdoc(of))}"


def _signature(name: str, function: Callable) -> str:
    """The call, one parameter per line where it is long; annotations without their modules."""
    signature = inspect.signature(function)
    parts = [_bare(str(each)) for each in _parameters(signature)]
    returned = f" -> {_bare(inspect.formatannotation(signature.return_annotation))}"
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) > 80:
        line = f"{name}(\n    " + ",\n    ".join(parts) + f",\n){returned}"
    return f"```python\n{line}\n```"


def _parameters(signature: inspect.Signature) -> Iterator[object]:
    named = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        if each.name != "self":
            yield each


def _members(title: str, of: type) -> str:
    """A class: its docstring, then its attributes and methods."""
    methods = [
        f"{_signature(name, member)}\n\n{markdown(inspect.getdoc(member) or '')}"
        for name, member in vars(of).items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]
    named = [
        f"- `{name}: {_bare(inspect.formatannotation(hint))}`"
        for name, hint in of.__annotations__.items()
        if name[0] != "_"
    ]
    return "\n\n".join([f"### {title}", markdown(inspect.getdoc(of)), "\n".join(named), *methods])


def _bare(annotated: str) -> str:
    """Class names without the modules they are from."""
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", annotated)


def markdown(docstring: str) -> str:
    """A docstring as Markdown: paragraphs as they are, lists of columns as definitions."""
    return "\n\n".join(_paragraph(each) for each in docstring.split("\n\n"))


def _paragraph(text: str) -> str:
    entries = [ENTRY.fullmatch(entry) for entry in re.split(r"\n(?=\S)", text)]
    if not all(entries):
        return text
    return "\n\n".join(f"`{entry[1]}`\n: {' '.join(entry[2].split())}" for entry in entries)
