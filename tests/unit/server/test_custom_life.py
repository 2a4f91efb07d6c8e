"""The lifecycle of a CustomResourceDefinition: establishment, conflicting names, deletion of instances, recreation."""

import asyncio
import threading

import pytest

from api_client import JSON_PATCH, NS, SlowStorage, served
from custom_kinds import (
    CLEANUP,
    CRDS,
    WIDGET_CRD,
    WIDGETS,
    background_work,
    conditions,
    defined,
    definition,
    gone,
    redefined,
    version,
    widget,
)
from kapi.registry.kinds.apiextensions import validation

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
HELD = {"finalizers": ["example.com/hold"]}
PAGE = (404, "404 page not found\n")


async def page(api, path):
    answer = await api.get(path)
    return answer.status, answer.text


async def release(api, path):
    answer = await api.patch(path, {"metadata": {"finalizers": None}})
    assert answer.status == 200, answer


# -- beginning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["create", "update"])
def test_a_definition_is_validated_off_the_event_loop(monkeypatch, method):
    threads = []
    real = getattr(validation, f"{method}_errors")

    def recording(*arguments, **options):
        threads.append(threading.current_thread())
        return real(*arguments, **options)

    monkeypatch.setattr(validation, f"{method}_errors", recording)

    @served
    async def check(api):
        await defined(api, definition())
        await redefined(api, "widgets.example.com", lambda spec: spec["names"].update(shortNames=["w"]))
        assert threads
        assert threading.current_thread() not in threads

    check()


@served
async def test_a_kind_is_served_by_the_time_its_definition_is_acknowledged(api):
    assert await page(api, WIDGETS) == PAGE
    stored = await api.post(CRDS, definition())
    assert stored.status == 201
    assert conditions(stored.json) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert stored["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert stored["status"]["storedVersions"] == ["v1"]
    assert (await api.post(WIDGETS, widget(spec={"size": 1}))).status == 201
    assert (await api.get(WIDGETS)).names == ["w"]


@served
async def test_discovery_and_openapi_follow_a_definition(api):
    accept = {"accept": AGGREGATED}
    etags, indexes = [], []

    async def look():
        etags.append((await api.get("/apis", headers=accept)).header("ETag"))
        indexes.append((await api.get("/openapi/v3"))["paths"].get("apis/example.com/v1", {}).get("serverRelativeURL"))

    await look()
    await defined(api, definition())
    await look()
    assert (await api.get("/apis/example.com"))["preferredVersion"]["version"] == "v1"
    assert [one["name"] for one in (await api.get("/apis/example.com/v1"))["resources"]] == [
        "widgets",
        "widgets/status",
    ]
    await redefined(api, "widgets.example.com", lambda spec: spec["names"].update(shortNames=["wd"]))
    await look()
    assert (await api.get("/apis/example.com/v1"))["resources"][0]["shortNames"] == ["wd"]
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    await look()
    assert len(set(etags[:3])) == 3
    assert etags[3] == etags[0]
    assert indexes[0] is None
    assert None not in indexes[1:3]
    assert indexes[3] is None


@served
async def test_a_deleted_definition_is_removed_from_discovery_and_openapi(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget())
    answer = await api.delete(WIDGET_CRD)
    assert answer.status == 200
    assert answer.metadata["finalizers"] == [CLEANUP]
    assert conditions(answer.json)["Terminating"] == ("True", "InstanceDeletionPending")
    await gone(api, "widgets.example.com")
    assert await page(api, WIDGETS) == PAGE
    assert await page(api, f"{WIDGETS}/w") == PAGE
    assert await page(api, "/apis/example.com/v1") == PAGE
    assert await page(api, "/apis/example.com") == PAGE


@served
async def test_a_group_is_served_while_any_of_its_definitions_exists(api):
    await defined(api, definition(), definition("Gadget"))
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    assert (await api.get("/apis/example.com")).status == 200
    assert [one["name"] for one in (await api.get("/apis/example.com/v1"))["resources"]] == [
        "gadgets",
        "gadgets/status",
    ]


@served
async def test_a_dry_run_defines_nothing(api):
    answer = await api.post(CRDS, definition(), dryRun="All")
    assert answer.status == 201
    assert await page(api, WIDGETS) == PAGE
    await defined(api, definition())
    assert (await api.delete(WIDGET_CRD, dryRun="All")).status == 200
    await background_work()
    assert (await api.get(WIDGETS)).status == 200
    assert "deletionTimestamp" not in (await api.get(WIDGET_CRD)).metadata


# -- names ------------------------------------------------------------------------------------------------------------

RIVALS = [
    pytest.param(definition("Widget", plural="widgetz"), "ListKindConflict", id="kind"),
    pytest.param(definition("Gadget", singular="widget"), "SingularConflict", id="singular"),
    pytest.param(definition("Gadget", shortNames=["widgets"]), "ShortNamesConflict", id="short-name"),
    pytest.param(definition("Gadget", listKind="WidgetList"), "ListKindConflict", id="list-kind"),
]


@pytest.mark.parametrize(("rival", "reason"), RIVALS)
@served
async def test_a_definition_with_conflicting_names_is_established_once_they_are_free(api, rival, reason):
    await defined(api, definition())
    stored = await defined(api, rival)
    assert conditions(stored) == {"NamesAccepted": ("False", reason), "Established": ("False", "NotAccepted")}
    plural = rival["spec"]["names"]["plural"]
    kind = rival["spec"]["names"]["kind"]
    path = f"/apis/example.com/v1/namespaces/default/{plural}"
    assert (await api.get(path)).status == 404
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    await background_work()
    name = rival["metadata"]["name"]
    assert conditions((await api.get(f"{CRDS}/{name}")).json) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert (await api.post(path, widget(kind=kind))).status == 201


@served
async def test_the_same_names_in_another_group_are_no_conflict(api):
    await defined(api, definition(), definition(group="example.org"))
    assert conditions((await api.get(f"{CRDS}/widgets.example.org")).json)["Established"][0] == "True"
    await api.made(WIDGETS, widget())
    assert (await api.get("/apis/example.org/v1/namespaces/default/widgets")).names == []


@served(storage=SlowStorage)
async def test_of_two_concurrent_definitions_with_one_name_one_is_accepted(api):
    pair = [definition("Widget", plural="widgets"), definition("Widget", plural="widgetz")]
    answers = await asyncio.gather(*(api.post(CRDS, one) for one in pair))
    assert [answer.status for answer in answers] == [201, 201]
    established = [conditions(answer.json)["Established"][0] for answer in answers]
    assert sorted(established) == ["False", "True"]
    await background_work()
    served_now = [(await api.get(f"/apis/example.com/v1/{one['spec']['names']['plural']}")).status for one in pair]
    assert sorted(served_now) == [200, 404]


@served
async def test_a_name_released_by_one_definition_is_accepted_for_another(api):
    await defined(api, definition(shortNames=["wd"]), definition("Gadget", shortNames=["wd"]))
    await redefined(api, "widgets.example.com", lambda spec: spec["names"].update(shortNames=[]))
    await background_work()
    assert conditions((await api.get(f"{CRDS}/gadgets.example.com")).json)["NamesAccepted"][0] == "True"


@served
async def test_an_established_definition_keeps_its_accepted_names_while_new_ones_conflict(api):
    await defined(api, definition(shortNames=["wd"]), definition("Gadget", shortNames=["gd"]))
    changed = await redefined(api, "widgets.example.com", lambda spec: spec["names"].update(shortNames=["gd"]))
    assert conditions(changed)["NamesAccepted"] == ("False", "ShortNamesConflict")
    assert conditions(changed)["Established"][0] == "True"
    short_names = {one["name"]: one.get("shortNames") for one in (await api.get("/apis/example.com/v1"))["resources"]}
    assert short_names["widgets"] == ["wd"]
    assert (await api.post(WIDGETS, widget())).status == 201


# -- going ------------------------------------------------------------------------------------------------------------


@served
async def test_watchers_see_the_deletion_of_instances_of_a_deleted_definition(api):
    await defined(api, definition())
    for name in "ab":
        await api.made(WIDGETS, widget(name))
    watch = await api.watch(WIDGETS, resourceVersion=api.revision)
    await api.delete(WIDGET_CRD)
    events = await watch.rest()
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in events] == [("DELETED", "a"), ("DELETED", "b")]
    await gone(api, "widgets.example.com")


@served
async def test_instances_with_finalizers_delay_the_deletion_of_their_definition(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget("free"))
    await api.made(WIDGETS, widget("held", metadata=HELD))
    await api.delete(WIDGET_CRD)
    await background_work()
    going = (await api.get(WIDGET_CRD)).json
    assert conditions(going)["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert conditions(going)["Established"][0] == "True"
    listed = await api.get(WIDGETS)
    assert listed.names == ["held"]
    assert "deletionTimestamp" in listed["items"][0]["metadata"]
    await release(api, f"{WIDGETS}/held")
    await gone(api, "widgets.example.com")
    assert await page(api, WIDGETS) == PAGE


@served
async def test_a_terminating_definition_refuses_new_instances_and_serves_the_rest(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget("held", {"size": 1}, metadata=HELD))
    await api.delete(WIDGET_CRD)
    await background_work()
    refused = (403, "Forbidden")
    why = "create not allowed while custom resource definition is terminating"
    created = await api.post(WIDGETS, widget("new"))
    assert created.error == (*refused, f'widgets.example.com "new" is forbidden: {why}')
    applied = await api.patch(f"{WIDGETS}/new", widget("new"), "application/apply-patch+yaml", fieldManager="m")
    assert applied.error == (*refused, f'widgets.example.com "new" is forbidden: {why}')
    assert (await api.get(f"{WIDGETS}/held"))["spec"]["size"] == 1
    assert (await api.patch(f"{WIDGETS}/held", {"spec": {"size": 2}})).status == 200
    assert (await api.delete(f"{WIDGETS}/held")).status == 200
    watch = await api.watch(WIDGETS)
    assert await watch.brief(1) == [("ADDED", "held")]
    await release(api, f"{WIDGETS}/held")
    await gone(api, "widgets.example.com")


@served
async def test_deleting_a_definition_again_changes_nothing(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget("held", metadata=HELD))
    first = await api.delete(WIDGET_CRD)
    await background_work()
    again = await api.delete(WIDGET_CRD)
    assert again.status == 200
    assert again.metadata["deletionTimestamp"] == first.metadata["deletionTimestamp"]
    await release(api, f"{WIDGETS}/held")
    await gone(api, "widgets.example.com")


@pytest.mark.parametrize(
    ("preconditions", "text"),
    [
        ({"uid": "another"}, "Precondition failed: UID in precondition: another"),
        ({"resourceVersion": "1"}, "Precondition failed: ResourceVersion in precondition: 1"),
    ],
    ids=["uid", "version"],
)
@served
async def test_deleting_a_definition_honours_preconditions(api, preconditions, text):
    await defined(api, definition())
    answer = await api.delete(WIDGET_CRD, {"preconditions": preconditions})
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert text in answer.message
    assert "deletionTimestamp" not in (await api.get(WIDGET_CRD)).metadata


@served
async def test_a_definition_that_was_never_established_is_deleted_at_once(api):
    await defined(api, definition(), definition("Widget", plural="widgetz"))
    await api.made(WIDGETS, widget())
    await api.delete(f"{CRDS}/widgetz.example.com")
    await gone(api, "widgetz.example.com")
    assert (await api.get(WIDGETS)).names == ["w"]


@served
async def test_other_finalizers_keep_a_definition_without_instances(api):
    crd = definition()
    crd["metadata"]["finalizers"] = ["example.com/mine"]
    await defined(api, crd)
    await api.made(WIDGETS, widget())
    await api.delete(WIDGET_CRD)
    await background_work()
    left = (await api.get(WIDGET_CRD)).json
    assert left["metadata"]["finalizers"] == ["example.com/mine"]
    assert conditions(left)["Terminating"] == ("False", "InstanceDeletionCompleted")
    await api.patch(WIDGET_CRD, {"metadata": {"finalizers": None}})
    await gone(api, "widgets.example.com")
    assert await page(api, WIDGETS) == PAGE


@served(storage=SlowStorage)
async def test_an_instance_created_while_the_deletion_begins_does_not_outlive_its_definition(api):
    await defined(api, definition())
    answers = await asyncio.gather(
        *(api.post(WIDGETS, widget(f"w{number}")) for number in range(5)),
        api.delete(WIDGET_CRD),
        *(api.post(WIDGETS, widget(f"x{number}")) for number in range(5)),
    )
    assert {answer.status for answer in answers} <= {200, 201, 403, 404, 429}
    await gone(api, "widgets.example.com")
    await background_work()
    assert not len(api.catalog.hub.cache("/registry/example.com/widgets/"))


# -- again ------------------------------------------------------------------------------------------------------------


@served
async def test_a_recreated_definition_has_no_instances(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget())
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    await defined(api, definition(scope="Cluster"))
    assert (await api.get("/apis/example.com/v1/widgets")).names == []
    assert (await api.post("/apis/example.com/v1/widgets", widget())).status == 201
    assert (await api.get(WIDGETS)).status == 404


@served
async def test_a_watch_from_before_a_definition_was_recreated_is_410(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget())
    before = api.revision
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    await defined(api, definition())
    watch = await api.watch(WIDGETS, resourceVersion=before)
    (event,) = await watch.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@served
async def test_a_watch_from_after_a_definition_was_created_misses_nothing(api):
    stored = await defined(api, definition())
    await api.made(WIDGETS, widget())
    watch = await api.watch(WIDGETS, resourceVersion=stored["metadata"]["resourceVersion"])
    assert await watch.brief(1) == [("ADDED", "w")]


@served
async def test_instances_are_not_created_in_a_missing_or_terminating_namespace(api):
    await defined(api, definition())
    missing = await api.post("/apis/example.com/v1/namespaces/nowhere/widgets", widget())
    assert missing.error == (404, "NotFound", 'namespaces "nowhere" not found')
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made("/apis/example.com/v1/namespaces/other/widgets", widget())
    await api.delete(f"{NS}/other")
    refused = await api.post("/apis/example.com/v1/namespaces/other/widgets", widget("x"))
    assert refused.status == 403
    assert refused.message == (
        'widgets.example.com "x" is forbidden: unable to create new content in namespace other because it is being '
        "terminated"
    )
    assert (await api.delete("/apis/example.com/v1/namespaces/other/widgets")).status == 200


# -- who may change what ----------------------------------------------------------------------------------------------


@served
async def test_an_unserved_version_is_not_found_though_objects_may_be_stored_in_it(api):
    await defined(api, definition(versions=[version("v1", storage=True, served=False), version("v2")]))
    assert (await api.get(WIDGETS)).status == 404
    path = "/apis/example.com/v2/namespaces/default/widgets"
    await api.made(path, widget(api_version="example.com/v2", spec={"size": 1}))
    assert (await api.get(f"{path}/w"))["apiVersion"] == "example.com/v2"
    assert (await api.get("/apis/example.com"))["versions"] == [{"groupVersion": "example.com/v2", "version": "v2"}]


@served
async def test_a_patch_of_a_definition_takes_effect_at_once(api):
    await defined(api, definition())
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    assert (await api.patch(WIDGET_CRD, [{"op": "add", "path": path, "value": 3}], JSON_PATCH)).status == 200
    assert (await api.post(WIDGETS, widget("a", {"size": 4}))).status == 422
    assert (await api.post(WIDGETS, widget("b", {"size": 3}))).status == 201
