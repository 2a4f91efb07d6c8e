"""The sources of informers: collections that can be listed and watched, as bytes.

`ListerWatcher` is the whole of what a reflector needs, so that tests and transports within a process can plug in.
`RESTSource` is the usual one: a resource of an API server, over `RESTClient`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from kapi.client.dynamic import ResourceClient
from kapi.client.errors import AnswerError
from kapi.client.pagination import PageGuard
from kapi.client.rest import JSON, METADATA, METADATA_LIST
from kapi.codec import json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from kapi.api.meta import GroupVersionKind
    from kapi.client.discovery import APIResource
    from kapi.client.mapper import RESTMapper
    from kapi.client.rest import RESTClient

LIST_SECONDS: Final = 120.0
"""The time-out of a list, in seconds: one from the server's cache is not paged, whatever its size."""

RETRIES: Final = 1
"""A server that says when to come back is asked once more then; after that the reflector's own back-off decides."""


class Page(NamedTuple):
    """A part of a list, or all of it.

    `items` are views of the response; copy what is to be kept. `head` opens an object of the items' kind, up to where
    its own fields begin, for servers that leave apiVersion and kind out of items.
    """

    items: list[msgspec.Raw]
    resource_version: str
    continue_: str = ""
    head: bytes = b""


class ListerWatcher(Protocol):
    """A collection that can be listed and watched.

    Failures are raised as `ApiError` when the server answered and as `ClientError` when it did not; in particular
    `Expired` means that a revision is too old to go on from.
    """

    def page_guard(self) -> PageGuard:
        """Return the guard of a new list of the collection, with the bounds on its pages and bytes."""
        ...

    async def list_page(self, *, resource_version: str, limit: int, continue_: str) -> Page:
        """A page of the collection. Empty and zero options are not sent; the meaning of the others is the server's."""
        ...

    def watch(
        self, *, resource_version: str, timeout_seconds: int, initial_events: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Changes after a revision, one JSON event per line, with bookmarks; entered once the server has agreed.

        With `initial_events` the collection itself comes first, and a bookmark marks where it ends.
        """
        ...


class _ListMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")


_decode_list = msgspec.json.Decoder(_List).decode


def read_page(body: bytes) -> Page:
    """A list as the server sent it, with its items still bytes; AnswerError when it is not a list."""
    try:
        found = _decode_list(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"the answer is not a list: {error}") from None
    if found.kind == "Table":
        raise AnswerError("the server sent a table where a list was asked for")
    head = b""
    if found.kind.endswith("List") and found.kind != "List":
        kind = found.kind.removesuffix("List")
        head = b'{"apiVersion":%b,"kind":%b,' % (json.encode(found.api_version), json.encode(kind))
    return Page(found.items or [], found.metadata.resource_version, found.metadata.continue_, head)


class RESTSource:
    """A resource of an API server, in one namespace or all, narrowed by selectors.

    `include_uninitialized` is for the controllers of initializers, a form of admission that Kubernetes had until v1.13.

    `find` says where the resource is served. It is asked when the source is first used and until it knows, so an
    informer may be started before the definition of its kind is installed.
    """

    def __init__(
        self,
        rest: RESTClient,
        find: Callable[[], Awaitable[APIResource]],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        include_uninitialized: bool = False,
    ) -> None:
        self._rest = rest
        self._find = find
        self._namespace = namespace
        self._selectors = {
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "includeUninitialized": "true" if include_uninitialized else None,
        }
        self._accept, self._accept_list = (METADATA, METADATA_LIST) if metadata_only else (JSON, JSON)
        self._path = ""

    def page_guard(self) -> PageGuard:
        """See `ListerWatcher`."""
        return PageGuard.of(self._rest.config, keeps_pages=True)

    async def list_page(self, *, resource_version: str, limit: int, continue_: str) -> Page:
        """See `ListerWatcher`."""
        query = {
            **self._selectors,
            "resourceVersion": resource_version or None,
            "limit": limit or None,
            "continue": continue_ or None,
        }
        path = await self._where()
        answer = await self._rest.send(
            "GET", path, query=query, accept=self._accept_list, timeout=LIST_SECONDS, retries=RETRIES
        )
        return read_page(answer.json_body())

    @contextlib.asynccontextmanager
    async def watch(
        self, *, resource_version: str, timeout_seconds: int, initial_events: bool
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `ListerWatcher`."""
        query = {
            **self._selectors,
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version or None,
            "timeoutSeconds": timeout_seconds,
            "sendInitialEvents": True if initial_events else None,
            "resourceVersionMatch": "NotOlderThan" if initial_events else None,
        }
        path = await self._where()
        async with self._rest.stream(path, query=query, accept=self._accept, retries=RETRIES) as lines:
            yield lines

    async def _where(self) -> str:
        if not self._path:
            resource = await self._find()
            # A namespace given for a cluster-scoped kind would make a path that is not served.
            namespace = self._namespace if resource.namespaced else ""
            self._path = ResourceClient(self._rest, resource.gvr, namespace).path()
        return self._path


def served_by(mapper: RESTMapper, gvk: GroupVersionKind) -> Callable[[], Awaitable[APIResource]]:
    """Return a function that finds the resource of a kind by discovery."""
    return lambda: mapper.by_kind(gvk)
