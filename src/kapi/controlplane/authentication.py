"""Authentication as the options configure it: which credentials a server knows, and the files they are read from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapi.api.user import User
from kapi.base.jwt import KeySet, SigningKey, read_public_keys
from kapi.base.tls import client_context, server_context, trust_clients_of
from kapi.base.trust import Authorities
from kapi.codec import json
from kapi.controlplane.bootstrap import ADMIN, FRONT_PROXY, MASTERS
from kapi.controlplane.options import OptionError
from kapi.server.authn.authenticator import Anonymous, Authenticator
from kapi.server.authn.bootstraptokens import BootstrapTokens
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.frontproxy import FrontProxy
from kapi.server.authn.serviceaccounts import ServiceAccountTokens
from kapi.server.authn.tokenfile import read_token_file
from kapi.server.authn.tokenissuer import TokenIssuer
from kapi.server.authn.tokens import StaticTokens, TokenSources

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.base.jwt import VerificationKey
    from kapi.controlplane.authenticationoptions import AuthenticationOptions
    from kapi.controlplane.bootstrap import Credentials
    from kapi.controlplane.remotetokens import RemoteTokens
    from kapi.registry.catalog import Catalog
    from kapi.server.filewatch import FileWatch


class Authentication:
    """The authenticator of a server, and the files it depends on."""

    def __init__(
        self,
        options: AuthenticationOptions,
        credentials: Credentials,
        catalog: Catalog,
        *,
        clock: Clock,
        used: Callable[[Object], None] | None = None,
    ) -> None:
        """Read all files. `used` is called with a Secret whose token is used."""
        check_issuers(options)
        self._options = options
        self._credentials = credentials
        self._signing_key = SigningKey(options.service_account_signing_key_file or credentials.account_key)
        with _refusing("--client-ca-file", options.client_ca_file):
            self._clients = ClientCertificates(self._read_authorities(), clock)
        self._proxy = self._front_proxy(clock)
        self._remote = _remote_tokens(options, clock)
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
                ServiceAccountTokens(keys, catalog, options.issuers, audiences, clock, used=used),
                *([BootstrapTokens(catalog, audiences, clock)] if options.enable_bootstrap_token_auth else []),
                *(self._remote.sources if self._remote is not None else []),
            ),
            *([self._proxy] if self._proxy is not None else []),
            self._clients,
            anonymous=self._anonymous(),
        )

    def published(self) -> dict[str, str]:
        """Return what extension API servers are told, in the ConfigMap extension-apiserver-authentication."""
        assert self._clients.authorities is not None
        data = {"client-ca-file": self._clients.authorities.pem.decode()}
        headers = self._options.proxy_headers
        # Without the flags, other servers are told to trust this one as a front proxy; it does not trust any itself.
        allowed: tuple[str, ...] = (FRONT_PROXY,)
        authorities = self._credentials.front_proxy_authority.read_bytes()
        if self._proxy is not None:
            allowed, authorities = headers.allowed_names, self._proxy.authorities.pem
        lists = {
            "requestheader-allowed-names": allowed,
            "requestheader-username-headers": headers.username,
            "requestheader-uid-headers": headers.uid,
            "requestheader-group-headers": headers.group,
            "requestheader-extra-headers-prefix": headers.extra_prefix,
        }
        data |= {key: json.encode(list(names)).decode() for key, names in lists.items()}
        return {**data, "requestheader-client-ca-file": authorities.decode()}

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of the server."""
        return server_context(self._credentials.server, client_authorities=self._authority_files())

    def watch(self, files: FileWatch, tls: ssl.SSLContext, changed: Callable[[], None]) -> None:
        """Re-read files of this server when they change.

        `tls` is the context it listens with; `changed` is called when `published` returns something else.
        """
        server = self._credentials.server
        files.add("serving-certificate", (server.certificate, server.key), lambda: self._reload_serving(tls))
        files.add("client-ca", self._authority_files(), lambda: self._reload_authorities(tls, changed))

        if self._options.authentication_config is not None:
            files.add("authentication-config", (self._options.authentication_config,), self._reload_config)
        tokens, path = self._token_file, self._options.token_auth_file
        if tokens is not None and path is not None:
            files.add("token-auth-file", (path,), lambda: tokens.replace(read_token_file(path)))

    async def close(self) -> None:
        """Drop connections to other servers."""
        if self._remote is not None:
            await self._remote.close()

    def _anonymous(self) -> Anonymous:
        """Return who may send requests without credentials."""
        config = None if self._remote is None else self._remote.config.anonymous
        if config is None:
            return Anonymous(enabled=self._options.anonymous_auth is not False)
        paths = frozenset(one.get("path", "") for one in config.get("conditions") or ())
        return Anonymous(paths or None, enabled=bool(config.get("enabled")))

    def _reload_config(self) -> None:
        assert self._remote is not None
        self._remote.reload()
        self.authenticator.anonymous = self._anonymous()

    def _reload_serving(self, tls: ssl.SSLContext) -> None:
        server = self._credentials.server
        # Tried with another context first: one that has read half of a pair can serve nothing.
        server_context(server)
        tls.load_cert_chain(server.certificate, server.key)

    def _reload_authorities(self, tls: ssl.SSLContext, changed: Callable[[], None]) -> None:
        clients = self._read_authorities()
        if self._proxy is not None and self._options.requestheader_client_ca_file is not None:
            proxies = Authorities.read(self._options.requestheader_client_ca_file)
            self._check_overlap(clients, proxies)
            self._proxy.authorities = proxies
        self._clients.authorities = clients
        trust_clients_of(tls, self._authority_files())
        changed()

    def _front_proxy(self, clock: Clock) -> FrontProxy | None:
        options, path = self._options, self._options.requestheader_client_ca_file
        given = {
            "--requestheader-username-headers": options.requestheader_username_headers,
            "--requestheader-uid-headers": options.requestheader_uid_headers,
            "--requestheader-group-headers": options.requestheader_group_headers,
            "--requestheader-extra-headers-prefix": options.requestheader_extra_headers_prefix,
            "--requestheader-allowed-names": options.requestheader_allowed_names,
        }
        for flag, names in given.items():
            if any(not name.strip() for name in names):
                raise OptionError(f"{flag}: an empty name; expected names by commas")
            if names and path is None:
                raise OptionError(f"{flag} has no effect without --requestheader-client-ca-file FILE")
        self._check_proxy_client()
        if path is None:
            return None
        with _refusing("--requestheader-client-ca-file", path):
            proxies = Authorities.read(path)
        assert self._clients.authorities is not None
        self._check_overlap(self._clients.authorities, proxies)
        return FrontProxy(proxies, options.proxy_headers, clock)

    def _check_proxy_client(self) -> None:
        """Refuse a certificate for extension API servers that they could not verify, or that cannot be read."""
        options = self._options
        given = (options.proxy_client_cert_file, options.proxy_client_key_file)
        if given == (None, None):
            return
        if None in given:
            raise OptionError("--proxy-client-cert-file and --proxy-client-key-file: expected both or neither")
        if options.requestheader_client_ca_file is None:
            raise OptionError("--proxy-client-cert-file has no effect without --requestheader-client-ca-file FILE")
        with _refusing("--proxy-client-cert-file", options.proxy_client_cert_file):
            client_context(files=options.proxy_client_files)

    def _check_overlap(self, clients: Authorities, proxies: Authorities) -> None:
        if not self._options.requestheader_allowed_names and clients.overlap(proxies):
            raise OptionError(
                "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; "
                "--requestheader-allowed-names must be specified to ensure regular client certificates cannot set "
                "authenticating proxy headers for arbitrary users"
            )

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
        """The files of all authorities that are named in handshakes."""
        proxies = self._options.requestheader_client_ca_file
        return (*self._client_authority_files(), *([proxies] if proxies is not None else []))

    def _client_authority_files(self) -> tuple[Path, ...]:
        given = self._options.client_ca_file
        return (self._credentials.authority, *([given] if given is not None else []))

    def _read_authorities(self) -> Authorities:
        pems = [Authorities.read(path).pem for path in self._client_authority_files()]
        return Authorities(b"".join(pem.rstrip() + b"\n" for pem in pems))


def check_issuers(options: AuthenticationOptions) -> None:
    """Refuse issuers of service account tokens that are empty, given twice, or look like a URL and are none."""
    issuers = options.service_account_issuer
    for index, issuer in enumerate(issuers):
        if not issuer:
            raise OptionError("--service-account-issuer: expected a URL or a name, not an empty text")
        if issuer in issuers[:index]:
            raise OptionError(f"--service-account-issuer {issuer!r} is given twice")
        try:
            urlsplit(issuer)
        except ValueError as error:
            raise OptionError(f"--service-account-issuer {issuer!r} is not a valid URL: {error}") from None
    if (uri := options.service_account_jwks_uri) and not uri.startswith("https://"):
        raise OptionError(f"--service-account-jwks-uri {uri!r}: expected a URL that begins with https://")
    if not all(options.api_audiences):
        raise OptionError("--api-audiences: expected names by commas, none of them empty")


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


def _remote_tokens(options: AuthenticationOptions, clock: Clock) -> RemoteTokens | None:
    if not options.remote:
        return None
    from kapi.controlplane.remotetokens import RemoteTokens

    return RemoteTokens(options, clock)
