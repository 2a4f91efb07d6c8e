"""The dependency tracker: which objects a commit enqueues, and what it does not decode within the commit."""

import pytest

from api_client import CM, NS, cm, served
from custom_kinds import defined, definition
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.garbagecollector import references
from kapi.controlplane.controllers.garbagecollector import tracker as module
from kapi.controlplane.controllers.garbagecollector.metadata import metadata_of
from kapi.controlplane.controllers.garbagecollector.references import UnservedKind
from kapi.controlplane.controllers.garbagecollector.tracker import DependencyTracker
from kapi.controlplane.controllers.view import CacheView
from owned_objects import blocking, chain, owned, reference


class Recorder:
    """Records the requests that a tracker returns for commits."""

    def __init__(self, api):
        self.tracker = DependencyTracker(CacheView(api.catalog))
        self._requests = []
        self.tracker._view.subscribe_all(self._take)

    def _take(self, prefix, events):
        for event in events:
            self._requests += self.tracker.enqueue(prefix, event)

    @property
    def enqueued(self):
        """The names in the requests since the last time."""
        names, self._requests = [request.name.removeprefix("configmaps/") for request in self._requests], []
        return names


@pytest.fixture
def decoded(monkeypatch):
    """The names of objects that were decoded, in order."""
    seen = []

    def counting(item):
        seen.append(item.name)
        return metadata_of(item)

    monkeypatch.setattr(module, "metadata_of", counting)
    monkeypatch.setattr(references, "metadata_of", counting)
    return seen


def test_objects_without_owners_or_dependents_are_not_decoded(decoded):
    @served
    async def check(api):
        recorder = Recorder(api)
        await chain(api, "owner", "child")
        decoded.clear()
        await api.made(CM, cm("plain"))
        await api.patch(f"{CM}/plain", {"data": {"a": "b"}})
        await api.delete(f"{CM}/plain")
        assert recorder.enqueued == decoded == []

    check()


def test_a_dependent_is_decoded_once_and_when_its_references_change(decoded):
    @served
    async def check(api):
        recorder = Recorder(api)
        owner, _ = await chain(api, "owner", "child")
        assert decoded == ["child"]
        for number in range(3):
            await api.patch(f"{CM}/child", {"data": {"n": str(number)}})
        assert decoded == ["child"]
        await api.patch(f"{CM}/child", {"metadata": {"ownerReferences": [reference(owner)]}})
        assert decoded == ["child", "child"]
        assert recorder.enqueued == []

    check()


def test_the_dependents_of_a_deleted_owner_are_enqueued_without_being_decoded(decoded):
    @served
    async def check(api):
        recorder = Recorder(api)
        (owner,) = await chain(api, "owner")
        for number in range(20):
            await api.made(CM, owned(f"c{number}", blocking(owner)))
        decoded.clear()
        await api.delete(f"{CM}/owner")
        assert recorder.enqueued == [f"c{number}" for number in range(20)]
        assert decoded == []

    check()


@served
async def test_a_waiting_owner_is_enqueued_only_for_its_blocker(api):
    recorder = Recorder(api)
    (owner,) = await chain(api, "owner")
    for name in ("a", "b", "c"):
        await api.made(CM, owned(name, blocking(owner)))
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    assert recorder.enqueued == ["owner", "a", "b", "c"]
    await api.patch(f"{CM}/owner", {"data": {"a": "b"}})
    assert recorder.enqueued == []
    waiting = recorder.tracker.waiting_owners[owner["metadata"]["uid"]]
    await api.delete(f"{CM}/a")
    assert recorder.enqueued == ["owner"], "it has not been reconciled yet"
    waiting.blocker = waiting.key.replace("owner", "c")
    await api.delete(f"{CM}/b")
    assert recorder.enqueued == []
    await api.delete(f"{CM}/c")
    assert recorder.enqueued == ["owner"]
    await api.patch(f"{CM}/owner", {"metadata": {"finalizers": None}})
    assert (recorder.enqueued, recorder.tracker.waiting_owners) == ([], {})


@served
async def test_a_waiting_owner_is_dropped_when_it_is_deleted(api):
    recorder = Recorder(api)
    await chain(api, "owner")
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    assert recorder.enqueued == ["owner"]
    await api.patch(f"{CM}/owner", {"metadata": {"finalizers": None}})
    assert recorder.tracker.waiting_owners == {}


def test_only_deleted_owners_with_dependents_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "MIN_DELETED", 3)

    @served
    async def check(api):
        recorder = Recorder(api)
        uids = []
        for number in range(20):
            owner, _ = await chain(api, f"o{number}", f"c{number}")
            uids.append(owner["metadata"]["uid"])
            await api.delete(f"{CM}/o{number}")
            if number % 5:
                await api.delete(f"{CM}/c{number}")
        remembered = recorder.tracker._deleted
        assert {uids[number] for number in (0, 5, 10, 15)} <= remembered.keys()
        assert len(remembered) < 12

    check()


@served
async def test_an_undecided_object_is_enqueued_when_its_kind_is_served_and_dropped_when_deleted(api):
    recorder = Recorder(api)
    strange = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
    for name in ("a", "b"):
        await api.made(CM, owned(name, strange))
        key = f"/registry/core/configmaps/default/{name}"
        recorder.tracker.enqueue_when_served(
            key, [UnservedKind("example.com/v1", "Widget"), UnservedKind("example.com/v1", "Never")]
        )
    assert recorder.enqueued == ["a", "b"]
    await api.delete(f"{CM}/b")
    await defined(api, definition("Gadget"))
    assert recorder.enqueued == []
    await defined(api, definition())
    assert recorder.enqueued == ["a"]
    await api.delete(f"{CM}/a")
    assert not recorder.tracker._undecided


@served
async def test_requests_name_resource_group_and_namespace(api):
    await api.made(NS, {"metadata": {"name": "elsewhere"}})
    tracker = DependencyTracker(CacheView(api.catalog))
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "w", "uid": "u"}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    metadata = {"name": "r", "ownerReferences": [lost]}
    await api.made(f"{roles}/namespaces/elsewhere/roles", {"metadata": metadata, "rules": []})
    await api.made(f"{roles}/clusterroles", {"metadata": metadata, "rules": []})
    assert set(tracker.initial()) == {
        Request("elsewhere", "roles.rbac.authorization.k8s.io/r"),
        Request("", "clusterroles.rbac.authorization.k8s.io/r"),
    }
