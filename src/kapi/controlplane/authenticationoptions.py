"""The options of a control plane that are about authentication, under the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kapi.server.authn.frontproxy import ProxyHeaders

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """The credentials a server accepts, and the files they are read from."""

    client_ca_file: Path | None = None
    """Authorities of client certificates. The server's own, which issued the admin's certificate, is one always."""

    token_auth_file: Path | None = None
    """A file of tokens: token, user name, uid and groups, separated by commas."""
    enable_bootstrap_token_auth: bool = True
    """True if Secrets of type bootstrap.kubernetes.io/token in kube-system are tokens."""
    anonymous_auth: bool | None = None
    """False if requests without credentials are refused; None: nothing was said, and they are allowed."""
    requestheader_client_ca_file: Path | None = None
    """Authorities of front proxies, whose headers name the user of a request."""
    requestheader_allowed_names: tuple[str, ...] = ()
    """The common names of the certificates that may use the headers; none: all."""
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()
    service_account_issuer: tuple[str, ...] = ()
    """The issuers of service account tokens that are accepted; the first one is that of new tokens."""
    service_account_signing_key_file: Path | None = None
    """The private key that signs service account tokens; None: one in the data folder."""
    service_account_key_file: tuple[Path, ...] = ()
    """Further keys that verify service account tokens."""
    service_account_max_token_expiration: int = 0
    """The longest life of a service account token in seconds; 0 for no limit."""
    service_account_extend_token_expiration: bool = True
    """True if tokens that admission injects into pods are valid for a year."""
    service_account_jwks_uri: str = ""
    """The address of the keys in the discovery document; empty for this server's."""
    api_audiences: tuple[str, ...] = ()
    """The audiences of this server; none: the issuers."""

    @property
    def proxy_headers(self) -> ProxyHeaders:
        """The headers of front proxies: those that are given, or the usual ones."""
        usual = ProxyHeaders()
        return ProxyHeaders(
            self.requestheader_username_headers or usual.username,
            self.requestheader_uid_headers or usual.uid,
            self.requestheader_group_headers or usual.group,
            self.requestheader_extra_headers_prefix or usual.extra_prefix,
            self.requestheader_allowed_names,
        )

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers of service account tokens."""
        return self.service_account_issuer or (DEFAULT_ISSUER,)

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this server."""
        return self.api_audiences or self.issuers
