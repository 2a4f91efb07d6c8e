"""The dynamic client: objects as plain dictionaries, by resource, for kinds without classes.

    pods = DynamicClient(rest).resource(gvr, namespace="default")     # or: await client.kind(gvk, namespace="default")
    await pods.create({...})
    async with pods.watch(resource_version=...) as events:
        async for event in events: ...

Options that are not given are not sent, so the server's own defaults hold.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kapi.api.patch.mergepatch import APPLY_PATCH, MERGE_PATCH
from kapi.client.discovery import DiscoveryClient
from kapi.client.errors import AnswerError, error_from_status
from kapi.client.mapper import RESTMapper
from kapi.client.options import delete_body, object_path, resource_path, write_query
from kapi.client.pagination import PageGuard
from kapi.client.rest import JSON
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kapi.api.meta import GroupVersionKind, GroupVersionResource, Object
    from kapi.client.options import WriteOptions
    from kapi.client.rest import RESTClient

T = TypeVar("T")

PAGE: Final = 500
"""The limit of each page, as in kubectl."""


class WatchEvent(NamedTuple, Generic[T]):
    """A change: ADDED, MODIFIED, DELETED or BOOKMARK, and the object as it then was."""

    type: str
    object: T


class DynamicClient:
    """Every resource of one server. The mapper is for asking by kind, and made when it is first needed."""

    def __init__(self, rest: RESTClient, mapper: RESTMapper | None = None) -> None:
        self._rest = rest
        self._mapper = mapper

    def resource(self, gvr: GroupVersionResource, namespace: str = "") -> ResourceClient:
        """One resource, in one namespace; without one it is cluster-scoped, or all namespaces are meant."""
        return ResourceClient(self._rest, gvr, namespace)

    async def kind(self, gvk: GroupVersionKind, namespace: str = "") -> ResourceClient:
        """The resource of a kind, in one namespace or in all; `NoMatch` when the server has none."""
        if self._mapper is None:
            self._mapper = RESTMapper(DiscoveryClient(self._rest))
        return self.resource((await self._mapper.by_kind(gvk)).gvr, namespace)


@dataclass(frozen=True, slots=True)
class ResourceClient:
    """The verbs of one resource. Each takes `timeout` in seconds where it can wait."""

    rest: RESTClient
    gvr: GroupVersionResource
    namespace: str = ""

    def path(self, name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of an object, or of a subresource."""
        return resource_path(self.gvr, self.namespace, name, subresource)

    async def get(
        self,
        name: str,
        *,
        subresource: str = "",
        resource_version: str | None = None,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """One object."""
        query = {"resourceVersion": resource_version}
        return _object(
            await self.rest.request("GET", self._one(name, subresource), query=query, accept=accept, timeout=timeout)
        )

    async def list(
        self,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """One page of the collection, or all of it without a `limit`."""
        query = {
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "limit": limit,
            "continue": continue_ or None,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        return _object(await self.rest.request("GET", self.path(), query=query, accept=accept, timeout=timeout))

    async def pages(
        self,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = PAGE,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[Object]:
        """The collection page by page, all at one revision; `Expired` when that is compacted meanwhile.

        Pages that do not lead to the end of the list are an `EndlessList`.
        """
        guard = PageGuard.of(self.rest.config, keeps_pages=False)
        token: str | None = None
        while True:
            page = await self.list(
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_=token,
                accept=accept,
                timeout=timeout,
            )
            items, token = _items(page), _continue(page)
            guard.take(items, token)
            yield page
            if not token:
                return

    @contextlib.asynccontextmanager
    async def watch(
        self,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        allow_bookmarks: bool | None = None,
        send_initial_events: bool | None = None,
        resource_version_match: str | None = None,
        timeout_seconds: int | None = None,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
        max_line_bytes: int | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Object]]]:
        """Changes as they happen. Ends when the server ends it, after `timeout_seconds` or its own time.

        An ERROR event is raised as the error it carries: `Expired` means that the revision is too old to watch from.
        """
        query = {
            "watch": True,
            "resourceVersion": resource_version,
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "allowWatchBookmarks": allow_bookmarks,
            "sendInitialEvents": send_initial_events,
            "resourceVersionMatch": resource_version_match,
            "timeoutSeconds": timeout_seconds,
        }
        async with self.rest.stream(
            self.path(), query=query, accept=accept, timeout=timeout, max_line_bytes=max_line_bytes
        ) as lines:
            yield _events(lines)

    async def create(
        self,
        obj: Object,
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Create an object; with `name` and `subresource`, post to a part of one (a binding, an eviction, a token)."""
        path = self._one(name, subresource) if name else self.path()
        query = write_query({"field_manager": field_manager, "field_validation": field_validation, "dry_run": dry_run})
        return _object(await self.rest.request("POST", path, query=query, body=obj, timeout=timeout))

    async def replace(
        self,
        obj: Object,
        *,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Replace an object; `Conflict` when its resourceVersion is stale."""
        path = self._one((obj.get("metadata") or {}).get("name") or "", subresource)
        query = write_query({"field_manager": field_manager, "field_validation": field_validation, "dry_run": dry_run})
        return _object(await self.rest.request("PUT", path, query=query, body=obj, timeout=timeout))

    async def patch(
        self,
        name: str,
        patch: Any,
        patch_type: str = MERGE_PATCH,
        *,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        force: bool | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Change an object by a patch of one of the four types; what it does not mention stays."""
        options: WriteOptions = {
            "field_manager": field_manager,
            "field_validation": field_validation,
            "dry_run": dry_run,
        }
        query = {**write_query(options), "force": force}
        answer = await self.rest.request(
            "PATCH", self._one(name, subresource), query=query, body=patch, content_type=patch_type, timeout=timeout
        )
        return _object(answer)

    async def apply(
        self,
        obj: Object,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
        field_validation: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Server-side apply: this manager wants exactly these fields; `Conflict` when another one owns some of them."""
        return await self.patch(
            (obj.get("metadata") or {}).get("name") or "",
            obj,
            APPLY_PATCH,
            subresource=subresource,
            field_manager=field_manager,
            field_validation=field_validation,
            force=force,
            dry_run=dry_run,
            timeout=timeout,
        )

    async def delete(
        self,
        name: str,
        *,
        propagation: str | None = None,
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Delete an object; the answer is a Status, or the object when it is only on its way out.

        With `uid` or `resource_version` only that very object is deleted, `Conflict` otherwise.
        """
        options = delete_body(
            {
                "propagation": propagation,
                "grace_period": grace_period,
                "uid": uid,
                "resource_version": resource_version,
                "dry_run": dry_run,
            }
        )
        return _object(await self.rest.request("DELETE", self._one(name), body=options, timeout=timeout))

    async def delete_collection(
        self,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        propagation: str | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Object:
        """Delete all objects that the selectors select."""
        query = {"labelSelector": label_selector or None, "fieldSelector": field_selector or None}
        options = delete_body({"propagation": propagation, "grace_period": grace_period, "dry_run": dry_run})
        return _object(await self.rest.request("DELETE", self.path(), query=query, body=options, timeout=timeout))

    def _one(self, name: str, subresource: str = "") -> str:
        # Never the path of the collection: an empty name would be a delete of everything.
        return object_path(self.gvr, self.namespace, name, subresource)


def _items(page: Object) -> list[Any]:
    # A table has rows instead.
    items = page.get("items") or page.get("rows") or []
    if not isinstance(items, list):
        raise AnswerError("the items of the list are not a list")
    return items


def _continue(page: Object) -> str:
    metadata = page.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    if token is not None and not isinstance(token, str):
        raise AnswerError("the continue token of the list is not a string")
    return token or ""


def _object(answer: Any) -> Object:
    if not isinstance(answer, dict):
        raise AnswerError("the answer is not an object")
    return answer


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent[Object]]:
    async for line in lines:
        try:
            frame = json.decode(line)
        except DecodeError as error:
            raise AnswerError(f"a watch event is not JSON: {error}") from None
        if not isinstance(frame, dict) or not isinstance(frame.get("object"), dict):
            raise AnswerError("a watch event has no object")
        if frame.get("type") == "ERROR":
            raise error_from_status(frame["object"])
        yield WatchEvent(str(frame.get("type")), frame["object"])
