"""An index of the Services that select each Pod, maintained from commits.

A Pod's labels are looked up, pair by pair, among the Services of its namespace: each Service is indexed under one pair
of its selector, so most are never compared, and a namespace without Services costs one look-up. The states of the Pods
that a Service selects are kept, so that a heartbeat changes nothing and no reconcile scans a namespace twice.

Everything here runs within commits: memory only, nothing waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controlplane.controllers.context import request_for
from kapi.controlplane.controllers.serviceendpoints.pods import endpoint_pod, has_address, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod
    from kapi.controlplane.controllers.view import ObjectView

    Pair = tuple[str, str]
    Buckets = dict[Pair, list["SelectingService"]]


class SelectingService:
    """A Service with a selector. It is indexed under `pair`; `rest` are the other pairs of the selector."""

    __slots__ = ("pair", "pods", "request", "rest", "selector")

    def __init__(self, request: Request, selector: dict[str, str], pair: Pair) -> None:
        self.request = request
        self.selector = selector
        self.pair = pair
        self.rest = frozenset(selector.items()) - {pair}
        self.pods: dict[str, EndpointPod] | None = None
        """The Pods with an address that it selects, by name; None before the first reconcile."""


class ServiceIndex:
    """The Services that have selectors, and the Pods they select; one for each controller.

    `load` must be called first, in the same turn of the event loop as the subscription to commits.
    """

    def __init__(self, view: ObjectView) -> None:
        self._view = view
        self._services: dict[Request, SelectingService] = {}
        self._namespaces: dict[str, Buckets] = {}

    def load(self) -> list[Request]:
        """Index the Services there are; the requests for all of them, including those without selectors."""
        self._services.clear()
        self._namespaces.clear()
        requests = []
        for item in self._view.items("services"):
            requests.append(request_for(item))
            self._put(requests[-1], selector_of(item))
        return requests

    def __contains__(self, request: Request) -> bool:
        """Return True if a Service exists and has a selector."""
        return request in self._services

    def pods(self, request: Request) -> Sequence[EndpointPod]:
        """The Pods with an address that a Service selects, sorted by name."""
        service = self._services.get(request)
        if service is None:
            return ()
        if service.pods is None:
            wanted = service.selector.items()
            service.pods = {
                item.name: endpoint_pod(item)
                for item in self._view.items("pods", request.namespace)
                if item.labels and wanted <= item.labels.items() and has_address(item)
            }
        return sorted(service.pods.values(), key=_name)

    # -- events -------------------------------------------------------------------------------------------------------

    def enqueue_service(self, event: Event) -> Iterable[Request]:
        """The Service that changed."""
        request = request_for(event.item)
        self._put(request, None if event.deleted else selector_of(event.item))
        return (request,)

    def enqueue_pod(self, event: Event) -> Iterable[Request]:
        """The Services whose endpoints may change because a Pod did."""
        item = event.item
        buckets = self._namespaces.get(item.namespace)
        if buckets is None:
            return ()
        previous = event.previous
        has_ip = not event.deleted and has_address(item)
        had_ip = previous is not None and has_address(previous)
        now = _selecting(buckets, item.labels) if has_ip else ()
        if previous is None or not had_ip or (has_ip and previous.labels == item.labels):
            return _update(now, item) if now else ()
        left = [each for each in _selecting(buckets, previous.labels) if each not in now]
        for each in left:
            if each.pods is not None:
                each.pods.pop(item.name, None)
        return [each.request for each in left] + _update(now, item)

    # -- the index ----------------------------------------------------------------------------------------------------

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
        service = self._services[request] = SelectingService(request, selector, pair)
        buckets.setdefault(pair, []).append(service)

    def _remove(self, service: SelectingService) -> None:
        del self._services[service.request]
        buckets = self._namespaces[service.request.namespace]
        buckets[service.pair].remove(service)
        if not buckets[service.pair]:
            del buckets[service.pair]
        if not buckets:
            del self._namespaces[service.request.namespace]


def _name(pod: EndpointPod) -> str:
    return pod.name


def _selecting(buckets: Buckets, labels: dict[str, str] | None) -> Sequence[SelectingService]:
    """The Services whose selectors match labels."""
    if not labels:
        return ()
    pairs = labels.items()
    return [service for pair in pairs if pair in buckets for service in buckets[pair] if service.rest <= pairs]


def _update(services: Iterable[SelectingService], item: Item) -> list[Request]:
    """Update the state of a Pod in its Services; the requests for those whose endpoints can change."""
    state: EndpointPod | None = None
    requests = []
    for service in services:
        if service.pods is None:
            requests.append(service.request)
            continue
        state = state or endpoint_pod(item)
        known = service.pods.get(item.name)
        service.pods[item.name] = state
        if known is None or state.differs(known):
            requests.append(service.request)
    return requests
