"""The Scale of custom objects, whose replicas are at the paths of their definition."""

from __future__ import annotations

import pytest

from kapi.api.errors import BadRequest, InternalError, PlainError
from kapi.registry.custom.scale import ScalePaths
from kapi.registry.custom.version import Scale

PATHS = ScalePaths(".spec.size.num", ".status.num", ".status.sel")
IDENTITY = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5"}


def custom(**parts):
    return {"kind": "Probe", "apiVersion": "example.com/v1", "metadata": {**IDENTITY, "labels": {"x": "y"}}, **parts}


def test_the_paths_come_from_the_definition():
    paths = ScalePaths.of(Scale(spec_replicas_path=".spec.n", status_replicas_path=".status.n"))
    assert paths.replicas == ("f:spec", "f:n")
    scale = paths.read(custom(spec={"n": 2}, status={"n": 1, "sel": "a=b"}))
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1})


def test_a_scale_shows_what_is_at_the_paths():
    assert PATHS.read(custom(spec={"size": {"num": 4}}, status={"num": 2, "sel": "a=b"})) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": IDENTITY,
        "spec": {"replicas": 4},
        "status": {"replicas": 2, "selector": "a=b"},
    }


def test_zero_replicas_are_left_out_and_a_missing_status_is_zero():
    scale = PATHS.read(custom(spec={"size": {"num": 0}}))
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})


def test_numbers_beyond_the_field_of_a_scale_are_cut():
    assert PATHS.read(custom(spec={"size": {"num": 2**32 + 7}}))["spec"] == {"replicas": 7}


@pytest.mark.parametrize("parts", [{}, {"spec": {}}, {"spec": {"size": {}}}, {"spec": {"size": None}}, {"spec": None}])
def test_replicas_that_are_missing_cannot_be_read(parts):
    with pytest.raises(InternalError) as caught:
        PATHS.read(custom(**parts))
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Internal error occurred: the spec replicas field ".spec.size.num" does not exist',
        "reason": "InternalError",
        "details": {"causes": [{"message": 'the spec replicas field ".spec.size.num" does not exist'}]},
        "code": 500,
    }
    assert PATHS.shown(custom(**parts))["spec"] == {}


def test_a_scale_write_must_set_replicas_if_the_object_has_none():
    begun = PATHS.current(custom(spec={}))
    with pytest.raises(BadRequest, match=r'the spec replicas field ".spec.size.num" cannot be empty'):
        PATHS.write(custom(spec={}), begun)
    begun["spec"]["replicas"] = 3
    assert PATHS.write(custom(spec={}), begun)["spec"] == {"size": {"num": 3}}


def test_a_write_begins_from_the_replicas_that_are_there():
    assert PATHS.current(custom(spec={"size": {"num": 4}}))["spec"] == {"replicas": 4}


def test_writing_changes_the_replicas_only():
    obj = custom(spec={"size": {"num": 4, "unit": "racks"}, "other": 1})
    scaled = PATHS.write(obj, {"metadata": {}, "spec": {"replicas": 9}})
    assert scaled == custom(spec={"size": {"num": 9, "unit": "racks"}, "other": 1})


def test_writing_without_replicas_means_zero():
    assert PATHS.write(custom(), {"metadata": {}, "spec": {}})["spec"] == {"size": {"num": 0}}
    assert PATHS.write(custom(), {})["spec"] == {"size": {"num": 0}}


def test_preconditions_of_the_scale_become_the_objects():
    scaled = PATHS.write(custom(), {"metadata": {"resourceVersion": "9", "uid": "v"}, "spec": {"replicas": 1}})
    assert (scaled["metadata"]["resourceVersion"], scaled["metadata"]["uid"]) == ("9", "v")
    scaled = PATHS.write(custom(), {"metadata": {"resourceVersion": ""}, "spec": {"replicas": 1}})
    assert (scaled["metadata"]["resourceVersion"], scaled["metadata"]["uid"]) == ("5", "u")


def test_a_number_cannot_be_written_below_a_null():
    with pytest.raises(PlainError, match=r"value cannot be set because .spec is not a map\[string\]interface\{\}"):
        PATHS.write(custom(spec=None), {"spec": {"replicas": 1}})


@pytest.mark.parametrize(
    ("num", "body"),
    [
        (-4, "Invalid value: -4: should be a non-negative integer"),
        (3000000000, "Invalid value: 3000000000: should be less than or equal to 2147483647"),
        (1.0, "Invalid value: 0: .spec.size.num accessor error: 1 is of the type float64, expected int64"),
        ("x", "Invalid value: 0: .spec.size.num accessor error: x is of the type string, expected int64"),
        (True, "Invalid value: 0: .spec.size.num accessor error: true is of the type bool, expected int64"),
        (None, "Invalid value: 0: .spec.size.num accessor error: <nil> is of the type <nil>, expected int64"),
        (
            {},
            "Invalid value: 0: .spec.size.num accessor error: map[] is of the type map[string]interface {}, expected int64",
        ),
        ([], "Invalid value: 0: .spec.size.num accessor error: [] is of the type []interface {}, expected int64"),
    ],
)
def test_replicas_that_are_not_a_count_are_invalid(num, body):
    obj = custom(spec={"size": {"num": num}})
    assert [(error.field, error.body) for error in PATHS.errors(obj)] == [(".spec.size.num", body)]


def test_a_number_beyond_64_bits_is_a_fraction():
    assert "is of the type float64" in PATHS.errors(custom(spec={"size": {"num": 2**63}}))[0].body


def test_a_path_that_leads_through_something_else_is_invalid():
    (error,) = PATHS.errors(custom(spec={"size": 5}))
    assert error.body == (
        "Invalid value: 0: .spec.size.num accessor error: 5 is of the type int64, expected map[string]interface{}"
    )
    with pytest.raises(PlainError, match="accessor error: 5 is of the type int64"):
        PATHS.read(custom(spec={"size": 5}))


def test_the_status_replicas_are_validated_separately():
    obj = custom(spec={"size": {"num": -1}}, status={"num": -5, "sel": 7})
    assert [str(error) for error in PATHS.status_errors(obj)] == [
        ".status.num: Invalid value: -5: should be a non-negative integer",
        '.status.sel: Invalid value: "": .status.sel accessor error: 7 is of the type int64, expected string',
    ]
    assert [error.field for error in PATHS.errors(obj)] == [".spec.size.num", ".status.num", ".status.sel"]


def test_an_object_without_replicas_is_valid():
    assert PATHS.errors(custom()) == []
    assert PATHS.errors(custom(spec={"size": {"num": 0}}, status={"num": 2147483647, "sel": ""})) == []
