"""Documents of YAML as events of PyYAML: read into JSON values, and written from them.

Apart from `codec/yaml`, which imports it when there is a document that is not JSON: PyYAML takes a while to import, and
most servers never see one.
"""

from __future__ import annotations

import math
from functools import cmp_to_key
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml as pyyaml
from yaml import events

from kapi.api.go.text import quote
from kapi.api.limits import STRICT_PROBLEMS, YAML_ALIASED_NODES, YAML_BYTES, YAML_DEPTH, YAML_NODES
from kapi.codec.errors import DecodeError
from kapi.codec.scalars import Scalar, format_float, needs_quotes, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOADER: Final = getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)
_DUMPER: Final = getattr(pyyaml, "CSafeDumper", pyyaml.SafeDumper)
_PAUSE: Final = 256
"""Events after which `encode_pieces` lets its caller pause: about a millisecond."""
_PIECE: Final = 32 * 1024
"""Bytes after which it does so too: they may be those of one scalar, after which there is another large one."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_INT64_MAX: Final = 2**63 - 1
_TAG: Final = "tag:yaml.org,2002:"
_COLLECTION_TAGS: Final = frozenset({None, *(_TAG + name for name in ("map", "seq", "str"))})


def encode_pieces(obj: Any) -> Iterator[bytes]:
    """Yield a value as a document in block style, in pieces, some of them empty.

    The caller may pause after a few hundred nodes. A list may be an iterator, which is read as the document is written.
    """
    sink = _Sink()
    dumper = _DUMPER(sink, width=80, allow_unicode=True)
    try:
        for number, event in enumerate(_events(obj)):
            dumper.emit(event)
            if number % _PAUSE == 0 or sink.size > _PIECE:
                yield sink.take()
    finally:
        dumper.dispose()
    # The mark of an end that some scalars need as a whole document.
    yield sink.take().removesuffix(b"...\n")


class _Sink:
    """The file that PyYAML writes to."""

    def __init__(self) -> None:
        self.size = 0
        self._written: list[bytes] = []

    def write(self, data: bytes | str) -> None:
        """Append to what is written."""
        encoded = data.encode() if isinstance(data, str) else data
        self._written.append(encoded)
        self.size += len(encoded)

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = b"".join(self._written)
        self._written.clear()
        self.size = 0
        return taken


class Document(NamedTuple):
    """A document as JSON values, and its duplicate keys."""

    value: Any
    problems: list[str]


def documents(data: bytes, max_bytes: int) -> Iterator[Document]:
    """Read the documents of a stream one by one.

    Raises:
        DecodeError: a document is malformed or breaks a limit.
    """
    if len(data) > max_bytes:
        raise DecodeError(f"yaml: the document is larger than {max_bytes} bytes; send JSON instead")
    try:
        stream = pyyaml.parse(data, Loader=_LOADER)
        for event in stream:
            if isinstance(event, events.DocumentStartEvent):
                yield _Builder(stream).document()
    except pyyaml.YAMLError as error:
        raise DecodeError(f"yaml: {_explain(error)}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"yaml: {error}") from None


def _explain(error: pyyaml.YAMLError) -> str:
    """The problem with its line, counted as go-yaml counts: parser errors one line early, the first line not at all."""
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "unknown problem parsing YAML content"
    )
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = mark.line if mark else 0
    if line and isinstance(error, pyyaml.scanner.ScannerError):
        line += 1
    if not line and context:
        line = context.line
    return f"line {line}: {problem}" if line else str(problem)


class _Mapping(NamedTuple):
    """A mapping read, and on which line each of its keys got its value."""

    value: dict[str, Any]
    lines: dict[Any, tuple[str, int]]


class _Open:
    """Stands for an anchored node that is still being read."""


class _Builder:
    """Builds one document from parser events, counting nodes, depth and aliases."""

    def __init__(self, stream: Iterator[Any]) -> None:
        self._stream = stream
        self._anchors: dict[str, Any] = {}
        self._nodes = 0
        self._aliased = 0
        self._aliased_characters = 0
        self._problems: list[str] = []

    def document(self) -> Document:
        """Read up to the end of the document that has just started."""
        value = self._plain(self._node(next(self._stream), 0))
        next(self._stream)
        return Document(value, self._problems[:STRICT_PROBLEMS])

    def _plain(self, node: Any) -> Any:
        """The value of a node as JSON has it."""
        if isinstance(node, _Mapping):
            return node.value
        return _json_number(node) if isinstance(node, (int, float)) else node

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > YAML_NODES:
            raise DecodeError(f"yaml: the document has more than {YAML_NODES} nodes; send JSON instead")
        if depth > YAML_DEPTH:
            raise DecodeError(f"yaml: exceeded max depth of {YAML_DEPTH}")

    def _node(self, event: Any, depth: int) -> Any:
        """A scalar as resolved, a list of JSON values, or a `_Mapping`."""
        if isinstance(event, events.AliasEvent):
            return self._alias(event, depth)
        anchor: str | None = event.anchor
        if anchor is not None:
            self._anchors[anchor] = _Open
        node: Any
        if isinstance(event, events.ScalarEvent):
            self._count(depth)
            node = _scalar(event)
        else:
            self._count(depth + 1)
            if event.tag not in _COLLECTION_TAGS:
                raise _refused_tag(event)
            if isinstance(event, events.SequenceStartEvent):
                node = self._sequence(depth + 1)
            else:
                node = self._mapping(depth + 1)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _sequence(self, depth: int) -> list[Any]:
        items = []
        for event in self._stream:
            if isinstance(event, events.SequenceEndEvent):
                break
            items.append(self._plain(self._node(event, depth)))
        return items

    def _mapping(self, depth: int) -> _Mapping:
        mapping = _Mapping({}, {})
        for event in self._stream:
            if isinstance(event, events.MappingEndEvent):
                break
            if _is_merge(event):
                self._merge(mapping, depth)
                continue
            key = self._node(event, depth)
            value_event = next(self._stream)
            value = self._plain(self._node(value_event, depth))
            self._set(mapping, key, _key(key), value, value_event.start_mark.line + 1)
        return mapping

    def _set(self, mapping: _Mapping, key: Scalar, name: str, value: Any, line: int) -> None:
        """Add a field; keys of different types are different to go-yaml even if JSON spells them alike."""
        typed = key if isinstance(key, str) else (type(key), key)
        if typed in mapping.lines:
            shown = quote(name) if isinstance(key, str) else name
            self._problems.append(f"line {line}: key {shown} already set in map")
        mapping.lines[typed] = (name, line)
        mapping.value[name] = value

    def _merge(self, into: _Mapping, depth: int) -> None:
        """Apply `<<`: the fields of a mapping, or of several of which the first has precedence."""
        event = next(self._stream)
        if isinstance(event, events.SequenceStartEvent):
            self._count(depth + 1)
            sources = []
            for item in self._stream:
                if isinstance(item, events.SequenceEndEvent):
                    break
                sources.append(self._node(item, depth))
        else:
            sources = [self._node(event, depth)]
        for source in reversed(sources):
            if not isinstance(source, _Mapping):
                raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
            for typed, (name, line) in source.lines.items():
                key = typed if isinstance(typed, str) else typed[1]
                self._set(into, key, name, self._copy(source.value[name], depth), line)

    def _alias(self, event: events.AliasEvent, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise DecodeError(f"yaml: unknown anchor '{event.anchor}' referenced")
        node = self._anchors[event.anchor]
        if node is _Open:
            raise DecodeError(f"yaml: anchor '{event.anchor}' value contains itself")
        if isinstance(node, _Mapping):
            return _Mapping(self._copy(node.value, depth), node.lines)
        return self._copy(node, depth)

    def _copy(self, value: Any, depth: int) -> Any:
        """A copy of a finished value, counted as if it had been written out here."""
        self._aliased += 1
        if isinstance(value, str):
            self._aliased_characters += len(value)
        if self._aliased > YAML_ALIASED_NODES or self._aliased_characters > YAML_BYTES:
            raise DecodeError("yaml: document contains excessive aliasing")
        if isinstance(value, dict):
            self._count(depth + 1)
            return {name: self._copy(child, depth + 1) for name, child in value.items()}
        if isinstance(value, list):
            self._count(depth + 1)
            return [self._copy(child, depth + 1) for child in value]
        self._count(depth)
        return value


def _scalar(event: events.ScalarEvent) -> Scalar:
    tag, text = event.tag, event.value
    if tag is None:
        return resolve(text) if event.implicit[0] else text
    if tag == "!":  # "not specific": whatever it looks like, it is a string
        return text
    if not tag.startswith(_TAG):
        raise _refused_tag(event)
    return _tagged(event, tag.removeprefix(_TAG), text)


def _tagged(event: events.ScalarEvent, wanted: str, text: str) -> Scalar:
    """A scalar with a type of its own: it must look like one."""
    if wanted == "str":
        return text
    value = resolve(text)
    found = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}[type(value)]
    if wanted not in ("bool", "int", "float", "null"):
        raise _refused_tag(event)
    if wanted == "float" and found == "int":
        return float(value or 0)
    if wanted != found:
        raise DecodeError(f"yaml: cannot decode !!{found} `{text}` as a !!{wanted}")
    return value


def _refused_tag(event: Any) -> DecodeError:
    tag = event.tag.replace(_TAG, "!!")
    return DecodeError(f"yaml: line {event.start_mark.line + 1}: the tag {tag} is not accepted")


def _is_merge(event: Any) -> bool:
    return isinstance(event, events.ScalarEvent) and event.value == "<<" and event.tag is None and event.implicit[0]


def _key(key: Any) -> str:
    """A key as JSON spells it."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and key <= _INT64_MAX:
        return str(key)
    if isinstance(key, float):
        return format_float(key, single=True)
    if isinstance(key, (list, _Mapping)):
        raise DecodeError("yaml: invalid map key: keys are scalars")
    raise DecodeError("unsupported map key: keys are strings, booleans or numbers of 64 bits")


def _json_number(value: float) -> float:
    """A number as it is after a trip through JSON: integral floats are integers, integers beyond int64 floats."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value <= _INT64_MAX else float(value)
    if math.isnan(value) or math.isinf(value):
        text = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise DecodeError(f"json: unsupported value: {text}")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _events(obj: Any) -> Iterator[events.Event]:
    yield events.StreamStartEvent(encoding="utf-8")
    yield events.DocumentStartEvent(explicit=False)
    yield from _node_events(obj)
    yield events.DocumentEndEvent(explicit=False)
    yield events.StreamEndEvent()


def _node_events(root: Any) -> Iterator[events.Event]:
    """The events of a value, without recursion: an object may be nested deeper than Python likes to call."""
    waiting: list[Iterator[Any]] = [iter((root,))]
    while waiting:
        for value in waiting[-1]:
            if type(value) in _SCALARS:
                yield _scalar_event(value)
            elif isinstance(value, dict):
                yield events.MappingStartEvent(None, None, implicit=True, flow_style=False)
                waiting.append(_fields(value))
                break
            elif isinstance(value, events.Event):
                yield value
            else:
                yield events.SequenceStartEvent(None, None, implicit=True, flow_style=False)
                waiting.append(chain(value, (events.SequenceEndEvent(),)))
                break
        else:
            waiting.pop()


def _fields(mapping: dict[str, Any]) -> Iterator[Any]:
    for key in sorted(mapping, key=_SORT_KEY):
        yield key
        yield mapping[key]
    yield events.MappingEndEvent()


def _scalar_event(value: Scalar) -> events.ScalarEvent:
    style = None
    if isinstance(value, str):
        text = value
        if "\n" in text:
            style = "|"
        elif needs_quotes(text):
            style = '"'
    elif value is None:
        text = "null"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int):
        text = str(value)
    else:
        text = format_float(value)
    return events.ScalarEvent(None, None, (True, True), text, style=style)


def _compare(left: str, right: str) -> int:
    """go-yaml's order of keys: letters after everything else, runs of digits by their value."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            return (a > b) - (a < b) if a.isalpha() and b.isalpha() else (1 if a.isalpha() else -1)
        a_run, b_run = _digits(left, index), _digits(right, index)
        inside = _inside_number(left, index) if "0" in (a, b) else False
        a_number, b_number = int(("1" if inside else "0") + a_run), int(("1" if inside else "0") + b_run)
        if a_number != b_number:
            return -1 if a_number < b_number else 1
        if len(a_run) != len(b_run):
            return -1 if len(a_run) < len(b_run) else 1
        return -1 if a < b else 1
    return len(left) - len(right)


_SORT_KEY: Final = cmp_to_key(_compare)


def _digits(text: str, start: int) -> str:
    """The run of digits from `start`, cut where its value could no longer matter."""
    end = start
    while end < len(text) and end < start + 100 and text[end].isdecimal():
        end += 1
    return text[start:end]


def _inside_number(text: str, index: int) -> bool:
    """True when the digits just before `index` include one that is not zero: a 0 here is not a leading zero."""
    while index > 0 and text[index - 1].isdecimal():
        index -= 1
        if text[index] != "0":
            return True
    return False
