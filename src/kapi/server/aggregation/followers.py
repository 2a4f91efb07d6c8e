"""Work for every remote APIService: at once after a change, then at intervals, with back-off on failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import structlog

from kapi.server.aggregation.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.server.aggregation.apiservices import ApiServices, GroupVersionKey, RemoteAPIService

_log = structlog.get_logger("kapi.aggregation")


class Pace(NamedTuple):
    """The seconds between two rounds of work: after success, after the first failure (doubled each time), at most."""

    interval: float
    first_backoff: float
    max_backoff: float


class Followers:
    """One task per remote APIService. `work` raises UpstreamError when it should be tried again soon."""

    def __init__(
        self,
        services: ApiServices,
        work: Callable[[RemoteAPIService], Awaitable[None]],
        removed: Callable[[GroupVersionKey], None],
        pace: Pace,
    ) -> None:
        self._services = services
        self._work = work
        self._removed = removed
        self._pace = pace
        self._wanted = asyncio.Event()
        self._tasks: dict[GroupVersionKey, asyncio.Task[None]] = {}
        self._wakers: dict[GroupVersionKey, asyncio.Event] = {}

    def start(self) -> None:
        """Follow the changes of APIServices and of the endpoints of their Services."""
        self._services.on_change.append(self._changed)
        self._services.on_endpoints.append(self._endpoints_changed)

    def _changed(self, api: RemoteAPIService | None) -> None:
        self._wanted.set()
        if api is not None:
            self.wake((api.group, api.version))

    def _endpoints_changed(self, namespace: str, name: str) -> None:
        for key, api in self._services.remote.items():
            if api.service[:2] == (namespace, name):
                self.wake(key)

    def wake(self, key: GroupVersionKey) -> None:
        """Do the work for an APIService now."""
        if (waker := self._wakers.get(key)) is not None:
            waker.set()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self._wanted.clear()
                self._reconcile()
                await self._wanted.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    def _reconcile(self) -> None:
        for key in self._tasks.keys() - self._services.remote.keys():
            self._tasks.pop(key).cancel()
            del self._wakers[key]
            self._removed(key)
        for key in self._services.remote.keys() - self._tasks.keys():
            self._wakers[key] = asyncio.Event()
            self._tasks[key] = asyncio.ensure_future(self._follow(key, self._wakers[key]))

    async def _follow(self, key: GroupVersionKey, waker: asyncio.Event) -> None:
        backoff = self._pace.first_backoff
        while (api := self._services.remote.get(key)) is not None:
            waker.clear()
            seconds = self._pace.interval
            try:
                await self._work(api)
                backoff = self._pace.first_backoff
            except UpstreamError:
                seconds, backoff = backoff, min(backoff * 2, self._pace.max_backoff)
            except Exception:
                _log.exception("an APIService cannot be followed", name=api.name)
                seconds = self._pace.max_backoff
            try:
                async with asyncio.timeout(seconds):
                    await waker.wait()
            except TimeoutError:
                continue
