"""JSON as kube-apiserver reads it, at C speed.

What differs from a plain parser: integers beyond int64 become floats, floats with no fraction become integers
(Go prints `1.0` as `1`, and so does every object that comes back from its store), NaN and Infinity are not
JSON, nesting is bounded, and duplicate fields can be reported. Invalid UTF-8 and lone surrogates are refused,
where Go would quietly replace them: what a client stored and what it reads back should be the same.

What is written is plain UTF-8. Go escapes `<`, `>` and `&` in strings; both forms are the same JSON.
"""

from __future__ import annotations

import json as stdlib
import re
from math import isinf
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.depth import nests_deeper
from kapi.api.go.text import quote
from kapi.api.go.types import unmarshal_error
from kapi.api.limits import JSON_DEPTH, JSON_EXPLAINED_BYTES, MIB, NUMBER_CHARACTERS, STRICT_PROBLEMS
from kapi.codec import syntax
from kapi.codec.errors import DecodeError
from kapi.codec.pieces import PIECE_BYTES, DuplicateAtCut, decode_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1

# Every digit becomes `0`, so one search finds any run of 19 digits: the shortest integer that can leave int64.
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19


def _float(text: str) -> int | float:
    """A number with a point or an exponent: an integer when it is one, as it would be after a trip through Go."""
    value = float(text)
    if isinf(value):
        raise _out_of_range(text)
    if value.is_integer() and _INT64_MIN <= value <= _INT64_MAX:
        return int(value)
    return value


_decode = msgspec.json.Decoder(float_hook=_float).decode
encode = msgspec.json.Encoder().encode
"""Compact JSON. NaN and infinities come out as null; objects that were decoded here have none."""


PRETTY_BYTES: Final = 4 * MIB
"""Up to this size indented JSON is made in one call; beyond, which takes deep nesting, in pieces."""
_PIECE: Final = 64 * 1024

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]|[^"{}\[\]:,\s]++', re.DOTALL)
_POSITION: Final = re.compile(r"(?<=\(byte )\d+(?=\)$)")
_EMPTY: Final = re.compile(rb"\s*[\]}]")


def encode_pretty(obj: Any) -> bytes:
    """JSON for people: two spaces a level, no newline at the end."""
    return msgspec.json.format(encode(obj), indent=2)


def pretty_pieces(encoded: bytes, level: int = 0) -> Iterator[bytes]:
    """Yield JSON that is already encoded, indented as by `encode_pretty`; `level` is how deep it is nested.

    Indentation multiplies the size of what is deep: a list of 1 MB, 200 levels down, becomes 230 MB. So a result that
    may be large is made token by token, which is slower, and never in memory as a whole.
    """
    if _may_grow(encoded, level):
        yield from _indented(encoded, level)
        return
    text = msgspec.json.format(encoded, indent=2)
    # A string in JSON never contains a line break.
    yield text.replace(b"\n", b"\n" + b"  " * level) if level else text


def pretty_list_pieces(frame: bytes, elements: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an object whose last field is a list, indented as by `encode_pretty`.

    `frame` is the object with an empty list, `elements` are those of the list; both are encoded.
    """
    opening = msgspec.json.format(frame, indent=2).removesuffix(b"]\n}")
    yield opening
    before = b"\n    "
    for element in elements:
        yield before
        yield from pretty_pieces(element, 2)
        before = b",\n    "
    yield b"]\n}" if before[:1] == b"\n" else b"\n  ]\n}"


def _may_grow(encoded: bytes, level: int) -> bool:
    """Return True if indentation may make a document larger than `PRETTY_BYTES`."""
    breaks = encoded.count(b",") + 2 * (encoded.count(b"{") + encoded.count(b"["))
    levels = (PRETTY_BYTES - 2 * len(encoded)) // (2 * breaks or 1) - level - 1
    return levels < 1 or (levels < JSON_DEPTH and nests_deeper(encoded, levels))


def _indented(encoded: bytes, level: int) -> Iterator[bytes]:
    out: list[bytes] = []
    size = 0
    is_empty = False
    for match in _TOKEN.finditer(encoded):
        token = match[0]
        if token in (b"{", b"["):
            is_empty = _EMPTY.match(encoded, match.end()) is not None
            level += 1
            token = token if is_empty else token + b"\n" + b"  " * level
        elif token in (b"}", b"]"):
            level -= 1
            token = token if is_empty else b"\n" + b"  " * level + token
            is_empty = False
        elif token == b",":
            token = b",\n" + b"  " * level
        elif token == b":":
            token = b": "
        out.append(token)
        size += len(token)
        if size > _PIECE:
            yield b"".join(out)
            out, size = [], 0
    yield b"".join(out)


def decode(data: bytes) -> Any:
    """Parse one document; the last of duplicate fields wins.

    Costs about 2 µs for a small object and 10 ms for a MiB of ordinary ones.

    Raises:
        DecodeError: the document is malformed, or breaks a limit.
    """
    if len(data) <= 2 * PIECE_BYTES:
        return _decode_piece(data)
    try:
        return decode_pieces(data, _decode_piece)
    except DuplicateAtCut:
        return _decode_piece(data)


def _decode_piece(data: bytes, offset: int = 0) -> Any:
    if data.count(b"{") + data.count(b"[") > JSON_DEPTH and nests_deeper(data, JSON_DEPTH):
        raise DecodeError("exceeded max depth")
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(data, error, offset) from None
    if _LONG_NUMBER in data.translate(_DIGITS):
        return _within_int64(value)
    return value


def decode_with_duplicates(data: bytes) -> tuple[Any, list[str]]:
    """Parse one document and report duplicate fields in the words of kube-apiserver: `duplicate field "spec.a"`.

    Every key has one colon, and parsing drops a colon with every duplicate, so if writing the result again gives
    as many colons there were none. Only an escaped colon could blur the count; such documents are walked.

    Raises:
        DecodeError: the document is malformed, or breaks a limit.
    """
    value = decode(data)
    if data.count(b":") == encode(value).count(b":") and b"\\u003a" not in data and b"\\u003A" not in data:
        return value, []
    return value, _duplicates(data)


class _Pairs(list[tuple[str, Any]]):
    """An object with its fields in order, duplicates kept."""


def _duplicates(data: bytes) -> list[str]:
    tree = stdlib.loads(data, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    found: dict[str, None] = {}
    _find_duplicates(tree, "", found)
    return [f"duplicate field {quote(path)}" for path in list(found)[:STRICT_PROBLEMS]]


def _find_duplicates(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for key, child in value:
            child_path = f"{path}.{key}" if path else key
            if key in seen:
                found[child_path] = None
            seen.add(key)
            if isinstance(child, list):
                _find_duplicates(child, child_path, found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, list):
                _find_duplicates(child, f"{path}[{index}]", found)


def _within_int64(value: Any) -> Any:
    """The same value with integers beyond int64 as floats; containers are changed in place."""
    if isinstance(value, dict):
        for key, child in value.items():
            if isinstance(child, (dict, list, int)):
                value[key] = _within_int64(child)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, (dict, list, int)):
                value[index] = _within_int64(child)
    elif isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
        try:
            return float(value)
        except OverflowError:
            raise _out_of_range(str(value)) from None
    return value


def _out_of_range(number: str) -> DecodeError:
    shown = number if len(number) <= NUMBER_CHARACTERS else number[:NUMBER_CHARACTERS] + "..."
    return DecodeError(unmarshal_error(f"number {shown}", "float64"))


def _refusal(data: bytes, error: Exception, offset: int) -> DecodeError:
    """The error a client reads: Go's words for small bodies, the position for large ones."""
    text = str(error)
    if len(data) <= JSON_EXPLAINED_BYTES:
        explanation = syntax.explain(data)
        if explanation is not None:
            return DecodeError(explanation)
    if isinstance(error, UnicodeDecodeError):
        return DecodeError("invalid UTF-8 in string literal")
    if isinstance(error, RecursionError):
        return DecodeError("exceeded max depth")
    if isinstance(error.__cause__, DecodeError):  # raised by `_float`, wrapped by msgspec
        return error.__cause__
    if isinstance(error, msgspec.ValidationError):  # more digits than msgspec looks at
        return DecodeError(unmarshal_error("number", "float64"))
    if len(data) <= JSON_EXPLAINED_BYTES:
        return DecodeError("invalid surrogate pair in string literal")
    if "truncated" in text:
        return DecodeError("unexpected end of JSON input")
    text = _POSITION.sub(lambda found: str(int(found[0]) + offset), text.removeprefix("JSON is malformed: "))
    return DecodeError(f"invalid JSON: {text}")
