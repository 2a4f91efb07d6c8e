"""/metrics: the metrics of the server in Prometheus' format, under the names of kube-apiserver where it has the same.

Label values come from closed sets (served resources, known verbs, status codes), never from what a client sends. Series
of a resource that is no longer served are dropped at the next scrape, and their number is bounded in between: a client
that may create CustomResourceDefinitions could otherwise fill memory with them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from kapi.server.pages.requestmetrics import LATENCY_BUCKETS, RequestMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from kapi.cache.watchcache import CacheHub
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.pages.health import Health
    from kapi.server.transport.memory import MemoryAccount
    from kapi.server.transport.serve import Server
    from kapi.storage.sqlite.scrub import Scrub

CONTENT_TYPE = CONTENT_TYPE_LATEST
LAG_INTERVAL = 0.05
"""Seconds between two measurements of the event loop's lag: a stall is under-reported by at most this."""
LAG_WINDOW = 60.0
"""The longest lag is reported for at least this many seconds."""

_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scraped = CollectorRegistry()
        """Collectors that read what belongs to the event loop at each scrape; the others have locks."""
        ProcessCollector(registry=self.registry)
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        self._longrunning = Gauge(
            "apiserver_longrunning_requests", "Watches open.", ("group", "version", "resource"), registry=self.registry
        )
        self._commits = Counter("kapi_storage_commits", "Durable commits made by the store.", registry=self.registry)
        self._commit_seconds = Histogram(
            "kapi_storage_commit_seconds",
            "Time of a commit, fsync included.",
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "kapi_storage_batch_size", "Writes per commit.", buckets=_BATCH_BUCKETS, registry=self.registry
        )
        self.lag = LoopLag(self.registry)
        self._slis = CollectorRegistry()

    # -- requests ---------------------------------------------------------------------------------------------------

    def watching(self, resource: Resource) -> Gauge:
        """Return the gauge of open watches of a resource."""
        return self._longrunning.labels(resource.group, resource.version, resource.resource)

    # -- storage and loop -------------------------------------------------------------------------------------------

    def committed(self, batch_size: int, seconds: float) -> None:
        """Count a commit of the store."""
        self._commits.inc()
        self._commit_seconds.observe(seconds)
        self._batch.observe(batch_size)

    def observe(self, catalog: Catalog, health: Health) -> None:
        """Report the counts of a catalog's caches and the results of health checks at each scrape."""
        self.requests.catalog = catalog
        self.scraped.register(_Caches(catalog.hub))
        self._slis.register(health.results)

    def observe_memory(self, account: MemoryAccount) -> None:
        """Report the bytes held for peers at each scrape."""
        self.scraped.register(_HeldBytes(account))

    def observe_scrub(self, scrub: Scrub) -> None:
        """Report what the scrub of the store has read and found at each scrape."""
        self.scraped.register(_Scrubbed(scrub))

    def observe_connections(self, server: Server) -> None:
        """Report the connections of a server at each scrape."""
        self.scraped.register(_Connections(server))

    def render(self) -> bytes:
        """Return the page /metrics."""
        self.requests.drop_unserved(self._longrunning.remove)
        return generate_latest(self.registry) + generate_latest(self.scraped)

    async def page(self) -> bytes:
        """Return the page /metrics, and do not hold the event loop: the series of requests can be thousands."""
        self.requests.drop_unserved(self._longrunning.remove)
        return await asyncio.to_thread(generate_latest, self.registry) + generate_latest(self.scraped)

    def render_slis(self) -> bytes:
        """Return the page /metrics/slis: the results of health checks."""
        return generate_latest(self._slis)


class LoopLag:
    """The lag of the event loop: how late its timers fire, which is how long a request may wait to be looked at."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._observe = Histogram(
            "kapi_event_loop_lag_seconds", "How late the event loop was.", buckets=LATENCY_BUCKETS, registry=registry
        ).observe
        longest = Gauge(
            "kapi_event_loop_lag_longest_seconds",
            "The longest lag of the event loop in the last one to two minutes.",
            registry=registry,
        )
        longest.set_function(lambda: self.longest)
        self._present = self._previous = 0.0

    @property
    def longest(self) -> float:
        """The longest lag of the present window and the one before, in seconds."""
        return max(self._present, self._previous)

    async def run(self) -> None:
        """Measure until cancelled."""
        began = time.perf_counter()
        while True:
            before = time.perf_counter()
            if before - began > LAG_WINDOW:
                began, self._previous, self._present = before, self._present, 0.0
            await asyncio.sleep(LAG_INTERVAL)
            self.record(max(0.0, time.perf_counter() - before - LAG_INTERVAL))

    def record(self, seconds: float) -> None:
        """Record one measurement."""
        self._observe(seconds)
        self._present = max(self._present, seconds)


class _Caches(Collector):
    """Counts that are taken from the watch caches at each scrape, so that requests do not pay for them."""

    def __init__(self, hub: CacheHub) -> None:
        self._hub = hub

    def collect(self) -> Iterable[Metric]:
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=["resource"])
        watchers = GaugeMetricFamily("apiserver_registered_watchers", "Watches open.", labels=["resource"])
        for cache in self._hub.caches:
            group, resource = cache.prefix.split("/")[2:4]
            name = resource if group == "core" else f"{resource}.{group}"
            objects.add_metric([name], len(cache))
            watchers.add_metric([name], cache.watchers)
        revision = GaugeMetricFamily("kapi_storage_revision", "The latest revision.", value=self._hub.revision)
        invalid = self._hub.invalid
        skipped = GaugeMetricFamily(
            "kapi_invalid_stored_objects", "Stored objects that are skipped now.", value=len(invalid)
        )
        failures = CounterMetricFamily(
            "kapi_stored_object_failures_total",
            "Times a stored object could not be processed by a part of this server.",
            value=invalid.total,
        )
        return [objects, watchers, revision, skipped, failures]


class _Scrubbed(Collector):
    """The integrity of the store."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub

    def collect(self) -> Iterable[Metric]:
        """Yield what was read and what is damaged."""
        yield GaugeMetricFamily(
            "kapi_storage_damages", "Damaged rows of the store that are known now.", value=len(self._scrub.damages)
        )
        yield CounterMetricFamily(
            "kapi_storage_scrubbed_rows", "Rows that were compared with their checksums.", value=self._scrub.rows
        )
        yield CounterMetricFamily(
            "kapi_storage_scrub_passes", "Times that all rows were compared.", value=self._scrub.passes
        )


class _HeldBytes(Collector):
    """The memory account at each scrape."""

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account

    def collect(self) -> Iterable[Metric]:
        account = self._account
        held = GaugeMetricFamily("kapi_held_bytes", "Bytes held for peers that send or read slowly.", labels=["kind"])
        for kind, size in account.by_kind.items():
            held.add_metric([kind], size)
        budget = GaugeMetricFamily("kapi_held_bytes_budget", "Bytes that may be held for peers.", labels=["scope"])
        budget.add_metric(["total"], account.total)
        budget.add_metric(["peer"], account.per_peer)
        closures = CounterMetricFamily(
            "kapi_held_bytes_closures_total",
            "Requests, responses and watches that were closed to keep a budget of held bytes, the slowest first.",
            labels=["kind", "reason"],
        )
        for labels, count in account.closures.items():
            closures.add_metric(labels, count)
        refusals = CounterMetricFamily(
            "kapi_held_bytes_refusals_total",
            "Requests refused with 429 because too many bytes were held for requests being handled.",
            value=account.refusals,
        )
        return [held, budget, closures, refusals]


class _Connections(Collector):
    """The connections of a server at each scrape."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        connections = GaugeMetricFamily("kapi_connections", "Connections of clients.", labels=["state"])
        connections.add_metric(["open"], self._server.connections)
        connections.add_metric(["handshake"], self._server.handshakes)
        closed = CounterMetricFamily(
            "kapi_idle_connections_closed_total",
            "Idle connections that were closed to accept others.",
            value=self._server.closed_idle,
        )
        return [connections, closed]
