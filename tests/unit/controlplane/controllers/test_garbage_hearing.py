"""What the collector makes of commits, and what it does not do while others wait for theirs."""

import pytest

from api_client import CM, NS, cm, served
from custom_kinds import defined, definition
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.garbagecollector import hearing as module
from kapi.controlplane.controllers.garbagecollector import judgement
from kapi.controlplane.controllers.garbagecollector.hearing import Hearing
from kapi.controlplane.controllers.garbagecollector.judgement import Unserved
from kapi.controlplane.controllers.garbagecollector.metadata import metadata_of
from kapi.controlplane.controllers.inventory import Inventory
from owned_objects import blocking, chain, owned, reference


class Ear:
    """Hears with the collector's ears and keeps what it made of it."""

    def __init__(self, api):
        self.hearing = Hearing(Inventory(api.catalog))
        self._heard = []
        api.catalog.hub.listeners.append(self._listen)

    def _listen(self, cache, events):
        for event in events:
            self._heard += self.hearing.hear(cache, event)

    @property
    def heard(self):
        """The names in the requests since the last time."""
        names, self._heard = [request.name.removeprefix("configmaps/") for request in self._heard], []
        return names


@pytest.fixture
def decoded(monkeypatch):
    """The names of objects that were decoded, in order."""
    seen = []

    def counting(item):
        seen.append(item.name)
        return metadata_of(item)

    monkeypatch.setattr(module, "metadata_of", counting)
    monkeypatch.setattr(judgement, "metadata_of", counting)
    return seen


def test_what_neither_owns_nor_is_owned_is_not_even_decoded(decoded):
    @served
    async def check(api):
        ear = Ear(api)
        await chain(api, "somebody", "else")
        decoded.clear()
        await api.made(CM, cm("plain"))
        await api.patch(f"{CM}/plain", {"data": {"a": "b"}})
        await api.delete(f"{CM}/plain")
        assert ear.heard == decoded == []

    check()


def test_what_has_its_owner_is_looked_at_once_and_when_it_says_something_new(decoded):
    @served
    async def check(api):
        ear = Ear(api)
        owner, _ = await chain(api, "owner", "child")
        assert decoded == ["child"]
        for number in range(3):
            await api.patch(f"{CM}/child", {"data": {"n": str(number)}})
        assert decoded == ["child"]
        await api.patch(f"{CM}/child", {"metadata": {"ownerReferences": [reference(owner)]}})
        assert decoded == ["child", "child"]
        assert ear.heard == []

    check()


def test_the_dependents_of_what_goes_are_named_without_being_read(decoded):
    @served
    async def check(api):
        ear = Ear(api)
        (owner,) = await chain(api, "owner")
        for number in range(20):
            await api.made(CM, owned(f"c{number}", blocking(owner)))
        decoded.clear()
        await api.delete(f"{CM}/owner")
        assert ear.heard == [f"c{number}" for number in range(20)]
        assert decoded == []

    check()


@served
async def test_an_owner_that_waits_hears_only_of_the_one_it_is_known_to_wait_for(api):
    ear = Ear(api)
    (owner,) = await chain(api, "owner")
    for name in ("a", "b", "c"):
        await api.made(CM, owned(name, blocking(owner)))
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    assert ear.heard == ["owner", "a", "b", "c"]
    await api.patch(f"{CM}/owner", {"data": {"a": "b"}})
    assert ear.heard == []
    waiting = ear.hearing.emptying[owner["metadata"]["uid"]]
    await api.delete(f"{CM}/a")
    assert ear.heard == ["owner"], "nobody has looked yet"
    waiting.blocker = waiting.key.replace("owner", "c")
    await api.delete(f"{CM}/b")
    assert ear.heard == []
    await api.delete(f"{CM}/c")
    assert ear.heard == ["owner"]
    await api.patch(f"{CM}/owner", {"metadata": {"finalizers": None}})
    assert (ear.heard, ear.hearing.emptying) == ([], {})


@served
async def test_an_owner_without_dependents_is_forgotten_when_it_goes(api):
    ear = Ear(api)
    await chain(api, "owner")
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    assert ear.heard == ["owner"]
    await api.patch(f"{CM}/owner", {"metadata": {"finalizers": None}})
    assert ear.hearing.emptying == {}


def test_of_owners_that_are_gone_only_those_are_remembered_whom_somebody_names(monkeypatch):
    monkeypatch.setattr(module, "FEW_GONE", 3)

    @served
    async def check(api):
        ear = Ear(api)
        uids = []
        for number in range(20):
            owner, _ = await chain(api, f"o{number}", f"c{number}")
            uids.append(owner["metadata"]["uid"])
            await api.delete(f"{CM}/o{number}")
            if number % 5:
                await api.delete(f"{CM}/c{number}")
        remembered = ear.hearing._gone
        assert {uids[number] for number in (0, 5, 10, 15)} <= remembered.keys()
        assert len(remembered) < 12

    check()


@served
async def test_whoever_waits_for_a_kind_waits_for_no_other_and_not_beyond_its_end(api):
    ear = Ear(api)
    strange = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
    for name in ("a", "b"):
        await api.made(CM, owned(name, strange))
        key = f"/registry/core/configmaps/default/{name}"
        ear.hearing.park(key, [Unserved("example.com/v1", "Widget"), Unserved("example.com/v1", "Never")])
    assert ear.heard == ["a", "b"]
    await api.delete(f"{CM}/b")
    await defined(api, definition("Gadget"))
    assert ear.heard == []
    await defined(api, definition())
    assert ear.heard == ["a"]
    await api.delete(f"{CM}/a")
    assert not ear.hearing._parked


@served
async def test_requests_say_where_an_object_is(api):
    await api.made(NS, {"metadata": {"name": "elsewhere"}})
    hearing = Hearing(Inventory(api.catalog))
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "w", "uid": "u"}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    metadata = {"name": "r", "ownerReferences": [lost]}
    await api.made(f"{roles}/namespaces/elsewhere/roles", {"metadata": metadata, "rules": []})
    await api.made(f"{roles}/clusterroles", {"metadata": metadata, "rules": []})
    assert set(hearing.initial()) == {
        Request("elsewhere", "roles.rbac.authorization.k8s.io/r"),
        Request("", "clusterroles.rbac.authorization.k8s.io/r"),
    }
