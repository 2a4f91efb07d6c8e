"""The API servers that share a store and are alive, by their identity Leases.

A server renews its Lease every few seconds. It is taken to be alive until its Lease has not changed for
`ALIVE_SECONDS` by the clock of this process: the clocks of servers may differ, so the time in a Lease counts only when
it is seen for the first time.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.identitylease import ADDRESS_ANNOTATION, CREDENTIALS_ANNOTATION, NAME_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Item
    from kapi.controlplane.controllers.view import ObjectView

LEASES: Final = "leases.coordination.k8s.io"
NAMESPACE: Final = "kube-system"
ALIVE_SECONDS: Final = 30.0
"""Three renewals: one that is late, or two that fail, do not make a server disappear."""


class Server(NamedTuple):
    """One server, as its Lease describes it."""

    host: str
    port: int


def check_credentials(view: ObjectView, now: dt.datetime, credentials: str) -> None:
    """Refuse to start while a server with other keys is alive: clients would be accepted by one of the two only.

    It may have ended less than `ALIVE_SECONDS` ago; then a later start succeeds.
    """
    for item in view.items(LEASES, NAMESPACE):
        if not is_identity(item):
            continue
        lease = view.decode(LEASES, item)
        annotations = lease["metadata"].get("annotations") or {}
        other = annotations.get(CREDENTIALS_ANNOTATION, credentials)
        if other != credentials and _age(lease, now) < ALIVE_SECONDS:
            raise BootstrapError(
                f"the server at {annotations.get(ADDRESS_ANNOTATION)} uses this store with another CA or another key"
                " of service accounts; give all servers the same ones: --pki-dir DIR"
            )


class _Seen(NamedTuple):
    revision: int
    at: float


class LivingServers:
    """Follows the identity Leases; one object for the life of its process."""

    def __init__(self, view: ObjectView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def find(self) -> tuple[set[Server], float]:
        """The servers that are alive, and the seconds after which the first of them may not be any more."""
        now = self._clock.monotonic()
        leases = [item for item in self._view.items(LEASES, NAMESPACE) if is_identity(item)]
        seen, self._seen = self._seen, {}
        servers: set[Server] = set()
        soonest = ALIVE_SECONDS
        for item in leases:
            lease = self._view.decode(LEASES, item)
            known = seen.get(item.name)
            if known is None:
                known = _Seen(item.revision, now - _age(lease, self._clock.now()))
            elif known.revision != item.revision:
                known = _Seen(item.revision, now)
            self._seen[item.name] = known
            remaining = known.at + ALIVE_SECONDS - now
            if remaining > 0:
                servers.update(_servers(lease))
                soonest = min(soonest, remaining)
        return servers, soonest


def is_identity(item: Item) -> bool:
    """Return True if a Lease is the identity of an API server."""
    return item.namespace == NAMESPACE and item.name.startswith(NAME_PREFIX)


def _age(lease: Object, now: dt.datetime) -> float:
    """The seconds since a Lease was renewed; one that does not say when it was is not alive."""
    spec: dict[str, Any] = lease.get("spec") or {}
    try:
        return max(0.0, (now - dt.datetime.fromisoformat(spec["renewTime"])).total_seconds())
    except (KeyError, ValueError, TypeError):
        return ALIVE_SECONDS


def _servers(lease: Object) -> Iterable[Server]:
    address: str = (lease["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION, "")
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host and port.isascii() and port.isdigit():
        yield Server(host, int(port))
