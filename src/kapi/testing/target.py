"""What a request of a client asks for, in Kubernetes' words, and patterns of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from kapi.api.crd import naming_of
from kapi.api.errors import ApiError
from kapi.server.requestinfo import parse_query, request_info

if TYPE_CHECKING:
    from kapi.api.crd import CustomResource

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Target(NamedTuple):
    """A request: its verb, and the object or the collection that it is about."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_resource(self) -> bool:
        """True for a request for objects; False for one such as discovery, whose path is in the place of a resource."""
        return not self.resource.startswith("/")

    @property
    def is_write(self) -> bool:
        """True if the request may change an object."""
        return self.verb in WRITES and self.is_resource

    @property
    def kind(self) -> str:
        """The resource as RBAC writes it: `networks`, `networks/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def key(self) -> str:
        """The object as `namespace/name`; only one of the two where there is no other."""
        return "/".join(part for part in (self.namespace, self.name) if part)


def target_of(method: str, url: str, body: Any = None) -> Target:
    """Return what a request asks for; a request for no resource has its method and path as verb and resource."""
    parts = urlsplit(url)
    try:
        info = request_info(method, parts.path, parse_query(parts.query))
    except ApiError:
        return Target(method.lower(), resource=parts.path)
    if not info.is_resource:
        return Target(info.verb, resource=parts.path)
    name = info.name
    if not name and isinstance(body, dict):
        metadata = body.get("metadata")
        name = metadata.get("name") or metadata.get("generateName") or "" if isinstance(metadata, dict) else ""
    return Target(info.verb, info.group, info.resource, info.subresource, info.namespace, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Selects requests for objects. What is empty matches everything; discovery is left alone.

    `verb` is a verb of Kubernetes, or `write` for all that change objects. `resource` is a plural name
    (`networks`, `networks/status`, `networks.example.com`), or a class. Without a sub-resource it matches the main
    resource only, and `networks/*` matches both.
    """

    verb: str = ""
    resource: str | type[CustomResource] = ""
    namespace: str = ""
    name: str = ""
    user: str = ""

    def matches(self, target: Target, user: str) -> bool:
        """Return True if a request of a user is one of those."""
        return (
            self._verb_matches(target)
            and self._resource_matches(target)
            and self.namespace in ("", target.namespace)
            and self.name in ("", target.name)
            and self.user in ("", user)
        )

    def _verb_matches(self, target: Target) -> bool:
        return target.is_write if self.verb == "write" else self.verb in ("", "*", target.verb)

    def _resource_matches(self, target: Target) -> bool:
        if not self.resource:
            return target.is_resource
        wanted = self.resource if isinstance(self.resource, str) else _resource_of(self.resource)
        resource, _, subresource = wanted.partition("/")
        plural, _, group = resource.partition(".")
        return (
            plural in ("*", target.resource)
            and subresource in ("*", target.subresource)
            and group in ("", target.group)
        )

    def __str__(self) -> str:
        resource = self.resource if isinstance(self.resource, str) else _resource_of(self.resource)
        what = [self.verb or "any request", resource, "/".join(part for part in (self.namespace, self.name) if part)]
        return " ".join(part for part in what if part) + (f" by {self.user}" if self.user else "")


def _resource_of(cls: type[CustomResource]) -> str:
    naming = naming_of(cls)
    return f"{naming.plural}.{naming.gvk.group}"
