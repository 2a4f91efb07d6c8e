"""One of two manager processes: while it leads, one long reconcile calls an HTTP server again and again.

Usage: effect_worker.py KUBECONFIG IDENTITY PORT. Ends with status 3 when it has lost its lease.
"""

import asyncio
import sys

from kapi import Client, Leadership, Manager
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.controller.manager import LeadershipLost

LOST = 3
TRIGGER = "effects"


async def call_for_ever(identity: str, port: int) -> None:
    """Call the server over one connection; the next call follows an answer at once, or after the pause it asks for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            head = f"POST /effects HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(identity)}\r\n\r\n"
            writer.write(head.encode() + identity.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            if b"\r\nPause: " in answer:
                await asyncio.sleep(0.02)
    finally:
        writer.close()


async def main(kubeconfig: str, identity: str, port: str) -> None:
    lease = Leadership("effects", "default", identity, lease_seconds=4.0, renew_seconds=3.0, retry_seconds=0.3)
    async with Client.connect(kubeconfig=kubeconfig, field_manager=identity) as client:
        manager = Manager(client, namespace="default", leadership=lease)

        async def reconcile(config: ConfigMap) -> None:
            if config.metadata is not None and config.metadata.name == TRIGGER:
                await call_for_ever(identity, int(port))

        manager.builder().for_(ConfigMap).complete(reconcile)
        await manager.run()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except LeadershipLost as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(LOST)
