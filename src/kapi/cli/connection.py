"""The options of the commands that talk to a server: which one, as which user, in which namespace.

They are declared without importing the client, so that `kapi --help` and `kapi up` do not pay for it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kapi.cli.command import add_flag, at_least

if TYPE_CHECKING:
    from kapi.cli.session import Connection


def add_connection_options(parser: argparse.ArgumentParser, *, given_only: bool = False) -> None:
    """Add the options of the connection; with `given_only`, options that are not given leave no attribute."""
    group = parser.add_argument_group("connection")
    missing = argparse.SUPPRESS if given_only else None

    def add(*names: str, **keywords: Any) -> None:
        group.add_argument(*names, default=missing, **keywords)

    add("-n", "--namespace", help="the namespace, instead of the context's")
    add("--kubeconfig", metavar="FILE", help="instead of $KUBECONFIG or ~/.kube/config")
    add("--context", help="a context of the kubeconfig")
    add("-s", "--server", metavar="URL", help="the address of the server")
    add("--token", help="a bearer token")
    add("--certificate-authority", metavar="FILE", help="certificates of the authorities to trust")
    add("--client-certificate", metavar="FILE", help="a client certificate")
    add("--client-key", metavar="FILE", help="the key of the client certificate")
    add_flag(
        group,
        "--insecure-skip-tls-verify",
        help="do not verify the server's certificate",
        default=argparse.SUPPRESS if given_only else False,
    )
    add("--tls-server-name", metavar="NAME", help="the name in the server's certificate")
    add("--as", dest="as_user", metavar="USER", help="the user to impersonate")
    add("--as-group", action="append", metavar="GROUP", help="a group to impersonate; repeatable")
    add("--request-timeout", metavar="SECONDS", type=at_least(0.1), help="the time-out of each request")


def connection_of(arguments: argparse.Namespace) -> Connection:
    """Return the connection that parsed options describe."""
    from kapi.cli.session import Connection

    return Connection(
        namespace=arguments.namespace,
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        server=arguments.server,
        token=arguments.token,
        certificate_authority=arguments.certificate_authority,
        client_certificate=arguments.client_certificate,
        client_key=arguments.client_key,
        insecure=arguments.insecure_skip_tls_verify,
        tls_server_name=arguments.tls_server_name,
        as_user=arguments.as_user,
        as_groups=tuple(arguments.as_group or ()),
        request_timeout=arguments.request_timeout,
    )
