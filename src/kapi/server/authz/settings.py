"""The settings of the authorizers of a server, as flags or a configuration file name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from kapi.server.authz.matchconditions import MatchCondition

WEBHOOK: Final = "Webhook"
MAX_TIMEOUT: Final = 30.0


class WebhookSettings(NamedTuple):
    """The settings of one webhook."""

    kubeconfig: Path
    authorized_seconds: float = 300.0
    unauthorized_seconds: float = 30.0
    timeout: float = MAX_TIMEOUT
    fails_closed: bool = False
    """True if a webhook that fails denies the request."""
    conditions: tuple[MatchCondition, ...] = ()


class AuthorizerConfig(NamedTuple):
    """One authorizer: its type, which is a mode of `--authorization-mode`, and for a webhook its settings."""

    type: str
    webhook: WebhookSettings | None = None
