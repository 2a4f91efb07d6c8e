"""The options of each verb, and the query parameters and bodies they become.

The options of a verb are a typed dictionary, so that façades can pass them on without naming each: an option has one
place where it is declared. Options that are not given are not sent, and the server's own defaults hold. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict
from urllib.parse import quote

if TYPE_CHECKING:
    from kapi.api.meta import GroupVersionResource, Object

Selector: TypeAlias = str | Mapping[str, str]
"""A selector as the server writes it, or a mapping of what must be equal."""


class CallOptions(TypedDict, total=False):
    """`timeout` is in seconds and covers all tries of a request."""

    timeout: float | None


class ReadOptions(CallOptions, total=False):
    """`resource_version="0"` allows an answer from the server's cache."""

    resource_version: str | None


class SelectOptions(CallOptions, total=False):
    """The selection of objects in a collection."""

    labels: Selector | None
    fields: Selector | None


class ListOptions(SelectOptions, total=False):
    """`limit` is how many objects come at a time; all of them come."""

    limit: int
    resource_version: str | None
    resource_version_match: str | None


class WatchOptions(SelectOptions, total=False):
    """`timeout` covers the opening, `timeout_seconds` is when the server ends the watch, `idle_timeout` when we do."""

    resource_version: str | None
    resource_version_match: str | None
    send_initial_events: bool | None
    timeout_seconds: int | None
    idle_timeout: float | None


class WriteOptions(CallOptions, total=False):
    """`field_validation` is Ignore, Warn or Strict; with `dry_run` nothing is stored."""

    field_manager: str | None
    field_validation: str | None
    dry_run: bool


class PatchOptions(WriteOptions, total=False):
    """`force` takes fields from their managers and is for server-side apply only."""

    force: bool | None


class RemovalOptions(CallOptions, total=False):
    """`propagation` is Background, Foreground or Orphan; `grace_period` is in seconds."""

    propagation: str | None
    grace_period: int | None
    dry_run: bool


class DeleteOptions(RemovalOptions, total=False):
    """With `uid` or `resource_version` only that very object is deleted, `Conflict` otherwise."""

    uid: str | None
    resource_version: str | None


class DeleteAllOptions(RemovalOptions, SelectOptions, total=False):
    """The options of deletecollection."""


def selector_text(selector: Selector | None) -> str | None:
    """A selector as the server reads it; None when it selects everything."""
    if isinstance(selector, Mapping):
        return ",".join(f"{key}={value}" for key, value in selector.items()) or None
    return selector or None


def selection_query(options: SelectOptions) -> dict[str, Any]:
    """The query that selects objects."""
    return {
        "labelSelector": selector_text(options.get("labels")),
        "fieldSelector": selector_text(options.get("fields")),
    }


def watch_query(options: WatchOptions) -> dict[str, Any]:
    """The query of a watch, with bookmarks."""
    return {
        **selection_query(options),
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": options.get("resource_version"),
        "resourceVersionMatch": options.get("resource_version_match"),
        "sendInitialEvents": options.get("send_initial_events"),
        "timeoutSeconds": options.get("timeout_seconds"),
    }


def write_query(options: WriteOptions) -> dict[str, Any]:
    """The query of a write."""
    return {
        "fieldManager": options.get("field_manager") or None,
        "fieldValidation": options.get("field_validation"),
        "dryRun": "All" if options.get("dry_run") else None,
    }


def delete_body(options: DeleteOptions | DeleteAllOptions) -> Object:
    """The body of a deletion."""
    expected = {"uid": options.get("uid"), "resourceVersion": options.get("resource_version")}
    fields = {
        "propagationPolicy": options.get("propagation"),
        "gracePeriodSeconds": options.get("grace_period"),
        "preconditions": {key: value for key, value in expected.items() if value} or None,
        "dryRun": ["All"] if options.get("dry_run") else None,
    }
    head = {"kind": "DeleteOptions", "apiVersion": "v1"}
    return {**head, **{key: value for key, value in fields.items() if value is not None}}


def resource_path(gvr: GroupVersionResource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, of an object, or of a subresource."""
    group, version, resource = gvr
    parts = ["apis", group, version] if group else ["api", version]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(resource)
    parts += [part for part in (name, *subresource.split("/")) if part]
    return "/" + "/".join(map(_segment, parts))


def object_path(gvr: GroupVersionResource, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of an object or of a subresource; ValueError without a name, which would mean all objects."""
    if not name:
        raise ValueError(f"a name is needed to address one of {gvr.resource}")
    return resource_path(gvr, namespace, name, subresource)


def _segment(text: str) -> str:
    """One part of a path, which cannot become two or climb up."""
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise ValueError(
            f"{text!r} cannot be part of a path: it must not be empty, '.' or '..', nor contain '/' or '%'"
        )
    return quote(text, safe="")
