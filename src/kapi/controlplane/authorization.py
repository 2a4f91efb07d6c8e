"""Authorization as the options configure it: the authorizers of a server, and the RBAC policy they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controlplane.authorizationoptions import MODES
from kapi.controlplane.rbac.bootstrappolicy import node_rules
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizer import Authorizer
from kapi.server.authz.fixed import AlwaysAllow, AlwaysDeny
from kapi.server.authz.node import NodeAuthorizer
from kapi.server.authz.rbac.authorizer import RbacAuthorizer
from kapi.server.authz.rbac.escalation import EscalationCheck
from kapi.server.authz.rbac.policy import Policy
from kapi.server.authz.rbac.rules import Rule
from kapi.server.authz.settings import WEBHOOK, AuthorizerConfig, WebhookSettings
from kapi.server.authz.superuser import PrivilegedGroup

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.base.clock import Clock
    from kapi.controlplane.authorizationoptions import AuthorizationOptions
    from kapi.registry.catalog import Catalog
    from kapi.server.authz.authorizer import LocalAuthorizer, RemoteAuthorizer
    from kapi.server.authz.webhook import WebhookAuthorizer


class Authorization:
    """The authorizer of a server. Members of system:masters are allowed everything before any mode is asked."""

    def __init__(self, options: AuthorizationOptions, catalog: Catalog, *, clock: Clock) -> None:
        self._options = options
        self._catalog = catalog
        self._clock = clock
        self._webhooks: list[WebhookAuthorizer] = []
        self._policy = Policy(catalog)
        self._policy.start()
        self.authorizer = Authorizer(PrivilegedGroup(), *map(self._member, self._configured()))
        # Roles and bindings are checked in every mode: one that is stored now may be enforced after a restart.
        self.escalation_check = EscalationCheck(self._policy, self.authorizer)

    async def may_use_signer(self, user: User, verb: str, name: str) -> bool:
        """Return True if a user may approve or sign for a signer, by its name."""
        attributes = Attributes(user, verb, "certificates.k8s.io", "*", "signers", name=name)
        return (await self.authorizer.authorize(attributes)).allowed

    async def close(self) -> None:
        """Close what the authorizers hold open."""
        for webhook in self._webhooks:
            await webhook.close()

    def _configured(self) -> list[AuthorizerConfig]:
        """Return the authorizers that the options name. Raises `ConfigFileError`."""
        options = self._options
        if options.config_file is not None:
            # Imported here: it brings the expression language, which most servers do not need to start.
            from kapi.server.authz.authorizationconfig import read_authorization_config

            return read_authorization_config(options.config_file, MODES)
        settings = None
        if options.webhook_config_file is not None:
            seconds = (options.webhook_authorized_seconds, options.webhook_unauthorized_seconds)
            settings = WebhookSettings(options.webhook_config_file, *seconds)
        return [AuthorizerConfig(mode, settings if mode == WEBHOOK else None) for mode in options.modes]

    def _member(self, config: AuthorizerConfig) -> LocalAuthorizer | RemoteAuthorizer:
        match config.type:
            case "RBAC":
                return RbacAuthorizer(self._policy)
            case "Node":
                node = NodeAuthorizer(self._catalog, [Rule(rule) for rule in node_rules()])
                node.start()
                return node
            case "Webhook":
                assert config.webhook is not None
                return self._open_webhook(config.webhook)
            case "AlwaysDeny":
                return AlwaysDeny()
            case _:
                return AlwaysAllow()

    def _open_webhook(self, settings: WebhookSettings) -> WebhookAuthorizer:
        # Imported here: most servers call no webhook, and its libraries take a while to import.
        from kapi.server.authz.webhook import WebhookAuthorizer
        from kapi.server.webhooks.kubeconfig import read_webhook_config

        webhook = WebhookAuthorizer(
            read_webhook_config(settings.kubeconfig),
            authorized_seconds=settings.authorized_seconds,
            unauthorized_seconds=settings.unauthorized_seconds,
            call_seconds=settings.timeout,
            fails_closed=settings.fails_closed,
            conditions=settings.conditions,
            clock=self._clock,
        )
        self._webhooks.append(webhook)
        return webhook
