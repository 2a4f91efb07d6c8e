"""LimitRanger: the defaults, minima, maxima and ratios that LimitRanges set for Pods and PersistentVolumeClaims.

Defaults of requests and limits are given to containers when a Pod is created, and an annotation says which. All
LimitRanges of the namespace apply, in the order of their names.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import RequestEntityTooLarge
from kapi.api.limits import OBJECT_BYTES, OFF_LOOP_BYTES
from kapi.api.meta import GroupResource, is_deleting
from kapi.api.values import Quantity
from kapi.base.offloop import off_loop
from kapi.registry.initializers import is_unseen
from kapi.registry.kinds.core.pod.resources import aggregate
from kapi.registry.quota.amounts import amounts_of
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.namespaceobjects import NamespaceObjects
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

ANNOTATION: Final = "kubernetes.io/limit-ranger"
PODS: Final = GroupResource("", "pods")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")

_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_POD_LEVEL = frozenset({"cpu", "memory"})
_MAX_MILLI = ((1 << 63) - 1) // 1000
"""Amounts up to this are compared in thousandths."""
_ZERO = Quantity(0)
_MOST_PROBLEMS = 1000


class LimitRange:
    """One LimitRange: its items, and the defaults they have for containers."""

    def __init__(self, obj: Object, size: int) -> None:
        self.bytes = size
        self.limits = [Limit(one) for one in (obj.get("spec") or {}).get("limits") or ()]
        self.requests: dict[str, str] = {}
        """The default requests of containers."""
        self.maxima: dict[str, str] = {}
        """The default limits of containers."""
        for limit in self.limits:
            if limit.type == _CONTAINER:
                self.requests.update(limit.default_request)
                self.maxima.update(limit.default)


class Limit:
    """One item of a LimitRange."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.type: str = fields.get("type", "")
        self.min = amounts_of(fields.get("min"))
        self.max = amounts_of(fields.get("max"))
        self.ratio = amounts_of(fields.get("maxLimitRequestRatio"))
        self.default: dict[str, str] = fields.get("default") or {}
        self.default_request: dict[str, str] = fields.get("defaultRequest") or {}

    def problems(self, requests: Amounts, limits: Amounts) -> Iterator[str]:
        """The constraints that a container, or a Pod, does not meet."""
        for name, bound in self.min.items():
            yield from _below_min(self.type, name, bound, requests, limits)
        for name, bound in self.max.items():
            yield from _above_max(self.type, name, bound, requests, limits)
        for name, bound in self.ratio.items():
            yield from _above_ratio(self.type, name, bound, requests, limits)

    def claim_problems(self, requests: Amounts) -> Iterator[str]:
        """The constraints that a claim does not meet; it has no limits."""
        for name, bound in self.min.items():
            yield from _below_min(self.type, name, bound, requests, {})
        for name, bound in self.max.items():
            yield from _request_above_max(self.type, name, bound, requests)


class LimitRanger:
    """Gives containers their defaults, and refuses Pods and claims beyond the limits."""

    reads_only = True

    def __init__(self, catalog: Catalog, forget: Callable[[], None]) -> None:
        store = catalog.store("limitranges")

        def read(item: Item) -> LimitRange:
            return LimitRange(store.decode(item), len(item.body))

        self._ranges = NamespaceObjects(store, read, forget)
        self._initializers = catalog.initializers

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Pods, resizes of Pods, and claims.

        Containers of a Pod never change otherwise, unless initializers are in use, which may add some.
        """
        if not self._ranges:
            return False
        if resource.group_resource == PODS and (operation, subresource) == (UPDATE, ""):
            return self._initializers.is_active
        if resource.group_resource == PODS:
            return (operation, subresource) in {(CREATE, ""), (UPDATE, "resize")}
        return resource.group_resource == CLAIMS and not subresource and operation in {CREATE, UPDATE}

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Give the containers of a Pod the defaults of each LimitRange."""
        if obj is None or write.resource.group_resource != PODS or _is_exempt(write, old):
            return
        for limit_range in await self._ranges.ready(write.namespace):
            if max(write.object_bytes, limit_range.bytes) < OFF_LOOP_BYTES:
                _set_defaults(obj, limit_range)
            else:
                await off_loop(_set_defaults, obj, limit_range)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse what a LimitRange does not allow."""
        if obj is None or _is_exempt(write, old):
            return
        problems_of = _pod_problems if write.resource.group_resource == PODS else _claim_problems
        for limit_range in await self._ranges.ready(write.namespace):
            found = problems_of(limit_range, obj)
            if max(write.object_bytes, limit_range.bytes) < OFF_LOOP_BYTES:
                problems = _first(found)
            else:
                problems = await off_loop(_first, found)
            if problems:
                raise refusal(write, obj, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _first(problems: Iterator[str]) -> list[str]:
    """The first problems. All of them are as many as the containers times the limits, and Kubernetes lists them all."""
    return list(dict.fromkeys(islice(problems, _MOST_PROBLEMS)))


def _is_exempt(write: Write, old: Object | None) -> bool:
    """Return True for objects that are being deleted, and for Pods that have all their containers."""
    if old is not None and is_deleting(old):
        return True
    return write.resource.group_resource == PODS and not write.subresource and not is_unseen(write, old)


# -- defaults ---------------------------------------------------------------------------------------------------------


def _set_defaults(pod: Object, limit_range: LimitRange) -> None:
    notes: list[str] = []
    added = 0
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field) or ():
            given = _merge(container, "limits", limit_range.maxima)
            asked = _merge(container, "requests", limit_range.requests)
            added += sum(map(len, asked)) + sum(map(len, given))
            if added > OBJECT_BYTES:
                # Before more is added: defaults times containers can be gigabytes.
                raise RequestEntityTooLarge(f"limit is {OBJECT_BYTES}")
            for names, side in ((asked, "request"), (given, "limit")):
                if names:
                    notes.append(f"{', '.join(sorted(names))} {side} for {kind} {container['name']}")
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        text = "LimitRanger plugin set: " + "; ".join(notes)
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: text}


def _merge(container: dict[str, Any], side: str, defaults: dict[str, str]) -> list[str]:
    """Add defaults to the requests or limits of a container; the names that were missing."""
    resources = container.get("resources") or {}
    amounts = resources.get(side) or {}
    missing = [name for name in defaults if name not in amounts]
    if missing:
        amounts = {**amounts, **{name: defaults[name] for name in missing}}
        container["resources"] = {**resources, side: amounts}
    return missing


# -- constraints ------------------------------------------------------------------------------------------------------


def _pod_problems(limit_range: LimitRange, pod: Object) -> Iterator[str]:
    spec = pod["spec"]
    for limit in limit_range.limits:
        if limit.type == _CONTAINER:
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from limit.problems(amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))
        elif limit.type == _POD:
            yield from limit.problems(_pod_total(spec, "requests"), _pod_total(spec, "limits"))


def _pod_total(spec: dict[str, Any], side: str) -> Amounts:
    """The requests or limits of a Pod as its spec has them; resources of the Pod as a whole replace the sum."""
    of_pod = amounts_of((spec.get("resources") or {}).get(side))
    return {**aggregate(spec, side), **{name: amount for name, amount in of_pod.items() if name in _POD_LEVEL}}


def _claim_problems(limit_range: LimitRange, claim: Object) -> Iterator[str]:
    requests = amounts_of((claim["spec"].get("resources") or {}).get("requests"))
    for limit in limit_range.limits:
        if limit.type == _CLAIM:
            yield from limit.claim_problems(requests)


def _comparable(*amounts: Quantity) -> tuple[int, ...]:
    """The amounts in thousandths, or in whole units when one of them is too large for that."""
    whole = tuple(one.value() for one in amounts)
    return tuple(one.milli_value() for one in amounts) if max(whole) <= _MAX_MILLI else whole


def _below_min(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {bound}"
    request, limit, least = _comparable(requests.get(name, _ZERO), limits.get(name, _ZERO), bound)
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif request < least:
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and limit < least:
        yield f"{start}, but limit is {limits[name]}"


def _above_max(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {bound}"
    request, limit, most = _comparable(requests.get(name, _ZERO), limits.get(name, _ZERO), bound)
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif limit > most:
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and request > most:
        yield f"{start}, but request is {requests[name]}"


def _request_above_max(kind: str, name: str, bound: Quantity, requests: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {bound}"
    request, most = _comparable(requests.get(name, _ZERO), bound)
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif request > most:
        yield f"{start}, but request is {requests[name]}"


def _above_ratio(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit, _ = _comparable(requests.get(name, _ZERO), limits.get(name, _ZERO), bound)
    if not request:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit:
        yield f"{start}, but no limit is specified or limit is 0"
    else:
        ratio = limit / request
        is_exact = bound.value() <= _MAX_MILLI
        if (ratio * 1000 if is_exact else ratio) > (bound.milli_value() if is_exact else bound.value()):
            yield f"{start}, but provided ratio is {ratio:.6f}"
