"""The options of `kapi up` that are about authentication and TLS, under the names of kube-apiserver's flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kapi.api.go.durations import SECOND, parse_duration
from kapi.cli.command import add_flag

if TYPE_CHECKING:
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


def add_authentication_options(parser: Parser) -> None:
    """Add the options."""
    _add_serving(parser)
    group = parser.add_argument_group("authentication")
    group.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="further authorities whose client certificates name a user (CN) and groups (O)",
    )
    group.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help='tokens of users, one per line: token,user,uid,"group1,group2"',
    )
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
    group.add_argument(
        "--api-audiences",
        action=_Repeated,
        split=True,
        default=(),
        metavar="NAME,...",
        help="the audiences of this server, which tokens must be for (default: the issuers of service account tokens)",
    )
    _add_oidc(parser)
    _add_webhook(parser)
    _add_front_proxy(parser)
    _add_service_accounts(parser)


def _add_serving(parser: Parser) -> None:
    group = parser.add_argument_group("TLS")
    group.add_argument(
        "--tls-cert-file",
        type=Path,
        metavar="FILE",
        help="the server's certificate and its intermediates (default: one is issued by a CA in the data folder)",
    )
    group.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="the key of --tls-cert-file")
    group.add_argument(
        "--tls-san",
        action=_Repeated,
        default=(),
        metavar="NAME",
        help="a further host name or address in the certificate that is issued; can be repeated",
    )


def _add_oidc(parser: Parser) -> None:
    group = parser.add_argument_group("OpenID Connect")
    group.add_argument(
        "--authentication-config",
        type=Path,
        metavar="FILE",
        help="an AuthenticationConfiguration: issuers of tokens, and the paths of anonymous requests",
    )
    group.add_argument("--oidc-issuer-url", default="", metavar="URL", help="the issuer, if there is one only")
    group.add_argument("--oidc-client-id", default="", metavar="ID", help="the audience that tokens must be for")
    group.add_argument("--oidc-ca-file", type=Path, metavar="FILE", help="the authorities of the issuer's certificate")
    for name, default, what in (
        ("username-claim", "sub", "the claim with the user name (default: sub)"),
        ("username-prefix", "", "in front of user names; - for nothing (default: the issuer and #)"),
        ("groups-claim", "", "the claim with the groups"),
        ("groups-prefix", "", "in front of groups"),
    ):
        group.add_argument(f"--oidc-{name}", default=default, metavar="TEXT", help=what)
    group.add_argument(
        "--oidc-signing-algs",
        action=_Repeated,
        split=True,
        default=(),
        metavar="NAME,...",
        help="the algorithms that tokens may be signed with (default: RS256)",
    )
    group.add_argument(
        "--oidc-required-claim",
        action=_Repeated,
        default=(),
        metavar="CLAIM=VALUE",
        help="a claim that a token must have; can be repeated",
    )


def _add_webhook(parser: Parser) -> None:
    group = parser.add_argument_group("token review webhook")
    group.add_argument(
        "--authentication-token-webhook-config-file",
        type=Path,
        metavar="FILE",
        help="the kubeconfig of a webhook that is asked for the users of tokens",
    )
    group.add_argument(
        "--authentication-token-webhook-version",
        default="v1",
        metavar="v1|v1beta1",
        help="the version of the TokenReviews that are sent (default: v1)",
    )
    group.add_argument(
        "--authentication-token-webhook-cache-ttl",
        type=_seconds,
        default=120.0,
        metavar="DURATION",
        help="how long its answers are remembered (default: 2m)",
    )


def _add_front_proxy(parser: Parser) -> None:
    group = parser.add_argument_group("front proxy")
    group.add_argument(
        "--requestheader-client-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of front proxies, which name the user of a request in headers",
    )
    for name, what in (
        ("allowed-names", "the common names of the proxies' certificates (default: all)"),
        ("username-headers", "the headers with the user name (default: X-Remote-User)"),
        ("uid-headers", "the headers with the uid (default: X-Remote-Uid)"),
        ("group-headers", "the headers with the groups (default: X-Remote-Group)"),
        ("extra-headers-prefix", "the beginning of headers with further attributes (default: X-Remote-Extra-)"),
    ):
        group.add_argument(
            f"--requestheader-{name}", action=_Repeated, split=True, default=(), metavar="NAME,...", help=what
        )


def _add_service_accounts(parser: Parser) -> None:
    group = parser.add_argument_group("service account tokens")
    group.add_argument(
        "--service-account-issuer",
        action=_Repeated,
        default=(),
        metavar="URL",
        help="the issuer of tokens; can be repeated: all are accepted, the first one is that of new tokens "
        "(default: https://kubernetes.default.svc.cluster.local)",
    )
    group.add_argument(
        "--service-account-signing-key-file",
        type=Path,
        metavar="FILE",
        help="the private key that signs tokens (default: one in the data folder)",
    )
    group.add_argument(
        "--service-account-key-file",
        action=_Repeated,
        default=(),
        type=Path,
        metavar="FILE",
        help="keys or certificates that verify tokens, too; can be repeated",
    )
    group.add_argument(
        "--service-account-max-token-expiration",
        type=_seconds,
        default=0,
        metavar="DURATION",
        help="the longest life of a token (default: no limit)",
    )
    add_flag(
        group,
        "--service-account-extend-token-expiration",
        default=True,
        help="let tokens that admission injects into pods be valid for a year (default: true)",
    )
    group.add_argument(
        "--service-account-jwks-uri",
        default="",
        metavar="URL",
        help="the address of the keys in the discovery document (default: this server's)",
    )
