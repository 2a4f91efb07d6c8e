"""The scale sub-resource of custom kinds: an `autoscaling/v1` Scale read from and written to fields the user named.

Built-in kinds (`registry/scale.py`) have their replicas in known places. A custom object may have anything there, or
nothing, so reading can fail here, differently for a GET (`read`), for the Scale that a write begins from (`current`),
and for the one that a successful write answers with (`shown`). Pure functions on decoded objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import BadRequest, InternalError, PlainError
from kapi.api.fielderror import invalid
from kapi.api.go.text import format_value
from kapi.api.go.types import type_name
from kapi.api.jsonpath.path import simple_path
from kapi.api.ownership.fieldset import fields

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.api.ownership.fieldset import Path
    from kapi.registry.custom.version import Scale

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAX_INT32: Final = 2**31 - 1
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1

# What the replicas of a Scale are while the object has none; a write that leaves it so did not say how many.
_UNSET: Final = -(2**31)


class _AccessError(ValueError):
    """The object has something else at a path than what the path is for; the text is that of Kubernetes."""


class ScalePaths:
    """The scale sub-resource of one version of a custom kind: where its replicas and its selector are.

    `replicas` is the path of the wanted number, as field sets name it.
    """

    __slots__ = ("_selector", "_selector_text", "_spec", "_spec_text", "_status", "_status_text", "replicas")

    def __init__(self, spec: str, status: str, selector: str = "") -> None:
        self._spec_text, self._status_text, self._selector_text = spec, status, selector
        self._spec = simple_path(spec)
        self._status = simple_path(status)
        self._selector = simple_path(selector) if selector else None
        self.replicas: Path = fields(*self._spec)

    @classmethod
    def of(cls, scale: Scale) -> ScalePaths:
        """The paths a definition gives under `subresources.scale`."""
        return cls(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, obj: Object) -> Object:
        """The Scale that a GET answers with; raises InternalError when the object has no number of replicas."""
        scale, has_replicas = self._scale(obj)
        if not has_replicas:
            raise InternalError.of(f'the spec replicas field "{self._spec_text}" does not exist')
        return scale

    def current(self, obj: Object) -> Object:
        """The Scale a write begins from; its replicas are a number no client sends when the object has none."""
        scale, has_replicas = self._scale(obj)
        if not has_replicas:
            scale["spec"]["replicas"] = _UNSET
        return scale

    def shown(self, obj: Object) -> Object:
        """The Scale as admission sees it and as a write answers it: no replicas are zero replicas."""
        return self._scale(obj)[0]

    def _scale(self, obj: Object) -> tuple[Object, bool]:
        try:
            wanted = _integer(obj, self._spec)
            there = _integer(obj, self._status) or 0
            selector = _string(obj, self._selector) if self._selector else ""
        except _AccessError as error:
            raise PlainError(str(error)) from None
        metadata = obj["metadata"]
        status: Object = {"replicas": _int32(there)}
        if selector:
            status["selector"] = selector
        scale: Object = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": {"replicas": _int32(wanted)} if wanted else {},
            "status": status,
        }
        return scale, wanted is not None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, obj: Object, scale: Object) -> Object:
        """The object, changed to the wanted number of replicas.

        Preconditions in the Scale's metadata become the object's. Without one the object keeps its resourceVersion,
        because a custom object cannot be written without.
        """
        replicas = scale.get("spec", {}).get("replicas", 0)
        if replicas == _UNSET:
            raise BadRequest(f'the spec replicas field "{self._spec_text}" cannot be empty')
        self._set_replicas(obj, replicas)
        metadata = scale.get("metadata", {})
        for key in ("resourceVersion", "uid"):
            if metadata.get(key):
                obj["metadata"][key] = metadata[key]
        return obj

    def _set_replicas(self, obj: Object, replicas: int) -> None:
        *parents, last = self._spec
        place = obj
        for depth, name in enumerate(parents, 1):
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                where = _dotted(self._spec[:depth])
                raise PlainError(f"value cannot be set because {where} is not a map[string]interface{{}}")
        place[last] = replicas

    # -- validation ---------------------------------------------------------------------------------------------------

    def errors(self, obj: Object) -> list[FieldError]:
        """The errors of the replicas and the selector of an object."""
        return [*_replicas_errors(obj, self._spec, self._spec_text), *self.status_errors(obj)]

    def status_errors(self, obj: Object) -> list[FieldError]:
        """The errors of its status only."""
        found = _replicas_errors(obj, self._status, self._status_text)
        if self._selector:
            try:
                _string(obj, self._selector)
            except _AccessError as error:
                found.append(invalid(self._selector_text, "", str(error)))
        return found


def _replicas_errors(obj: Object, path: tuple[str, ...], text: str) -> list[FieldError]:
    try:
        count = _integer(obj, path) or 0
    except _AccessError as error:
        return [invalid(text, 0, str(error))]
    if count < 0:
        return [invalid(text, count, "should be a non-negative integer")]
    if count > _MAX_INT32:
        return [invalid(text, count, f"should be less than or equal to {_MAX_INT32}")]
    return []


# -- access -----------------------------------------------------------------------------------------------------------

_MISSING: Final = object()


def _nested(obj: Object, path: tuple[str, ...]) -> Any:
    """The value at a path; a null on the way counts as missing, anything else that is no object is an error."""
    value: Any = obj
    for depth, name in enumerate(path, 1):
        if value is None:
            return _MISSING
        if not isinstance(value, dict):
            raise _mismatch(path[:depth], value, "map[string]interface{}")
        if name not in value:
            return _MISSING
        value = value[name]
    return value


def _integer(obj: Object, path: tuple[str, ...]) -> int | None:
    value = _nested(obj, path)
    if value is _MISSING:
        return None
    if type_name(value) != "int64":
        raise _mismatch(path, value, "int64")
    count: int = value
    return count


def _string(obj: Object, path: tuple[str, ...]) -> str:
    value = _nested(obj, path)
    if value is _MISSING:
        return ""
    if not isinstance(value, str):
        raise _mismatch(path, value, "string")
    return value


def _mismatch(path: tuple[str, ...], value: Any, expected: str) -> _AccessError:
    return _AccessError(
        f"{_dotted(path)} accessor error: {format_value(value)} is of the type {type_name(value)}, expected {expected}"
    )


def _dotted(path: tuple[str, ...]) -> str:
    return f".{'.'.join(path)}"


def _int32(count: int) -> int:
    """The number cut to 32 bits, as the field of a Scale has them; larger ones are refused on every write."""
    return (count + 2**31) % 2**32 - 2**31
