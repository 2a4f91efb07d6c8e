"""Secret: its keys, its size, and the keys that its type demands."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from kapi.api.fielderror import FieldError, invalid, required, too_long
from kapi.api.go.types import ANY_MAP, json_type, unmarshal_error
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.configmaps import MAX_BYTES, base64_length, immutability_errors, key_errors
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _docker_errors(data: dict[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [required(f"data[{key}]")]
    complaint = _json_object_problem(base64.b64decode(data[key]))
    return [invalid(f"data[{key}]", "<secret contents redacted>", complaint)] if complaint else []


def _json_object_problem(document: bytes) -> str:
    """Return why bytes are not a JSON object, in kube-apiserver's words; empty if they are one."""
    try:
        value = json.loads(document)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :]
        return (
            f"invalid character '{rest[0]}' looking for beginning of value" if rest else "unexpected end of JSON input"
        )
    except UnicodeDecodeError:
        return "invalid character looking for beginning of value"
    if value is None or isinstance(value, dict):
        return ""
    return unmarshal_error(json_type(value), ANY_MAP)


def _required_keys(data: dict[str, str], *keys: str) -> list[FieldError]:
    return [required(f"data[{key}]") for key in keys if key not in data]


def _type_errors(obj: Object, data: dict[str, str]) -> list[FieldError]:
    """Validate the keys that the secret's type demands."""
    match obj.get("type"):
        case "kubernetes.io/service-account-token":
            if not fieldrules.annotations_of(obj).get(SERVICE_ACCOUNT_NAME):
                return [required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")]
        case "kubernetes.io/dockercfg":
            return _docker_errors(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            return _docker_errors(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return _required_keys(data, "username", "password")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [required("data[ssh-privatekey]")]
        case "kubernetes.io/tls":
            return _required_keys(data, "tls.crt", "tls.key")
        case _:
            pass
    return []


class SecretStrategy(Strategy):
    """The rules of Secret. `stringData` is write-only: it lands, encoded, in `data`."""

    selectable_fields = ("type",)

    def default(self, obj: Object) -> None:
        """Fold `stringData` into `data`; an untyped secret is Opaque."""
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Keys are file names, the values fit, and the type has what it needs."""
        data = obj.get("data") or {}
        return key_errors("data", data) + self.size_errors(obj) + _type_errors(obj, data)

    def size_errors(self, obj: Object) -> list[FieldError]:
        """All values together take at most a mebibyte; `stringData` counts where it is not yet in `data`."""
        data, plain = obj.get("data") or {}, obj.get("stringData") or {}
        size = sum(base64_length(value) for key, value in data.items() if key not in plain)
        size += sum(len(value.encode()) for value in plain.values())
        return [too_long("data", MAX_BYTES)] if size > MAX_BYTES else []

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The type never changes; an immutable secret not at all."""
        errors = fieldrules.unchanged("type", obj.get("type"), old.get("type"))
        return errors + immutability_errors(obj, old, ("data",)) + self.validate_create(write, obj)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By type."""
        return {"type": obj.get("type", "")}


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Secret"): SecretStrategy(),
}
