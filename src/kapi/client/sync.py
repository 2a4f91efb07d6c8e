"""The synchronous client, for scripts and the interactive prompt: the verbs of `Client`, without `await`.

    with SyncClient.connect() as client:
        for pod in client.list(Pod, namespace="default"):
            print(pod.metadata.name)

Every call runs on an event loop in a thread of its own and waits for the answer. A program that has an event loop uses
`Client`: calls from inside a running loop are refused, because they would stop everything else that runs there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from kapi.api.errors import Conflict
from kapi.api.scheme import SCHEME, Scheme, TypedObject
from kapi.client.client import Client
from kapi.client.config import ClientConfig
from kapi.client.wait import CONFLICT_SECONDS, CONFLICT_TRIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Unpack

    from kapi.api.builtin.autoscaling_v1 import Scale
    from kapi.api.keys import ObjectKey
    from kapi.api.meta import Object
    from kapi.client.client import Named
    from kapi.client.dynamic import WatchEvent
    from kapi.client.options import (
        DeleteAllOptions,
        DeleteOptions,
        ListOptions,
        PatchOptions,
        ReadOptions,
        WatchOptions,
        WriteOptions,
    )
    from kapi.client.typed import ObjectList, PatchKind
    from kapi.client.wait import Deleted

T = TypeVar("T", bound=TypedObject)
R = TypeVar("R")


class SyncClient:
    """A client of one API server whose methods block; see `Client` for what they do.

    Safe to use from several threads. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        namespace: str = "",
        field_manager: str = "",
        scheme: Scheme = SCHEME,
    ) -> None:
        self._client = Client(config, namespace=namespace, field_manager=field_manager, scheme=scheme)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kapi client", daemon=True)
        self._thread.start()

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: Path | str | None = None,
        context: str = "",
        server: str = "",
        namespace: str = "",
        field_manager: str = "",
        **overrides: Any,
    ) -> Self:
        """Return a client of the server given, else of $KUBECONFIG or `~/.kube/config`, else of the pod's account."""
        config = ClientConfig.load(kubeconfig=kubeconfig, context=context, server=server, **overrides)
        return cls(config, namespace=namespace, field_manager=field_manager)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread; watches that are open end."""
        if self._loop.is_closed():
            return
        self._run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        await self._client.close()
        await self._loop.shutdown_asyncgens()  # `pages` that were not read to their end
        await self._loop.shutdown_default_executor()

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        try:
            _refuse_running_loop()
            if self._loop.is_closed():
                raise RuntimeError("the client is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            # Interrupted, as by Ctrl-C: the caller does not wait for the result any more.
            future.cancel()
            raise

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload
    def get(
        self, target: type[T], name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> T: ...
    @overload
    def get(
        self, target: Named, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Object: ...
    def get(
        self, target: Any, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Any:
        """One object; `NotFound` when there is none."""
        return self._run(self._client.get(target, name, namespace=namespace, **options))

    @overload
    def list(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectList[T]: ...
    @overload
    def list(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectList[Object]: ...
    def list(self, target: Any, *, namespace: str | None = None, **options: Unpack[ListOptions]) -> Any:
        """All objects of a kind, or those that selectors select."""
        return self._run(self._client.list(target, namespace=namespace, **options))

    @overload
    def pages(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> Iterator[ObjectList[T]]: ...
    @overload
    def pages(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> Iterator[ObjectList[Object]]: ...
    def pages(self, target: Any, *, namespace: str | None = None, **options: Unpack[ListOptions]) -> Iterator[Any]:
        """The same page by page."""
        return self._drain(self._client.pages(target, namespace=namespace, **options))

    @overload
    def watch(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[WatchOptions]
    ) -> AbstractContextManager[Iterator[WatchEvent[T]]]: ...
    @overload
    def watch(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[WatchOptions]
    ) -> AbstractContextManager[Iterator[WatchEvent[Object]]]: ...
    @contextlib.contextmanager
    def watch(self, target: Any, *, namespace: str | None = None, **options: Unpack[WatchOptions]) -> Iterator[Any]:
        """Changes as they happen, until the server ends it."""
        opened = self._client.watch(target, namespace=namespace, **options)
        events = self._run(_entered(opened))
        try:
            yield self._drain(events)
        finally:
            self._run(_left(opened))

    def _drain(self, items: AsyncIterator[R]) -> Iterator[R]:
        while True:
            try:
                item = self._run(_next(items))
            except StopAsyncIteration:
                return
            yield item

    @overload
    def wait_for(
        self,
        target: type[T] | Named,
        name: str | ObjectKey,
        condition: Deleted,
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,
    ) -> None: ...
    @overload
    def wait_for(
        self,
        target: type[T],
        name: str | ObjectKey,
        condition: str | Callable[[T], bool],
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,
    ) -> T: ...
    @overload
    def wait_for(
        self,
        target: Named,
        name: str | ObjectKey,
        condition: str | Callable[[Object], bool],
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,
    ) -> Object: ...
    def wait_for(
        self,
        target: Any,
        name: str | ObjectKey,
        condition: Any,
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,
    ) -> Any:
        """The object once it meets a condition. A condition that is a function runs in the client's thread."""
        return self._run(self._client.wait_for(target, name, condition, namespace=namespace, timeout=timeout))

    # -- writing ------------------------------------------------------------------------------------------------------

    @overload
    def create(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    def create(self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Object: ...
    def create(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Store a new object."""
        return self._run(self._client.create(obj, namespace=namespace, **options))

    @overload
    def update(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    def update(self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Object: ...
    def update(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Replace an object."""
        return self._run(self._client.update(obj, namespace=namespace, **options))

    @overload
    def update_status(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    def update_status(
        self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]
    ) -> Object: ...
    def update_status(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Replace the status of an object."""
        return self._run(self._client.update_status(obj, namespace=namespace, **options))

    @overload
    def patch(
        self,
        target: T | type[T],
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    def patch(
        self,
        target: Object | Named,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Object: ...
    def patch(
        self,
        target: Any,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Any:
        """Change an object, given itself or by kind and `name`."""
        return self._run(self._client.patch(target, patch, name=name, namespace=namespace, kind=kind, **options))

    @overload
    def patch_status(
        self,
        target: T | type[T],
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    def patch_status(
        self,
        target: Object | Named,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Object: ...
    def patch_status(
        self,
        target: Any,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Any:
        """Change an object's status."""
        return self._run(self._client.patch_status(target, patch, name=name, namespace=namespace, kind=kind, **options))

    @overload
    def apply(
        self, obj: T, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> T: ...
    @overload
    def apply(
        self, obj: Object, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> Object: ...
    def apply(
        self, obj: Any, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> Any:
        """Server-side apply."""
        return self._run(self._client.apply(obj, namespace=namespace, subresource=subresource, **options))

    @overload
    def delete(
        self,
        target: T | type[T],
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> T | None: ...
    @overload
    def delete(
        self,
        target: Object | Named,
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Object | None: ...
    def delete(
        self,
        target: Any,
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Any:
        """Delete an object, given itself or by kind and name."""
        return self._run(self._client.delete(target, name, namespace=namespace, **options))

    def delete_all(
        self, target: type[T] | Named, *, namespace: str | None = None, **options: Unpack[DeleteAllOptions]
    ) -> None:
        """Delete all objects of a kind in one namespace, or those that selectors select."""
        self._run(self._client.delete_all(target, namespace=namespace, **options))

    def get_scale(
        self, target: type[T] | Named, name: str, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Scale:
        """Return the Scale of an object: desired and current replicas."""
        return self._run(self._client.get_scale(target, name, namespace=namespace, **options))

    def scale(
        self,
        target: type[T] | Named,
        name: str,
        replicas: int,
        *,
        namespace: str | None = None,
        **options: Unpack[PatchOptions],
    ) -> Scale:
        """Set the desired number of replicas of an object."""
        return self._run(self._client.scale(target, name, replicas, namespace=namespace, **options))

    def retry_on_conflict(self, change: Callable[[], R], *, tries: int = CONFLICT_TRIES) -> R:
        """Call a function that reads, changes and updates an object; again when the update is a `Conflict`."""
        for left in range(tries - 1, -1, -1):
            try:
                return change()
            except Conflict:
                if not left:
                    raise
            time.sleep(CONFLICT_SECONDS * (1 + 0.1 * random.random()))  # noqa: S311 - spreads load, hides nothing
        raise ValueError("at least one try is needed")


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("SyncClient would block the event loop that is running here; use kapi.client.Client instead")


async def _entered(manager: Any) -> Any:
    return await manager.__aenter__()


async def _left(manager: Any) -> None:
    await manager.__aexit__(None, None, None)


async def _next(items: AsyncIterator[R]) -> R:
    return await anext(items)
