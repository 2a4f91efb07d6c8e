"""What type checkers know about managers, as a program that `test_manager_types` has mypy check. It is never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from opentelemetry import trace
from prometheus_client import CollectorRegistry

from kapi import Client, CustomResource, Manager, ObjectKey, Request, Result, resource
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.meta import GroupVersionKind
from kapi.client import ObjectList
from kapi.controller import Builder, Controller, Prioritized, Trigger, WorkQueue
from kapi.informer import Cached, PartialObjectMetadata, SharedInformer, SharedInformerFactory
from kapi.informer.factory import namespaces_of


@resource("types.example.com/v1")
class Network(CustomResource):
    """A network."""

    cidr: str = ""


def managers(client: Client) -> None:
    Manager(client, namespace="a,b", warm_up=True)
    Manager(client, namespaces=["a", "b"], registry=CollectorRegistry())
    Manager(client, tracer=trace.get_tracer("networks"))
    assert_type(Manager(client).namespaces, tuple[str, ...])
    assert_type(namespaces_of("a,b"), tuple[str, ...])


async def caches(manager: Manager) -> None:
    networks = manager.informers.informer(Network, namespace=("a", "b"))
    assert_type(networks, SharedInformer[Network])
    assert_type(networks.lister.get("a", "b"), Network | None)
    assert_type(networks.lister.list(), list[Network])
    assert_type(networks.lister.cached.by_index("cidr", "x"), list[Cached[Network]])
    assert_type(manager.informers.metadata_informer(Network), SharedInformer[PartialObjectMetadata])
    assert_type(
        manager.informers.informer(GroupVersionKind("", "v1", "Pod"), namespace="a,b"), SharedInformer[dict[str, Any]]
    )
    assert_type(await manager.client.get(Network, ObjectKey("a", "b")), Network)
    manager.index(Network, "cidr", lambda network: [network.cidr])
    manager.index(GroupVersionKind("", "v1", "Pod"), "spec.nodeName")
    assert_type(await manager.client.list(ConfigMap, index={"a": "b"}), ObjectList[ConfigMap])
    assert_type(await manager.client.list("pods", fields={"spec.nodeName": "n"}), ObjectList[dict[str, Any]])
    assert_type(await manager.client.get(("v1", "Pod"), "a", namespace="b"), dict[str, Any])
    assert_type(await manager.client.find(Network, "a"), Network | None)
    assert_type(await manager.client.get_metadata(Network, "a"), PartialObjectMetadata)
    assert_type(await manager.client.list_metadata("pods"), ObjectList[PartialObjectMetadata])


def factories(client: Client) -> SharedInformerFactory:
    return SharedInformerFactory(client.rest, namespace=["a", "b"], registry=CollectorRegistry())


def controllers(manager: Manager) -> None:
    async def reconcile(request: Request) -> Result | None:
        network = await manager.client.find(Network, request)
        assert_type(network, Network | None)
        return None

    controller = manager.builder().for_(Network).owns(ConfigMap).with_options(warm_up=True).complete(reconcile)
    assert_type(controller.wants_warm_up, bool | None)
    assert_type(controller, Controller[Request])
    assert_type(manager.builder(), Builder[Request, Request])
    assert_type(manager.builder().for_(Network), Builder[Network, Request])


@dataclass(frozen=True)
class Zone:
    """A key that is no object's."""

    name: str


def zones_of(network: Network) -> list[Zone | Prioritized[Zone]]:
    return [Zone(network.cidr), Prioritized(Zone("all"), 10)]


async def later(network: Network) -> list[Zone]:
    return [Zone(network.cidr)]


async def reconcile_zone(zone: Zone) -> Result | None:
    assert_type(zone.name, str)
    return None


async def reconcile_key(request: Request) -> None:
    return None


def controllers_of_zones(manager: Manager) -> None:
    trigger: Trigger[Zone] = Trigger()
    builder = manager.builder(Zone)
    assert_type(builder, Builder[Zone, Zone])
    builder.watches(Network, zones_of, priority=3).watches(Network, later, priority=lambda event: event.priority)
    controller = builder.watches_source(trigger).complete(reconcile_zone)
    assert_type(controller, Controller[Zone])
    assert_type(controller.queue.num_requeues(Zone("a")), int)
    queue: WorkQueue[Zone] = controller.queue
    queue.add(Zone("b"), priority=1)


def mistakes(manager: Manager) -> None:
    """Each of these lines is an error: with the comment unused, mypy says so."""
    manager.builder(Zone).for_(Network)  # type: ignore[misc]
    manager.builder(Zone).complete(reconcile_key)  # type: ignore[arg-type]
    manager.builder().for_(Network).complete(reconcile_zone)  # type: ignore[arg-type]
    manager.builder().watches(Network, zones_of)  # type: ignore[arg-type]
    manager.builder().complete(reconcile_zone)  # type: ignore[arg-type]
    Trigger[Zone]().fire(Request("a", "b"))  # type: ignore[arg-type]
