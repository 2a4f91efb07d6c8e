"""Python source as a tree of brackets, and its layout: on one line if it fits, else as formatters break it.

Just enough of the language for annotations, calls and literals. What comes out is what ruff's formatter leaves alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH: Final = 120
_STEP: Final = "    "
_STRING: Final = re.compile(r"r?[\"']")
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Brackets:
    """`head item, item, … tail`: a call, a subscript, a list, a dictionary."""

    head: str
    items: tuple[Expression, ...]
    tail: str


@dataclass(frozen=True, slots=True)
class Prefixed:
    """An expression with a prefix: `name=value`, `"key": value`, `lambda: value`."""

    prefix: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    """`A | B`."""

    items: tuple[Expression, ...]


Expression: TypeAlias = Union[str, Brackets, Prefixed, Choice]  # noqa: UP007 - names that are not there yet


# -- making -----------------------------------------------------------------------------------------------------------


def call(name: str, /, *positional: Expression, **named: Expression) -> Brackets:
    """`name(positional, named=…)`."""
    return Brackets(f"{name}(", (*positional, *(Prefixed(f"{key}=", value) for key, value in named.items())), ")")


def subscript(name: str, *items: Expression) -> Brackets:
    """`name[items]`."""
    return Brackets(f"{name}[", items, "]")


def choice(*items: Expression) -> Expression:
    """`A | B`, without choices in choices, and without None twice."""
    flattened: list[Expression] = []
    for item in items:
        flattened += item.items if isinstance(item, Choice) else [item]
    kept = tuple(dict.fromkeys(flattened))
    return kept[0] if len(kept) == 1 else Choice(kept)


def literal(value: Any) -> Expression:
    """A JSON value."""
    if isinstance(value, dict):
        return Brackets("{", tuple(Prefixed(f"{text(key)}: ", literal(below)) for key, below in value.items()), "}")
    if isinstance(value, list):
        return Brackets("[", tuple(map(literal, value)), "]")
    return text(value) if isinstance(value, str) else repr(value).replace("e+", "e")


def sequence(items: Iterable[Expression]) -> Brackets:
    """A tuple."""
    return Brackets("(", tuple(items), ")")


def text(value: str) -> str:
    """A string, with the quotes that need the fewest escapes; raw where that spares backslashes."""
    if "\\" in value and value.isprintable() and not value.endswith("\\"):
        for quote in ('"', "'"):
            if quote not in value:
                return f"r{quote}{value}{quote}"
    quote = "'" if value.count('"') > value.count("'") else '"'
    return quote + "".join(_escaped(letter, quote) for letter in value) + quote


def _escaped(letter: str, quote: str) -> str:
    if letter in ("\\", quote):
        return f"\\{letter}"
    return letter if letter.isprintable() else repr(letter)[1:-1]


def identifiers(expression: Expression) -> set[str]:
    """The names an expression uses: the first parts of dotted ones, and not what strings talk about."""
    match expression:
        case str():
            return set() if _STRING.match(expression) else set(_NAME.findall(expression))
        case Prefixed(_, value):
            return identifiers(value)
        case Choice(items):
            return set().union(*map(identifiers, items))
        case Brackets(head, items, _):
            return set(_NAME.findall(head)).union(*map(identifiers, items))


# -- laying out -------------------------------------------------------------------------------------------------------


def flat(expression: Expression) -> str:
    """Everything on one line."""
    match expression:
        case str():
            return expression
        case Prefixed(prefix, value):
            return prefix + flat(value)
        case Choice(items):
            return " | ".join(map(flat, items))
        case Brackets(head, items, tail):
            comma = "," if head == "(" and len(items) == 1 else ""
            return f"{head}{', '.join(map(flat, items))}{comma}{tail}"


def assignment(target: str, annotation: Expression, value: Expression | None, indent: str = _STEP) -> list[str]:
    """`target: annotation = value`, as lines."""
    after = "" if value is None else f" = {flat(value)}"
    line = f"{indent}{target}: {flat(annotation)}{after}"
    if len(line) <= WIDTH:
        return [line]
    before = f"{indent}{target}: {flat(annotation)} = "
    if isinstance(value, Brackets) and value.items and len(before + value.head) <= WIDTH:
        return broken(value, indent, before)
    if value is not None and len(before + "(") <= WIDTH:
        inside = f"{indent}{_STEP}"
        return [f"{before}(", *laid_out(value, inside, inside), f"{indent})"]
    lines = _annotated(target, annotation, indent)
    if value is None:
        return lines
    return [*lines[:-1], *laid_out(value, indent, f"{lines[-1]} = ")]


def _annotated(target: str, annotation: Expression, indent: str) -> list[str]:
    if isinstance(annotation, Brackets):
        return broken(annotation, indent, f"{indent}{target}: ")
    inside = indent + _STEP
    return [f"{indent}{target}: (", *laid_out(annotation, inside, inside), f"{indent})"]


def laid_out(expression: Expression, indent: str, before: str, after: str = "") -> list[str]:
    """An expression between two texts, as lines; those after the first begin with `indent`."""
    line = f"{before}{flat(expression)}{after}"
    return [line] if len(line) <= WIDTH else broken(expression, indent, before, after)


def broken(expression: Expression, indent: str, before: str, after: str = "") -> list[str]:
    """The same over several lines, if it has brackets to break at."""
    match expression:
        case Prefixed(prefix, value):
            return broken(value, indent, before + prefix, after)
        case Choice(items):
            first = laid_out(items[0], indent, before)
            rest = [line for item in items[1:] for line in laid_out(item, indent, f"{indent}| ")]
            return _ended([*first, *rest], after)
        case Brackets(head, items, tail) if items:
            # A comma makes a tuple of the one item of a subscript.
            comma = "" if tail == "]" and len(items) == 1 and head != "[" else ","
            inside = indent + _STEP
            lines = [line for item in items for line in laid_out(item, inside, inside, comma)]
            return [before + head, *lines, indent + tail + after]
        case _:
            return [before + flat(expression) + after]


def _ended(lines: list[str], after: str) -> list[str]:
    return [*lines[:-1], lines[-1] + after]
