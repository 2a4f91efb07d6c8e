"""Checks of constant format strings, such as `'%s has %d'`, against the types of the values they are given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kapi.schema.cel.syntax.ast import Call, Checked, Expr, ListExpr, MapExpr
from kapi.schema.cel.syntax.issues import Issue
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHOLE: Final = frozenset({INT.name, UINT.name})
_FLOAT: Final = frozenset({DOUBLE.name, STRING.name})
_TEXT: Final = frozenset(
    {
        *(LIST, MAP, TYPE, INT.name, UINT.name, DOUBLE.name, BOOL.name),
        *(STRING.name, BYTES.name, TIMESTAMP.name, DURATION.name, NULL.name),
    }
)
_HEX: Final = _WHOLE | {STRING.name, BYTES.name}
_HEX_MESSAGE: Final = "only integers, byte buffers, and strings can be formatted as hex"
_TEXT_MESSAGE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps"
)
_CLAUSES: Final = {
    "s": (_TEXT, _TEXT_MESSAGE),
    "d": (_WHOLE, "decimal clause can only be used on integers"),
    "f": (_FLOAT, "fixed-point clause can only be used on doubles"),
    "e": (_FLOAT, "scientific clause can only be used on doubles"),
    "b": (_WHOLE | {BOOL.name}, "only integers and bools can be formatted as binary"),
    "x": (_HEX, _HEX_MESSAGE),
    "X": (_HEX, _HEX_MESSAGE),
    "o": (_WHOLE, "octal clause can only be used on integers"),
}
_CLAUSE: Final = re.compile(r"%(%|(?:\.([0-9]*))?([\s\S]?))")
_LARGEST_PRECISION: Final = 2**63 - 1
_MOST_DIGITS: Final = 19


class _Refused(Exception):
    def __init__(self, message: str, at: Expr | None = None) -> None:
        super().__init__(message)
        self.at = at


def format_issues(checked: Checked, call: Call, text: str, args: Sequence[Expr]) -> list[Issue]:
    """The first issue of `text.format(args)`, if it has any."""
    used = 0
    # Bytes, because that is what a clause is: one byte after the sign and the precision.
    for clause in _CLAUSE.finditer(text.encode(errors="replace").decode("latin-1")):
        if clause[1] == "%":
            continue
        try:
            _check_clause(checked, clause, args, used)
        except _Refused as refused:
            return [Issue((refused.at or call).offset, str(refused))]
        used += 1
    if len(args) > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
        return [Issue(call.offset, message)]
    return []


def _check_clause(checked: Checked, clause: re.Match[str], args: Sequence[Expr], index: int) -> None:
    precision, letter = clause[2], clause[3]
    if not clause[1]:
        raise _Refused("unexpected end of string")
    if index >= len(args):
        raise _Refused(f"index {index} out of range")
    if precision is not None:
        _check_precision(precision, letter)
    if letter not in _CLAUSES:
        raise _Refused(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    allowed, message = _CLAUSES[letter]
    wrong = _unsuited(checked, args[index], allowed, is_deep=letter == "s")
    if wrong is not None:
        given = checked.types[wrong.id].name
        raise _Refused(f"error during formatting: {message}, was given {given}", wrong)


def _check_precision(precision: str, letter: str) -> None:
    lead = "could not parse formatting clause: error while parsing precision: "
    if not letter:
        raise _Refused(f"{lead}could not find end of precision specifier")
    lead += f'error while converting precision to integer: strconv.Atoi: parsing "{precision}": '
    if not precision:
        raise _Refused(f"{lead}invalid syntax")
    digits = precision.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) > _LARGEST_PRECISION:
        raise _Refused(f"{lead}value out of range")


def _unsuited(checked: Checked, arg: Expr, allowed: frozenset[str], *, is_deep: bool) -> Expr | None:
    """The part of an argument that cannot be formatted, if any; `%s` formats lists and maps with their elements."""
    name = checked.types[arg.id].name
    if name != DYN.name and name not in allowed:
        return arg
    parts: list[Expr] = []
    if is_deep and isinstance(arg, ListExpr):
        parts = arg.elements
    elif is_deep and isinstance(arg, MapExpr):
        parts = [part for entry in arg.entries for part in (entry.key, entry.value)]
    found = (_unsuited(checked, part, allowed, is_deep=True) for part in parts)
    return next((part for part in found if part is not None), None)
