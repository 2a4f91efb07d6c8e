"""What every namespace has: the account that pods run as unless they say otherwise, and the server's certificate.

Both are put into a namespace before whoever creates it hears of it (`furnisher`), so that a client which creates a
namespace and goes on at once finds it complete. That is more than Kubernetes promises. The parts `keep_accounts` and
`publish_authority` put back what is deleted or changed later, and furnish namespaces that were made while they were off
or under another certificate.

The first is needed when the server starts, so nothing here imports the framework that the parts run on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from kapi.api.errors import AlreadyExists, Conflict, Forbidden, NotFound
from kapi.api.keys import ObjectKey
from kapi.codec import json
from kapi.registry.namespacestore import NamespaceStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Result
    from kapi.controlplane.controllers.house import House
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

ACCOUNTS: Final = "serviceaccount-controller"
AUTHORITY: Final = "root-ca-certificate-publisher-controller"

ACCOUNT_NAME: Final = "default"
AUTHORITY_NAME: Final = "kube-root-ca.crt"
AUTHORITY_KEY: Final = "ca.crt"
DESCRIPTION: Final = "kubernetes.io/description"
_PURPOSE: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)

FURNISHED_SECONDS: Final = 1.0
"""When a namespace that is being furnished by its creation is looked at again."""

_HEADERS: Final = {"content-type": "application/json", "user-agent": "kube-controller-manager"}

_log = structlog.get_logger("kapi.housekeeping")


def account() -> Object:
    """The account of a namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT_NAME}}


def authority_map(authority: bytes) -> Object:
    """What tells pods of a namespace by which certificate they know this server."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": AUTHORITY_NAME, "annotations": {DESCRIPTION: _PURPOSE}},
        "data": {AUTHORITY_KEY: authority.decode()},
    }


def namespace_store(catalog: Catalog) -> NamespaceStore:
    """The store of namespaces."""
    store = catalog.store("namespaces")
    assert isinstance(store, NamespaceStore)
    return store


# -- with the creation ------------------------------------------------------------------------------------------------


def furnisher(
    transport: InProcessTransport, controllers: Collection[str], authority: bytes
) -> Callable[[str], Awaitable[None]] | None:
    """What furnishes a new namespace, see `NamespaceStore.furnish`; None when none of these controllers does."""
    wanted: list[tuple[str, bytes]] = []
    if ACCOUNTS in controllers:
        wanted.append(("serviceaccounts", json.encode(account())))
    if AUTHORITY in controllers and authority:
        wanted.append(("configmaps", json.encode(authority_map(authority))))
    if not wanted:
        return None

    async def furnish(namespace: str) -> None:
        # At once, so that both are in one commit.
        await asyncio.gather(*(_create(transport, namespace, resource, body) for resource, body in wanted))

    return furnish


async def _create(transport: InProcessTransport, namespace: str, resource: str, body: bytes) -> None:
    """Create something; if that fails, the parts find out."""
    try:
        reply = await transport.request("POST", f"/api/v1/namespaces/{namespace}/{resource}", _HEADERS, body)
        answer = await reply.read()
    except Exception:
        _log.exception("a namespace could not be furnished", namespace=namespace, resource=resource)
        return
    # If it is there already, or the namespace is going or gone, all is well.
    if reply.status not in (201, 404, 409) and b"NamespaceTerminating" not in answer:
        _log.warning(
            "a namespace could not be furnished", namespace=namespace, resource=resource, answer=answer.decode()
        )


# -- the parts --------------------------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Map(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


_decode_map = msgspec.json.Decoder(_Map).decode


def keep_accounts(house: House) -> None:
    """The part that has every active namespace have its account."""

    def is_there(namespace: str) -> bool:
        return house.inventory.catalog.store("serviceaccounts").find(namespace, ACCOUNT_NAME) is not None

    async def furnish(namespace: str) -> None:
        if not is_there(namespace):
            await _post(house, namespace, "serviceaccounts", account())

    def hear(event: Event) -> Iterable[ObjectKey]:
        return (_key(event.item.namespace),) if event.deleted and event.item.name == ACCOUNT_NAME else ()

    _add(house, ACCOUNTS, "serviceaccounts", hear, is_there, furnish)


def publish_authority(house: House) -> None:
    """The part that has every active namespace have the server's certificate; nothing where there is none."""
    if not house.settings.authority:
        return
    wanted = authority_map(house.settings.authority)
    store = house.inventory.catalog.store("configmaps")

    def is_right(namespace: str) -> bool:
        item = store.find(namespace, AUTHORITY_NAME)
        return item is not None and _is_right(item, wanted["data"])

    async def furnish(namespace: str) -> None:
        item = store.find(namespace, AUTHORITY_NAME)
        if item is None:
            await _post(house, namespace, "configmaps", wanted)
        elif not _is_right(item, wanted["data"]):
            obj = store.decode(item)
            obj["data"] = wanted["data"]
            obj["metadata"].setdefault("annotations", {})[DESCRIPTION] = _PURPOSE
            await house.client.rest.request(
                "PUT", f"/api/v1/namespaces/{namespace}/configmaps/{AUTHORITY_NAME}", body=obj
            )

    def hear(event: Event) -> Iterable[ObjectKey]:
        changed = event.item.name == AUTHORITY_NAME and event.previous is not None
        return (_key(event.item.namespace),) if changed else ()

    _add(house, AUTHORITY, "configmaps", hear, is_right, furnish)


def _add(
    house: House,
    name: str,
    resource: str,
    hear: Callable[[Event], Iterable[ObjectKey]],
    is_furnished: Callable[[str], bool],
    furnish: Callable[[str], Awaitable[None]],
) -> None:
    """A controller that furnishes active namespaces, given by their names, when something happens to them."""
    from kapi.controller.reconcile import Result

    namespaces = namespace_store(house.inventory.catalog)

    async def reconcile(request: ObjectKey) -> Result | None:
        item = namespaces.find("", request.name)
        if item is None or not _is_active(item) or is_furnished(request.name):
            return None
        if request.name in namespaces.furnishing:
            return Result(requeue_after=FURNISHED_SECONDS)
        try:
            await furnish(request.name)
        except Conflict:
            return Result(requeue=True)
        return None

    def lacking() -> list[ObjectKey]:
        found = namespaces.cache.items()
        return [_key(item.name) for item in found if _is_active(item) and not is_furnished(item.name)]

    heard = {"namespaces": _hear_namespace, resource: hear}
    house.add(name, reconcile, hear=heard, initial=lacking)


async def _post(house: House, namespace: str, resource: str, body: Object) -> None:
    try:
        await house.client.rest.request("POST", f"/api/v1/namespaces/{namespace}/{resource}", body=body)
    except (AlreadyExists, NotFound):
        pass  # it is there, or the namespace is gone
    except Forbidden as error:
        if not any(cause.get("reason") == "NamespaceTerminating" for cause in (error.details or {}).get("causes", ())):
            raise


def _hear_namespace(event: Event) -> Iterable[ObjectKey]:
    return (_key(event.item.name),) if not event.deleted and _is_active(event.item) else ()


def _is_active(item: Item) -> bool:
    return item.fields is None or item.fields["status.phase"] == "Active"


def _is_right(item: Item, data: dict[str, str]) -> bool:
    found = _decode_map(b"{" + item.body)
    return found.data == data and bool(found.metadata.annotations.get(DESCRIPTION))


def _key(namespace: str) -> ObjectKey:
    return ObjectKey("", namespace)
