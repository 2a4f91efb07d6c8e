"""Creating objects through the whole server: what is accepted, refused, filled in and wiped, and in which words."""

import re

import pytest

from api_client import APPLY, CM, DEPLOY, NS, PODS, cm, deployment, pod, served

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


@served
async def test_created_object_is_returned_and_stored(api):
    answer = await api.post(CM, cm("a", metadata={"labels": {"l": "1"}}, data={"k": "v"}))
    assert answer.status == 201
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("Cache-Control") == "no-cache, private"
    assert list(answer.json)[:3] == ["kind", "apiVersion", "metadata"]
    metadata = answer.metadata
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["namespace"] == "default"
    assert metadata["resourceVersion"] == str(api.revision)
    assert answer["data"] == {"k": "v"}
    assert (await api.get(f"{CM}/a")).json == answer.json


@served
async def test_existing_name_is_a_conflict(api):
    await api.made(CM, cm("a"))
    answer = await api.post(CM, cm("a"))
    assert answer.error == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert answer["details"] == {"name": "a", "kind": "configmaps"}


@served
async def test_group_is_part_of_the_name_in_messages(api):
    await api.made(DEPLOY, deployment("d"))
    answer = await api.post(DEPLOY, deployment("d"))
    assert answer.message == 'deployments.apps "d" already exists'
    assert answer["details"] == {"name": "d", "group": "apps", "kind": "deployments"}


@served
async def test_system_fields_of_the_body_are_wiped(api):
    sent = {
        "uid": "zzz",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
        "generation": 7,
        "selfLink": "/x",
        "managedFields": [{"manager": "me"}],
    }
    metadata = (await api.made(CM, cm("b", metadata=sent)))["metadata"]
    assert metadata["uid"] != "zzz"
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata.keys() == {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"}
    # Kinds that do not track it keep what the client said.
    assert metadata["generation"] == 7


@served
async def test_generation_of_a_kind_that_tracks_it_starts_at_one(api):
    obj = deployment("d")
    obj["metadata"]["generation"] = 9
    assert (await api.made(DEPLOY, obj))["metadata"]["generation"] == 1


@served
async def test_resource_version_may_not_be_set(api):
    answer = await api.post(CM, cm("c", metadata={"resourceVersion": "5"}))
    assert answer.error == (500, "", "resourceVersion should not be set on objects to be created")
    assert "reason" not in answer.json
    assert "details" not in answer.json


@pytest.mark.parametrize("version", ["", "0", "abc"])
@served
async def test_resource_version_that_is_no_number_is_overwritten(api, version):
    made = await api.made(CM, cm("c", metadata={"resourceVersion": version}))
    assert made["metadata"]["resourceVersion"] == str(api.revision)


# -- names ------------------------------------------------------------------------------------------------------------


@served
async def test_name_is_generated_from_its_prefix(api):
    made = await api.made(CM, {"metadata": {"generateName": "gen-"}})
    assert re.fullmatch("gen-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "gen-"


@served
async def test_long_generate_name_prefix_is_truncated(api):
    made = await api.made(CM, {"metadata": {"generateName": "x" * 100}})
    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["name"].startswith("x" * 58)


@served
async def test_a_limit_range_needs_no_name(api):
    path = CM.replace("configmaps", "limitranges")
    for metadata in ({}, {"name": ""}):
        made = await api.made(path, {"metadata": metadata, "spec": {"limits": []}})
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made["metadata"]["name"])
    made = await api.made(path, {"metadata": {"generateName": "gen-"}, "spec": {"limits": []}})
    assert made["metadata"]["name"].startswith("gen-")


@pytest.mark.plain(reason="replaces generate_name")
@served
async def test_generated_name_conflict_is_retried(api, monkeypatch):
    names = iter(["g-1", "g-1", "g-1", "g-2"])
    monkeypatch.setattr("kapi.registry.write.generate_name", lambda prefix: next(names))
    first = await api.made(CM, {"metadata": {"generateName": "g-"}})
    second = await api.made(CM, {"metadata": {"generateName": "g-"}})
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("g-1", "g-2")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


@pytest.mark.plain(reason="replaces generate_name")
@served
async def test_generated_name_fails_after_eight_conflicts(api, monkeypatch):
    tried = []
    monkeypatch.setattr("kapi.registry.write.generate_name", lambda prefix: tried.append(prefix) or "g-1")
    await api.made(CM, cm("g-1"))
    answer = await api.post(CM, {"metadata": {"generateName": "g-"}})
    assert len(tried) == 8
    assert answer.error == (
        409,
        "AlreadyExists",
        'configmaps "g-1" already exists, the server was not able to generate a unique name for the object',
    )
    assert answer["details"] == {"name": "g-1", "kind": "configmaps", "retryAfterSeconds": 1}
    assert answer.header("Retry-After") == "1"


@served
async def test_some_name_is_required(api):
    answer = await api.post(CM, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    why = "Required value: name or generateName is required"
    assert answer.error == (422, "Invalid", f'ConfigMap "" is invalid: metadata.name: {why}')
    assert answer["details"] == {
        "kind": "ConfigMap",
        "causes": [{"reason": "FieldValueRequired", "message": why, "field": "metadata.name"}],
    }


@pytest.mark.parametrize("name", ["A_B", "a/b", "-a", "a" * 254])
@served
async def test_name_must_be_a_subdomain(api, name):
    answer = await api.post(CM, cm(name))
    assert answer.status == 422
    why = SUBDOMAIN if len(name) < 254 else "must be no more than 253 characters"
    assert answer.message == f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": {why}'
    # The Kind here, not the plural as in 404 and 409.
    assert answer["details"]["kind"] == "ConfigMap"


@pytest.mark.parametrize(("name", "why"), [("..", "may not be '..'"), ("a%b", "may not contain '%'")])
@served
async def test_names_of_roles_need_only_fit_in_a_path(api, name, why):
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert (await api.post(roles, {"metadata": {"name": "system:My_Role"}})).status == 201
    assert why in (await api.post(roles, {"metadata": {"name": name}})).message


@served
async def test_cron_job_names_are_limited_to_52_characters(api):
    answer = await api.post(
        "/apis/batch/v1/namespaces/default/cronjobs",
        {
            "metadata": {"name": "c" * 53},
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                        }
                    }
                },
            },
        },
    )
    assert answer.status == 422
    assert "must be no more than 52 characters" in answer.message


# -- namespaces -------------------------------------------------------------------------------------------------------


@served
async def test_namespace_of_body_and_url_must_agree(api):
    answer = await api.post(CM, cm("d", metadata={"namespace": "other"}))
    assert answer.error == (
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )
    assert "details" not in answer.json
    assert (await api.post(CM, cm("d", metadata={"namespace": "default"}))).status == 201


@served
async def test_namespace_must_exist(api):
    answer = await api.post(f"{NS}/nonexist/configmaps", cm("d"))
    assert answer.error == (404, "NotFound", 'namespaces "nonexist" not found')
    assert answer["details"] == {"name": "nonexist", "kind": "namespaces"}


@served
async def test_namespace_of_a_cluster_scoped_object_is_dropped(api):
    made = await api.made("/api/v1/nodes", {"metadata": {"name": "n", "namespace": "default"}})
    assert "namespace" not in made["metadata"]


@served
async def test_fresh_namespace_can_be_used_at_once(api):
    await api.made(NS, {"metadata": {"name": "fresh"}})
    assert (await api.post(f"{NS}/fresh/configmaps", cm("a"))).status == 201


# -- apiVersion and kind of the body ----------------------------------------------------------------------------------


@served
async def test_kind_and_version_may_be_left_out(api):
    made = await api.made(CM, {"metadata": {"name": "nokind"}})
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


@served
async def test_other_kind_is_refused(api):
    answer = await api.post(CM, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}})
    assert answer.error == (
        400,
        "BadRequest",
        (
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
        ),
    )


@served
async def test_other_group_is_refused(api):
    answer = await api.post(CM, {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "d"}})
    assert answer.status == 400
    assert answer.message.startswith(
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'no kind "ConfigMap" is registered for version "apps/v1" in '
    )


@served
async def test_other_version_of_the_group_is_refused(api):
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    answer = await api.post(
        path,
        {
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
        },
    )
    assert answer.error == (
        400,
        "BadRequest",
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)",
    )


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a":', 'unexpected end of JSON input ({"a":)'),
        (b"", "unexpected end of JSON input (<empty>)"),
    ],
)
@served
async def test_broken_json_is_a_bad_request(api, body, why):
    answer = await api.request("POST", CM, body, headers={"content-type": "application/json"})
    assert answer.error == (
        400,
        "BadRequest",
        (
            "the object provided is unrecognized (must be of type ConfigMap): "
            f"couldn't get version/kind; json parse error: {why}"
        ),
    )


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"5", b"null", b"true"])
@served
async def test_json_that_is_no_object_is_a_bad_request(api, body):
    answer = await api.request("POST", CM, body, headers={"content-type": "application/json"})
    assert answer.error[:2] == (400, "BadRequest")


@pytest.mark.parametrize("media", ["text/plain", "application/xml", APPLY])
@served
async def test_unknown_content_type_is_refused(api, media):
    answer = await api.request("POST", CM, b"x", headers={"content-type": media})
    assert answer.error == (415, "UnsupportedMediaType", UNKNOWN_FORMAT)


@served
async def test_content_type_may_have_parameters(api):
    headers = {"content-type": "application/json; charset=utf-8"}
    assert (await api.request("POST", CM, b'{"metadata":{"name":"a"}}', headers=headers)).status == 201


@served
async def test_type_error_is_a_bad_request(api):
    answer = await api.post(CM, cm("d", data={"k": 1}))
    assert answer.error == (
        400,
        "BadRequest",
        (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        ),
    )


@served
async def test_yaml_body_is_read(api):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yamlcm}\ndata:\n  a: 'x'\n"
    answer = await api.request("POST", CM, body, headers={"content-type": "application/yaml"})
    assert answer.status == 201
    assert answer["data"] == {"a": "x"}


@served
async def test_duplicate_keys_in_yaml_are_warned_about(api):
    body = b"metadata: {name: b}\ndata:\n  a: 'x'\n  a: 'y'\n"
    answer = await api.request("POST", CM, body, headers={"content-type": "application/yaml"})
    assert answer.status == 201
    assert answer.warnings == ['line 4: key "a" already set in map']


@served
async def test_yaml_bomb_is_refused(api):
    body = b"metadata: {name: b}\ndata: " + b"[" * 5000
    answer = await api.request("POST", CM, body, headers={"content-type": "application/yaml"})
    assert answer.error[:2] == (400, "BadRequest")


def _field(number, payload):
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def _config_map(name, key, value):
    entry = _field(1, key.encode()) + _field(2, value.encode())
    raw = _field(1, _field(1, name.encode())) + _field(2, entry)
    type_meta = _field(1, b"v1") + _field(2, b"ConfigMap")
    return b"k8s\x00" + _field(1, type_meta) + _field(2, raw)


@served
async def test_protobuf_body_is_read(api):
    headers = {
        "content-type": "application/vnd.kubernetes.protobuf",
        "accept": "application/vnd.kubernetes.protobuf, */*",
    }
    answer = await api.request("POST", CM, _config_map("pb", "k", "v"), headers=headers)
    assert answer.status == 201
    assert answer.header("Content-Type") == "application/json"
    assert (answer.metadata["name"], answer["data"]) == ("pb", {"k": "v"})


@served
async def test_broken_protobuf_is_a_bad_request(api):
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    for body in (b"nope", b"", b"k8s\x00\xff\xff"):
        assert (await api.request("POST", CM, body, headers=headers)).error[:2] == (400, "BadRequest")


# -- strictness -------------------------------------------------------------------------------------------------------

SLOPPY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","foo":1},"bar":1,"data":{"a":"1","a":"2"}}'
PROBLEMS = ['unknown field "metadata.foo"', 'unknown field "bar"', 'duplicate field "data.a"']


@served
async def test_strict_validation_refuses_unknown_and_duplicate_fields(api):
    answer = await api.request("POST", CM, SLOPPY, fieldValidation="Strict")
    assert answer.status == 400
    prefix = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert answer.message.startswith(prefix)
    assert sorted(answer.message.removeprefix(prefix).split(", ")) == sorted(PROBLEMS)


@pytest.mark.parametrize("query", [{}, {"fieldValidation": "Warn"}])
@served
async def test_unknown_and_duplicate_fields_are_warned_about_by_default(api, query):
    answer = await api.request("POST", CM, SLOPPY, **query)
    assert answer.status == 201
    assert sorted(answer.warnings) == sorted(PROBLEMS)
    assert answer["data"] == {"a": "2"}
    assert "bar" not in answer.json


@served
async def test_warning_header_quotes_its_text(api):
    answer = await api.post(CM, cm("a", bar=1))
    assert answer.header("Warning") == '299 - "unknown field \\"bar\\""'


@served
async def test_unknown_fields_can_be_ignored(api):
    answer = await api.request("POST", CM, SLOPPY, fieldValidation="Ignore")
    assert (answer.status, answer.warnings) == (201, [])
    assert "foo" not in answer.metadata


@served
async def test_field_names_are_case_sensitive(api):
    answer = await api.post(CM, {"metadata": {"name": "a"}, "Data": {"a": "1"}})
    assert answer.warnings == ['unknown field "Data"']
    assert "data" not in answer.json


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            {"fieldValidation": "Foo"},
            'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ({"dryRun": "Foo"}, 'dryRun: Unsupported value: ["Foo"]: supported values: "All"'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
    ],
)
@served
async def test_bad_options_are_refused(api, query, why):
    answer = await api.post(CM, cm("d"), **query)
    assert answer.error == (422, "Invalid", f'CreateOptions.meta.k8s.io "" is invalid: {why}')
    assert answer["details"]["group"] == "meta.k8s.io"
    assert answer["details"]["kind"] == "CreateOptions"
    assert (await api.get(f"{CM}/d")).status == 404


@served
async def test_field_manager_must_be_printable(api):
    answer = await api.post(CM, cm("d"), fieldManager="a\x07b")
    why = 'fieldManager: Invalid value: "a\\ab": invalid character U+0007 (at position 1)'
    assert answer.error == (422, "Invalid", f'CreateOptions.meta.k8s.io "" is invalid: {why}')


@served
async def test_dry_run_stores_nothing(api):
    before = api.revision
    answer = await api.post(CM, cm("dry"), dryRun="All")
    assert answer.status == 201
    assert answer.metadata.keys() == {"name", "namespace", "uid", "creationTimestamp"}
    assert (await api.get(f"{CM}/dry")).status == 404
    assert api.revision == before


@served
async def test_dry_run_still_checks_everything(api):
    await api.made(CM, cm("a"))
    assert (await api.post(CM, cm("a"), dryRun="All")).status == 409
    assert (await api.post(CM, cm("A"), dryRun="All")).status == 422
    assert (await api.post(f"{NS}/none/configmaps", cm("a"), dryRun="All")).status == 404


# -- limits -----------------------------------------------------------------------------------------------------------


@served
async def test_body_over_three_mebibytes_is_too_large(api):
    answer = await api.post(CM, cm("big", data={"x": "y" * (3 * 1024 * 1024)}))
    assert answer.error == (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


@served
async def test_config_map_over_a_mebibyte_is_invalid(api):
    answer = await api.post(CM, cm("big", data={"x": "y" * (1024 * 1024 + 1)}))
    assert answer.error == (
        422,
        "Invalid",
        'ConfigMap "big" is invalid: []: Too long: may not be more than 1048576 bytes',
    )


@served
async def test_object_over_the_storage_limit_is_refused(api):
    # What etcd refuses cannot exist on any other cluster.
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rule = {"apiGroups": ["x" * 1000], "resources": ["y"], "verbs": ["get"]}
    answer = await api.post(roles, {"metadata": {"name": "big"}, "rules": [rule] * 2000})
    assert answer.status == 413
    assert "too large" in answer.message


@served
async def test_annotations_have_a_limit_together(api):
    answer = await api.post(CM, cm("big", metadata={"annotations": {"a": "y" * 262144}}))
    assert answer.error == (
        422,
        "Invalid",
        'ConfigMap "big" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
    )


# -- metadata ---------------------------------------------------------------------------------------------------------


@served
async def test_finalizer_must_be_qualified(api):
    answer = await api.post(CM, cm("fin2", metadata={"finalizers": ["nodomain"]}))
    assert answer.error == (
        422,
        "Invalid",
        (
            'ConfigMap "fin2" is invalid: metadata.finalizers[0]: Invalid value: "nodomain": '
            "name is neither a standard finalizer name nor is it fully qualified"
        ),
    )


@served
async def test_label_values_are_checked(api):
    answer = await api.post(CM, cm("a", metadata={"labels": {"k": "x" * 64}}))
    assert answer.status == 422
    assert "must be no more than 63 bytes" in answer.message
    assert answer["details"]["causes"][0]["field"] == "metadata.labels"


def _owner(uid, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, **more}


@served
async def test_repeated_owners_are_kept_once_with_a_warning(api):
    owners = [_owner("u1"), _owner("u2"), _owner("u1"), _owner("u1")]
    warning = (
        ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u1, u1"
    )
    changed = {"metadata": {"ownerReferences": owners}, "data": {"k": "v"}}
    posted = await api.post(CM, cm("a", metadata={"ownerReferences": owners}))
    put = await api.put(f"{CM}/a", cm("a", **changed))
    # A patched object is checked once, after admission, and the warning says so.
    patched = await api.patch(f"{CM}/a", changed)
    assert [answer.metadata["ownerReferences"] for answer in (posted, put, patched)] == [owners[:2]] * 3
    assert posted.warnings == put.warnings == [warning.format("")]
    assert patched.warnings == [warning.format(" after mutating admission happens")]


@served
async def test_only_one_owner_may_be_the_controller(api):
    owners = [_owner("u1", controller=True), _owner("u2", controller=True)]
    answer = await api.post(CM, cm("a", metadata={"ownerReferences": owners}))
    assert answer.status == 422
    assert "Only one reference can have Controller set to true" in answer.message


@served
async def test_owner_reference_must_be_complete(api):
    answer = await api.post(CM, cm("a", metadata={"ownerReferences": [{"apiVersion": "v1"}]}))
    assert answer.status == 422
    fields = {cause["field"] for cause in answer["details"]["causes"]}
    assert {"metadata.ownerReferences.kind", "metadata.ownerReferences.name", "metadata.ownerReferences.uid"} <= fields


# -- validation -------------------------------------------------------------------------------------------------------


@served
async def test_all_validation_errors_are_reported_together(api):
    obj = pod("p2", restartPolicy="Foo")
    obj["spec"]["containers"] = [{"name": "C_", "image": ""}]
    answer = await api.post(PODS, obj)
    assert answer.error == (
        422,
        "Invalid",
        (
            'Pod "p2" is invalid: [spec.containers[0].name: Invalid value: "C_": a lowercase RFC 1123 label must consist of '
            "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
            "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), "
            'spec.containers[0].image: Required value, spec.restartPolicy: Unsupported value: "Foo": supported values: '
            '"Always", "OnFailure", "Never"]'
        ),
    )
    assert [cause["reason"] for cause in answer["details"]["causes"]] == [
        "FieldValueInvalid",
        "FieldValueRequired",
        "FieldValueNotSupported",
    ]


@served
async def test_status_of_a_kind_with_a_status_endpoint_is_dropped(api):
    made = await api.made(DEPLOY, {**deployment("d"), "status": {"replicas": 9}})
    assert made["status"] == {}
    made = await api.made(PODS, {**pod("p"), "status": {"phase": "Running", "podIP": "1.2.3.4"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@served
async def test_deprecated_kind_is_warned_about(api):
    answer = await api.post(f"{NS}/default/endpoints", {"metadata": {"name": "e"}})
    assert answer.status == 201
    assert answer.warnings == ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]


@served
async def test_accept_header_is_validated_before_anything_is_stored(api):
    answer = await api.post(CM, cm("a"), headers={"accept": "text/html"})
    assert answer.error[:2] == (406, "NotAcceptable")
    assert (await api.get(f"{CM}/a")).status == 404
