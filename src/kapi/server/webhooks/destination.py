"""The destination of a webhook: from the `clientConfig` of a configuration to an address that can be called.

A URL is called as it is. A service is found through the objects of this control plane: an ExternalName is a host,
otherwise a ready endpoint of the service is called directly, since nothing here routes cluster IPs. The certificate
must be the service's: `<name>.<namespace>.svc`.
"""

from __future__ import annotations

import base64
import binascii
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kapi.base.http import Endpoint, OutboundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup

HTTPS = 443
SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"


def destination(config: Object, lookup: Lookup, *, seconds: float) -> Endpoint:
    """The endpoint of a `clientConfig`, told how long we wait; raises `OutboundError` when there is none."""
    authority = _authority(config.get("caBundle"))
    query = f"?timeout={seconds:g}s"
    if config.get("url"):
        parts = urlsplit(config["url"])
        return Endpoint(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}{query}", authority)
    service: Object = config.get("service") or {}
    name, namespace, port = service.get("name", ""), service.get("namespace", ""), service.get("port") or HTTPS
    url = f"https://{name}.{namespace}.svc:{port}/{(service.get('path') or '').removeprefix('/')}{query}"
    try:
        return Endpoint(url, authority, _resolve(lookup, namespace, name, port))
    except LookupError as error:
        raise OutboundError(f'Post "{url}": {error.args[0]}') from None


def _authority(bundle: str | None) -> bytes:
    try:
        return base64.b64decode(bundle or "").strip()
    except (binascii.Error, ValueError):
        raise OutboundError("unable to load root certificates: the caBundle is not base64") from None


def _resolve(lookup: Lookup, namespace: str, name: str, port: int) -> tuple[str, int]:
    service = lookup.get("services", namespace, name)
    if service is None:
        raise LookupError(f'service "{name}" not found')
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return spec["externalName"], port
    wanted = next((one for one in spec.get("ports", ()) if one["port"] == port), None)
    if wanted is None:
        raise LookupError(f'no service port {port} found for service "{name}"')
    ready = list(_endpoints(lookup, namespace, name, wanted.get("name", "")))
    if not ready:
        raise LookupError(f'no endpoints available for service "{name}"')
    return random.choice(ready)  # noqa: S311 - to spread the load, not to keep a secret


def _endpoints(lookup: Lookup, namespace: str, name: str, port: str) -> Iterator[tuple[str, int]]:
    """The ready endpoints of a service: those of its slices, or, for a service that has none, of its Endpoints."""
    sliced = False
    for found in lookup.list(SLICES, namespace):
        if found["metadata"].get("labels", {}).get(SERVICE_LABEL) != name:
            continue
        sliced = True
        number = _port(found.get("ports") or (), port)
        for endpoint in found.get("endpoints") or ():
            if number and endpoint.get("conditions", {}).get("ready", True) and endpoint.get("addresses"):
                yield endpoint["addresses"][0], number
    if sliced:
        return
    endpoints = lookup.get("endpoints", namespace, name) or {}
    for subset in endpoints.get("subsets") or ():
        number = _port(subset.get("ports") or (), port)
        for address in subset.get("addresses") or ():
            if number:
                yield address["ip"], number


def _port(ports: Any, name: str) -> int:
    return next((one["port"] for one in ports if one.get("name", "") == name and one.get("port")), 0)
