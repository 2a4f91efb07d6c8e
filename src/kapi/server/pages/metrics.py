"""/metrics: what the server does, in Prometheus' words and under the names tools already look for.

Label values come from closed sets only (the catalog's resources, known verbs, status codes): what a client sends
never becomes a label, so the number of series cannot be driven up from outside.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.cache.watchcache import CacheHub
    from kapi.registry.resource import Resource

CONTENT_TYPE = CONTENT_TYPE_LATEST
LAG_INTERVAL = 0.5

_VERBS = frozenset({"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection", "connect"})
_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "code")
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The meters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter("apiserver_request", "Requests answered.", _REQUEST_LABELS, registry=self.registry)
        self._latency = Histogram(
            "apiserver_request_duration_seconds",
            "Time from the request being whole to its answer; watches are not in here.",
            _REQUEST_LABELS[:-1],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests being answered.", ("request_kind",), registry=self.registry
        )
        self._inflight = {True: inflight.labels("mutating"), False: inflight.labels("readOnly")}
        self._longrunning = Gauge(
            "apiserver_longrunning_requests", "Watches open.", ("group", "version", "resource"), registry=self.registry
        )
        self._commits = Counter("kapi_storage_commits", "Durable commits made by the store.", registry=self.registry)
        self._commit_seconds = Histogram(
            "kapi_storage_commit_seconds",
            "Time of a commit, fsync included.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "kapi_storage_batch_size", "Writes per commit.", buckets=_BATCH_BUCKETS, registry=self.registry
        )
        self._lag = Histogram(
            "kapi_event_loop_lag_seconds",
            "How late the event loop was.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._series: dict[
            tuple[str, Resource | None, str, int], tuple[Callable[[], None], Callable[[float], None]]
        ] = {}

    # -- requests ---------------------------------------------------------------------------------------------------

    def begin(self, method: str) -> bool:
        """A request has arrived; returns what `end` wants back."""
        mutating = method in _MUTATING
        self._inflight[mutating].inc()
        return mutating

    def end(
        self, verb: str, resource: Resource | None, subresource: str, code: int, seconds: float, *, mutating: bool
    ) -> None:
        """It has been answered."""
        self._inflight[mutating].dec()
        key = (verb, resource, subresource, code)
        series = self._series.get(key)
        if series is None:
            series = self._series_for(*key)
        count, observe = series
        count()
        observe(seconds)

    def _series_for(
        self, verb: str, resource: Resource | None, subresource: str, code: int
    ) -> tuple[Callable[[], None], Callable[[float], None]]:
        if verb not in _VERBS:
            verb = "other"
        known = resource is not None and (not subresource or subresource in resource.subresources)
        group, version, name = (resource.group, resource.version, resource.resource) if resource else ("", "", "")
        labels = (verb, group, version, name, subresource if known else "")
        series = (self._requests.labels(*labels, code).inc, self._latency.labels(*labels).observe)
        if known or not subresource:
            self._series[verb, resource, subresource, code] = series
        return series

    def watching(self, resource: Resource) -> Gauge:
        """The gauge of open watches of a resource."""
        return self._longrunning.labels(resource.group, resource.version, resource.resource)

    # -- storage and loop -------------------------------------------------------------------------------------------

    def committed(self, batch_size: int, seconds: float) -> None:
        """The store has made a commit."""
        self._commits.inc()
        self._commit_seconds.observe(seconds)
        self._batch.observe(batch_size)

    async def watch_loop_lag(self) -> None:
        """Measure how late timers fire, for ever."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(LAG_INTERVAL)
            self._lag.observe(max(0.0, time.perf_counter() - before - LAG_INTERVAL))

    def observe_caches(self, hub: CacheHub) -> None:
        """Report object and watcher counts at each scrape."""
        self.registry.register(_Caches(hub))

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)


class _Caches(Collector):
    """Counts taken from the watch caches when asked, so that keeping them costs nothing."""

    def __init__(self, hub: CacheHub) -> None:
        self._hub = hub

    def collect(self) -> Iterable[GaugeMetricFamily]:
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=["resource"])
        watchers = GaugeMetricFamily("apiserver_registered_watchers", "Watches open.", labels=["resource"])
        for cache in self._hub.caches:
            group, resource = cache.prefix.split("/")[2:4]
            name = resource if group == "core" else f"{resource}.{group}"
            objects.add_metric([name], len(cache))
            watchers.add_metric([name], cache.watchers)
        revision = GaugeMetricFamily("kapi_storage_revision", "The latest revision.", value=self._hub.revision)
        return [objects, watchers, revision]
