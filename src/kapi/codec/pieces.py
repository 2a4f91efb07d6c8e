"""Long JSON documents, decoded piece by piece.

A call of the decoder holds the interpreter's lock from beginning to end, in a thread as well: 3 MB of small lists take
100 ms, in which the event loop stands still. Here a document is cut at commas into pieces of a bounded size, each made
a document of its own, and what they contain is joined. Between two pieces other threads can run.

    {"a":[{"b":1},{"b":2,"c":3}]}           to be cut in front of "c", inside an object, a list and an object

    {"a":[{"b":1},{"b":2,"END":0}]}         what is open at the cut is marked and closed,
    {"BEGIN":[{"c":3}]}                     and opened again in the next piece

The containers that were open, the last of which has the mark, are joined with the first ones of the next piece.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from kapi.api.depth import brackets_of

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_BYTES: Final = 128 * 1024
"""The size of a piece, apart from a string that is longer: at most 5 ms of work."""

_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TO_COMMA: Final = re.compile(rb'[^",]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^",]*+)*+,', re.DOTALL)
_BEGINS_VALUE: Final = re.compile(rb"\s*+[^\s\]},:]")
_ENDS_NO_VALUE: Final = b"[{,:"

_CLOSING: Final = {"[": "]", "{": "}"}
_PAIRS: Final = (b"[]", b"{}")
_PASSES: Final = 8
"""Levels that are removed from the inside, which is fast, before brackets are looked at one by one."""
_BEGIN, _END = (secrets.token_hex(8) for _ in range(2))
"""Texts that no client knows: the keys, or elements, that stand where a document was cut."""
_LAST: Final = {"[": f',"{_END}"', "{": f',"{_END}":0'}


class DuplicateAtCut(Exception):
    """A field that is given twice was cut, so what was open at the cut cannot be found."""


def decode_pieces(data: bytes, decode: Callable[[bytes, int], Any], size: int = PIECE_BYTES) -> Any:
    """Return the document, of which each piece of about `size` bytes is decoded by `decode(piece, offset)`.

    `offset` is the position in the document of the first byte of the piece; it may be negative, because of what was put
    in front. What is malformed is malformed in a piece as well, and raised by `decode`.
    """
    root: Any = None
    opened = ""
    spine: list[Any] = []
    at = 0
    while True:
        opening = _opening(opened)
        cut = _next_cut(data, at, size)
        part = data[at:cut]
        after = _open_after(opened, part) if cut < len(data) else None
        if after is None:
            tree = decode(opening + data[at:], at - len(opening))
        else:
            tree = decode(opening + part + _closing(after[0]), at - len(opening))
        if at == 0:
            root = tree
        else:
            _join(spine, tree)
        if after is None:
            return root
        opened, kept = after
        spine = _open_containers(root, spine[:kept], opened)
        at = cut + 1


def _next_cut(data: bytes, at: int, size: int) -> int:
    """Return the position of a comma between two values, `size` bytes from here or further; else the length of it all.

    `at` is not inside a string.
    """
    end = at + size
    if end >= len(data):
        return len(data)
    window = data[at:end]
    if (len(window) - len(window.rstrip(b"\\"))) % 2:  # in the middle of an escape
        end += 1
        window = data[at:end]
    if b"\\" in window:
        window = window.replace(b"\\\\", b"").replace(b'\\"', b"")
    if window.count(b'"') % 2:
        string = _REST_OF_STRING.match(data, end)
        if string is None:
            return len(data)
        end = string.end()
    found = _TO_COMMA.match(data, end)
    if found is None:
        return len(data)
    cut = found.end() - 1
    # Closing and opening a container at the cut must not make a comma vanish that is malformed.
    is_between_values = data[at:cut].rstrip()[-1:] not in _ENDS_NO_VALUE and _BEGINS_VALUE.match(data, cut + 1)
    return cut if is_between_values else len(data)


def _open_after(opened: str, part: bytes) -> tuple[str, int] | None:
    """Return the brackets that are open after a part, how many of them were open before; None if malformed."""
    rest = brackets_of(part)
    for _ in range(_PASSES):
        for pair in _PAIRS:
            rest = rest.replace(pair, b"")
    stack = list(opened)
    kept = len(stack)
    for bracket in rest.decode("ascii"):
        if bracket in _CLOSING:
            stack.append(bracket)
        elif stack and _CLOSING[stack.pop()] == bracket:
            kept = min(kept, len(stack))
        else:
            return None
    # A comma behind the end of the document is malformed.
    return ("".join(stack), kept) if stack and (kept or not opened) else None


def _opening(opened: str) -> bytes:
    """Return the beginning of a piece in which these brackets are open."""
    outer = "".join("[" if bracket == "[" else f'{{"{_BEGIN}":' for bracket in opened[:-1])
    return (outer + opened[-1:]).encode()


def _closing(opened: str) -> bytes:
    """Return the end of a piece in which these brackets are open: the mark, and all of them closed."""
    return (_LAST[opened[-1]] + "".join(_CLOSING[bracket] for bracket in reversed(opened))).encode()


def _join(spine: list[Any], tree: Any) -> None:
    """Add the contents of a piece to the containers that were open at its beginning."""
    for container in spine[:-1]:
        if isinstance(container, list):
            inner = tree[0]
            container.extend(tree[1:])
        else:
            inner = tree.pop(_BEGIN)
            container.update(tree)
        tree = inner
    if isinstance(spine[-1], list):
        spine[-1].extend(tree)
    else:
        spine[-1].update(tree)


def _open_containers(root: Any, known: list[Any], opened: str) -> list[Any]:
    """Return the containers that are open at a cut, from the outermost to the one with the mark, which is removed."""
    spine = known or [root]
    while len(spine) < len(opened):
        container = spine[-1]
        last = container[-1] if isinstance(container, list) else container[next(reversed(container))]
        if not isinstance(last, (dict, list)) or not last:
            raise DuplicateAtCut
        spine.append(last)
    innermost = spine[-1]
    if isinstance(innermost, list):
        if innermost[-1] != _END:
            raise DuplicateAtCut
        innermost.pop()
    elif innermost.pop(_END, None) is None:
        raise DuplicateAtCut
    return spine
