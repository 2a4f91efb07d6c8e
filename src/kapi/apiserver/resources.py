"""A resource whose objects are somewhere else: in a database, behind another API, or computed.

Subclass `Resource` and write the functions that your backing can do. What you leave out is not served, and discovery
says so; patch and deletecollection are made of the others. Everything around them is Kapi's: negotiation, decoding,
pruning, defaults, validation by the schema of the class, selectors, pages, Tables, dry runs, preconditions.

Your functions run on the event loop and must not block it: `await asyncio.to_thread(...)` is the way to call a library
that waits. They may raise the errors of `kapi.api.errors`, which clients get as their Status. Anything else is a 500
that says nothing but an id, by which the log has the traceback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from kapi.api.errors import MethodNotAllowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.api.selectors import FieldSelector, LabelSelector
    from kapi.api.user import User

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_DERIVED = {"patch": ("get", "update"), "deletecollection": ("list", "delete")}
"""Verbs that are made of others."""
_NEEDS_GET = ("update", "delete")


@dataclass(frozen=True, slots=True)
class Request:
    """What a function of a resource may want to know of the request it is called for."""

    user: User
    """The user that the cluster, or the front proxy, has authenticated; `system:apiserver` when Kapi polls."""
    namespace: str = ""
    """The namespace of the URL; empty for all namespaces, and for cluster-scoped resources."""
    subresource: str = ""
    """`status` when an update is one of the status; empty otherwise."""
    audit_id: str = ""
    """The id of the request in the logs of both servers."""
    warnings: list[str] = field(default_factory=list, repr=False)

    def warn(self, text: str) -> None:
        """Send the client a `Warning` header, which kubectl prints."""
        self.warnings.append(text)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or a watch. Selectors and pages are applied to what is returned: using them here is saving.

    A function that returns a `Page` has done the paging itself.
    """

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    limit: int = 0
    """The length of the page that was asked for; 0 for no limit."""
    continue_token: str = ""
    """The token of the last `Page`."""
    resource_version: str = ""
    """The resourceVersion that the client named. A watch begins after it."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of the objects of a list, where the next begin, and the resourceVersion that a watch continues from."""

    items: Iterable[T]
    resource_version: str = ""
    continue_token: str = ""
    remaining: int = 0


class Event(NamedTuple, Generic[T]):
    """A change of an object: what a `watch` yields. The object has the resourceVersion of the change."""

    type: EventType
    object: T
    old: T | None = None
    """The object before, if it is known: a watch with selectors then knows what the client has seen of it."""


class Resource(Generic[T]):
    """A resource of an API server of your own, typed by a class of `kapi.api.crd` or by a definition.

    With a class, functions take and return its instances. With a definition (the dictionary of a
    CustomResourceDefinition with one version), they take and return dictionaries.

    An object that has no resourceVersion gets one that is a digest of its content, which is enough for a conditional
    update. One without uid gets a digest of its name.
    """

    poll_seconds: ClassVar[float | None] = None
    """For a backing that does not report changes: `list` is called this often while there are watches, and what
    changed is sent to them. Kapi keeps a copy of all objects for that, and gives out the resourceVersions."""

    def __init__(self, kind: type[CustomResource] | Object) -> None:
        self.kind = kind

    async def get(self, request: Request, name: str) -> T | None:
        """Return an object; None if there is none of that name."""
        raise MethodNotAllowed

    async def list(self, request: Request, options: ListOptions) -> Iterable[T] | Page[T]:
        """Return the objects of a namespace, or of all when the request names none."""
        raise MethodNotAllowed

    def watch(self, request: Request, options: ListOptions) -> AsyncIterator[Event[T]]:
        """Yield the changes after a resourceVersion, until closed; raise `Expired` if they are not known any more.

        `list` has to return a `Page` with a resourceVersion then, and objects need resourceVersions, which are decimal
        numbers that grow.
        """
        raise MethodNotAllowed

    async def create(self, request: Request, obj: T) -> T:
        """Store a new object, which is valid by its schema; returns it as it is stored."""
        raise MethodNotAllowed

    async def update(self, request: Request, obj: T, old: T) -> T:
        """Replace an object. `old` is what `get` returned for this request; returns the object as it is stored.

        If another program may have changed the object since, compare in the same transaction and raise `Conflict`.
        """
        raise MethodNotAllowed

    async def delete(self, request: Request, obj: T) -> None:
        """Delete an object, which `get` returned for this request."""
        raise MethodNotAllowed

    async def start(self) -> None:
        """Prepare what the other functions need; called once, before the server listens."""

    async def stop(self) -> None:
        """Release it; called once, after the last request."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that are served, in the order of discovery."""
        own = [verb for verb in ("get", "list", "watch", "create", "update", "delete") if _is_written(self, verb)]
        if self.poll_seconds is not None:
            own.append("watch")
        own += [verb for verb, parts in _DERIVED.items() if all(part in own for part in parts)]
        return tuple(sorted(own))

    def check(self) -> None:
        """Raise TypeError if functions are missing that others need."""
        verbs, name = self.verbs, type(self).__name__
        if not verbs:
            raise TypeError(f"{name} has none of get, list, watch, create, update, delete")
        if "get" not in verbs and any(verb in verbs for verb in _NEEDS_GET):
            raise TypeError(f"{name} has update or delete and needs get for that")
        if "watch" in verbs and "list" not in verbs:
            raise TypeError(f"{name} is watched and needs list for that")
        if self.poll_seconds is not None and _is_written(self, "watch"):
            raise TypeError(f"{name} has a watch of its own and poll_seconds; expected one of them")


def _is_written(resource: Resource[Any], verb: str) -> bool:
    return getattr(type(resource), verb) is not getattr(Resource, verb)
