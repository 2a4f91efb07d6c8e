"""Runs the controller.

python -m network_controller --neutron-endpoint http://127.0.0.1:9696     a Neutron without Keystone
python -m network_controller --os-cloud mycloud --leader-elect            an entry of clouds.yaml
python -m network_controller --simulated                                  no OpenStack at all
python -m network_controller --by-hand ...                                without a manager
"""

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable

from kapi import Client, Manager
from kapi.controller.program import add_options, execute, run_setup

from .backend import Backend
from .controller import run
from .reconciler import setup
from .simulated import Simulated


def parser() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(
        "network_controller", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(flags)
    flags.add_argument("--by-hand", action="store_true", help="without a manager, leader election, metrics and probes")
    where = flags.add_mutually_exclusive_group()
    where.add_argument("--simulated", action="store_true", help="networks in memory")
    where.add_argument("--neutron-endpoint", default="", metavar="URL", help="a Neutron without Keystone")
    where.add_argument("--os-cloud", default="", metavar="NAME", help="of clouds.yaml (default: the variables OS_*)")
    for name, seconds, what in (
        ("resync", 60.0, "between two looks at a network that nothing has changed"),
        ("backoff", 0.5, "before the first retry; doubled up to a minute"),
        ("sweep", 300.0, "between two sweeps"),
        ("request-timeout", 10.0, "for one request to Neutron"),
        ("pass-timeout", 30.0, "for one pass over a network"),
    ):
        flags.add_argument(f"--{name}", type=float, default=seconds, metavar="SECONDS", help=f"{what} ({seconds:g})")
    return flags


async def make_backend(options: argparse.Namespace, client: Client) -> Backend:
    if options.simulated:
        return Simulated()
    # openstacksdk is needed from here on only.
    from .neutron import Neutron, NeutronBackend

    system = await client.get(("v1", "Namespace"), "kube-system")
    neutron = Neutron(
        system["metadata"]["uid"],
        cloud=options.os_cloud,
        endpoint=options.neutron_endpoint,
        request_seconds=options.request_timeout,
    )
    return NeutronBackend(neutron, pass_seconds=options.pass_timeout)


def manager_setup(options: argparse.Namespace) -> Callable[[Manager], object]:
    async def add(manager: Manager) -> None:
        backend = await make_backend(options, manager.live)
        setup(manager, backend, resync=options.resync, backoff=options.backoff, sweep=options.sweep)

    return add


async def run_by_hand(options: argparse.Namespace) -> None:
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(name)s: %(message)s")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client.connect(
        kubeconfig=options.kubeconfig,
        context=options.context,
        server=options.master,
        field_manager="network-controller",
    ) as client:
        backend = await make_backend(options, client)
        namespaces = [name for name in (options.namespace or "").split(",") if name]
        await run(client, backend, stop, namespaces, options.resync, options.backoff, options.sweep)


def main() -> int:
    options = parser().parse_args()
    if options.by_hand:
        return execute(run_by_hand(options))
    return execute(run_setup(manager_setup(options), options, name="network-controller"))


if __name__ == "__main__":
    raise SystemExit(main())
