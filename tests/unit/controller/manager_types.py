"""What type checkers know about managers, as a program that `test_manager_types` has mypy check. It is never run."""

from __future__ import annotations

from typing import Any, assert_type

from opentelemetry import trace
from prometheus_client import CollectorRegistry

from kapi import Client, CustomResource, Manager, ObjectKey, Request, Result, resource
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.meta import GroupVersionKind
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
    assert_type(await manager.client.list(ConfigMap), list[ConfigMap])


def factories(client: Client) -> SharedInformerFactory:
    return SharedInformerFactory(client.rest, namespace=["a", "b"], registry=CollectorRegistry())


def controllers(manager: Manager) -> None:
    async def reconcile(request: Request) -> Result | None:
        network = await manager.client.find(Network, request)
        assert_type(network, Network | None)
        return None

    controller = manager.builder().for_(Network).owns(ConfigMap).with_options(warm_up=True).complete(reconcile)
    assert_type(controller.wants_warm_up, bool | None)
