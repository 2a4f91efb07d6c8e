"""Patching objects through the whole server: the three kinds of patch, their failures, and the rules they share."""

import pytest

from api_client import CM, DEPLOY, JSON_PATCH, LEASES, MERGE, NS, STRATEGIC, cm, deployment, lease, served

GENERIC = "the server rejected our request due to an error in our request"


@served
async def test_merge_patch_sets_and_removes(api):
    made = await api.made(CM, cm("a", data={"k": "v", "l": "w"}))
    answer = await api.patch(f"{CM}/a", {"data": {"k": None, "n": "1"}, "metadata": {"labels": {"x": "y"}}})
    assert answer.status == 200
    assert answer["data"] == {"l": "w", "n": "1"}
    assert answer.metadata["labels"] == {"x": "y"}
    assert answer.metadata["uid"] == made["metadata"]["uid"]
    assert (await api.get(f"{CM}/a")).json == answer.json


@served
async def test_json_patch_is_applied_in_order(api):
    await api.made(CM, cm("a", data={"k": "v"}))
    operations = [
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "add", "path": "/data/n", "value": "1"},
        {"op": "move", "from": "/data/k", "path": "/data/m"},
        {"op": "copy", "from": "/data/m", "path": "/data/c"},
        {"op": "remove", "path": "/data/n"},
        # The library of kube-apiserver takes a replacement of a missing key as an addition.
        {"op": "replace", "path": "/data/new", "value": "x"},
    ]
    answer = await api.patch(f"{CM}/a", operations, JSON_PATCH)
    assert answer.status == 200
    assert answer["data"] == {"m": "v", "c": "v", "new": "x"}


@served
async def test_strategic_merge_patch_merges_lists_by_key(api):
    await api.made(DEPLOY, deployment("d"))
    containers = [{"name": "c", "image": "new"}, {"name": "side", "image": "s"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    answer = await api.patch(f"{DEPLOY}/d", patch, STRATEGIC)
    assert answer.status == 200
    found = {c["name"]: c["image"] for c in answer["spec"]["template"]["spec"]["containers"]}
    assert found == {"c": "new", "side": "s"}
    assert answer.metadata["generation"] == 2
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    answer = await api.patch(f"{DEPLOY}/d", patch, STRATEGIC)
    assert [c["name"] for c in answer["spec"]["template"]["spec"]["containers"]] == ["c"]


@served
async def test_strategic_merge_patch_adds_to_finalizers(api):
    await api.made(CM, cm("a", metadata={"finalizers": ["x.io/f"]}))
    answer = await api.patch(f"{CM}/a", {"metadata": {"finalizers": ["y.io/g"]}}, STRATEGIC)
    assert sorted(answer.metadata["finalizers"]) == ["x.io/f", "y.io/g"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/f"]}}
    answer = await api.patch(f"{CM}/a", patch, STRATEGIC)
    assert answer.metadata["finalizers"] == ["y.io/g"]


@served
async def test_removed_field_gets_its_default(api):
    await api.made(DEPLOY, deployment("d", replicas=5))
    assert (await api.patch(f"{DEPLOY}/d", {"spec": {"replicas": None}}))["spec"]["replicas"] == 1


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH])
@served
async def test_empty_patch_changes_nothing(api, kind):
    made = await api.made(CM, cm("a", data={"n": "1"}))
    before = api.revision
    answer = await api.patch(f"{CM}/a", [] if kind == JSON_PATCH else {}, kind)
    assert (answer.status, answer.json, api.revision) == (200, made, before)


# -- preconditions ----------------------------------------------------------------------------------------------------


@served
async def test_stale_version_in_a_patch_is_a_conflict(api):
    made = await api.made(CM, cm("a"))
    version = made["metadata"]["resourceVersion"]
    answer = await api.patch(f"{CM}/a", {"metadata": {"resourceVersion": version}, "data": {"n": "1"}})
    assert answer.status == 200
    answer = await api.patch(f"{CM}/a", {"metadata": {"resourceVersion": version}, "data": {"n": "2"}})
    assert answer.error[:2] == (409, "Conflict")


@served
async def test_patch_needs_no_resource_version(api):
    await api.made(LEASES, lease(holderIdentity="me"))
    answer = await api.patch(f"{LEASES}/l", {"spec": {"holderIdentity": "you"}})
    assert answer.status == 200


@served
async def test_uid_in_a_patch_is_a_precondition(api):
    made = await api.made(CM, cm("a"))
    patch = {"metadata": {"uid": made["metadata"]["uid"]}, "data": {"a": "b"}}
    assert (await api.patch(f"{CM}/a", patch)).status == 200
    answer = await api.patch(f"{CM}/a", {"metadata": {"uid": "x"}})
    assert answer.status == 422
    assert answer.message == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'


@served
async def test_patch_cannot_rename_or_move(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"metadata": {"name": "q"}})
    assert answer.error == (400, "BadRequest", "the name of the object (q) does not match the name on the URL (a)")
    answer = await api.patch(f"{CM}/a", {"metadata": {"namespace": "kube-system"}})
    assert answer.status == 400
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


@pytest.mark.parametrize(
    "patch", [{"kind": "Secret"}, {"apiVersion": "v2"}, {"apiVersion": "apps/v1", "kind": "Deployment"}]
)
@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
@served
async def test_patch_cannot_change_api_version_or_kind(api, patch, media):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    answer = await api.patch(f"{CM}/a", patch, media)
    # kube-apiserver refuses it in a merge patch and overlooks it in a strategic one.
    assert answer.status == 422 or (media == STRATEGIC and answer.json == made), answer
    # Above all, nothing that is read afterwards may be damaged.
    assert (await api.get(f"{CM}/a")).json == made
    assert (await api.get(CM)).names == ["a"]


@pytest.mark.parametrize(
    "patch", [{"kind": None}, {"apiVersion": None}, {"kind": None, "apiVersion": None, "data": {"a": "b"}}]
)
@served
async def test_patch_that_removes_the_kind_leaves_the_stored_kind(api, patch):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    answer = await api.patch(f"{CM}/a", patch)
    assert answer.status in (200, 422), answer
    assert (await api.get(f"{CM}/a")).json["kind"] == "ConfigMap"
    assert (await api.get(f"{CM}/a")).metadata["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize("patch", [{"metadata": None}, {"metadata": {"name": None}}])
@served
async def test_patch_cannot_remove_the_name(api, patch):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", patch)
    assert answer.message == "the name of the object (a based on URL) was undeterminable: name must be provided"


@served
async def test_patch_cannot_change_system_metadata(api):
    made = await api.made(DEPLOY, deployment("d"))
    patch = {"metadata": {"creationTimestamp": None, "generation": 99}, "status": {"replicas": 9}}
    assert (await api.patch(f"{DEPLOY}/d", patch)).json == made


@served
async def test_patch_of_a_missing_object_is_not_found(api):
    answer = await api.patch(f"{CM}/zzz", {})
    assert answer.error == (404, "NotFound", 'configmaps "zzz" not found')
    # Even where an update would create it.
    assert (await api.patch(f"{LEASES}/l", {"spec": {}})).status == 404


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"data":', "error decoding patch: unexpected end of JSON input"),
        (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b'"x"', "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
)
@served
async def test_patch_that_cannot_be_read_is_a_bad_request(api, body, why):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", body)
    assert answer.error == (400, "BadRequest", why)


@served
async def test_json_patch_must_be_a_list(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"op": "x"}, JSON_PATCH)
    assert answer.error == (
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    )


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/n", "value": "zz"},
        {"op": "remove", "path": "/data/none"},
        {"op": "frob", "path": "/data/n"},
        {"op": "add", "path": "/missing/parent", "value": 1},
    ],
)
@served
async def test_json_patch_that_does_not_apply_is_invalid(api, operation):
    await api.made(CM, cm("a", data={"n": "1"}))
    answer = await api.patch(f"{CM}/a", [operation], JSON_PATCH)
    assert answer.error == (422, "Invalid", GENERIC)
    assert answer["details"] == {}


@served
async def test_json_patch_has_a_limit_of_operations(api):
    await api.made(CM, cm("a", data={"n": "1"}))
    operation = {"op": "test", "path": "/data/n", "value": "1"}
    assert (await api.patch(f"{CM}/a", [operation] * 10_000, JSON_PATCH)).status == 200
    answer = await api.patch(f"{CM}/a", [operation] * 10_001, JSON_PATCH)
    assert answer.error == (
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


@pytest.mark.parametrize(
    "patch", [[{"op": "replace", "path": "", "value": []}], [{"op": "add", "path": "/data", "value": 5}]]
)
@served
async def test_json_patch_whose_result_is_no_object_of_the_kind_is_invalid(api, patch):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", patch, JSON_PATCH)
    assert answer.error[:2] == (422, "Invalid")


@served
async def test_result_of_the_wrong_type_is_invalid_without_a_name(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"data": {"n": 1}})
    assert answer.status == 422
    assert answer.message.startswith(' "" is invalid: patch: Invalid value: "{')
    why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    assert answer.message.endswith(f": {why}")
    assert set(answer["details"]) == {"causes"}
    assert answer["details"]["causes"][0]["field"] == "patch"


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "text/plain", ""])
@served
async def test_unknown_patch_type_is_refused(api, media):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {}, media)
    assert answer.error == (415, "UnsupportedMediaType", "415: Unsupported Media Type")
    assert answer["details"] == {}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"spec": {"$patch": "frob"}}, "unknown patch type"),
        (
            {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}},
            "does not contain declared merge key: name",
        ),
    ],
)
@served
async def test_malformed_strategic_merge_patch_is_a_plain_500(api, patch, why):
    await api.made(DEPLOY, deployment("d"))
    answer = await api.patch(f"{DEPLOY}/d", patch, STRATEGIC)
    assert answer.error[:2] == (500, "")
    assert why in answer.message


@served
async def test_element_order_must_name_every_element_of_the_patch(api):
    await api.made(DEPLOY, deployment("d"))
    spec = {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "other", "image": "i"}]}
    answer = await api.patch(f"{DEPLOY}/d", {"spec": {"template": {"spec": spec}}}, STRATEGIC)
    assert answer.status == 500
    assert "The order in patch list" in answer.message


@pytest.mark.parametrize("value", ["true", "false"])
@served
async def test_force_is_for_apply_only(api, value):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {}, force=value)
    assert answer.error == (
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


@served
async def test_patch_with_an_invalid_result_is_refused(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"metadata": {"labels": {"-": "x"}}})
    assert answer.status == 422
    assert answer.message.startswith('ConfigMap "a" is invalid: metadata.labels: ')


@served
async def test_patch_body_has_a_limit(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"data": {"x": "y" * (3 * 1024 * 1024)}})
    assert answer.status == 413


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
@served
async def test_strict_validation_of_a_patch_is_invalid(api, kind):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", {"bar": 1}, kind, fieldValidation="Strict")
    assert answer.status == 422
    assert 'strict decoding error: unknown field "bar"' in answer.message
    answer = await api.patch(f"{CM}/a", {"bar": 1, "data": {"a": "b"}}, kind)
    assert (answer.status, answer.warnings) == (200, ['unknown field "bar"'])
    assert "bar" not in answer.json
    answer = await api.patch(f"{CM}/a", {"bar": 1}, kind, fieldValidation="Ignore")
    assert (answer.status, answer.warnings) == (200, [])


@served
async def test_duplicate_fields_of_a_patch_are_warned_about(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(f"{CM}/a", b'{"data":{"a":"1","a":"2"}}')
    assert answer.status == 200
    assert answer.warnings == ['duplicate field "data.a"']


@served
async def test_dry_run_of_a_patch_shows_but_does_not_store(api):
    made = await api.made(DEPLOY, deployment("d"))
    answer = await api.patch(f"{DEPLOY}/d", {"spec": {"replicas": 5}}, dryRun="All")
    assert (answer["spec"]["replicas"], answer.metadata["generation"]) == (5, 2)
    assert answer.version == made["metadata"]["resourceVersion"]
    assert (await api.get(f"{DEPLOY}/d")).json == made


# -- status and deletion ----------------------------------------------------------------------------------------------


@served
async def test_status_patch_touches_status_only(api):
    made = await api.made(DEPLOY, deployment("d"))
    patch = {"spec": {"replicas": 9}, "status": {"replicas": 3}, "metadata": {"labels": {"via": "status"}}}
    answer = await api.patch(f"{DEPLOY}/d/status", patch)
    assert answer.status == 200
    assert answer["status"] == {"replicas": 3}
    assert answer["spec"] == made["spec"]
    assert "labels" not in answer.metadata


@served
async def test_patch_that_removes_the_last_finalizer_deletes(api):
    await api.made(CM, cm("fin", metadata={"finalizers": ["x.io/f"]}))
    marked = await api.delete(f"{CM}/fin")
    answer = await api.patch(f"{CM}/fin", {"metadata": {"finalizers": None}})
    assert answer.status == 200
    assert answer.version == marked.version
    assert "finalizers" not in answer.metadata
    assert (await api.get(f"{CM}/fin")).status == 404


@served
async def test_patch_in_a_namespace_that_is_missing_is_not_found(api):
    answer = await api.patch(f"{NS}/none/configmaps/a", {})
    assert answer.message == 'configmaps "a" not found'


@pytest.mark.parametrize(
    ("patch", "shown", "why"),
    [
        ({"metadata": {"labels": "invalid"}}, "map[metadata:map[labels:invalid]]", "cannot restore map from string"),
        ({"metadata": {"labels": {"a": 5}}}, "map[metadata:map[labels:map[a:5]]]", "cannot convert int64 to string"),
        ({"metadata": []}, "map[metadata:[]]", "cannot restore struct from: slice"),
        ({"spec": 5}, "map[spec:5]", "cannot restore struct from: int64"),
        ({"spec": {"replicas": "x"}}, "map[spec:map[replicas:x]]", "unrecognized type: int32"),
        ({"spec": {"replicas": 1.5}}, "map[spec:map[replicas:1.5]]", "cannot convert float64 to int32"),
        (
            {"spec": {"template": {"spec": {"containers": "x"}}}},
            "map[spec:map[template:map[spec:map[containers:x]]]]",
            "cannot restore slice from string",
        ),
        (
            {"spec": {"strategy": {"rollingUpdate": {"maxSurge": []}}}},
            "map[spec:map[strategy:map[rollingUpdate:map[maxSurge:[]]]]]",
            "json: cannot unmarshal array into Go value of type int32",
        ),
        ({"kind": 5}, "map[kind:5]", "cannot convert int64 to string"),
    ],
)
@served
async def test_strategic_merge_patch_of_the_wrong_shape_is_shown_as_go_prints_it(api, patch, shown, why):
    await api.made(DEPLOY, deployment("d"))
    answer = await api.patch(f"{DEPLOY}/d", patch, STRATEGIC)
    assert answer.error == (422, "Invalid", f' "" is invalid: patch: Invalid value: "{shown}": {why}')


@served
async def test_a_patch_that_replaces_the_whole_object_by_one_without_a_version_is_refused(api):
    await api.made(CM, cm())
    operations = [{"op": "replace", "path": "", "value": {"a": "b"}}, {"op": "add", "path": "/kind", "value": "Other"}]
    answer = await api.patch(f"{CM}/a", operations, JSON_PATCH)
    assert answer.status == 422, answer
    assert "the kind of an object cannot be changed" in answer.message
