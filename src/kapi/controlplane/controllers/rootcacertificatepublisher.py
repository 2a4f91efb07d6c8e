"""The root CA certificate publisher: every active namespace has the ConfigMap `kube-root-ca.crt`.

Pods verify the server with the CA bundle in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.namespaceobjects import (
    add_namespace_object_controller,
    create_in_namespace,
    namespace_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.keys import ObjectKey
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext

RESOURCE: Final = "configmaps"
NAME: Final = "kube-root-ca.crt"
DATA_KEY: Final = "ca.crt"
DESCRIPTION: Final = "kubernetes.io/description"
_DESCRIPTION_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] = {}


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


_decode = msgspec.json.Decoder(_ConfigMap).decode


def root_ca_config_map(authority: bytes) -> Object:
    """The ConfigMap with the CA bundle that every namespace has."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "annotations": {DESCRIPTION: _DESCRIPTION_TEXT}},
        "data": {DATA_KEY: authority.decode()},
    }


def add_root_ca_certificate_publisher(context: ControllerContext) -> None:
    """Add the controller that creates the ConfigMap and corrects its data; none where there is no certificate."""
    if not context.settings.authority:
        return
    wanted = root_ca_config_map(context.settings.authority)
    view = context.view

    def is_present(namespace: str) -> bool:
        item = view.find(RESOURCE, namespace, NAME)
        return item is not None and _is_correct(item, wanted["data"])

    async def ensure(namespace: str) -> None:
        current = view.get(RESOURCE, namespace, NAME)
        if current is None:
            await create_in_namespace(context, namespace, wanted)
            return
        current["data"] = wanted["data"]
        current["metadata"].setdefault("annotations", {})[DESCRIPTION] = _DESCRIPTION_TEXT
        await context.writer.update(current)

    add_namespace_object_controller(
        context,
        names.ROOT_CA_CERTIFICATE_PUBLISHER,
        RESOURCE,
        enqueue=_enqueue,
        is_present=is_present,
        ensure=ensure,
    )


def _enqueue(event: Event) -> Iterable[ObjectKey]:
    changed = event.item.name == NAME and event.previous is not None
    return (namespace_key(event.item.namespace),) if changed else ()


def _is_correct(item: Item, data: dict[str, str]) -> bool:
    found = _decode(b"{" + item.body)
    return found.data == data and bool(found.metadata.annotations.get(DESCRIPTION))
