"""The CPU of defaulting and validation grows no faster than the lists and maps of an object.

Built from the schemas themselves, so that no list or map field of a built-in kind can be forgotten.
"""

import datetime as dt
import gc
import time

import pytest
from schema_fields import KINDS, ONCE, copied, filled

from kapi.api.errors import Invalid
from kapi.registry import write as writepath
from kapi.registry.request import Write, WriteOptions

COUNTS = (500, 1000, 2000)
LEAST = 0.02
"""Seconds of CPU below which growth cannot be told from noise."""

ATTEMPTS = 3
GROWTH = 9.0
"""Four times the entries may take at most so many times the CPU: n log n takes a little over four, a square sixteen."""

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


class Nothing:
    """A Lookup that finds no object."""

    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace="", *, ending=""):
        return []


# -- the work ---------------------------------------------------------------------------------------------------------


def reported(write, obj, errors):
    """Make the answer of a write that is refused."""
    if errors:
        Invalid.of(write.store.group_kind, obj["metadata"]["name"], errors)


def a_write(resource, operation):
    return Write(operation, resource, lookup=Nothing(), now=NOW, options=WriteOptions(dry_run=False))


def create(resource, obj):
    write = a_write(resource, "CREATE")
    write.store.object_scope.default(write, obj)
    writepath.prepare_create(write, obj)
    reported(write, obj, writepath.create_errors(write, obj))
    write.store.strategy.warnings(obj, None)


def update(resource, obj, old):
    write = a_write(resource, "UPDATE")
    scope = write.store.object_scope
    scope.default(write, obj)
    writepath.prepare_update(write, scope, obj, old)
    reported(write, obj, writepath.update_errors(write, scope, obj, old))
    write.store.strategy.warnings(obj, old)


def cpu(field, count, *, distinct, times):
    """The CPU of a create, and of an update of the labels: the least of several runs."""
    made = filled(field, count, distinct=distinct)
    taken = []
    gc.disable()  # its passes grow with all objects of the process, not with those of the write
    try:
        for _ in range(times):
            new = copied(made)
            start = time.process_time()
            create(field.resource, new)
            create_time = time.process_time() - start
            changed, old = copied(new), copied(new)
            for one in (changed, old):
                one["metadata"]["resourceVersion"] = "1"
            changed["metadata"]["labels"] = {"a": "b"}
            start = time.process_time()
            update(field.resource, changed, old)
            taken.append((create_time, time.process_time() - start))
    finally:
        gc.enable()
    return tuple(map(min, zip(*taken, strict=True)))


def grows_too_fast(field, *, distinct):
    """The CPU for each count where it grows faster than the field; None where it does not."""
    lots = cpu(field, COUNTS[-1], distinct=distinct, times=1)
    if max(lots) < LEAST or not too_much(cpu(field, COUNTS[0], distinct=distinct, times=3), lots):
        return None
    # What is too slow is so every time; a machine that other programs begin to use meanwhile is not.
    for _ in range(ATTEMPTS):
        measured = [cpu(field, count, distinct=distinct, times=5) for count in COUNTS]
        if not too_much(measured[0], measured[-1]):
            return None
    return measured


def too_much(few, lots):
    return any(four > LEAST and four > one * GROWTH for one, four in zip(few, lots, strict=True))


def assert_no_field_grows_too_fast(tested):
    bad = {}
    for field in tested:
        for distinct in (True, False):
            measured = grows_too_fast(field, distinct=distinct)
            if measured is not None:
                bad[f"{field} {'distinct' if distinct else 'repeated'}"] = measured
    assert bad == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[f"{kind}.{group or 'core'}" for group, kind in KINDS])
def test_cpu_of_writes_grows_no_faster_than_the_lists_and_maps_of_each_struct(kind):
    assert_no_field_grows_too_fast([field for field in ONCE if (field.resource.group, field.resource.kind) == kind])


KNOWN = (
    ("PodSpec", "tolerations"),
    ("PodSpec", "topologySpreadConstraints"),
    ("ResourceQuotaSpec", "hard", "scopes"),
    ("Scheduling", "tolerations"),
)
"""Fields whose validation was slower than linear once."""


@pytest.mark.parametrize("known", KNOWN, ids=".".join)
def test_cpu_of_writes_grows_no_faster_than_a_field_that_was_slow_once(known):
    struct, *names = known
    tested = [field for field in ONCE if field.struct.endswith(f".{struct}") and field.names == tuple(names)]
    assert tested
    assert_no_field_grows_too_fast(tested)
