"""The router: from the request info to the handler.

Group first, then version, then resource, then sub-resource; each miss has its own answer, which clients tell apart:
an unknown group is a plain page not found, an unknown resource in a known group a Status, a wrong method on a known
path 405.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import BadRequest, MethodNotAllowed, NotFound, PageNotFound
from kapi.api.names import path_segment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kapi.registry.resource import Resource
    from kapi.server.context import Context
    from kapi.server.transport.message import Response, StreamResponse

    Endpoint = Callable[[Context], Awaitable[Response | StreamResponse]]

_COLLECTION = {"POST": "create", "GET": "list", "DELETE": "deletecollection"}
_NAMED = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Router:
    """The endpoints of one server.

    `verbs` serves the main endpoints; `subresources` maps a sub-resource name (or `resource/name` where kinds
    differ) to its verbs; `virtual` serves resources that are not stored; `pages` everything that is not a resource.
    `proxy` serves the group versions in `remote`, which other servers have.
    """

    def __init__(
        self,
        *,
        verbs: dict[str, Endpoint],
        subresources: dict[str, dict[str, Endpoint]],
        virtual: dict[str, dict[str, Endpoint]],
        page: Endpoint,
        proxy: Endpoint | None = None,
        remote: Mapping[tuple[str, str], object] | None = None,
    ) -> None:
        self._verbs = verbs
        self._subresources = subresources
        self._virtual = virtual
        self._page = page
        self.proxy = proxy
        self._remote = remote if remote is not None else {}

    def route(self, context: Context) -> Endpoint:
        """Find the endpoint, set `context.resource`; raises 400, 404 or 405."""
        info = context.info
        if not info.is_resource:
            return self._page
        if self._remote and self.proxy is not None and (info.group, info.version) in self._remote:
            return self.proxy
        versions = context.services.catalog.groups.get(info.group)
        if versions is None:
            raise PageNotFound
        resource = versions.get(info.version, {}).get(info.resource)
        if resource is None or info.is_unroutable:
            raise PageNotFound if is_custom(versions) else NotFound.route()
        context.resource = resource
        if info.watch_path and context.request.method != "GET":
            raise MethodNotAllowed
        if resource.deprecation:
            context.warnings.append(resource.deprecation)
        named = bool(info.name) and info.verb not in ("list", "watch")
        _check_scope(context, resource, named=named)
        if named:
            _check_name(info.name)
        if info.subresource:
            return self._subresource(context, resource)
        table = self._verbs if resource.store is not None else self._virtual.get(resource.resource, {})
        return _verb(context, resource, table, named=named)

    def _subresource(self, context: Context, resource: Resource) -> Endpoint:
        info = context.info
        sub = resource.subresources.get(info.subresource)
        if sub is None or (info.rest and sub.name != "proxy"):
            if resource.custom is not None:
                raise NotFound.of(resource.group_resource, info.name)
            raise NotFound.route()
        table = self._subresources.get(f"{resource.resource}/{sub.name}") or self._subresources[sub.name]
        method = context.request.method
        verb = "create" if method == "POST" else _NAMED.get(method)
        endpoint = table.get(verb) if verb is not None and verb in sub.verbs else None
        if endpoint is None:
            raise MethodNotAllowed
        return endpoint


def _verb(context: Context, resource: Resource, table: dict[str, Endpoint], *, named: bool) -> Endpoint:
    info, method = context.info, context.request.method
    if info.verb == "watch":
        if "watch" not in resource.verbs:
            if method == "GET" and "list" in resource.verbs:
                raise MethodNotAllowed(f'watch is not supported on resources of kind "{resource.resource}"')
            raise MethodNotAllowed
        return table["watch"]
    verb = (_NAMED if named else _COLLECTION).get(method)
    if verb is not None and verb in resource.verbs and verb in table:
        return table[verb]
    if named and not any(verb in resource.verbs for verb in _NAMED.values()):
        raise NotFound.route()
    raise MethodNotAllowed


def _check_scope(context: Context, resource: Resource, *, named: bool) -> None:
    """A resource is reached through URLs of its own scope only, before anything is read."""
    info = context.info
    if resource.custom is not None and bool(info.namespace) is not resource.namespaced:
        # A collection can be read across namespaces; there is nothing else where the scope is wrong.
        if info.namespace or named or context.request.method != "GET":
            raise PageNotFound
        return
    if not resource.namespaced:
        if info.namespace and resource.resource != "namespaces":
            raise NotFound.route()
        return
    if info.namespace:
        _check_name(info.namespace)
        return
    if named:
        raise NotFound.route()
    if context.request.method != "GET":
        if "list" not in resource.verbs:
            raise NotFound.route()
        raise MethodNotAllowed
    if "list" not in resource.verbs:
        raise NotFound.route()


def is_custom(versions: Mapping[str, Mapping[str, Resource]]) -> bool:
    """Return True if a group has custom resources only, whose paths do not exist unless they are defined."""
    return all(resource.custom is not None for resources in versions.values() for resource in resources.values())


def _check_name(name: str) -> None:
    if "/" in name or "%" in name or name in {".", ".."}:
        raise BadRequest(f'Name parameter invalid: "{name}": {";".join(path_segment(name))}')
