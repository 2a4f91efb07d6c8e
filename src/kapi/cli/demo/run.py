"""`kapi demo`: runs a control plane and the network controller in one process, and shows what happens in a table."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import AlreadyExists, ApiError
from kapi.api.keys import ObjectKey
from kapi.base.log import configure
from kapi.base.loop import run as run_loop
from kapi.cli.demo.network import (
    DEFINITION,
    EXAMPLE,
    Network,
    NetworkReconciler,
    SimulatedNetworks,
    ready_condition,
)
from kapi.cli.demo.view import LiveTable
from kapi.cli.up import UNAVAILABLE, USAGE, announce, explain, fail
from kapi.client.client import Client
from kapi.client.config import ClientConfig
from kapi.client.errors import ClientError
from kapi.client.rest import RESTClient
from kapi.controller.manager import Manager
from kapi.controller.objects.conditions import TRUE
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.options import OptionError, Options, check_storage, parse_bind
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from kapi.api.meta import Object

DEFINITION_KIND: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
EXAMPLE_KEY: Final = ObjectKey.of(EXAMPLE)
EXAMPLE_CREATED: Final = "demo.kapi.dev/example-created"
"""The annotation of the definition that says that the example was created once."""
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
    _print("The kind Network is defined:  kubectl get crd networks.samplecrd.k8s.io")
    _print("A controller reconciles its objects. The networks that it makes of them are simulated.\n")
    manager = Manager(client, namespace="")
    manager.builder().for_(Network).with_options(workers=2).complete(NetworkReconciler(manager, SimulatedNetworks()))
    table = LiveTable(manager.clock)
    table.print_head()
    manager.informers.informer(Network).add_handler(table, name="live table")
    controller = asyncio.ensure_future(manager.run(signals=False))
    stopped = asyncio.ensure_future(_until_signal())
    showing = asyncio.ensure_future(_show_example(client, table))
    ending: list[asyncio.Future[Any]] = [stopped, controller, plane.failed]
    try:
        await asyncio.wait([showing, *ending], return_when=asyncio.FIRST_COMPLETED)
        if showing.done() and (problem := showing.result()):
            return fail(problem, UNAVAILABLE)
        if showing.done() and not once:
            _print(_hints(plane))
            await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        manager.stop()
        for task in (stopped, showing):
            task.cancel()
        await asyncio.gather(stopped, showing, return_exceptions=True)
        await controller
    return UNAVAILABLE if plane.failed.done() else 0


async def _show_example(client: Client, table: LiveTable) -> str:
    """Create the example, if it never was, and wait until it is reconciled; returns why it is not ready.

    One that the user has changed or deleted since the last run stays as the user wants it.
    """
    definition = await client.get(DEFINITION_KIND, DEFINITION["metadata"]["name"])
    if EXAMPLE_CREATED not in (definition["metadata"].get("annotations") or {}):
        is_new = await _create_if_missing(client, EXAMPLE)
        await client.patch(definition, {"metadata": {"annotations": {EXAMPLE_CREATED: "true"}}})
    elif await client.find(Network, EXAMPLE_KEY) is None:
        _print("example-network was deleted in an earlier run, and is not created again.")
        return ""
    else:
        is_new = False
    try:
        async with asyncio.timeout(READY_TIMEOUT):
            ready = ready_condition(await table.wait_until_reconciled(EXAMPLE_KEY))
    except TimeoutError:
        return f"example-network was not reconciled within {READY_TIMEOUT:g} s"
    if is_new and ready is not None and ready.status != TRUE:
        return f"example-network is not ready: {ready.message}"
    return ""


async def _create_if_missing(client: Client, obj: Object) -> bool:
    """Create an object unless it exists; returns True if it was created.

    Applying it would undo what the user changed since the last run.
    """
    try:
        await client.create(obj)
    except AlreadyExists:
        return False
    return True


def _hints(plane: ControlPlane) -> str:
    """Return the commands to try, and what becomes of what they change."""
    change = "kubectl patch network example-network --type=merge -p"
    lines = [
        f"export KUBECONFIG={plane.options.kubeconfig_path.absolute()}",
        "kubectl get networks",
        "kubectl get network example-network -o yaml",
        f"""{change} '{{"spec":{{"gateway":"192.168.0.254"}}}}'""",
        f"""{change} '{{"spec":{{"gateway":"10.0.0.1"}}}}'""",
        "kubectl get events",
        "kubectl delete network example-network",
    ]
    commands = "\n".join(f"  {line}" for line in lines)
    kubectl = "" if shutil.which("kubectl") else f"\nThere is no kubectl here; {_kapi()} has the same commands."
    return (
        f"\nTry these in another terminal, and see here what happens:\n{commands}{kubectl}\n"
        "Stop with Ctrl-C. What you change is still there at the next run.\n"
    )


def _kapi() -> str:
    """The command that this program was started by."""
    return sys.argv[0] if sys.argv and Path(sys.argv[0]).name == "kapi" else "kapi"


async def _until_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
