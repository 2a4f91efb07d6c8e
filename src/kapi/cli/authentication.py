"""The options of `kapi up` that are about authentication and TLS, under the names of kube-apiserver's flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kapi.api.go.durations import SECOND, parse_duration
from kapi.cli.command import add_flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.cli.command import Parser


class _Repeated(argparse.Action):
    """An option that can be repeated; its value is a tuple. With `nargs=1` of text, commas separate values, too."""

    def __init__(self, *args: object, split: bool = False, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._split = split

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Add one value."""
        more = tuple(str(values).split(",")) if self._split else (values,)
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *more))


def _seconds(text: str) -> int:
    try:
        return int(parse_duration(text) / SECOND)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; expected a duration such as 24h") from None


def _add_file(group: argparse._ArgumentGroup, flag: str, what: str) -> None:
    group.add_argument(flag, type=Path, metavar="FILE", help=what)


def _add_text(group: argparse._ArgumentGroup, flag: str, metavar: str, what: str, default: str = "") -> None:
    group.add_argument(flag, default=default, metavar=metavar, help=what)


def _add_duration(group: argparse._ArgumentGroup, flag: str, default: float, what: str) -> None:
    group.add_argument(flag, type=_seconds, default=default, metavar="DURATION", help=what)


def _add_list(group: argparse._ArgumentGroup, flag: str, what: str) -> None:
    """Add an option with a list of names, separated by commas."""
    group.add_argument(flag, action=_Repeated, split=True, default=(), metavar="NAME,...", help=what)


def _add_repeated(
    group: argparse._ArgumentGroup, flag: str, metavar: str, what: str, kind: Callable[[str], object] = str
) -> None:
    group.add_argument(flag, action=_Repeated, default=(), type=kind, metavar=metavar, help=what)


def add_authentication_options(parser: Parser) -> None:
    """Add the options."""
    _add_serving(parser.add_argument_group("TLS"))
    _add_credentials(parser.add_argument_group("authentication"))
    _add_oidc(parser.add_argument_group("OpenID Connect"))
    _add_webhook(parser.add_argument_group("token review webhook"))
    _add_front_proxy(parser.add_argument_group("front proxy"))
    _add_service_accounts(parser.add_argument_group("service account tokens"))


def _add_credentials(group: argparse._ArgumentGroup) -> None:
    _add_file(
        group, "--client-ca-file", "further authorities whose client certificates name a user (CN) and groups (O)"
    )
    _add_file(group, "--token-auth-file", 'tokens of users, one per line: token,user,uid,"group1,group2"')
    add_flag(
        group,
        "--enable-bootstrap-token-auth",
        default=True,
        help="accept Secrets of type bootstrap.kubernetes.io/token in kube-system as tokens (default: true)",
    )
    add_flag(
        group,
        "--anonymous-auth",
        default=None,
        help="allow requests without credentials, as system:anonymous (default: true)",
    )
    _add_list(
        group,
        "--api-audiences",
        "the audiences of this server, which tokens must be for (default: the issuers of service account tokens)",
    )


def _add_serving(group: argparse._ArgumentGroup) -> None:
    _add_file(
        group,
        "--tls-cert-file",
        "the server's certificate and its intermediates (default: one is issued by a CA in the data folder)",
    )
    _add_file(group, "--tls-private-key-file", "the key of --tls-cert-file")
    _add_repeated(
        group,
        "--tls-san",
        "NAME",
        "a further host name or address in the certificate that is issued; can be repeated",
    )


def _add_oidc(group: argparse._ArgumentGroup) -> None:
    _add_file(
        group,
        "--authentication-config",
        "an AuthenticationConfiguration: issuers of tokens, and the paths of anonymous requests",
    )
    _add_text(group, "--oidc-issuer-url", "URL", "the issuer, if there is one only")
    _add_text(group, "--oidc-client-id", "ID", "the audience that tokens must be for")
    _add_file(group, "--oidc-ca-file", "the authorities of the issuer's certificate")
    _add_text(group, "--oidc-username-claim", "TEXT", "the claim with the user name (default: sub)", "sub")
    _add_text(
        group,
        "--oidc-username-prefix",
        "TEXT",
        "in front of user names; - for nothing (default: the issuer and #)",
    )
    _add_text(group, "--oidc-groups-claim", "TEXT", "the claim with the groups")
    _add_text(group, "--oidc-groups-prefix", "TEXT", "in front of groups")
    _add_list(group, "--oidc-signing-algs", "the algorithms that tokens may be signed with (default: RS256)")
    _add_repeated(group, "--oidc-required-claim", "CLAIM=VALUE", "a claim that a token must have; can be repeated")


def _add_webhook(group: argparse._ArgumentGroup) -> None:
    flag = "--authentication-token-webhook"
    _add_file(group, f"{flag}-config-file", "the kubeconfig of a webhook that is asked for the users of tokens")
    _add_text(
        group,
        f"{flag}-version",
        "v1|v1beta1",
        "the version of the TokenReviews that are sent (default: v1)",
        "v1",
    )
    _add_duration(group, f"{flag}-cache-ttl", 120.0, "how long its answers are remembered (default: 2m)")


def _add_front_proxy(group: argparse._ArgumentGroup) -> None:
    flag = "--requestheader"
    _add_file(
        group, f"{flag}-client-ca-file", "authorities of front proxies, which name the user of a request in headers"
    )
    for name, what in (
        ("allowed-names", "the common names of the proxies' certificates (default: all)"),
        ("username-headers", "the headers with the user name (default: X-Remote-User)"),
        ("uid-headers", "the headers with the uid (default: X-Remote-Uid)"),
        ("group-headers", "the headers with the groups (default: X-Remote-Group)"),
        ("extra-headers-prefix", "the beginning of headers with further attributes (default: X-Remote-Extra-)"),
    ):
        _add_list(group, f"{flag}-{name}", what)
    _add_file(
        group,
        "--proxy-client-cert-file",
        "the certificate to show to extension API servers (default: one is issued by a CA in the data folder)",
    )
    _add_file(group, "--proxy-client-key-file", "the key of --proxy-client-cert-file")


def _add_service_accounts(group: argparse._ArgumentGroup) -> None:
    flag = "--service-account"
    _add_repeated(
        group,
        f"{flag}-issuer",
        "URL",
        "the issuer of tokens; can be repeated: all are accepted, the first one is that of new tokens "
        "(default: https://kubernetes.default.svc.cluster.local)",
    )
    _add_file(group, f"{flag}-signing-key-file", "the private key that signs tokens (default: one in the data folder)")
    _add_repeated(
        group, f"{flag}-key-file", "FILE", "keys or certificates that verify tokens, too; can be repeated", Path
    )
    _add_duration(group, f"{flag}-max-token-expiration", 0, "the longest life of a token (default: no limit)")
    add_flag(
        group,
        f"{flag}-extend-token-expiration",
        default=True,
        help="let tokens that admission injects into pods be valid for a year (default: true)",
    )
    _add_text(
        group,
        f"{flag}-jwks-uri",
        "URL",
        "the address of the keys in the discovery document (default: this server's)",
    )
