"""The object of a write in the version that a webhook or a policy matched, and back in the version of the store.

A rule may match another version than that of the request (matchPolicy Equivalent). Objects of sub-resources with a kind
of their own, such as Scale, have one version. What comes back was changed by others: it is decoded as a request is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from kapi.api.errors import ApiError, InternalError, PlainError
from kapi.api.go.text import quote
from kapi.api.go.types import TYPE_META, json_type, unmarshal_error
from kapi.registry.custom.store import CustomStore
from kapi.registry.encoding import HubObject, copy_of
from kapi.schema.builtin.typed import TypeMismatch, kind_schema

if TYPE_CHECKING:
    from typing import Any

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.schema.builtin.typed import ObjectSchema

_EMPTY_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


async def in_version(write: Write, obj: Object, resource: Resource, kind: GroupVersionKind) -> Object:
    """Return an object, which is in the version of the store, as a kind of a matched resource; it is not changed.

    The result may share parts with the object, or be the object itself.
    """
    if kind != resource.gvk:
        return obj
    if resource.custom is None:
        return resource.convert_out(cast("HubObject", obj))
    if resource is write.resource:
        return obj
    converted = await _converted(write, copy_of(obj), resource.api_version)
    resource.schema.coerce(converted)
    return converted


async def in_store(write: Write, obj: Object, resource: Resource, kind: GroupVersionKind) -> HubObject:
    """Return a changed object, which was decoded by `decoded`, in the version of the store, with its defaults."""
    if kind != resource.gvk:
        return HubObject(obj)
    if resource.custom is None:
        hub = resource.convert_in(obj)
    elif resource is write.resource:
        hub = HubObject(obj)
    else:
        hub = HubObject(await _converted(write, obj, write.resource.api_version))
        write.resource.schema.coerce(hub)
    write.store.strategy.default(hub)
    return hub


async def _converted(write: Write, obj: Object, api_version: str) -> Object:
    store = write.store
    assert isinstance(store, CustomStore)
    try:
        return await store.convert(obj, api_version)
    except ApiError as error:
        raise InternalError.of(error.message) from None


def decoded(obj: Any, resource: Resource, kind: GroupVersionKind) -> Object:
    """Decode, in place, a document that should be an object of a kind; it loses what the kind does not have.

    Raises InternalError, or PlainError for an object of another kind, as kube-apiserver answers.
    """
    if not isinstance(obj, dict):
        wrong = unmarshal_error(json_type(obj), TYPE_META)
        raise InternalError.of(f"couldn't get version/kind; json parse error: {wrong}")
    _check_kind(obj, resource, kind)
    schema = resource.schema if kind == resource.gvk else _schema(kind)
    if schema is not None:
        try:
            schema.coerce(obj)
        except TypeMismatch as error:
            raise InternalError.of(str(error)) from None
    metadata = obj.setdefault("metadata", {})
    for key in _EMPTY_METADATA:
        if key in metadata and not metadata[key]:
            del metadata[key]
    return obj


def _check_kind(obj: Object, resource: Resource, kind: GroupVersionKind) -> None:
    found, api_version = obj.get("kind"), obj.get("apiVersion")
    for key, value in (("apiVersion", api_version), ("kind", found)):
        if value is not None and not isinstance(value, str):
            wrong = unmarshal_error(json_type(value), "string", field=f".{key}")
            raise InternalError.of(f"couldn't get version/kind; json parse error: {wrong}")
    if resource.custom is not None and kind == resource.gvk and not found:
        raise InternalError.of("Object 'Kind' is missing in '{...}'")
    found, api_version = found or kind.kind, api_version or kind.api_version
    if (found, api_version) != (kind.kind, kind.api_version):
        if api_version == kind.api_version and resource.custom is None:
            family = kind.group.partition(".")[0] or "core"
            raise PlainError(f"converting ({kind.version}.{found}) to ({family}.{kind.kind}): unknown conversion")
        scheme = 'in scheme "pkg/runtime/scheme.go:111"'
        raise InternalError.of(f"no kind {quote(found)} is registered for version {quote(api_version)} {scheme}")
    # The head of an encoded object is these two, in this order.
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    obj.clear()
    obj.update({"kind": found, "apiVersion": api_version, **rest})


@lru_cache(maxsize=64)
def _schema(kind: GroupVersionKind) -> ObjectSchema | None:
    """The schema of the kind of a sub-resource; None for the options of a CONNECT, which have none."""
    try:
        return kind_schema(*kind)
    except KeyError:
        return None
