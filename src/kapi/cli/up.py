"""`kapi up`: run the control plane in the foreground."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import sys
from typing import TYPE_CHECKING

from kapi.base.log import configure
from kapi.base.loop import run as run_loop
from kapi.controlplane.assemble import ControlPlane, serve
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.controllers.names import enabled_controllers
from kapi.controlplane.options import OptionError, Options, check_storage, parse_bind
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from pathlib import Path

USAGE = 2
UNAVAILABLE = 1


def run(
    *,
    data_dir: Path,
    bind: str,
    kubeconfig: Path | None,
    storage: str,
    socket: Path | None,
    history_seconds: float,
    controllers: str,
    event_ttl: float,
    log_level: str,
) -> int:
    """Run until stopped; returns the exit status."""
    try:
        host, port = parse_bind(bind)
        options = Options(
            data_dir,
            host,
            port,
            kubeconfig,
            check_storage(storage),
            socket,
            history_seconds,
            enabled_controllers(controllers),
            event_ttl,
        )
        configure(log_level)
        return run_loop(_main(options))
    except (OptionError, ValueError) as error:
        return _fail(str(error), USAGE)
    except (StorageUnavailable, BootstrapError, OSError) as error:
        return _fail(str(error), UNAVAILABLE)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"kapi: {message}\n")
    return status


async def _main(options: Options) -> int:
    _raise_file_limit()
    _collect_rarely()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await serve(options, stop, announce)


def _raise_file_limit() -> None:
    """Every connection is a file; take as many as the system lets us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _collect_rarely() -> None:
    """Let the collector look for cycles less often: what is made and dropped here in numbers has none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def announce(plane: ControlPlane) -> None:
    """Say where the server is, and what to type next."""
    path = plane.options.kubeconfig_path.absolute()
    sys.stdout.write(f"Ready at {plane.url}. Next:  export KUBECONFIG={path} && kubectl get namespaces\n")
    sys.stdout.flush()
