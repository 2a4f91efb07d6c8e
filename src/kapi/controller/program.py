"""An operator as a program: a manager made from flags that are named as those of Kubernetes components are.

    def setup(manager: Manager) -> None:
        manager.builder().for_(Network).complete(reconcile)

    if __name__ == "__main__":
        kapi.run(setup)  # python operator.py --leader-elect --metrics-bind-address=:8080

`kapi run operator:setup` does the same without the last two lines.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kapi.api.errors import ApiError
from kapi.base.log import configure
from kapi.client.client import Client
from kapi.client.errors import ClientError
from kapi.controller.manager.leaderelection import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS
from kapi.controller.manager.manager import Leadership, LeadershipLost, Manager
from kapi.controller.manager.profilepages import checked_address

if TYPE_CHECKING:
    from collections.abc import Sequence

Setup: TypeAlias = Callable[[Manager], Any]
"""Adds controllers and other runnables to a manager; may be `async`."""

USAGE: Final = 2
FAILED: Final = 1


def run(target: Manager | Setup, arguments: Sequence[str] | None = None) -> None:
    """Run an operator until SIGTERM or SIGINT, and exit if it fails.

    A manager is run as it is. A function is given a manager that is made from `arguments`, or those of the program.
    """
    name = _program_name(Path(sys.argv[0]))
    if isinstance(target, Manager):
        status = execute(target.run())
    else:
        parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
        add_options(parser)
        status = execute(run_setup(target, parser.parse_args(arguments), name=name))
    if status:
        sys.exit(status)


def _program_name(path: Path) -> str:
    """Return the name of the program; of a package that is run by `python -m`, the name of the package."""
    return (path.parent.name if path.stem == "__main__" else path.stem) or "operator"


def execute(running: Any) -> int:
    """Run a coroutine; returns an exit status, with the reason of a failure in one line."""
    try:
        asyncio.run(running)
    except (ApiError, ClientError, LeadershipLost, OSError, ValueError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return FAILED
    return 0


async def run_setup(
    setup: Setup, options: argparse.Namespace, *, name: str, ready: Callable[[Manager], None] | None = None
) -> None:
    """Make a manager as options say, let a function set it up, call `ready` with it, and run it."""
    configure(options.log_level, options.log_format)
    async with Client.connect(
        kubeconfig=options.kubeconfig,
        context=options.context,
        server=options.master,
        field_manager=options.field_manager or name,
    ) as client:
        manager = Manager(
            client,
            namespace=options.namespace,
            leadership=_leadership(options, client, name),
            metrics=options.metrics_bind_address,
            probes=options.health_probe_bind_address,
            profile=options.profile_bind_address,
        )
        done = setup(manager)
        if inspect.isawaitable(done):
            await done
        if ready is not None:
            ready(manager)
        await manager.run()


def _leadership(options: argparse.Namespace, client: Client, name: str) -> Leadership | None:
    if not options.leader_elect:
        return None
    return Leadership(
        options.leader_elect_resource_name or name.replace("_", "-").strip("-").lower(),
        options.leader_elect_resource_namespace or client.namespace,
        lease_seconds=options.leader_elect_lease_duration,
        renew_seconds=options.leader_elect_renew_deadline,
        retry_seconds=options.leader_elect_retry_period,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of an operator."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the kubeconfig (default: as kubectl finds it, or the Pod's)"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="the context of the kubeconfig")
    parser.add_argument("--master", default="", metavar="URL", help="the address of the API server")
    parser.add_argument(
        "--namespace", metavar="NAME,...", help="the namespaces to watch (default: $WATCH_NAMESPACE, or all)"
    )
    parser.add_argument(
        "--field-manager", default="", metavar="NAME", help="the field manager of writes (default: the program's name)"
    )
    for option, what in (("metrics", "/metrics"), ("health-probe", "/livez and /readyz")):
        parser.add_argument(
            f"--{option}-bind-address",
            type=_address,
            metavar="HOST:PORT",
            help=f"where {what} are served; :PORT for all addresses, 0 for nowhere (default: nowhere)",
        )
    parser.add_argument(
        "--profile-bind-address",
        type=_loopback_address,
        metavar="HOST:PORT",
        help="where /debug/profile and other profiles are served; loopback addresses only (default: nowhere)",
    )
    parser.add_argument("--leader-elect", action="store_true", help="act only while this process holds the Lease")
    parser.add_argument(
        "--leader-elect-resource-name", default="", metavar="NAME", help="of the Lease (default: the program's name)"
    )
    parser.add_argument(
        "--leader-elect-resource-namespace", default="", metavar="NAME", help="of the Lease (default: the client's)"
    )
    for option, seconds in (
        ("lease-duration", LEASE_SECONDS),
        ("renew-deadline", RENEW_SECONDS),
        ("retry-period", RETRY_SECONDS),
    ):
        parser.add_argument(
            f"--leader-elect-{option}", type=float, default=seconds, metavar="SECONDS", help=f"(default: {seconds:g})"
        )
    parser.add_argument("--log-level", default="info", metavar="LEVEL", help="debug, info, warning or error")
    parser.add_argument("--log-format", default="text", metavar="text|json", help="the format of log lines")


def _address(text: str) -> tuple[str, int] | None:
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: expected HOST:PORT, :PORT or 0")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what :PORT asks for


def _loopback_address(text: str) -> tuple[str, int] | None:
    try:
        return checked_address(_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
