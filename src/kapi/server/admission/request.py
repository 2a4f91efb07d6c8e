"""The admission request: what webhooks and expressions are told of a write, apart from its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.deletion import DeleteOptions
from kapi.registry.request import CONNECT, CREATE, DELETE
from kapi.server.admission.matching import NAMESPACES, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import GroupVersionKind
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource


def admission_request(
    write: Write, obj: Mapping[str, Any] | None, resource: Resource, kind: GroupVersionKind
) -> dict[str, Any]:
    """Return the AdmissionRequest without `uid`, `object` and `oldObject`. Empty strings are left out, as in its JSON.

    `resource` and `kind` are those that a rule matched: the request's own, or another version.
    """
    own = write.resource
    request: dict[str, Any] = {
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": _resource(resource),
        "subResource": write.subresource,
        "requestKind": {"group": write.kind.group, "version": write.kind.version, "kind": write.kind.kind},
        "requestResource": _resource(own),
        "requestSubResource": write.subresource,
        "name": admitted_name(write, obj),
        "namespace": namespace_of(write),
        "operation": write.operation,
        "userInfo": write.user.info(),
        "dryRun": write.dry_run,
        "options": request_options(write),
    }
    return {key: value for key, value in request.items() if value != ""}


def _resource(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


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
