"""The options of `kapi up` that are about authorization, under the names of kube-apiserver's flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.cli.command import Parser


def add_authorization_options(parser: Parser) -> None:
    """Add the options."""
    group = parser.add_argument_group("authorization")
    group.add_argument(
        "--authorization-mode",
        metavar="MODE,...",
        help="who is asked, in order: AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook (default: Node,RBAC)",
    )
    group.add_argument(
        "--authorization-config",
        type=Path,
        metavar="FILE",
        help="an AuthorizationConfiguration with the authorizers in order, instead of the other options",
    )
    group.add_argument(
        "--authorization-webhook-config-file",
        type=Path,
        metavar="FILE",
        help="the kubeconfig of the server that the mode Webhook asks",
    )
    for name, default, what in (("authorized", "5m", "allowed"), ("unauthorized", "30s", "did not allow")):
        group.add_argument(
            f"--authorization-webhook-cache-{name}-ttl",
            metavar="DURATION",
            help=f"the time for which answers of the webhook that {what} are remembered (default: {default})",
        )
