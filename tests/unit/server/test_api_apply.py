"""Server-side apply through the whole server: creating, changing, sharing and losing fields, and what is refused."""

import pytest

from api_client import APPLY, CM, DEPLOY, JSON_PATCH, LEASES, MERGE, NS, STRATEGIC, cm, deployment, lease, served
from kapi.server.authz.authorizer import NO_OPINION, Authorizer
from kapi.server.authz.superuser import PrivilegedGroup

A = f"{CM}/a"
TYPED = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "


async def applied(api, path, config, manager="m1", **query):
    return await api.patch(path, config, APPLY, fieldManager=manager, **query)


def owners(answer):
    """Who owns what, without times."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in answer.metadata.get("managedFields", [])
    }


def applier(manager, subresource=""):
    return (manager, "Apply", subresource)


# -- create, change, leave alone --------------------------------------------------------------------------------------


@served
async def test_apply_creates_a_missing_object(api):
    answer = await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    assert answer.status == 201
    assert answer["data"] == {"a": "1", "b": "2"}
    assert answer.metadata["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": answer.metadata["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }
    ]
    assert (await api.get(A)).json == answer.json


@served
async def test_apply_changes_an_existing_object(api):
    made = await applied(api, A, cm("a", data={"a": "1"}))
    answer = await applied(api, A, cm("a", data={"a": "2", "b": "3"}))
    assert (answer.status, answer["data"]) == (200, {"a": "2", "b": "3"})
    assert answer.metadata["uid"] == made.metadata["uid"]


@served
async def test_applying_the_same_again_writes_nothing(api):
    made = await applied(api, A, cm("a", data={"a": "1"}))
    before = api.revision
    answer = await applied(api, A, cm("a", data={"a": "1"}))
    assert (answer.status, answer.json, api.revision) == (200, made.json, before)


@served
async def test_an_apply_needs_no_resource_version(api):
    assert (await applied(api, f"{LEASES}/l", lease(holderIdentity="me"))).status == 201
    answer = await applied(api, f"{LEASES}/l", lease(holderIdentity="you"))
    assert (answer.status, answer["spec"]["holderIdentity"]) == (200, "you")


@served
async def test_defaults_are_not_owned_by_the_applying_field_manager(api):
    answer = await applied(api, f"{DEPLOY}/d", deployment("d"))
    assert (answer.status, answer["spec"]["replicas"]) == (201, 1)
    assert "f:replicas" not in owners(answer)[applier("m1")]["f:spec"]


@served
async def test_generation_grows_with_a_change_but_not_with_shared_ownership(api):
    await applied(api, f"{DEPLOY}/d", deployment("d", replicas=2))
    assert (await applied(api, f"{DEPLOY}/d", deployment("d", replicas=3))).metadata["generation"] == 2
    assert (await applied(api, f"{DEPLOY}/d", deployment("d", replicas=3), "m2")).metadata["generation"] == 2


@served
async def test_a_dry_run_apply_returns_the_result_and_stores_nothing(api):
    before = api.revision
    answer = await applied(api, A, cm("a", data={"a": "1"}), dryRun="All")
    assert (answer.status, answer["data"], api.revision) == (201, {"a": "1"}, before)
    assert (await api.get(A)).status == 404
    made = await applied(api, A, cm("a", data={"a": "1"}))
    answer = await applied(api, A, cm("a", data={"a": "2"}), dryRun="All")
    assert (answer.status, answer["data"], answer.version) == (200, {"a": "2"}, made.version)
    assert (await applied(api, A, cm("a", data={"a": "3"}), "m2", dryRun="All")).status == 409
    assert (await api.get(A)).json == made.json


@served
async def test_a_watch_sees_applies_as_additions_and_modifications(api):
    watch = await api.watch(CM, resourceVersion=str(api.revision))
    await applied(api, A, cm("a", data={"a": "1"}))
    await applied(api, A, cm("a", data={"a": "1"}))
    await applied(api, A, cm("a", data={"a": "2"}))
    assert await watch.brief(2) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert await watch.is_quiet()
    await watch.close()


# -- several owners ---------------------------------------------------------------------------------------------------


@served
async def test_a_field_of_another_field_manager_is_a_conflict(api):
    made = await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    answer = await applied(api, A, cm("a", data={"a": "9"}), "m2")
    assert answer.error == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "m1": .data.a')
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}
    assert answer["details"] == {"causes": [cause]}
    answer = await applied(api, A, cm("a", data={"a": "9", "b": "8"}), "m2")
    assert answer.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'
    assert [cause["field"] for cause in answer["details"]["causes"]] == [".data.a", ".data.b"]
    assert (await api.get(A)).json == made.json


@served
async def test_conflicts_with_several_owners_name_each(api):
    await applied(api, A, cm("a", data={"a": "1"}))
    await api.patch(A, {"data": {"b": "1"}}, fieldManager="hand")
    answer = await applied(api, A, cm("a", data={"a": "2", "b": "2"}), "m2")
    assert answer.message == (
        'Apply failed with 2 conflicts: conflicts with "hand" using v1:\n- .data.b\nconflicts with "m1":\n- .data.a'
    )


@served
async def test_field_managers_that_apply_the_same_value_share_ownership(api):
    await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    answer = await applied(api, A, cm("a", data={"a": "1"}), "m2")
    assert answer.status == 200
    shared = {"manager": "m2", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    # Nothing but the ownership changed, so there is no time, and what has none comes first.
    assert answer.metadata["managedFields"][0] == {**shared, "fieldsV1": {"f:data": {"f:a": {}}}}
    assert owners(answer)[applier("m1")] == {"f:data": {"f:a": {}, "f:b": {}}}
    again = await applied(api, A, cm("a", data={"a": "1"}), "m2")
    assert again.json == answer.json


@served
async def test_force_takes_ownership_of_the_field(api):
    await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    answer = await applied(api, A, cm("a", data={"a": "9"}), "m2", force="true")
    assert (answer.status, answer["data"]) == (200, {"a": "9", "b": "2"})
    assert owners(answer) == {applier("m1"): {"f:data": {"f:b": {}}}, applier("m2"): {"f:data": {"f:a": {}}}}
    assert (await applied(api, A, cm("a", data={"a": "1", "b": "2"}))).status == 409


@served
async def test_a_dropped_field_is_removed_if_no_other_manager_owns_it(api):
    await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    await applied(api, A, cm("a", data={"a": "1"}), "m2")
    answer = await applied(api, A, cm("a"))
    assert answer["data"] == {"a": "1"}
    assert owners(answer) == {applier("m2"): {"f:data": {"f:a": {}}}}
    answer = await applied(api, A, cm("a"), "m2")
    assert "data" not in answer.json
    assert "managedFields" not in answer.metadata


@served
async def test_a_dropped_field_owned_by_an_updater_stays(api):
    await applied(api, A, cm("a", data={"a": "1", "b": "2"}))
    await api.patch(A, {"data": {"a": "9"}}, fieldManager="hand")
    answer = await applied(api, A, cm("a", data={"b": "2"}))
    assert answer["data"] == {"a": "9", "b": "2"}


@served
async def test_a_dropped_field_with_a_default_gets_the_default(api):
    await applied(api, f"{DEPLOY}/d", deployment("d", replicas=5))
    answer = await applied(api, f"{DEPLOY}/d", deployment("d"))
    assert answer["spec"]["replicas"] == 1


@served
async def test_an_update_of_an_applied_field_makes_the_applier_conflict(api):
    await applied(api, A, cm("a", data={"a": "1"}))
    await api.patch(A, {"data": {"a": "2"}}, fieldManager="hand")
    answer = await applied(api, A, cm("a", data={"a": "1"}))
    assert answer.message == 'Apply failed with 1 conflict: conflict with "hand" using v1: .data.a'
    assert (await applied(api, A, cm("a", data={"a": "1"}), force="true"))["data"] == {"a": "1"}


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"fieldManager": ""}])
@served
async def test_an_apply_needs_a_field_manager(api, query):
    answer = await api.patch(A, cm("a"), APPLY, **query)
    assert answer.error[:2] == (422, "Invalid")
    assert answer.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


@pytest.mark.parametrize("media", [MERGE, STRATEGIC, JSON_PATCH])
@pytest.mark.parametrize("force", ["true", "false", ""])
@served
async def test_only_an_apply_can_be_forced(api, media, force):
    await api.made(CM, cm("a"))
    answer = await api.patch(A, [] if media == JSON_PATCH else {}, media, force=force)
    assert answer.error[:2] == (422, "Invalid")
    assert answer.message == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )


@served
async def test_an_apply_that_creates_needs_the_create_verb(api):
    api.services.authorizer = Authorizer(_AllButCreate())
    answer = await applied(api, A, cm("a"))
    assert answer.error[:2] == (403, "Forbidden")
    assert (await api.get(A)).status == 404


class _AllButCreate(PrivilegedGroup):
    """Allows members of system:masters everything but creations."""

    def decide(self, attributes):
        return NO_OPINION if attributes.verb == "create" else super().decide(attributes)


# -- identity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"metadata": {"name": "a"}}, "/, Kind="),
        ({"apiVersion": "v2", "kind": "ConfigMap"}, "/v2, Kind=ConfigMap"),
        ({"apiVersion": "v1", "kind": "Secret"}, "/v1, Kind=Secret"),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "apps/v1, Kind=ConfigMap"),
        ({"apiVersion": 1, "kind": "ConfigMap"}, "/, Kind=ConfigMap"),
        ({"apiVersion": "v1"}, "/v1, Kind="),
    ],
)
@served
async def test_a_configuration_is_of_the_kind_of_the_endpoint(api, config, named):
    answer = await applied(api, A, config)
    assert answer.error == (400, "BadRequest", f"invalid object type: {named}")


@served
async def test_a_version_may_be_written_with_an_empty_group(api):
    answer = await applied(api, A, {**cm("a", data={"a": "1"}), "apiVersion": "/v1"})
    assert (answer.status, answer["apiVersion"]) == (201, "v1")
    assert (await api.get(A)).json == answer.json


@served
async def test_the_name_is_the_one_of_the_url(api):
    nameless = {"apiVersion": "v1", "kind": "ConfigMap"}
    missing = "the name of the object (a based on URL) was undeterminable: name must be provided"
    other = "the name of the object (b) does not match the name on the URL (a)"
    for metadata in ({}, None, {"labels": {}}):
        assert (await applied(api, A, {**nameless, "metadata": metadata})).error == (400, "BadRequest", missing)
    assert (await applied(api, A, cm("b"))).error == (400, "BadRequest", other)
    made = await applied(api, A, cm("a"))
    assert (await applied(api, A, cm("b"))).error == (400, "BadRequest", other)
    assert (await applied(api, A, cm(""))).error == (400, "BadRequest", missing)
    # Once there is an object it has a name, and a configuration need not repeat it.
    for config in (nameless, {**nameless, "metadata": None}):
        assert (await applied(api, A, config)).json == made.json


@served
async def test_the_namespace_is_the_one_of_the_url(api):
    wrong = "the namespace of the provided object does not match the namespace sent on the request"
    for _ in range(2):
        assert (await applied(api, A, cm("a", metadata={"namespace": "other"}))).error == (400, "BadRequest", wrong)
        assert (await applied(api, A, cm("a", metadata={"namespace": "default"}))).status in (200, 201)
    assert (await applied(api, f"{NS}/missing/configmaps/a", cm("a"))).status == 404


@served
async def test_a_conflict_is_reported_before_a_wrong_name(api):
    await applied(api, A, cm("a", data={"a": "1"}))
    assert (await applied(api, A, cm("b", data={"a": "2"}), "m2")).status == 409


@pytest.mark.parametrize("entries", [[], [{}]])
@served
async def test_a_configuration_has_no_managed_fields(api, entries):
    answer = await applied(api, A, cm("a", metadata={"managedFields": entries}))
    assert answer.error == (400, "BadRequest", "metadata.managedFields must be nil")
    assert (await applied(api, A, cm("a", metadata={"managedFields": None}))).status == 201


@served
async def test_the_uid_is_a_precondition_of_apply(api):
    answer = await applied(api, A, cm("a", metadata={"uid": "x"}))
    assert answer.error[:2] == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid x, '
        "and no existing object was found"
    )
    made = await applied(api, A, cm("a"))
    answer = await applied(api, A, cm("a", metadata={"uid": "x"}))
    assert answer.status == 422
    assert answer.message == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'
    answer = await applied(api, A, cm("a", metadata={"uid": made.metadata["uid"]}, data={"a": "1"}))
    assert answer.status == 200


@served
async def test_a_resource_version_is_a_precondition_and_ignored_on_create(api):
    made = await applied(api, A, cm("a", metadata={"resourceVersion": "1"}, data={"a": "1"}))
    assert made.status == 201
    stale = "the object has been modified; please apply your changes to the latest version and try again"
    answer = await applied(api, A, cm("a", metadata={"resourceVersion": "1"}, data={"z": "1"}))
    assert answer.error == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {stale}')
    answer = await applied(api, A, cm("a", metadata={"resourceVersion": made.version}, data={"a": "2"}))
    assert (answer.status, answer["data"]) == (200, {"a": "2"})
    # A conflict of fields is found first.
    answer = await applied(api, A, cm("a", metadata={"resourceVersion": "1"}, data={"a": "3"}), "m2")
    assert answer.message.startswith("Apply failed")


# -- what breaks the schema -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@served
async def test_an_unknown_field_is_never_applied(api, validation):
    answer = await applied(api, A, cm("a", foo=1), fieldValidation=validation)
    assert answer.error == (500, "", f"{TYPED}.foo: field not declared in schema")
    answer = await applied(api, A, cm("a", metadata={"namespace": "default"}, foo=1), fieldValidation=validation)
    assert answer.message.startswith("failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .foo")
    assert (await api.get(A)).status == 404


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data": {"a": 1}}, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"data": "x"}, ".data: expected map, got &{x}"),
        ({"data": [1]}, ".data: expected map, got &{[1]}"),
        ({"immutable": "x"}, ".immutable: expected boolean, got &{x}"),
        ({"metadata": {"zz": 1}}, ".metadata.zz: field not declared in schema"),
        ({"metadata": {"finalizers": "x"}}, ".metadata.finalizers: expected list, got &{x}"),
        (
            {"metadata": {"finalizers": ["a.io/b", "a.io/b"]}},
            '.metadata.finalizers: duplicate entries for key [="a.io/b"]',
        ),
        ({"metadata": {"managedFields": {}}}, ".metadata.managedFields: expected list, got &{map[]}"),
        (
            {"data": {"a": True, "b": 1.5}},
            (
                "errors:\n  .data.a: expected string, got &value.valueUnstructured{Value:true}\n"
                "  .data.b: expected string, got &value.valueUnstructured{Value:1.5}"
            ),
        ),
    ],
)
@served
async def test_a_value_of_the_wrong_type(api, fields, problem):
    assert (await applied(api, A, cm("a", **fields))).error == (500, "", TYPED + problem)


@pytest.mark.parametrize(("metadata", "shown"), [(3, "3"), ([], "[]")])
@served
async def test_metadata_of_the_wrong_type(api, metadata, shown):
    answer = await applied(api, A, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    place = "(/; /v1, Kind=ConfigMap)"
    problem = f"failed to create typed patch object {place}: .metadata: expected map, got &{{{shown}}}"
    assert answer.error == (500, "", problem)


@pytest.mark.parametrize(
    ("containers", "problem"),
    [
        ([{"name": "c"}, {"name": "c"}], 'containers: duplicate entries for key [name="c"]'),
        (
            [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}],
            'containers[name="c"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]',
        ),
        (["x"], "containers: element 0: associative list with keys may not have non-map elements"),
        ([None], "containers: element 0: associative list with keys may not have a null element"),
        (
            [{"name": "c", "env": [{"name": "A", "value": 1}]}],
            'containers[name="c"].env[name="A"].value: expected string, got &value.valueUnstructured{Value:1}',
        ),
    ],
)
@served
async def test_duplicate_list_map_keys_are_refused(api, containers, problem):
    config = deployment("d")
    config["spec"]["template"]["spec"]["containers"] = containers
    answer = await applied(api, f"{DEPLOY}/d", config)
    assert answer.error[:2] == (500, "")
    place = "(/d; apps/v1, Kind=Deployment)"
    assert answer.message == f"failed to create typed patch object {place}: .spec.template.spec.{problem}"


@served
async def test_an_item_without_its_key_is_invalid(api):
    config = deployment("d")
    config["spec"]["template"]["spec"]["containers"] = [{"image": "i"}]
    answer = await applied(api, f"{DEPLOY}/d", config)
    assert answer.status == 422
    assert answer.message == ('Deployment.apps "d" is invalid: spec.template.spec.containers[0].name: Required value')


@served
async def test_a_value_out_of_range_of_its_go_type_is_refused(api):
    # kube-apiserver answers with 500, or truncates the number to 32 bits; it is the client's mistake.
    for replicas in (1.5, 10**10):
        answer = await applied(api, f"{DEPLOY}/d", deployment("d", replicas=replicas))
        assert answer.error[:2] == (400, "BadRequest")
        assert "spec.replicas" in answer.message


@served
async def test_the_result_is_validated(api):
    answer = await applied(api, f"{DEPLOY}/d", deployment("d", replicas=-1))
    assert answer.status == 422
    assert "spec.replicas" in answer.message
    config = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    answer = await applied(api, f"{DEPLOY}/d", config)
    assert (answer.status, answer["details"]["causes"][0]["field"]) == (422, "spec.selector")


# -- YAML -------------------------------------------------------------------------------------------------------------

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


@served
async def test_keys_may_be_yaml_keywords(api):
    answer = await applied(api, A, (HEAD + 'data: {n: "1", y: "2", on: "3"}\n').encode())
    assert answer.status == 201
    # YAML 1.1 reads such keys as booleans, and JSON has them as text.
    assert answer["data"] == {"false": "1", "true": "3"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("[]", "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type"),
        ("x", "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type"),
        ("a: [\n", "error converting YAML to JSON: yaml: line 1: did not find expected node content"),
        ("{", "error converting YAML to JSON: yaml: line 1: did not find expected node content"),
        (HEAD + "---\nfoo: bar\n", "error converting YAML to JSON: yaml: the body has more than one document"),
    ],
)
@served
async def test_a_body_that_is_not_an_object_is_refused(api, body, problem):
    answer = await applied(api, A, body.encode())
    assert answer.error[:2] == (400, "BadRequest")
    assert answer.message.startswith(f"error decoding YAML: {problem}")


@pytest.mark.parametrize("body", ["", "null", "# nothing\n", "{}"])
@served
async def test_an_empty_body_has_no_kind(api, body):
    assert (await applied(api, A, body.encode())).error == (400, "BadRequest", "invalid object type: /, Kind=")


@served
async def test_a_yaml_value_is_validated_by_its_type(api):
    for value, shown in (("yes", "true"), ("012", "10")):
        answer = await applied(api, A, f"{HEAD}data: {{a: {value}}}\n".encode())
        problem = f".data.a: expected string, got &value.valueUnstructured{{Value:{shown}}}"
        assert answer.error == (500, "", TYPED + problem)
    answer = await applied(api, A, (HEAD + "data: {a: !!str 1}\n").encode())
    assert answer["data"] == {"a": "1"}


@served
async def test_a_large_configuration_is_read_like_a_small_one(api):
    data = "".join(f"  k{n}: 'v'\n" for n in range(4000))
    answer = await applied(api, A, f"{HEAD}data:\n{data}".encode())
    assert (answer.status, len(answer["data"])) == (201, 4000)


@served
async def test_duplicate_keys_are_warned_about_or_refused_with_strict(api):
    body = (HEAD + 'data:\n  a: "1"\n  a: "2"\n').encode()
    strict = await applied(api, A, body, fieldValidation="Strict")
    assert strict.error[:2] == (400, "BadRequest")
    assert strict.message == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "a" already set in map'
    )
    assert (await api.get(A)).status == 404
    warned = await applied(api, A, body)
    assert (warned.status, warned["data"], warned.warnings) == (201, {"a": "2"}, ['line 6: key "a" already set in map'])
    ignored = await applied(api, A, body, fieldValidation="Ignore")
    assert (ignored.status, ignored.warnings) == (200, [])
    # Conflicts come first.
    assert (await applied(api, A, body.replace(b'"2"', b'"3"'), "m2", fieldValidation="Strict")).status == 409


@served
async def test_duplicate_keys_of_json_are_found_too(api):
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}'
    answer = await applied(api, A, body, fieldValidation="Strict")
    assert answer.status == 400
    assert 'line 1: key "a" already set in map' in answer.message


# -- nulls and empty values -------------------------------------------------------------------------------------------


@served
async def test_an_applied_null_is_owned_and_not_stored(api):
    answer = await applied(api, A, cm("a", data={"a": None, "b": "1"}))
    assert (answer.status, answer["data"]) == (201, {"a": "", "b": "1"})
    answer = await applied(api, A, cm("a", data=None))
    assert "data" not in answer.json


@served
async def test_an_empty_map_is_owned_itself(api):
    answer = await applied(api, A, cm("a", data={}))
    assert owners(answer) == {applier("m1"): {"f:data": {}}}
    await applied(api, A, cm("a", data={"a": "1"}), "m2")
    answer = await applied(api, A, cm("a"), "m2")
    assert "data" not in answer.json


# -- objects on their way out -----------------------------------------------------------------------------------------


@served
async def test_a_terminating_object_is_deleted_when_apply_removes_its_last_finalizer(api):
    await applied(api, A, cm("a", metadata={"finalizers": ["a.io/b"]}))
    await api.delete(A)
    answer = await applied(api, A, cm("a", metadata={"finalizers": ["a.io/b", "a.io/c"]}))
    assert answer.status == 422
    assert (await applied(api, A, cm("a"))).status == 200
    assert (await api.get(A)).status == 404
