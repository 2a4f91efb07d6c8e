"""The aggregator of one server: its APIServices, the connections to other servers, the proxy, and their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.aggregation.apiservices import ApiServices
from kapi.server.aggregation.discovery import RemoteDiscovery
from kapi.server.aggregation.documents import Documents
from kapi.server.aggregation.headers import RequestHeaders
from kapi.server.aggregation.openapi import RemoteOpenAPI
from kapi.server.aggregation.proxy import Proxy
from kapi.server.aggregation.upstreams import Upstreams

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kapi.base.tls import KeyPair
    from kapi.registry.catalog import Catalog
    from kapi.server.authn.frontproxy import ProxyHeaders
    from kapi.server.serviceaddress import ServiceOverrides


class Aggregator:
    """Serves the group versions of other API servers. `start` it once the watch cache is loaded."""

    def __init__(
        self, catalog: Catalog, overrides: ServiceOverrides, certificate: KeyPair | None, names: ProxyHeaders
    ) -> None:
        headers = RequestHeaders(names)
        self.services = ApiServices(catalog, overrides)
        self.upstreams = Upstreams(self.services, certificate)
        self.proxy = Proxy(self.services, self.upstreams, headers)
        self.documents = Documents(self.upstreams, headers)
        self.discovery = RemoteDiscovery(self.services, self.documents)
        self.openapi = RemoteOpenAPI(self.services, self.documents)

    def start(self) -> None:
        """Read the APIServices that are stored, and follow their changes."""
        self.services.start()
        self.discovery.followers.start()
        self.openapi.followers.start()

    @property
    def tasks(self) -> dict[str, Callable[[], Coroutine[object, object, None]]]:
        """What must run for the aggregator, by the name of the task."""
        return {
            "aggregator-connections": self.upstreams.run,
            "aggregator-discovery": self.discovery.followers.run,
            "aggregator-openapi": self.openapi.followers.run,
        }
