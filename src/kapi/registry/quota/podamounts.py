"""How much a Pod asks for, all of its containers taken together.

Containers run beside each other, so theirs add up; init containers run one after the other, before them, so that the
greatest counts; those that stay on (sidecars) are with all that come later. What a node reports to have given counts
while it is more than what is asked for. Resources of the Pod as a whole replace those of its containers, and overhead
comes on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.kinds.core.pod.containers import is_sidecar
from kapi.registry.quota.amounts import added, amounts_of, greater

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.quota.amounts import Amounts

REQUESTS, LIMITS = "requests", "limits"


def pod_requests(pod: Object) -> Amounts:
    """What a Pod must be given."""
    spec = pod["spec"]
    total = _of_containers(pod, REQUESTS)
    total |= _of_whole_pod(spec, REQUESTS)
    return added(total, amounts_of(spec.get("overhead")))


def pod_limits(pod: Object) -> Amounts:
    """What a Pod may take at most."""
    spec = pod["spec"]
    total = _of_containers(pod, LIMITS)
    total |= _of_whole_pod(spec, LIMITS)
    overhead = amounts_of(spec.get("overhead"))
    return added(total, {name: amount for name, amount in overhead.items() if total.get(name)})


def has_own_resources(pod: Object) -> bool:
    """Whether a Pod says what it needs as a whole."""
    spec = pod["spec"]
    return bool(_of_whole_pod(spec, REQUESTS) or _of_whole_pod(spec, LIMITS))


def _of_whole_pod(spec: dict[str, Any], side: str) -> Amounts:
    amounts = amounts_of((spec.get("resources") or {}).get(side))
    return {name: one for name, one in amounts.items() if name in {"cpu", "memory"} or name.startswith("hugepages-")}


def _of_containers(pod: Object, side: str) -> Amounts:
    spec, status = pod["spec"], pod.get("status") or {}
    reports = {
        report.get("name"): report
        for kind in ("containerStatuses", "initContainerStatuses")
        for report in status.get(kind) or ()
    }
    refused = _is_resize_infeasible(status)
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, _effective(container, reports.get(container["name"]), side, refused=refused))
    staying: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            amounts = _effective(container, reports.get(container["name"]), side, refused=refused)
            total, staying = added(total, amounts), added(staying, amounts)
            starting = greater(starting, staying)
        else:
            starting = greater(starting, added(_asked(container, side), staying))
    return greater(total, starting)


def _asked(container: dict[str, Any], side: str) -> Amounts:
    return amounts_of((container.get("resources") or {}).get(side))


def _effective(container: dict[str, Any], report: dict[str, Any] | None, side: str, *, refused: bool) -> Amounts:
    """What a container asks for and has: of a resize in progress the greater, of one the node refuses what it has."""
    asked = _asked(container, side)
    if report is None or report.get("resources") is None:
        return asked
    has = amounts_of(report["resources"].get(side))
    if side == REQUESTS:
        has = greater(has, amounts_of(report.get("allocatedResources")))
    return has if refused else greater(asked, has)


def _is_resize_infeasible(status: dict[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False
