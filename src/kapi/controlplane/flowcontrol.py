"""The FlowSchemas and PriorityLevelConfigurations of every cluster, and the condition of FlowSchemas.

Mandatory objects are restored at every start to what they must be. Suggested ones are created if they are missing, and
updated unless a user has set their annotation `apf.kubernetes.io/autoupdate-spec` to "false".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from kapi.api.meta import format_time
from kapi.api.patch.mergepatch import MERGE_PATCH
from kapi.controlplane.bootstrap import BootstrapError, ensure_object, send
from kapi.server.flowcontrol import mandatory
from kapi.server.flowcontrol.control import FLOW_SCHEMAS, GROUP, PRIORITY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

_log = structlog.get_logger("kapi.controlplane")

AUTOUPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
PATH: Final = f"/apis/{GROUP}/v1"
RETRY_SECONDS: Final = 5.0


def _limited(shares: int, lendable: int, queues: int, hand_size: int) -> Object:
    queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
    response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": "Limited", "limited": limited}


LEVELS: Final[dict[str, Object]] = {
    **mandatory.LEVELS,
    "system": _limited(30, 33, 64, 6),
    "node-high": _limited(40, 25, 64, 6),
    "leader-election": _limited(10, 0, 16, 4),
    "workload-high": _limited(40, 50, 128, 6),
    "workload-low": _limited(100, 90, 128, 6),
    "global-default": _limited(20, 50, 128, 6),
}
"""The spec of each default priority level."""

_ALL: Final = ["*"]
_ANY_RESOURCE: Final = [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL, "clusterScope": True, "namespaces": _ALL}]
_ANY_PATH: Final = [{"verbs": _ALL, "nonResourceURLs": _ALL}]
_EVERYONE: Final = ("Group system:unauthenticated", "Group system:authenticated")
_LEASE_VERBS: Final = ["get", "create", "update"]


def _leases(verbs: list[str]) -> Object:
    return {"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": _ALL}


def _subject(text: str) -> Object:
    kind, _, name = text.partition(" ")
    if kind == "ServiceAccount":
        return {"kind": kind, "serviceAccount": {"namespace": name, "name": "*"}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _schema(
    precedence: int,
    level: str,
    distinguisher: str,
    subjects: Sequence[str],
    resources: list[Object] | None = None,
    paths: list[Object] | None = None,
) -> Object:
    """Return the spec of a FlowSchema with one rule; without resources and paths, about every request."""
    if resources is None and paths is None:
        resources, paths = [mandatory.ANY_RESOURCE], [mandatory.ANY_PATH]
    rule: Object = {"subjects": [_subject(text) for text in subjects]}
    if resources:
        rule["resourceRules"] = resources
    if paths:
        rule["nonResourceRules"] = paths
    spec: Object = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule]}
    if distinguisher:
        spec["distinguisherMethod"] = {"type": distinguisher}
    return spec


_NODES: Final[Object] = {
    "verbs": _ALL,
    "apiGroups": [""],
    "resources": ["nodes", "nodes/status"],
    "clusterScope": True,
    "namespaces": _ALL,
}
_PROBES: Final = [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]
_MANAGER: Final = "User system:kube-controller-manager"
_SCHEDULER: Final = "User system:kube-scheduler"
_SYSTEM_ACCOUNTS: Final = "ServiceAccount kube-system"

SCHEMAS: Final[dict[str, Object]] = {
    **mandatory.SCHEMAS,
    "probes": _schema(2, "exempt", "", _EVERYONE, paths=_PROBES),
    "system-leader-election": _schema(
        100, "leader-election", "ByUser", [_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS], [_leases(_LEASE_VERBS)]
    ),
    "system-node-high": _schema(400, "node-high", "ByUser", ["Group system:nodes"], [_NODES, _leases(_ALL)]),
    "system-nodes": _schema(500, "system", "ByUser", ["Group system:nodes"]),
    "kube-controller-manager": _schema(800, "workload-high", "ByNamespace", [_MANAGER]),
    "kube-scheduler": _schema(800, "workload-high", "ByNamespace", [_SCHEDULER]),
    "kube-system-service-accounts": _schema(900, "workload-high", "ByNamespace", [_SYSTEM_ACCOUNTS]),
    "service-accounts": _schema(9000, "workload-low", "ByUser", ["Group system:serviceaccounts"]),
    "global-default": _schema(9900, "global-default", "ByUser", _EVERYONE),
}
"""The spec of each default FlowSchema."""


async def ensure_flow_control(transport: InProcessTransport) -> None:
    """Create and update the default objects; levels first, so that no FlowSchema is without its level."""
    for resource, specs in (("prioritylevelconfigurations", LEVELS), ("flowschemas", SCHEMAS)):
        await asyncio.gather(*(_ensure(transport, f"{PATH}/{resource}", name, spec) for name, spec in specs.items()))


async def _ensure(transport: InProcessTransport, path: str, name: str, spec: Object) -> None:
    found = await ensure_object(
        transport, path, {"metadata": {"name": name, "annotations": {AUTOUPDATE: "true"}}, "spec": spec}
    )
    if found is None or found["spec"] == spec:
        return
    wants = (found["metadata"].get("annotations") or {}).get(AUTOUPDATE)
    if name in mandatory.LEVELS or wants == "true":
        body = {**found, "spec": spec}
        await send(transport, "PUT", f"{path}/{name}", body)


class FlowSchemaStatus:
    """Keeps the condition Dangling of FlowSchemas: True if the priority level they name does not exist."""

    def __init__(self, transport: InProcessTransport, catalog: Catalog, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._schemas = catalog.store(FLOW_SCHEMAS)
        self._levels = catalog.store(PRIORITY_LEVELS)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the objects, until cancelled."""
        for store in (self._schemas, self._levels):
            store.cache.listen(self._note)
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._update_all()
            except BootstrapError as error:
                # The FlowSchema was deleted meanwhile, or the server cannot write now.
                _log.warning("the condition of a FlowSchema was not written", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    def _note(self, events: Sequence[Event]) -> None:
        self._changed.set()

    async def _update_all(self) -> None:
        for item in list(self._schemas.cache.items()):
            condition = None
            with self._schemas.hub.invalid.guard(item.key, "flow control"):
                condition = self._condition(self._schemas.decode(item))
            if condition is not None:
                status = {"status": {"conditions": [condition]}}
                await send(self._transport, "PATCH", f"{PATH}/flowschemas/{item.name}/status", status, MERGE_PATCH)

    def _condition(self, schema: Object) -> Object | None:
        """Return the condition that a FlowSchema should have; None if it has it."""
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        exists = self._levels.find("", level) is not None
        ending = "and it exists" if exists else "but there is no such object"
        wanted: dict[str, Any] = {
            "type": "Dangling",
            "status": "False" if exists else "True",
            "reason": "Found" if exists else "NotFound",
            "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {ending}',
        }
        for condition in (schema.get("status") or {}).get("conditions") or ():
            if all(condition.get(key) == value for key, value in wanted.items()):
                return None
        return {**wanted, "lastTransitionTime": format_time(self._clock.now())}
