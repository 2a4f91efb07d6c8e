"""A whole control plane on loopback, in a thread of its own, for tests of programs that connect to one."""

import asyncio
import contextlib
import threading

from kapi.controlplane.assemble import serve
from kapi.controlplane.controllers.names import enabled_controllers
from kapi.controlplane.options import Options

NO_MAPS = "-root-ca-certificate-publisher-controller"
"""For tests that count ConfigMaps: none but their own in a namespace."""


@contextlib.contextmanager
def live_plane(folder, controllers="*"):
    """A running control plane with nothing on disk but its keys; gives the path of the admin's kubeconfig."""
    options = Options(data_dir=folder / "data", port=0, storage="memory", controllers=enabled_controllers(controllers))
    started = threading.Event()
    inside = {}

    async def main():
        inside["loop"], inside["stop"] = asyncio.get_running_loop(), asyncio.Event()
        inside["status"] = await serve(options, inside["stop"], lambda _plane: started.set())

    def run():
        try:
            asyncio.run(main())
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(30)
        assert "status" not in inside
        yield options.kubeconfig_path
    finally:
        inside["loop"].call_soon_threadsafe(inside["stop"].set)
        thread.join(30)
    assert inside["status"] == 0


async def closed(writer):
    """Close a connection and wait until it is: one that is left open is reported as a failure of a later test."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
