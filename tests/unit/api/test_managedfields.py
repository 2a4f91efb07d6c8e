"""The record of ownership on objects: what creates, updates, patches and applies write into it."""

from __future__ import annotations

import copy
import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.errors import BadRequest, Conflict, PlainError
from kapi.api.meta import GroupVersionKind
from kapi.api.ownership import fieldset as fs
from kapi.api.ownership import managedfields as mf
from kapi.api.ownership.apply import excluding
from kapi.api.ownership.shape import ANY, DEDUCED, SCALAR, STRUCT, InvalidValue, Shape, outline
from kapi.api.patch import lastapplied
from kapi.registry.builtins import GROUPS
from kapi.schema.builtin.typed import kind_schema

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(hours=1)
STAMP, LATER_STAMP = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
SHAPE = kind_schema("apps", "v1", "Deployment").shape

config_maps = mf.FieldManager(kind_schema("", "v1", "ConfigMap").shape, GroupVersionKind("", "v1", "ConfigMap"))
deployments = mf.FieldManager(SHAPE, DEPLOYMENT, reset=excluding(fs.fields("status")))
events = mf.FieldManager(kind_schema("", "v1", "Event").shape, GroupVersionKind("", "v1", "Event"))
statuses = mf.FieldManager(
    SHAPE, DEPLOYMENT, subresource="status", reset=excluding(fs.fields("spec"), fs.fields("metadata", "labels"))
)


def config_map(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def created(obj, manager="creator", by=config_maps):
    by.update(None, obj, manager=manager, now=NOW)
    obj["metadata"]["uid"] = "u"
    return obj


def updated(live, new, manager, by=config_maps):
    by.update(live, new, manager=manager, now=LATER)
    return new


def applied(live, config, manager, by=config_maps, **how):
    return by.apply(live, config, manager=manager, now=LATER, **how)


def owners(obj):
    entries = obj["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


# -- create, update, patch --------------------------------------------------------------------------------------------


def test_a_create_owns_the_fields_it_set_and_the_defaults():
    obj = created(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "labels": {"app": "web"}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "resources": {}, "ports": [{"containerPort": 80}]}]},
                },
            },
            "status": {"replicas": 3},
        },
        by=deployments,
    )
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "time": STAMP,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                    "f:template": {
                        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                        "f:spec": {
                            "f:containers": {
                                'k:{"name":"c"}': {
                                    ".": {},
                                    "f:name": {},
                                    "f:ports": {
                                        ".": {},
                                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                                    },
                                    "f:resources": {},
                                }
                            }
                        },
                    },
                },
            },
        }
    ]
    fields = obj["metadata"]["managedFields"][0]["fieldsV1"]
    assert msgspec.json.encode(fields) == msgspec.json.encode(fs.ordered(fields))


WHOLE_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "labels": {"a": "x", "b": "y"}, "finalizers": ["a.io/f"]},
    "spec": {
        "replicas": 2,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {
            "metadata": {"creationTimestamp": None, "labels": {"a": "x"}},
            "spec": {
                "nodeSelector": {"a": "x"},
                "tolerations": [{"key": "k"}],
                "containers": [
                    {
                        "name": "one",
                        "image": "i",
                        "args": ["x"],
                        "resources": {"limits": {"cpu": "1"}},
                        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 443}],
                        "env": [{"name": "A", "value": "x"}],
                    },
                    {"name": "two", "resources": {}},
                ],
            },
        },
    },
    "status": {"replicas": 1},
}
WHOLE_EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "firstTimestamp": STAMP,
    "reportingComponent": "c",
    "series": {"count": 1, "lastObservedTime": STAMP},
}
OTHERS = {str: ("", "0", "x", None), int: (0, 1, None), dict: ({}, None), list: ([], None)}


def variations(value):
    """All values that differ from one in a single place."""
    yield from (other for other in OTHERS.get(type(value), ()) if other != value)
    if isinstance(value, dict):
        for name, below in value.items():
            yield {key: one for key, one in value.items() if key != name}
            yield from ({**value, name: other} for other in variations(below) if name != "metadata" or other)
    elif isinstance(value, list):
        yield from (value + value[:1], value[1:])
        for index, item in enumerate(value):
            others = (other for other in variations(item) if other is not None)
            yield from ([*value[:index], other, *value[index + 1 :]] for other in others)


@pytest.mark.parametrize(("manager", "whole"), [(deployments, WHOLE_DEPLOYMENT), (events, WHOLE_EVENT)])
def test_new_objects_that_look_alike_are_given_the_fields_that_each_of_them_sets(manager, whole):
    mf._created.clear()
    for obj in [*variations(whole), *variations(whole)]:
        if not obj or not obj.get("metadata"):
            continue
        new = copy.deepcopy(obj)
        try:
            expected = manager._ownership.update({}, new, {})[0]
        except InvalidValue:
            expected = {}
        sets = owners(created(new, by=manager)).get(("creator", "Update"), {})
        # As bytes, because their order counts.
        assert msgspec.json.encode(sets) == msgspec.json.encode(expected)


def test_an_outline_tells_a_value_from_the_zero_that_is_there_without_it():
    fields = {"value": ("f:value", Shape(SCALAR, scalar="string")), "other": ("f:other", Shape(SCALAR))}
    shape = Shape(STRUCT, fill=lambda: (fields, {"value": "0"}))
    assert outline(shape, {"value": "0"}) != outline(shape, {"value": "1"}) == outline(shape, {"value": "2"})


def test_new_objects_that_look_alike_do_not_share_what_is_recorded():
    one, other = (created(config_map(a=value))["metadata"]["managedFields"] for value in ("1", "2"))
    one[0]["fieldsV1"]["f:data"]["f:b"] = {}
    assert other == created(config_map(a="3"))["metadata"]["managedFields"]
    assert "f:b" not in other[0]["fieldsV1"]["f:data"]


def test_what_is_remembered_of_new_objects_is_bounded():
    mf._created.clear()
    for number in range(2 * mf._REMEMBERED):
        created(config_map(**{f"key-{number}": "x"}))
    assert len(mf._created) == mf._REMEMBERED
    created(config_map(**{f"key-{number}": "x" for number in range(1000)}))
    assert max(len(str(key[1])) for key in mf._created) <= mf._REMEMBERED_CHARACTERS


def shapes_below(shape):
    waiting, seen = [shape], {}
    while waiting:
        shape = waiting.pop()
        if shape is not None and id(shape) not in seen and shape.kind != ANY:
            seen[id(shape)] = shape
            waiting += (shape.values, shape.items, *(below for _, below in shape.fields.values()))
    return seen.values()


def is_told_apart(shape, zero):
    """An outline tells a value that is this one from all others: it is empty, in `zeros`, or a struct of such values."""
    return all(
        not value or shape.zeros.get(name) == value or is_told_apart(shape.fields[name][1], value)
        for name, value in zero.items()
    )


@pytest.mark.parametrize(
    "kind",
    sorted(
        {(group.group, group.version, row.kind) for group in GROUPS for row in group.rows if group.version != "v1beta1"}
    ),
    ids="/".join,
)
def test_an_outline_tells_what_an_object_has_without_showing_it(kind):
    for shape in shapes_below(kind_schema(*kind).shape):
        assert is_told_apart(shape, shape.present)


def test_a_custom_resource_is_owned_from_its_spec_down():
    things = mf.FieldManager(DEDUCED, GroupVersionKind("ex.io", "v1", "Thing"))
    obj = created({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": [1]}}, by=things)
    assert owners(obj) == {("creator", "Update"): {"f:spec": {".": {}, "f:a": {}}}}


def test_an_update_owns_changed_and_added_fields_and_drops_removed_ones():
    live = created(config_map(a="1", b="2", c="3"))
    new = updated(live, config_map(a="1", b="9", d="4"), "other")
    assert owners(new) == {
        ("creator", "Update"): {"f:data": {".": {}, "f:a": {}}},
        ("other", "Update"): {"f:data": {"f:b": {}, "f:d": {}}},
    }
    assert [entry["time"] for entry in new["metadata"]["managedFields"]] == [STAMP, LATER_STAMP]


def test_an_update_that_only_removes_fields_adds_no_entry():
    live = created(config_map(a="1", b="2"))
    new = updated(live, config_map(a="1"), "other")
    assert owners(new) == {("creator", "Update"): {"f:data": {".": {}, "f:a": {}}}}
    assert new["metadata"]["managedFields"][0]["time"] == STAMP


def test_an_update_without_changes_keeps_the_same_entries():
    live = created(config_map(a="1"))
    for sent in (None, copy.deepcopy(live["metadata"]["managedFields"])):
        new = config_map(a="1")
        if sent:
            new["metadata"]["managedFields"] = sent
        updated(live, new, "other")
        assert new["metadata"]["managedFields"] is live["metadata"]["managedFields"]


def test_versions_and_subresources_have_separate_entries():
    live = created(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}},
        by=deployments,
    )
    new = copy.deepcopy(live) | {"status": {"replicas": 1}, "spec": {"replicas": 2}}
    new["metadata"]["labels"] = {"a": "b"}
    updated(live, new, "creator", by=statuses)
    entry = new["metadata"]["managedFields"][1]
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:replicas": {}}})
    assert list(entry) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"]
    assert new["metadata"]["managedFields"][0] == live["metadata"]["managedFields"][0]


@pytest.mark.parametrize("reset", [[], [{}]])
def test_an_empty_list_resets_ownership_until_the_next_apply(reset):
    live = created(config_map(a="1"))
    new = config_map(a="2")
    new["metadata"]["managedFields"] = reset
    updated(live, new, "other")
    assert "managedFields" not in new["metadata"]
    new["metadata"]["uid"] = "u"
    third = updated(new, config_map(a="3"), "other")
    assert "managedFields" not in third["metadata"], "who did not record ownership does not start with an update"


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "x", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}},
        {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "V2", "fieldsV1": {"f:data": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"data": {}}},
    ],
)
def test_entries_that_cannot_be_read_are_ignored(entry):
    live = created(config_map(a="1"))
    new = config_map(a="1")
    new["metadata"]["managedFields"] = [entry]
    assert owners(updated(live, new, "other")) == owners(live)


def test_entries_a_client_sends_replace_the_stored_ones_but_not_on_sub_resources():
    mine = {"manager": "x", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1"}
    sent = [mine | {"fieldsV1": {"f:spec": {"f:replicas": {}}, "f:metadata": {"f:name": {}}}}]
    live = created(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}},
        by=deployments,
    )
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = copy.deepcopy(sent)
    assert owners(updated(live, new, "other", by=deployments)) == {("x", "Apply"): {"f:spec": {"f:replicas": {}}}}
    new["metadata"]["managedFields"] = copy.deepcopy(sent)
    assert owners(updated(live, new, "other", by=statuses)) == owners(live)


def test_the_oldest_update_entries_are_merged():
    live = created(config_map(k0="0"), manager="m0")
    data = {"k0": "0"}
    for number in range(1, 13):
        data[f"k{number}"] = str(number)
        new = config_map(**data)
        config_maps.update(live, new, manager=f"m{number}", now=NOW + dt.timedelta(minutes=number))
        live = new
        live["metadata"]["uid"] = "u"
    entries = live["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["ancient-changes", *(f"m{number}" for number in range(4, 13))]
    assert entries[0]["fieldsV1"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}
    assert entries[0]["time"] == "2026-01-01T00:03:00Z"


def test_apply_entries_are_never_merged():
    live = None
    for number in range(12):
        live = applied(live, config_map(**{f"k{number}": "1"}), f"m{number}")
    assert len(live["metadata"]["managedFields"]) == 12


def test_an_object_with_duplicate_list_map_keys_has_no_managed_fields():
    manager = mf.FieldManager(
        kind_schema("", "v1", "ServiceAccount").shape, GroupVersionKind("", "v1", "ServiceAccount")
    )
    new = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}, "secrets": [{"namespace": "x"}]}
    manager.update(None, new, manager="m", now=NOW)
    assert "managedFields" not in new["metadata"]


def test_a_change_of_timestamps_alone_is_no_change():
    live = created(config_map(a="1"))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["time"] = LATER_STAMP
    mf.keep_times(live, new)
    assert new == live
    for change in (
        {"data": {"a": "2"}},
        {"metadata": live["metadata"] | {"managedFields": new["metadata"]["managedFields"] * 2}},
    ):
        other = copy.deepcopy(live)
        other["metadata"]["managedFields"][0]["time"] = LATER_STAMP
        other = other | copy.deepcopy(change)
        before = copy.deepcopy(other)
        mf.keep_times(live, other)
        assert other == before


# -- apply ------------------------------------------------------------------------------------------------------------


def test_an_apply_that_creates_owns_the_applied_fields():
    obj = applied(None, config_map(a="1", b="2"), "m1")
    assert owners(obj) == {("m1", "Apply"): {"f:data": {"f:a": {}, "f:b": {}}}}
    assert obj["metadata"]["managedFields"][0]["time"] == LATER_STAMP


def test_conflicts_name_the_field_manager_and_field():
    live = applied(None, config_map(a="1", b="2"), "m1")
    with pytest.raises(Conflict) as one:
        applied(live, config_map(a="9"), "m2")
    assert one.value.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    assert one.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}]
    }
    with pytest.raises(Conflict) as two:
        applied(live, config_map(a="9", b="9"), "m2")
    assert two.value.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'


def test_conflicts_with_updates_name_version_and_subresource():
    live = created(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 1}},
        "kcm",
        by=statuses,
    )
    with pytest.raises(Conflict) as raised:
        applied(live, {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 2}}, "m", by=statuses)
    assert raised.value.message == (
        'Apply failed with 1 conflict: conflict with "kcm" with subresource "status" using apps/v1: .status.replicas'
    )


def test_equal_values_are_shared_and_change_no_timestamp():
    live = applied(None, config_map(a="1", b="2"), "m1")
    shared = applied(live, config_map(a="1"), "m2")
    assert owners(shared) == {
        ("m2", "Apply"): {"f:data": {"f:a": {}}},
        ("m1", "Apply"): {"f:data": {"f:a": {}, "f:b": {}}},
    }
    assert [entry.get("time") for entry in shared["metadata"]["managedFields"]] == [None, LATER_STAMP]


def test_force_takes_ownership_and_dropped_fields_without_another_owner_are_removed():
    live = applied(applied(None, config_map(a="1", b="2"), "m1"), config_map(a="9"), "m2", force=True)
    assert owners(live) == {("m1", "Apply"): {"f:data": {"f:b": {}}}, ("m2", "Apply"): {"f:data": {"f:a": {}}}}
    dropped = applied(live, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, "m1")
    assert dropped["data"] == {"a": "9"}
    assert owners(dropped) == {("m2", "Apply"): {"f:data": {"f:a": {}}}}


def test_an_apply_without_metadata_leaves_the_object_its_name():
    config = config_map(a="1")
    config["metadata"]["labels"] = {"x": "y"}
    live = applied(None, config, "m1")
    bare = applied(live, {"apiVersion": "v1", "kind": "ConfigMap"}, "m1")
    assert bare["metadata"] == {"name": "c"}


def test_an_apply_without_changes_keeps_the_same_entries():
    live = applied(None, config_map(a="1"), "m1")
    again = applied(live, config_map(a="1"), "m1")
    assert again == live
    assert again["metadata"]["managedFields"] is live["metadata"]["managedFields"]
    assert again is not live
    assert again["metadata"] is not live["metadata"]


def test_the_first_apply_records_before_first_apply():
    live = config_map(a="1", b="2")
    live["metadata"] |= {"uid": "u", "labels": {"x": "y"}}
    assert owners(applied(live, config_map(c="3"), "m1")) == {
        ("m1", "Apply"): {"f:data": {"f:c": {}}},
        ("before-first-apply", "Update"): {
            "f:data": {".": {}, "f:a": {}, "f:b": {}},
            "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
        },
    }


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"apiVersion": "v2", "kind": "ConfigMap"}, BadRequest, "invalid object type: /v2, Kind=ConfigMap"),
        ({"metadata": {"name": "c"}}, BadRequest, "invalid object type: /, Kind="),
        ({"apiVersion": "a/b/c", "kind": "ConfigMap"}, BadRequest, "invalid object type: /, Kind="),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, BadRequest, "invalid object type: apps/v1, Kind=ConfigMap"),
        (config_map() | {"metadata": {"managedFields": []}}, BadRequest, "metadata.managedFields must be nil"),
        (
            config_map() | {"foo": 1},
            PlainError,
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        (
            config_map(a=1, b=[]) | {"metadata": {"namespace": "n"}},
            PlainError,
            (
                "failed to create typed patch object (n/; /v1, Kind=ConfigMap): errors:\n"
                "  .data.a: expected string, got &value.valueUnstructured{Value:1}\n"
                "  .data.b: expected string, got &value.valueUnstructured{Value:[]interface {}{}}"
            ),
        ),
    ],
)
def test_an_applied_configuration_must_be_an_object(config, error, message):
    with pytest.raises(error) as raised:
        applied(None, config, "m")
    assert raised.value.message == message


def test_null_managed_fields_are_none():
    assert owners(applied(None, config_map(a="1") | {"metadata": {"name": "c", "managedFields": None}}, "m"))


def test_status_applied_to_the_main_endpoint_is_not_owned():
    config = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1},
        "status": {"replicas": 1},
    }
    assert owners(applied(None, config, "m", by=deployments)) == {("m", "Apply"): {"f:spec": {"f:replicas": {}}}}


# -- kubectl ----------------------------------------------------------------------------------------------------------


def client_side(**data):
    obj = config_map(**data)
    last = msgspec.json.encode(config_map(**data)).decode()
    obj["metadata"]["annotations"] = {lastapplied.ANNOTATION: last}
    return created(obj, "kubectl-client-side-apply")


def test_kubectl_may_change_fields_of_its_client_side_apply_without_conflict():
    live = client_side(a="1", b="2")
    new = applied(live, config_map(a="9", b="2"), "kubectl")
    assert new["data"] == {"a": "9", "b": "2"}
    written = new["metadata"]["annotations"][lastapplied.ANNOTATION]
    assert written == '{"apiVersion":"v1","data":{"a":"9","b":"2"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    with pytest.raises(Conflict):
        applied(live, config_map(a="9"), "other")


def test_kubectl_conflicts_where_the_object_is_no_longer_what_it_applied():
    live = client_side(a="1", b="2")
    changed = copy.deepcopy(live)
    changed["data"]["a"] = "5"
    updated(live, changed, "other")
    with pytest.raises(Conflict) as raised:
        applied(changed, config_map(a="9", b="9"), "kubectl")
    assert [cause["field"] for cause in raised.value.details["causes"]] == [".data.a"]


@pytest.mark.parametrize("annotation", ["", "{", "[]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","foo":1}'])
def test_invalid_last_applied_annotations_are_ignored(annotation):
    live = client_side(a="1")
    live["metadata"]["annotations"][lastapplied.ANNOTATION] = annotation
    with pytest.raises(Conflict):
        applied(live, config_map(a="9"), "kubectl")


def test_a_last_applied_annotation_over_the_size_limit_is_removed():
    live = client_side(a="1")
    new = applied(live, config_map(a="1", b="x" * lastapplied.MOST_ANNOTATION_BYTES), "kubectl")
    assert lastapplied.ANNOTATION not in new["metadata"]["annotations"]
    assert lastapplied.ANNOTATION in live["metadata"]["annotations"]


def test_the_last_applied_annotation_escapes_html():
    new = applied(client_side(a="1"), config_map(a="<&>"), "kubectl", force=True)
    assert '"a":"\\u003c\\u0026\\u003e"' in new["metadata"]["annotations"][lastapplied.ANNOTATION]


# -- scale ------------------------------------------------------------------------------------------------------------

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
REPLICAS = {"apps/v1": fs.fields("spec", "replicas")}
scales = mf.FieldManager(kind_schema("autoscaling", "v1", "Scale").shape, SCALE, subresource="scale")


def scale(replicas, entries=()):
    obj = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d", "uid": "u"},
        "spec": {"replicas": replicas},
    }
    if entries:
        obj["metadata"]["managedFields"] = list(entries)
    return obj


def test_scaling_moves_replicas_to_a_new_entry_without_a_timestamp():
    parent = created(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 1, "paused": True},
        },
        by=deployments,
    )
    entries = parent["metadata"]["managedFields"]
    live = scale(1, mf.scale_entries(entries, REPLICAS))
    assert owners(live) == {("creator", "Update"): {"f:spec": {"f:replicas": {}}}}
    new = updated(live, scale(5), "hpa", by=scales)
    result = mf.parent_entries(entries, new["metadata"]["managedFields"], "apps/v1", REPLICAS)
    assert [(entry["manager"], entry.get("time"), entry["fieldsV1"], entry.get("subresource")) for entry in result] == [
        ("hpa", None, {"f:spec": {"f:replicas": {}}}, "scale"),
        ("creator", STAMP, {"f:spec": {"f:paused": {}}}, None),
    ]
    assert result[0]["apiVersion"] == "apps/v1"


def test_scaling_to_the_same_value_changes_no_entry():
    parent = created(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}},
        by=deployments,
    )
    entries = parent["metadata"]["managedFields"]
    new = updated(scale(1, mf.scale_entries(entries, REPLICAS)), scale(1), "hpa", by=scales)
    assert mf.parent_entries(entries, new["metadata"]["managedFields"], "apps/v1", REPLICAS) == entries


def test_entries_of_versions_that_cannot_be_scaled():
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "apps/v2",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    assert mf.scale_entries([entry], REPLICAS) == []
    assert mf.parent_entries([entry], [], "apps/v1", REPLICAS) == []
    assert mf.parent_entries([entry], [], "apps/v1", REPLICAS | {"apps/v2": None}) == [entry]


# -- entries ----------------------------------------------------------------------------------------------------------

entries = st.lists(
    st.fixed_dictionaries(
        {
            "manager": st.sampled_from("abc"),
            "operation": st.sampled_from(["Apply", "Update"]),
            "apiVersion": st.sampled_from(["v1", "v2"]),
            "fieldsType": st.just("FieldsV1"),
            "fieldsV1": st.sampled_from([{"f:a": {}}, {"f:b": {".": {}, "f:c": {}}}]),
        },
        optional={"time": st.sampled_from([STAMP, LATER_STAMP]), "subresource": st.just("status")},
    ),
    max_size=6,
)


@given(entries)
def test_entries_are_read_and_written_the_same_in_one_order(sent):
    written = mf.encode(mf.decode(sent))
    assert mf.encode(mf.stored(written)) == written == mf.encode(mf.decode(list(reversed(written))))
    keys = [
        (e["operation"], e.get("time", ""), e["manager"], e["apiVersion"], e.get("subresource", "")) for e in written
    ]
    assert keys == sorted(keys)
    identities = {
        (e["manager"], e["operation"], e["operation"] == "Update" and e["apiVersion"], e.get("subresource"))
        for e in sent
    }
    assert len(written) == len(identities)
