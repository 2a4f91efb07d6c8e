"""Prometheus metrics of controllers and work queues, under the names that controller-runtime and client-go use.

`series` holds counters and histograms that are cheap to update, `queue` and `controller` name the metrics.
"""
