"""Warnings about the Pods that a namespace has already when it gets a stricter level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.server.admission.podsecurity.evaluation import evaluate
from kapi.server.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Collection

    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Item
    from kapi.registry.store import Store
    from kapi.server.admission.podsecurity.levels import LevelVersion

MAX_PODS: Final = 3000
"""Pods of a namespace that are checked."""
MAX_SECONDS: Final = 1.0
"""Seconds after which no further Pod is checked."""


class _Violations:
    """The Pods with the same violations: how many, and the first by name."""

    def __init__(self, name: str) -> None:
        self.first = name
        self.count = 0

    def add(self, name: str) -> None:
        """Count one more."""
        self.first = min(self.first, name)
        self.count += 1

    def __str__(self) -> str:
        if self.count == 1:
            return self.first
        others = "1 other pod" if self.count == 2 else f"{self.count - 1} other pods"
        return f"{self.first} (and {others})"


class ExistingPods:
    """Checks the stored Pods of a namespace, within bounds."""

    def __init__(self, pods: Store, runtime_classes: Collection[str], clock: Clock) -> None:
        self._pods = pods
        self._exempt = runtime_classes
        self._clock = clock
        self._turns = Turns()
        """Decoding many Pods takes long; other requests are served in between."""

    async def warnings(self, namespace: str, level: LevelVersion) -> list[str]:
        """Return the warnings about the Pods of a namespace that a level refuses."""
        deadline = self._clock.monotonic() + MAX_SECONDS
        pods = await self._prioritized(namespace)
        found: dict[str, _Violations] = {}
        checked = 0

        def check(item: Item) -> None:
            nonlocal checked
            if checked and self._clock.monotonic() >= deadline:
                return
            checked += 1
            pod = self._pods.decode(item)
            result = evaluate(level, pod["metadata"], pod.get("spec") or {})
            if not result.allowed:
                found.setdefault(result.reason, _Violations(item.name)).add(item.name)

        await self._turns.map(check, pods[:MAX_PODS])
        warnings = []
        if checked < len(pods):
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {checked} of {len(pods)} existing pods"
            )
        if found:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
            )
        return warnings + sorted(f"{violating}: {reason}" for reason, violating in found.items())

    async def _prioritized(self, namespace: str) -> list[Item]:
        """Return the Pods that are not exempt: one of each controller first, then the others of each controller."""
        first: list[Item] = []
        replicas: list[Item] = []
        controllers: set[str] = set()

        def sort(item: Item) -> None:
            if item.owners is None and not self._exempt:
                first.append(item)
                return
            pod = self._pods.decode(item)
            if (pod.get("spec") or {}).get("runtimeClassName") in self._exempt:
                return
            owners = pod["metadata"].get("ownerReferences") or ()
            controller = next((owner["uid"] for owner in owners if owner.get("controller")), "")
            (replicas if controller in controllers else first).append(item)
            if controller:
                controllers.add(controller)

        await self._turns.map(sort, self._pods.cache.items(f"{self._pods.prefix}{namespace}/"))
        return first + replicas
