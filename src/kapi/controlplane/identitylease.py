"""The identity Lease of this server in kube-system. Together these Leases name the API servers that share a store.

kube-apiserver renews its Lease every ten seconds, and so do servers that share their store: the others see by it who
is alive (`controllers/livingservers.py`). For a server alone that would be most of what it writes to its disk when it
is idle, so it renews its Lease every ten minutes: still six times within the hour for which it is valid.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import math
import socket
import uuid
from typing import TYPE_CHECKING, Final

import structlog

from kapi.codec import json

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.server.transport.inprocess import InProcessTransport

PATH: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IDENTITY_LABEL: Final = "apiserver.kubernetes.io/identity"
IDENTITY: Final = "kube-apiserver"
LEASE_SECONDS: Final = 3600
RENEW_SECONDS: Final = 600.0
SHARED_RENEW_SECONDS: Final = 10.0
ADDRESS_ANNOTATION: Final = "kubernetes.io/peer-advertise-address"
NAME_PREFIX: Final = "apiserver-"
CREDENTIALS_ANNOTATION: Final = "kapi/credentials"
"""The annotation with the fingerprint of the keys that servers of one store must share."""

_SELECTOR: Final = f"?labelSelector={IDENTITY_LABEL}%3D{IDENTITY}"
_HEADERS: Final = {"content-type": "application/json", "user-agent": IDENTITY}

_log = structlog.get_logger("kapi.controlplane")


class IdentityLease:
    """Creates and renews the Lease of a server, and deletes the expired ones of servers that are gone.

    The name is a hash of host name, address, and the number of a `worker` that shares the address with others: a server
    that is started again finds its own Lease, and servers on one machine that share a store have one each.
    """

    def __init__(
        self,
        transport: InProcessTransport,
        address: str,
        clock: Clock,
        *,
        worker: int = 0,
        shares_store: bool = False,
        credentials: str = "",
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._host = socket.gethostname()
        self.name = server_identity(self._host, f"{address}/{worker}" if worker else address)
        self._holder = f"{self.name}_{uuid.uuid4()}"
        self._renewed = -math.inf
        self._interval = SHARED_RENEW_SECONDS if shares_store else RENEW_SECONDS
        self._is_retired = False
        self._annotations = {ADDRESS_ANNOTATION: address}
        if credentials:
            self._annotations[CREDENTIALS_ANNOTATION] = credentials

    async def run(self) -> None:
        """Renew the Lease and delete expired ones until cancelled."""
        while True:
            # Half of the time, because the clock and the timers of the loop differ. `start` has renewed it just now;
            # a run after a failure may find it older.
            if self._clock.monotonic() - self._renewed > self._interval / 2:
                await self.renew()
            await self._delete_expired()
            await asyncio.sleep(self._interval)

    async def renew(self) -> None:
        """Create the Lease, or renew it. A failure is logged: the next renewal comes before it matters."""
        if self._is_retired:
            return
        self._renewed = self._clock.monotonic()
        lease = await self._get(f"{PATH}/{self.name}")
        if lease is None:
            await self._write("POST", PATH, self._lease())
        else:
            fresh = self._lease()
            metadata = {**lease["metadata"], **fresh["metadata"]}
            await self._write("PUT", f"{PATH}/{self.name}", {**lease, "metadata": metadata, "spec": fresh["spec"]})

    async def retire(self) -> None:
        """Delete the Lease, because this server is about to stop: the others need not wait until it expires."""
        self._is_retired = True
        await self._write("DELETE", f"{PATH}/{self.name}", None)

    def _lease(self) -> Object:
        return {
            "metadata": {
                "name": self.name,
                "labels": {IDENTITY_LABEL: IDENTITY, "kubernetes.io/hostname": self._host},
                "annotations": self._annotations,
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }

    async def _delete_expired(self) -> None:
        leases = await self._get(f"{PATH}{_SELECTOR}")
        for lease in (leases or {}).get("items", ()):
            if lease["metadata"]["name"] != self.name and is_expired(lease, self._clock.now()):
                await self._write("DELETE", f"{PATH}/{lease['metadata']['name']}", None)

    async def _get(self, path: str) -> Object | None:
        reply = await self._transport.request("GET", path)
        answer = await reply.read()
        found: Object | None = json.decode(answer) if reply.status == 200 else None
        return found

    async def _write(self, method: str, path: str, body: Object | None) -> None:
        reply = await self._transport.request(method, path, _HEADERS, b"" if body is None else json.encode(body))
        answer = await reply.read()
        if reply.status >= 300:
            _log.warning("writing an identity lease failed", method=method, path=path, answer=answer.decode())


def server_identity(host: str, address: str) -> str:
    """Return the name of the Lease of a server."""
    digest = hashlib.sha256(f"{host}/{address}".encode()).digest()[:16]
    return f"{NAME_PREFIX}{base64.b32encode(digest).decode().rstrip('=').lower()}"


def is_expired(lease: Object, now: dt.datetime) -> bool:
    """Return True if a Lease was not renewed within its duration; one that does not say when it was renewed is."""
    spec = lease.get("spec") or {}
    try:
        renewed = dt.datetime.fromisoformat(spec["renewTime"])
        return renewed + dt.timedelta(seconds=spec["leaseDurationSeconds"]) < now
    except (KeyError, ValueError, OverflowError):
        return True
