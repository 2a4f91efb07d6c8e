"""Deleting objects through the whole server: at once, after finalizers, after grace; one by one and by the collection."""

import asyncio

import pytest

from api_client import CM, DEPLOY, NS, PODS, SVC, SlowStorage, cm, deployment, pod, served, serving
from kapi.api.errors import Forbidden
from kapi.server.admission.chain import Admission
from kapi.server.handlers.delete import AT_ONCE
from kapi.storage.memory import MemoryStorage
from virtual_time import run

NOW = "2026-01-01T00:00:00Z"


def _options(**fields):
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


async def _scheduled(api, name="p", **spec):
    """A pod that runs on a node, so that its deletion is graceful."""
    made = await api.made(PODS, pod(name, nodeName="n1", **spec))
    running = {**made, "status": {"phase": "Running"}}
    answer = await api.put(f"{PODS}/{name}/status", running)
    assert answer.status == 200
    return answer.json


@served
async def test_delete_is_answered_with_a_status(api):
    made = await api.made(CM, cm("a"))
    answer = await api.delete(f"{CM}/a")
    assert answer.status == 200
    details = {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    expected = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    assert answer.json == expected
    assert (await api.get(f"{CM}/a")).status == 404


@served
async def test_status_details_have_the_group(api):
    await api.made(DEPLOY, deployment("d"))
    assert (await api.delete(f"{DEPLOY}/d"))["details"]["group"] == "apps"


RETURNS_OBJECT = {
    "namespaces",
    "persistentvolumes",
    "persistentvolumeclaims",
    "pods",
    "podtemplates",
    "resourcequotas",
    "services",
    "serviceaccounts",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourceslices",
    "csidrivers",
    "csinodes",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
}


@served
async def test_some_kinds_return_the_deleted_object(api):
    await api.made(f"{NS}/default/serviceaccounts", {"metadata": {"name": "s"}})
    answer = await api.delete(f"{NS}/default/serviceaccounts/s")
    assert answer["kind"] == "ServiceAccount"
    for resource in api.catalog:
        if resource.store is not None:
            expected = resource.resource in RETURNS_OBJECT
            assert resource.store.strategy.returns_deleted_object is expected, resource.resource


@served
async def test_missing_object_is_not_found(api):
    answer = await api.delete(f"{CM}/a")
    assert answer.error == (404, "NotFound", 'configmaps "a" not found')


@served
async def test_deletion_increments_the_revision_and_is_watched(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    watch = await api.watch(CM, resourceVersion=made["metadata"]["resourceVersion"])
    await api.delete(f"{CM}/a")
    event = await watch.next()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["resourceVersion"] == str(api.revision)
    assert event["object"]["data"] == {"k": "v"}
    assert int(made["metadata"]["resourceVersion"]) < api.revision


@served
async def test_name_can_be_used_again_after_deletion(api):
    first = await api.made(CM, cm("a"))
    await api.delete(f"{CM}/a")
    assert (await api.made(CM, cm("a")))["metadata"]["uid"] != first["metadata"]["uid"]


# -- preconditions ----------------------------------------------------------------------------------------------------


@served
async def test_uid_precondition(api):
    made = await api.made(CM, cm("a"))
    uid = made["metadata"]["uid"]
    answer = await api.delete(f"{CM}/a", _options(preconditions={"uid": "x"}))
    assert answer.error == (
        409,
        "Conflict",
        (
            f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in '
            f"record ({uid}). The object might have been deleted and then recreated"
        ),
    )
    # The Kind, not the plural.
    assert answer["details"] == {"name": "a", "kind": "ConfigMap"}
    assert (await api.delete(f"{CM}/a", _options(preconditions={"uid": uid}))).status == 200


@served
async def test_version_precondition(api):
    made = await api.made(CM, cm("a"))
    version = made["metadata"]["resourceVersion"]
    answer = await api.delete(f"{CM}/a", _options(preconditions={"resourceVersion": "1"}))
    assert answer.error == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the '
            f"ResourceVersion in record ({version}). The object might have been modified"
        ),
    )
    assert (await api.delete(f"{CM}/a", _options(preconditions={"resourceVersion": version}))).status == 200


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"orphanDependents": True, "propagationPolicy": "Orphan"},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
        (
            {"propagationPolicy": "Foo"},
            (
                'propagationPolicy: Unsupported value: "Foo": '
                'supported values: "Foreground", "Background", "Orphan", "nil"'
            ),
        ),
        ({"dryRun": ["x"]}, 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
    ],
)
@served
async def test_bad_options_are_refused(api, options, why):
    await api.made(CM, cm("a"))
    answer = await api.delete(f"{CM}/a", _options(**options))
    assert answer.error == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {why}')
    assert (await api.get(f"{CM}/a")).status == 200


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"kind":"ConfigMap"}', b'{"kind":"DeleteOptions","gracePeriodSeconds":"x"}']
)
@served
async def test_body_must_be_delete_options(api, body):
    await api.made(CM, cm("a"))
    answer = await api.request("DELETE", f"{CM}/a", body, headers={"content-type": "application/json"})
    assert answer.error[:2] == (400, "BadRequest")
    assert (await api.get(f"{CM}/a")).status == 200


@served
async def test_delete_options_in_the_body_override_the_query(api):
    await api.made(CM, cm("a"))
    answer = await api.delete(f"{CM}/a", _options(), propagationPolicy="Orphan")
    assert answer["kind"] == "Status"
    assert (await api.get(f"{CM}/a")).status == 404


@pytest.mark.parametrize("text", ["abc", "+-5", "²", "1.5"])
@served
async def test_grace_period_of_the_query_must_be_a_number(api, text):
    await api.made(CM, cm("a"))
    answer = await api.delete(f"{CM}/a", gracePeriodSeconds=text)
    assert answer.error == (400, "BadRequest", f'strconv.ParseInt: parsing "{text}": invalid syntax')


@served
async def test_options_may_come_as_protobuf(api):
    await api.made(CM, cm("a"))
    # kind DeleteOptions, propagationPolicy (field 4) Orphan
    raw = b"\x22\x06Orphan"
    meta = b"\x0a\x02v1\x12\x0dDeleteOptions"
    body = b"k8s\x00" + b"\x0a" + bytes([len(meta)]) + meta + b"\x12" + bytes([len(raw)]) + raw
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    answer = await api.request("DELETE", f"{CM}/a", body, headers=headers)
    assert answer.status == 200
    assert answer.metadata["finalizers"] == ["orphan"]


@served
async def test_dry_run_deletes_nothing(api):
    await api.made(CM, cm("a"))
    await api.made(CM, cm("fin", metadata={"finalizers": ["x.io/f"]}))
    before = api.revision
    assert (await api.delete(f"{CM}/a", dryRun="All"))["status"] == "Success"
    assert (await api.delete(f"{CM}/a", _options(dryRun=["All"])))["status"] == "Success"
    assert "deletionTimestamp" in (await api.delete(f"{CM}/fin", dryRun="All")).metadata
    assert "deletionTimestamp" not in (await api.get(f"{CM}/fin")).metadata
    assert api.revision == before


# -- finalizers and propagation ---------------------------------------------------------------------------------------


@served
async def test_object_with_finalizers_gets_a_deletion_timestamp(api):
    made = await api.made(CM, cm("fin", metadata={"finalizers": ["x.io/f"]}))
    watch = await api.watch(CM, resourceVersion=made["metadata"]["resourceVersion"])
    answer = await api.delete(f"{CM}/fin")
    assert answer.status == 200
    assert answer["kind"] == "ConfigMap"
    assert answer.metadata["deletionTimestamp"] == NOW
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    assert (await watch.next())["type"] == "MODIFIED"
    assert (await api.get(f"{CM}/fin")).json == answer.json
    again = await api.post(CM, cm("fin"))
    assert again.error == (409, "AlreadyExists", 'object is being deleted: configmaps "fin" already exists')


@served
async def test_second_deletion_of_a_terminating_object_changes_nothing(api):
    await api.made(CM, cm("fin", metadata={"finalizers": ["x.io/f"]}))
    first = await api.delete(f"{CM}/fin")
    second = await api.delete(f"{CM}/fin")
    assert (second.status, second.json) == (200, first.json)


@served
async def test_first_deletion_increments_generation(api):
    obj = deployment("d")
    obj["metadata"]["finalizers"] = ["x.io/f"]
    await api.made(DEPLOY, obj)
    assert (await api.delete(f"{DEPLOY}/d")).metadata["generation"] == 2
    assert (await api.delete(f"{DEPLOY}/d")).metadata["generation"] == 2


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
@served
async def test_propagation_policy_becomes_a_finalizer(api, policy, finalizer):
    await api.made(CM, cm("b"))
    answer = await api.delete(f"{CM}/b", _options(propagationPolicy=policy))
    assert answer.status == 200
    assert answer.metadata["finalizers"] == [finalizer]
    assert answer.metadata["deletionTimestamp"] == NOW
    assert (await api.get(f"{CM}/b")).status == 200
    # An explicit other policy takes the place of the first one.
    assert (await api.delete(f"{CM}/b", propagationPolicy="Background"))["kind"] == "Status"


@pytest.mark.parametrize(("value", "code"), [("true", 200), ("false", 200)])
@served
async def test_orphan_dependents_option_is_honoured(api, value, code):
    await api.made(CM, cm("b"))
    answer = await api.delete(f"{CM}/b", orphanDependents=value)
    assert answer.status == code
    assert (await api.get(f"{CM}/b")).status == (200 if value == "true" else 404)


@served
async def test_orphan_dependents_makes_a_pending_deletion_202(api):
    await api.made(CM, cm("fin", metadata={"finalizers": ["x.io/f"]}))
    assert (await api.delete(f"{CM}/fin", _options(orphanDependents=False))).status == 202


@served
async def test_jobs_orphan_dependents_by_default(api):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    await api.made(path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    answer = await api.delete(f"{path}/j")
    assert "orphan" in answer.metadata["finalizers"]
    assert (await api.delete(f"{path}/j", propagationPolicy="Background")).status == 200


@served
async def test_existing_garbage_collection_finalizer_is_kept_without_a_policy(api):
    await api.made(CM, cm("b", metadata={"finalizers": ["orphan"]}))
    assert (await api.delete(f"{CM}/b")).metadata["finalizers"] == ["orphan"]


# -- grace ------------------------------------------------------------------------------------------------------------


@served
async def test_unscheduled_pod_is_deleted_at_once(api):
    await api.made(PODS, pod("p"))
    answer = await api.delete(f"{PODS}/p")
    assert answer.status == 200
    assert answer["kind"] == "Pod"
    assert answer.metadata["deletionTimestamp"] == NOW
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    assert answer.metadata["generation"] == 2
    assert (await api.get(f"{PODS}/p")).status == 404


@pytest.mark.parametrize("state", ["unscheduled", "running", "finished"])
@served
async def test_watchers_of_a_pod_that_is_deleted_at_once_see_the_mark_before_the_deletion(api, state):
    made = await api.made(PODS, pod("p")) if state == "unscheduled" else await _scheduled(api)
    if state == "finished":
        made = (await api.put(f"{PODS}/p/status", {**made, "status": {"phase": "Succeeded"}})).json
    watch = await api.watch(PODS, resourceVersion=api.revision)
    query = {"gracePeriodSeconds": 0} if state == "running" else {}
    answer = await api.delete(f"{PODS}/p", **query)
    marked, deleted = await watch.take(2)
    assert (marked["type"], deleted["type"]) == ("MODIFIED", "DELETED")
    metadata = marked["object"]["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (NOW, 0)
    assert metadata["generation"] == made["metadata"]["generation"] + 1
    last = deleted["object"]["metadata"]
    assert int(last["resourceVersion"]) == int(metadata["resourceVersion"]) + 1
    assert {**last, "resourceVersion": ""} == {**metadata, "resourceVersion": ""}
    assert answer.json == deleted["object"]


@served
async def test_pod_that_is_marked_is_deleted_though_the_request_was_cancelled(api):
    await api.made(PODS, pod("p"))
    storage, marked = api.catalog.storage, asyncio.Event()
    put = storage.put

    async def slow(*arguments):
        revision = await put(*arguments)
        marked.set()
        await asyncio.sleep(1)
        return revision

    storage.put = slow
    request = asyncio.ensure_future(api.delete(f"{PODS}/p"))
    await marked.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert (await api.get(f"{PODS}/p")).status == 200
    await asyncio.sleep(2)
    assert (await api.get(f"{PODS}/p")).status == 404


@served
async def test_running_pod_is_deleted_after_its_grace_period(api):
    await _scheduled(api, terminationGracePeriodSeconds=40)
    answer = await api.delete(f"{PODS}/p")
    assert answer.status == 200
    assert answer.metadata["deletionGracePeriodSeconds"] == 40
    assert answer.metadata["deletionTimestamp"] == "2026-01-01T00:00:40Z"
    assert answer.metadata["generation"] == 2
    assert (await api.get(f"{PODS}/p")).json == answer.json


@served
async def test_requested_grace_period_is_used(api):
    await _scheduled(api)
    answer = await api.delete(f"{PODS}/p", gracePeriodSeconds=5)
    assert answer.metadata["deletionGracePeriodSeconds"] == 5


@served
async def test_second_deletion_can_only_shorten_the_grace_period(api):
    await _scheduled(api)
    first = await api.delete(f"{PODS}/p")
    for query in ({}, {"gracePeriodSeconds": 30}, {"gracePeriodSeconds": 100}):
        again = await api.delete(f"{PODS}/p", **query)
        assert (again.status, again.json) == (200, first.json)
    shorter = await api.delete(f"{PODS}/p", gracePeriodSeconds=10)
    assert shorter.metadata["deletionGracePeriodSeconds"] == 10
    assert shorter.metadata["deletionTimestamp"] == "2026-01-01T00:00:10Z"
    assert shorter.metadata["generation"] == 2


@served
async def test_grace_period_of_zero_deletes_at_once(api):
    await _scheduled(api)
    await api.delete(f"{PODS}/p")
    answer = await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
    assert answer.status == 200
    assert (await api.get(f"{PODS}/p")).status == 404


@served
async def test_negative_grace_period_means_one_second(api):
    await _scheduled(api)
    assert (await api.delete(f"{PODS}/p", gracePeriodSeconds=-5)).metadata["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@served
async def test_finished_pod_is_deleted_at_once(api, phase):
    running = await _scheduled(api)
    await api.put(f"{PODS}/p/status", {**running, "status": {"phase": phase}})
    await api.delete(f"{PODS}/p")
    assert (await api.get(f"{PODS}/p")).status == 404


@served
async def test_pod_with_finalizers_waits_for_both(api):
    await api.made(PODS, pod("p", metadata={"finalizers": ["x.io/f"]}, nodeName="n1"))
    await api.delete(f"{PODS}/p")
    answer = await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/p")).status == 200
    answer = await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert answer.status == 200
    assert (await api.get(f"{PODS}/p")).status == 404


@served
async def test_removing_finalizers_first_keeps_the_grace_period(api):
    await api.made(PODS, pod("p", metadata={"finalizers": ["x.io/f"]}, nodeName="n1"))
    await api.delete(f"{PODS}/p")
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{PODS}/p")).status == 200
    assert (await api.delete(f"{PODS}/p", gracePeriodSeconds=0)).status == 200
    assert (await api.get(f"{PODS}/p")).status == 404


@served
async def test_grace_period_is_ignored_by_other_kinds(api):
    await api.made(CM, cm("a"))
    assert (await api.delete(f"{CM}/a", gracePeriodSeconds=30))["kind"] == "Status"
    assert (await api.get(f"{CM}/a")).status == 404


# -- collections ------------------------------------------------------------------------------------------------------


async def _five(api):
    for index in range(5):
        labels = {"odd": "yes" if index % 2 else "no"}
        await api.made(CM, cm(f"c{index}", metadata={"labels": labels}))
    await api.made(f"{NS}/kube-system/configmaps", cm("other"))


@served
async def test_deletecollection_returns_the_deleted_objects(api):
    await _five(api)
    answer = await api.delete(CM)
    assert answer.status == 200
    assert answer["kind"] == "ConfigMapList"
    assert answer.names == ["c0", "c1", "c2", "c3", "c4"]
    assert all("deletionTimestamp" not in item["metadata"] for item in answer["items"])
    assert (await api.get(CM)).names == []
    # Nothing outside the namespace was touched.
    assert (await api.get(f"{NS}/kube-system/configmaps")).names == ["other"]


@served
async def test_deletecollection_honours_selectors(api):
    await _five(api)
    assert (await api.delete(CM, labelSelector="odd=maybe"))["items"] == []
    assert (await api.delete(CM, labelSelector="odd=yes")).names == ["c1", "c3"]
    assert (await api.delete(CM, fieldSelector="metadata.name=c0")).names == ["c0"]
    assert (await api.get(CM)).names == ["c2", "c4"]


@served
async def test_deletecollection_can_be_a_dry_run(api):
    await _five(api)
    before = api.revision
    assert len((await api.delete(CM, dryRun="All"))["items"]) == 5
    assert len((await api.get(CM))["items"]) == 5
    assert api.revision == before


@served
async def test_deletecollection_applies_its_delete_options(api):
    await _five(api)
    await api.delete(CM, _options(propagationPolicy="Orphan"), labelSelector="odd=yes")
    marked = [item["metadata"] for item in (await api.get(CM))["items"] if "finalizers" in item["metadata"]]
    assert [(meta["name"], meta["finalizers"]) for meta in marked] == [("c1", ["orphan"]), ("c3", ["orphan"])]


@served
async def test_deletecollection_refuses_bad_selectors_before_deleting(api):
    await _five(api)
    for query in ({"labelSelector": "a in ("}, {"fieldSelector": "data.k=v"}, {"resourceVersionMatch": "Exact"}):
        assert (await api.delete(CM, **query)).status in (400, 422)
    assert len((await api.get(CM))["items"]) == 5


@served
async def test_deletecollection_needs_a_namespace(api):
    answer = await api.delete("/api/v1/configmaps")
    assert answer.error[0] == 405


@served
async def test_deletecollection_of_pods_is_graceful(api):
    await _scheduled(api, "p1")
    await api.made(PODS, pod("p2"))
    await api.delete(PODS)
    left = await api.get(PODS)
    assert left.names == ["p1"]
    assert left["items"][0]["metadata"]["deletionGracePeriodSeconds"] == 30


class Guard:
    """A validating plugin that refuses to delete the objects named in `guarded`."""

    def __init__(self, *guarded):
        self.guarded = guarded
        self.asked = []

    def handles(self, operation, _resource, _subresource):
        return operation == "DELETE"

    async def validate(self, write, obj, old):
        self.asked.append((write.namespace, write.name, old["metadata"]["namespace"]))
        await asyncio.sleep(0)
        if write.name in self.guarded:
            raise Forbidden.of(write.resource.group_resource, write.name, "it is guarded")


def _guarded(guard, test):
    async def main():
        storage = SlowStorage()
        async with serving(storage) as api:
            for number in range(300):
                await api.made(CM, cm(f"c{number:03}"))
        async with serving(storage, admission=Admission({"Guard": guard})) as api:
            await test(api)

    run(main())


def test_deletecollection_stops_at_a_failure_and_returns_the_first():
    guard = Guard("c007", "c011")

    async def check(api):
        answer = await api.delete(CM)
        assert answer.error == (403, "Forbidden", 'configmaps "c007" is forbidden: it is guarded')
        left = (await api.get(CM)).names
        assert {"c007", "c011"} <= set(left)
        assert left[-1] == "c299"
        assert len(left) >= 300 - AT_ONCE
        assert not {"c000", "c006"} & set(left)

    _guarded(guard, check)


def test_deletecollection_runs_admission_for_each_object():
    guard = Guard()

    async def check(api):
        assert (await api.delete(CM)).names == [f"c{number:03}" for number in range(300)]
        assert (await api.get(CM)).names == []
        assert sorted(guard.asked) == [("default", f"c{number:03}", "default") for number in range(300)]

    _guarded(guard, check)


def test_concurrent_deletecollections_do_not_fail():
    async def check(api):
        answers = await asyncio.gather(*(api.delete(CM) for _ in range(3)))
        assert [answer.status for answer in answers] == [200] * 3
        assert (await api.get(CM)).names == []

    _guarded(Guard(), check)


class Counting(MemoryStorage):
    """A store that notes how many deletions wait for it at a time."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0

    async def delete(self, key, expected, note=None):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return await super().delete(key, expected, note)


def test_deletecollection_has_a_bounded_number_of_commits_in_flight():
    async def main():
        storage = Counting()
        async with serving(storage) as api:
            for number in range(300):
                await api.made(CM, cm(f"c{number:03}"))
            await api.delete(CM)
            assert storage.most == AT_ONCE

    run(main())


@served
async def test_deleting_a_service_answers_with_it(api):
    await api.made(SVC, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    answer = await api.delete(f"{SVC}/s")
    assert (answer["kind"], answer.metadata["name"]) == ("Service", "s")
