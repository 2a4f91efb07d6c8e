"""`kapi demo`: runs a control plane and the network controller in one process, and prints the example."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import AlreadyExists, ApiError
from kapi.base.log import configure
from kapi.base.loop import run as run_loop
from kapi.cli.demo.network import DEFINITION, EXAMPLE, FAILED, READY, InMemoryNetworks, Network, NetworkReconciler
from kapi.cli.up import UNAVAILABLE, USAGE, announce, explain, fail
from kapi.client.client import Client
from kapi.client.config import ClientConfig
from kapi.client.errors import ClientError
from kapi.client.rest import RESTClient
from kapi.controller.manager import Manager
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.options import OptionError, Options, check_storage, parse_bind
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from kapi.api.meta import Object

READY_TIMEOUT: Final = 60.0
"""The time-out of the wait for the example, in seconds; it takes a fraction of one."""


def run(*, data_dir: Path, bind: str, storage: str, log_level: str, log_format: str, once: bool) -> int:
    """Run the demo until stopped, or until the example is ready; returns the exit status."""
    try:
        host, port = parse_bind(bind)
        options = Options(data_dir, host, port, None, check_storage(storage))
        configure(log_level, log_format)
        return run_loop(_main(options, once=once))
    except (OptionError, ValueError) as error:
        return fail(str(error), USAGE)
    except (StorageUnavailable, BootstrapError, OSError, ApiError, ClientError) as error:
        return fail(explain(error, bind), UNAVAILABLE)


async def _main(options: Options, *, once: bool) -> int:
    plane = ControlPlane(options)
    try:
        await plane.start()
        announce(plane)
        config = ClientConfig.load(kubeconfig=options.kubeconfig_path)
        # The definition is in the deprecated v1beta1 form on purpose; the server's warning about it helps no reader.
        rest = RESTClient(config, on_warning=lambda _: None)
        async with Client(rest=rest, field_manager="kapi-demo") as client:
            return await _run_example(plane, client, once=once)
    finally:
        await plane.stop()


async def _run_example(plane: ControlPlane, client: Client, *, once: bool) -> int:
    await _create_if_missing(client, DEFINITION)
    _print("The kind Network is defined (kubectl get crd networks.samplecrd.k8s.io).")
    manager = Manager(client, namespace="")
    manager.builder().for_(Network).with_options(workers=2).complete(NetworkReconciler(manager, InMemoryNetworks()))
    controller = asyncio.ensure_future(manager.run(signals=False))
    waiting = asyncio.ensure_future(_until_signal(once=once))
    try:
        is_new = await _create_if_missing(client, EXAMPLE)
        network = await client.wait_for(
            Network, "example-network", _has_phase, namespace="default", timeout=READY_TIMEOUT
        )
        _print("The controller has reconciled it (kubectl get network example-network -o yaml):\n")
        _print_table(network)
        if is_new and network.status.phase != READY:
            return fail(f"example-network is {network.status.phase}: {network.status.message}", UNAVAILABLE)
        if not once:
            _print("\nChange it, delete it, create more; stop with Ctrl-C.")
        ending: list[asyncio.Future[Any]] = [waiting, controller, plane.failed]
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        manager.stop()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await controller
    return UNAVAILABLE if plane.failed.done() else 0


async def _create_if_missing(client: Client, obj: Object) -> bool:
    """Create an object unless it exists; returns True if it was created.

    Applying it would undo what the user changed since the last run.
    """
    try:
        await client.create(obj)
    except AlreadyExists:
        return False
    return True


def _has_phase(network: Network) -> bool:
    return network.status.phase in (READY, FAILED)


async def _until_signal(*, once: bool) -> None:
    """Wait for SIGTERM or SIGINT; with `once`, return immediately."""
    if once:
        return
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_table(network: Network) -> None:
    rows = [
        ("NAMESPACE", "NAME", "CIDR", "GATEWAY", "PHASE", "BACKEND"),
        (
            network.metadata.namespace or "",
            network.metadata.name or "",
            network.spec.cidr,
            network.spec.gateway,
            network.status.phase,
            network.status.backend,
        ),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        _print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
