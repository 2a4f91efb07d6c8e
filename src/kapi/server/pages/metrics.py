"""/metrics: the metrics of the server in Prometheus' format, under the names of kube-apiserver where it has the same.

Label values come from closed sets (served resources, known verbs, status codes), never from what a client sends. Series
of a resource that is no longer served are dropped at the next scrape, and their number is bounded in between: a client
that may create CustomResourceDefinitions could otherwise fill memory with them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
MAX_SERIES = 10_000
"""Label sets of requests; requests beyond are counted without the labels of their resource."""

_VERBS = frozenset({"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection", "connect"})
_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "code")
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


Labels = tuple[str, str, str, str, str]
"""Verb, group, version, resource and sub-resource."""


class _Series(NamedTuple):
    """The counter and the histogram of requests with one set of labels and one status code."""

    labels: Labels
    increment: Callable[[], None]
    observe: Callable[[float], None]


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scraped = CollectorRegistry()
        """Collectors that read what belongs to the event loop at each scrape; the others have locks."""
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
        self.lag = LoopLag(self.registry)
        # By label values and code, and not by Resource: a key must not keep the retired version of a definition alive.
        self._series: dict[tuple[str, str, str, str, str, int], _Series] = {}
        self._catalog: Catalog | None = None
        self._slis = CollectorRegistry()

    # -- requests ---------------------------------------------------------------------------------------------------

    def begin(self, method: str) -> bool:
        """Count a request in flight; returns what `end` takes as `mutating`."""
        mutating = method in _MUTATING
        self._inflight[mutating].inc()
        return mutating

    def end(
        self, verb: str, resource: Resource | None, subresource: str, code: int, seconds: float, *, mutating: bool
    ) -> None:
        """Count a request that was answered, or cancelled (499)."""
        self._inflight[mutating].dec()
        if resource is None:
            key = (verb, "", "", "", subresource, code)
        else:
            key = (verb, resource.group, resource.version, resource.resource, subresource, code)
        series = self._series.get(key)
        if series is None:
            series = self._series_for(key, resource)
        series.increment()
        series.observe(seconds)

    def _series_for(self, key: tuple[str, str, str, str, str, int], resource: Resource | None) -> _Series:
        verb, group, version, name, subresource, code = key
        known = verb in _VERBS and (not subresource or (resource is not None and subresource in resource.subresources))
        if len(self._series) >= MAX_SERIES:
            self._drop_unserved()
        if len(self._series) >= MAX_SERIES:
            known, group, version, name = False, "", "", ""
        labels = (verb if verb in _VERBS else "other", group, version, name, subresource if known else "")
        series = _Series(labels, self._requests.labels(*labels, code).inc, self._latency.labels(*labels).observe)
        if known:
            self._series[key] = series
        return series

    def _drop_unserved(self) -> None:
        """Drop the series of resources that the catalog no longer has."""
        if self._catalog is None:
            return
        gone = [key for key in self._series if key[3] and self._catalog.find(key[1], key[2], key[3]) is None]
        dropped = set()
        for key in gone:
            series = self._series.pop(key)
            self._requests.remove(*series.labels, key[5])
            dropped.add(series.labels)
        for labels in dropped:
            self._latency.remove(*labels)
        for group, version, name in {labels[1:4] for labels in dropped}:
            self._longrunning.remove(group, version, name)

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
        self._catalog = catalog
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
        self._drop_unserved()
        return generate_latest(self.registry) + generate_latest(self.scraped)

    async def page(self) -> bytes:
        """Return the page /metrics, and do not hold the event loop: the series of requests can be thousands."""
        self._drop_unserved()
        return await asyncio.to_thread(generate_latest, self.registry) + generate_latest(self.scraped)

    def render_slis(self) -> bytes:
        """Return the page /metrics/slis: the results of health checks."""
        return generate_latest(self._slis)


class LoopLag:
    """The lag of the event loop: how late its timers fire, which is how long a request may wait to be looked at."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._observe = Histogram(
            "kapi_event_loop_lag_seconds", "How late the event loop was.", buckets=_LATENCY_BUCKETS, registry=registry
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
