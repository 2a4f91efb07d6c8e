"""The APIServices that name a Service: which group versions are served by other API servers, and how they are reached.

They are read from the watch cache whenever one is written, before the write is answered, so that routing, discovery and
availability see one state. The endpoints of their Services are looked up once and remembered until one changes.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.server.serviceaddress import (
    SERVICE_LABEL,
    SLICES,
    ServiceReference,
    overriding_address,
    service_addresses,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.server.serviceaddress import ServiceOverrides

APISERVICES: Final = "apiservices.apiregistration.k8s.io"
OWN_GROUP: Final = "apiregistration.k8s.io"
"""The group of APIServices. It is never served by another server: a mistake in one could not be corrected then."""
_HTTPS: Final = 443

GroupVersionKey = tuple[str, str]
"""A group and a version."""


class RemoteAPIService(NamedTuple):
    """An APIService whose group version another server serves."""

    name: str
    group: str
    version: str
    service: ServiceReference
    authority: bytes
    """The PEM of the CAs of the server's certificate; empty: those this machine trusts."""
    is_insecure: bool
    """True if the certificate of the server is not verified."""
    is_available: bool
    """True if the condition Available is true."""

    @property
    def server_name(self) -> str:
        """The name that the certificate of the server must have."""
        return f"{self.service.name}.{self.service.namespace}.svc"

    @property
    def path(self) -> str:
        """The path of the group version, which the other server has to serve."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class Priority(NamedTuple):
    """The place of a group version in discovery: higher numbers come first."""

    group: int
    version: int


class ApiServices:
    """The APIServices of one server. `changes` grows with every change of one that matters to requests."""

    def __init__(self, catalog: Catalog, overrides: ServiceOverrides) -> None:
        self._catalog = catalog
        self._overrides = overrides
        self._addresses: dict[ServiceReference, list[tuple[str, int]]] = {}
        self.remote: dict[GroupVersionKey, RemoteAPIService] = {}
        """Those that name a Service. This mapping is changed in place, so the router can keep it."""
        self.priorities: dict[GroupVersionKey, Priority] = {}
        """The priorities of all group versions that have an APIService."""
        self.changes = 0
        self.on_change: list[Callable[[RemoteAPIService | None], None]] = []
        """Called after a change with the APIService that has changed; None if it is not, or no longer, remote."""
        self.on_endpoints: list[Callable[[str, str], None]] = []
        """Called with the namespace and name of a Service whose endpoints may have changed, or do not answer."""

    def start(self) -> None:
        """Read what is stored and follow its changes; called once the watch cache is loaded."""
        for obj in self._catalog.list(APISERVICES):
            self._set(obj)
        self._catalog.store(APISERVICES).cache.listen(self._changed)
        self._catalog.store("services").cache.listen(self._service_changed)
        self._catalog.store("endpoints").cache.listen(self._service_changed)
        self._catalog.store(SLICES).cache.listen(self._slice_changed)

    def addresses(self, service: ServiceReference) -> list[tuple[str, int]]:
        """Return the addresses at which a Service is reached; LookupError says why there is none."""
        known = self._addresses.get(service)
        if known is None:
            override = overriding_address(self._overrides, service)
            known = [override] if override is not None else service_addresses(self._catalog, service)
            self._addresses[service] = known
        return known

    def is_overridden(self, service: ServiceReference) -> bool:
        """Return True if a Service is reached at an address of the options, whatever its endpoints are."""
        return overriding_address(self._overrides, service) is not None

    def suspect(self, api: RemoteAPIService) -> None:
        """Have an APIService checked now, because a request to its server has failed."""
        for listener in self.on_endpoints:
            listener(api.service.namespace, api.service.name)

    # -- changes ------------------------------------------------------------------------------------------------------

    def _changed(self, events: Sequence[Event]) -> None:
        store = self._catalog.store(APISERVICES)
        for event in events:
            obj = store.decode(event.item)
            key = _key(obj)
            if event.deleted:
                self.remote.pop(key, None)
                self.priorities.pop(key, None)
            else:
                self._set(obj)
            self.changes += 1
            for listener in self.on_change:
                listener(self.remote.get(key))

    def _set(self, obj: Object) -> None:
        key, spec = _key(obj), obj["spec"]
        self.priorities[key] = Priority(spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
        remote = _remote(obj)
        if remote is None:
            self.remote.pop(key, None)
        else:
            self.remote[key] = remote

    def _service_changed(self, events: Sequence[Event]) -> None:
        if self.remote:
            for event in events:
                self._forget(event.item.namespace, event.item.name)

    def _slice_changed(self, events: Sequence[Event]) -> None:
        if self.remote:
            for event in events:
                for item in filter(None, (event.item, event.previous)):
                    self._forget(item.namespace, (item.labels or {}).get(SERVICE_LABEL, ""))

    def _forget(self, namespace: str, name: str) -> None:
        for service in [one for one in self._addresses if one[:2] == (namespace, name)]:
            del self._addresses[service]
        for listener in self.on_endpoints:
            listener(namespace, name)


def _key(obj: Object) -> GroupVersionKey:
    version, _, group = obj["metadata"]["name"].partition(".")
    return group, version


def _remote(obj: Object) -> RemoteAPIService | None:
    spec = obj["spec"]
    service = spec.get("service")
    group, version = _key(obj)
    if service is None or group == OWN_GROUP:
        return None
    reference = ServiceReference(service.get("namespace", ""), service.get("name", ""), service.get("port") or _HTTPS)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return RemoteAPIService(
        obj["metadata"]["name"],
        group,
        version,
        reference,
        _decoded(spec.get("caBundle")),
        bool(spec.get("insecureSkipTLSVerify")),
        any(one.get("type") == "Available" and one.get("status") == "True" for one in conditions),
    )


def _decoded(bundle: str | None) -> bytes:
    # Validation has refused what is not base64; what was stored by other means must not stop the server.
    try:
        return base64.b64decode(bundle or "").strip()
    except (binascii.Error, ValueError):
        return b"invalid"
