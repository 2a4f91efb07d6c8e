"""Evaluators: the usage of one object of a resource in a quota, by name.

Pods, Services, PersistentVolumeClaims and ResourceClaims have several amounts; of every other resource a quota can only
limit the number of objects. An evaluator depends on the object and the time alone, so that the controller, which
reports usage, and admission, which enforces it, cannot disagree.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, Protocol

from kapi.api.meta import GroupResource, parse_time
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.kinds.core.pod.resources import is_extended, is_native
from kapi.registry.quota.amounts import ONE, ZERO, added
from kapi.registry.quota.podresources import pod_limits, pod_requests
from kapi.registry.quota.scopes import is_claim_in_scope, is_in_no_scope, is_pod_in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.meta import Object
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.scopes import Scope

COUNT: Final = "count/"
STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
ALL_DEVICES: Final = 32
"""The usage of a claim of all devices: the largest number there can be."""

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
DEVICE_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")

LEGACY_NAMES: Final = {
    GroupResource("", name): name for name in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
}
"""Resources whose number also has a name without `count/`."""

IGNORED: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
"""Resources that are never counted."""

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {"pods", *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE)}
)


class Evaluator(Protocol):
    """Computes the usage of the objects of one resource."""

    resource: GroupResource

    @property
    def only_counts(self) -> bool:
        """True if every object counts as one, whatever is in it: then objects need not be read."""
        ...

    def concerns(self, name: str) -> bool:
        """Return True if a quota with this name limits these objects."""
        ...

    def is_in_scope(self, scope: Scope, obj: Object) -> bool:
        """Return True if a scope includes an object."""
        ...

    def usage(self, obj: Object, now: dt.datetime) -> Amounts:
        """The usage of an object at a time."""
        ...


def count_name(resource: GroupResource) -> str:
    """The name by which a quota limits the number of objects: `count/pods`, `count/jobs.batch`."""
    return f"{COUNT}{resource.resource}.{resource.group}" if resource.group else f"{COUNT}{resource.resource}"


def counted_resource(name: str) -> GroupResource | None:
    """The resource whose number of objects a name limits; None for names of other amounts."""
    for resource, legacy in LEGACY_NAMES.items():
        if name == legacy:
            return resource
    if not name.startswith(COUNT):
        return None
    plural, _, group = name.removeprefix(COUNT).partition(".")
    return GroupResource(group, plural)


def evaluators_for(names: Iterable[str]) -> list[Evaluator]:
    """The evaluators of all resources that these names limit."""
    wanted = list(names)
    evaluators = [one for one in _BY_RESOURCE.values() if any(map(one.concerns, wanted))]
    counted = {resource: None for name in wanted if (resource := counted_resource(name)) is not None}
    counts = [ObjectCount(one) for one in counted if one not in _BY_RESOURCE and one not in IGNORED]
    return [*evaluators, *counts]


def evaluator_of(resource: GroupResource) -> Evaluator:
    """The evaluator of a resource."""
    return _BY_RESOURCE.get(resource) or ObjectCount(resource)


def is_counted(evaluator: Evaluator, scopes: Iterable[Scope], obj: Object) -> bool:
    """Return True if an object is within all scopes of a quota."""
    return all(evaluator.is_in_scope(scope, obj) for scope in scopes)


class ObjectCount:
    """The evaluator of a resource of which only the number of objects counts."""

    only_counts = True

    def __init__(self, resource: GroupResource) -> None:
        self.resource = resource
        legacy = LEGACY_NAMES.get(resource)
        self.names = (count_name(resource), *((legacy,) if legacy else ()))

    def concerns(self, name: str) -> bool:
        """Return True for the names of the number of objects."""
        return name in self.names

    def is_in_scope(self, scope: Scope, obj: Object) -> bool:
        """Return False: no scope includes these objects."""
        return False

    def usage(self, obj: Object, now: dt.datetime) -> Amounts:
        """Return one object."""
        return dict.fromkeys(self.names, ONE)


class _ResourceEvaluator:
    """The evaluator of a resource whose objects must be read."""

    only_counts = False

    def __init__(
        self,
        resource: GroupResource,
        concerns: Callable[[str], bool],
        usage: Callable[[Object, dt.datetime], Amounts],
        is_in_scope: Callable[[Scope, Object], bool] = is_in_no_scope,
    ) -> None:
        self.resource = resource
        self.concerns = concerns
        self.usage = usage
        self.is_in_scope = is_in_scope


# -- Pods -------------------------------------------------------------------------------------------------------------


def _concerns_pods(name: str) -> bool:
    return (
        name in _POD_NAMES
        or name == count_name(PODS)
        or name.startswith(("hugepages-", "requests.hugepages-"))
        or (name.startswith("requests.") and (not is_native(name) or name.startswith(f"requests.{DEVICE_CLASS}")))
    )


def pod_usage(pod: Object, now: dt.datetime) -> Amounts:
    """The usage of a Pod: one Pod, and its requests and limits while it is charged."""
    result = {count_name(PODS): ONE}
    return result if not is_charged(pod, now) else {**result, **compute_usage(pod_requests(pod), pod_limits(pod))}


def is_charged(pod: Object, now: dt.datetime) -> bool:
    """Return True if a Pod has not terminated, and its node was not lost while it was being deleted."""
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    free = charged_until(pod)
    return free is None or now <= free


def charged_until(pod: Object) -> dt.datetime | None:
    """The time after which a Pod that is being deleted is not charged, even if it exists; None for other Pods."""
    metadata = pod["metadata"]
    grace, deleted = metadata.get("deletionGracePeriodSeconds"), parse_time(metadata.get("deletionTimestamp") or "")
    return None if grace is None or deleted is None else deleted + dt.timedelta(seconds=grace)


def compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    """The requests and limits of a Pod, by their names in quotas."""
    result = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            result[name] = result[f"requests.{name}"] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            result[name] = result[f"requests.{name}"] = amount
        elif is_extended(name) or name.startswith(DEVICE_CLASS):
            result[f"requests.{name}"] = amount
    return result


# -- services ---------------------------------------------------------------------------------------------------------

_SERVICE_NAMES = frozenset({"services", "services.nodeports", "services.loadbalancers", count_name(SERVICES)})


def _concerns_services(name: str) -> bool:
    return name in _SERVICE_NAMES


def service_usage(service: Object, now: dt.datetime) -> Amounts:
    """The usage of a Service: one Service, its node ports, those to be allocated included, and load balancers."""
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or ()
    node_ports = len(ports) if kind in {"NodePort", "LoadBalancer"} else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        count_name(SERVICES): ONE,
        "services": ONE,
        "services.nodeports": Quantity(node_ports),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else ZERO,
    }


# -- PersistentVolumeClaims -------------------------------------------------------------------------------------------

_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")


def _concerns_claims(name: str) -> bool:
    return (
        name in _CLAIM_NAMES
        or name == count_name(CLAIMS)
        or name.endswith(tuple(f"{STORAGE_CLASS}{one}" for one in _CLAIM_NAMES))
    )


def claim_usage(claim: Object, now: dt.datetime) -> Amounts:
    """The usage of a claim: one claim and its storage, in total and by storage class."""
    result = {"persistentvolumeclaims": ONE}
    storage = _storage_of(claim)
    if storage is not None:
        result["requests.storage"] = storage
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(STORAGE_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    by_class = {f"{storage_class}{STORAGE_CLASS}{name}": amount for name, amount in result.items()}
    return {count_name(CLAIMS): ONE, **result, **(by_class if storage_class else {})}


def _storage_of(claim: Object) -> Quantity | None:
    """The storage a claim requests, or was allocated if that is more; in whole bytes."""
    asked = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        return None
    result = _whole(parse_quantity(asked))
    given = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    if given is not None and parse_quantity(given) > result:
        result = _whole(parse_quantity(given))
    return result


def _whole(amount: Quantity) -> Quantity:
    rounded = Quantity(amount.value(), 0, amount.format)
    return amount if rounded == amount else rounded


# -- ResourceClaims ---------------------------------------------------------------------------------------------------


def _concerns_device_claims(name: str) -> bool:
    return name == count_name(DEVICE_CLAIMS) or name.endswith(DEVICES)


def device_claim_usage(claim: Object, now: dt.datetime) -> Amounts:
    """The usage of a claim: one claim, and the most devices of each class that it may be allocated."""
    result = {count_name(DEVICE_CLAIMS): ONE}
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        if request.get("firstAvailable"):
            worst: Amounts = {}
            for choice in request["firstAvailable"]:
                name, amount = f"{choice.get('deviceClassName', '')}{DEVICES}", _devices_of(choice)
                if amount > worst.get(name, ZERO):
                    worst[name] = amount
            result = added(result, worst)
        elif request.get("exactly") is not None:
            exactly = request["exactly"]
            result = added(result, {f"{exactly.get('deviceClassName', '')}{DEVICES}": _devices_of(exactly)})
    return result


def _devices_of(request: Object) -> Quantity:
    match request.get("allocationMode"):
        case "ExactCount":
            return Quantity(request.get("count", 0))
        case "All":
            return Quantity(ALL_DEVICES)
    return ZERO


_BY_RESOURCE: Final[dict[GroupResource, Evaluator]] = {
    PODS: _ResourceEvaluator(PODS, _concerns_pods, pod_usage, is_pod_in_scope),
    SERVICES: _ResourceEvaluator(SERVICES, _concerns_services, service_usage),
    CLAIMS: _ResourceEvaluator(CLAIMS, _concerns_claims, claim_usage, is_claim_in_scope),
    DEVICE_CLAIMS: _ResourceEvaluator(DEVICE_CLAIMS, _concerns_device_claims, device_claim_usage),
}
