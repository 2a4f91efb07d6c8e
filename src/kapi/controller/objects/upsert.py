"""Create or update: an object is created when it does not exist, and changed when it differs.

    def wanted(settings: ConfigMap) -> None:
        settings.data = {"size": str(network.spec.size)}

    await create_or_update(manager.client, ConfigMap(metadata=ObjectMeta(name="a", namespace="default")), wanted)

`mutate` is given the object as it is, or as it was given here when there is none, and changes it in place; it may be
`async`. It is called again on a newer state after each conflict, so it must not depend on the number of calls.

Promises: nothing is written that would change nothing. What others wrote between the read and the write is not
overwritten. When a function returns, `obj` is what the server holds; when it raises, `obj` is as it was.

`create_or_update` puts the whole object, `create_or_patch` sends the difference alone; neither takes away fields that
the object's class does not have. A status with an endpoint of its own is not touched by either: `update_status` is for
that. Works on both clients; all writes go through them, so that `CachedClient` sees them.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from kapi.api.access import name_of, namespace_of, resource_version_of
from kapi.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from kapi.api.keys import ObjectKey
from kapi.api.meta import Object
from kapi.api.scheme import SCHEME
from kapi.client.documents import full_document
from kapi.codec import json
from kapi.controller.manager.cachedclient import CachedClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.client.client import Client

    Change: TypeAlias = Callable[[Client, Any, bytes, str], Awaitable[Any]]

T = TypeVar("T", bound=msgspec.Struct | Object)

ATTEMPTS: Final = 10
"""The number of conflicts after which the error is raised; the caller's queue then retries."""

_PAUSE: Final = 0.01
_MAX_PAUSE: Final = 0.5

# Fields in one order, so that equal states are equal bytes; 1 and true stay apart, which they do not in Python.
_encode = msgspec.json.Encoder(order="sorted").encode


def _state(obj: Any) -> bytes:
    return _encode(full_document(obj))


class Operation(Enum):
    """The operation that `create_or_update` performed."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class _Overtaken(Exception):
    """The object changed after it was read; `error` is the server's."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


async def create_or_update(
    client: Client, obj: T, mutate: Callable[[T], Any], *, attempts: int = ATTEMPTS
) -> Operation:
    """Make the object of this name what `mutate` makes of it, and put it whole; see the module for the promises.

    Raises:
        Conflict, AlreadyExists, NotFound: others were quicker `attempts` times.
        ValueError: the object has no name, or `mutate` changed its name or namespace.
    """
    return await _upsert(client, obj, mutate, _update, attempts)


async def create_or_patch(client: Client, obj: T, mutate: Callable[[T], Any], *, attempts: int = ATTEMPTS) -> Operation:
    """The same by a merge patch of the difference; fields that `mutate` leaves alone are not sent.

    A merge patch replaces lists whole. One that has a list in it is bound to the state that was read, so that items
    others added are not lost; one that has none cannot conflict.
    """
    return await _upsert(client, obj, mutate, _patch, attempts)


async def _upsert(client: Client, obj: T, mutate: Callable[[T], Any], change: Change, attempts: int) -> Operation:
    if not name_of(obj):
        raise ValueError("the object has no name: metadata.name is needed to find it")
    for attempt in range(attempts):
        try:
            operation, answer = await _attempt(client, obj, mutate, change, is_first=attempt == 0)
        except _Overtaken as overtaken:
            if attempt + 1 == attempts:
                raise overtaken.error from None
            # Spread, so that writers who met once do not meet again.
            await asyncio.sleep(min(_PAUSE * 2**attempt, _MAX_PAUSE) * random.random())  # noqa: S311
        else:
            become(obj, answer)
            return operation
    raise ValueError(f"attempts is {attempts}: expected one at least")


async def _attempt(
    client: Client, obj: Any, mutate: Callable[[Any], Any], change: Change, *, is_first: bool
) -> tuple[Operation, Any]:
    found = await _find(client, obj, from_cache=is_first)
    wanted = copy.deepcopy(obj) if found is None else found
    key, read_at, before = ObjectKey.of(wanted), resource_version_of(wanted), _state(wanted)
    result = mutate(wanted)
    if inspect.isawaitable(result):
        await result
    if ObjectKey.of(wanted) != key:
        raise ValueError(f"mutate made {ObjectKey.of(wanted)} of {key}: it must not change which object it is")
    if found is None:
        return Operation.CREATED, await _create(client, wanted)
    if _state(wanted) == before:
        return Operation.UNCHANGED, wanted
    try:
        return Operation.UPDATED, await change(client, wanted, before, read_at)
    except (Conflict, NotFound) as error:
        raise _Overtaken(error) from error


async def _find(client: Client, obj: Any, *, from_cache: bool) -> Any:
    """The object as it is, or None. After a collision the cache is behind by definition, and the server is asked."""
    try:
        return await _get(client if from_cache else _live(client), obj)
    except NotFound:
        return None


async def find_live(client: Client, obj: Any) -> Any:
    """Return the object of this kind and name as the server has it, or None."""
    try:
        return await _get(_live(client), obj)
    except NotFound:
        return None


def _live(client: Client) -> Client:
    return client.live if isinstance(client, CachedClient) else client


async def _get(client: Client, obj: Any) -> Any:
    kind: Any = SCHEME.gvk_of(obj) if isinstance(obj, dict) else type(obj)
    return await client.get(kind, name_of(obj), namespace=namespace_of(obj) or None)


async def _create(client: Client, wanted: Any) -> Any:
    try:
        return await client.create(wanted)
    except AlreadyExists as error:
        raise _Overtaken(error) from error


async def _update(client: Client, wanted: Any, before: bytes, read_at: str) -> Any:
    return await client.update(wanted)


async def _patch(client: Client, wanted: Any, before: bytes, read_at: str) -> Any:
    patch = difference(json.decode(before), json.decode(_state(wanted)))
    if _has_list(patch):
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": read_at}
    return await client.patch(wanted, patch)


def difference(before: Object, after: Object) -> Object:
    """The merge patch that makes `after` of `before`; empty when they are the same. Neither may hold nulls."""
    patch: Object = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or _state(old) != _state(value):
            patch[key] = value
    return patch


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_list(one) for one in value.values())
    return isinstance(value, list)


def become(obj: Any, answer: Any) -> None:
    """Let the caller's object be the one that the server answered with."""
    if isinstance(obj, dict):
        obj.clear()
        obj.update(answer)
        return
    for name in type(obj).__struct_fields__:
        setattr(obj, name, getattr(answer, name))
    if (attributes := getattr(obj, "__dict__", None)) is not None:
        # With the document that it was read from.
        attributes.clear()
        attributes.update(vars(answer))
