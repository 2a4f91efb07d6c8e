"""Evaluators: what one object of a resource counts for in a quota, under which names.

Pods, services, claims of storage and claims of devices count for several things; of every other resource a quota can
only limit how many there are. An evaluator answers from the object alone and the time, so that who keeps the books
(housekeeping) and who refuses requests (admission) cannot disagree.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, Protocol

from kapi.api import names as naming
from kapi.api.errors import GroupResource
from kapi.api.meta import parse_time
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.quota.amounts import ONE, ZERO, added
from kapi.registry.quota.podamounts import has_own_resources, pod_limits, pod_requests
from kapi.registry.quota.scopes import is_claim_in_scope, is_in_no_scope, is_pod_in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kapi.api.meta import Object
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.scopes import Scope

COUNT: Final = "count/"
STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
ALL_DEVICES: Final = 32
"""What a claim of all devices counts for: the most there can be."""

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
DEVICE_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")

LEGACY_NAMES: Final = {
    GroupResource("", name): name for name in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
}
"""Resources whose number has a name without `count/`, too."""

IGNORED: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
"""Never counted."""

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {"pods", *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE)}
)
_MUST_BE_SAID = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


class Evaluator(Protocol):
    """Knows what the objects of one resource count for."""

    resource: GroupResource

    @property
    def only_counts(self) -> bool:
        """Whether every object counts for one, whatever is in it: then there is no need to look."""
        ...

    def concerns(self, name: str) -> bool:
        """Whether an amount of this name in a quota is about these objects."""
        ...

    def is_in_scope(self, scope: Scope, obj: Object) -> bool:
        """Whether a scope includes an object."""
        ...

    def usage(self, obj: Object, now: dt.datetime) -> Amounts:
        """What an object counts for, at a time."""
        ...


def count_name(resource: GroupResource) -> str:
    """The name by which a quota limits the number of objects: `count/pods`, `count/jobs.batch`."""
    return f"{COUNT}{resource.resource}.{resource.group}" if resource.group else f"{COUNT}{resource.resource}"


def counted_resource(name: str) -> GroupResource | None:
    """The resource whose number an amount limits; None for amounts of other things."""
    for resource, legacy in LEGACY_NAMES.items():
        if name == legacy:
            return resource
    if not name.startswith(COUNT):
        return None
    plural, _, group = name.removeprefix(COUNT).partition(".")
    return GroupResource(group, plural)


def evaluator_for(resource: GroupResource) -> Evaluator | None:
    """Who knows what objects of a resource count for; None for what is never counted."""
    if resource in IGNORED:
        return None
    return _SPECIAL.get(resource) or ObjectCount(resource)


def evaluators_for(names: Iterable[str]) -> list[Evaluator]:
    """Who is needed to say how much of these names is used."""
    wanted = list(names)
    special = [one for one in _SPECIAL.values() if any(map(one.concerns, wanted))]
    counted = {resource: None for name in wanted if (resource := counted_resource(name)) is not None}
    plain = [ObjectCount(one) for one in counted if one not in _SPECIAL and one not in IGNORED]
    return [*special, *plain]


def is_counted(evaluator: Evaluator, scopes: Iterable[Scope], obj: Object) -> bool:
    """Whether an object is within all scopes of a quota."""
    return all(evaluator.is_in_scope(scope, obj) for scope in scopes)


class ObjectCount:
    """For resources of which only the number matters."""

    only_counts = True

    def __init__(self, resource: GroupResource) -> None:
        self.resource = resource
        legacy = LEGACY_NAMES.get(resource)
        self.names = (count_name(resource), *((legacy,) if legacy else ()))

    def concerns(self, name: str) -> bool:
        """Its number, by either name."""
        return name in self.names

    def is_in_scope(self, scope: Scope, obj: Object) -> bool:
        """No scope includes it."""
        return False

    def usage(self, obj: Object, now: dt.datetime) -> Amounts:
        """One."""
        return dict.fromkeys(self.names, ONE)


class _Special:
    """For a resource whose objects must be looked at."""

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
        or (name.startswith("requests.") and (_is_foreign(name) or name.startswith(f"requests.{DEVICE_CLASS}")))
    )


def _is_foreign(name: str) -> bool:
    """Whether a name belongs to somebody other than Kubernetes."""
    return "/" in name and "kubernetes.io/" not in name


def _is_extended(name: str) -> bool:
    if name.startswith(DEVICE_CLASS):
        return True
    foreign = _is_foreign(name) and not name.startswith("requests.")
    return foreign and not naming.qualified_name(f"requests.{name}")


def pod_usage(pod: Object, now: dt.datetime) -> Amounts:
    """One Pod, and while it is charged what it asks for."""
    result = {count_name(PODS): ONE}
    return result if not is_charged(pod, now) else {**result, **compute_usage(pod_requests(pod), pod_limits(pod))}


def is_charged(pod: Object, now: dt.datetime) -> bool:
    """Whether a Pod uses anything: it has not ended, and its node was not lost on the way to its end."""
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    free = charged_until(pod)
    return free is None or now <= free


def charged_until(pod: Object) -> dt.datetime | None:
    """When a Pod that is being deleted is charged no longer, even if it is still there; None for other Pods."""
    metadata = pod["metadata"]
    grace, deleted = metadata.get("deletionGracePeriodSeconds"), parse_time(metadata.get("deletionTimestamp") or "")
    return None if grace is None or deleted is None else deleted + dt.timedelta(seconds=grace)


def compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    """Requests and limits by the names they have in quotas, as those of one Pod."""
    result = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            result[name] = result[f"requests.{name}"] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            result[name] = result[f"requests.{name}"] = amount
        elif _is_extended(name):
            result[f"requests.{name}"] = amount
    return result


def unsaid_by_pod(pod: Object, limited: Collection[str]) -> str:
    """What of cpu and memory that a quota limits is not said by a container, as the API words it; empty when all is."""
    if has_own_resources(pod):
        return ""
    missing: dict[str, set[str]] = {}
    for kind in ("containers", "initContainers"):
        for container in pod["spec"].get(kind) or ():
            resources = container.get("resources") or {}
            said = {side: dict.fromkeys(resources.get(side) or {}, ZERO) for side in ("requests", "limits")}
            for name in (_MUST_BE_SAID & set(limited)) - compute_usage(**said).keys():
                missing.setdefault(name, set()).add(container["name"])
    texts = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(texts)}" if missing else ""


# -- services ---------------------------------------------------------------------------------------------------------

_SERVICE_NAMES = frozenset({"services", "services.nodeports", "services.loadbalancers", count_name(SERVICES)})


def _concerns_services(name: str) -> bool:
    return name in _SERVICE_NAMES


def service_usage(service: Object, now: dt.datetime) -> Amounts:
    """One service, with the ports on nodes it takes or will be given."""
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


# -- claims of storage ------------------------------------------------------------------------------------------------

_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")


def _concerns_claims(name: str) -> bool:
    return (
        name in _CLAIM_NAMES
        or name == count_name(CLAIMS)
        or name.endswith(tuple(f"{STORAGE_CLASS}{one}" for one in _CLAIM_NAMES))
    )


def claim_usage(claim: Object, now: dt.datetime) -> Amounts:
    """One claim and its storage, in all and of its class."""
    result = {"persistentvolumeclaims": ONE}
    storage = _storage_of(claim)
    if storage is not None:
        result["requests.storage"] = storage
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(STORAGE_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    by_class = {f"{storage_class}{STORAGE_CLASS}{name}": amount for name, amount in result.items()}
    return {count_name(CLAIMS): ONE, **result, **(by_class if storage_class else {})}


def _storage_of(claim: Object) -> Quantity | None:
    """What it asks for, or was given in the meantime if that is more; in whole bytes."""
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


# -- claims of devices ------------------------------------------------------------------------------------------------


def _concerns_device_claims(name: str) -> bool:
    return name == count_name(DEVICE_CLAIMS) or name.endswith(DEVICES)


def device_claim_usage(claim: Object, now: dt.datetime) -> Amounts:
    """One claim, with the devices it may be given of each class at worst."""
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


_SPECIAL: Final[dict[GroupResource, Evaluator]] = {
    PODS: _Special(PODS, _concerns_pods, pod_usage, is_pod_in_scope),
    SERVICES: _Special(SERVICES, _concerns_services, service_usage),
    CLAIMS: _Special(CLAIMS, _concerns_claims, claim_usage, is_claim_in_scope),
    DEVICE_CLAIMS: _Special(DEVICE_CLAIMS, _concerns_device_claims, device_claim_usage),
}
