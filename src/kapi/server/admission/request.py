"""The admission request: what webhooks and expressions are told of a write, apart from its objects."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kapi.codec.json import encode
from kapi.registry.deletion import DeleteOptions
from kapi.registry.request import CONNECT, CREATE, DELETE, WriteOptions
from kapi.server.admission.matching import NAMESPACES, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import GroupVersionKind
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

    _Named = tuple[str, str, str]
    """The group, version and name of a resource."""

_RESOURCE: Final = ("group", "version", "resource")
_NO_OPTIONS: Final = WriteOptions()
_ENCODED_NO_OPTIONS: Final = b'{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}'
"""The options of a creation without any, which most are."""


def admission_request(
    write: Write, obj: Mapping[str, Any] | None, resource: Resource, kind: GroupVersionKind
) -> dict[str, Any]:
    """Return the AdmissionRequest without `uid`, `object` and `oldObject`. Empty strings are left out, as in its JSON.

    `resource` and `kind` are those that a rule matched: the request's own, or another version.
    """
    request = {
        **_kinds(_named(write.resource), write.kind, write.subresource, _named(resource), kind),
        "name": admitted_name(write, obj),
        "namespace": namespace_of(write),
        "operation": write.operation,
        "userInfo": write.user.info(),
        "dryRun": write.dry_run,
        "options": request_options(write),
    }
    return {key: value for key, value in request.items() if value != ""}


def encode_request(write: Write, obj: Mapping[str, Any] | None, resource: Resource, kind: GroupVersionKind) -> bytes:
    """Return the JSON of `admission_request` as it continues after the uid: `","kind":…,"options":…`.

    What depends on the kind of request alone is encoded once for all of them.
    """
    name, namespace = admitted_name(write, obj), namespace_of(write)
    kinds = _encoded_kinds(_named(write.resource), write.kind, write.subresource, _named(resource), kind)
    parts = [b'",', kinds]
    if name:
        parts += b',"name":', encode(name)
    if namespace:
        parts += b',"namespace":', encode(namespace)
    parts += b',"operation":"', write.operation.encode(), b'","userInfo":', write.user.encoded_info()
    parts += b',"dryRun":true' if write.dry_run else b',"dryRun":false', b',"options":', _encoded_options(write)
    return b"".join(parts)


def _encoded_options(write: Write) -> bytes:
    if write.operation == CREATE and write.options == _NO_OPTIONS:
        return _ENCODED_NO_OPTIONS
    return encode(request_options(write))


# By names, not by resources: those of definitions that are gone should not be kept in memory.
@lru_cache(maxsize=1024)
def _encoded_kinds(
    own: _Named, own_kind: GroupVersionKind, subresource: str, resource: _Named, kind: GroupVersionKind
) -> bytes:
    shown = _kinds(own, own_kind, subresource, resource, kind)
    return encode({key: value for key, value in shown.items() if value != ""})[1:-1]


def _kinds(
    own: _Named, own_kind: GroupVersionKind, subresource: str, resource: _Named, kind: GroupVersionKind
) -> dict[str, Any]:
    return {
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": dict(zip(_RESOURCE, resource, strict=True)),
        "subResource": subresource,
        "requestKind": {"group": own_kind.group, "version": own_kind.version, "kind": own_kind.kind},
        "requestResource": dict(zip(_RESOURCE, own, strict=True)),
        "requestSubResource": subresource,
    }


def _named(resource: Resource) -> _Named:
    return resource.group, resource.version, resource.resource


def admitted_name(write: Write, obj: Mapping[str, Any] | None) -> str:
    """Return the name of the object of a request; empty while it is not generated, and for a collection."""
    if write.verb == "deletecollection":
        return ""
    if write.name or obj is None or write.operation != CREATE:
        return write.name
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def request_options(write: Write) -> dict[str, Any] | None:
    """Return the options of a request as an object of meta.k8s.io/v1; None for CONNECT, whose options are its object.

    A patch is admitted as an update, or as a creation if it finds no object.
    """
    if write.operation == CONNECT:
        return None
    options = write.options
    shown: dict[str, Any] = {"kind": "", "apiVersion": "meta.k8s.io/v1"}
    if isinstance(options, DeleteOptions):
        shown |= {"kind": "DeleteOptions", **_deletion(write, options)}
    else:
        kind = "CreateOptions" if write.operation == CREATE else "UpdateOptions"
        shown |= {"kind": kind, "fieldManager": options.field_manager, "fieldValidation": options.given_validation}
    if options.dry_run:
        shown["dryRun"] = ["All"]
    return {key: value for key, value in shown.items() if value not in ("", None)}


def _deletion(write: Write, options: DeleteOptions) -> dict[str, Any]:
    uid = options.uid
    if uid is None and write.operation == DELETE and write.resource.group_resource == NAMESPACES and write.old:
        uid = write.old["metadata"]["uid"]  # A namespace is deleted under the condition that it is still the same.
    preconditions = {"uid": uid, "resourceVersion": options.resource_version}
    return {
        "gracePeriodSeconds": options.grace_period,
        "preconditions": {key: value for key, value in preconditions.items() if value is not None} or None,
        "orphanDependents": options.orphan,
        "propagationPolicy": options.propagation,
    }
