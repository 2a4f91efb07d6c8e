"""The kind Vpc of network.example.com/v1."""

from typing import Annotated

import msgspec
from kapi import Column, CustomResource, ListMap, Model, Rule, resource
from kapi.api.builtin.meta_v1 import Condition


class VpcSpec(Model):
    """The desired state of a Vpc."""

    vpcname: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    """The name of the network."""
    cidrblock: Annotated[
        str,
        msgspec.Meta(max_length=43),
        Rule("isCIDR(self) && cidr(self) == cidr(self).masked()", message="must be an address range, as 10.0.0.0/16"),
    ]
    """The addresses of the network."""
    subnetnum: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    """The number of subnets that the addresses are divided into."""


class VpcStatus(Model):
    """The observed state of a Vpc."""

    pod_names: list[str] = []
    """The Pods of the network: those whose label network.example.com/vpc is the name of the Vpc."""
    subnetnum: int = 0
    """The number of subnets that there are."""
    backend: str = ""
    """Where the network is: the kernel of a machine, or `simulated`."""
    observed_generation: int = 0
    """The generation that was last reconciled."""
    conditions: Annotated[list[Condition], ListMap("type")] = []


@resource(
    "network.example.com/v1",
    columns=[
        Column("CIDR", ".spec.cidrblock"),
        Column("Subnets", ".status.subnetnum", type="integer"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Backend", ".status.backend", priority=1),
    ],
)
class Vpc(CustomResource, kw_only=True):
    """A Vpc."""

    spec: VpcSpec
    status: VpcStatus | None = None
