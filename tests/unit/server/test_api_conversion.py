"""Custom resources whose versions a webhook converts: every verb in a version that is not the stored one."""

import pytest

from api_client import APPLY, JSON_PATCH, MERGE
from converting_api import wired
from webhook_server import (
    DEFINITIONS,
    NAME,
    V1,
    V1BETA1,
    Certificates,
    Reply,
    honest,
    listener,
    lying_about,
    path,
)

FAILED = f"conversion webhook for {V1}, Kind=Listener failed: I am ill"
ILL = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "I am ill"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def ill(call):
    return Reply(ILL, 500)


# -- writing and reading ----------------------------------------------------------------------------------------------


@wired
async def test_an_object_created_in_one_version_is_served_in_both(api, webhook):
    answer, calls = await api.calls(api.post(path(V1BETA1), listener("a", V1BETA1, host="h", port=80)))
    assert (answer.status, answer["apiVersion"], answer["spec"]) == (201, V1BETA1, {"hostPort": "h:80"})
    assert calls == [["a"]]
    stored, calls = await api.calls(api.get(path(V1, "a")))
    assert (stored["apiVersion"], stored["spec"], calls) == (V1, {"host": "h", "port": 80}, [])
    shown = await api.get(path(V1BETA1, "a"))
    assert shown.json == answer.json
    assert stored.metadata == shown.metadata


@wired
async def test_an_object_is_converted_once_per_revision(api, webhook):
    await api.listeners("a", replicas=1)
    assert (await api.calls(api.get(path(V1BETA1, "a"))))[1] == [["a"]]
    for work in (api.get(path(V1BETA1, "a")), api.get(path(V1BETA1)), api.get(path(V1BETA1, "a/scale"))):
        answer, calls = await api.calls(work)
        assert (answer.status, calls) == (200, [])
    await api.patch(path(V1, "a"), {"spec": {"port": 2}})
    answer, calls = await api.calls(api.get(path(V1BETA1, "a")))
    assert (answer["spec"]["hostPort"], calls) == ("h:2", [["a"]])


@wired
async def test_a_list_takes_one_conversion_review(api, webhook):
    await api.listeners("a", "b", "c")
    answer, calls = await api.calls(api.get(path(V1BETA1)))
    assert [item["spec"] for item in answer["items"]] == [{"hostPort": "h:1"}] * 3
    assert {item["apiVersion"] for item in answer["items"]} == {answer["apiVersion"]} == {V1BETA1}
    assert calls == [["a", "b", "c"]]
    await api.listeners("d")
    assert (await api.calls(api.get(path(V1BETA1))))[1] == [["d"]]


@wired
async def test_objects_stored_in_different_versions_are_listed_in_one(api, webhook):
    await api.listeners("a", "c")
    await api.store_in("v1beta1")
    await api.listeners("b", "d", api_version=V1BETA1)
    listed, calls = await api.calls(api.get(path(V1)))
    assert [item["spec"] for item in listed["items"]] == [{"host": "h", "port": 1}] * 4
    assert calls == [["b", "d"]]
    listed, calls = await api.calls(api.get(path(V1BETA1)))
    assert listed.names == ["a", "b", "c", "d"]
    assert calls == [["a", "c"]]


@wired
async def test_pages_convert_only_their_own_items(api, webhook):
    await api.listeners("a", "b", "c")
    first, calls = await api.calls(api.get(path(V1BETA1), limit=2))
    assert (first.names, calls) == (["a", "b"], [["a", "b"]])
    rest, calls = await api.calls(api.get(path(V1BETA1), limit=2, continue_=first.metadata["continue"]))
    assert (rest.names, calls) == (["c"], [["c"]])


@wired
async def test_changing_the_storage_version_leaves_objects_unchanged_until_written(api, webhook):
    (made,) = await api.listeners("a")
    await api.store_in("v1beta1")
    shown, calls = await api.calls(api.get(path(V1, "a")))
    assert (shown.json, calls) == (made, [])
    shown = await api.get(path(V1BETA1, "a"))
    assert shown["spec"] == {"hostPort": "h:1"}
    changed = await api.put(path(V1, "a"), {**made, "spec": {"host": "i", "port": 2}})
    assert changed.status == 200
    shown, calls = await api.calls(api.get(path(V1BETA1, "a")))
    assert (shown["spec"], calls) == ({"hostPort": "i:2"}, [])


@wired
async def test_a_put_in_another_version_replaces(api, webhook):
    await api.listeners("a")
    shown = (await api.get(path(V1BETA1, "a"))).json
    shown["spec"]["hostPort"] = "i:2"
    answer, calls = await api.calls(api.put(path(V1BETA1, "a"), shown))
    assert (answer.status, answer["spec"]) == (200, {"hostPort": "i:2"})
    assert set(map(tuple, calls)) == {("a",)}
    assert (await api.get(path(V1, "a")))["spec"] == {"host": "i", "port": 2}


@wired
async def test_a_put_without_changes_writes_nothing(api, webhook):
    await api.listeners("a")
    shown = (await api.get(path(V1BETA1, "a"))).json
    revision = api.revision
    answer = await api.put(path(V1BETA1, "a"), shown)
    assert (answer.status, answer.json, api.revision) == (200, shown, revision)


@wired
async def test_a_stale_put_in_another_version_is_a_conflict(api, webhook):
    await api.listeners("a")
    shown = (await api.get(path(V1BETA1, "a"))).json
    await api.patch(path(V1, "a"), {"spec": {"port": 2}})
    assert (await api.put(path(V1BETA1, "a"), shown)).error[:2] == (409, "Conflict")


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"spec": {"hostPort": "i:2"}}),
        (JSON_PATCH, [{"op": "replace", "path": "/spec/hostPort", "value": "i:2"}]),
    ],
)
@wired
async def test_a_patch_is_applied_in_the_version_of_its_url(api, webhook, kind, patch):
    await api.listeners("a")
    answer = await api.patch(path(V1BETA1, "a"), patch, kind)
    assert (answer.status, answer["spec"]) == (200, {"hostPort": "i:2"})
    assert (await api.get(path(V1, "a")))["spec"] == {"host": "i", "port": 2}


@wired
async def test_status_and_scale_are_served_in_every_version(api, webhook):
    await api.listeners("a", replicas=1)
    answer = await api.patch(path(V1BETA1, "a/status"), {"status": {"ready": 1}, "spec": {"hostPort": "x:9"}})
    assert (answer["status"], answer["spec"]["hostPort"]) == ({"ready": 1}, "h:1")
    scale = await api.get(path(V1BETA1, "a/scale"))
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 1}, 1)
    scaled = await api.patch(path(V1BETA1, "a/scale"), {"spec": {"replicas": 3}})
    assert (scaled.status, scaled["spec"]) == (200, {"replicas": 3})
    stored = (await api.get(path(V1, "a"))).json
    assert (stored["spec"], stored["status"]) == ({"host": "h", "port": 1, "replicas": 3}, {"ready": 1})


@wired
async def test_a_deletion_in_another_version_returns_a_status(api, webhook):
    (made,) = await api.listeners("a")
    answer = await api.delete(path(V1BETA1, "a"))
    assert (answer.status, answer["status"], answer["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
    assert (await api.get(path(V1, "a"))).status == 404


@wired
async def test_a_deletion_that_waits_for_a_finalizer_shows_the_object_in_the_requested_version(api, webhook):
    await api.made(path(V1), listener("a", metadata={"finalizers": ["a.dev/wait"]}))
    answer = await api.delete(path(V1BETA1, "a"))
    assert (answer.status, answer["apiVersion"], answer["spec"]) == (200, V1BETA1, {"hostPort": "h:1"})
    assert answer.metadata["deletionTimestamp"]
    gone = await api.patch(path(V1BETA1, "a"), {"metadata": {"finalizers": None}})
    assert (gone.status, gone["spec"]) == (200, {"hostPort": "h:1"})
    assert (await api.get(path(V1, "a"))).status == 404


@wired
async def test_a_collection_is_deleted_in_any_version(api, webhook):
    await api.listeners("a", "b")
    answer = await api.delete(path(V1BETA1), fieldSelector="spec.hostPort=h:1")
    assert (answer.names, {item["apiVersion"] for item in answer["items"]}) == (["a", "b"], {V1BETA1})
    assert (await api.get(path(V1)))["items"] == []


@wired
async def test_a_dry_run_is_converted_and_not_stored(api, webhook):
    revision = api.revision
    answer = await api.post(path(V1BETA1), listener("a", V1BETA1), dryRun="All")
    assert (answer.status, answer["spec"]) == (201, {"hostPort": "h:1"})
    assert api.revision == revision


# -- selectors --------------------------------------------------------------------------------------------------------


@wired
async def test_field_selectors_use_the_version_of_the_url(api, webhook):
    await api.listeners("a", "b")
    await api.made(path(V1), listener("c", host="other", port=2))
    found, calls = await api.calls(api.get(path(V1BETA1), fieldSelector="spec.hostPort=h:1"))
    assert (found.names, calls) == (["a", "b"], [["a", "b", "c"]])
    assert (await api.get(path(V1), fieldSelector="spec.host=other")).names == ["c"]
    unknown = await api.get(path(V1BETA1), fieldSelector="spec.host=h")
    assert unknown.error[:2] == (400, "BadRequest")


# -- ownership --------------------------------------------------------------------------------------------------------


def managers(answer):
    return {(entry["manager"], entry["apiVersion"]): entry["fieldsV1"] for entry in answer.metadata["managedFields"]}


async def applied(api, api_version, manager, spec, **query):
    obj = {"apiVersion": api_version, "kind": "Listener", "metadata": {"name": "a"}, "spec": spec}
    return await api.patch(path(api_version, "a"), obj, APPLY, fieldManager=manager, **query)


@wired
async def test_managed_fields_record_the_version_of_the_apply(api, webhook):
    first = await applied(api, V1, "one", {"host": "h", "port": 1})
    assert first.status == 201
    second = await applied(api, V1BETA1, "two", {"replicas": 2})
    assert (second.status, second["spec"]) == (200, {"hostPort": "h:1", "replicas": 2})
    assert managers(second) == {
        ("one", V1): {"f:spec": {"f:host": {}, "f:port": {}}},
        ("two", V1BETA1): {"f:spec": {"f:replicas": {}}},
    }


@wired
async def test_apply_conflicts_are_found_across_versions(api, webhook):
    await applied(api, V1, "one", {"host": "h", "port": 1})
    refused = await applied(api, V1BETA1, "two", {"hostPort": "i:1"})
    assert refused.error[:2] == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .spec.host'
    taken = await applied(api, V1BETA1, "two", {"hostPort": "i:1"}, force="true")
    assert (taken.status, taken["spec"]) == (200, {"hostPort": "i:1"})
    assert managers(taken) == {
        ("one", V1): {"f:spec": {"f:port": {}}},
        ("two", V1BETA1): {"f:spec": {"f:hostPort": {}}},
    }


@wired
async def test_an_update_in_another_version_takes_ownership_of_changed_fields(api, webhook):
    await applied(api, V1, "one", {"host": "h", "port": 1})
    answer = await api.patch(path(V1BETA1, "a"), {"spec": {"hostPort": "h:2"}}, fieldManager="two")
    assert managers(answer) == {
        ("one", V1): {"f:spec": {"f:host": {}}},
        ("two", V1BETA1): {"f:spec": {"f:hostPort": {}}},
    }


@wired
async def test_apply_in_one_version_removes_fields_applied_in_another(api, webhook):
    await applied(api, V1, "one", {"host": "h", "port": 1, "replicas": 2})
    answer = await applied(api, V1BETA1, "one", {"hostPort": "h:1"})
    assert (answer.status, answer["spec"]) == (200, {"hostPort": "h:1"})


@pytest.mark.parametrize("verb", ["update", "apply"])
@wired
async def test_managed_fields_that_cannot_be_converted_fail_the_write(api, webhook, verb):
    await applied(api, V1, "one", {"host": "h", "port": 1})
    await api.get(path(V1BETA1, "a"))  # so that only ownership is left to be converted
    revision = api.revision
    webhook.script = ill
    if verb == "apply":
        answer = await applied(api, V1BETA1, "two", {"replicas": 2})
    else:
        answer = await api.patch(path(V1BETA1, "a"), {"spec": {"replicas": 2}})
    assert answer.error == (500, "", FAILED.replace(V1, V1BETA1))
    assert api.revision == revision
    webhook.script = honest
    assert (await applied(api, V1BETA1, "two", {"replicas": 2})).status == 200


# -- when the webhook fails ---------------------------------------------------------------------------------------------

VERBS = {
    "get": lambda api: api.get(path(V1BETA1, "a")),
    "list": lambda api: api.get(path(V1BETA1)),
    "list-by-field": lambda api: api.get(path(V1BETA1), fieldSelector="spec.hostPort=h:1"),
    "create": lambda api: api.post(path(V1BETA1), listener("new", V1BETA1)),
    "update": lambda api: api.put(path(V1BETA1, "a"), listener("a", V1BETA1, port=2)),
    "patch": lambda api: api.patch(path(V1BETA1, "a"), {"spec": {"hostPort": "i:2"}}),
    "apply": lambda api: applied(api, V1BETA1, "two", {"replicas": 2}),
    "delete": lambda api: api.delete(path(V1BETA1, "a")),
    "deletecollection": lambda api: api.delete(path(V1BETA1)),
    "get-scale": lambda api: api.get(path(V1BETA1, "a/scale")),
    "patch-scale": lambda api: api.patch(path(V1BETA1, "a/scale"), {"spec": {"replicas": 9}}),
    "patch-status": lambda api: api.patch(path(V1BETA1, "a/status"), {"status": {"ready": 9}}),
    "get-status": lambda api: api.get(path(V1BETA1, "a/status")),
}


@pytest.mark.parametrize("verb", VERBS)
@wired
async def test_a_webhook_failure_is_reported_and_nothing_is_written(api, webhook, verb):
    (made,) = await api.listeners("a", replicas=1)
    webhook.script = ill
    revision = api.revision
    answer = await VERBS[verb](api)
    expected = FAILED.replace(V1, V1BETA1) if verb == "create" else FAILED
    assert answer.error == (500, "", expected)
    assert api.revision == revision
    assert (await api.get(path(V1, "a"))).json == made
    assert (await api.get(path(V1))).names == ["a"]
    assert (await api.patch(path(V1, "a"), {"spec": {"port": 2}})).status == 200


@wired
async def test_one_unconvertible_object_fails_the_list_and_is_named(api, webhook):
    await api.listeners("a", "b")

    def wrong(obj):
        if obj["metadata"]["name"] == "b":
            obj["metadata"]["labels"] = {"x": 1}

    webhook.script = lying_about(wrong)
    answer = await api.get(path(V1BETA1))
    why = "metadata.labels[x] must be a string, but is int64 in converted object"
    what = f"conversion webhook for {V1}, Kind=Listener returned invalid metadata in object at index 1"
    assert answer.error == (500, "", f"{what}: {why}")
    assert (await api.get(path(V1BETA1, "a"))).status == 200


@wired
async def test_cached_conversions_are_served_after_the_webhook_failed(api, webhook):
    await api.listeners("a")
    shown = await api.get(path(V1BETA1, "a"))
    webhook.script = ill
    assert (await api.get(path(V1BETA1, "a"))).json == shown.json
    assert (await api.get(path(V1BETA1))).names == ["a"]


@wired
async def test_a_conversion_failure_is_not_cached(api, webhook):
    await api.listeners("a")
    webhook.script = ill
    assert (await api.get(path(V1BETA1, "a"))).status == 500
    webhook.script = honest
    assert (await api.get(path(V1BETA1, "a")))["spec"] == {"hostPort": "h:1"}


@wired
async def test_a_changed_webhook_of_the_definition_is_used(api, webhook):
    await api.listeners("a")
    await api.get(path(V1BETA1, "a"))

    def change(spec):
        spec["conversion"]["webhook"]["clientConfig"]["url"] += "/second"

    await api.redefine(change)
    assert (await api.get(path(V1BETA1, "a"))).status == 200
    assert [call.target.partition("?")[0] for call in webhook.calls] == ["/convert", "/convert/second"]


# -- what comes back is an object of its version --------------------------------------------------------------------------


@wired
async def test_fields_a_webhook_adds_beyond_the_schema_are_pruned(api, webhook):
    await api.listeners("a")
    webhook.script = lying_about(lambda obj: obj["spec"].update(surprise=1, host="left over"))
    assert (await api.get(path(V1BETA1, "a")))["spec"] == {"hostPort": "h:1"}


@wired
async def test_labels_a_webhook_adds_are_shown_in_that_version_only(api, webhook):
    await api.listeners("a")
    webhook.script = lying_about(lambda obj: obj["metadata"].update(labels={"from": "webhook"}))
    assert (await api.get(path(V1BETA1, "a"))).metadata["labels"] == {"from": "webhook"}
    assert "labels" not in (await api.get(path(V1, "a"))).metadata


@wired
async def test_a_write_stores_what_the_webhook_converted(api, webhook):
    webhook.script = lying_about(lambda obj: obj["metadata"].update(annotations={"was": "v1beta1"}))
    await api.made(path(V1BETA1), listener("a", V1BETA1))
    assert (await api.get(path(V1, "a"))).metadata["annotations"] == {"was": "v1beta1"}


@wired(define=False)
async def test_cluster_scoped_objects_are_converted_as_well(api, webhook):
    await api.define(scope="Cluster")
    await api.made(f"/apis/{V1BETA1}/listeners", listener("a", V1BETA1))
    assert (await api.get(f"/apis/{V1}/listeners/a"))["spec"] == {"host": "h", "port": 1}
    assert (await api.get(f"/apis/{V1BETA1}/listeners")).names == ["a"]


@wired(define=False)
async def test_a_webhook_service_is_resolved_through_the_api(api, webhook):
    await api.define()
    hook = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": hook}

    def change(spec):
        config = {"namespace": "default", "name": "hook", "port": webhook.port, "path": "/x"}
        bundle = webhook.certificates.bundle
        spec["conversion"]["webhook"]["clientConfig"] = {"service": config, "caBundle": bundle}

    await api.redefine(change)
    await api.listeners("a")
    url = f"https://hook.default.svc:{webhook.port}/x?timeout=20s"
    what = f"conversion webhook for {V1}, Kind=Listener failed: Post"
    assert (await api.get(path(V1BETA1, "a"))).error == (500, "", f'{what} "{url}": service "hook" not found')
    await api.made("/api/v1/namespaces/default/services", service)
    answer = await api.get(path(V1BETA1, "a"))
    assert "certificate is valid for localhost, not hook.default.svc" in answer.message
    assert webhook.calls == []


@wired
async def test_webhook_failures_do_not_change_the_definition_status(api, webhook):
    await api.listeners("a")
    before = (await api.get(f"{DEFINITIONS}/{NAME}")).json
    webhook.script = ill
    await api.get(path(V1BETA1, "a"))
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).json == before
