"""Networks of this machine's kernel: a network namespace for each Vpc, and in it a bridge for each subnet.

A bridge has the first address of its subnet, so that it is the gateway of whatever is connected to it. The name of the
namespace is made of the UID of the object: what an earlier process has left is found again. Needs the capabilities
NET_ADMIN and SYS_ADMIN, and pyroute2.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Sequence
from typing import Any

from pyroute2 import NetNS, netns
from pyroute2.netlink.exceptions import NetlinkError

from vpc.backends.contract import BackendError, Subnet

PREFIX = "vpc-"
BRIDGE = "subnet"


class Linux:
    """Networks of the kernel; its calls block, and are made off the event loop."""

    name = "linux"

    async def ensure(self, uid: str, subnets: Sequence[Subnet]) -> list[str]:
        """Make the network of an object have exactly these subnets; returns what was done."""
        return await asyncio.to_thread(_ensure, PREFIX + uid, subnets)

    async def delete(self, uid: str) -> bool:
        """Delete the network of an object, and all that is in it; returns True if there was one."""
        return await asyncio.to_thread(_delete, PREFIX + uid)


def _ensure(name: str, subnets: Sequence[Subnet]) -> list[str]:
    done: list[str] = []
    try:
        if name not in netns.listnetns():
            with contextlib.suppress(FileExistsError):
                netns.create(name)
            done.append(f"made network namespace {name}")
        with NetNS(name) as kernel:
            bridges = _bridges(kernel)
            wanted = {f"{BRIDGE}{number}": _gateway(subnet) for number, subnet in enumerate(subnets)}
            for surplus in bridges.keys() - wanted.keys():
                kernel.link("del", index=bridges[surplus][0])
                done.append(f"deleted {surplus}")
            for bridge, gateway in wanted.items():
                done += _ensure_bridge(kernel, bridge, gateway, bridges.get(bridge))
    except (NetlinkError, OSError) as error:
        raise BackendError(f"the kernel refused: {error}") from error
    return done


def _ensure_bridge(kernel: Any, bridge: str, gateway: str, found: tuple[int, set[str], bool] | None) -> list[str]:
    """Make a bridge that is up and has one address; returns what was done."""
    done: list[str] = []
    if found is None:
        kernel.link("add", ifname=bridge, kind="bridge")
        (index,) = kernel.link_lookup(ifname=bridge)
        addresses, is_up = set[str](), False
        done.append(f"made {bridge} with {gateway}")
    else:
        index, addresses, is_up = found
    for address in addresses - {gateway}:
        kernel.addr("del", index=index, address=address.partition("/")[0], prefixlen=int(address.partition("/")[2]))
        done.append(f"removed {address} from {bridge}")
    if gateway not in addresses:
        host, _, length = gateway.partition("/")
        kernel.addr("add", index=index, address=host, prefixlen=int(length))
        if found is not None:
            done.append(f"gave {gateway} to {bridge}")
    if not is_up:
        kernel.link("set", index=index, state="up")
        if found is not None:
            done.append(f"set {bridge} up")
    return done


def _bridges(kernel: Any) -> dict[str, tuple[int, set[str], bool]]:
    """Return the bridges of a namespace by name: index, addresses, and True if it is up."""
    addresses: dict[int, set[str]] = {}
    for one in kernel.get_addr():
        address = ipaddress.ip_interface(f"{one.get_attr('IFA_ADDRESS')}/{one['prefixlen']}")
        # The kernel gives these by itself.
        if not address.is_link_local:
            addresses.setdefault(one["index"], set()).add(str(address))
    links = {one.get_attr("IFLA_IFNAME"): one for one in kernel.get_links()}
    return {
        name: (one["index"], addresses.get(one["index"], set()), one["state"] == "up")
        for name, one in links.items()
        if name.startswith(BRIDGE)
    }


def _gateway(subnet: Subnet) -> str:
    return f"{subnet.network_address + 1}/{subnet.prefixlen}"


def _delete(name: str) -> bool:
    try:
        netns.remove(name)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BackendError(f"the kernel refused: {error}") from error
    return True
