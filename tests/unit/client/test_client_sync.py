"""The client without `await`."""

import asyncio
import itertools
import threading
import warnings

import pytest

from kapi.api.access import name_of
from kapi.api.builtin.apps_v1 import Deployment
from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Pod
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.errors import Conflict, NotFound
from kapi.client import DELETED, ClientConfig, ConnectError, SyncClient

_number = itertools.count()


@pytest.fixture
def client(admin):
    namespace = f"sync-{next(_number)}"
    with SyncClient(admin, namespace=namespace, field_manager="tests") as client:
        client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        yield client


def cm(name="a", **data):
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def test_objects_are_created_read_changed_and_deleted(client):
    made = client.create(cm(k="1"))
    assert isinstance(made, ConfigMap)
    assert client.get(ConfigMap, "a") == made
    made.data["k"] = "2"
    assert client.update(made).data == {"k": "2"}
    assert client.patch(made, {"data": {"l": "3"}}).data == {"k": "2", "l": "3"}
    applied = client.apply(cm("b", x="1"))
    assert applied.data == {"x": "1"}
    assert sorted(name_of(each) for each in client.list(ConfigMap, fields="metadata.name!=kube-root-ca.crt")) == [
        "a",
        "b",
    ]
    assert client.delete(made) is None
    client.delete_all(ConfigMap)
    with pytest.raises(NotFound):
        client.get("configmaps", "b")


def test_status_and_scale(client):
    labels = {"app": "a"}
    pod = {"containers": [{"name": "c", "image": "i"}]}
    made = client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        }
    )
    assert client.scale(Deployment, "a", 3).spec.replicas == 3
    assert client.get_scale(Deployment, "a").spec.replicas == 3
    assert client.patch_status(made, {"status": {"replicas": 1}})["status"]["replicas"] == 1
    current = client.get(Deployment, "a")
    current.status.replicas = 2
    assert client.update_status(current).status.replicas == 2


def test_pages_come_one_after_the_other(client):
    for name in "abc":
        client.create(cm(name))
    assert [len(page) for page in client.pages(ConfigMap, limit=2, labels="!x")] in ([2, 1], [2, 2])
    # Leaving in the middle leaves nothing behind.
    assert len(next(iter(client.pages(ConfigMap, limit=1)))) == 1


def test_watch_is_a_loop(client):
    version = client.list(ConfigMap).resource_version
    with client.watch(ConfigMap, resource_version=version) as events:
        client.create(cm())
        client.delete(ConfigMap, "a")
        seen = [next(events) for _ in range(2)]
    assert [(event.type, name_of(event.object)) for event in seen] == [("ADDED", "a"), ("DELETED", "a")]
    with client.watch(ConfigMap, resource_version=version, timeout_seconds=1) as events:
        assert len(list(events)) == 2


def test_waiting_waits(client):
    threading.Thread(target=client.create, args=(cm(),)).start()
    assert client.wait_for(ConfigMap, "a", lambda _: True).data is None
    client.delete(ConfigMap, "a")
    assert client.wait_for(ConfigMap, "a", DELETED) is None


def test_conflicts_are_tried_again(client):
    client.create(cm(k="0"))
    stale = [client.get(ConfigMap, "a"), client.get(ConfigMap, "a")]
    client.patch(ConfigMap, {"data": {"k": "1"}}, name="a")

    def change():
        current = stale.pop() if stale else client.get(ConfigMap, "a")
        current.data["k"] += "x"
        return client.update(current)

    assert client.retry_on_conflict(change).data == {"k": "1x"}
    stale.append(cm())
    stale[0].metadata.resource_version = "1"
    stale[0].data = {"k": ""}
    with pytest.raises(Conflict):
        client.retry_on_conflict(change, tries=1)


def test_running_loop_is_not_blocked(client):
    async def main():
        with pytest.raises(RuntimeError, match=r"would block the event loop .* use kapi\.client\.Client instead"):
            client.get(ConfigMap, "a")
        with pytest.raises(RuntimeError, match="would block"):
            client.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


def test_closed_client_says_so_and_its_thread_is_gone(admin):
    before = threading.active_count()
    with SyncClient(admin) as client:
        client.list(Pod)
        assert threading.active_count() > before
    client.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.list(Pod)


def test_several_threads_share_one_client(client):
    threads = [threading.Thread(target=client.create, args=(cm(f"c{index}"),)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([each for each in client.list(ConfigMap) if name_of(each).startswith("c")]) == 8


def test_errors_are_the_same_as_elsewhere(script):
    async def address():
        async with script([]).serving() as config:
            return config.server

    gone = asyncio.run(address())
    refused = pytest.raises(ConnectError, match=f"connecting to {gone} failed: connection refused")
    with SyncClient(ClientConfig(gone)) as client, refused:
        client.list(Pod)


def test_connect_reads_the_usual_places(admin, monkeypatch):
    asked = []
    monkeypatch.setattr("kapi.client.config.ClientConfig.load", lambda **given: asked.append(given) or admin)
    with SyncClient.connect(context="there", namespace="default") as client:
        assert client.get(Namespace, "default")
    assert asked == [{"kubeconfig": None, "context": "there", "server": ""}]
