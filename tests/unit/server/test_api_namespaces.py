"""Namespaces: they are marked first and removed when they are let go of; meanwhile nothing new is made in them."""

import pytest

from api_client import NS, cm, served

NOW = "2026-01-01T00:00:00Z"


async def _ns(api, name="probe", **metadata):
    return await api.made(NS, {"metadata": {"name": name, **metadata}})


@served
async def test_namespace_is_created_with_its_finalizer_and_label(api):
    made = await _ns(api)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "probe"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}


@served
async def test_generated_namespace_is_labelled_with_its_name(api):
    made = await api.made(NS, {"metadata": {"generateName": "gen-"}})
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == made["metadata"]["name"]


@served
async def test_removed_name_label_is_restored(api):
    await _ns(api)
    answer = await api.put(f"{NS}/probe", {"metadata": {"name": "probe", "labels": {"a": "b"}}})
    assert answer.metadata["labels"] == {"a": "b", "kubernetes.io/metadata.name": "probe"}


@served
async def test_namespace_name_must_be_a_dns_label(api):
    assert (await api.post(NS, {"metadata": {"name": "a.b"}})).status == 422
    assert (await api.post(NS, {"metadata": {"name": "x" * 64}})).status == 422


@served
async def test_namespace_deletion_sets_the_terminating_phase(api):
    made = await _ns(api)
    watch = await api.watch(NS, resourceVersion=made["metadata"]["resourceVersion"])
    answer = await api.delete(f"{NS}/probe")
    assert answer.status == 200
    assert answer["status"]["phase"] == "Terminating"
    assert answer["spec"]["finalizers"] == ["kubernetes"]
    assert answer.metadata["deletionTimestamp"] == NOW
    assert "deletionGracePeriodSeconds" not in answer.metadata
    assert (await watch.next())["type"] == "MODIFIED"
    again = await api.delete(f"{NS}/probe")
    assert (again.status, again.json) == (200, answer.json)


@served
async def test_nothing_is_created_in_a_terminating_namespace(api):
    await _ns(api)
    await api.made(f"{NS}/probe/configmaps", cm("old", data={"a": "b"}))
    await api.delete(f"{NS}/probe")
    answer = await api.post(f"{NS}/probe/configmaps", cm("late"))
    assert answer.error == (
        403,
        "Forbidden",
        'configmaps "late" is forbidden: unable to create new content in namespace probe because it is being terminated',
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": "namespace probe is being terminated",
        "field": "metadata.namespace",
    }
    assert answer["details"] == {"name": "late", "kind": "configmaps", "causes": [cause]}
    # Creating by update is creating.
    lease = {"metadata": {"name": "l"}}
    path = "/apis/coordination.k8s.io/v1/namespaces/probe/leases/l"
    assert (await api.put(path, lease)).status == 403


@served
async def test_objects_in_a_terminating_namespace_can_be_updated_and_deleted(api):
    await _ns(api)
    await api.made(f"{NS}/probe/configmaps", cm("old"))
    await api.delete(f"{NS}/probe")
    assert (await api.patch(f"{NS}/probe/configmaps/old", {"data": {"a": "c"}})).status == 200
    assert (await api.delete(f"{NS}/probe/configmaps/old")).status == 200


@served
async def test_name_of_a_terminating_namespace_cannot_be_reused(api):
    await _ns(api)
    await api.delete(f"{NS}/probe")
    answer = await api.post(NS, {"metadata": {"name": "probe"}})
    assert answer.error == (409, "AlreadyExists", 'object is being deleted: namespaces "probe" already exists')


@served
async def test_namespace_is_deleted_when_its_finalizers_are_removed(api):
    await _ns(api)
    marked = await api.delete(f"{NS}/probe")
    watch = await api.watch(NS, resourceVersion=marked.version)
    body = {**marked.json, "spec": {"finalizers": []}}
    answer = await api.put(f"{NS}/probe/finalize", body)
    assert answer.status == 200
    assert (await api.get(f"{NS}/probe")).status == 404
    assert await watch.brief(1) == [("DELETED", "probe")]
    await _ns(api)


@served
async def test_namespace_deletion_after_finalize_is_immediate(api):
    made = await _ns(api)
    answer = await api.put(f"{NS}/probe/finalize", {**made, "spec": {}})
    assert answer.status == 200
    assert not answer["spec"].get("finalizers")
    assert (await api.get(f"{NS}/probe")).status == 200
    await api.delete(f"{NS}/probe")
    # The first deletion marks, whatever is left; the second one finds nothing that holds it.
    await api.delete(f"{NS}/probe")
    assert (await api.get(f"{NS}/probe")).status == 404


@served
async def test_namespace_deletion_waits_for_spec_and_metadata_finalizers(api):
    await _ns(api, finalizers=["x.io/f"])
    marked = await api.delete(f"{NS}/probe")
    body = {**marked.json, "spec": {"finalizers": []}}
    assert (await api.put(f"{NS}/probe/finalize", body)).status == 200
    assert (await api.get(f"{NS}/probe")).status == 200
    assert (await api.patch(f"{NS}/probe", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(f"{NS}/probe")).status == 404


@served
async def test_ordinary_update_keeps_the_finalizers_of_the_spec(api):
    made = await _ns(api)
    answer = await api.put(f"{NS}/probe", {**made, "spec": {"finalizers": []}})
    assert answer["spec"]["finalizers"] == ["kubernetes"]
    answer = await api.patch(f"{NS}/probe", {"spec": None})
    assert answer["spec"]["finalizers"] == ["kubernetes"]


@served
async def test_finalize_changes_nothing_but_finalizers(api):
    made = await _ns(api)
    body = {**made, "metadata": {**made["metadata"], "labels": {"x": "y"}}, "status": {"phase": "Terminating"}}
    answer = await api.put(f"{NS}/probe/finalize", {**body, "spec": {"finalizers": ["kubernetes", "x.io/f"]}})
    assert answer.status == 200
    assert answer["spec"]["finalizers"] == ["kubernetes", "x.io/f"]
    assert answer["status"] == {"phase": "Active"}


@served
async def test_finalize_honours_the_version(api):
    made = await _ns(api)
    await api.patch(f"{NS}/probe", {"metadata": {"labels": {"a": "b"}}})
    assert (await api.put(f"{NS}/probe/finalize", {**made, "spec": {}})).status == 409


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
@served
async def test_namespace_deletion_is_forbidden_for_system_namespaces(api, name):
    answer = await api.delete(f"{NS}/{name}")
    assert answer.error == (403, "Forbidden", f'namespaces "{name}" is forbidden: this namespace may not be deleted')
    assert (await api.get(f"{NS}/{name}"))["status"]["phase"] == "Active"


@served
async def test_namespaces_have_no_deletecollection(api):
    assert (await api.delete(NS)).error[0] == 405


@served
async def test_namespace_deletion_honours_preconditions(api):
    made = await _ns(api)
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    answer = await api.delete(f"{NS}/probe", {"preconditions": {"uid": "x"}})
    assert answer.error == (
        409,
        "Conflict",
        (
            f'Operation cannot be fulfilled on namespaces "probe": Precondition failed: UID in precondition: x, '
            f"UID in object meta: {uid}"
        ),
    )
    answer = await api.delete(f"{NS}/probe", {"preconditions": {"resourceVersion": "1"}})
    assert answer.error == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on namespaces "probe": Precondition failed: ResourceVersion in precondition: 1, '
            f"ResourceVersion in object meta: {version}"
        ),
    )
    assert (await api.get(f"{NS}/probe"))["status"]["phase"] == "Active"


@served
async def test_namespace_deletion_can_be_a_dry_run(api):
    made = await _ns(api)
    answer = await api.delete(f"{NS}/probe", dryRun="All")
    assert answer["status"]["phase"] == "Terminating"
    assert (await api.get(f"{NS}/probe")).json == made


@served
async def test_namespace_status_can_be_written(api):
    made = await _ns(api)
    condition = {"type": "X", "status": "True", "lastTransitionTime": NOW}
    body = {**made, "status": {"phase": "Active", "conditions": [condition]}}
    answer = await api.put(f"{NS}/probe/status", body)
    assert answer["status"]["conditions"] == [condition]


@served
async def test_namespaces_can_be_selected_by_phase(api):
    await _ns(api)
    await api.delete(f"{NS}/probe")
    assert (await api.get(NS, fieldSelector="status.phase=Terminating")).names == ["probe"]


@pytest.mark.parametrize("path", [f"{NS}/default/namespaces", f"{NS}/default/namespaces/kube-system"])
@served
async def test_namespaces_are_not_served_inside_namespaces(api, path):
    # Served, it would be authorized by the rules of the outer namespace.
    for method in ("GET", "DELETE", "PATCH", "PUT"):
        answer = await api.request(method, path, headers={"content-type": "application/json"})
        assert answer.error == (404, "NotFound", "the server could not find the requested resource")
