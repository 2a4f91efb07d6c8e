"""Priority: the priority and preemption policy of Pods from their PriorityClass, and at most one default class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.initializers import is_unseen
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")
CLASSES: Final = GroupResource("scheduling.k8s.io", "priorityclasses")
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"

_NO_CLASS: Final[Object] = {"value": 0, "preemptionPolicy": PREEMPT_LOWER_PRIORITY}
"""The class of Pods that name none while none is the default."""


class Priority:
    """Resolves the PriorityClass of new Pods, and refuses a second default class."""

    reads_only = True

    def __init__(self, catalog: Catalog) -> None:
        self._store = catalog.store(str(CLASSES))
        self._default: Object | None = None
        self._is_known = False
        self._store.cache.listen(self._take)

    def _take(self, events: Sequence[Event]) -> None:
        self._is_known = False

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods and classes that are created or changed."""
        return not subresource and operation in {CREATE, UPDATE} and resource.group_resource in {PODS, CLASSES}

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set the priority of a new Pod; an update that leaves it out keeps it."""
        if obj is None or write.resource.group_resource != PODS:
            return
        if is_unseen(write, old):
            self._resolve(write, obj)
        elif old is not None:
            for field in ("priority", "preemptionPolicy"):
                if obj["spec"].get(field) is None and old["spec"].get(field) is not None:
                    obj["spec"][field] = old["spec"][field]

    def _resolve(self, write: Write, pod: Object) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName")
        if name:
            item = self._store.find("", name)
            if item is None:
                raise refusal(write, pod, f"no PriorityClass with name {name} was found")
            chosen: Object = self._store.decode(item)
        else:
            chosen = self._default_class() or _NO_CLASS
            if "metadata" in chosen:
                spec["priorityClassName"] = chosen["metadata"]["name"]
        value, given = chosen.get("value", 0), spec.get("priority")
        computed = "priority admission controller computed {} from the given PriorityClass name"
        if given is not None and given != value:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; {computed.format(value)}"
            raise refusal(write, pod, why)
        spec["priority"] = value
        policy, given = chosen.get("preemptionPolicy"), spec.get("preemptionPolicy")
        if policy is None:
            return
        if given is not None and given != policy:
            why = f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            raise refusal(write, pod, why + computed.format(policy))
        spec["preemptionPolicy"] = policy

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse a second default class."""
        if obj is None or write.resource.group_resource != CLASSES or not obj.get("globalDefault"):
            return
        default = self._default_class()
        if default is None:
            return
        name = default["metadata"]["name"]
        if write.operation == CREATE or name != obj["metadata"]["name"]:
            raise refusal(write, obj, f"PriorityClass {name} is already marked as default. Only one default can exist")

    def _default_class(self) -> Object | None:
        """The default class; of several, which only a race can make, the one with the lowest value."""
        if not self._is_known:
            classes = (self._store.decode(item) for item in self._store.cache.items())
            defaults = [one for one in classes if one.get("globalDefault")]
            self._default = min(defaults, key=lambda one: one.get("value", 0), default=None)
            self._is_known = True
        return self._default
