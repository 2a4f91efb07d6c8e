"""`kapi demo`: a control plane and the network controller in one process, and the example told to the end."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any

from kapi.api.errors import ApiError
from kapi.base.log import configure
from kapi.base.loop import run as run_loop
from kapi.cli.demo.network import DEFINITION, EXAMPLE, FAILED, READY, InMemoryNetworks, Network, NetworkReconciler
from kapi.cli.up import UNAVAILABLE, USAGE, announce
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

PATIENCE = 60.0
"""How long the example may take to become ready; it takes a fraction of a second."""


def run(*, data_dir: Path, bind: str, storage: str, log_level: str, once: bool) -> int:
    """Tell the story; the exit status."""
    try:
        host, port = parse_bind(bind)
        options = Options(data_dir, host, port, None, check_storage(storage))
        configure(log_level)
        return run_loop(_main(options, once=once))
    except (OptionError, ValueError) as error:
        return _fail(str(error), USAGE)
    except (StorageUnavailable, BootstrapError, OSError, ApiError, ClientError, TimeoutError) as error:
        return _fail(str(error), UNAVAILABLE)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"kapi: {message}\n")
    return status


async def _main(options: Options, *, once: bool) -> int:
    plane = ControlPlane(options)
    try:
        await plane.start()
        announce(plane)
        config = ClientConfig.load(kubeconfig=options.kubeconfig_path)
        # The definition is in the form of old on purpose: nobody needs to be warned of that.
        rest = RESTClient(config, on_warning=lambda _: None)
        async with Client(rest=rest, field_manager="kapi-demo") as client:
            return await _story(plane, client, once=once)
    finally:
        await plane.stop()


async def _story(plane: ControlPlane, client: Client, *, once: bool) -> int:
    await client.apply(DEFINITION, force=True)
    _say("The kind Network is defined (kubectl get crd networks.samplecrd.k8s.io).")
    manager = Manager(client, namespace="")
    manager.builder().for_(Network).with_options(workers=2).complete(NetworkReconciler(manager, InMemoryNetworks()))
    controller = asyncio.ensure_future(manager.run(signals=False))
    waiting = asyncio.ensure_future(_until_told(once=once))
    try:
        await client.apply(EXAMPLE, force=True)
        network = await client.wait_for(Network, "example-network", _is_settled, namespace="default", timeout=PATIENCE)
        _say("The controller has reconciled it (kubectl get network example-network -o yaml):\n")
        _table(network)
        if network.status.phase != READY:
            return _fail(f"example-network is {network.status.phase}: {network.status.message}", UNAVAILABLE)
        _say("" if once else "\nChange it, delete it, make more; stop with Ctrl-C.")
        ending: list[asyncio.Future[Any]] = [waiting, controller, plane.failed]
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        manager.stop()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await controller
    return UNAVAILABLE if plane.failed.done() else 0


def _is_settled(network: Network) -> bool:
    return network.status.phase in (READY, FAILED)


async def _until_told(*, once: bool) -> None:
    """Until a signal; not at all when once is enough."""
    if once:
        return
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n" if text else "")
    sys.stdout.flush()


def _table(network: Network) -> None:
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
        _say("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
