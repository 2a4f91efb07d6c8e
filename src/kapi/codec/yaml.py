"""YAML as kube-apiserver reads and writes it: YAML 1.1 the go-yaml way, turned into JSON values.

PyYAML's parser is used only for its events. Values are built in `yamldocument`, one event at a time, so depth, size and
aliases are counted as they come and nothing is ever built that a limit forbids; an alias is copied, never
shared, because shared nodes are how a 300-byte body becomes a gigabyte of JSON. Tags other than those of the
core types are refused, and so is a second document.

It is slow: half a millisecond for a small object. Callers on an event loop hand bodies over
`limits.YAML_OFF_LOOP_BYTES` to a thread. JSON sent as YAML, which is what kubectl and client-go do for apply,
takes the fast path through `json`, and does not import PyYAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.limits import BODY_BYTES, YAML_BYTES
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator


def decode(data: bytes) -> Any:
    """Read one document; an empty one is None. The last of duplicate keys wins.

    Raises:
        DecodeError: the document is malformed, breaks a limit, or is not alone.
    """
    return decode_with_duplicates(data)[0]


def decode_with_duplicates(data: bytes) -> tuple[Any, list[str]]:
    """Read one document and report duplicate keys: `line 3: key "a" already set in map`.

    Raises:
        DecodeError: the document is malformed, breaks a limit, or is not alone.
    """
    if data[:64].lstrip().startswith(b"{"):
        try:
            value, duplicates = json.decode_with_duplicates(data)
        except DecodeError:
            pass  # flow style that is not JSON, or JSON that is broken as YAML too
        else:
            if not duplicates:
                return value, []
    from kapi.codec.yamldocument import documents

    found = list(documents(data, YAML_BYTES))
    if any(document.value is not None for document in found[1:]):
        raise DecodeError("yaml: the body has more than one document; send one object a request")
    return (found[0].value, found[0].problems) if found else (None, [])


def decode_all(data: bytes, *, max_bytes: int = 16 * BODY_BYTES) -> list[Any]:
    """Read every document of a file, empty ones as None; for command lines, not for requests.

    Raises:
        DecodeError: a document is malformed or breaks a limit.
    """
    from kapi.codec.yamldocument import documents

    return [document.value for document in documents(data, max_bytes)]


def strict_error(problems: list[str]) -> str:
    """The problems of `decode_with_duplicates` as the one text that strict field validation answers with."""
    return "yaml: unmarshal errors:\n" + "\n".join("  " + problem for problem in problems)


def encode(obj: Any) -> bytes:
    """Write a value in block style with its keys sorted, strings that look like something else in quotes."""
    return b"".join(encode_pieces(obj))


def encode_pieces(obj: Any) -> Iterator[bytes]:
    """Yield what `encode` returns in pieces, some of them empty: the caller may pause after a few hundred nodes.

    A list may be an iterator, which is read as the document is written.
    """
    from kapi.codec import yamldocument

    return yamldocument.encode_pieces(obj)
