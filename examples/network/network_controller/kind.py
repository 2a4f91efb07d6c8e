"""The kind Network: addresses and a gateway. `kapi generate crds network_controller.kind` prints its definition."""

import ipaddress
from typing import Annotated

import msgspec

from kapi import Column, CustomResource, ListMap, Model, Rule, resource
from kapi.api.builtin.meta_v1 import Condition

FINALIZER = "samplecrd.k8s.io/network"
READY = "Ready"


class NetworkSpec(Model):
    """The network that is wanted."""

    RULES = (
        Rule(
            "!has(self.gateway) || self.gateway == '' || !isIP(self.gateway) || !isCIDR(self.cidr)"
            " || cidr(self.cidr).containsIP(self.gateway)",
            message="the gateway must be an address of the network",
            field_path=".gateway",
        ),
    )

    cidr: Annotated[
        str,
        msgspec.Meta(max_length=43),
        Rule(
            "isCIDR(self) && cidr(self) == cidr(self).masked()",
            message="must be an address range, such as 192.168.0.0/16",
        ),
    ]
    """The addresses of the network."""
    gateway: Annotated[
        str, msgspec.Meta(max_length=39), Rule("self == '' || isIP(self)", message="must be an address")
    ] = ""
    """The address of the gateway; empty for a network without one."""


class NetworkStatus(Model):
    """The network that there is."""

    backend: str = ""
    """Where the network is: an OpenStack cloud, or `simulated`."""
    network_id: str = msgspec.field(default="", name="networkID")
    subnet_id: str = msgspec.field(default="", name="subnetID")
    observed_generation: int | None = None
    """The generation of the spec that the network agrees with."""
    conditions: Annotated[list[Condition], ListMap("type")] = msgspec.field(default_factory=list[Condition])


@resource(
    "samplecrd.k8s.io/v1",
    # Groups that end in k8s.io need it; one of your own does not.
    annotations={"api-approved.kubernetes.io": "unapproved, an example"},
    columns=[
        Column("CIDR", ".spec.cidr"),
        Column("Gateway", ".spec.gateway"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Network", ".status.networkID", priority=1),
        Column("Backend", ".status.backend", priority=1),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ],
)
class Network(CustomResource, kw_only=True):
    """A network with an address range and a gateway."""

    spec: NetworkSpec
    status: NetworkStatus | None = None


def problem_of(spec: NetworkSpec) -> str:
    """Return what is wrong with a spec; empty if it is valid.

    The definition refuses such objects. There are definitions without these rules, and objects from before them.
    """
    try:
        network = ipaddress.ip_network(spec.cidr)
        if spec.gateway and ipaddress.ip_address(spec.gateway) not in network:
            return f"the gateway {spec.gateway} is not in {spec.cidr}"
    except ValueError as error:
        return str(error)
    return ""
