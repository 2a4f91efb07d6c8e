"""Authorization as the options configure it: the authorizers of a server, and the RBAC policy they share."""

from __future__ import annotations

import asyncio
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
from kapi.server.configfile import ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.user import User
    from kapi.base.clock import Clock
    from kapi.controlplane.authorizationoptions import AuthorizationOptions
    from kapi.registry.catalog import Catalog
    from kapi.server.authz.authorizer import LocalAuthorizer, RemoteAuthorizer
    from kapi.server.authz.webhook import WebhookAuthorizer
    from kapi.server.filewatch import FileWatch


class Authorization:
    """The authorizer of a server. Members of system:masters are allowed everything before any mode is asked."""

    def __init__(self, options: AuthorizationOptions, catalog: Catalog, *, clock: Clock) -> None:
        self._options = options
        self._catalog = catalog
        self._clock = clock
        self._policy = Policy(catalog)
        self._policy.start()
        self._rbac = RbacAuthorizer(self._policy)
        self._node: NodeAuthorizer | None = None
        self._webhooks: list[WebhookAuthorizer] = []
        self._replaced_webhooks: list[WebhookAuthorizer] = []
        """Those of the configuration before, which requests may still wait for."""
        self._closing: set[asyncio.Task[None]] = set()
        self._configs = self._configured()
        self.authorizer = Authorizer(*self._members(self._configs))
        # Roles and bindings are checked in every mode: one that is stored now may be enforced after a restart.
        self.escalation_check = EscalationCheck(self._policy, self.authorizer)

    async def may_use_signer(self, user: User, verb: str, name: str) -> bool:
        """Return True if a user may approve or sign for a signer, by its name."""
        attributes = Attributes(user, verb, "certificates.k8s.io", "*", "signers", name=name)
        return (await self.authorizer.authorize(attributes)).allowed

    def watch(self, files: FileWatch) -> None:
        """Read the configuration file again when it changes."""
        if self._options.config_file is not None:
            files.add("authorization-config", (self._options.config_file,), self._reload)

    async def close(self) -> None:
        """Close what the authorizers hold open."""
        for webhook in (*self._webhooks, *self._replaced_webhooks):
            await webhook.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _reload(self) -> None:
        """Read the configuration file; `ConfigFileError` if it cannot be used, and what was read before stays."""
        configs = self._configured()
        if configs == self._configs:
            return
        self._check_types(configs)
        before, self._webhooks = self._webhooks, []
        try:
            members = self._members(configs)
        except ConfigFileError:
            self._webhooks = before
            raise
        self.authorizer.replace(*members)
        self._configs = configs
        unused, self._replaced_webhooks = self._replaced_webhooks, before
        for webhook in unused:
            task = asyncio.ensure_future(webhook.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _check_types(self, configs: Sequence[AuthorizerConfig]) -> None:
        """Refuse a change of the types that are not webhooks, which must stay what they were at the start."""
        before, wanted = ({config.type for config in one} - {WEBHOOK} for one in (self._configs, configs))
        if missing := before - wanted:
            raise ConfigFileError(f"{self._options.config_file}: missing required types: [{' '.join(sorted(missing))}]")
        for added in sorted((wanted - before) & {"Node", "RBAC"}):
            why = f"authorizer type {added} is not allowed if it was not enabled at initial server startup"
            raise ConfigFileError(f"{self._options.config_file}: {why}")

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

    def _members(self, configs: Sequence[AuthorizerConfig]) -> list[LocalAuthorizer | RemoteAuthorizer]:
        """Return the members of the union. Raises `ConfigFileError` for the kubeconfig of a webhook."""
        return [PrivilegedGroup(), *map(self._member, configs)]

    def _member(self, config: AuthorizerConfig) -> LocalAuthorizer | RemoteAuthorizer:
        match config.type:
            case "RBAC":
                return self._rbac
            case "Node":
                return self._node_authorizer()
            case "Webhook":
                assert config.webhook is not None
                return self._open_webhook(config.webhook)
            case "AlwaysDeny":
                return AlwaysDeny()
            case _:
                return AlwaysAllow()

    def _node_authorizer(self) -> NodeAuthorizer:
        if self._node is None:
            self._node = NodeAuthorizer(self._catalog, [Rule(rule) for rule in node_rules()])
            self._node.start()
        return self._node

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
