"""The requests and limits of a Pod as a whole.

What a node reports to have allocated counts while it is more than what the containers ask for. Resources of the Pod as
a whole replace the sum over its containers, and overhead is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.kinds.core.pod.containers import is_sidecar
from kapi.registry.kinds.core.pod.resources import aggregate
from kapi.registry.quota.amounts import added, amounts_of, greater

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.quota.amounts import Amounts

REQUESTS, LIMITS = "requests", "limits"


def pod_requests(pod: Object) -> Amounts:
    """The requests of a Pod."""
    return added(_total(pod, REQUESTS), amounts_of(pod["spec"].get("overhead")))


def pod_limits(pod: Object) -> Amounts:
    """The limits of a Pod; overhead is added to those there are."""
    total = _total(pod, LIMITS)
    overhead = amounts_of(pod["spec"].get("overhead"))
    return added(total, {name: amount for name, amount in overhead.items() if total.get(name)})


def _total(pod: Object, side: str) -> Amounts:
    return _container_total(pod, side) | _pod_level(pod["spec"], side)


def has_pod_level_resources(pod: Object) -> bool:
    """Return True if a Pod has requests or limits as a whole."""
    return any(_pod_level(pod["spec"], side) for side in (REQUESTS, LIMITS))


def _pod_level(spec: dict[str, Any], side: str) -> Amounts:
    amounts = amounts_of((spec.get("resources") or {}).get(side))
    return {name: one for name, one in amounts.items() if name in {"cpu", "memory"} or name.startswith("hugepages-")}


def _container_total(pod: Object, side: str) -> Amounts:
    reports, is_refused = _reports(pod), _is_resize_infeasible(pod.get("status") or {})

    def amounts(container: dict[str, Any]) -> Amounts:
        return _effective(container, reports.get(container["name"]), side, is_refused=is_refused)

    return aggregate(pod["spec"], side, amounts)


def _reports(pod: Object) -> dict[str, dict[str, Any]]:
    """The statuses of containers and sidecars, by name; those of other init containers do not count."""
    spec, status = pod["spec"], pod.get("status") or {}
    staying = [*(spec.get("containers") or ()), *filter(is_sidecar, spec.get("initContainers") or ())]
    names = {container["name"] for container in staying}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {one["name"]: one for one in statuses if one.get("name") in names}


def _effective(container: dict[str, Any], report: dict[str, Any] | None, side: str, *, is_refused: bool) -> Amounts:
    """The larger of what a container asks for and what it has; what it has if its node refuses the resize."""
    asked = amounts_of((container.get("resources") or {}).get(side))
    if report is None or report.get("resources") is None:
        return asked
    allocated = amounts_of(report["resources"].get(side))
    if side == REQUESTS:
        allocated = greater(allocated, amounts_of(report.get("allocatedResources")))
    return allocated if is_refused else greater(asked, allocated)


def _is_resize_infeasible(status: dict[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False
