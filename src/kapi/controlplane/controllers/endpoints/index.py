"""Which Services select which Pods, kept from the commit feed, so that a change of a Pod finds its Services at once.

A Pod's labels are looked up, pair by pair, among the Services of its namespace: each Service lies under one pair of its
selector, so most are never looked at, and a namespace without Services costs one look-up. Of the Pods that a Service
selects, the facts are kept: a heartbeat is compared and forgotten, and no reconcile scans a namespace twice.

Everything here runs inside commits: memory only, nothing waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.endpoints.facts import has_address, pod_facts, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.endpoints.facts import PodFacts
    from kapi.controlplane.controllers.inventory import Inventory

    Pair = tuple[str, str]
    Buckets = dict[Pair, list["Selecting"]]

_NOTHING: tuple[Request, ...] = ()


class Selecting:
    """A Service with a selector. `pair` is what it is found by, `rest` what else must be there."""

    __slots__ = ("pair", "pods", "request", "rest", "selector")

    def __init__(self, request: Request, selector: dict[str, str], pair: Pair) -> None:
        self.request = request
        self.selector = selector
        self.pair = pair
        self.rest = frozenset(selector.items()) - {pair}
        self.pods: dict[str, PodFacts] | None = None
        """The Pods it selects that have an address, by name; None until somebody asked for them."""


class ServiceIndex:
    """The Services that have selectors, and the Pods they select. One per controller that needs it.

    `load` before anything else, in the same turn of the loop as listening begins.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._services: dict[Request, Selecting] = {}
        self._namespaces: dict[str, Buckets] = {}

    def load(self) -> list[Request]:
        """Take in the Services there are; the keys of all of them, of those without selectors too."""
        self._services.clear()
        self._namespaces.clear()
        requests = []
        for item in self._inventory.items("services"):
            requests.append(Request(item.namespace, item.name))
            self._put(requests[-1], selector_of(item))
        return requests

    def __contains__(self, request: Request) -> bool:
        """Whether there is such a Service and it has a selector."""
        return request in self._services

    def pods(self, request: Request) -> Sequence[PodFacts]:
        """The Pods with addresses that a Service selects, by name."""
        service = self._services.get(request)
        if service is None:
            return ()
        if service.pods is None:
            wanted = service.selector.items()
            service.pods = {
                item.name: pod_facts(item)
                for item in self._inventory.items("pods", request.namespace)
                if item.labels and wanted <= item.labels.items() and has_address(item)
            }
        return sorted(service.pods.values(), key=_name)

    # -- hearing ------------------------------------------------------------------------------------------------------

    def hear_service(self, event: Event) -> Iterable[Request]:
        """A Service changed: so may its endpoints."""
        request = Request(event.item.namespace, event.item.name)
        self._put(request, None if event.deleted else selector_of(event.item))
        return (request,)

    def hear_pod(self, event: Event) -> Iterable[Request]:
        """The Services whose endpoints may change because a Pod did."""
        item = event.item
        buckets = self._namespaces.get(item.namespace)
        if buckets is None:
            return _NOTHING
        previous = event.previous
        is_there = not event.deleted and has_address(item)
        was_there = previous is not None and has_address(previous)
        now = _found(buckets, item.labels) if is_there else ()
        if previous is None or not was_there or (is_there and previous.labels == item.labels):
            return _entered(now, item) if now else _NOTHING
        left = [each for each in _found(buckets, previous.labels) if each not in now]
        for each in left:
            if each.pods is not None:
                each.pods.pop(item.name, None)
        return [each.request for each in left] + _entered(now, item)

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _put(self, request: Request, selector: dict[str, str] | None) -> None:
        known = self._services.get(request)
        if known is not None:
            if known.selector == selector:
                return
            self._remove(known)
        if selector is None:
            return
        buckets = self._namespaces.setdefault(request.namespace, {})
        # Under the pair that fewest others are under: `app: web` rather than `team: a`.
        pair = min(selector.items(), key=lambda pair: len(buckets.get(pair, ())))
        service = self._services[request] = Selecting(request, selector, pair)
        buckets.setdefault(pair, []).append(service)

    def _remove(self, service: Selecting) -> None:
        del self._services[service.request]
        buckets = self._namespaces[service.request.namespace]
        buckets[service.pair].remove(service)
        if not buckets[service.pair]:
            del buckets[service.pair]
        if not buckets:
            del self._namespaces[service.request.namespace]


def _name(pod: PodFacts) -> str:
    return pod.name


def _found(buckets: Buckets, labels: dict[str, str] | None) -> Sequence[Selecting]:
    """The Services that select these labels."""
    if not labels:
        return ()
    pairs = labels.items()
    return [service for pair in pairs if pair in buckets for service in buckets[pair] if service.rest <= pairs]


def _entered(services: Iterable[Selecting], item: Item) -> list[Request]:
    """Take in the state of a Pod; the Services to whom it makes a difference."""
    facts: PodFacts | None = None
    concerned = []
    for service in services:
        if service.pods is None:
            concerned.append(service.request)
            continue
        facts = facts or pod_facts(item)
        known = service.pods.get(item.name)
        service.pods[item.name] = facts
        if known is None or facts.differs(known):
            concerned.append(service.request)
    return concerned
