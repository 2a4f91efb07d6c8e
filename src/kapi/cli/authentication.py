"""The options of `kapi up` that are about authentication and TLS, under the names of kube-apiserver's flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.cli.command import Parser


def add_authentication_options(parser: Parser) -> None:
    """Add the options."""
    serving = parser.add_argument_group("TLS")
    serving.add_argument(
        "--tls-cert-file",
        type=Path,
        metavar="FILE",
        help="the server's certificate and its intermediates (default: one is issued by a CA in the data folder)",
    )
    serving.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="the key of --tls-cert-file")
    serving.add_argument(
        "--tls-san",
        action="append",
        default=[],
        metavar="NAME",
        help="a further host name or address in the certificate that is issued; can be repeated",
    )
    clients = parser.add_argument_group("authentication")
    clients.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="further authorities whose client certificates name a user (CN) and groups (O)",
    )
