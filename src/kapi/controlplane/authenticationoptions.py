"""The options of a control plane that are about authentication, under the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from kapi.base.tls import KeyPair
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
    proxy_client_cert_file: Path | None = None
    """The certificate that this server shows to extension API servers, of an authority of front proxies."""
    proxy_client_key_file: Path | None = None
    authentication_config: Path | None = None
    """An AuthenticationConfiguration: issuers of tokens, and the paths of anonymous requests."""
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    """In front of user names; empty: the issuer and `#`, unless the claim is `email`; `-`: nothing."""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_signing_algs: tuple[str, ...] = ()
    oidc_required_claim: tuple[str, ...] = ()
    authentication_token_webhook_config_file: Path | None = None
    """The kubeconfig of a webhook that is asked for the users of tokens."""
    authentication_token_webhook_version: str = "v1"  # noqa: S105 (a version of the API)
    authentication_token_webhook_cache_ttl: float = 120.0
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
    def oidc(self) -> bool:
        """True if an --oidc-* flag is given."""
        usual = AuthenticationOptions()
        return any(
            getattr(self, field.name) != getattr(usual, field.name)
            for field in fields(self)
            if field.name.startswith("oidc_")
        )

    @property
    def remote(self) -> bool:
        """True if other servers are asked for the users of tokens, or a configuration file may say so."""
        files = (self.authentication_config, self.authentication_token_webhook_config_file)
        return self.oidc or any(path is not None for path in files)

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
    def proxy_client_files(self) -> KeyPair | None:
        """The files of the certificate for extension API servers, if they are given."""
        certificate, key = self.proxy_client_cert_file, self.proxy_client_key_file
        return KeyPair(certificate, key) if certificate is not None and key is not None else None

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers of service account tokens."""
        return self.service_account_issuer or (DEFAULT_ISSUER,)

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this server."""
        return self.api_audiences or self.issuers
