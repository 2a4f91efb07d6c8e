"""The decision about one write: which quotas it is charged to, with what amounts, or why it is refused.

Pure: it reads the write, the quotas and the configuration, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import PlainError
from kapi.registry.initializers import is_unseen
from kapi.registry.quota.amounts import ZERO, amounts_of, only
from kapi.registry.quota.evaluators import CLAIMS, DEVICE_CLAIMS, PODS, SERVICES, compute_usage, is_counted
from kapi.registry.quota.podresources import has_pod_level_resources
from kapi.registry.quota.scopes import scopes_of
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kapi.api.meta import GroupResource, Object
    from kapi.api.values import Quantity
    from kapi.cache.watchcache import Item
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.evaluators import Evaluator
    from kapi.registry.quota.scopes import Scope
    from kapi.registry.request import Write
    from kapi.server.admission.resourcequota.configuration import LimitedResource

UPDATES: Final[Mapping[GroupResource, frozenset[str]]] = {
    PODS: frozenset({"", "resize"}),
    CLAIMS: frozenset({"", "status"}),
    SERVICES: frozenset({""}),
    DEVICE_CLAIMS: frozenset({""}),
}
"""The endpoints by which an update may change the usage of an object."""

_SCOPED = frozenset({PODS, CLAIMS})
_MUST_SPECIFY = frozenset(
    {"cpu", "memory", *(f"{side}.{name}" for side in ("requests", "limits") for name in ("cpu", "memory"))}
)


class Quota:
    """One quota as it is stored: its limits, usage and scopes, parsed."""

    __slots__ = ("_names", "hard", "item", "name", "obj", "scopes", "used")

    def __init__(self, item: Item, obj: Object) -> None:
        status = obj.get("status") or {}
        self.item = item
        self.obj = obj
        self.name = item.name
        self.hard = amounts_of(status.get("hard"))
        self.used = amounts_of(status.get("used"))
        self.scopes = scopes_of(obj)
        self._names: dict[GroupResource, list[str]] = {}

    def names(self, evaluator: Evaluator) -> list[str]:
        """The names of its limits that concern a resource."""
        names = self._names.get(evaluator.resource)
        if names is None:
            names = self._names[evaluator.resource] = [name for name in self.hard if evaluator.concerns(name)]
        return names


class Asked(NamedTuple):
    """A write that is to be charged, with the evaluator of its resource and the time."""

    write: Write
    obj: Object
    old: Object | None
    evaluator: Evaluator
    now: dt.datetime

    def usage(self, obj: Object) -> Amounts:
        """The usage of the object before or after the write."""
        return self.evaluator.usage(obj, self.now)


def may_change_usage(operation: str, resource: GroupResource, subresource: str) -> bool:
    """Return True if such a write can change the usage of a quota."""
    if operation == CREATE:
        return not subresource
    return operation == UPDATE and subresource in UPDATES.get(resource, ())


def changes_usage(write: Write, obj: Object, old: Object | None) -> bool:
    """Return True unless it is an update of a Pod that changes nothing that counts."""
    if write.operation != UPDATE or write.subresource or write.resource.group_resource != PODS or old is None:
        return True
    return _is_terminating(obj) != _is_terminating(old) or is_unseen(write, old)


def _is_terminating(pod: Object) -> bool:
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def charges_for(
    asked: Asked, quotas: Sequence[Quota], used: Mapping[str, Amounts], limited: Sequence[LimitedResource]
) -> dict[str, Amounts]:
    """The amounts that a write is charged, by the key of the quota; only quotas that are charged.

    `used` is the usage of each quota, with the charges of writes that were decided before this one. Raises Forbidden
    when the write would exceed a quota.
    """
    applying = [quota for quota in quotas if _applies(asked, quota)]
    usage = asked.usage(asked.obj)
    negative = sorted(name for name, amount in usage.items() if amount < ZERO)
    if negative:
        raise _refused(asked, f"quota usage is negative for resource(s): {','.join(negative)}")
    deltas = _deltas(asked, applying, usage)
    if not any(deltas.values()):
        return {}
    _require_cover(asked, quotas, applying, usage, limited)
    return {
        quota.item.key: charged
        for quota in applying
        if (charged := only(deltas[quota.item.key], quota.hard))
        and _require_fit(asked, quota, charged, used[quota.item.key])
    }


def _refused(asked: Asked, why: str) -> Exception:
    return refusal(asked.write, asked.obj, why)


def _applies(asked: Asked, quota: Quota) -> bool:
    """Return True if a quota limits the object; raise when it must say more, or the usage is not counted yet."""
    evaluator = asked.evaluator
    names = quota.names(evaluator)
    if not names or not is_counted(evaluator, quota.scopes, asked.obj):
        return False
    missing = _unspecified(asked, names)
    if missing:
        raise _refused(asked, f"failed quota: {quota.name}: must specify {missing}")
    if any(name not in quota.used for name in names):
        raise _refused(asked, f"status unknown for quota: {quota.name}, resources: {','.join(sorted(names))}")
    return True


def _unspecified(asked: Asked, names: Collection[str]) -> str:
    """The amounts that a quota limits and containers of a Pod do not specify."""
    if asked.evaluator.resource != PODS or has_pod_level_resources(asked.obj):
        return ""
    required = _MUST_SPECIFY.intersection(names)
    if not required:
        return ""
    spec = asked.obj["spec"]
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        given = compute_usage(amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))
        for name in required.difference(given):
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _deltas(asked: Asked, applying: Iterable[Quota], usage: Amounts) -> dict[str, Amounts]:
    """The amounts to charge by quota; under the empty key those that count when no quota applies."""
    if asked.old is None:
        grown = usage
    else:
        before = asked.usage(asked.old)
        grown = {name: amount - before[name] if name in before else amount for name, amount in usage.items()}
    deltas = {
        quota.item.key: grown if asked.old is not None and _counted_before(asked, quota, asked.old) else usage
        for quota in applying
    }
    return {key: _above_zero(amounts) for key, amounts in (deltas or {"": grown}).items()}


def _counted_before(asked: Asked, quota: Quota, old: Object) -> bool:
    return is_counted(asked.evaluator, quota.scopes, old)


def _above_zero(amounts: Mapping[str, Quantity]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount > ZERO}


def _require_cover(
    asked: Asked, quotas: Iterable[Quota], applying: Iterable[Quota], usage: Amounts, limited: Sequence[LimitedResource]
) -> None:
    """Raise when amounts or scopes that are limited by configuration are not covered by a quota."""
    if not limited:
        return
    evaluator = asked.evaluator
    names = {
        name
        for one in limited
        if one.resource == evaluator.resource
        for name, amount in usage.items()
        if amount > ZERO and any(part in name for part in one.contains)
    }
    covered = {name for quota in applying for name in quota.names(evaluator)}
    if uncovered := sorted(names - covered):
        raise _refused(asked, f"insufficient quota to consume: {','.join(uncovered)}")
    if evaluator.resource not in _SCOPED:
        return
    in_quotas = {scope.name for quota in quotas for scope in quota.scopes if evaluator.is_in_scope(scope, asked.obj)}
    scopes = [scope for one in limited for scope in one.scopes if evaluator.is_in_scope(scope, asked.obj)]
    if open_scopes := [scope for scope in scopes if scope.name not in in_quotas]:
        shown = " ".join(map(_shown, open_scopes))
        raise PlainError(f"insufficient quota to match these scopes: [{shown}]")


def _shown(scope: Scope) -> str:
    return f"{{{scope.name} {scope.operator} [{' '.join(scope.values)}]}}"


def _require_fit(asked: Asked, quota: Quota, charged: Amounts, used: Amounts) -> bool:
    """Raise when the amounts do not fit into a quota; what a status reports is charged whatever it is."""
    if asked.write.subresource == "status":
        return True
    exceeded = [name for name, amount in charged.items() if used.get(name, ZERO) + amount > quota.hard[name]]
    if exceeded:
        requested, before, hard = (_printed(only(one, exceeded)) for one in (charged, used, quota.hard))
        why = f"exceeded quota: {quota.name}, requested: {requested}, used: {before}, limited: {hard}"
        raise _refused(asked, why)
    return True


def _printed(amounts: Amounts) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
