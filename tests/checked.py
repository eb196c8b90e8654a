"""Types and shapes checked at every call of the package, once.

jaxtyping's import hook puts `jaxtyping.jaxtyped` before every function, which binds the arguments
to their names and checks them twice. Names of axes only matter where an annotation has a shape, so
every other function gets beartype alone, and these a memory of axes without the arguments' names.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import isclass, isgeneratorfunction
from typing import Any, get_args

import beartype
import jaxtyping
from jaxtyping import AbstractArray

_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """The hook's decorators are `once` from here on: before the package is imported."""
    jaxtyping.jaxtyped = lambda typechecker: once


def once(decorated: Any) -> Any:
    """A function that checks its arguments and its result; in a dataclass, `__init__` does."""
    if not isclass(decorated):
        return _checked(decorated)
    if is_dataclass(decorated):
        decorated.__init__ = _checked(decorated.__init__)
    return decorated


def _checked(function: Callable) -> Callable:
    checked = beartype.beartype(function)
    if not any(map(_has_shape, getattr(function, "__annotations__", {}).values())):
        return checked
    if isgeneratorfunction(function):
        # beartype alone would check it when it runs, among its caller's axes
        return _jaxtyped(function, typechecker=beartype.beartype)

    @wraps(checked)
    def with_axes(*given: Any, **named: Any) -> Any:
        with _jaxtyped("context"):
            return checked(*given, **named)

    return with_axes


def _has_shape(annotation: object) -> bool:
    """Whether an array whose axes have names is anywhere in it; a name in quotes may be one."""
    if isinstance(annotation, str) or (
        isclass(annotation) and issubclass(annotation, AbstractArray)
    ):
        return True
    inside = annotation if isinstance(annotation, list) else get_args(annotation)
    return any(map(_has_shape, inside))
