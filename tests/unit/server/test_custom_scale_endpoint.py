"""The scale sub-resource of custom kinds: read, replaced, patched and applied, with the owners of what it writes."""

import pytest

from api_client import APPLY, JSON_PATCH, PARTIAL, TABLE, served
from custom_kinds import GROUP, SCALE, WIDGETS, defined, definition, record, version, widget

W = f"{WIDGETS}/w"
S = f"{W}/scale"


def scaled(name="v1", spec=None, **more):
    return version(name, spec, subresources={"status": {}, "scale": SCALE}, **more)


async def made(api, spec=None, status=None):
    await defined(api, definition(versions=[scaled(storage=True)]))
    obj = await api.made(WIDGETS, widget(spec={"size": 2} if spec is None else spec))
    if status is not None:
        answer = await api.patch(f"{W}/status", {"status": status})
        assert answer.status == 200, answer
    return obj


def scale(replicas=None, **metadata):
    obj = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w", **metadata}}
    return obj if replicas is None else {**obj, "spec": {"replicas": replicas}}


@served
async def test_a_scale_shows_the_fields_the_definition_names(api):
    obj = await made(api, status={"size": 1, "selector": "a=b"})
    answer = await api.get(S)
    current = (await api.get(W)).metadata
    assert answer.json == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "w",
            "namespace": "default",
            "uid": obj["metadata"]["uid"],
            "resourceVersion": current["resourceVersion"],
            "creationTimestamp": obj["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b"},
    }


@served
async def test_a_scale_without_replicas_cannot_be_read_but_can_be_written(api):
    await made(api, spec={})
    assert (await api.get(S)).error == (
        500,
        "InternalError",
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )
    unset = await api.patch(S, {"metadata": {"labels": {"a": "b"}}})
    assert unset.error == (400, "BadRequest", 'the spec replicas field ".spec.size" cannot be empty')
    assert (await api.put(S, scale(3)))["spec"] == {"replicas": 3}
    assert (await api.get(W))["spec"]["size"] == 3


@served
async def test_fields_created_by_a_scale_write_get_defaults(api):
    await defined(api, definition(versions=[scaled(storage=True)]))
    await api.made(WIDGETS, widget())
    assert (await api.put(S, scale(1))).status == 200
    assert (await api.get(W))["spec"] == {"size": 1, "colour": "red"}
    assert (await api.put(W, (await api.get(W)).json)).version == (await api.get(W)).version


@served
async def test_replacing_a_scale_changes_the_replicas_only(api):
    first = await made(api, status={"size": 1})
    body = {**scale(5, labels={"a": "b"}), "status": {"replicas": 9}}
    answer = await api.put(S, body)
    assert (answer.status, answer["spec"], answer["status"]) == (200, {"replicas": 5}, {"replicas": 1})
    obj = await api.get(W)
    assert (obj["spec"]["size"], obj["status"], obj.metadata["generation"]) == (5, {"size": 1}, 2)
    assert "labels" not in obj.metadata
    assert obj["spec"]["colour"] == first["spec"]["colour"]
    assert (await api.put(S, scale()))["spec"] == {}
    assert (await api.get(W))["spec"]["size"] == 0


@served
async def test_a_scale_honours_preconditions(api):
    first = await made(api)
    assert (await api.put(S, scale(3, resourceVersion="1"))).status == 409
    stale = await api.put(S, scale(3, uid="another"))
    assert (stale.status, stale["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another" in stale.message
    assert (await api.get(W))["spec"]["size"] == 2
    mine = {"uid": first["metadata"]["uid"], "resourceVersion": first["metadata"]["resourceVersion"]}
    assert (await api.put(S, scale(3, **mine))).status == 200
    assert (await api.put(S, scale(4, **mine))).status == 409


@served
async def test_a_patch_of_a_scale_ignores_the_uid(api):
    await made(api)
    answer = await api.patch(S, {"metadata": {"uid": "another"}, "spec": {"replicas": 6}})
    assert (answer.status, answer["spec"]) == (200, {"replicas": 6})
    assert (await api.patch(S, {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 7}})).status == 409
    assert (await api.patch(S, [{"op": "replace", "path": "/spec/replicas", "value": 8}], JSON_PATCH)).status == 200
    assert (await api.get(W))["spec"]["size"] == 8


BAD = [
    pytest.param(scale(-1), 422, 'Widget.example.com "w" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer', id="negative"),
    pytest.param(scale("x"), 400, 'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal string', id="text"),
    pytest.param({**scale(1), "metadata": {"name": "x"}}, 400, "the name of the object (x) does not match the name on the URL (w)", id="name"),
    pytest.param(scale(1, namespace="other"), 400, "the namespace of the provided object does not match the namespace sent on the request", id="namespace"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "text"), BAD)
@served
async def test_an_invalid_scale_is_refused(api, body, code, text):
    await made(api)
    answer = await api.put(S, body)
    assert answer.status == code, answer
    assert answer.message.startswith(text)
    assert (await api.get(W))["spec"]["size"] == 2


@served
async def test_the_scale_of_a_missing_object_is_not_found(api):
    await made(api)
    path = f"{WIDGETS}/none/scale"
    missing = (404, "NotFound", 'widgets.example.com "none" not found')
    assert (await api.get(path)).error == missing
    assert (await api.put(path, {**scale(1), "metadata": {"name": "none"}})).error == missing
    assert (await api.patch(path, {})).error == missing


@served
async def test_the_object_is_validated_after_a_scale_write(api):
    limited = record(size={"type": "integer", "maximum": 5})
    await defined(api, definition(versions=[scaled(spec=limited, storage=True)]))
    await api.made(WIDGETS, widget(spec={"size": 1}))
    answer = await api.put(S, scale(6))
    assert answer.status == 422
    assert "spec.size in body should be less than or equal to 5" in answer.message


@served
async def test_a_dry_run_of_a_scale_changes_nothing(api):
    await made(api)
    answer = await api.put(S, scale(5), dryRun="All")
    assert answer["spec"] == {"replicas": 5}
    assert (await api.get(W))["spec"]["size"] == 2


@served
async def test_scales_are_shown_as_tables_with_their_own_columns(api):
    await made(api, status={"size": 1})
    table = await api.get(S, headers={"accept": TABLE})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["w", 2, 1, "0s"]
    partial = await api.get(S, headers={"accept": PARTIAL})
    assert partial.metadata["name"] == "w"


@served
async def test_a_scale_write_records_the_field_manager_of_replicas(api):
    await made(api)
    answer = await api.put(S, scale(3), fieldManager="scaler")
    assert "managedFields" not in answer.metadata
    entries = (await api.get(W)).metadata["managedFields"]
    (mine,) = [entry for entry in entries if entry["manager"] == "scaler"]
    assert (mine["subresource"], mine["operation"], mine["apiVersion"]) == ("scale", "Update", f"{GROUP}/v1")
    assert mine["fieldsV1"] == {"f:spec": {"f:size": {}}}
    assert all("f:size" not in str(entry["fieldsV1"]) for entry in entries if entry is not mine)
    conflict = await api.patch(W, widget(spec={"size": 9}), APPLY, fieldManager="m")
    assert conflict.message == (
        f'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using {GROUP}/v1: .spec.size'
    )


@served
async def test_a_scale_can_be_applied(api):
    await defined(api, definition(versions=[scaled(storage=True)]))
    await api.patch(W, widget(spec={"size": 2}), APPLY, fieldManager="owner")
    refused = await api.patch(S, scale(3), APPLY, fieldManager="scaler")
    assert (refused.status, refused["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "owner": .spec.replicas'
    forced = await api.patch(S, scale(3), APPLY, fieldManager="scaler", force="true")
    assert (forced.status, forced["spec"]) == (200, {"replicas": 3})
    entries = {entry["manager"]: entry for entry in (await api.get(W)).metadata["managedFields"]}
    assert entries["scaler"]["fieldsV1"] == {"f:spec": {"f:size": {}}}
    assert "owner" not in entries or "f:size" not in str(entries["owner"]["fieldsV1"])


@served
async def test_each_version_has_its_own_paths(api):
    other = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}
    count = record(count={"type": "integer"}, size={"type": "integer"})
    versions = [
        scaled("v1", count, storage=True),
        version("v2", count, subresources={"scale": other}),
        version("v3", count),
    ]
    await defined(api, definition(versions=versions))
    await api.made(WIDGETS, widget(spec={"size": 1, "count": 5}))
    paths = {name: f"/apis/{GROUP}/{name}/namespaces/default/widgets/w/scale" for name in ("v1", "v2", "v3")}
    assert (await api.get(paths["v1"]))["spec"] == {"replicas": 1}
    assert (await api.get(paths["v2"]))["spec"] == {"replicas": 5}
    assert (await api.get(paths["v3"])).status == 404
    await api.patch(paths["v2"], {"spec": {"replicas": 6}})
    assert (await api.get(W))["spec"] == {"size": 1, "count": 6}
