"""The options of `kapi up` that are about admission, under the names of kube-apiserver's flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.cli.command import Parser


def add_admission_options(parser: Parser) -> None:
    """Add the options."""
    group = parser.add_argument_group("admission")
    for verb, what in (("enable", "that are off by default"), ("disable", "that are on by default")):
        group.add_argument(
            f"--{verb}-admission-plugins", default="", metavar="NAME,...", help=f"{verb} admission plug-ins {what}"
        )
    group.add_argument(
        "--admission-control-config-file",
        type=Path,
        metavar="FILE",
        help="an AdmissionConfiguration with the configuration of single plug-ins",
    )
    for state, words in (("not-ready", "not ready"), ("unreachable", "not reachable")):
        group.add_argument(
            f"--default-{state}-toleration-seconds",
            type=int,
            default=300,
            metavar="SECONDS",
            help=f"how long pods stay by default on a node that is {words} (default: 300)",
        )
    group.add_argument(
        "--service-override",
        "--webhook-service-override",
        action="append",
        default=[],
        metavar="NAMESPACE/NAME[:PORT]=HOST:PORT",
        help="call webhooks and extension API servers behind a Service at a loopback address: for those that are "
        "developed on this machine",
    )
