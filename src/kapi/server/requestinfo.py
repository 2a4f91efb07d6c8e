"""Request info: verb, group, version, resource and name, from the method and path of a request.

Read once, early; authorisation, routing, metrics and audit all use this and never the path again. Segments are
split before they are percent-decoded, so `%2f` cannot make a segment and `%2e%2e` is a name, not a parent.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes

from kapi.api import names
from kapi.api.errors import BadRequest, InternalServerError, NotFound, PageNotFound
from kapi.api.selectors import FieldSelector, SelectorError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PARAMETERS = 200
REMEMBERED_LENGTH = 512

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_FALSE = frozenset({"false", "0"})


class RequestInfo:
    """The request in Kubernetes' words. `verb` of a non-resource request is the method in lower case."""

    __slots__ = (
        "field_selector",
        "group",
        "is_resource",
        "is_unroutable",
        "label_selector",
        "name",
        "namespace",
        "path",
        "resource",
        "rest",
        "subresource",
        "verb",
        "version",
        "watch_path",
    )

    def __init__(self, path: str, verb: str) -> None:
        self.path = path
        self.verb = verb
        self.is_resource = False
        self.group = ""
        self.version = ""
        self.namespace = ""
        self.resource = ""
        self.subresource = ""
        self.name = ""
        self.rest: tuple[str, ...] = ()
        """Segments after the sub-resource, for proxies."""
        self.watch_path = False
        """The old `/watch/` form, which knows one method."""
        self.is_unroutable = False
        """True for a path that reads as a resource and can never be one."""
        self.field_selector = ""
        self.label_selector = ""
        """Selectors of list, watch and deletecollection, as sent; the old `/watch/` form has none."""


def parse_query(query: str) -> Mapping[str, str]:
    """The query as a mapping; the first of repeated parameters counts. Shared between requests: read only."""
    # Clients ask the same short things again and again. Long ones are not remembered: any client may send them.
    return _remembered(query) if len(query) <= REMEMBERED_LENGTH else _parse_query(query)


def _parse_query(query: str) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError as error:
        raise BadRequest(f"invalid query parameters: {error}") from None
    result: dict[str, str] = {}
    for key, value in pairs:
        result.setdefault(key, value)
    return MappingProxyType(result)


_remembered = lru_cache(maxsize=4096)(_parse_query)


def is_true(query: Mapping[str, str], key: str) -> bool:
    """A boolean parameter: present and not `false` or `0`, whatever else it says."""
    value = query.get(key)
    return value is not None and value.lower() not in _FALSE


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request line. Raises for paths that cannot mean anything."""
    parts = _segments(path)
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return RequestInfo(path, method.lower())
    info = RequestInfo(path, _VERBS.get(method, ""))
    info.is_resource = True
    if parts[0] == "api":
        info.version = parts[1]
        rest = parts[2:]
    else:
        info.group, info.version = parts[1], parts[2]
        rest = parts[3:]
    watching = info.watch_path = rest[0] == "watch"
    if watching or rest[0] == "proxy":
        rest = _after_prefix(info, path, rest)
    _read_resource(info, rest)
    _finish_verb(info, query, watching=watching)
    return info


def _after_prefix(info: RequestInfo, path: str, rest: list[str]) -> list[str]:
    if rest[0] == "proxy":
        raise NotFound.route()
    if len(rest) < 2:
        why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}"
        raise InternalServerError(path, why)
    return rest[1:]


def _read_resource(info: RequestInfo, rest: list[str]) -> None:
    if rest[0] == "namespaces" and len(rest) > 1:
        info.namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
            info.is_unroutable = rest[0] == "namespaces"
    info.resource = rest[0]
    if len(rest) > 1:
        info.name = rest[1]
    if len(rest) > 2:
        info.subresource = rest[2]
        info.rest = tuple(rest[3:])


def _finish_verb(info: RequestInfo, query: Mapping[str, str], *, watching: bool) -> None:
    if watching and info.verb == "get":
        info.verb = "watch"
    elif not info.name:
        if info.verb == "get":
            info.verb = "watch" if is_true(query, "watch") else "list"
            info.name = _pinned_name(query)
        elif info.verb == "delete":
            info.verb = "deletecollection"
        else:
            return
        if query:
            info.field_selector = query.get("fieldSelector", "")
            info.label_selector = query.get("labelSelector", "")


def _pinned_name(query: Mapping[str, str]) -> str:
    """A list or watch that pins metadata.name is a request for that name, so that rules about names apply to it."""
    selector = query.get("fieldSelector")
    if not selector or "metadata.name" not in selector:
        return ""
    try:
        name = FieldSelector.parse(selector).requires_exact_match("metadata.name")
    except SelectorError:
        return ""
    return name if name and not names.path_segment(name) else ""


def _segments(path: str) -> list[str]:
    parts = path.split("/")
    if parts[0] or len(parts) < 2:
        raise BadRequest(f"invalid path {path!r}: it must begin with a slash")
    parts = parts[1:]
    if parts[-1] == "" and len(parts) == 2 and not parts[0]:
        raise PageNotFound
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()
    if "%" in path:
        parts = [_unquote(part) for part in parts]
    if "" in parts[:-1] or (len(parts) > 1 and parts[-1] == ""):
        raise NotFound.route() if parts[0] in ("api", "apis") else PageNotFound()
    return parts


def _unquote(part: str) -> str:
    if "%" not in part:
        return part
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise BadRequest("invalid path: not UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise BadRequest("invalid path: control characters are not allowed")
    if "/" in text:
        # Decoding made a new segment; no route has one there.
        raise NotFound.route()
    return text
