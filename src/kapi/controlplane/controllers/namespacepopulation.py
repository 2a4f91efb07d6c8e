"""Creates the objects that every namespace has together with it, before the client that creates it is answered.

So the next request of that client finds the namespace complete. That is more than Kubernetes promises.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.codec import json
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.identity import identity_of
from kapi.controlplane.controllers.rootcacertificatepublisher import root_ca_config_map
from kapi.controlplane.controllers.serviceaccount import default_service_account
from kapi.registry.namespacestore import NamespaceStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

_HEADERS: Final = {"content-type": "application/json", "user-agent": "kube-controller-manager"}

_log = structlog.get_logger("kapi.controllers")


def namespace_store(catalog: Catalog) -> NamespaceStore:
    """The store of namespaces."""
    store = catalog.store("namespaces")
    assert isinstance(store, NamespaceStore)
    return store


def namespace_populator(
    transport: InProcessTransport, controllers: Collection[str], authority: bytes
) -> Callable[[str], Awaitable[None]] | None:
    """The function that populates a new namespace, see `NamespaceStore.populate`; None when it would create nothing."""
    objects: list[tuple[InProcessTransport, str, bytes]] = []
    if names.SERVICEACCOUNT in controllers:
        account = transport.acting_as(*identity_of(names.SERVICEACCOUNT))
        objects.append((account, "serviceaccounts", json.encode(default_service_account())))
    if names.ROOT_CA_CERTIFICATE_PUBLISHER in controllers and authority:
        publisher = transport.acting_as(*identity_of(names.ROOT_CA_CERTIFICATE_PUBLISHER))
        objects.append((publisher, "configmaps", json.encode(root_ca_config_map(authority))))
    if not objects:
        return None

    async def populate(namespace: str) -> None:
        # Concurrently, so that all are in one commit.
        await asyncio.gather(*(_create(acting, namespace, resource, body) for acting, resource, body in objects))

    return populate


async def _create(transport: InProcessTransport, namespace: str, resource: str, body: bytes) -> None:
    """Create an object; when that fails, its controller creates it later."""
    try:
        reply = await transport.request("POST", f"/api/v1/namespaces/{namespace}/{resource}", _HEADERS, body)
        answer = await reply.read()
    except Exception:
        _log.exception("namespace not populated", namespace=namespace, resource=resource)
        return
    # It is no failure when the object exists, or when the namespace is terminating or deleted.
    if reply.status not in (201, 404, 409) and b"NamespaceTerminating" not in answer:
        _log.warning("namespace not populated", namespace=namespace, resource=resource, answer=answer.decode())
