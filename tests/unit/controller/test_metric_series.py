"""Meters say to Prometheus what its own would, however they are fed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kapi.controller.metrics import series
from kapi.controller.metrics.series import Families, counters, gauges, histograms

BOUNDS = (0.005, 0.1, 1.0, 2.5)
LABELS = ("controller", "result")


class Ours(Families):
    """One family of each sort."""

    def __init__(self, registry):
        super().__init__()
        self.counters = self.add(counters("tries", "How many.", LABELS))
        self.gauges = self.add(gauges("busy", "How many now.", LABELS))
        self.histograms = self.add(histograms("seconds", "How long.", LABELS, BOUNDS))
        registry.register(self)


def told(registry):
    """What Prometheus reads, without when each series was made, which only its own library tells."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.one_of(st.sampled_from(BOUNDS), st.floats(0, 10)))),
    st.integers(-3, 3),
)
def test_metrics_equal_those_of_the_prometheus_library(observed, level):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    families = Ours(ours)
    counter = Counter("tries", "How many.", LABELS, registry=theirs)
    gauge = Gauge("busy", "How many now.", LABELS, registry=theirs)
    histogram = Histogram("seconds", "How long.", LABELS, buckets=BOUNDS, registry=theirs)
    for name, value in observed:
        families.counters.labels(name, "x").inc()
        families.histograms.labels(name, "x").observe(value)
        families.gauges.labels(name, "y").set(level)
        families.gauges.labels(name, "y").inc()
        families.gauges.labels(name, "y").dec()
        counter.labels(name, "x").inc()
        histogram.labels(name, "x").observe(value)
        gauge.labels(name, "y").set(level)
    assert told(ours) == told(theirs)


def test_one_set_of_labels_has_one_meter():
    families = Ours(CollectorRegistry())
    assert families.counters.labels("a", "x") is families.counters.labels("a", "x")
    assert families.counters.labels("a", "x") is not families.counters.labels("a", "y")


def test_names_that_are_taken_are_refused():
    registry = CollectorRegistry()
    Ours(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("tries", "Again.", registry=registry)


def test_a_value_beyond_all_bounds_is_counted():
    registry = CollectorRegistry()
    Ours(registry).histograms.labels("a", "x").observe(1e9)
    labels = {"controller": "a", "result": "x"}
    assert registry.get_sample_value("seconds_bucket", {**labels, "le": "2.5"}) == 0
    assert registry.get_sample_value("seconds_bucket", {**labels, "le": "+Inf"}) == 1
    assert registry.get_sample_value("seconds_count", labels) == 1
    assert registry.get_sample_value("seconds_sum", labels) == 1e9


def test_histograms_do_not_share_their_counts():
    first, second = series.Histogram(BOUNDS), series.Histogram(BOUNDS)
    first.observe(1)
    assert first._counters != second._counters
