"""Enqueue handlers: from an event to the keys of the object, of its owners, or those that a function returns.

A handler is a function from an event to requests; the source that calls it puts them into the queue. A request that is
returned as `Prioritized` has a priority of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from kapi.api.meta import GroupVersion
from kapi.controller.event import Event, Updated
from kapi.controller.reconcile import R, Request

if TYPE_CHECKING:
    from kapi.api.meta import GroupKind
    from kapi.informer.cached import Cached

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prioritized(Generic[R]):
    """A request with a priority, which wins over that of the watch and that of the event."""

    request: R
    priority: int


Requests: TypeAlias = Iterable[R | Prioritized[R]]
Handler: TypeAlias = Callable[[Event[T]], Requests[R] | Awaitable[Requests[R]]]
Mapper: TypeAlias = Callable[[T], Requests[R] | Awaitable[Requests[R]]]
"""From an object to what is to be reconciled because of it; sync or async."""
Priority: TypeAlias = int | Callable[[Event[T]], int]
"""The priority of the requests of a source's events, or a function that returns it."""


def for_object(event: Event[Any]) -> Requests[Request]:
    """The object itself."""
    return (event.object.key,)


def for_owner(owner: GroupKind, *, namespaced: bool, controller_only: bool = True) -> Handler[Any, Request]:
    """The owners of one kind, whatever their version: the controlling one, or all of them.

    `namespaced` says whether owners of that kind live in a namespace: a reference does not, and means the object's own.
    After an update, owners the object had before are meant too: they have lost something.
    """

    def owners(event: Event[Any]) -> Requests[Request]:
        found = _owned_by(event.object, owner, namespaced=namespaced, controller_only=controller_only)
        if isinstance(event, Updated):
            before = _owned_by(event.old, owner, namespaced=namespaced, controller_only=controller_only)
            return dict.fromkeys([*before, *found])
        return found

    return owners


def mapped(mapper: Mapper[T, R]) -> Handler[T, R]:
    """The keys that a function returns for the object. After an update it is called with both states."""

    def requests(event: Event[T]) -> Requests[R] | Awaitable[Requests[R]]:
        states = (event.old, event.object) if isinstance(event, Updated) else (event.object,)
        found: dict[R | Prioritized[R], None] = {}
        for number, state in enumerate(states, start=1):
            answer = mapper(state.object())
            if isinstance(answer, Awaitable):
                return _awaited(mapper, found, answer, states[number:])
            found.update(_checked(answer))
        return found

    return requests


async def _awaited(
    mapper: Mapper[T, R],
    found: dict[R | Prioritized[R], None],
    answer: Awaitable[Requests[R]],
    rest: tuple[Cached[T], ...],
) -> Requests[R]:
    """The rest of `mapped`, for a mapper that turned out to be async. It is never called twice at the same time."""
    found.update(_checked(await answer))
    for state in rest:
        more = mapper(state.object())
        found.update(_checked(await more if isinstance(more, Awaitable) else more))
    return found


def _checked(answer: Requests[R]) -> dict[R | Prioritized[R], None]:
    """The requests that a mapper returned, each once; TypeError for one request alone, whose parts are no requests."""
    if isinstance(answer, str | Request):
        raise TypeError(f"the mapping function returned {answer!r}: expected a list of requests")
    return dict.fromkeys(answer)


class _Reference(msgspec.Struct, gc=False):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _OwnedMetadata(msgspec.Struct, gc=False):
    owners: list[_Reference] | None = msgspec.field(name="ownerReferences", default=None)


class _Owned(msgspec.Struct, gc=False):
    metadata: _OwnedMetadata


_decode_owned = msgspec.json.Decoder(_Owned).decode


def _owned_by(cached: Cached[Any], owner: GroupKind, *, namespaced: bool, controller_only: bool) -> list[Request]:
    references = _decode_owned(cached.raw).metadata.owners or []
    if controller_only:
        # The first one that says so is the controller, as everywhere; whether it is of our kind comes after.
        references = [reference for reference in references if reference.controller][:1]
    namespace = cached.key.namespace if namespaced else ""
    return [Request(namespace, reference.name) for reference in references if _is_of_kind(reference, owner)]


def _is_of_kind(reference: _Reference, owner: GroupKind) -> bool:
    if reference.kind != owner.kind:
        return False
    try:
        return GroupVersion.parse(reference.api_version).group == owner.group
    except ValueError:
        return False
