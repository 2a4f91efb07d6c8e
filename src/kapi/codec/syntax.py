"""Says what is wrong with a JSON document, in the words of Go's scanner, which is what clients are used to reading.

Only the error path comes here: `json` parses with msgspec and calls `explain` once it knows that the document
is bad. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from kapi.api.go.text import quote_character

_END: Final = "unexpected end of JSON input"
_BLANK = re.compile(rb"[ \t\r\n]*")
# Nothing follows the repetitions, so they cannot backtrack. They are not possessive: in Python 3.11 before 3.11.5 a
# possessive group leaves the match at a wrong place.
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_AFTER_KEY = "after object key"
_KEY_WANTED = "looking for beginning of object key string"


class _SyntaxError(Exception):
    """Carries the explanation out of the scan."""


def explain(data: bytes) -> str | None:
    """The first syntax error of the document, or None when its syntax is fine."""
    try:
        _scan(data)
    except _SyntaxError as error:
        return str(error)
    return None


def _fail(data: bytes, at: int, context: str) -> _SyntaxError:
    """The error at a place between tokens, where the end of the input is just the end."""
    return _fail_inside(data, at, context) if at < len(data) else _SyntaxError(_END)


def _fail_inside(data: bytes, at: int, context: str) -> _SyntaxError:
    """The error inside a token. Go ends every input with a blank, and inside a token reports that."""
    if at >= len(data):
        return _SyntaxError(f"invalid character ' ' {context}")
    return _SyntaxError(f"invalid character {quote_character(data[at])} {context}")


def _blank(data: bytes, at: int) -> int:
    match = _BLANK.match(data, at)
    return match.end() if match else at


def _scan(data: bytes) -> None:
    """Walk the document; `containers` holds the closing bracket of each open array or object."""
    containers: list[int] = []
    at = _value(data, _blank(data, 0), containers)
    while True:
        at = _blank(data, at)
        if not containers:
            if at < len(data):
                raise _fail(data, at, "after top-level value")
            return
        closing = containers[-1]
        if at < len(data) and data[at] == closing:
            containers.pop()
            at += 1
            continue
        in_object = closing == 0x7D
        if data[at : at + 1] != b",":
            raise _fail(data, at, "after object key:value pair" if in_object else "after array element")
        at = _blank(data, at + 1)
        if in_object:
            at = _key(data, at)
        at = _value(data, at, containers)


def _key(data: bytes, at: int) -> int:
    """Past `"key":` and the blanks after it."""
    if data[at : at + 1] != b'"':
        raise _fail(data, at, _KEY_WANTED)
    at = _blank(data, _string(data, at))
    if data[at : at + 1] != b":":
        raise _fail(data, at, _AFTER_KEY)
    return _blank(data, at + 1)


def _value(data: bytes, at: int, containers: list[int]) -> int:
    """Past a scalar, an empty container, or down to the first scalar of nested ones."""
    while True:
        opening = data[at : at + 1]
        if opening == b"[":
            containers.append(0x5D)
            at = _blank(data, at + 1)
            if data[at : at + 1] == b"]":
                return at
        elif opening == b"{":
            containers.append(0x7D)
            at = _blank(data, at + 1)
            if data[at : at + 1] == b"}":
                return at
            at = _key(data, at)
        else:
            return _scalar(data, at)


def _scalar(data: bytes, at: int) -> int:
    first = data[at : at + 1]
    if first == b'"':
        return _string(data, at)
    if first == b"-" or first.isdigit():
        return _number(data, at)
    for literal in (b"true", b"false", b"null"):
        if first == literal[:1]:
            return _literal(data, at, literal)
    raise _fail(data, at, "looking for beginning of value")


def _literal(data: bytes, at: int, literal: bytes) -> int:
    for offset, expected in enumerate(literal):
        if data[at + offset : at + offset + 1] != literal[offset : offset + 1]:
            raise _fail_inside(data, at + offset, f"in literal {literal.decode()} (expecting '{chr(expected)}')")
    return at + len(literal)


def _number(data: bytes, at: int) -> int:
    match = _NUMBER.match(data, at)
    if match is None:
        raise _fail_inside(data, at + 1, "in numeric literal")
    end = match.end()
    digits = match.group().lstrip(b"-")
    if data[end : end + 1] == b"." and digits.isdigit():
        raise _fail_inside(data, end + 1, "after decimal point in numeric literal")
    if data[end : end + 1] in (b"e", b"E") and b"e" not in digits.lower():
        end += 1 + (data[end + 1 : end + 2] in (b"+", b"-"))
        raise _fail_inside(data, end, "in exponent of numeric literal")
    return end


def _string(data: bytes, at: int) -> int:
    match = _STRING.match(data, at)
    end = match.end() if match else at
    if data[end : end + 1] == b'"':
        return end + 1
    if data[end : end + 1] != b"\\":
        raise _fail(data, end, "in string literal")
    if data[end + 1 : end + 2] != b"u":
        raise _fail_inside(data, end + 1, "in string escape code")
    hexadecimal = _HEXADECIMAL.match(data, end + 2)
    raise _fail_inside(data, hexadecimal.end() if hexadecimal else end + 2, "in \\u hexadecimal character escape")
