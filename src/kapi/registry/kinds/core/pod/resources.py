"""CPU, memory and other resources of pods: names, requests and limits, sums, and the quality-of-service class.

Quantities arrive in canonical form, so comparing strings tells equality and parsing never fails. Used by
defaulting, by validation and by the resize sub-resource; pure functions.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.go.text import quote
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]
Amounts = dict[str, Quantity]

CONTAINER = "container"
POD = "pod"

_ZERO = Quantity(0)
_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_RESOURCES = frozenset({"cpu", "memory"})
_QOS_RESOURCES = frozenset({"cpu", "memory"})
_INTEGER_RESOURCES = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | _INTEGER_RESOURCES
    | {"storage", "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER_RESOURCES}
)


# -- names ------------------------------------------------------------------------------------------------------------


def is_native(name: str) -> bool:
    """Return True if the resource is one of Kubernetes' own, as opposed to one a device plugin offers."""
    return "/" not in name or "kubernetes.io/" in name


def _is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def is_extended(name: str) -> bool:
    """Return True for the name of an extended resource, which a device plugin offers."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def is_integer_resource(name: str) -> bool:
    """Return True if the resource is counted in whole pieces."""
    return name in _INTEGER_RESOURCES or is_extended(name)


def _check_name(errors: Errors, path: str, name: str, level: str) -> None:
    if name in _QOS_RESOURCES:
        return
    sentences = names.qualified_name(name)
    errors += fieldrules.each(path, name, sentences)
    standard = name in _STANDARD_RESOURCES or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))
    if not sentences and "/" not in name and not standard:
        errors.append(fielderror.invalid(path, name, "must be a standard resource type or fully qualified"))
    if level == POD:
        known = standard or "/" in name
        if not sentences and known and name not in _POD_RESOURCES and not name.startswith(_HUGE_PAGES):
            errors.append(fielderror.not_supported(path, name, sorted((*_POD_RESOURCES, _HUGE_PAGES))))
        return
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            errors.append(fielderror.invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(fielderror.invalid(path, name, "doesn't follow extended resource name standard"))


# -- requests and limits ----------------------------------------------------------------------------------------------


def check_requirements(errors: Errors, path: str, resources: Spec, level: str, claims: frozenset[str]) -> None:
    """`requests`, `limits` and `claims` of a container, or of a whole pod."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, quantity in limits.items():
        _check_amount(errors, f"{path}.limits[{name}]", name, quantity, level)
    for name, quantity in requests.items():
        _check_amount(errors, f"{path}.requests[{name}]", name, quantity, level)
        _check_against_limit(errors, path, name, quantity, limits.get(name))
    asked = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & _QOS_RESOURCES:
        errors.append(fielderror.forbidden(path, "HugePages require cpu or memory"))
    if "claims" in resources:
        _check_claims(errors, f"{path}.claims", resources["claims"], claims)


def check_quantity(errors: Errors, path: str, name: str, quantity: str) -> None:
    """An amount of a resource: not negative, and whole where pieces are counted."""
    amount = parse_quantity(quantity)
    if amount < _ZERO:
        errors.append(fielderror.invalid(path, quantity, fieldrules.NEGATIVE))
    if is_integer_resource(name) and amount.milli_value() % 1000:
        errors.append(fielderror.invalid(path, quantity, "must be an integer"))


def _check_amount(errors: Errors, path: str, name: str, quantity: str, level: str) -> None:
    _check_name(errors, path, name, level)
    check_quantity(errors, path, name, quantity)
    if name.startswith(_HUGE_PAGES) and not _divides(name, quantity):
        errors.append(fielderror.invalid(path, quantity, f"{quantity} is not positive integer multiple of {name}"))


def _divides(name: str, quantity: str) -> bool:
    try:
        page = parse_quantity(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return False
    return page > _ZERO and not page.milli_value() % 1000 and parse_quantity(quantity).value() % page.value() == 0


def _check_against_limit(errors: Errors, path: str, name: str, quantity: str, limit: str | None) -> None:
    if limit is None:
        if not _is_overcommit_allowed(name):
            errors.append(fielderror.required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    order = parse_quantity(quantity).compare(parse_quantity(limit))
    if order and not _is_overcommit_allowed(name):
        errors.append(fielderror.invalid(f"{path}.requests", quantity, f"must be equal to {name} limit of {limit}"))
    elif order > 0:
        detail = f"must be less than or equal to {name} limit of {limit}"
        errors.append(fielderror.invalid(f"{path}.requests", quantity, detail))


_SHOWN_CLAIMS = 100
"""Names of claims that the error of an unknown one lists at most; a pod that can run has far fewer."""


def _check_claims(errors: Errors, path: str, claims: list[Spec], known: frozenset[str]) -> None:
    seen: set[str] = set()
    requests: dict[str, int] = {}
    for index, claim in enumerate(claims):
        here = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(fielderror.required(here))
            continue
        key = f"{name}/{request}" if request else name
        if request:
            errors += fieldrules.each(f"{here}.request", request, names.dns_label(request))
        if name in seen:
            errors.append(fielderror.duplicate(here, name))
        elif key in seen:
            errors.append(fielderror.duplicate(here, key))
        elif not request:
            # The whole claim overlaps with every request of it named before.
            errors.extend(fielderror.duplicate(here, name) for _ in range(requests.get(name, 0)))
        if key not in seen:
            seen.add(key)
            whole = key.partition("/")[0]
            requests[whole] = requests.get(whole, 0) + 1
        if name not in known:
            body = f"Not found: {quote(name)}: must be one of the names in pod.spec.resourceClaims{_listed(known)}"
            errors.append(fielderror.FieldError("FieldValueNotFound", here, body))


@functools.lru_cache(maxsize=4)
def _listed(known: frozenset[str]) -> str:
    """The names of a pod's claims as an error lists them; each container of a pod may have many such errors."""
    return f": {', '.join(sorted(known)[:_SHOWN_CLAIMS])}" if known else " which is empty"


# -- sums over a pod --------------------------------------------------------------------------------------------------


def aggregate(spec: Spec, side: str, amounts: Callable[[Spec], Amounts] | None = None) -> Amounts:
    """The sum of `requests` or `limits` over all containers, of each what its spec says or `amounts` returns.

    Init containers run one after the other, together with the sidecars started before them, so they raise the sum only
    where their peak is above what the regular containers need.
    """
    of = amounts or (lambda container: _amounts(container, side))
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        needed = of(container)
        if container.get("restartPolicy") == "Always":
            _add(total, needed)
            _add(sidecars, needed)
            during = sidecars
        else:
            during = dict(sidecars)
            _add(during, needed)
        _raise_to(peak, during)
    _raise_to(total, peak)
    return total


def _amounts(container: Spec, side: str) -> Amounts:
    quantities = (container.get("resources") or {}).get(side) or {}
    return {name: parse_quantity(quantity) for name, quantity in quantities.items()}


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def check_pod_level(errors: Errors, path: str, spec: Spec, claims: frozenset[str]) -> None:
    """`spec.resources`: a roof over what the containers ask for."""
    resources = spec["resources"]
    if spec.get("os", {}).get("name") == "windows":
        errors.append(fielderror.forbidden(path, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        errors.append(fielderror.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(errors, path, resources, POD, claims)
    for side, hugepages_only in (("requests", False), ("limits", True)):
        roof = resources.get(side) or {}
        for name, amount in aggregate(spec, side).items():
            if name not in roof or (hugepages_only and not name.startswith(_HUGE_PAGES)):
                continue
            if amount > parse_quantity(roof[name]):
                detail = f"must be greater than or equal to aggregate container {side} of {amount}"
                errors.append(fielderror.invalid(f"{path}.{side}[{name}]", roof[name], detail))
    _check_container_limits(errors, path, spec, resources.get("limits") or {})


def _check_container_limits(errors: Errors, path: str, spec: Spec, roof: dict[str, str]) -> None:
    for index, container in enumerate(spec.get("containers", ())):
        for name, quantity in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in roof and parse_quantity(quantity) > parse_quantity(roof[name]):
                here = f"{path}.containers[{index}][{name}].limits"
                errors.append(
                    fielderror.invalid(here, quantity, f"must be less than or equal to pod limits of {roof[name]}")
                )


# -- defaults ---------------------------------------------------------------------------------------------------------


def round_up_to_milli(quantities: dict[str, str]) -> None:
    """Resources are kept to a thousandth; finer amounts are rounded up, in place."""
    for name, quantity in quantities.items():
        if quantity[-1:] in {"n", "u"}:
            quantities[name] = str(Quantity(parse_quantity(quantity).milli_value(), -3))


def default_pod_level_resources(spec: Spec) -> None:
    """Pod-level requests follow the containers' requests, or else the pod-level limits; in place."""
    resources = spec["resources"]
    if not resources.get("limits") and not resources.get("requests"):
        return
    limits = dict(resources.get("limits") or {})
    for name, amount in aggregate(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name not in (resources.get("requests") or {}):
            limits.setdefault(name, str(amount))
    if limits:
        resources["limits"] = limits
    else:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in aggregate(spec, "requests").items():
        if name in _POD_RESOURCES:
            requests.setdefault(name, str(amount))
    for name, quantity in limits.items():
        if name in _POD_RESOURCES or name.startswith(_HUGE_PAGES):
            requests.setdefault(name, quantity)
    if requests:
        resources["requests"] = requests


# -- quality of service -----------------------------------------------------------------------------------------------


def quality_of_service(pod: Spec) -> str:
    """The class that decides which pods go first when a node runs short.

    Guaranteed when every container limits cpu and memory to what it requests, BestEffort when none asks for any, else
    Burstable.
    """
    spec = pod["spec"]
    pod_level = spec.get("resources")
    if pod_level is not None:
        holders: Iterable[Spec] = ({"resources": pod_level},)
        guaranteed = not pod_level.get("limits") or _limits_both(pod_level)
    else:
        containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
        holders = containers
        guaranteed = all(_limits_both(container.get("resources") or {}) for container in containers)
    requests: Amounts = {}
    limits: Amounts = {}
    for holder in holders:
        _add_compute(requests, holder, "requests")
        _add_compute(limits, holder, "limits")
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _limits_both(resources: Spec) -> bool:
    limits = resources.get("limits") or {}
    return all(name in limits and parse_quantity(limits[name]) > _ZERO for name in _QOS_RESOURCES)


def _add_compute(total: Amounts, holder: Spec, side: str) -> None:
    for name, quantity in ((holder.get("resources") or {}).get(side) or {}).items():
        amount = parse_quantity(quantity)
        if name in _QOS_RESOURCES and amount > _ZERO:
            total[name] = total[name] + amount if name in total else amount
