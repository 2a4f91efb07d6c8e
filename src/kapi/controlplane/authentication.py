"""Authentication as the options configure it: which credentials a server knows, and the files they are read from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kapi.api.user import User
from kapi.base.jwt import KeySet, SigningKey, read_public_keys
from kapi.base.tls import server_context, trust_clients_of
from kapi.base.trust import Authorities
from kapi.controlplane.bootstrap import ADMIN, MASTERS
from kapi.controlplane.options import OptionError
from kapi.server.authn.authenticator import Anonymous, Authenticator
from kapi.server.authn.bootstraptokens import BootstrapTokens
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.serviceaccounts import ServiceAccountTokens
from kapi.server.authn.tokenfile import read_token_file
from kapi.server.authn.tokenissuer import TokenIssuer
from kapi.server.authn.tokens import StaticTokens, TokenSources

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.base.jwt import VerificationKey
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
        self._signing_key = SigningKey(options.service_account_signing_key_file or credentials.account_key)
        with _refusing("--client-ca-file", options.client_ca_file):
            self._clients = ClientCertificates(self._read_authorities(), clock)
        keys = self._account_keys()
        audiences = options.audiences
        self._token_file: StaticTokens | None = None
        if options.token_auth_file is not None:
            with _refusing("--token-auth-file", options.token_auth_file):
                self._token_file = StaticTokens(read_token_file(options.token_auth_file), audiences)
        self.token_issuer = TokenIssuer(
            self._signing_key,
            keys,
            options.issuers[0],
            audiences,
            maximum=options.service_account_max_token_expiration,
            extend=options.service_account_extend_token_expiration,
            keys_url=options.service_account_jwks_uri,
        )
        self.authenticator = Authenticator(
            TokenSources(
                audiences,
                StaticTokens({credentials.token: User(ADMIN, (MASTERS,))}, audiences),
                *([self._token_file] if self._token_file is not None else []),
                ServiceAccountTokens(keys, lookup, options.issuers, audiences, clock),
                *([BootstrapTokens(lookup, audiences, clock)] if options.enable_bootstrap_token_auth else []),
            ),
            self._clients,
            anonymous=Anonymous(enabled=options.anonymous_auth is not False),
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

        tokens, path = self._token_file, self._options.token_auth_file
        if tokens is not None and path is not None:
            files.add("token-auth-file", (path,), lambda: tokens.replace(read_token_file(path)))

    def _reload_serving(self, tls: ssl.SSLContext) -> None:
        server = self._credentials.server
        # Tried with another context first: one that has read half of a pair can serve nothing.
        server_context(server)
        tls.load_cert_chain(server.certificate, server.key)

    def _reload_authorities(self, tls: ssl.SSLContext) -> None:
        self._clients.authorities = self._read_authorities()
        trust_clients_of(tls, self._authority_files())

    def _account_keys(self) -> KeySet:
        """Return the keys that verify service account tokens: those of files, and the one that signs."""
        path = self._options.service_account_signing_key_file
        with _refusing("--service-account-signing-key-file", path):
            if path is not None:
                path.read_bytes()
            own = self._signing_key.public
        keys: dict[str, VerificationKey] = {}
        for path in self._options.service_account_key_file:
            with _refusing("--service-account-key-file", path):
                keys |= {key.id: key for key in read_public_keys(path)}
        return KeySet((keys | {own.id: keys.get(own.id, own)}).values())

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
