"""JSON patch (RFC 6902) with the habits of the implementation that clients of Kubernetes are used to.

Where it differs from the RFC: `replace` of a missing key of an object adds it; `copy` of one makes a null; indices of
lists may be negative, counted from the end; `test` for null passes when the key is missing; what stands before the
first slash of a path is ignored. Operations are decoded once and may then be applied again and again, as happens when
a write loses a race.

What a patch costs is bounded: its operations, the bytes it copies, the items of lists it moves, and the depth of the
document, which operations can nest level by level.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.api.depth import nests_deeper
from kapi.api.errors import RequestEntityTooLarge
from kapi.api.go.text import quote
from kapi.api.go.types import json_type, unmarshal_error
from kapi.api.limits import JSON_DEPTH, PATCH_COPY_BYTES, PATCH_MOVED_ITEMS, PATCH_OPERATIONS
from kapi.api.patch.mergepatch import PatchApplyError, PatchDecodeError, PatchTooDeep

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Operation", "PatchApplyError", "PatchDecodeError", "PatchTooDeep", "apply", "decode_operations"]

_MISSING: Final = object()
_is_index = re.compile(r"[+-]?[0-9]{1,18}").fullmatch
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Pointer = tuple[str, ...]
Container = dict[str, Any] | list[Any]


class Operation(NamedTuple):
    """One step. `path` and `source` are unescaped parts, empty for the whole document, None when unusable."""

    kind: str
    path: Pointer | None
    source: Pointer | None
    value: Any
    path_text: str | None
    """The path as it was written, for messages; None when there is none."""
    source_text: str | None


# -- decoding ---------------------------------------------------------------------------------------------------------


def decode_operations(patch: Any, *, typed: bool = True) -> list[Operation]:
    """Read a decoded body as operations; raises PatchDecodeError, or RequestEntityTooLarge over 10,000 of them.

    `typed` is what every `fieldValidation` but `Ignore` asks for: `op`, `path` and `from` must be strings. Without it
    such an operation is kept and fails when applied.
    """
    if patch is None:
        return []
    if not isinstance(patch, list):
        what = "[]handlers.jsonPatchOp" if typed else "jsonpatch.Patch"
        raise PatchDecodeError(_mismatch(patch, what, typed=typed))
    for operation in patch:
        _check_operation(operation, typed=typed)
    if len(patch) > PATCH_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {PATCH_OPERATIONS}, got {len(patch)}"
        raise RequestEntityTooLarge(limit)
    return [_decode_operation(operation or {}) for operation in patch]


def _check_operation(operation: Any, *, typed: bool) -> None:
    if operation is None:
        return
    if not isinstance(operation, dict):
        what = "handlers.jsonPatchOp" if typed else "jsonpatch.Operation"
        raise PatchDecodeError(_mismatch(operation, what, typed=typed))
    if typed:
        for field in ("op", "path", "from"):
            value = operation.get(field)
            if value is not None and not isinstance(value, str):
                raise PatchDecodeError(_mismatch(value, "string", typed=True, field=f"jsonPatchOp.{field}"))


def _mismatch(value: Any, into: str, *, typed: bool, field: str = "") -> str:
    prefix = "error decoding patch: " if typed else ""
    return prefix + unmarshal_error(json_type(value), into, field=field)


def _decode_operation(operation: dict[str, Any]) -> Operation:
    kind = operation.get("op")
    return Operation(
        kind=kind if isinstance(kind, str) else "unknown",
        path=_pointer(operation.get("path")),
        source=_pointer(operation.get("from")),
        value=operation.get("value", _MISSING),
        path_text=_text(operation.get("path")),
        source_text=_text(operation.get("from")),
    )


def _text(path: Any) -> str | None:
    return path if isinstance(path, str) else None


def _pointer(path: Any) -> Pointer | None:
    if path == "":
        return ()
    if not isinstance(path, str) or "/" not in path:
        return None
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


# -- applying ---------------------------------------------------------------------------------------------------------


def apply(doc: Any, operations: list[Operation]) -> Any:
    """The document after all operations, in order; raises PatchApplyError, and then nothing has happened.

    A patch that costs too much is a RequestEntityTooLarge, and one that nests too deep a PatchTooDeep.
    """
    run = _Run(doc)
    try:
        for operation in operations:
            step = _STEPS.get(operation.kind)
            if step is None:
                raise PatchApplyError(f"Unexpected kind: {operation.kind}")
            step(run, operation)
        if run.has_nested and nests_deeper(_encode(run.document), JSON_DEPTH):
            raise PatchTooDeep
    except RecursionError:
        raise PatchTooDeep from None
    return run.document


class _Run:
    """One application of a patch: the document so far, and which of its containers are ours to change.

    A container is copied, shallowly, the first time an operation writes below it; `_owned` has the ids of the copies.
    """

    def __init__(self, document: Any) -> None:
        self.document = document
        self.has_nested = False
        """True if a map or a list was put anywhere: only then can the document have become deeper."""
        self._owned: set[int] = set()
        self._copied_bytes = 0
        self._moved_items = 0

    def _own(self, container: Container) -> Container:
        if id(container) in self._owned:
            return container
        copy = container.copy()
        self._owned.add(id(copy))
        return copy

    def _writable(self, pointer: Pointer | None, missing: str) -> tuple[Container, str]:
        """The container a pointer's last part is looked up in, made ours on the way down, and that part.

        `missing` is the message where there is no such container.
        """
        if not pointer or not isinstance(self.document, (dict, list)):
            raise PatchApplyError(missing)
        here: Container = self._own(self.document)
        self.document = here
        for part in pointer[:-1]:
            key, child = _child(here, part, missing)
            child = self._own(child)
            here[key] = child
            here = child
        return here, pointer[-1]

    def _read(self, pointer: Pointer, missing: str, failed: str) -> Any:
        """Return the value at a pointer; a missing key of an object reads as null."""
        here = self.document
        for part in pointer[:-1]:
            _, here = _child(here, part, missing)
        if not pointer:
            return here
        if not isinstance(here, (dict, list)):
            raise PatchApplyError(missing)
        with _prefixed(failed):
            return _lookup(here, pointer[-1])[1]

    def add(self, operation: Operation) -> None:
        """Set a key, or insert before an index."""
        path = _path(operation, "missing value")
        missing = f'add operation does not apply: doc is missing path: "{path}": missing value'
        value = None if operation.value is _MISSING else operation.value
        self._insert(operation.path, value, missing, f"error in add for path: '{path}': ")

    def remove(self, operation: Operation) -> None:
        """Take a key or an item away; it must be there."""
        path = _path(operation, "missing value")
        missing = f'remove operation does not apply: doc is missing path: "{path}": missing value'
        self._take(operation.path, missing, f"error in remove for path: '{path}': ")

    def replace(self, operation: Operation) -> None:
        """Set a key, there or not, or an item that is there; or the document."""
        path = _path(operation)
        value = None if operation.value is _MISSING else operation.value
        if operation.path == ():
            if not isinstance(value, (dict, list)):
                raise PatchApplyError("replace operation value must be object or array: %!w(<nil>)")
            self.document = value
            return
        missing = f"replace operation does not apply: doc is missing path: {path}: missing value"
        container, part = self._writable(operation.path, missing)
        try:
            key, _ = _lookup(container, part)
        except PatchApplyError:
            why = f"replace operation does not apply: doc is missing key: {path}: missing value"
            raise PatchApplyError(why) from None
        container[key] = value
        self.has_nested = self.has_nested or isinstance(value, (dict, list))

    def move(self, operation: Operation) -> None:
        """Remove from one place, add at another."""
        source = _source(operation)
        missing = f"move operation does not apply: doc is missing from path: {source}: missing value"
        key = operation.source[-1] if operation.source else ""
        value = self._take(operation.source, missing, f"error in move for path: '{key}': ")
        path = _path(operation)
        missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
        self._insert(operation.path, value, missing, f"error in move for path: '{path}': ")

    def copy(self, operation: Operation) -> None:
        """Add a copy of a value at another place; the bytes copied by one patch are bounded."""
        source = _source(operation)
        missing = f"copy operation does not apply: doc is missing from path: {source}: missing value"
        if not operation.source:
            raise PatchApplyError(missing)
        value = self._read(operation.source, missing, f"error in copy for from: '{source}': ")
        path = _path(operation, "missing value")
        if value is not None:
            encoded = _encode(value)
            self._copied_bytes += len(encoded)
            if self._copied_bytes > PATCH_COPY_BYTES:
                raise PatchApplyError(
                    f"Unable to complete the copy, the accumulated size increase of copy is {self._copied_bytes}, "
                    f"exceeding the limit {PATCH_COPY_BYTES}"
                )
            value = _decode(encoded)
        missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        self._insert(operation.path, value, missing, "error while adding value during copy: ")

    def test(self, operation: Operation) -> None:
        """Compare with what is there; numbers are equal only when written alike."""
        path = _path(operation)
        missing = f"test operation does not apply: is missing path: {path}: missing value"
        if operation.path is None:
            raise PatchApplyError(missing)
        current = self._read(operation.path, missing, f"error in test for path: '{path}': ")
        absent = operation.value is _MISSING
        if current is None and absent:
            return
        if absent or not _is_equal(current, operation.value):
            raise PatchApplyError(f"testing value {path} failed: test failed")

    def _move(self, items: int) -> None:
        """Count the items of a list that change their place; thousands of operations may each move all of them."""
        self._moved_items += items
        if self._moved_items > PATCH_MOVED_ITEMS:
            what = f"the operations of the JSON patch move more than {PATCH_MOVED_ITEMS} items of lists"
            raise RequestEntityTooLarge(what)

    def _insert(self, pointer: Pointer | None, value: Any, missing: str, failed: str) -> None:
        container, part = self._writable(pointer, missing)
        self.has_nested = self.has_nested or isinstance(value, (dict, list))
        if isinstance(container, dict):
            container[part] = value
        elif part == "-":
            container.append(value)
        else:
            with _prefixed(failed):
                index = _index(part, len(container) + 1, f"value was not a proper array index: '{part}': ")
            self._move(len(container) - index)
            container.insert(index, value)

    def _take(self, pointer: Pointer | None, missing: str, failed: str) -> Any:
        container, part = self._writable(pointer, missing)
        if isinstance(container, list):
            with _prefixed(failed):
                index = _index(part, len(container))
            self._move(len(container) - index)
            return container.pop(index)
        if part not in container:
            raise PatchApplyError(f"{failed}Unable to remove nonexistent key: {part}: missing value")
        return container.pop(part)


_STEPS: Final = {
    "add": _Run.add,
    "remove": _Run.remove,
    "replace": _Run.replace,
    "move": _Run.move,
    "copy": _Run.copy,
    "test": _Run.test,
}


@contextmanager
def _prefixed(text: str) -> Iterator[None]:
    """Begin the messages of errors with a text."""
    try:
        yield
    except PatchApplyError as error:
        raise PatchApplyError(f"{text}{error}") from None


def _path(operation: Operation, why: str = "operation missing path field: missing value") -> str:
    """The path of an operation as it was written."""
    if operation.path_text is None:
        raise PatchApplyError(f"{operation.kind} operation failed to decode path: {why}")
    return operation.path_text


def _source(operation: Operation) -> str:
    """The `from` of an operation as it was written."""
    if operation.source_text is None:
        why = "operation, missing from field: missing value"
        raise PatchApplyError(f"{operation.kind} operation failed to decode from: {why}")
    return operation.source_text


def _child(container: Any, part: str, missing: str) -> tuple[Any, Container]:
    """The key or index a part means, and the container there."""
    try:
        key, child = _lookup(container, part)
    except PatchApplyError:
        raise PatchApplyError(missing) from None
    if not isinstance(child, (dict, list)):
        raise PatchApplyError(missing)
    return key, child


def _lookup(container: Container, part: str) -> tuple[Any, Any]:
    """The key or index a part means, and what is there; null for a missing key."""
    if isinstance(container, dict):
        return part, container.get(part)
    index = _index(part, len(container))
    return index, container[index]


def _index(part: str, size: int, prefix: str = "") -> int:
    """A list index below `size`, negative ones counted from the end; `prefix` begins the message about no number."""
    if not _is_index(part):
        raise PatchApplyError(f"{prefix}strconv.Atoi: parsing {quote(part)}: invalid syntax")
    index = int(part)
    if not -size <= index < size:
        raise PatchApplyError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index if index >= 0 else index + size


def _is_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values in which 1, 1.0 and true are three values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_is_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    return bool(left == right)
