"""`kapi dev`: a throw-away control plane, the kinds of a project, its operator with reload, and a live view."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.cli.command import Command, add_flag
from kapi.cli.run import add_target, project_target

if TYPE_CHECKING:
    import argparse

    from kapi.cli.command import Parser
    from kapi.cli.dev.view import View
    from kapi.cli.screen import Screen
    from kapi.controlplane.assemble import ControlPlane
    from kapi.controlplane.options import Options

SAMPLES: Final = Path("config/samples")


def _add_options(parser: Parser) -> None:
    add_target(parser)
    add_flag(parser, "--samples", help=f"apply the objects in {SAMPLES} when the kinds are defined")
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="apply the objects in this file or folder; can be repeated",
    )
    add_flag(parser, "--once", help="stop when every applied object is reconciled; status 1 if one is not after 60 s")
    parser.add_argument(
        "--bind",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address to listen on; port 0 picks a free one (default: 127.0.0.1:0)",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="where to write the admin's kubeconfig (default: in the folder)"
    )
    add_flag(parser, "--keep", help="keep the data folder; kapi up --data-dir DIR starts from it")
    add_flag(parser, "--plain", help="print lines, also to a terminal")
    parser.add_argument(
        "--namespace", metavar="NAME,...", help="the namespaces to watch (default: $WATCH_NAMESPACE, or all)"
    )
    parser.add_argument("--log-level", default="info", metavar="LEVEL", help="of the operator (default: info)")


def _run(arguments: argparse.Namespace) -> int:
    from kapi.api.errors import ApiError
    from kapi.base.log import LEVELS, configure
    from kapi.base.loop import run as run_loop
    from kapi.cli.session import INTERRUPTED
    from kapi.cli.up import UNAVAILABLE, USAGE, explain, fail
    from kapi.client.errors import ClientError
    from kapi.controlplane.bootstrap import BootstrapError
    from kapi.controlplane.options import OptionError, Options, parse_bind
    from kapi.storage.interface import StorageUnavailable

    folder = Path(tempfile.gettempdir()) / f"kapi-dev-{secrets.token_hex(8)}"
    try:
        # Until the session handles them, and after: whenever the command is stopped, the folder is deleted.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        folder.mkdir(mode=0o700)
        arguments.target = arguments.target or project_target()
        if arguments.log_level not in LEVELS:
            raise OptionError(f"--log-level {arguments.log_level}: expected one of {', '.join(LEVELS)}")
        host, port = parse_bind(arguments.bind)
        storage = "sqlite" if arguments.keep else "memory"
        configure("error", "text")  # of the control plane: the view is about the operator
        return run_loop(_main(Options(folder, host, port, arguments.kubeconfig, storage), arguments))
    except (OptionError, ValueError) as error:
        return fail(str(error), USAGE)
    except (StorageUnavailable, BootstrapError, OSError, ApiError, ClientError) as error:
        return fail(explain(error, arguments.bind), UNAVAILABLE)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _clean_up(folder, arguments.kubeconfig, keep=arguments.keep)


async def _main(options: Options, arguments: argparse.Namespace) -> int:
    from kapi.cli.screen import Screen
    from kapi.controlplane.assemble import ControlPlane

    plane = ControlPlane(options)
    try:
        await plane.start()
        if sys.stdout.isatty() and not arguments.plain and not arguments.once:
            with Screen(sys.stdout) as screen:
                return await _run_session(plane, arguments, screen)
        return await _run_session(plane, arguments, None)
    finally:
        await plane.stop()


async def _run_session(plane: ControlPlane, arguments: argparse.Namespace, screen: Screen | None) -> int:
    from kapi.cli.dev.session import Session
    from kapi.cli.dev.view import view_for
    from kapi.cli.dev.worker import FIELD_MANAGER
    from kapi.client.client import Client

    kubeconfig = plane.options.kubeconfig_path.absolute()
    view: View = view_for(f"Control plane at {plane.url}. Next:  export KUBECONFIG={kubeconfig}", screen)
    operator = [arguments.target, f"--log-level={arguments.log_level}"]
    if arguments.namespace is not None:
        operator.append(f"--namespace={arguments.namespace}")
    samples = [*([SAMPLES] if arguments.samples else ()), *arguments.filename]
    async with Client.connect(kubeconfig=kubeconfig, field_manager=FIELD_MANAGER) as client:
        return await Session(plane, client, view, operator, samples).run(Path(), once=arguments.once)


def _clean_up(folder: Path, kubeconfig: Path | None, *, keep: bool) -> None:
    if keep:
        sys.stdout.write(f"The data is in {folder}: kapi up --data-dir {folder}\n")
        return
    shutil.rmtree(folder, ignore_errors=True)
    if kubeconfig is not None:
        kubeconfig.unlink(missing_ok=True)


DEV: Final = Command(
    "dev",
    "Run the operator of a project on a control plane of its own, show what it does, and delete everything at the end",
    _add_options,
    _run,
    "[MODULE:NAME] [OPTION...]",
)
