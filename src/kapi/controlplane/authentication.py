"""Authentication as the options configure it: which credentials a server knows, and the files they are read from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kapi.api.user import User
from kapi.base.jwt import SigningKey
from kapi.base.tls import server_context, trust_clients_of
from kapi.base.trust import Authorities
from kapi.controlplane.authenticationoptions import DEFAULT_ISSUER
from kapi.controlplane.bootstrap import ADMIN, MASTERS
from kapi.controlplane.options import OptionError
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.serviceaccounts import ServiceAccountTokens
from kapi.server.authn.tokens import StaticTokens, TokenSources

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.controlplane.authenticationoptions import AuthenticationOptions
    from kapi.controlplane.bootstrap import Credentials
    from kapi.controlplane.filewatch import FileWatch
    from kapi.registry.strategy import Lookup


class Authentication:
    """The authenticator of a server, and the files it depends on."""

    def __init__(
        self, options: AuthenticationOptions, credentials: Credentials, lookup: Lookup, *, clock: Clock
    ) -> None:
        self._options = options
        self._credentials = credentials
        with _refusing("--client-ca-file", options.client_ca_file):
            self._clients = ClientCertificates(self._read_authorities(), clock)
        audiences = (DEFAULT_ISSUER,)
        self.authenticator = Authenticator(
            TokenSources(
                audiences,
                StaticTokens({credentials.token: User(ADMIN, (MASTERS,))}, audiences),
                ServiceAccountTokens(SigningKey(credentials.account_key), lookup, audiences),
            ),
            self._clients,
        )

    @property
    def client_authorities(self) -> bytes:
        """The PEM of the authorities of client certificates."""
        assert self._clients.authorities is not None
        return self._clients.authorities.pem

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of the server."""
        return server_context(self._credentials.server, client_authorities=self._authority_files())

    def watch(self, files: FileWatch, tls: ssl.SSLContext) -> None:
        """Re-read files of this server when they change; `tls` is the context it listens with."""
        server = self._credentials.server
        files.add("serving-certificate", (server.certificate, server.key), lambda: self._reload_serving(tls))
        files.add("client-ca", self._authority_files(), lambda: self._reload_authorities(tls))

    def _reload_serving(self, tls: ssl.SSLContext) -> None:
        server = self._credentials.server
        # Tried with another context first: one that has read half of a pair can serve nothing.
        server_context(server)
        tls.load_cert_chain(server.certificate, server.key)

    def _reload_authorities(self, tls: ssl.SSLContext) -> None:
        self._clients.authorities = self._read_authorities()
        trust_clients_of(tls, self._authority_files())

    def _authority_files(self) -> tuple[Path, ...]:
        given = self._options.client_ca_file
        return (self._credentials.authority, *([given] if given is not None else []))

    def _read_authorities(self) -> Authorities:
        return Authorities(b"".join(Authorities.read(path).pem.rstrip() + b"\n" for path in self._authority_files()))


@contextlib.contextmanager
def _refusing(flag: str, path: Path | None) -> Iterator[None]:
    """Refuse to start with a file that cannot be used; the error names the flag, the file and the reason."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{flag} {path}: {error.strerror}") from None
    except ValueError as error:
        text = str(error)
        raise OptionError(f"{flag} {text}" if str(path) in text else f"{flag} {path}: {text}") from None
