"""The destination of a webhook: from the `clientConfig` of a configuration to an address that can be called.

A URL is called as it is, with its path cleaned. A service is found by `kapi.server.serviceaddress`, and the certificate
must be the service's: `<name>.<namespace>.svc`.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kapi.base.http import Endpoint, OutboundError
from kapi.server.serviceaddress import ServiceReference, service_address

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup
    from kapi.server.serviceaddress import ServiceOverrides

HTTPS = 443
REMEMBERED: Final = 64
"""Configurations whose parsed form is kept: a busy server calls the same few webhooks all the time."""


def destination(
    config: Object, lookup: Lookup, *, seconds: float, overrides: ServiceOverrides | None = None
) -> Endpoint:
    """The endpoint of a `clientConfig`, told how long we wait; raises `OutboundError` when there is none."""
    if config.get("url"):
        return _at_url(config["url"], config.get("caBundle") or "", seconds)
    authority = _authority(config.get("caBundle") or "")
    query = f"?timeout={seconds:g}s"
    service: Object = config.get("service") or {}
    name, namespace, port = service.get("name", ""), service.get("namespace", ""), service.get("port") or HTTPS
    url = f"https://{name}.{namespace}.svc:{port}{_clean(service.get('path') or '')}{query}"
    try:
        address = service_address(lookup, ServiceReference(namespace, name, port), overrides or {})
        return Endpoint(url, authority, address)
    except LookupError as error:
        raise OutboundError(f'Post "{url}": {error.args[0]}') from None


@lru_cache(maxsize=REMEMBERED)
def _at_url(url: str, bundle: str, seconds: float) -> Endpoint:
    parts = urlsplit(url)
    return Endpoint(f"{parts.scheme}://{parts.netloc}{_clean(parts.path)}?timeout={seconds:g}s", _authority(bundle))


@lru_cache(maxsize=REMEMBERED)
def _clean(path: str) -> str:
    """A path as kube-apiserver calls it: envtest makes `//validate` of a service's path, which servers redirect."""
    return posixpath.normpath("/" + path.lstrip("/"))


@lru_cache(maxsize=REMEMBERED)
def _authority(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle).strip()
    except (binascii.Error, ValueError):
        raise OutboundError("unable to load root certificates: the caBundle is not base64") from None
