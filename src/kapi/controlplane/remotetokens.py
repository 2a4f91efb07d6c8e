"""Tokens that other servers know: OpenID Connect issuers and a token review webhook, as the options configure them.

Only servers with such options import this; the HTTP client behind it takes a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.base.http import Outbound
from kapi.base.jwt import ALGORITHMS
from kapi.controlplane.options import OptionError
from kapi.server.authn.authenticationconfig import AuthenticationConfig, config_errors, read_authentication_config
from kapi.server.authn.oidc import OidcTokens
from kapi.server.authn.tokenwebhook import TokenWebhook
from kapi.server.webhooks.kubeconfig import read_webhook_config

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.controlplane.authenticationoptions import AuthenticationOptions


class RemoteTokens:
    """The token sources that ask other servers."""

    def __init__(self, options: AuthenticationOptions, clock: Clock) -> None:
        self._options = options
        self._outbound = Outbound()
        self.sources: list[OidcTokens | TokenWebhook] = []
        """The sources, in the order in which they are asked."""
        self.config = AuthenticationConfig(())
        self._oidc = OidcTokens(options.audiences, self._outbound, clock)
        if options.authentication_config is not None:
            if options.oidc:
                raise OptionError("--authentication-config and --oidc-* flags are mutually exclusive")
            self.reload()
            self.sources.append(self._oidc)
        elif options.oidc:
            self._oidc.configure([self._flag_issuer()], _algorithms(options.oidc_signing_algs))
            self.sources.append(self._oidc)
        if (path := options.authentication_token_webhook_config_file) is not None:
            version = options.authentication_token_webhook_version
            if version not in ("v1", "v1beta1"):
                raise OptionError(f"--authentication-token-webhook-version {version!r}: expected v1 or v1beta1")
            endpoint = read_webhook_config(path)
            ttl = options.authentication_token_webhook_cache_ttl
            webhook = TokenWebhook(endpoint, self._outbound, options.audiences, clock, version=version, ttl=ttl)
            self.sources.append(webhook)

    def reload(self) -> None:
        """Read the file of --authentication-config; `ValueError` if it has mistakes, and what was read before stays."""
        path = self._options.authentication_config
        assert path is not None
        config = read_authentication_config(path, self._options.issuers)
        if config.anonymous is not None and self._options.anonymous_auth is not None:
            raise OptionError(
                f"{path}: anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured "
                "in authentication configuration file"
            )
        self._oidc.configure(config.issuers)
        self.config = config

    async def close(self) -> None:
        """Drop all connections."""
        await self._outbound.close()

    def _flag_issuer(self) -> dict[str, Any]:
        """Return what the --oidc-* flags say as an entry of an AuthenticationConfiguration."""
        options = self._options
        url, client = options.oidc_issuer_url, options.oidc_client_id
        if not url or not client:
            raise OptionError(
                "--oidc-issuer-url and --oidc-client-id must be specified together when any --oidc-* flags are set"
            )
        prefix = options.oidc_username_prefix
        if not prefix and options.oidc_username_claim != "email":
            prefix = f"{url}#"
        issuer: dict[str, Any] = {"url": url, "audiences": [client]}
        if options.oidc_ca_file is not None:
            try:
                issuer["certificateAuthority"] = options.oidc_ca_file.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise OptionError(f"--oidc-ca-file {options.oidc_ca_file}: {error}") from None
        mappings: dict[str, Any] = {
            "username": {"claim": options.oidc_username_claim, "prefix": "" if prefix == "-" else prefix}
        }
        if options.oidc_groups_claim:
            mappings["groups"] = {"claim": options.oidc_groups_claim, "prefix": options.oidc_groups_prefix}
        rules = [_required_claim(text) for text in options.oidc_required_claim]
        entry = {"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}
        if errors := list(config_errors({"jwt": [entry]}, options.issuers)):
            raise OptionError("--oidc-* flags: " + "; ".join(map(str, errors)))
        return entry


def _required_claim(text: str) -> dict[str, str]:
    claim, equals, value = text.partition("=")
    if not claim or not equals:
        raise OptionError(f"--oidc-required-claim {text!r}: expected CLAIM=VALUE")
    return {"claim": claim, "requiredValue": value}


def _algorithms(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in ALGORITHMS:
            raise OptionError(f"--oidc-signing-algs {name!r}: expected one or more of {', '.join(ALGORITHMS)}")
    return names or ("RS256",)
