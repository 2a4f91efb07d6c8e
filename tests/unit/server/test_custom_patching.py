"""Patches of custom objects: JSON Patch, merge patch, and server-side apply by the schema of the definition."""

import json

import pytest

from api_client import APPLY, JSON_PATCH, MERGE, STRATEGIC, served
from custom_kinds import ANYTHING, GROUP, INTEGER, STRING, WIDGETS, defined, definition, record, version, widget

W = f"{WIDGETS}/w"
ITEM = record(
    ["key"],
    key=STRING,
    port={"type": "string", "default": "tcp"},
    value=INTEGER,
    list={"type": "array", "items": STRING},
)
SPEC = record(
    size=INTEGER,
    colour={"type": "string", "default": "red"},
    set={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    map={
        "type": "array",
        "items": ITEM,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key", "port"],
    },
    whole={"type": "array", "items": STRING},
    atom={"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": INTEGER, "b": INTEGER}},
    texts={"type": "object", "additionalProperties": STRING},
    free={"type": "object", **ANYTHING},
    nullable={"type": "string", "nullable": True},
)


async def made(api, spec=None, **more):
    await defined(api, definition(spec=SPEC, **more))
    if spec is not None:
        await api.made(WIDGETS, widget(spec=spec))


async def apply(api, spec, manager="m", *, path=W, force=False, **fields):
    more = {"force": "true"} if force else {}
    return await api.patch(path, widget(spec=spec, **fields), APPLY, fieldManager=manager, **more)


def owned(answer, manager, operation="Apply"):
    """The fields of a manager, as plain paths of what is below `f:spec`."""
    (entry,) = [
        one
        for one in answer.metadata["managedFields"]
        if (one["manager"], one["operation"]) == (manager, operation) and "subresource" not in one
    ]
    return entry["fieldsV1"].get("f:spec", {})


# -- JSON Patch and merge patch ---------------------------------------------------------------------------------------


@served
async def test_a_json_patch_is_applied_in_order(api):
    await made(api, {"size": 1, "whole": ["a", "b"]})
    operations = [
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 2},
        {"op": "add", "path": "/spec/whole/1", "value": "x"},
        {"op": "copy", "from": "/spec/whole/0", "path": "/spec/free"},
        {"op": "remove", "path": "/spec/free"},
    ]
    answer = await api.patch(W, operations, JSON_PATCH)
    assert answer["spec"] == {"size": 2, "whole": ["a", "x", "b"], "colour": "red"}


@served
async def test_a_failing_json_patch_changes_nothing(api):
    await made(api, {"size": 1})
    before = api.revision
    for operation in (
        {"op": "test", "path": "/spec/size", "value": 2},
        {"op": "remove", "path": "/spec/none"},
        {"op": "replace", "path": "/nowhere/at/all", "value": 1},
    ):
        answer = await api.patch(W, [{"op": "add", "path": "/spec/size", "value": 9}, operation], JSON_PATCH)
        assert answer.error == (422, "Invalid", "the server rejected our request due to an error in our request")
    assert api.revision == before


@served
async def test_a_merge_patch_merges_maps_and_replaces_lists(api):
    await made(api, {"set": ["a"], "texts": {"a": "1", "b": "2"}, "whole": ["x"]})
    answer = await api.patch(W, {"spec": {"set": ["b"], "texts": {"b": None, "c": "3"}, "whole": None}})
    assert answer["spec"] == {"set": ["b"], "texts": {"a": "1", "c": "3"}, "colour": "red"}


@served
async def test_a_strategic_merge_patch_of_a_custom_resource_is_refused(api):
    await made(api, {"size": 1})
    answer = await api.patch(W, {"spec": {"size": 2}}, STRATEGIC)
    assert answer.error == (
        415,
        "UnsupportedMediaType",
        (
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON_PATCH}, {MERGE}, {APPLY}"
        ),
    )


@served
async def test_strict_field_validation_of_a_patch(api):
    await made(api, {"size": 1})
    patch = {"spec": {"zz": 1}}
    warned = await api.patch(W, patch)
    assert (warned.status, warned.warnings) == (200, ['unknown field "spec.zz"'])
    assert (await api.patch(W, patch, fieldValidation="Ignore")).warnings == []
    strict = await api.patch(W, patch, fieldValidation="Strict")
    assert strict.status == 422
    assert strict.message.endswith(': strict decoding error: unknown field "spec.zz"')


OTHER_KINDS = [
    pytest.param({"kind": "Other"}, 'Other.example.com "w" is invalid: kind: Invalid value: "Other": must be Widget', id="kind"),
    pytest.param({"apiVersion": "x/y"}, 'Widget.x "w" is invalid: apiVersion: Invalid value: "x/y": must be example.com/v1', id="group"),
    pytest.param({"kind": None}, ' "" is invalid: patch: Invalid value: ', id="no-kind"),
    pytest.param({"apiVersion": None}, ' "" is invalid: patch: Invalid value: ', id="no-version"),
]  # fmt: skip


@pytest.mark.parametrize(("patch", "text"), OTHER_KINDS)
@served
async def test_a_patch_cannot_change_name_or_kind(api, patch, text):
    await made(api, {"size": 1})
    answer = await api.patch(W, {**patch, "spec": {"size": 2}})
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer.message.startswith(text)
    assert (await api.get(W))["spec"]["size"] == 1


@served
async def test_a_patch_with_a_resource_version_is_conditional(api):
    await made(api, {"size": 1})
    old = (await api.get(W)).version
    patch = {"metadata": {"resourceVersion": old}, "spec": {"size": 2}}
    assert (await api.patch(W, patch)).status == 200
    assert (await api.patch(W, patch)).status == 409
    assert (await api.patch(W, {"metadata": {"resourceVersion": None}, "spec": {"size": 3}})).status == 422


@served
async def test_patching_a_missing_object_is_not_found(api):
    await made(api)
    for content_type, patch in ((MERGE, {}), (JSON_PATCH, [])):
        answer = await api.patch(W, patch, content_type)
        assert answer.error == (404, "NotFound", 'widgets.example.com "w" not found')


# -- apply ------------------------------------------------------------------------------------------------------------


@served
async def test_an_apply_creates_and_writes_nothing_the_second_time(api):
    await made(api)
    first = await apply(api, {"size": 1, "set": ["a"]})
    assert first.status == 201
    assert first["spec"] == {"size": 1, "set": ["a"], "colour": "red"}
    assert first.metadata["generation"] == 1
    again = await apply(api, {"size": 1, "set": ["a"]})
    assert (again.status, again.version) == (200, first.version)


@served
async def test_defaults_are_not_owned_by_an_applying_field_manager(api):
    await made(api)
    answer = await apply(api, {"size": 1})
    assert owned(answer, "m") == {"f:size": {}}
    mine = await api.patch(W, {"spec": {"size": 2}}, fieldManager="other")
    assert owned(mine, "other", "Update") == {"f:size": {}}


@served
async def test_defaults_are_owned_by_the_field_manager_of_an_update(api):
    await made(api)
    answer = await api.post(WIDGETS, widget(spec={"size": 1}), fieldManager="writer")
    assert owned(answer, "writer", "Update") == {".": {}, "f:colour": {}, "f:size": {}}


@served
async def test_changing_a_field_of_another_manager_is_a_conflict_that_force_resolves(api):
    await made(api)
    await apply(api, {"size": 1, "texts": {"a": "1"}}, "one")
    refused = await apply(api, {"size": 2, "texts": {"a": "2", "b": "2"}}, "two")
    assert (refused.status, refused["reason"]) == (409, "Conflict")
    assert refused.message == ('Apply failed with 2 conflicts: conflicts with "one":\n- .spec.size\n- .spec.texts.a')
    assert [cause["field"] for cause in refused["details"]["causes"]] == [".spec.size", ".spec.texts.a"]
    assert (await apply(api, {"size": 1}, "two")).status == 200
    forced = await apply(api, {"size": 2, "texts": {"a": "2"}}, "two", force=True)
    assert forced["spec"]["size"] == 2
    assert owned(forced, "two") == {"f:size": {}, "f:texts": {"f:a": {}}}
    assert "one" not in [entry["manager"] for entry in forced.metadata["managedFields"]]


@served
async def test_lists_are_merged_or_replaced_by_their_list_type(api):
    await made(api)
    await apply(api, {"set": ["a", "b"], "map": [{"key": "x", "value": 1}], "whole": ["1"]}, "one")
    answer = await apply(api, {"set": ["c", "a"], "map": [{"key": "y"}, {"key": "x", "port": "udp"}]}, "two")
    assert answer.status == 200, answer
    assert sorted(answer["spec"]["set"]) == ["a", "b", "c"]
    assert answer["spec"]["map"] == [
        {"key": "x", "value": 1, "port": "tcp"},
        {"key": "y", "port": "tcp"},
        {"key": "x", "port": "udp"},
    ]
    assert (await apply(api, {"whole": ["2"]}, "two")).status == 409
    # A field that a manager no longer applies is removed, unless another manager owns it.
    rest = await apply(api, {"set": ["b"], "whole": ["1"]}, "one")
    assert sorted(rest["spec"]["set"]) == ["a", "b", "c"]
    assert [item["key"] for item in rest["spec"]["map"]] == ["y", "x"]
    less = await apply(api, {"set": ["c"]}, "two")
    assert sorted(less["spec"]["set"]) == ["b", "c"]
    assert "map" not in less["spec"]


@served
async def test_an_atomic_map_has_one_owner(api):
    await made(api)
    await apply(api, {"atom": {"a": 1}}, "one")
    assert (await apply(api, {"atom": {"b": 1}}, "two")).message == (
        'Apply failed with 1 conflict: conflict with "one": .spec.atom'
    )
    forced = await apply(api, {"atom": {"b": 1}}, "two", force=True)
    assert forced["spec"]["atom"] == {"b": 1}
    assert owned(forced, "two") == {"f:atom": {}}


@served
async def test_preserved_unknown_fields_are_owned_by_key(api):
    await made(api)
    await apply(api, {"free": {"a": {"b": 1}, "list": [1, 2]}}, "one")
    answer = await apply(api, {"free": {"a": {"c": 2}}}, "two")
    assert answer["spec"]["free"] == {"a": {"b": 1, "c": 2}, "list": [1, 2]}
    assert owned(answer, "one") == {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:list": {}}}


@served
async def test_an_applied_configuration_must_match_the_schema(api):
    await made(api)
    place = "failed to create typed patch object (/w; example.com/v1, Kind=Widget)"
    for spec, text in (
        ({"zz": 1}, ".spec.zz: field not declared in schema"),
        ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
        ({"map": [None]}, ".spec.map: element 0: associative list with keys may not have a null element"),
        ({"size": "x"}, ".spec.size: expected numeric (int or float), got string"),
    ):
        answer = await apply(api, spec)
        assert answer.status == 500
        assert answer.message == f"{place}: {text}"
    assert (await api.get(WIDGETS)).names == []


@served
async def test_the_result_of_an_apply_is_validated(api):
    await made(api, {"size": 1})
    answer = await apply(api, {"size": None}, force=True)
    assert answer.status == 422
    assert '"null": spec.size in body must be of type integer: "null"' in answer.message
    kept = await apply(api, {"nullable": None})
    assert kept["spec"]["nullable"] is None


@served
async def test_nulls_and_empty_maps_in_metadata_are_dropped(api):
    await made(api)
    answer = await apply(api, {}, metadata={"labels": None, "annotations": {}})
    assert answer.status == 201
    assert not {"labels", "annotations"} & set(answer.metadata)
    labelled = await apply(api, {}, metadata={"labels": {"a": None}})
    assert labelled.metadata["labels"] == {"a": ""}
    assert (await api.get(W)).metadata["labels"] == {"a": ""}


@served
async def test_nulls_that_are_pruned_on_read_are_not_returned(api):
    spec = record(any=ANYTHING, size=INTEGER)
    await defined(api, definition(spec=spec))
    answer = await apply(api, {"any": None, "size": 1})
    assert answer["spec"] == {"size": 1}
    assert (await api.get(W)).json == answer.json


@served
async def test_an_apply_is_for_one_object_of_one_kind(api):
    await made(api)
    assert (await api.patch(W, widget(), APPLY)).status == 422
    other = await api.patch(W, widget(api_version=f"{GROUP}/v2"), APPLY, fieldManager="m")
    assert other.error == (400, "BadRequest", "invalid object type: example.com/v2, Kind=Widget")
    named = await api.patch(W, widget("other"), APPLY, fieldManager="m")
    assert named.message == "the name of the object (other) does not match the name on the URL (w)"
    owned_by = await api.patch(W, widget(metadata={"managedFields": []}), APPLY, fieldManager="m")
    assert owned_by.message == "metadata.managedFields must be nil"
    foreign = await api.patch(W, widget(metadata={"uid": "u"}), APPLY, fieldManager="m")
    assert foreign.status == 409
    assert (await api.get(WIDGETS)).names == []


@served
async def test_a_dry_run_apply_stores_nothing(api):
    await made(api)
    before = api.revision
    answer = await api.patch(W, widget(spec={"size": 1}), APPLY, fieldManager="m", dryRun="All")
    assert (answer.status, answer["spec"]) == (201, {"size": 1, "colour": "red"})
    assert api.revision == before


@served
async def test_an_apply_body_is_yaml(api):
    await made(api)
    text = b"apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: 3\n  set: [a, b]\n"
    headers = {"content-type": APPLY}
    answer = await api.request("PATCH", W, text, headers=headers, fieldManager="m")
    assert (answer.status, answer["spec"]["set"]) == (201, ["a", "b"])


@served
async def test_status_can_be_applied_through_its_subresource(api):
    await made(api, {"size": 1})
    path = f"{W}/status"
    answer = await api.patch(path, widget(status={"ready": True}), APPLY, fieldManager="m")
    assert answer["status"] == {"ready": True}
    (entry,) = [one for one in answer.metadata["managedFields"] if one.get("subresource")]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == ("m", "Apply", {"f:status": {"f:ready": {}}})
    conflict = await api.patch(path, widget(status={"ready": False}), APPLY, fieldManager="two")
    assert conflict.message == (
        'Apply failed with 1 conflict: conflict with "m" with subresource "status": .status.ready'
    )
    assert (await api.patch(f"{WIDGETS}/x/status", widget("x"), APPLY, fieldManager="m")).status == 404


@served
async def test_field_managers_at_every_version_keep_their_fields(api):
    versions = [version("v1", SPEC, storage=True), version("v2", SPEC)]
    await defined(api, definition(versions=versions))
    second = f"/apis/{GROUP}/v2/namespaces/default/widgets/w"
    await apply(api, {"size": 1, "set": ["a"]}, "one")
    config = widget(spec={"colour": "blue", "set": ["b"]}, api_version=f"{GROUP}/v2")
    answer = await api.patch(second, config, APPLY, fieldManager="two")
    assert answer.status == 200, answer
    assert answer["spec"] == {"size": 1, "set": ["a", "b"], "colour": "blue"}
    entries = {one["manager"]: one["apiVersion"] for one in answer.metadata["managedFields"]}
    assert entries == {"one": f"{GROUP}/v1", "two": f"{GROUP}/v2"}
    refused = await api.patch(second, widget(spec={"size": 2}, api_version=f"{GROUP}/v2"), APPLY, fieldManager="two")
    assert refused.message == ('Apply failed with 1 conflict: conflict with "one": .spec.size')
    # One who applies is the same at every version.
    moved = await api.patch(second, widget(spec={"size": 3}, api_version=f"{GROUP}/v2"), APPLY, fieldManager="one")
    assert moved["spec"] == {"size": 3, "set": ["b"], "colour": "blue"}


@served
async def test_an_update_takes_fields_from_field_managers_at_other_versions(api):
    await defined(api, definition(versions=[version("v1", SPEC, storage=True), version("v2", SPEC)]))
    second = f"/apis/{GROUP}/v2/namespaces/default/widgets/w"
    await api.made(WIDGETS, widget(spec={"size": 1, "set": ["a"]}))
    answer = await api.patch(second, {"spec": {"size": 2}}, fieldManager="two")
    by = {one["manager"]: (one["apiVersion"], one["fieldsV1"]["f:spec"]) for one in answer.metadata["managedFields"]}
    assert by["two"] == (f"{GROUP}/v2", {"f:size": {}})
    assert "f:size" not in next(fields for manager, (_, fields) in by.items() if manager != "two")


@served
async def test_field_managers_at_a_removed_version_own_nothing(api):
    both = [version("v1", SPEC, storage=True), version("v2", SPEC)]
    await defined(api, definition(versions=both))
    second = f"/apis/{GROUP}/v2/namespaces/default/widgets/w"
    await api.made(WIDGETS, widget(spec={"size": 1}))
    await api.patch(second, {"spec": {"colour": "blue"}}, fieldManager="two")
    crd = (await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")).json
    crd["spec"]["versions"] = both[:1]
    assert (
        await api.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", crd)
    ).status == 200
    answer = await api.patch(W, {"spec": {"size": 2}})
    assert f"{GROUP}/v2" not in json.dumps(answer.metadata["managedFields"])
    assert answer["spec"] == {"size": 2, "colour": "blue"}
