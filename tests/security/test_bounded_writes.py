"""What a write adds, moves and reports is counted before it is done, so that a small body cannot cost a lot."""

import tracemalloc

import pytest

from api_client import APPLY, CM, JSON_PATCH, MERGE, cm, served
from kapi.api.errors import Invalid
from kapi.api.fielderror import OMITTED, bounded, invalid
from kapi.api.limits import (
    ECHOED_BODY_BYTES,
    ERROR_BYTES,
    MESSAGE_CHARACTERS,
    OBJECT_BYTES,
    PATCH_MOVED_ITEMS,
    REPORTED_ERROR_BYTES,
    REPORTED_ERRORS,
)
from kapi.api.meta import GroupKind
from kapi.api.patch import jsonpatch
from kapi.schema.structural import defaulting
from kapi.schema.structural.model import read

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/large.example.com/v1/namespaces/default/things"
TOO_LARGE = (413, "RequestEntityTooLarge", f"Request entity too large: limit is {OBJECT_BYTES}")
MIB = 1024 * 1024


def definition(field):
    items = {"type": "object", "properties": {"d": field}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.large.example.com"},
        "spec": {
            "group": "large.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def thing(count, name="t"):
    head = {"apiVersion": "large.example.com/v1", "kind": "Thing", "metadata": {"name": name}}
    return {**head, "a": [{} for _ in range(count)]}


DEFAULTS = {
    "a long text": {"type": "string", "default": "x" * 10_000},
    "many maps": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "default": {f"k{number}": {"n": "x" * 50} for number in range(100)},
    },
    "defaults inside a default": {
        "type": "object",
        "default": {},
        "properties": {f"k{number}": {"type": "string", "default": "x" * 100} for number in range(100)},
    },
    "a list": {"type": "array", "default": [""] * 2000, "items": {"type": "string"}},
}


# -- defaults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", DEFAULTS.values(), ids=DEFAULTS)
def test_defaulting_stops_as_soon_as_it_has_added_the_size_of_an_object(field):
    default = defaulting.compile_default(read({"properties": {"a": {"items": {"properties": {"d": field}}}}}))
    obj = thing(100_000)
    with pytest.raises(defaulting.DefaultsTooLarge):
        default(obj)
    filled = sum(map(len, obj["a"]))
    assert 0 < filled < 3000, filled


@pytest.mark.parametrize("field", DEFAULTS.values(), ids=DEFAULTS)
@served
async def test_an_object_whose_defaults_are_too_large_is_refused_on_every_way_to_write_it(api, field):
    await api.made(CRDS, definition(field))
    stored = await api.made(THINGS, thing(10))
    path = f"{THINGS}/t"
    count = 4000
    tracemalloc.start()
    try:
        answers = [
            await api.post(THINGS, thing(count, "new")),
            await api.put(path, {**stored, "a": thing(count)["a"]}),
            await api.patch(path, {"a": thing(count)["a"]}, MERGE),
            await api.patch(path, [{"op": "replace", "path": "/a", "value": thing(count)["a"]}], JSON_PATCH),
            await api.patch(path, thing(count), APPLY, fieldManager="m", force="true"),
            await api.post(THINGS, thing(count, "dry"), dryRun="All"),
        ]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [answer.error for answer in answers] == [TOO_LARGE] * len(answers)
    assert peak < 60 * MIB, peak / MIB


@served
async def test_an_object_that_was_stored_before_its_defaults_were_large_is_served_and_not_written(api):
    small = await api.made(CRDS, definition({"type": "string"}))
    await api.made(THINGS, thing(20_000))
    small["spec"]["versions"][0]["schema"] = definition(DEFAULTS["a long text"])["spec"]["versions"][0]["schema"]
    assert (await api.put(f"{CRDS}/things.large.example.com", small)).status == 200
    read_back = await api.get(f"{THINGS}/t")
    assert read_back.status == 200
    assert len(read_back.raw) < 3 * OBJECT_BYTES
    assert (await api.get(THINGS)).status == 200
    assert (await api.put(f"{THINGS}/t", read_back.json)).error == TOO_LARGE
    assert (await api.delete(f"{THINGS}/t")).status == 200


# -- JSON patches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/0", "value": 1},
        {"op": "remove", "path": "/a/0"},
        {"op": "move", "from": "/a/0", "path": "/a/1"},
        {"op": "copy", "from": "/a/5", "path": "/a/0"},
    ],
    ids=lambda operation: operation["op"],
)
def test_the_items_that_a_json_patch_moves_are_bounded(operation):
    length = 200_000
    few, many = ([operation] * count for count in (40, PATCH_MOVED_ITEMS // length + 1))
    jsonpatch.apply({"a": [0] * length}, jsonpatch.decode_operations(few))
    with pytest.raises(jsonpatch.RequestEntityTooLarge, match=f"move more than {PATCH_MOVED_ITEMS} items"):
        jsonpatch.apply({"a": [0] * length}, jsonpatch.decode_operations(many))
    at_the_end = [{"op": "add", "path": "/a/-", "value": 1}, {"op": "remove", "path": "/a/-1"}] * 1000
    assert len(jsonpatch.apply({"a": [0] * length}, jsonpatch.decode_operations(at_the_end))["a"]) == length


# -- errors -----------------------------------------------------------------------------------------------------------


def test_errors_beyond_a_size_are_counted_and_not_described():
    errors = bounded(lambda: [invalid("a", number, "x" * 800) for number in range(100_000)])
    assert len(errors) == 100_000
    described = errors.index(OMITTED)
    assert ERROR_BYTES // 1100 < described < ERROR_BYTES // 1000 + 2
    assert all(error is OMITTED for error in errors[described:])
    assert invalid("a", 1, "described again").body.endswith("described again")


def test_an_answer_describes_the_first_errors_and_counts_the_others():
    kind = GroupKind("", "ConfigMap")
    many = Invalid.of(kind, "c", [invalid("a", number, "wrong") for number in range(1000)])
    assert len(many.details["causes"]) == REPORTED_ERRORS
    assert many.message.endswith(
        f"a: Invalid value: {REPORTED_ERRORS - 1}: wrong, {1000 - REPORTED_ERRORS} more errors]"
    )
    long = Invalid.of(kind, "c", [invalid("a", number, "x" * REPORTED_ERROR_BYTES) for number in range(5)])
    assert len(long.details["causes"]) == 1
    assert long.message.endswith("x, 4 more errors]")
    few = Invalid.of(kind, "c", [invalid("a", number, "wrong") for number in range(2)])
    assert few.message == 'ConfigMap "c" is invalid: [a: Invalid value: 0: wrong, a: Invalid value: 1: wrong]'


MANY_ERRORS = {
    "keys": {"data": {f"/{number}": "" for number in range(9000)}},
    "finalizers": {"metadata": {"finalizers": [f"/{number}" for number in range(9000)]}},
    "labels": {"metadata": {"labels": {f"/{number}": "/" for number in range(9000)}}},
    "owners": {"metadata": {"ownerReferences": [{"uid": f"{number}"} for number in range(3000)]}},
}


@pytest.mark.parametrize("fields", MANY_ERRORS.values(), ids=MANY_ERRORS)
@served
async def test_an_object_with_many_errors_is_refused_with_a_short_answer(api, fields):
    await api.made(CM, cm("stored"))
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **cm("stored", **fields)}
    for answer in (
        await api.post(CM, cm("new", **fields)),
        await api.put(f"{CM}/stored", cm("stored", **fields)),
        await api.patch(f"{CM}/stored", fields, MERGE),
        await api.patch(f"{CM}/stored", applied, APPLY, fieldManager="m", force="true"),
    ):
        assert answer.error[:2] == (422, "Invalid")
        assert answer.message.endswith(" more errors]")
        assert len(answer.raw) < 4 * REPORTED_ERROR_BYTES


@served
async def test_a_conflict_over_many_fields_names_the_first_and_counts_the_others(api):
    def config(value):
        data = {f"key-{number:04}": value for number in range(2000)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}

    assert (await api.patch(f"{CM}/c", config("a"), APPLY, fieldManager="one")).status == 201
    conflict = await api.patch(f"{CM}/c", config("b"), APPLY, fieldManager="two")
    assert conflict.error[:2] == (409, "Conflict")
    assert conflict.message.startswith('Apply failed with 2000 conflicts: conflicts with "one":\n- .data.key-0000\n')
    assert conflict.message.endswith(f".data.key-{REPORTED_ERRORS - 1:04}\nand {2000 - REPORTED_ERRORS} more")
    assert len(conflict.json["details"]["causes"]) == REPORTED_ERRORS


LONG = "x" * 2_000_000
ECHOES = {
    "a body without a kind": {"apiVersion": "large.example.com/v1", "metadata": {"name": "t"}, "a": [{"d": LONG}]},
    "a long kind": {"apiVersion": "large.example.com/v1", "kind": LONG, "metadata": {"name": "t"}},
    "a long apiVersion": {"apiVersion": f"{LONG}/v1", "kind": "Thing", "metadata": {"name": "t"}},
    "a malformed apiVersion": {"apiVersion": f"a/b/{LONG}", "kind": "Thing", "metadata": {"name": "t"}},
    "a long name": {"apiVersion": "large.example.com/v1", "kind": "Thing", "metadata": {"name": LONG}},
}


@pytest.mark.parametrize("validation", ["Strict", "Ignore"])
@pytest.mark.parametrize("body", ECHOES.values(), ids=ECHOES)
@served
async def test_an_error_repeats_a_bounded_part_of_what_was_sent(api, body, validation):
    await api.made(CRDS, definition({"type": "string"}))
    await api.made(THINGS, thing(1))
    answers = [
        await api.post(THINGS, body, fieldValidation=validation),
        await api.put(f"{THINGS}/t", body, fieldValidation=validation),
    ]
    for answer in answers:
        assert 400 <= answer.status < 500, answer
        assert len(answer.raw) < 3 * MESSAGE_CHARACTERS, len(answer.raw)
        assert len(answer.message) <= MESSAGE_CHARACTERS + 4
        if "kind" not in body:
            assert len(answer.message) < 2 * ECHOED_BODY_BYTES
