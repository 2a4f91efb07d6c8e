"""The ConfigMap extension-apiserver-authentication, by which extension API servers learn how to authenticate clients.

It has the CA of client certificates, and the CA and the headers of front proxies, of which this server is one. It is
written at the start and again when the files have changed or the ConfigMap was changed or deleted, as the
cluster-authentication-trust controller of kube-apiserver does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.controlplane.bootstrap import AUTHENTICATION_CONFIG, SYSTEM_NAMESPACE, BootstrapError, publish_authentication

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

RETRY_SECONDS: Final = 5.0

_log = structlog.get_logger("kapi.controlplane")


class AuthenticationInfo:
    """Keeps the ConfigMap current. `published` returns what it should say."""

    def __init__(
        self, transport: InProcessTransport, catalog: Catalog, published: Callable[[], dict[str, str]]
    ) -> None:
        self._transport = transport
        self._cache = catalog.store("configmaps").cache
        self._published = published
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Write the ConfigMap again, because files of this server have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Write the ConfigMap after every change, until cancelled."""
        self._cache.listen(self._heard)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._publish()
        finally:
            self._cache.unlisten(self._heard)

    def _heard(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.item.name == AUTHENTICATION_CONFIG and event.item.namespace == SYSTEM_NAMESPACE:
                self._changed.set()

    async def _publish(self) -> None:
        try:
            await publish_authentication(self._transport, self._published())
        except (BootstrapError, OSError) as error:
            _log.warning(
                "the ConfigMap extension-apiserver-authentication is not current, trying again",
                error=str(error),
                seconds=RETRY_SECONDS,
            )
            await asyncio.sleep(RETRY_SECONDS)
            self._changed.set()
