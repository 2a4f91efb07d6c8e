"""ConfigMap: its keys, its size and the switch that makes it immutable, which Secret shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, invalid, too_long
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

MAX_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def key_errors(field: str, data: dict[str, Any]) -> list[FieldError]:
    """Return the errors of the keys of a ConfigMap or Secret."""
    return [
        error
        for key in data
        if (wrong := names.config_map_key(key))
        for error in fieldrules.each(f"{field}[{key}]", key, wrong)
    ]


def base64_length(text: str) -> int:
    """Return the number of bytes that base64 text stands for, without decoding it."""
    compact = text.replace("\n", "").replace("\r", "")
    return len(compact) * 3 // 4 - compact.count("=", -2)


def immutability_errors(obj: Object, old: Object, fields: tuple[str, ...]) -> list[FieldError]:
    """Return an error for each immutable field that changed, `immutable` itself included."""
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    errors += [forbidden(field, _IMMUTABLE) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})]
    return errors


class ConfigMapStrategy(Strategy):
    """The rules of ConfigMap."""

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Keys are file names, each in one of the two maps, and all values together fit."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors = key_errors("data", data)
        errors += [
            invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary
        ]
        errors += key_errors("binaryData", binary)
        return errors + self.size_errors(obj)

    def size_errors(self, obj: Object) -> list[FieldError]:
        """All values together take at most a mebibyte."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        size = sum(map(names.byte_length, data.values())) + sum(map(base64_length, binary.values()))
        return [too_long("[]", MAX_BYTES)] if size > MAX_BYTES else []

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """An immutable one stays as it is."""
        return immutability_errors(obj, old, ("data", "binaryData")) + self.validate_create(write, obj)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "ConfigMap"): ConfigMapStrategy(),
}
