"""Replacing objects (PUT) through the whole server: preconditions, what may change, what is kept, and what is a no-op."""

import pytest

from api_client import CM, DEPLOY, LEASES, NS, PODS, SVC, cm, deployment, lease, pod, served

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def _fresh(api, path):
    return (await api.get(path)).json


@served
async def test_update_replaces_the_object(api):
    made = await api.made(CM, cm("a", metadata={"labels": {"l": "1"}}, data={"k": "v"}))
    answer = await api.put(f"{CM}/a", cm("a", data={"k": "v2"}))
    assert answer.status == 200
    assert answer["data"] == {"k": "v2"}
    assert "labels" not in answer.metadata
    assert int(answer.version) > int(made["metadata"]["resourceVersion"])
    for key in ("uid", "creationTimestamp"):
        assert answer.metadata[key] == made["metadata"][key]
    assert await _fresh(api, f"{CM}/a") == answer.json


# -- resourceVersion --------------------------------------------------------------------------------------------------


@served
async def test_stale_version_is_a_conflict(api):
    made = await api.made(CM, cm("a"))
    await api.put(f"{CM}/a", cm("a", data={"k": "v2"}))
    stale = {"resourceVersion": made["metadata"]["resourceVersion"]}
    answer = await api.put(f"{CM}/a", cm("a", metadata=stale, data={"k": "v3"}))
    assert answer.error == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}')
    assert answer["details"] == {"name": "a", "kind": "configmaps"}
    assert (await _fresh(api, f"{CM}/a"))["data"] == {"k": "v2"}


@served
async def test_unknown_resource_version_is_a_conflict(api):
    await api.made(CM, cm("a"))
    assert (await api.put(f"{CM}/a", cm("a", metadata={"resourceVersion": "99999"}))).status == 409


@served
async def test_current_version_is_accepted_once(api):
    made = await api.made(LEASES, lease(holderIdentity="me"))
    for expected in (200, 409):
        body = {**made, "spec": {"holderIdentity": f"me-{expected}"}}
        assert (await api.put(f"{LEASES}/l", body)).status == expected


@pytest.mark.parametrize("version", [None, "", "0"])
@served
async def test_update_without_version_is_unconditional(api, version):
    await api.made(CM, cm("a"))
    metadata = {} if version is None else {"resourceVersion": version}
    assert (await api.put(f"{CM}/a", cm("a", metadata=metadata, data={"k": "v"}))).status == 200


@served
async def test_version_must_be_a_number(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"resourceVersion": "abc"}))
    assert answer.error == (500, "", 'strconv.ParseUint: parsing "abc": invalid syntax')


@pytest.mark.parametrize("version", ["²", "-1", "1.0", "9" * 5000])
@served
async def test_unusual_resource_versions_are_not_server_errors(api, version):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"resourceVersion": version}))
    assert answer.status == 500
    assert answer.message.startswith("strconv.ParseUint: parsing ")


@served
async def test_some_kinds_refuse_updates_without_version(api):
    await api.made(LEASES, lease(holderIdentity="me"))
    answer = await api.put(f"{LEASES}/l", lease(holderIdentity="you"))
    why = "Invalid value: 0: must be specified for an update"
    assert answer.error == (
        422,
        "Invalid",
        f'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: {why}',
    )
    # The plural, unlike every other 422.
    assert answer["details"] == {
        "name": "l",
        "group": "coordination.k8s.io",
        "kind": "leases",
        "causes": [{"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"}],
    }


UNCONDITIONAL = {
    ("", "configmaps"): True,
    ("", "pods"): True,
    ("", "nodes"): True,
    ("apps", "deployments"): True,
    ("rbac.authorization.k8s.io", "clusterroles"): True,
    ("coordination.k8s.io", "leases"): False,
    ("policy", "poddisruptionbudgets"): False,
    ("node.k8s.io", "runtimeclasses"): False,
    ("storage.k8s.io", "csidrivers"): False,
    ("storage.k8s.io", "csinodes"): False,
    ("storage.k8s.io", "csistoragecapacities"): False,
    ("storage.k8s.io", "volumeattachments"): False,
    ("storage.k8s.io", "storageclasses"): True,
    ("apiregistration.k8s.io", "apiservices"): False,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): False,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): False,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): False,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): False,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): False,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): False,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): True,
}
CREATES_ON_UPDATE = {
    "endpoints",
    "events",
    "limitranges",
    "services",
    "leases",
    "runtimeclasses",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
}


@served
async def test_update_flags_of_kinds_are_those_of_kube_apiserver(api):
    for (group, resource), expected in UNCONDITIONAL.items():
        strategy = api.catalog.find(group, "v1", resource).stored.strategy
        assert strategy.allow_unconditional_update is expected, resource
    for resource in api.catalog:
        if resource.store is not None:
            creates = resource.resource in CREATES_ON_UPDATE
            assert resource.store.strategy.allow_create_on_update is creates, resource.resource


# -- uid --------------------------------------------------------------------------------------------------------------


@served
async def test_uid_is_a_precondition(api):
    made = await api.made(CM, cm("a"))
    uid = made["metadata"]["uid"]
    answer = await api.put(f"{CM}/a", cm("a", metadata={"uid": "nope"}))
    assert answer.status == 409
    assert answer.message.startswith(
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, '
    )
    assert answer.message.endswith(f"Precondition failed: UID in precondition: nope, UID in object meta: {uid}")
    assert (await api.put(f"{CM}/a", cm("a", metadata={"uid": uid}, data={"k": "v"}))).status == 200


# -- names ------------------------------------------------------------------------------------------------------------


@served
async def test_name_of_body_and_url_must_agree(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("b"))
    assert answer.error == (400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")
    answer = await api.put(f"{CM}/a", {"metadata": {}})
    why = "the name of the object (a based on URL) was undeterminable: name must be provided"
    assert answer.error == (400, "BadRequest", why)


@served
async def test_namespace_of_body_and_url_must_agree_on_update(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"namespace": "kube-system"}))
    assert answer.status == 400


@served
async def test_missing_object_is_not_found(api):
    answer = await api.put(f"{CM}/zzz", cm("zzz"))
    assert answer.error == (404, "NotFound", 'configmaps "zzz" not found')
    # Also where the namespace is missing: only creations ask about it.
    answer = await api.put(f"{NS}/none/configmaps/zzz", cm("zzz"))
    assert answer.message == 'configmaps "zzz" not found'


# -- creating by update -----------------------------------------------------------------------------------------------


@served
async def test_update_of_a_missing_object_creates_it_for_some_kinds(api):
    answer = await api.put(f"{LEASES}/l", lease(holderIdentity="me"))
    assert answer.status == 201
    assert answer.metadata["uid"]
    answer = await api.put(f"{RBAC}/clusterroles/r", {"metadata": {"name": "r"}})
    assert answer.status == 201


@served
async def test_creating_by_update_ignores_the_version(api):
    obj = lease(holderIdentity="me")
    obj["metadata"]["resourceVersion"] = "5"
    answer = await api.put(f"{LEASES}/l", obj)
    assert answer.status == 201
    assert answer.version == str(api.revision)


@served
async def test_creating_by_update_with_a_uid_is_a_conflict(api):
    obj = lease(holderIdentity="me")
    obj["metadata"]["uid"] = "u"
    answer = await api.put(f"{LEASES}/l", obj)
    assert answer.error[:2] == (409, "Conflict")
    assert "Precondition failed: UID in precondition: u, UID in object meta: " in answer.message


@served
async def test_creating_by_update_needs_the_namespace(api):
    answer = await api.put("/apis/coordination.k8s.io/v1/namespaces/none/leases/l", lease())
    assert answer.message == 'namespaces "none" not found'


@served
async def test_creating_by_update_can_be_a_dry_run(api):
    answer = await api.put(f"{LEASES}/l", lease(), dryRun="All")
    assert answer.status == 201
    assert "resourceVersion" not in answer.metadata
    assert (await api.get(f"{LEASES}/l")).status == 404


@served
async def test_status_of_a_missing_object_is_never_created(api):
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    assert (await api.put(f"{SVC}/s/status", body)).status == 404


# -- no-ops -----------------------------------------------------------------------------------------------------------


@served
async def test_update_that_changes_nothing_writes_nothing(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    watch = await api.watch(CM, resourceVersion=made["metadata"]["resourceVersion"])
    before = api.revision
    answer = await api.put(f"{CM}/a", cm("a", data={"k": "v"}))
    assert (answer.status, answer.json) == (200, made)
    assert api.revision == before
    assert await watch.is_quiet()


@served
async def test_update_that_differs_only_in_defaults_writes_nothing(api):
    made = await api.made(DEPLOY, deployment("d"))
    answer = await api.put(f"{DEPLOY}/d", deployment("d"))
    assert answer.json == made


@served
async def test_empty_metadata_is_no_change(api):
    made = await api.made(CM, cm("a"))
    empty = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    assert (await api.put(f"{CM}/a", cm("a", metadata=empty))).version == made["metadata"]["resourceVersion"]


# -- generation -------------------------------------------------------------------------------------------------------


@served
async def test_generation_grows_with_the_spec(api):
    made = await api.made(DEPLOY, deployment("d"))
    body = {**made, "spec": {**made["spec"], "replicas": 3}}
    answer = await api.put(f"{DEPLOY}/d", body)
    assert answer.metadata["generation"] == 2
    body = {**answer.json, "metadata": {**answer.metadata, "labels": {"x": "y"}, "generation": 77}}
    assert (await api.put(f"{DEPLOY}/d", body)).metadata["generation"] == 2


@served
async def test_generation_of_a_deployment_grows_with_its_annotations(api):
    await api.made(DEPLOY, deployment("d"))
    obj = deployment("d")
    obj["metadata"]["annotations"] = {"x": "y"}
    assert (await api.put(f"{DEPLOY}/d", obj)).metadata["generation"] == 2


@served
async def test_config_maps_have_no_generation(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"generation": 5}, data={"k": "v"}))
    assert "generation" not in answer.metadata


# -- status -----------------------------------------------------------------------------------------------------------


@served
async def test_main_resource_ignores_status(api):
    made = await api.made(DEPLOY, deployment("d"))
    answer = await api.put(f"{DEPLOY}/d", {**deployment("d"), "status": {"replicas": 9}})
    assert answer.json == made


@served
async def test_status_subresource_ignores_everything_else(api):
    made = await api.made(DEPLOY, deployment("d"))
    body = deployment("d", replicas=7)
    body["metadata"]["labels"] = {"via": "status"}
    body["status"] = {"replicas": 3, "observedGeneration": 1}
    answer = await api.put(f"{DEPLOY}/d/status", body)
    assert answer.status == 200
    assert answer["status"] == {"replicas": 3, "observedGeneration": 1}
    assert answer["spec"] == made["spec"]
    assert "labels" not in answer.metadata
    assert answer.metadata["generation"] == 1
    assert (await api.get(f"{DEPLOY}/d/status")).json == answer.json


@served
async def test_status_subresource_honours_the_resource_version(api):
    made = await api.made(DEPLOY, deployment("d"))
    body = {**made, "status": {"replicas": 1}}
    assert (await api.put(f"{DEPLOY}/d/status", body)).status == 200
    assert (await api.put(f"{DEPLOY}/d/status", {**body, "status": {"replicas": 2}})).status == 409


@served
async def test_status_subresource_of_some_kinds_accepts_labels(api):
    await api.made("/api/v1/nodes", {"metadata": {"name": "n"}})
    body = {"metadata": {"name": "n", "labels": {"a": "b"}}, "status": {"phase": "Running"}}
    answer = await api.put("/api/v1/nodes/n/status", body)
    assert answer.metadata["labels"] == {"a": "b"}


@served
async def test_kind_without_status_has_no_status_subresource(api):
    await api.made(CM, cm("a"))
    answer = await api.get(f"{CM}/a/status")
    assert answer.error == (404, "NotFound", "the server could not find the requested resource")


# -- immutable parts --------------------------------------------------------------------------------------------------


@served
async def test_creation_timestamp_of_the_body_is_ignored(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"creationTimestamp": "2001-01-01T00:00:00Z"}))
    assert answer.metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"


@served
async def test_client_cannot_set_the_deletion_timestamp(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert answer.status == 422
    assert "metadata.deletionTimestamp: Invalid value" in answer.message
    assert "field is immutable" in answer.message


@served
async def test_selector_of_a_deployment_is_immutable(api):
    made = await api.made(DEPLOY, deployment("d"))
    selector = {"matchLabels": {"a": "c"}}
    answer = await api.put(f"{DEPLOY}/d", {**made, "spec": {**made["spec"], "selector": selector}})
    assert answer.error == (
        422,
        "Invalid",
        (
            'Deployment.apps "d" is invalid: [spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not '
            'match template `labels`, spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable]'
        ),
    )


@served
async def test_most_pod_spec_fields_are_immutable(api):
    made = await api.made(PODS, pod("p"))
    answer = await api.put(f"{PODS}/p", {**made, "spec": {**made["spec"], "nodeName": "n1"}})
    assert answer.status == 422
    assert answer.message.startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )
    containers = [{**made["spec"]["containers"][0], "image": "other"}]
    answer = await api.put(f"{PODS}/p", {**made, "spec": {**made["spec"], "containers": containers}})
    assert (answer.status, answer.metadata["generation"]) == (200, 2)


# -- finalizers -------------------------------------------------------------------------------------------------------


async def _deleting(api, *finalizers):
    await api.made(CM, cm("fin", metadata={"finalizers": list(finalizers)}))
    answer = await api.delete(f"{CM}/fin")
    assert answer.status == 200
    return answer.json


@served
async def test_finalizer_cannot_be_added_to_a_terminating_object(api):
    await _deleting(api, "x.io/f")
    answer = await api.put(f"{CM}/fin", cm("fin", metadata={"finalizers": ["x.io/f", "y.io/g"]}))
    why = (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"y.io/g"}'
    )
    assert answer.error == (422, "Invalid", f'ConfigMap "fin" is invalid: metadata.finalizers: {why}')


@served
async def test_terminating_object_can_be_updated(api):
    marked = await _deleting(api, "x.io/f")
    answer = await api.put(f"{CM}/fin", cm("fin", metadata={"finalizers": ["x.io/f"]}, data={"a": "b"}))
    assert answer.status == 200
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        assert answer.metadata[key] == marked["metadata"][key]


@served
async def test_update_that_removes_the_last_finalizer_deletes(api):
    marked = await _deleting(api, "x.io/f", "y.io/g")
    version = marked["metadata"]["resourceVersion"]
    watch = await api.watch(CM, resourceVersion=version)
    assert (await api.put(f"{CM}/fin", cm("fin", metadata={"finalizers": ["y.io/g"]}))).status == 200
    assert (await api.get(f"{CM}/fin")).status == 200
    answer = await api.put(f"{CM}/fin", cm("fin", data={"last": "words"}))
    assert answer.status == 200
    assert answer["data"] == {"last": "words"}
    assert "finalizers" not in answer.metadata
    assert (await api.get(f"{CM}/fin")).status == 404
    assert await watch.brief(2) == [("MODIFIED", "fin"), ("DELETED", "fin")]


@served
async def test_dry_run_of_the_last_removal_deletes_nothing(api):
    await _deleting(api, "x.io/f")
    assert (await api.put(f"{CM}/fin", cm("fin"), dryRun="All")).status == 200
    assert (await api.get(f"{CM}/fin")).status == 200


@served
async def test_removing_finalizers_of_an_object_not_being_deleted_keeps_it(api):
    await api.made(CM, cm("a", metadata={"finalizers": ["x.io/f"]}))
    await api.put(f"{CM}/a", cm("a"))
    assert (await api.get(f"{CM}/a")).status == 200


# -- options ----------------------------------------------------------------------------------------------------------


@served
async def test_dry_run_of_an_update_shows_but_does_not_store(api):
    made = await api.made(DEPLOY, deployment("d"))
    answer = await api.put(f"{DEPLOY}/d", deployment("d", replicas=5), dryRun="All")
    assert answer.status == 200
    assert answer["spec"]["replicas"] == 5
    assert answer.metadata["generation"] == 2
    assert answer.version == made["metadata"]["resourceVersion"]
    assert (await api.get(f"{DEPLOY}/d")).json == made


@served
async def test_strict_validation_of_an_update_is_a_bad_request(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a", bar=1), fieldValidation="Strict")
    assert answer.error == (
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "bar"',
    )
    answer = await api.put(f"{CM}/a", cm("a", bar=1))
    assert answer.warnings == ['unknown field "bar"']


@served
async def test_bad_options_of_an_update_name_its_options(api):
    await api.made(CM, cm("a"))
    answer = await api.put(f"{CM}/a", cm("a"), dryRun="x")
    assert answer.message.startswith('UpdateOptions.meta.k8s.io "" is invalid: dryRun: ')
