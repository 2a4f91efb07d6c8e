"""Where a webhook is: from the `clientConfig` of a configuration to something that can be called.

A URL is called as it is. A service is found through the objects of this control plane: an ExternalName is a host,
otherwise a ready endpoint of the service is called directly, since nothing here routes cluster IPs. The certificate
must be the service's: `<name>.<namespace>.svc`.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from kapi.base.http import Endpoint, OutboundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup

HTTPS = 443
SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"


def destination(config: Object, lookup: Lookup) -> Endpoint:
    """The endpoint of a `clientConfig`; raises `OutboundError` when there is none."""
    authority = _authority(config.get("caBundle"))
    if config.get("url"):
        return Endpoint(config["url"], authority)
    service: Object = config.get("service") or {}
    name, namespace = service.get("name", ""), service.get("namespace", "")
    host, port = _resolve(lookup, namespace, name, service.get("port") or HTTPS)
    host = f"[{host}]" if ":" in host else host
    path = service.get("path") or "/"
    slash = "" if path.startswith("/") else "/"
    return Endpoint(f"https://{host}:{port}{slash}{path}", authority, f"{name}.{namespace}.svc")


def shown(config: Object) -> str:
    """The URL of a `clientConfig` as messages name it."""
    if config.get("url"):
        url: str = config["url"]
        return url
    service: Object = config.get("service") or {}
    path = (service.get("path") or "/").lstrip("/")
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or HTTPS}/{path}"


def _authority(bundle: str | None) -> bytes:
    try:
        return base64.b64decode(bundle or "").strip()
    except (binascii.Error, ValueError):
        raise OutboundError("the caBundle is not base64") from None


def _resolve(lookup: Lookup, namespace: str, name: str, port: int) -> tuple[str, int]:
    service = lookup.get("services", namespace, name)
    if service is None:
        raise OutboundError(f'service "{name}" not found')
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return spec["externalName"], port
    wanted = next((one for one in spec.get("ports", ()) if one["port"] == port), None)
    if wanted is None:
        raise OutboundError(f'no service port {port} found for service "{name}"')
    for host, number in _endpoints(lookup, namespace, name, wanted):
        return host, number
    raise OutboundError(f'no endpoints available for service "{name}"')


def _endpoints(lookup: Lookup, namespace: str, name: str, wanted: Object) -> Iterator[tuple[str, int]]:
    port_name = wanted.get("name", "")
    for found in lookup.list(SLICES, namespace):
        if found["metadata"].get("labels", {}).get(SERVICE_LABEL) != name:
            continue
        number = _port(found.get("ports") or (), port_name)
        for endpoint in found.get("endpoints") or ():
            if number and endpoint.get("conditions", {}).get("ready", True) and endpoint.get("addresses"):
                yield endpoint["addresses"][0], number
    endpoints = lookup.get("endpoints", namespace, name) or {}
    for subset in endpoints.get("subsets") or ():
        number = _port(subset.get("ports") or (), port_name)
        for address in subset.get("addresses") or ():
            if number:
                yield address["ip"], number


def _port(ports: Any, name: str) -> int:
    return next((one["port"] for one in ports if one.get("name", "") == name and one.get("port")), 0)
