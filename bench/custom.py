"""The rows about custom resources: the time until a definition is served, the cost of many, and requests."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from bench.definitions import SMALL, VERSION, group_of
from bench.table import KAPI, Group, Row, connections
from bench.validation import measure_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Running

CONNECTIONS = 16
MEMORY_LIMIT = 150 * 1024
"""Bytes that a definition of some twenty fields may cost."""
VALIDATION_LIMIT = 100e-6
"""Seconds that validating a typical object may take."""
SHARE = 4
"""Documents and validations vary little: a load row takes so many times as long."""
MANY = "many"
"""The run whose definitions are installed by the rows about many of them."""
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_DOCUMENTS = {
    "discovery": ("aggregated discovery", "/apis", AGGREGATED),
    "openapi.v3": ("OpenAPI v3, index", "/openapi/v3", "application/json"),
    "openapi.group": (
        "OpenAPI v3, one group of 10",
        f"/openapi/v3/apis/{group_of(MANY, 0)}/{VERSION}",
        "application/json",
    ),
    "openapi.v2": ("OpenAPI v2", "/openapi/v2", "application/json"),
}
"""Discovery and OpenAPI documents: the words of the row, the path, and the requested form."""

_READS = ("custom.get", "custom.list")
_CREATES = {
    "custom.create.1": ("large", 1),
    "custom.create.16": ("large", CONNECTIONS),
    "custom.create.small": ("small", CONNECTIONS),
}
_ABOUT_MANY = [
    *("custom.install", "custom.memory", *(f"custom.{key}" for key in _DOCUMENTS)),
    *("custom.first.many", "custom.memory.used"),
]


# -- rows -------------------------------------------------------------------------------------------------------------


def _rows(settings: Settings) -> list[Row]:
    large, among = "custom objects of 200 values", f"{settings.definitions:,} definitions"
    return [
        Row("custom.first", "new definition to first object stored", "ms", 20.0),
        Row("custom.get", f"get of {large}, {connections(CONNECTIONS)}", "/s", 4.0),
        Row("custom.list", f"list of {settings.instances:,} of them", "/s", 2.0),
        Row("custom.create.1", f"create of {large}, {connections(1)}", "/s", 3.0),
        Row("custom.create.16", f"create of {large}, {connections(CONNECTIONS)}", "/s", 3.0),
        Row("custom.create.small", f"create of custom objects of 20 values, {connections(CONNECTIONS)}", "/s", 3.0),
        Row("custom.install", f"{among} installed", "s"),
        Row("custom.memory", f"memory for each of {among}", "KiB", limit=MEMORY_LIMIT),
        *(Row(f"custom.{key}", f"{words}, {among}", "ms") for key, (words, _, _) in _DOCUMENTS.items()),
        Row("custom.first.many", f"new definition to first object stored, {among}", "ms", 20.0),
        Row("custom.memory.used", "memory for each with its first object", "KiB", limit=MEMORY_LIMIT),
        Row("custom.validate.typical", "validating an object of 36 values, in process", "µs", limit=VALIDATION_LIMIT),
        Row("custom.validate.large", "validating an object of 272 values, in process", "µs"),
    ]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    validated = [row for row in rows if row.startswith("custom.validate.")]
    with bench.fresh(["custom.first", *_READS, *_CREATES]) as servers:
        _alternate(bench, "custom.first", servers, "first", count=bench.settings.firsts)
        _measure_objects(bench, servers)
    with bench.fresh(_ABOUT_MANY) as servers:
        _measure_many(bench, servers)
    for row in validated:
        measure = measure_validation(row.rpartition(".")[2], bench.settings.seconds / SHARE)
        bench.alternate(row, {KAPI: measure})


# -- definitions ------------------------------------------------------------------------------------------------------


def _alternate(bench: Bench, row: str, servers: dict[str, Running], action: str, **details: object) -> None:
    runners: dict[str, Callable[[], Figure]] = {
        name: partial(bench.work, running, action, **details) for name, running in servers.items()
    }
    bench.alternate(row, runners)


def _measure_many(bench: Bench, servers: dict[str, Running]) -> None:
    """Install definitions once; then ask, in rounds, for what clients learn of them."""
    ready: dict[str, Running] = {}
    for name, running in servers.items():
        with bench.failing(_ABOUT_MANY, name):
            _install(bench, name, running)
            ready[name] = running
    for key, (_, path, accept) in _DOCUMENTS.items():
        seconds = bench.settings.seconds / SHARE
        _alternate(bench, f"custom.{key}", ready, "fetch", path=path, accept=accept, seconds=seconds)
    _alternate(bench, "custom.first.many", ready, "first", count=1)
    for name, running in ready.items():
        with bench.failing(["custom.memory.used"], name):
            _use(bench, name, running)


def _install(bench: Bench, name: str, running: Running) -> None:
    number = bench.settings.definitions
    # What the first definition of all brings in, code above all, is not what each one costs.
    bench.work(running, "first", count=1)
    before = _resident(bench, running)
    bench.record("custom.install", name, bench.work(running, "install", name=MANY, count=number))
    bench.record("custom.memory", name, {"value": (_resident(bench, running) - before) / number})


def _use(bench: Bench, name: str, running: Running) -> None:
    """Put every definition to use, so that its schema is compiled."""
    number = bench.settings.definitions
    before = _resident(bench, running)
    bench.work(running, "use", name=MANY, count=number)
    added = (_resident(bench, running) - before) / number
    installed = bench.figures["custom.memory"][name][0]["value"]
    bench.record("custom.memory.used", name, {"value": installed + added})


def _resident(bench: Bench, running: Running) -> int:
    time.sleep(bench.settings.pause)
    return running.resident()


# -- objects ----------------------------------------------------------------------------------------------------------


def _measure_objects(bench: Bench, servers: dict[str, Running]) -> None:
    """Reads come first: writes add objects to what is listed."""
    ready: dict[str, Running] = {}
    for name, running in servers.items():
        with bench.failing([*_READS, *_CREATES], name):
            bench.work(running, "define", small=SMALL)
            bench.work(running, "seed", first=0, count=bench.settings.instances, of="large")
            ready[name] = running
    seconds, keys = bench.settings.seconds, bench.settings.instances
    common = {"seconds": seconds, "keys": keys}
    _alternate(bench, "custom.get", ready, "requests", kind="get", connections=CONNECTIONS, of="large", **common)
    _alternate(bench, "custom.list", ready, "lists", of="large", **common)
    for row, (sort, number) in _CREATES.items():
        _alternate(bench, row, ready, "requests", kind="create", connections=number, of=sort, **common)


GROUP = Group("custom", _rows, _measure)
