"""The `kapi` program. Commands are thin: they read options, call the library, and print."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.base.version import described
from kapi.cli.admission import add_admission_options
from kapi.cli.authentication import add_authentication_options
from kapi.cli.authorization import add_authorization_options
from kapi.cli.command import (
    Command,
    Group,
    Parser,
    add_flag,
    at_least,
    boolean,
    command_list,
    duration,
    find,
    whole_number,
)
from kapi.cli.connection import add_connection_options
from kapi.cli.dev.command import DEV
from kapi.cli.envtest import ENVTEST_ASSETS
from kapi.cli.generate import GENERATE
from kapi.cli.project import ADD, EDIT, INIT
from kapi.cli.resources import COMMANDS as RESOURCE_COMMANDS
from kapi.cli.run import RUN
from kapi.cli.store import STORE
from kapi.cli.user import USER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ABOUT: Final = "A Kubernetes-compatible control plane in one process, and a small kubectl."


def _add_server(parser: Parser, log_level: str) -> None:
    """Add the options that `kapi up` and `kapi demo` share."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(".kapi"),
        metavar="DIR",
        help="the folder of keys and database (default: .kapi)",
    )
    parser.add_argument(
        "--bind",
        default="127.0.0.1:6443",
        metavar="HOST:PORT",
        help="the address to listen on; port 0 picks a free one (default: 127.0.0.1:6443)",
    )
    parser.add_argument(
        "--storage",
        default="sqlite",
        metavar="sqlite|memory|etcd://...",
        help="the store: sqlite in the data folder, memory, or etcd at etcd://HOST:PORT,.../PREFIX (default: sqlite)",
    )
    parser.add_argument(
        "--log-level", default=log_level, metavar="LEVEL", help=f"debug, info, warning or error (default: {log_level})"
    )
    parser.add_argument(
        "--log-format", default="text", metavar="text|json", help="the format of log lines (default: text)"
    )


def add_up_options(parser: Parser) -> None:
    """Add the options of `kapi up`."""
    _add_server(parser, "info")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where to write the admin's kubeconfig (default: admin.kubeconfig in the data folder)",
    )
    parser.add_argument(
        "--advertise-address",
        default="",
        metavar="IP",
        help="the address at which other machines reach this server (default: the host of --bind)",
    )
    parser.add_argument("--socket", type=Path, metavar="FILE", help="listen on this unix socket, too")
    parser.add_argument(
        "--history-seconds",
        type=at_least(1),
        default=300.0,
        metavar="SECONDS",
        help="how long old revisions can be listed and watched from; clients expect 75 or more (default: 300)",
    )
    parser.add_argument(
        "--controllers",
        default="*",
        metavar="LIST",
        help="a comma-separated list of controllers: * enables all, NAME enables one, -NAME disables one; an empty list"
        " enables none (default: *)",
    )
    parser.add_argument(
        "--event-ttl",
        type=at_least(1),
        default=3600.0,
        metavar="SECONDS",
        help="how long Events are kept (default: 3600)",
    )
    parser.add_argument(
        "--service-cluster-ip-range",
        default="10.0.0.0/24",
        metavar="CIDR[,CIDR]",
        help="the range of cluster IPs, or one of each IP family (default: 10.0.0.0/24)",
    )
    _add_sharing(parser)
    add_authentication_options(parser)
    add_authorization_options(parser)
    add_admission_options(parser)
    _add_encryption(parser)
    _add_flow_control(parser)
    _add_audit(parser)


def _add_sharing(parser: Parser) -> None:
    parser.add_argument(
        "--pki-dir",
        type=Path,
        metavar="DIR",
        help="the folder of the CA, of the admin's credentials and of the key of service accounts, which all servers of"
        " a store share (default: pki in the data folder)",
    )
    parser.add_argument(
        "--workers",
        type=whole_number,
        default=1,
        metavar="NUMBER",
        help="how many API servers to run on the address, each in a process of its own; more than one need a store in"
        " etcd (default: 1)",
    )
    parser.add_argument(
        "--shutdown-delay-duration",
        type=duration,
        default=0.0,
        metavar="DURATION",
        help="how long to serve requests after the signal to stop, while /readyz fails already, such as 10s"
        " (default: 0s)",
    )


def _add_encryption(parser: Parser) -> None:
    parser.add_argument(
        "--encryption-provider-config",
        type=Path,
        metavar="FILE",
        help="an EncryptionConfiguration: which resources are stored encrypted, and how; read again when it changes",
    )


def _add_flow_control(parser: Parser) -> None:
    parser.add_argument(
        "--enable-priority-and-fairness",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="queue and refuse requests by FlowSchemas and PriorityLevelConfigurations (default: true)",
    )
    for name, default, what in (
        ("max-requests-inflight", 400, "read"),
        ("max-mutating-requests-inflight", 200, "write"),
    ):
        parser.add_argument(
            f"--{name}",
            type=whole_number,
            default=default,
            metavar="NUMBER",
            help=f"the share of requests that {what} in the number that run at a time (default: {default})",
        )


def _add_audit(parser: Parser) -> None:
    parser.add_argument(
        "--audit-log",
        "--audit-log-path",
        type=Path,
        metavar="FILE",
        help="record requests in this file as audit.k8s.io/v1 Events; - for standard output (default: no record)",
    )
    parser.add_argument(
        "--audit-policy-file",
        type=Path,
        metavar="FILE",
        help="an audit.k8s.io/v1 Policy: what to record (default: who, what and when, and the bodies of writes)",
    )
    parser.add_argument(
        "--audit-webhook-config-file",
        type=Path,
        metavar="FILE",
        help="send audit events to the server of this kubeconfig, too, in batches",
    )
    parser.add_argument(
        "--audit-log-mode",
        choices=("batch", "blocking"),
        default="batch",
        metavar="batch|blocking",
        help="batch: an event of a read that succeeds is written up to 50 ms after its response, all others before; "
        "blocking: every event is written before its response (default: batch)",
    )
    for name, default, what in (
        ("maxsize", 100, "rotate the audit log at this size in megabytes; 0 for never"),
        ("maxbackup", 10, "keep so many rotated audit logs; 0 for all"),
        ("maxage", 0, "delete rotated audit logs after so many days; 0 for never"),
    ):
        parser.add_argument(
            f"--audit-log-{name}",
            type=whole_number,
            default=default,
            metavar="NUMBER",
            help=f"{what} (default: {default})",
        )


def _up(arguments: argparse.Namespace) -> int:
    # What is imported is not garbage: to look for some is a tenth of the imports. It is enabled again by `cli.up`.
    gc.disable()
    with _hidden("rich"):
        import structlog  # noqa: F401
    from kapi.cli.up import run

    return run(**vars(arguments))


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Let a package look as if it were not installed.

    structlog imports rich, for tracebacks with colours, wherever it is installed. That would be a tenth of the start
    of a server, whose logs have no colours.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _add_demo(parser: Parser) -> None:
    _add_server(parser, "warning")
    add_flag(parser, "--once", help="stop when the example is ready")


def _demo(arguments: argparse.Namespace) -> int:
    from kapi.cli.demo.run import run

    return run(**vars(arguments))


def _version(arguments: argparse.Namespace) -> int:
    sys.stdout.write(f"{described()}\n")
    return 0


COMMANDS: Final[Sequence[Command | Group]] = (
    Command("up", "Start the control plane; stop it with Ctrl-C or SIGTERM", add_up_options, _up),
    Command("demo", "Start the control plane with a custom resource and its controller", _add_demo, _demo),
    RUN,
    DEV,
    *RESOURCE_COMMANDS,
    USER,
    INIT,
    ADD,
    EDIT,
    GENERATE,
    STORE,
    ENVTEST_ASSETS,
    Command("version", "Print the version, and whether it is compiled", lambda _: None, _version, ""),
)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit status."""
    program = Parser(
        "kapi",
        "[CONNECTION OPTION...] COMMAND [OPTION...]",
        f"{_ABOUT}\n\ncommands:\n{command_list(COMMANDS)}",
        "The options of a command: kapi COMMAND --help",
    )
    program.add_argument("--version", action="version", version=described(), help="print the version and exit")
    add_connection_options(program, given_only=True)
    return _dispatch(program, COMMANDS, arguments)


def _dispatch(parser: Parser, commands: Sequence[Command | Group], arguments: Sequence[str]) -> int:
    """Parse what comes before the command, find the command, and run it with the rest."""
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    name, rest = given.pop("command"), given.pop("rest")
    if name is None:
        parser.print_help()
        return 0
    command = find(commands, name, parser)
    if isinstance(command, Group):
        if given:
            parser.error(_misplaced(given, name))
        group = Parser(
            f"{parser.prog} {name}",
            "COMMAND [OPTION...]",
            f"{command.summary}.\n\ncommands:\n{command_list(command.commands)}",
        )
        return _dispatch(group, command.commands, rest)
    if rest and any(rest[0] == sub.name for sub in command.subcommands):
        return _dispatch(Parser(f"{parser.prog} {name}", "", ""), command.subcommands, rest)
    if given and not command.connects:
        parser.error(_misplaced(given, name))
    return command.run(_parse(parser.prog, command, rest, given))


def _misplaced(given: dict[str, object], name: str) -> str:
    options = ", ".join("--" + key.removesuffix("_user").replace("_", "-") for key in given)
    return f"{name} does not connect to a server and takes no {options} before it"


def _parse(prog: str, command: Command, rest: Sequence[str], given: dict[str, object]) -> argparse.Namespace:
    """Parse the options of a command; those that came before it hold unless they are given again."""
    also = f"\n\ncommands:\n{command_list(command.subcommands)}" if command.subcommands else ""
    parser = Parser(f"{prog} {command.name}", command.usage, f"{command.summary}.{also}")
    command.add_options(parser)
    if command.connects:
        add_connection_options(parser)
    parser.set_defaults(**given)
    return parser.parse_intermixed_args(rest)


def main() -> None:
    """Run the command line of this process, and exit."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
