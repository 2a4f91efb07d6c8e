"""Local APIServices: one for every group version that this server serves itself.

Those of built-in groups are created at the start; one that a user deletes stays deleted until the next start. Those of
custom groups follow the CustomResourceDefinitions. kube-apiserver's autoregistration does the same. Discovery here does
not depend on them, but clients list APIServices to find out which server serves what.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.controlplane.bootstrap import BootstrapError, ensure_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
RETRY_SECONDS: Final = 5.0

_APISERVICES: Final = "apiservices.apiregistration.k8s.io"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_OWN_GROUP: Final = "apiregistration.k8s.io"
_CUSTOM_PRIORITY: Final = (1000, 100)

# The priorities of kube-apiserver: of the group, and of its versions where they are not 15.
_GROUP_PRIORITIES: Final = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
_VERSION_PRIORITIES: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("apiextensions.k8s.io", "v1beta1"): 9,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}

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
            if group != _OWN_GROUP
        ]
        await asyncio.gather(*(ensure_object(self._transport, PATH, obj) for obj in wanted))

    async def run(self) -> None:
        """Keep the APIServices of custom group versions in step with the definitions, until cancelled."""
        caches = [self._catalog.store(resource).cache for resource in (_DEFINITIONS, _APISERVICES)]
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
        existing = {obj["metadata"]["name"]: obj for obj in self._catalog.list(_APISERVICES)}
        for name in wanted.keys() - existing.keys():
            await ensure_object(self._transport, PATH, api_service(*wanted[name], "true"))
        for name, obj in existing.items():
            if name not in wanted and (obj["metadata"].get("labels") or {}).get(AUTOMANAGED) == "true":
                await self._delete(name)

    async def _delete(self, name: str) -> None:
        reply = await self._transport.request("DELETE", f"{PATH}/{name}")
        answer = await reply.read()
        if reply.status not in (200, 404):
            raise BootstrapError(f"deleting {PATH}/{name} was answered with {reply.status}: {answer.decode()}")

    def _group_versions(self, *, custom: bool) -> Iterable[tuple[str, str]]:
        for group, versions in self._catalog.groups.items():
            for version, resources in versions.items():
                if all(resource.custom is not None for resource in resources.values()) is custom:
                    yield group, version


def api_service(group: str, version: str, automanaged: str) -> Object:
    """Return the APIService of a group version that this server serves."""
    group_priority, version_priority = _CUSTOM_PRIORITY
    if group in _GROUP_PRIORITIES:
        group_priority = _GROUP_PRIORITIES[group]
        version_priority = _VERSION_PRIORITIES.get((group, version), 15)
    return {
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: automanaged}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        },
    }
