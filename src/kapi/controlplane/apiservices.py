"""Local APIServices: one for every group version that this server serves itself.

Those of built-in groups are created at the start; one that a user deletes stays deleted until the next start. Those of
custom groups follow the CustomResourceDefinitions. kube-apiserver's autoregistration does the same. Discovery here does
not depend on them, but clients list APIServices to find out which server serves what.
One that names a Service is that of another server, see `kapi.server.aggregation`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.controlplane.apiserviceavailability import LOCAL, PATH, set_availability
from kapi.controlplane.bootstrap import BootstrapError, ensure_object
from kapi.registry.custom.store import CustomStore
from kapi.server.aggregation.apiservices import APISERVICES, OWN_GROUP
from kapi.server.aggregation.priorities import default_priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.transport.inprocess import InProcessTransport

AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
RETRY_SECONDS: Final = 5.0

_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_log = structlog.get_logger("kapi.controlplane")


class ApiServiceRegistration:
    """Creates and deletes the APIServices of the group versions that a catalog serves."""

    def __init__(self, transport: InProcessTransport, catalog: Catalog) -> None:
        self._transport = transport
        self._catalog = catalog
        self._changed = asyncio.Event()

    async def register_built_in(self) -> None:
        """Create the APIServices of built-in group versions."""
        wanted = [
            api_service(group, version, "onstart")
            for group, version in self._group_versions(custom=False)
            if group != OWN_GROUP
        ]
        await asyncio.gather(*(ensure_object(self._transport, PATH, obj) for obj in wanted))

    async def run(self) -> None:
        """Keep the APIServices of custom group versions in step with the definitions, until cancelled."""
        caches = [self._catalog.store(resource).cache for resource in (_DEFINITIONS, APISERVICES)]
        for cache in caches:
            cache.listen(self._heard)
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._reconcile_or_retry()
        finally:
            for cache in caches:
                cache.unlisten(self._heard)

    def _heard(self, events: Sequence[Event]) -> None:
        self._changed.set()

    async def _reconcile_or_retry(self) -> None:
        try:
            await self._reconcile()
        except BootstrapError as error:
            _log.warning("registering APIServices failed, trying again", error=str(error), seconds=RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)
            self._changed.set()

    async def _reconcile(self) -> None:
        wanted = {f"{version}.{group}": (group, version) for group, version in self._group_versions(custom=True)}
        existing = {obj["metadata"]["name"]: obj for obj in self._catalog.list(APISERVICES)}
        for name in wanted.keys() - existing.keys():
            await ensure_object(self._transport, PATH, api_service(*wanted[name], "true"))
        for name, obj in existing.items():
            if name not in wanted and (obj["metadata"].get("labels") or {}).get(AUTOMANAGED) == "true":
                await self._delete(name)
            elif "service" not in obj["spec"]:
                await set_availability(self._transport, self._catalog, self._catalog.clock, name, LOCAL)

    async def _delete(self, name: str) -> None:
        reply = await self._transport.request("DELETE", f"{PATH}/{name}")
        answer = await reply.read()
        if reply.status not in (200, 404):
            raise BootstrapError(f"deleting {PATH}/{name} was answered with {reply.status}: {answer.decode()}")

    def _group_versions(self, *, custom: bool) -> Iterable[tuple[str, str]]:
        for group, versions in self._catalog.groups.items():
            for version, resources in versions.items():
                if all(_is_defined(resource) for resource in resources.values()) is custom:
                    yield group, version


def _is_defined(resource: Resource) -> bool:
    """Return True if a resource is served because of a definition that is stored."""
    return isinstance(resource.store, CustomStore) and not resource.store.is_built_in


def api_service(group: str, version: str, automanaged: str) -> Object:
    """Return the APIService of a group version that this server serves."""
    priority = default_priority(group, version)
    return {
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: automanaged}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": priority.group,
            "versionPriority": priority.version,
        },
    }
