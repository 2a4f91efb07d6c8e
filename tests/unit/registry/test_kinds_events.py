from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_support import create_errors, thing, update_errors

from kapi.registry.kinds.core.events import EventStrategy, EventsV1Strategy, to_core_v1, to_events_v1

CORE = EventStrategy()
EVENTS = EventsV1Strategy()
ABOUT = {"kind": "Pod", "name": "p", "namespace": "default"}
NEW = {
    "involvedObject": ABOUT,
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingComponent": "example.com/c",
    "reportingInstance": "c-1",
    "action": "Act",
    "reason": "Because",
    "type": "Normal",
}


def test_core_and_events_k8s_io_events_convert():
    core = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": ABOUT,
        "message": "hello",
        "source": {"component": "x"},
        "firstTimestamp": "t1",
        "lastTimestamp": "t2",
        "count": 3,
        "reportingComponent": "r",
        "reason": "R",
    }
    assert to_events_v1(core) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": ABOUT,
        "note": "hello",
        "deprecatedSource": {"component": "x"},
        "deprecatedFirstTimestamp": "t1",
        "deprecatedLastTimestamp": "t2",
        "deprecatedCount": 3,
        "reportingController": "r",
        "reason": "R",
    }


@given(
    st.dictionaries(st.sampled_from(sorted({*NEW, "message", "source", "count", "series", "related"})), st.integers())
)
def test_event_conversion_round_trips(fields):
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, **fields}
    assert to_core_v1(to_events_v1(event)) == event


MISMATCH = "does not match event.namespace"


@pytest.mark.parametrize(
    ("namespace", "fields", "wrong"),
    [
        ("default", {"involvedObject": ABOUT}, []),
        ("default", {}, []),
        ("other", {}, [f'involvedObject.namespace: Invalid value: "": {MISMATCH}']),
        ("other", {"involvedObject": ABOUT}, [f'involvedObject.namespace: Invalid value: "default": {MISMATCH}']),
        ("kube-system", {**NEW, "involvedObject": {}}, []),
        ("other", {**NEW, "involvedObject": {}}, [f'involvedObject.namespace: Invalid value: "": {MISMATCH}']),
        (
            "default",
            {**NEW, "reportingComponent": "a b", "reportingInstance": "", "action": "x" * 129},
            [
                (
                    "reportingComponent: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
                    "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
                    "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                ),
                "reportingInstance: Required value",
                'action: Invalid value: "": can have at most 128 characters',
            ],
        ),
    ],
)
def test_core_rules(namespace, fields, wrong):
    assert create_errors(CORE, thing(namespace=namespace, **fields)) == wrong


def test_events_k8s_io_needs_new_event_fields():
    assert create_errors(EVENTS, thing(**NEW)) == []
    old_style = {"involvedObject": ABOUT, "count": 2, "firstTimestamp": "t", "source": {"host": "h"}, "type": "X"}
    assert create_errors(EVENTS, thing(**old_style)) == [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: X',
        'firstTimestamp: Invalid value: "": needs to be unset',
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
    ]
    assert create_errors(EVENTS, thing(**NEW, series={"count": 1})) == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
    ]


def test_events_k8s_io_allows_changes_of_the_series_only():
    old = thing(**NEW)
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert update_errors(EVENTS, {**old, "series": series}, old) == []
    assert update_errors(EVENTS, {**old, "reportingComponent": "x/y", "message": "m"}, old) == [
        'message: Invalid value: "m": field is immutable',
        'reportingController: Invalid value: "x/y": field is immutable',
    ]
    assert update_errors(CORE, {**old, "message": "m"}, old) == []


def test_names_flags_and_fields():
    assert CORE.validate_name("Pod_a:b") == []
    assert CORE.validate_name("a/b") != []
    assert EVENTS.validate_name("Pod_a") != []
    assert CORE.default_propagation == "Unsupported"
    assert CORE.allow_create_on_update
    fields = CORE.selectable(thing(**NEW))
    assert set(fields) == set(CORE.selectable_fields)
    assert fields["involvedObject.kind"] == "Pod"
    assert fields["source"] == "example.com/c"
    assert CORE.selectable(thing(source={"component": "x"}, reportingComponent="y"))["source"] == "x"
