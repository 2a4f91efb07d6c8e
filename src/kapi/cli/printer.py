"""Printers: tables, objects, one-line results and errors, to the character as kubectl prints them.

Scripts parse these lines, so they must not differ. Everything here turns values into text; `emit` and `complain` write
it.
"""

from __future__ import annotations

import datetime as dt
import json as stdlib
import sys
from typing import TYPE_CHECKING, Any, Final

from kapi.api.duration import human_duration
from kapi.api.errors import ApiError
from kapi.api.meta import parse_time
from kapi.codec import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.client.discovery import APIResource

MIN_WIDTH: Final = 6
PADDING: Final = 3
_EVENTS: Final = {"ADDED": "ADDED   ", "DELETED": "DELETED "}
_ESCAPES: Final = str.maketrans({"\x1b": "^[", "\r": "\\r", "\t": " "})
# The characters Go's encoder escapes in strings.
_JSON_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class CommandError(Exception):
    """A command that cannot be carried out as it was given; printed as `error: ...`."""


def emit(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text)
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(text.removesuffix("\n") + "\n")


# -- tables -----------------------------------------------------------------------------------------------------------


class TablePrinter:
    """Lays out the server's Tables of one resource.

    Rows are collected until `flush`, so that columns are as wide as their widest cell. Widths are remembered from flush
    to flush and only grow, so that a watch stays aligned; headers are printed once.
    """

    def __init__(
        self,
        *,
        wide: bool = False,
        headers: bool = True,
        with_namespace: bool = False,
        with_labels: bool = False,
        kind: str = "",
    ) -> None:
        self._wide = wide
        self._headers = headers
        self._with_namespace = with_namespace
        self._with_labels = with_labels
        self._kind = kind
        self._columns: list[Object] = []
        self._lines: list[list[str]] = []
        self._widths: list[int] = []
        self._printed_columns: list[Object] | None = None

    def add(self, table: Object, event: str = "") -> None:
        """Take in the rows of a Table, or of an object that stands for one."""
        if table.get("kind") != "Table":
            table = _plain_table(table)
        # Later events of a watch leave the columns out, because they are those of the first.
        self._columns = table.get("columnDefinitions") or self._columns
        rows = table.get("rows") or []
        if rows and self._headers and self._printed_columns != self._columns:
            self._lines.append(self._header(event))
            self._printed_columns = self._columns
        self._lines += (self._row(row, event) for row in rows)

    def flush(self) -> str:
        """The text of what was taken in."""
        lines, self._lines = self._lines, []
        for line in lines:
            # The last cell of a line ends it, so it neither gets nor gives width.
            for index, cell in enumerate(line[:-1]):
                if index == len(self._widths):
                    self._widths.append(MIN_WIDTH)
                self._widths[index] = max(self._widths[index], len(cell) + PADDING)
        padded = ([*(cell.ljust(width) for cell, width in zip(line, self._widths, strict=False))] for line in lines)
        return "".join(
            "".join(cells[: len(line) - 1]) + line[-1] + "\n" for cells, line in zip(padded, lines, strict=True)
        )

    def _shown(self, index: int) -> bool:
        return self._wide or not self._columns[index].get("priority")

    def _header(self, event: str) -> list[str]:
        names = [str(column["name"]).upper() for index, column in enumerate(self._columns) if self._shown(index)]
        before = (["EVENT"] if event else []) + (["NAMESPACE"] if self._with_namespace else [])
        return [*before, *names, *(["LABELS"] if self._with_labels else [])]

    def _row(self, row: Object, event: str) -> list[str]:
        metadata = (row.get("object") or {}).get("metadata") or {}
        cells = [
            self._prefix(index) + _cell(cell)
            for index, cell in enumerate((row.get("cells") or [])[: len(self._columns)])
            if self._shown(index)
        ]
        before = [_EVENTS.get(event, event)] if event else []
        if self._with_namespace:
            before.append(metadata.get("namespace", ""))
        return [*before, *cells, *([_labels(metadata)] if self._with_labels else [])]

    def _prefix(self, index: int) -> str:
        column = self._columns[index]
        is_name = column.get("format") == "name" and column.get("type") == "string"
        return f"{self._kind}/" if self._kind and is_name else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    for index, character in enumerate(value):
        if character in "\f\n\r":
            return value[:index].translate(_ESCAPES) + "..."
    # Control characters are printed as text, so that the terminal does not act on them.
    return value.translate(_ESCAPES)


def _labels(metadata: Object) -> str:
    labels = metadata.get("labels") or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def _plain_table(answer: Object) -> Object:
    """Return a table of names and ages, for a server without Tables."""
    items = answer["items"] if isinstance(answer.get("items"), list) else [answer]
    now = dt.datetime.now(dt.UTC)
    rows = []
    for item in items:
        metadata = item.get("metadata") or {}
        created = parse_time(metadata.get("creationTimestamp") or "")
        age = human_duration((now - created).total_seconds()) if created else "<unknown>"
        rows.append({"cells": [metadata.get("name", ""), age], "object": {"metadata": metadata}})
    columns = [{"name": "Name", "type": "string", "format": "name"}, {"name": "Age", "type": "string"}]
    return {"kind": "Table", "columnDefinitions": columns, "rows": rows}


# -- objects ----------------------------------------------------------------------------------------------------------


class ObjectPrinter:
    """Objects one after the other as YAML documents, as JSON, or as names."""

    def __init__(self, output: str, *, managed_fields: bool = False) -> None:
        self._output = output
        self._managed_fields = managed_fields
        self._printed = False

    def text(self, obj: Object) -> str:
        """The next object; a List is one object, but for names."""
        if self._output == "name":
            return "".join(f"{_object_name(item)}\n" for item in _items(obj))
        if not self._managed_fields:
            obj = _without_managed_fields(obj)
        if self._output == "json":
            document = stdlib.dumps(obj, indent=4, sort_keys=True, ensure_ascii=False)
            return document.translate(_JSON_ESCAPES) + "\n"
        separator = "---\n" if self._printed else ""
        self._printed = True
        return separator + yaml.encode(obj).decode()


def as_list(items: list[Object]) -> Object:
    """Several objects as one."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}


def _items(obj: Object) -> list[Object]:
    return obj["items"] if obj.get("kind") == "List" and isinstance(obj.get("items"), list) else [obj]


def _without_managed_fields(obj: Object) -> Object:
    if obj.get("kind") == "List" and isinstance(obj.get("items"), list):
        return {**obj, "items": [_without_managed_fields(item) for item in obj["items"]]}
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _object_name(obj: Object) -> str:
    group, slash, _ = str(obj.get("apiVersion", "")).partition("/")
    kind = str(obj.get("kind", "")).lower()
    name = (obj.get("metadata") or {}).get("name") or "<unknown>"
    return f"{kind}.{group}/{name}" if slash else f"{kind}/{name}"


def kind_name(resource: APIResource) -> str:
    """A kind as results name it: `pod`, `deployment.apps`."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


# -- errors -----------------------------------------------------------------------------------------------------------


def error_text(errors: Sequence[Exception]) -> str:
    """Return the text of a failed command's errors: one in full, several a line each."""
    if len(errors) == 1:
        return _single(errors[0]) + "\n"
    return "".join(f"{_message(error)}\n" for error in errors)


def _single(error: Exception) -> str:
    if isinstance(error, ApiError) and error.reason == "Invalid":
        return _invalid(error)
    text = _message(error)
    if isinstance(error, ApiError) or _connection(error):
        return text
    return f"error: {text}"


def _message(error: Exception) -> str:
    if isinstance(error, ApiError):
        if error.reason == "Unauthorized":
            return f"error: You must be logged in to the server ({error.message})"
        return (
            f"Error from server ({error.reason}): {error.message}"
            if error.reason
            else f"Error from server: {error.message}"
        )
    return _connection(error) or str(error)


def _connection(error: Exception) -> str:
    """Return one line for a refused connection, with what to do; empty for any other error."""
    from kapi.client.errors import ConnectError, TransportError

    if isinstance(error, ConnectError) and error.refused:
        return f"The connection to the server {error.host} was refused - is the control plane running? kapi up"
    return f"Unable to connect to the server: {error}" if isinstance(error, TransportError) else ""


def _invalid(error: ApiError) -> str:
    details = error.details
    if details is None:
        return f"The request is invalid: {error.message}"
    causes = list(dict.fromkeys(_causes(details)))
    if details.get("kind") or details.get("name"):
        head = f'The {details.get("kind", "")} "{details.get("name", "")}" is invalid'
    else:
        head = "The request is invalid" if causes else f"The request is invalid: {error.message}"
    if len(causes) > 1:
        return "\n".join([f"{head}: ", *(f"* {cause}" for cause in causes)])
    return f"{head}: {causes[0]}" if causes else head


def _causes(details: dict[str, Any]) -> Iterator[str]:
    for cause in details.get("causes") or []:
        yield f"{cause.get('field', '')}: {cause.get('message', '')}"


def with_source(error: ApiError, verb: str, source: str) -> ApiError:
    """The error, saying in which file the object is that it is about."""
    error.message = f'error when {verb} "{source}": {error.message}'
    return error
