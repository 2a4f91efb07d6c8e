"""The metrics of a store on etcd, with kube-apiserver's names where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.storage.etcd.monitor import EtcdMonitor


class EtcdMetrics(Collector):
    """Reads the counts of a store's connection, and what its monitor knows, at each scrape."""

    def __init__(self, monitor: EtcdMonitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Yield all metrics."""
        storage = self._monitor.storage
        yield from self._calls()
        resumptions = CounterMetricFamily("kapi_etcd_watch_resumptions", "How many times the watch was opened again.")
        resumptions.add_metric([], storage.live.resumptions)
        yield resumptions
        gaps = CounterMetricFamily(
            "kapi_etcd_watch_gaps",
            "How many times the store was read anew, because what the watch missed was compacted.",
        )
        gaps.add_metric([], storage.gaps)
        yield gaps
        reads = CounterMetricFamily("kapi_etcd_latest_reads", "Reads of the latest revision; many requests share one.")
        reads.add_metric([], storage.latest_reads)
        yield reads
        yield from self._members()

    def _calls(self) -> Iterable[CounterMetricFamily]:
        cluster = self._monitor.storage.cluster
        requests = CounterMetricFamily("etcd_requests", "Requests to etcd.", labels=["operation"])
        errors = CounterMetricFamily(
            "etcd_request_errors",
            "Requests to etcd that failed.",
            labels=["operation", "code"],
        )
        seconds = CounterMetricFamily(
            "kapi_etcd_request_seconds", "Seconds that requests to etcd took in all.", labels=["operation"]
        )
        totals: dict[str, int] = {}
        for (path, code), count in cluster.calls.items():
            operation = path.rpartition("/")[2]
            totals[operation] = totals.get(operation, 0) + count
            if code != "OK":
                errors.add_metric([operation, code], count)
        for operation, count in totals.items():
            requests.add_metric([operation], count)
        for path, spent in cluster.seconds.items():
            seconds.add_metric([path.rpartition("/")[2]], spent)
        return requests, errors, seconds

    def _members(self) -> Iterable[GaugeMetricFamily]:
        size = GaugeMetricFamily(
            "apiserver_storage_size_bytes",
            "[STABLE] Size of the storage database file physically allocated in bytes.",
            labels=["storage_cluster_id"],
        )
        used = GaugeMetricFamily(
            "kapi_etcd_size_in_use_bytes", "Bytes of a member's database that are in use.", labels=["endpoint"]
        )
        up = GaugeMetricFamily("kapi_etcd_member_up", "1 if a member answers.", labels=["endpoint"])
        for endpoint, answers in self._monitor.reachable.items():
            up.add_metric([endpoint], float(answers))
        for endpoint, status in self._monitor.statuses.items():
            if status is not None:
                size.add_metric([endpoint], status.db_size)
                used.add_metric([endpoint], status.db_size_in_use)
        alarms = GaugeMetricFamily("kapi_etcd_alarms", "Alarms that members have raised.", labels=["alarm"])
        for name in sorted({alarm.name for alarm in self._monitor.alarms}):
            alarms.add_metric([name], sum(alarm.name == name for alarm in self._monitor.alarms))
        return size, used, up, alarms
