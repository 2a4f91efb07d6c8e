"""The view of the watch caches that controllers read."""

from api_client import CM, NS, cm
from controller_api import with_controllers
from kapi.api.meta import GroupResource
from kapi.controlplane.controllers.view import CacheView
from owned_objects import owned, reference

CONFIG_MAPS = "/registry/core/configmaps/"


def test_the_view_has_each_stored_resource_once():
    @with_controllers()
    async def check(api):
        view = CacheView(api.catalog)
        names = [resource.group_resource for resource in view.resources()]
        assert len(names) == len(set(names))
        assert GroupResource("", "events") in names
        assert GroupResource("events.k8s.io", "events") not in names
        assert GroupResource("authorization.k8s.io", "subjectaccessreviews") not in names
        assert view.of_kind("apps/v1", "Deployment").resource == "deployments"
        assert view.of_kind("apps/v1beta1", "Deployment") is None
        assert view.resource_at("/registry/core/pods/default/p").kind == "Pod"

    check()


@with_controllers()
async def test_objects_are_found_by_key_by_name_and_below_a_prefix(api):
    view = CacheView(api.catalog)
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(CM, cm("a"))
    await api.made(f"{NS}/other/configmaps", cm("b"))
    assert view.prefix("configmaps") == CONFIG_MAPS
    assert view.at(f"{CONFIG_MAPS}default/a") is view.find("configmaps", "default", "a")
    assert view.at(f"{CONFIG_MAPS}default/b") is None
    assert view.get("configmaps", "other", "b")["metadata"]["name"] == "b"
    assert [item.name for item in view.items("configmaps")] == ["a", "b"]
    assert [item.name for item in view.items("configmaps", "other")] == ["b"]
    assert [item.name for item in view.below(f"{CONFIG_MAPS}default/")] == ["a"]
    assert (view.count(CONFIG_MAPS), view.count(f"{CONFIG_MAPS}other/"), view.count(f"{CONFIG_MAPS}no/")) == (2, 1, 0)
    assert list(view.namespaces_of(CONFIG_MAPS)) == ["default", "other"]
    assert CONFIG_MAPS in view.prefixes()


@with_controllers()
async def test_dependents_are_found_by_the_uid_of_their_owner(api):
    view = CacheView(api.catalog)
    owner = await api.made(CM, cm("owner"))
    assert not view.has_owners
    await api.made(CM, owned("child", reference(owner)))
    assert view.has_owners
    assert view.dependents(owner["metadata"]["uid"]) == [f"{CONFIG_MAPS}default/child"]


@with_controllers()
async def test_a_subscription_delivers_changes_until_it_is_cancelled(api):
    view, one, every = CacheView(api.catalog), [], []
    cancel_one = view.subscribe(CONFIG_MAPS, lambda events: one.extend(event.item.name for event in events))
    cancel_all = view.subscribe_all(lambda prefix, events: every.extend((prefix, event.item.name) for event in events))
    await api.made(CM, cm("a"))
    await api.made(NS, {"metadata": {"name": "other"}})
    assert one == ["a"]
    assert every == [(CONFIG_MAPS, "a"), ("/registry/core/namespaces/", "other")]
    cancel_one()
    cancel_all()
    await api.made(CM, cm("b"))
    assert (len(one), len(every)) == (1, 2)
