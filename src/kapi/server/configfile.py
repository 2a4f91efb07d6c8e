"""Configuration files: one object in YAML or JSON, whose mistakes are reported with file, line and field.

An operator who starts the server with a wrong file sees every mistake at once and in its place. Unknown fields are
mistakes too: a misspelt rule of a security policy must not be ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, not_supported, required
from kapi.codec import yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from kapi.api.meta import Object

    Shape = type | list["Shape"] | Mapping[str, "Shape"]
    """The shape of a value: `str`, `bool`, `int` or `float`; a list with the shape of its items; the fields of an
    object. An object without fields (`{}`) may have any."""

_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_TYPES = {str: "a string", bool: "a boolean", int: "an integer", float: "a number"}


class ConfigFileError(ValueError):
    """A configuration file that cannot be used. The message has a line for each mistake: file, line and reason."""


class ConfigFile:
    """One configuration file, read and checked against the shape of its kind."""

    def __init__(self, path: Path, kinds: Mapping[tuple[str, str], Shape]) -> None:
        """Read the file. It must hold one object of one of these (apiVersion, kind).

        Raises:
            ConfigFileError: it cannot be read, is no such object, or has fields that this kind does not have.
        """
        self.path = path
        self.obj: Object = {}
        try:
            self._data = path.read_bytes()
            self.obj, duplicates = yaml.decode_with_duplicates(self._data)
        except OSError as error:
            raise ConfigFileError(f"{path}: {error.strerror}") from None
        except DecodeError as error:
            raise ConfigFileError(f"{path}: {error}") from None
        if duplicates:
            raise ConfigFileError("\n".join(f"{path}: {problem}" for problem in duplicates))
        if not isinstance(self.obj, dict):
            raise ConfigFileError(f"{path}: expected an object with apiVersion and kind")
        self.check_object("", self.obj, kinds)

    def check_object(self, field: str, obj: Object, kinds: Mapping[tuple[str, str], Shape]) -> None:
        """Raise `ConfigFileError` unless the object at a field is of one of these kinds and has its shape."""
        self.refuse(_object_errors(field, obj, kinds))

    def refuse(self, errors: Iterable[FieldError]) -> None:
        """Raise `ConfigFileError` if there are errors."""
        texts = [f"{self.path}{self._line(error.field)}: {error}" for error in errors]
        if texts:
            raise ConfigFileError("\n".join(texts))

    def _line(self, field: str) -> str:
        """Return `:LINE` for a field, or for what it would be in where it is missing."""
        # Imported here: it takes a while, and most servers are started without such a file.
        import yaml as pyyaml

        node = pyyaml.compose(self._data, Loader=pyyaml.SafeLoader)
        line = 1
        for name, index in _SEGMENT.findall(field):
            found = _child(node, name, index)
            if found is None:
                break
            line, node = found
        return f":{line}"


def _child(node: Any, name: str, index: str) -> tuple[int, Any] | None:
    from yaml import MappingNode, SequenceNode

    if isinstance(node, SequenceNode) and index and int(index) < len(node.value):
        item = node.value[int(index)]
        return item.start_mark.line + 1, item
    if isinstance(node, MappingNode) and name:
        for key, value in node.value:
            if key.value == name:
                return key.start_mark.line + 1, value
    return None


def _object_errors(path: str, obj: Object, kinds: Mapping[tuple[str, str], Shape]) -> Iterator[FieldError]:
    for name, choices in (
        ("apiVersion", [version for version, _ in kinds]),
        ("kind", [kind for _, kind in kinds]),
    ):
        value, field = obj.get(name), f"{path}.{name}" if path else name
        if not value:
            yield required(field, "one of " + ", ".join(dict.fromkeys(choices)))
        elif value not in choices:
            yield not_supported(field, value, dict.fromkeys(choices))
    shape = kinds.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    if isinstance(shape, dict):
        yield from _mismatches(path, obj, {"apiVersion": str, "kind": str, "metadata": {}, **shape})


def _mismatches(path: str, value: Any, shape: Shape) -> Iterator[FieldError]:
    if value is None:
        return
    if isinstance(shape, list):
        if not isinstance(value, list):
            yield _wrong_type(path, "a list")
            return
        for index, item in enumerate(value):
            if item is None:
                yield required(f"{path}[{index}]")
            yield from _mismatches(f"{path}[{index}]", item, shape[0])
    elif isinstance(shape, type):
        is_right = isinstance(value, shape) or (shape is float and isinstance(value, int))
        if not is_right or (isinstance(value, bool) and shape is not bool):
            yield _wrong_type(path, _TYPES[shape])
    elif not isinstance(value, dict):
        yield _wrong_type(path, "an object")
    elif shape:
        for name, field in value.items():
            where = f"{path}.{name}" if path else name
            if name in shape:
                yield from _mismatches(where, field, shape[name])
            else:
                yield FieldError("FieldValueForbidden", where, "unknown field")


def _wrong_type(path: str, wanted: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, f"must be {wanted}")
