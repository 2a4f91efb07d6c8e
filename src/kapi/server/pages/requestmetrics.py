"""The metrics of requests: how many, how long, and how many at a time.

They are counted in plain numbers on the event loop and turned into metrics at each scrape: the locks of the library's
own counters would cost a tenth of a GET.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric

    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource

MAX_SERIES: Final = 10_000
"""Label sets of requests; requests beyond are counted without the labels of their resource."""
LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

_VERBS = frozenset({"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection", "connect"})
_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_LABELS = ("verb", "group", "version", "resource", "subresource")
_BOUNDS = [*(str(float(bound)) for bound in LATENCY_BUCKETS), "+Inf"]

Labels = tuple[str, str, str, str, str]
"""Verb, group, version, resource and sub-resource."""


class _Latency:
    """The histogram of requests with one set of labels."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BUCKETS) + 1)
        self.seconds = 0.0


class _Series:
    """The number of requests with one set of labels and one status code."""

    __slots__ = ("count", "latency")

    def __init__(self, latency: _Latency) -> None:
        self.count = 0
        self.latency = latency


class RequestMetrics(Collector):
    """The metrics of the requests of one server."""

    def __init__(self) -> None:
        # By label values and code, and not by Resource: a key must not keep the retired version of a definition alive.
        self.series: dict[tuple[str, str, str, str, str, int], _Series] = {}
        """The series of requests whose labels are known, as the pipeline finds them."""
        self.catalog: Catalog | None = None
        self._counts: dict[tuple[Labels, int], _Series] = {}
        self._latencies: dict[Labels, _Latency] = {}
        self._inflight = {True: 0, False: 0}

    def begin(self, method: str) -> bool:
        """Count a request in flight; returns what `end` takes as `mutating`."""
        mutating = method in _MUTATING
        self._inflight[mutating] += 1
        return mutating

    def end(
        self, verb: str, resource: Resource | None, subresource: str, code: int, seconds: float, *, mutating: bool
    ) -> None:
        """Count a request that was answered, or cancelled (499)."""
        self._inflight[mutating] -= 1
        if resource is None:
            key = (verb, "", "", "", subresource, code)
        else:
            key = (verb, resource.group, resource.version, resource.resource, subresource, code)
        series = self.series.get(key)
        if series is None:
            series = self._series_for(key, resource)
        series.count += 1
        latency = series.latency
        latency.seconds += seconds
        latency.buckets[bisect_left(LATENCY_BUCKETS, seconds)] += 1

    def _series_for(self, key: tuple[str, str, str, str, str, int], resource: Resource | None) -> _Series:
        verb, group, version, name, subresource, code = key
        known = verb in _VERBS and (not subresource or (resource is not None and subresource in resource.subresources))
        if len(self.series) >= MAX_SERIES:
            self.drop_unserved()
        if len(self.series) >= MAX_SERIES:
            known, group, version, name = False, "", "", ""
        labels = (verb if verb in _VERBS else "other", group, version, name, subresource if known else "")
        series = self._counts.get((labels, code))
        if series is None:
            series = self._counts[labels, code] = _Series(self._latencies.setdefault(labels, _Latency()))
        if known:
            self.series[key] = series
        return series

    def drop_unserved(self, dropped: Callable[[str, str, str], None] | None = None) -> None:
        """Drop the series of resources that the catalog no longer has; `dropped` is told group, version, resource."""
        if self.catalog is None:
            return
        find = self.catalog.find
        gone = {labels[1:4] for labels in self._latencies if labels[3] and find(*labels[1:4]) is None}
        if not gone:
            return
        self.series = {key: series for key, series in self.series.items() if key[1:4] not in gone}
        self._counts = {key: series for key, series in self._counts.items() if key[0][1:4] not in gone}
        self._latencies = {labels: one for labels, one in self._latencies.items() if labels[1:4] not in gone}
        for resource in gone:
            if dropped is not None:
                dropped(*resource)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics. Called in a thread: what the event loop changes meanwhile is copied first."""
        requests = CounterMetricFamily("apiserver_request", "Requests answered.", labels=(*_LABELS, "code"))
        for (labels, code), series in list(self._counts.items()):
            requests.add_metric((*labels, str(code)), series.count)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from the request being whole to its answer; watches are not in here.",
            labels=_LABELS,
        )
        for labels, latency in list(self._latencies.items()):
            counts = accumulate(list(latency.buckets))
            durations.add_metric(labels, list(zip(_BOUNDS, counts, strict=True)), latency.seconds)
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered.", labels=("request_kind",)
        )
        inflight.add_metric(("mutating",), self._inflight[True])
        inflight.add_metric(("readOnly",), self._inflight[False])
        return [requests, durations, inflight]
