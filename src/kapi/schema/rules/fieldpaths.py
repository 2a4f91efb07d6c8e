"""Paths to fields as definitions write them, such as `.spec.names['a.b']`, checked against the schema they go through.

Rules use them to say which field a failure is about, and selectable fields to say what can be selected by. There are no
indices: a path consists of properties and keys of maps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.schema.structural.model import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}
_NOWHERE: Final = "does not refer to a valid field"
_CUT_OFF: Final = "unexpected end of JSON path"


class FieldPathError(ValueError):
    """The text is not a path, or leads to nothing in the schema."""


class Field(NamedTuple):
    """The field that a path leads to: `name` is the path as messages write it."""

    name: str
    schema: Schema


def resolve(path: str, schema: Schema, *, brackets: bool = True) -> Field:
    """Follow a path through a schema, or raise FieldPathError; `brackets` says whether `['key']` may be used."""
    name = ""
    words = _words(path)
    for word in words:
        if word == "[" and not brackets:
            raise FieldPathError("array notation is not allowed")
        if word == ".":
            step = _next(words)
        elif word == "[":
            step = _unquote(_next(words))
        else:
            raise FieldPathError(f"expected [ or . but got: {word}")
        name = _extended(name, step) if schema.properties else f"{name}[{step}]"
        schema = _below(schema, step)
        if word == "[":
            _expect_bracket(_next(words))
    return Field(name, schema)


def _extended(name: str, step: str) -> str:
    return f"{name}.{step}" if name else step


def _below(schema: Schema, step: str) -> Schema:
    below = schema.properties.get(step) if schema.properties else schema.additional
    if not isinstance(below, Schema):
        raise FieldPathError(_NOWHERE)
    return below


def _words(path: str) -> Iterator[str]:
    """The tokens of a path: `.`, `[`, `]` and the text between them; quoted text is one token."""
    start = 0
    while start < len(path):
        end = start + 1
        if path[start] == "'":
            while end < len(path) and (path[end] != "'" or path[end - 1] == "\\"):
                end += 1
            end += 1
        elif path[start] not in ".[]":
            while end < len(path) and path[end] not in ".[]":
                end += 1
        yield path[start:end]
        start = end


def _next(words: Iterator[str]) -> str:
    word = next(words, None)
    if word is None:
        raise FieldPathError(_CUT_OFF)
    return word


def _expect_bracket(word: str) -> None:
    if word != "]":
        raise FieldPathError(f"expected ] but got {word}")


def _unquote(word: str) -> str:
    if len(word) < 2 or word[0] != "'" or word[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {word}")
    text = word[1:-1]
    for found in _ESCAPE.finditer(text):
        if found[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
    return _ESCAPE.sub(lambda found: _ESCAPES[found[1]], text)
