"""The typed client: objects of one kind as instances of a class; one `TypedClient[T]` for one kind in one namespace.

Answers are decoded from bytes straight into the class, with msgspec. Fields that the class does not have are not in the
instance, and an update does not take them away: what is sent is the document that was read, with the program's changes
in it; see `documents`. Kinds that have no class are handled as dictionaries, by the same verbs.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from kapi.api.access import name_of, resource_version_of
from kapi.api.errors import Expired
from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapi.client.documents import encode, encode_patch, original_of, remember
from kapi.client.dynamic import PAGE, WatchEvent
from kapi.client.errors import AnswerError, error_from_status
from kapi.client.options import (
    delete_body,
    object_path,
    resource_path,
    selection_query,
    watch_query,
    write_query,
)
from kapi.client.pagination import PageGuard
from kapi.client.rest import JSON, METADATA, METADATA_LIST
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Unpack

    from kapi.api.access import AnyObject
    from kapi.api.meta import GroupVersionKind, GroupVersionResource, Object
    from kapi.client.discovery import APIResource
    from kapi.client.metadata import PartialObjectMetadata
    from kapi.client.options import (
        DeleteAllOptions,
        DeleteOptions,
        ListOptions,
        PatchOptions,
        ReadOptions,
        WatchOptions,
        WriteOptions,
    )
    from kapi.client.rest import RESTClient

T = TypeVar("T")

PatchKind: TypeAlias = Literal["merge", "json", "strategic", "apply"]
_PATCH_TYPES: dict[str, str] = {
    "merge": MERGE_PATCH,
    "json": JSON_PATCH,
    "strategic": STRATEGIC_MERGE_PATCH,
    "apply": APPLY_PATCH,
}


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """Objects of one kind as they were at one revision of the collection: `resource_version`, to watch from.

    `continue_` is set on a page that is not the last one; `remaining` is how many objects come after it, where the
    server says so.
    """

    items: list[T]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]


class Watch(Generic[T]):
    """Changes as they happen: ADDED, MODIFIED and DELETED.

    `resource_version` is the last one seen, bookmarks included: a new watch continues from there. It ends when
    the server ends it; an error that the server sends is raised, `Expired` for a revision that is too old.
    """

    def __init__(self, lines: AsyncIterator[bytes], decode: Callable[[bytes], T], resource_version: str) -> None:
        self.resource_version = resource_version
        self._lines = lines
        self._decode = decode

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while True:
            frame = _read(_FRAME, await anext(self._lines), "a watch event")
            body = bytes(frame.object)
            if frame.type == "ERROR":
                status = _json(body)
                raise error_from_status(status if isinstance(status, dict) else {})
            if frame.type == "BOOKMARK":
                self.resource_version = _read(_HEAD, body, "a bookmark").metadata.resource_version
                continue
            obj = self._decode(body)
            self.resource_version = resource_version_of(obj) or self.resource_version  # type: ignore[arg-type]
            return WatchEvent(frame.type, obj)


@dataclass(frozen=True, slots=True)
class TypedClient(Generic[T]):
    """The verbs of one resource, with objects of type `T`: a class of the resource's kind, or dictionaries.

    `namespace` is where objects are; empty it means all namespaces, or that the resource has none. `accept` and
    `accept_list` are the forms in which reads ask for an object and for a list.
    """

    rest: RESTClient
    gvr: GroupVersionResource
    decode: Callable[[bytes], T] = field(repr=False)
    namespace: str = ""
    accept: str = JSON
    accept_list: str = JSON

    async def get(self, name: str, **options: Unpack[ReadOptions]) -> T:
        """One object."""
        query = {"resourceVersion": options.get("resource_version")}
        return await self._one("GET", name, query=query, accept=self.accept, timeout=options.get("timeout"))

    async def list(self, **options: Unpack[ListOptions]) -> ObjectList[T]:
        """The whole collection, fetched in pages.

        When its revision is compacted before the last page has come, it is fetched once more, at once. More than the
        config's `max_list_bytes`, or pages that do not lead to the end of the list, are an `EndlessList`.
        """
        pages: list[ObjectList[T]] = []
        guard = PageGuard.of(self.rest.config, keeps_pages=True)
        try:
            async for page in self._pages(options, guard):
                pages.append(page)  # noqa: PERF401 - what came before an error is needed
        except Expired:
            if not pages:
                raise
            guard = PageGuard.of(self.rest.config, keeps_pages=True)
            pages = [await self._page({**options, "limit": 0}, "", guard)]
        items = [item for page in pages for item in page.items]
        return ObjectList(items, pages[-1].resource_version)

    async def pages(self, **options: Unpack[ListOptions]) -> AsyncIterator[ObjectList[T]]:
        """The collection page by page, all at one revision; `Expired` when that is compacted meanwhile.

        Pages that do not lead to the end of the list are an `EndlessList`.
        """
        async for page in self._pages(options, PageGuard.of(self.rest.config, keeps_pages=False)):
            yield page

    async def _pages(self, options: ListOptions, guard: PageGuard) -> AsyncIterator[ObjectList[T]]:
        token = ""
        while True:
            page = await self._page(options, token, guard)
            yield page
            token = page.continue_
            if not token:
                return

    @contextlib.asynccontextmanager
    async def watch(self, **options: Unpack[WatchOptions]) -> AsyncIterator[Watch[T]]:
        """Changes as they happen; see `Watch`. Without a revision what is there now comes first, as ADDED."""
        async with self.rest.stream(
            resource_path(self.gvr, self.namespace),
            query=watch_query(options),
            timeout=options.get("timeout"),
            idle_timeout=options.get("idle_timeout"),
        ) as lines:
            yield Watch(lines, self.decode, options.get("resource_version") or "")

    async def create(self, obj: AnyObject, **options: Unpack[WriteOptions]) -> T:
        """Store a new object."""
        path = resource_path(self.gvr, self.namespace)
        answer = await self.rest.send(
            "POST", path, query=write_query(options), body=encode(obj), timeout=options.get("timeout")
        )
        return self.decode(answer.json_body())

    async def update(self, obj: AnyObject, *, subresource: str = "", **options: Unpack[WriteOptions]) -> T:
        """Replace an object; `Conflict` when its resourceVersion is stale.

        Fields that the class of the object does not have stay as they are. `LossyUpdate` when that cannot be done.
        """
        await self._recall(obj)
        return await self._one(
            "PUT",
            name_of(obj),
            subresource,
            query=write_query(options),
            body=encode(obj),
            timeout=options.get("timeout"),
        )

    async def patch(
        self,
        name: str,
        patch: Any,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        **options: Unpack[PatchOptions],
    ) -> T:
        """Change an object by a patch; what it does not mention stays."""
        return await self._one(
            "PATCH",
            name,
            subresource,
            query={**write_query(options), "force": options.get("force")},
            body=encode_patch(patch),
            content_type=patch_type(kind),
            timeout=options.get("timeout"),
        )

    async def apply(self, obj: AnyObject, *, subresource: str = "", **options: Unpack[PatchOptions]) -> T:
        """Server-side apply: the manager wants exactly these fields; `Conflict` when another one owns some of them."""
        return await self.patch(name_of(obj), obj, kind="apply", subresource=subresource, **options)

    async def delete(self, name: str, **options: Unpack[DeleteOptions]) -> T | None:
        """Delete an object; what the server shows of it, or None when it only says that it is done.

        An object with finalizers or a grace period is shown, and is there until those are through.
        """
        return (await self.delete_with_uid(name, **options))[0]

    async def delete_with_uid(self, name: str, **options: Unpack[DeleteOptions]) -> tuple[T | None, str]:
        """The same, and the uid of the deleted object; empty when the server does not say."""
        path = object_path(self.gvr, self.namespace, name)
        answer = await self.rest.send("DELETE", path, body=delete_body(options), timeout=options.get("timeout"))
        head = _read(_HEAD, answer.json_body(), "the answer")
        if head.kind == "Status":
            return None, head.details.uid if head.details else ""
        return self.decode(answer.body), head.metadata.uid

    async def delete_all(self, **options: Unpack[DeleteAllOptions]) -> None:
        """Delete all objects that the selectors select."""
        path = resource_path(self.gvr, self.namespace)
        query = selection_query(options)
        await self.rest.send("DELETE", path, query=query, body=delete_body(options), timeout=options.get("timeout"))

    async def _recall(self, obj: AnyObject) -> None:
        """Read the document of an object that was read before and has been copied since, which loses it."""
        revision = resource_version_of(obj)
        if not isinstance(obj, msgspec.Struct) or not revision or original_of(obj) is not None:
            return
        answer = await self.rest.send("GET", object_path(self.gvr, self.namespace, name_of(obj)))
        # Of another revision it is no use, and the update is a Conflict.
        if _read(_HEAD, answer.json_body(), "the answer").metadata.resource_version == revision:
            remember(obj, answer.body)

    async def _one(self, method: str, name: str, subresource: str = "", **request: Any) -> T:
        path = object_path(self.gvr, self.namespace, name, subresource)
        return self.decode((await self.rest.send(method, path, **request)).json_body())

    async def _page(self, options: ListOptions, token: str, guard: PageGuard) -> ObjectList[T]:
        query = {
            **selection_query(options),
            "limit": options.get("limit", PAGE) or None,
            "continue": token or None,
            # A page that goes on from another is at that one's revision already.
            "resourceVersion": None if token else options.get("resource_version"),
            "resourceVersionMatch": None if token else options.get("resource_version_match"),
        }
        path = resource_path(self.gvr, self.namespace)
        answer = await self.rest.send("GET", path, query=query, accept=self.accept_list, timeout=options.get("timeout"))
        found = _read(_LIST, answer.json_body(), "the answer")
        items, meta = found.items or [], found.metadata
        guard.take([bytes(item) for item in (*items[:1], *items[-1:])], meta.continue_, len(answer.body))
        return ObjectList(
            [self.decode(bytes(item)) for item in items],
            meta.resource_version,
            meta.continue_,
            meta.remaining,
        )


def client_for_class(rest: RESTClient, cls: type[T], resource: APIResource, namespace: str = "") -> TypedClient[T]:
    """A client whose objects are instances of a class."""
    return TypedClient(rest, resource.gvr, class_decoder(cls), namespace)


def client_for_dictionaries(rest: RESTClient, resource: APIResource, namespace: str = "") -> TypedClient[Object]:
    """A client whose objects are dictionaries."""
    return TypedClient(rest, resource.gvr, dictionary_decoder(resource.gvk), namespace)


def client_for_metadata(
    rest: RESTClient, resource: APIResource, namespace: str = ""
) -> TypedClient[PartialObjectMetadata]:
    """A client whose reads ask for the metadata of objects."""
    # Programs that have no use for it do not import classes of built-in kinds.
    from kapi.client.metadata import PartialObjectMetadata

    decode = class_decoder(PartialObjectMetadata)
    return TypedClient(rest, resource.gvr, decode, namespace, METADATA, METADATA_LIST)


# -- between objects and bytes ----------------------------------------------------------------------------------------


def class_decoder(cls: type[T]) -> Callable[[bytes], T]:
    """From bytes to an instance of a class; `AnswerError` when they are not one."""
    found: Callable[[bytes], T] = _class_decoder(cast("Any", cls))
    return found


@functools.cache
def _class_decoder(cls: Any) -> Any:
    decode = msgspec.json.Decoder(cls).decode
    kind = getattr(cls, "gvk", ("", "", ""))[2]

    def read(body: bytes) -> Any:
        try:
            obj = decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise AnswerError(f"the server's {kind} does not fit the class {cls.__qualname__}: {error}") from None
        found = getattr(obj, "kind", kind)
        if found != kind:
            raise AnswerError(f"the server answered with a {found} where a {kind} was expected")
        remember(obj, body)
        return obj

    return read


@functools.cache
def dictionary_decoder(gvk: GroupVersionKind) -> Callable[[bytes], Object]:
    """From bytes to a dictionary that says what it is, which the items of a list need not do."""
    head = {"apiVersion": gvk.api_version, "kind": gvk.kind}

    def read(body: bytes) -> Object:
        obj = _json(body)
        if not isinstance(obj, dict):
            raise AnswerError("the answer is not an object")
        return obj if "kind" in obj and "apiVersion" in obj else {**head, **obj}

    return read


def patch_type(kind: PatchKind) -> str:
    """The media type of a kind of patch."""
    try:
        return _PATCH_TYPES[kind]
    except KeyError:
        raise ValueError(f"{kind!r} is no kind of patch; there are {', '.join(_PATCH_TYPES)}") from None


class _Metadata(msgspec.Struct):
    """The fields of metadata that are read here."""

    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _Details(msgspec.Struct):
    uid: str = ""


class _Head(msgspec.Struct):
    kind: str = ""
    details: _Details | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_HEAD = msgspec.json.Decoder(_Head)
_LIST = msgspec.json.Decoder(_List)
_FRAME = msgspec.json.Decoder(_Frame)


def _read(decoder: msgspec.json.Decoder[T], body: bytes, what: str) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"{what} cannot be understood: {error}") from None


def _json(body: bytes) -> Any:
    try:
        return json.decode(body)
    except DecodeError as error:
        raise AnswerError(f"the answer is not JSON: {error}") from None
