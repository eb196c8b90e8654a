"""Arithmetic with nested brackets modulo a small number, generated: `((1+2)*(3-0))`.

Every operation has brackets of its own, so no rule of precedence is needed and every closing
bracket has a value: that of what it closes.
"""

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from headbook.types import UserError

OPERATIONS = "+-*"
HELD_OUT = 5
"""Every fifth expression, by a hash, is never trained on."""
ATTEMPTS = 1_000


@dataclass(frozen=True)
class Arithmetic:
    """Digits and values are below `modulus`; expressions have at most `longest` characters."""

    modulus: int = 5
    longest: int = 25

    def __post_init__(self) -> None:
        if not 2 <= self.modulus <= 10:
            raise UserError(f"modulus is {self.modulus}; give 2 to 10, one digit per number")

    def expression(self, depth: int, generator: random.Random) -> str:
        """One with brackets `depth` deep, that is, at least one bracket in so many others.

        UserError for depth 0, and for one that does not fit into `longest` characters.
        """
        # every operation adds four characters to a digit
        if depth < 1 or 4 * depth + 1 > self.longest:
            most = (self.longest - 1) // 4
            raise UserError(
                f"brackets {depth} deep: give 1 to {most} for {self.longest} characters"
            )
        while len(found := self._nested(depth, generator)) > self.longest:
            pass
        return found

    def _nested(self, depth: int, generator: random.Random) -> str:
        if not depth:
            return str(generator.randrange(self.modulus))
        operands = [
            self._nested(depth - 1, generator),
            self._nested(generator.randrange(depth), generator),
        ]
        generator.shuffle(operands)
        return f"({operands[0]}{generator.choice(OPERATIONS)}{operands[1]})"

    def values(self, expression: str) -> list[int | None]:
        """The value of each closing bracket, at its place; None at every other character.

        UserError for what is no such expression.
        """
        found: list[int | None] = []
        open_: list[list[int | str]] = [[]]
        for character in expression:
            value = None
            if character == "(":
                open_.append([])
            elif character == ")" and len(open_) > 1:
                value = self._applied(open_.pop(), expression)
                open_[-1].append(value)
            else:
                open_[-1].append(int(character) if character.isdigit() else character)
            found.append(value)
        if len(open_) != 1 or len(open_[0]) != 1 or not isinstance(open_[0][0], int):
            raise _no_expression(expression)
        return found

    def _applied(self, parts: list[int | str], expression: str) -> int:
        if len(parts) != 3 or not isinstance(parts[0], int) or not isinstance(parts[2], int):
            raise _no_expression(expression)
        left, operation, right = parts
        if operation not in ("+", "-", "*"):
            raise _no_expression(expression)
        result = {"+": left + right, "-": left - right, "*": left * right}[operation]
        return result % self.modulus

    def training(self, depth: int, generator: random.Random) -> str:
        """One that is not held out."""
        while is_held_out(found := self.expression(depth, generator)):
            pass
        return found

    def held_out(self, depth: int, count: int, generator: random.Random) -> list[str]:
        """At most so many different ones that are held out; of depth 1 there are few."""
        found: dict[str, None] = {}
        for expression in self._drawn(depth, count, generator):
            if is_held_out(expression):
                found[expression] = None
            if len(found) == count:
                break
        return list(found)

    def _drawn(self, depth: int, count: int, generator: random.Random) -> Iterator[str]:
        for _ in range(4 * HELD_OUT * count + ATTEMPTS):
            yield self.expression(depth, generator)


def is_held_out(expression: str) -> bool:
    """Whether an expression is one of those that are never trained on, whatever the seed."""
    return zlib.crc32(expression.encode()) % HELD_OUT == 0


def depth_of(expression: str) -> int:
    """The most brackets that are open at once."""
    open_ = deepest = 0
    for character in expression:
        open_ += (character == "(") - (character == ")")
        deepest = max(deepest, open_)
    return deepest


def _no_expression(text: str) -> UserError:
    return UserError(f"{text!r} is no expression: every operation has brackets of its own, (1+2)")
