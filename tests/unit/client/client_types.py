"""What type checkers know about the client, as a program that `test_client_types` has mypy check. It is never run."""

from __future__ import annotations

from typing import Any, assert_type

from kapi.api.builtin.apps_v1 import Deployment
from kapi.api.builtin.autoscaling_v1 import Scale
from kapi.api.builtin.core_v1 import ConfigMap, Pod, PodList, PodSpec
from kapi.api.crd import CustomResource, resource
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.api.scheme import SCHEME
from kapi.client import ALL_NAMESPACES, DELETED, Client, KindClient, ObjectList, SyncClient, retry_on_conflict

Object = dict[str, Any]
PODS = GroupVersionResource("", "v1", "pods")


@resource("types.example.com/v1")
class Network(CustomResource):
    """A network."""

    cidr: str = ""


async def reading(client: Client) -> None:
    assert_type(await client.get(Pod, "a"), Pod)
    assert_type(await client.get(Network, ObjectKey("default", "a"), timeout=3), Network)
    assert_type(await client.get(("v1", "Pod"), "a"), Object)
    assert_type(await client.get(GroupVersionKind("", "v1", "Pod"), "a"), Object)
    assert_type(await client.get(PODS, "a"), Object)
    assert_type(await client.get("pods", "a", namespace="n"), Object)

    networks = await client.list(Network, namespace=ALL_NAMESPACES, labels={"a": "b"}, fields="metadata.name=a")
    assert_type(networks, ObjectList[Network])
    assert_type(networks[0].cidr, str)
    assert_type([each.cidr for each in networks], list[str])
    assert_type(await client.list("pods"), ObjectList[Object])
    async for page in client.pages(Pod, limit=10):
        assert_type(page, ObjectList[Pod])
    async with client.watch(Network, resource_version="7") as events:
        async for event in events:
            assert_type(event.object, Network)
            assert_type(event.type, str)
    async with client.watch("pods") as odd:
        async for each in odd:
            assert_type(each.object, Object)
    assert_type(client.resource(Pod), KindClient[Pod])
    assert_type(await client.resource(Pod, "n").get("a"), Pod)
    assert_type(await client.resource(PODS).list(labels="a=b"), ObjectList[Object])


async def writing(client: Client, pod: Pod, network: Network, loose: Object) -> None:
    assert_type(await client.create(network), Network)
    assert_type(await client.create(loose), Object)
    assert_type(await client.create({"apiVersion": "v1", "kind": "Pod"}), Object)
    assert_type(await client.update(pod, dry_run=True), Pod)
    assert_type(await client.update_status(network), Network)
    assert_type(await client.apply(network, field_manager="me", force=True), Network)
    assert_type(await client.apply(loose, field_manager="me"), Object)
    assert_type(await client.patch(network, {"spec": {}}), Network)
    assert_type(await client.patch(Network, {"spec": {}}, name="a"), Network)
    assert_type(await client.patch(Pod, [{"op": "remove", "path": "/a"}], name="a", kind="json"), Pod)
    assert_type(await client.patch("pods", {}, name="a", kind="strategic"), Object)
    assert_type(await client.patch(loose, {}), Object)
    assert_type(await client.patch_status(network, {"status": {}}), Network)
    assert_type(await client.delete(network), Network | None)
    assert_type(await client.delete(ConfigMap, "a", propagation="Foreground"), ConfigMap | None)
    assert_type(await client.delete(loose), Object | None)
    await client.delete_all(Pod, labels="a=b", grace_period=0)
    assert_type(await client.scale(Deployment, "a", 3), Scale)
    assert_type(await client.get_scale(Deployment, "a"), Scale)


async def waiting(client: Client) -> None:
    def is_wide(network: Network) -> bool:
        return network.cidr.endswith("/8")

    assert_type(await client.wait_for(Network, "a", "condition=Ready", timeout=60), Network)
    assert_type(await client.wait_for(Network, "a", is_wide), Network)
    assert_type(await client.wait_for(Pod, "a", lambda pod: pod.status is not None), Pod)
    assert_type(await client.wait_for("pods", "a", lambda pod: bool(pod["status"])), Object)
    await client.wait_for(Network, "a", DELETED)

    async def change() -> Network:
        network = await client.get(Network, "a")
        network.cidr = "10.0.0.0/8"
        return await client.update(network)

    assert_type(await retry_on_conflict(change), Network)


def synchronously(client: SyncClient, network: Network) -> None:
    assert_type(client.get(Network, "a"), Network)
    assert_type(client.list(Pod), ObjectList[Pod])
    assert_type(client.create(network), Network)
    assert_type(client.patch(network, {}), Network)
    assert_type(client.delete("pods", "a"), Object | None)
    for page in client.pages(Network):
        assert_type(page, ObjectList[Network])
    with client.watch(Network) as events:
        for event in events:
            assert_type(event.object, Network)
    assert_type(client.wait_for(Network, "a", "condition=Ready"), Network)


def registering() -> None:
    assert_type(SCHEME.register(Network), type[Network])


async def mistakes(client: Client, pod: Pod, spec: PodSpec) -> None:
    await client.get(PodSpec, "a")  # type: ignore[type-var]
    await client.get(PodList, "a")  # type: ignore[type-var]
    await client.get(Pod, 7)  # type: ignore[call-overload]
    await client.get(Pod, "a", namepsace="n")  # type: ignore[call-overload]
    await client.list(Pod, labels=7)  # type: ignore[call-overload]
    await client.create(spec)  # type: ignore[call-overload]
    await client.create(Pod)  # type: ignore[call-overload]
    await client.patch(pod, {}, kind="replace")  # type: ignore[call-overload]
    await client.wait_for(Pod, "a", lambda: True)  # type: ignore[arg-type,misc]
