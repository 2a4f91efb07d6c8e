"""All connections to other API servers: by address, name and trust, with the certificate of this front proxy."""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import TYPE_CHECKING, NamedTuple

from kapi.base.outboundtls import trusting_context
from kapi.server.aggregation.upstream import IDLE_SECONDS, Upstream

if TYPE_CHECKING:
    from kapi.base.tls import KeyPair
    from kapi.server.aggregation.apiservices import ApiServices, RemoteAPIService


class _Trust(NamedTuple):
    """How the certificate of a server is verified."""

    authority: bytes
    is_insecure: bool


class _Destination(NamedTuple):
    address: tuple[str, int]
    server_name: str
    trust: _Trust


class Upstreams:
    """The connections of one server to all others. `certificate` is what it shows, None for nothing."""

    def __init__(self, services: ApiServices, certificate: KeyPair | None) -> None:
        self._services = services
        self._certificate = certificate
        self._contexts: dict[_Trust, ssl.SSLContext] = {}
        self._upstreams: dict[_Destination, Upstream] = {}
        self._retired: list[Upstream] = []
        """Those that have shown an older certificate, until their last request has ended."""

    def find(self, api: RemoteAPIService) -> Upstream:
        """Return the connections to an endpoint of an APIService.

        LookupError if it has none, ValueError if its certificate authorities cannot be read.
        """
        addresses = self._services.addresses(api.service)
        # To spread the load, not to keep a secret.
        address = addresses[0] if len(addresses) == 1 else random.choice(addresses)  # noqa: S311
        return self.at(api, address)

    def at(self, api: RemoteAPIService, address: tuple[str, int]) -> Upstream:
        """Return the connections to one endpoint of an APIService."""
        trust = _Trust(b"" if api.is_insecure else api.authority, api.is_insecure)
        destination = _Destination(address, api.server_name, trust)
        upstream = self._upstreams.get(destination)
        if upstream is None:
            upstream = Upstream(address, self._context(trust), api.server_name)
            self._upstreams[destination] = upstream
        return upstream

    def _context(self, trust: _Trust) -> ssl.SSLContext:
        context = self._contexts.get(trust)
        if context is None:
            context = trusting_context(trust.authority)
            if trust.is_insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["http/1.1"])
            if self._certificate is not None:
                context.load_cert_chain(self._certificate.certificate, self._certificate.key)
            self._contexts[trust] = context
        return context

    async def run(self) -> None:
        """Close connections that are not used any more, until cancelled."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 3)
            for destination, upstream in list(self._upstreams.items()):
                if upstream.close_idle(IDLE_SECONDS):
                    del self._upstreams[destination]
            self._retired = [upstream for upstream in self._retired if not upstream.close_idle()]
            used = {destination.trust for destination in self._upstreams}
            self._contexts = {trust: context for trust, context in self._contexts.items() if trust in used}

    def reload(self) -> None:
        """Show the certificate that is in the files now, on new connections; those in use are left to finish."""
        before, self._contexts = self._contexts, {}
        try:
            self._context(_Trust(b"", is_insecure=True))
        except (OSError, ValueError):
            self._contexts = before
            raise
        self._retired += self._upstreams.values()
        for upstream in self._retired:
            upstream.close_idle()
        self._upstreams = {}

    def close(self) -> None:
        """Close all connections."""
        for upstream in (*self._upstreams.values(), *self._retired):
            upstream.close()
