"""Prometheus metrics of informers: lists, watches, failures, and how far behind they are.

The `reflector_` names are those of client-go, and so is `informer_queued_items`; what it has no name for is named in
the same manner. `name` is the informer's, which says the kind, the namespace and the selectors. Counters are fed when a
list or a watch ends, never for each event; sizes and ages are read off the living informers when Prometheus asks. One
set of families per registry. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from prometheus_client import CollectorRegistry, Counter, Summary
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kapi.informer.states import TRANSITIONS, Outcome, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DIGITS: Final = 10**15
"""A gauge holds so many digits exactly; of longer revisions it shows the last ones, as client-go does."""


class Reflecting(Protocol):
    """The values of a reflector that are metrics."""

    @property
    def resource_version(self) -> str:
        """The revision up to which everything has been handed on."""
        ...

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the server last sent anything."""
        ...


class Holding(Protocol):
    """The values of an informer that are metrics."""

    @property
    def has_synced(self) -> bool:
        """Return True if the cache is filled."""
        ...

    @property
    def items(self) -> int:
        """Return the number of objects in the cache."""
        ...

    @property
    def queued_items(self) -> int:
        """Return the number of objects with changes that are not in the cache yet."""
        ...


class InformerMetrics:
    """The metrics of all informers that share a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = _families.get(registry)
        if families is None:
            families = _families[registry] = _Families(registry)
        self._families = families

    def reflector(self, name: str, reflector: Reflecting) -> ReflectorMeter:
        """The meter of a reflector. Of two with one name, the later is the one whose revision and age are shown."""
        self._families.gauges.reflectors[name] = reflector
        return ReflectorMeter(name, self._families)

    def informer(self, name: str, informer: Holding) -> None:
        """Show how much an informer holds, while it lives."""
        self._families.gauges.informers[name] = informer

    def forget(self, name: str, informer: Holding) -> None:
        """Drop the metrics of an informer, unless another of that name has taken its place."""
        if self._families.gauges.informers.get(name) is informer:
            del self._families.gauges.informers[name]


class ReflectorMeter:
    """The meters of one reflector, there at zero as soon as it is."""

    def __init__(self, name: str, families: _Families) -> None:
        self._lists = families.lists.labels(name)
        self._list_seconds = families.list_seconds.labels(name)
        self._list_items = families.list_items.labels(name)
        self._watches = families.watches.labels(name)
        self._short_watches = families.short_watches.labels(name)
        self._watch_seconds = families.watch_seconds.labels(name)
        self._watch_items = families.watch_items.labels(name)
        self._outcomes = {
            (state, outcome): families.outcomes.labels(name, state.value, outcome.value)
            for state, outcomes in TRANSITIONS.items()
            for outcome in outcomes
        }

    def ended(self, state: State, outcome: Outcome, seconds: float) -> None:
        """A list, a stream of everything, or a watch is over."""
        self._outcomes[state, outcome].inc()
        if state is State.WATCHING:
            self._watches.inc()
            self._watch_seconds.observe(seconds)
            if outcome is Outcome.BRIEF:
                self._short_watches.inc()
        else:
            self._lists.inc()
            self._list_seconds.observe(seconds)

    def listed(self, items: int) -> None:
        """A list was complete."""
        self._list_items.observe(items)

    def watched(self, items: int) -> None:
        """A watch ended in good order."""
        self._watch_items.observe(items)


class _Gauges(Collector):
    """Reads what is to be read when Prometheus asks."""

    def __init__(self) -> None:
        self.reflectors: WeakValueDictionary[str, Reflecting] = WeakValueDictionary()
        self.informers: WeakValueDictionary[str, Holding] = WeakValueDictionary()

    def describe(self) -> Iterable[Any]:
        """Return nothing: the registry would otherwise collect at registration."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges."""
        reflectors, informers = sorted(self.reflectors.items()), sorted(self.informers.items())
        yield _gauge("reflector_last_resource_version", "The revision of the cache.", reflectors, _revision)
        yield _gauge(
            "reflector_silent_seconds",
            "Seconds since the server last sent anything: more than a minute or two is an outage.",
            reflectors,
            lambda reflector: reflector.silent_seconds,
        )
        yield _gauge("informer_items", "Objects in the cache.", informers, lambda informer: informer.items)
        yield _gauge(
            "informer_queued_items",
            "Notifications that are not in the cache yet.",
            informers,
            lambda informer: informer.queued_items,
        )
        yield _gauge(
            "informer_synced",
            "1 if the informer has synced, else 0.",
            informers,
            lambda informer: int(informer.has_synced),
        )


class _Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"reflector_{name}", text, ("name", *labels), registry=registry)

        def summary(name: str, text: str) -> Summary:
            return Summary(f"reflector_{name}", text, ("name",), registry=registry)

        self.lists = counter("lists", "Lists and streamed lists, failed ones included.")
        self.list_seconds = summary("list_duration_seconds", "Duration of a list, in seconds.")
        self.list_items = summary("items_per_list", "Objects in a list.")
        self.watches = counter("watches", "Watches that have ended.")
        self.short_watches = counter("short_watches", "Watches that ended almost immediately.")
        self.watch_seconds = summary("watch_duration_seconds", "Duration of a watch, in seconds.")
        self.watch_items = summary("items_per_watch", "Events in a watch that ended without an error.")
        self.outcomes = counter("outcomes", "Transitions of the reflector, by state and outcome.", "state", "outcome")
        self.gauges = _Gauges()
        registry.register(self.gauges)


def _gauge(name: str, text: str, things: Iterable[tuple[str, Any]], read: Callable[[Any], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("name",))
    for label, thing in things:
        family.add_metric((label,), read(thing))
    return family


def _revision(reflector: Reflecting) -> float:
    version = reflector.resource_version
    return float(int(version) % _DIGITS) if version.isascii() and version.isdigit() else 0.0


_families: WeakKeyDictionary[CollectorRegistry, _Families] = WeakKeyDictionary()
