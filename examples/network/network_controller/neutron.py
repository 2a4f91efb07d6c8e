"""Networks in OpenStack Neutron, by openstacksdk.

`Neutron` is the conversation with the API: plain blocking code, one call for one pass. `NeutronBackend` runs it off
the event loop, with deadlines.

What is created says in its `description` for which object: that is part of the request that creates it, so there is
no moment in which a network exists and cannot be found again (tags would be a second request). A pass looks for it
before it creates anything. A create whose answer was lost, by a crash or a deadline, may still be carried out after
the next pass has looked; the pass after that finds two networks and deletes one, and `sweep` deletes those whose
object is gone.
"""

import asyncio
import contextlib
import ipaddress
import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import openstack
from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection
from openstack.exceptions import HttpException, SDKException
from openstack.network.v2.network import Network
from openstack.network.v2.subnet import Subnet

from .backend import (
    Actual,
    AddressOverlap,
    BackendError,
    InUse,
    Owner,
    QuotaExceeded,
    Rejected,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Wanted,
)

T = TypeVar("T")

REQUEST_SECONDS: Final = 10.0
"""The time-out of one request."""
PASS_SECONDS: Final = 30.0
"""The deadline of one pass, which is several requests."""
NAME_LENGTH: Final = 255

_MARKER: Final = re.compile(r"samplecrd\.k8s\.io/Network cluster=(\S+) namespace=(\S+) uid=(\S+)")


class Neutron:
    """The networks of one cluster's objects in one OpenStack project.

    `cluster` tells apart the objects of several clusters that share a project: the UID of the namespace kube-system
    will do. `endpoint` is the address of a Neutron without Keystone; otherwise `cloud` is an entry of clouds.yaml,
    and without either the variables `OS_*` count. Raises `BackendError` only. May be called by several threads at a
    time.
    """

    def __init__(
        self, cluster: str, *, cloud: str = "", endpoint: str = "", request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._cluster = cluster
        self._cloud = cloud
        self._endpoint = endpoint
        self._seconds = request_seconds
        # A connection is not meant to be shared by threads.
        self._local = threading.local()

    @property
    def name(self) -> str:
        """The name shown in the status."""
        return f"neutron {self._endpoint or self._cloud}".rstrip()

    def ensure(self, wanted: Wanted) -> Actual:
        """Create what is missing and repair what differs."""
        changes: list[str] = []
        network_id = ""
        try:
            with self._session() as cloud:
                marker = self._marker(wanted.uid, wanted.namespace)
                network = self._ensure_network(cloud, wanted, marker, changes)
                network_id = network.id
                subnet = self._ensure_subnet(cloud, wanted, marker, network_id, changes)
        except BackendError as error:
            error.network_id = network_id
            raise
        return Actual(network_id, subnet.id, tuple(changes))

    def delete(self, uid: str, namespace: str, network_id: str = "") -> bool:
        """Delete everything that was made for an object; returns True if there was anything."""
        with self._session() as cloud:
            networks = self._find(cloud, self._marker(uid, namespace), network_id)
            for network in networks:
                # Its subnets are deleted with it.
                cloud.network.delete_network(network.id)
        return bool(networks)

    def owners(self) -> set[Owner]:
        """Return the objects, of this cluster, that there are networks for."""
        with self._session() as cloud:
            markers = [_MARKER.fullmatch(one.description or "") for one in cloud.network.networks()]
        return {Owner(found[3], found[2]) for found in markers if found and found[1] == self._cluster}

    # -- a pass
    # -------------------------------------------------------------------------------------------------------

    def _ensure_network(self, cloud: Connection, wanted: Wanted, marker: str, changes: list[str]) -> Network:
        name = f"{wanted.namespace}/{wanted.name}"[:NAME_LENGTH]
        found = self._find(cloud, marker, wanted.network_id)
        if not found:
            changes.append("created the network")
            return cloud.network.create_network(name=name, description=marker)
        network, *others = found
        for other in others:
            cloud.network.delete_network(other.id)
            changes.append(f"deleted network {other.id}, which is a second one")
        drift: dict[str, Any] = {}
        if network.name != name:
            drift["name"] = name
        if network.description != marker:
            drift["description"] = marker
        if not network.is_admin_state_up:
            drift["is_admin_state_up"] = True
        if drift:
            network = cloud.network.update_network(network.id, **drift)
            changes.append(f"set {', '.join(drift)} of the network")
        return network

    def _find(self, cloud: Connection, marker: str, network_id: str) -> list[Network]:
        """The networks of an object, the one to keep first: the one its status names, else the oldest."""
        found = {one.id: one for one in cloud.network.networks(description=marker)}
        if network_id and network_id not in found:
            # Its description may have been changed. One that carries the marker of another object is not ours.
            for one in cloud.network.networks(id=network_id):
                if not _MARKER.fullmatch(one.description or ""):
                    found[one.id] = one
        return sorted(found.values(), key=lambda one: (one.id != network_id, one.created_at or "", one.id))

    def _ensure_subnet(
        self, cloud: Connection, wanted: Wanted, marker: str, network_id: str, changes: list[str]
    ) -> Subnet:
        kept: Subnet | None = None
        replaced: list[str] = []
        for subnet in cloud.network.subnets(network_id=network_id):
            if kept is None and _same(subnet.cidr, wanted.cidr):
                kept = subnet
            elif subnet.description == marker:
                # The addresses of a subnet cannot be changed, and the new ones may overlap with them.
                cloud.network.delete_subnet(subnet.id)
                replaced.append(subnet.cidr)
        if kept is None:
            changes.append(
                f"replaced subnet {replaced[0]} by {wanted.cidr}" if replaced else f"created subnet {wanted.cidr}"
            )
            return cloud.network.create_subnet(
                network_id=network_id,
                description=marker,
                name=wanted.cidr,
                cidr=wanted.cidr,
                ip_version=ipaddress.ip_network(wanted.cidr).version,
                gateway_ip=wanted.gateway or None,
            )
        if kept.description != marker:
            kept = cloud.network.update_subnet(kept.id, description=marker)
            changes.append("adopted a subnet that did not say whose it is")
        if not _same(kept.gateway_ip or "", wanted.gateway):
            # In one request: a gateway inside an allocation pool is refused.
            kept = cloud.network.update_subnet(
                kept.id,
                gateway_ip=wanted.gateway or None,
                allocation_pools=allocation_pools(wanted.cidr, wanted.gateway),
            )
            changes.append(f"set the gateway to {wanted.gateway or 'none'}")
        return kept

    def _marker(self, uid: str, namespace: str) -> str:
        return f"samplecrd.k8s.io/Network cluster={self._cluster} namespace={namespace} uid={uid}"

    # -- the connection
    # -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _session(self) -> Generator[Connection]:
        """The connection of this thread. One that failed is not used again: it may have learned nothing of the API."""
        try:
            if not hasattr(self._local, "connection"):
                self._local.connection = self._connect()
            yield self._local.connection
        except (SDKException, ClientException, OSError) as error:
            translated = translate(error)
            if isinstance(translated, Unavailable):
                vars(self._local).clear()
            raise translated from error

    def _connect(self) -> Connection:
        # Requests are not repeated here: the work queue does that, and lets other objects have their turn.
        options: dict[str, Any] = {"api_timeout": self._seconds, "app_name": "network-controller"}
        if self._endpoint:
            return Connection(auth_type="none", endpoint=self._endpoint, **options)
        return openstack.connect(cloud=self._cloud or None, **options)


def allocation_pools(cidr: str, gateway: str) -> list[dict[str, str]]:
    """The addresses of a subnet that ports may have: all but those of the network, the broadcast and the gateway."""
    network = ipaddress.ip_network(cidr)
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.num_addresses > 2:
        first, last = first + 1, last - (network.version == 4)
    spans = [(first, last)]
    if gateway and first <= (taken := int(ipaddress.ip_address(gateway))) <= last:
        spans = [(first, taken - 1), (taken + 1, last)]
    # From the class of the network's own address: small numbers would be taken for IPv4.
    address = type(network.network_address)
    return [{"start": str(address(low)), "end": str(address(high))} for low, high in spans if low <= high]


def _same(one: str, other: str) -> bool:
    """Return True if two addresses or ranges are the same, however they are written."""
    if not one or not other:
        return one == other
    return ipaddress.ip_interface(one) == ipaddress.ip_interface(other)


def translate(error: Exception) -> BackendError:
    """Return what an error of openstacksdk means for the controller."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None) or 0
    message = str(getattr(error, "details", "") or error)
    # Neutron's own name of the error, such as OverQuota, is in the body.
    kind = _error_type(response)
    if not isinstance(error, HttpException) and not 400 <= status < 500:
        return Unavailable(f"Neutron cannot be reached: {message}")
    if status == 429:
        return TooManyRequests("Neutron wants fewer requests", retry_after=_seconds(response))
    if status in (401, 403):
        return Unauthorized(message)
    if status >= 500 or not status:
        return Unavailable(f"Neutron failed: {status} {message}")
    if kind == "OverQuota":
        return QuotaExceeded(message)
    if kind.endswith("InUse"):
        return InUse(message)
    if "overlap" in message:
        return AddressOverlap(message)
    return Rejected(message)


def _error_type(response: Any) -> str:
    try:
        return str(response.json()["NeutronError"]["type"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _seconds(response: Any) -> float:
    """The seconds of a Retry-After header; 0 if there is none, or a date."""
    value = "" if response is None else response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


class NeutronBackend:
    """Neutron for an event loop: its calls run in threads, and none is waited for longer than `pass_seconds`.

    A call that was given up continues in its thread. The next one for the same object waits for it, so that two never
    work on one network; its requests have time-outs of their own, so it ends.
    """

    def __init__(self, neutron: Neutron, *, workers: int = 4, pass_seconds: float = PASS_SECONDS) -> None:
        self._neutron = neutron
        self._seconds = pass_seconds
        self._threads = ThreadPoolExecutor(workers, "neutron")
        self._running: dict[str, asyncio.Future[Any]] = {}

    @property
    def name(self) -> str:
        """The name shown in the status."""
        return self._neutron.name

    async def ensure(self, wanted: Wanted) -> Actual:
        """Create what is missing and repair what differs."""
        return await self._call(wanted.uid, lambda: self._neutron.ensure(wanted))

    async def delete(self, uid: str, namespace: str, network_id: str = "") -> bool:
        """Delete everything that was made for an object; returns True if there was anything."""
        return await self._call(uid, lambda: self._neutron.delete(uid, namespace, network_id))

    async def owners(self) -> set[Owner]:
        """Return the objects, of this cluster, that there are networks for."""
        return await self._call("", self._neutron.owners)

    async def _call(self, uid: str, function: Callable[[], T]) -> T:
        earlier = self._running.get(uid)
        if earlier is not None:
            await self._within(earlier)
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        self._running[uid] = future
        future.add_done_callback(lambda _: self._ended(uid, future))
        await self._within(future)
        return future.result()

    async def _within(self, future: asyncio.Future[Any]) -> None:
        """Wait until a call has ended; the call is not cancelled by a deadline, because a thread cannot be."""
        done, _ = await asyncio.wait([future], timeout=self._seconds)
        if not done:
            raise Unavailable(f"Neutron did not answer within {self._seconds:g} s")

    def _ended(self, uid: str, future: asyncio.Future[Any]) -> None:
        if self._running.get(uid) is future:
            del self._running[uid]
        if not future.cancelled():
            future.exception()  # one that nothing waits for any more is not worth a line in the log

    def close(self) -> None:
        """Take no more calls; those that are waiting for a thread are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
