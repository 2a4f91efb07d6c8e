"""Owners and dependents of all sorts: with and without namespaces, custom, just defined, not served, no longer served."""

import pytest

from api_client import CM, NS, cm
from controller_api import with_controllers
from custom_kinds import (
    CRDS,
    WIDGET_CRD,
    WIDGETS,
    defined,
    definition,
    gone,
    redefined,
    version,
    widget,
)
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from owned_objects import blocking, metadata, names, owned, owners, reconciles, reference

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ELSEWHERE = CM.replace("default", "elsewhere")
GADGETS = "/apis/example.com/v1/gadgets"
CLUSTER_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}


def role(name, *references):
    return {**CLUSTER_ROLE, "metadata": {"name": name, "ownerReferences": list(references)}}


def of(name, *references, kind="Widget"):
    return widget(name, kind=kind, metadata={"ownerReferences": list(references)})


async def warnings(api, namespace):
    """The Events about objects: kind, name and note."""
    events = (await api.get(f"{NS}/{namespace}/events")).json["items"]
    return [
        (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["message"])
        for event in events
        if (event["type"], event["reason"]) == ("Warning", "OwnerRefInvalidNamespace")
    ]


# -- namespaces ---------------------------------------------------------------------------------------------------------


@with_controllers(add_garbage_collector)
async def test_a_cluster_scoped_owner_has_dependents_in_all_namespaces(api):
    await api.made(NS, {"metadata": {"name": "elsewhere"}})
    owner = await api.made(ROLES, role("owner"))
    await api.made(CM, owned("a", blocking({**CLUSTER_ROLE, **owner})))
    await api.made(ELSEWHERE, owned("b", blocking(owner)))
    await api.made(ROLES, role("c", reference(owner)))
    await api.run_until_idle()
    assert names(api) == {"a"}
    await api.delete(f"{ROLES}/owner", propagationPolicy="Foreground")
    await api.run_until_idle()
    assert names(api) == names(api, "elsewhere") == set()
    assert not {("", "owner"), ("", "c")} & api.there("clusterroles.rbac.authorization.k8s.io")


@with_controllers(add_garbage_collector)
async def test_an_owner_in_another_namespace_is_absent_and_recorded_as_an_event(api):
    await api.made(NS, {"metadata": {"name": "elsewhere"}})
    owner = await api.made(CM, cm("owner"))
    await api.made(ELSEWHERE, owned("child", reference(owner)))
    await api.run_until_idle()
    assert names(api, "elsewhere") == set()
    assert names(api) == {"owner"}
    uid = owner["metadata"]["uid"]
    note = (
        f"ownerRef [v1/ConfigMap, namespace: elsewhere, name: owner, uid: {uid}] "
        'does not exist in namespace "elsewhere"'
    )
    assert await warnings(api, "elsewhere") == [("ConfigMap", "child", note)]
    event = (await api.get(f"{NS}/elsewhere/events")).json["items"][0]
    assert event["reportingComponent"] == "garbage-collector-controller"
    assert "resourceVersion" not in event["involvedObject"]


@with_controllers(add_garbage_collector)
async def test_a_reference_to_another_namespace_is_removed_if_there_is_a_solid_owner(api):
    await api.made(NS, {"metadata": {"name": "elsewhere"}})
    there, here = await api.made(CM, cm("there")), await api.made(ELSEWHERE, cm("here"))
    await api.made(ELSEWHERE, owned("child", reference(there), reference(here)))
    await api.run_until_idle()
    assert owners(api, "child", "elsewhere") == ["here"]
    assert len(await warnings(api, "elsewhere")) == 1


@with_controllers(add_garbage_collector)
async def test_an_owner_that_is_in_no_namespace_is_not_recorded(api):
    owner = await api.made(CM, cm("owner"))
    await api.made(CM, owned("a", reference(owner) | {"uid": "absent"}))
    await api.made(CM, owned("b", reference(owner) | {"uid": "absent"}))
    await api.run_until_idle()
    assert names(api) == {"owner"}
    assert await warnings(api, "default") == []


@with_controllers(add_garbage_collector)
async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_kept(api):
    """In which namespace the owner is cannot be recorded, so the object is kept, whatever happens to the owner."""
    owner = await api.made(CM, cm("owner"))
    other = await api.made(ROLES, role("other"))
    await api.made(ROLES, role("lost", blocking(owner), reference(other)))
    await api.run_until_idle()
    await api.delete(f"{ROLES}/other")
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    await api.run_until_idle()
    resource = "clusterroles.rbac.authorization.k8s.io"
    assert owners(api, "lost", "", resource) == ["owner", "other"]
    assert metadata(api, "owner")["finalizers"] == ["foregroundDeletion"], "it blocks all the same"
    (recorded,) = set(await warnings(api, "default"))
    assert recorded[:2] == ("ClusterRole", "lost")
    assert recorded[2].endswith('does not exist in namespace ""')
    await api.delete(f"{CM}/owner", propagationPolicy="Orphan")
    await api.run_until_idle()
    assert names(api) == set()
    assert api.find(resource, "", "lost") is None, "without the one owner, the other is absent"


# -- custom kinds -------------------------------------------------------------------------------------------------------


@with_controllers(add_garbage_collector)
async def test_objects_of_a_kind_defined_a_moment_ago_are_collected(api):
    await defined(api, definition(), definition("Gadget", scope="Cluster"))
    gadget = await api.made(GADGETS, of("g", kind="Gadget"))
    child = await api.made(WIDGETS, of("w", blocking(gadget)))
    await api.made(CM, owned("c", blocking(child)))
    await api.delete(f"{GADGETS}/g", propagationPolicy="Foreground")
    await api.run_until_idle()
    assert api.there("widgets.example.com") == api.there("gadgets.example.com") == set()
    assert names(api) == set()


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Widget"), ("apps/v1", "Thing"), ("apps/v9", "Deployment")],
)
def test_dependents_of_kinds_that_are_not_served_are_kept(api_version, kind):
    @with_controllers(add_garbage_collector)
    async def check(api):
        strange = {"apiVersion": api_version, "kind": kind, "name": "w", "uid": "absent"}
        friend = await api.made(CM, cm("friend"))
        await api.made(CM, owned("a", strange))
        await api.made(CM, owned("b", strange, reference(friend) | {"uid": "gone"}))
        await api.made(CM, owned("c", strange, reference(friend), reference(friend) | {"name": "x", "uid": "gone"}))
        await api.run_until_idle()
        before, looked = api.revision, reconciles(api)
        await api.run_until_idle(7200)
        assert (api.revision, reconciles(api)) == (before, looked), "it is not polled"
        assert names(api) == {"friend", "a", "b", "c"}
        assert len(owners(api, "c")) == 3

    check()


@with_controllers(add_garbage_collector)
async def test_undecided_objects_are_reconciled_when_the_kind_is_served(api):
    strange = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "absent"}
    friend = await api.made(CM, cm("friend"))
    await api.made(CM, owned("lost", strange))
    await api.made(CM, owned("kept", strange, reference(friend)))
    await api.made(CM, owned("left", strange))
    await api.run_until_idle()
    await api.delete(f"{CM}/left")
    await defined(api, definition("Gadget"))
    await api.run_until_idle(1)
    assert names(api) == {"friend", "lost", "kept"}
    await defined(api, definition())
    await api.run_until_idle(1)
    assert names(api) == {"friend", "kept"}
    assert owners(api, "kept") == ["friend"]


def _serve(*served):
    """Have these versions of a definition served."""

    def change(spec):
        for one in spec["versions"]:
            one["served"] = one["name"] in served

    return change


@with_controllers(add_garbage_collector)
async def test_dependents_are_kept_while_the_version_of_their_owner_is_not_served(api):
    await defined(api, definition(versions=[version("v1", storage=True), version("v2")]))
    owner = await api.made(WIDGETS, of("w"))
    await redefined(api, "widgets.example.com", _serve("v2"))
    await api.made(CM, owned("by-v1", reference(owner)))
    await api.made(CM, owned("by-v2", reference(owner) | {"apiVersion": "example.com/v2"}))
    await api.run_until_idle()
    await redefined(api, "widgets.example.com", _serve("v1", "v2"))
    await api.run_until_idle()
    assert names(api) == {"by-v1", "by-v2"}
    await redefined(api, "widgets.example.com", _serve("v2"))
    await api.delete(WIDGETS.replace("v1", "v2") + "/w")
    await api.run_until_idle()
    assert names(api) == set(), "it was seen to go"


@with_controllers(add_garbage_collector)
async def test_dependents_of_a_deleted_kind_are_deleted(api):
    """When the dependents are reconciled, the kind of their owner is not served any more."""
    await defined(api, definition())
    owner = await api.made(WIDGETS, of("w"))
    for number in range(5):
        await api.made(CM, owned(f"c{number}", blocking(owner)))
    await api.delete(WIDGET_CRD)
    await gone(api, "widgets.example.com")
    await api.run_until_idle()
    assert names(api) == set()
    assert (await api.get(CRDS)).names == []


@with_controllers(add_garbage_collector)
async def test_dependents_of_an_unserved_kind_are_collected_when_it_is_served(api):
    await defined(api, definition(versions=[version("v1", storage=True)]))
    owner = await api.made(CM, cm("owner"))
    await api.made(WIDGETS, of("w", reference(owner)))
    await redefined(api, "widgets.example.com", _serve())
    await api.delete(f"{CM}/owner")
    await api.run_until_idle()
    looked = reconciles(api)
    await api.run_until_idle(7200)
    assert reconciles(api) == looked
    await redefined(api, "widgets.example.com", _serve("v1"))
    await api.run_until_idle(1)
    assert api.there("widgets.example.com") == set()
