"""Tables of services, endpoints, ingresses, network policies and IP addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, text, wide

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from kapi.api.meta import Object

_SHOWN = 3
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"

# -- services ---------------------------------------------------------------------------------------------------------


def _external_ip(spec: Object, status: Object) -> str:
    kind, external = spec.get("type"), cells.items(spec, "externalIPs")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or cells.NONE
    if kind == "LoadBalancer":
        balanced = cells.addresses(status)
        return ",".join([balanced, *external] if balanced else external) or "<pending>"
    return cells.string(spec, "externalName") if kind == "ExternalName" else cells.UNKNOWN


def _port(port: Object) -> str:
    number, on_node = cells.count(port, "port"), cells.count(port, "nodePort")
    shown = f"{number}:{on_node}" if on_node > 0 else str(number)
    return f"{shown}/{cells.string(port, 'protocol')}"


def _cluster_ip(spec: Object) -> str:
    """The first cluster address; objects written before there could be two have the single field only."""
    every = cells.items(spec, "clusterIPs")
    return every[0] if every else cells.string(spec, "clusterIP") or cells.NONE


def _service(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    return [
        cells.name(obj),
        cells.string(spec, "type"),
        _cluster_ip(spec),
        _external_ip(spec, cells.part(obj, "status")),
        ",".join(_port(port) for port in cells.items(spec, "ports")) or cells.NONE,
        cells.age(obj, now),
        cells.labels(spec.get("selector")),
    ]


# -- endpoints --------------------------------------------------------------------------------------------------------


def _endpoint_texts(subsets: list[Object]) -> Iterator[str]:
    """Every address with every port of its subset; the bare address where there are no ports (headless services)."""
    for subset in subsets:
        addresses = [cells.string(address, "ip") for address in cells.items(subset, "addresses")]
        ports = cells.items(subset, "ports")
        if not ports:
            yield from addresses
        for port in ports:
            number = cells.count(port, "port")
            for address in addresses:
                yield f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def _endpoints(obj: Object, now: dt.datetime) -> list[Any]:
    subsets = cells.items(obj, "subsets")
    every = list(_endpoint_texts(subsets))
    # Subsets without a ready address print as nothing at all; the marker is for no subsets.
    return [cells.name(obj), cells.few(every[:_SHOWN], len(every)) if subsets else cells.NONE, cells.age(obj, now)]


def _slice_port(port: Object) -> str:
    number, name = port.get("port"), port.get("name")
    if number is not None:
        return str(number)
    return "*" if name is None else str(name)


def _endpoint_slice(obj: Object, now: dt.datetime) -> list[Any]:
    ports = [_slice_port(port) for port in cells.items(obj, "ports")]
    addresses = [each for endpoint in cells.items(obj, "endpoints") for each in cells.items(endpoint, "addresses")]
    return [
        cells.name(obj),
        cells.string(obj, "addressType"),
        cells.few(ports[:_SHOWN], len(ports)) or cells.UNSET,
        cells.few(addresses[:_SHOWN], len(addresses)) or cells.UNSET,
        cells.age(obj, now),
    ]


# -- ingress ----------------------------------------------------------------------------------------------------------


def _hosts(rules: list[Object]) -> str:
    """The first hosts. Once the list is full, the remaining rules are counted, with or without a host."""
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN:
            return cells.few(shown, len(rules))
        if host := cells.string(rule, "host"):
            shown.append(host)
    return ",".join(shown) or "*"


def _ingress(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    named_class = spec.get("ingressClassName")
    return [
        cells.name(obj),
        cells.NONE if named_class is None else named_class,
        _hosts(cells.items(spec, "rules")),
        cells.addresses(cells.part(obj, "status")),
        "80, 443" if spec.get("tls") else "80",
        cells.age(obj, now),
    ]


def _parameters(reference: Object) -> str:
    kind, group = cells.string(reference, "kind"), reference.get("apiGroup")
    qualified = kind if group is None else f"{kind}.{group}"
    return f"{qualified}/{cells.string(reference, 'name')}"


def _ingress_class(obj: Object, now: dt.datetime) -> list[Any]:
    is_default = cells.string(obj, "metadata", "annotations", _DEFAULT_INGRESS_CLASS) == "true"
    parameters = cells.part(obj, "spec").get("parameters")
    return [
        f"{cells.name(obj)} (default)" if is_default else cells.name(obj),
        cells.string(obj, "spec", "controller"),
        cells.NONE if parameters is None else _parameters(parameters),
        cells.age(obj, now),
    ]


# -- policies and addresses -------------------------------------------------------------------------------------------


def _network_policy(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.selector(obj, "spec", "podSelector"), cells.age(obj, now)]


def _service_cidr(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), ",".join(cells.items(obj, "spec", "cidrs")), cells.age(obj, now)]


def _parent(reference: Object) -> str:
    resource, group = cells.string(reference, "resource"), cells.string(reference, "group")
    steps = [f"{resource}.{group}".lower() if group else resource.lower()]
    if namespace := cells.string(reference, "namespace"):
        steps.append(namespace)
    return "/".join([*steps, cells.string(reference, "name")])


def _ip_address(obj: Object, now: dt.datetime) -> list[Any]:
    parent = cells.part(obj, "spec").get("parentRef")
    # The age has no column; kube-apiserver sends it all the same, and clients skip cells they have no column for.
    return [cells.name(obj), cells.NONE if parent is None else _parent(parent), cells.age(obj, now)]


TABLES = {
    ("", "services"): Table(
        (
            NAME,
            text("Type", "How the service is exposed."),
            text("Cluster-IP", "The address of the service inside the cluster."),
            text("External-IP", "Where the service is reached from outside."),
            text("Port(s)", "The ports of the service, with their ports on the nodes."),
            AGE,
            wide("Selector", "The labels of the pods behind the service."),
        ),
        _service,
    ),
    ("", "endpoints"): Table(
        (NAME, text("Endpoints", "The first addresses and ports that are ready."), AGE), _endpoints
    ),
    ("discovery.k8s.io", "endpointslices"): Table(
        (
            NAME,
            text("AddressType", "What kind of addresses the slice holds."),
            text("Ports", "The first ports of the endpoints."),
            text("Endpoints", "The first addresses in the slice."),
            AGE,
        ),
        _endpoint_slice,
    ),
    ("networking.k8s.io", "ingresses"): Table(
        (
            NAME,
            text("Class", "The ingress class that serves it."),
            text("Hosts", "The host names it has rules for."),
            text("Address", "Where the load balancer is reached."),
            text("Ports", "The ports it listens on."),
            AGE,
        ),
        _ingress,
    ),
    ("networking.k8s.io", "ingressclasses"): Table(
        (
            NAME,
            text("Controller", "The controller that serves ingresses of this class."),
            text("Parameters", "The object with further settings."),
            AGE,
        ),
        _ingress_class,
    ),
    ("networking.k8s.io", "networkpolicies"): Table(
        (NAME, text("Pod-Selector", "Which pods the policy applies to."), AGE), _network_policy
    ),
    ("networking.k8s.io", "servicecidrs"): Table(
        (NAME, text("CIDRs", "The ranges service addresses are taken from."), AGE), _service_cidr
    ),
    ("networking.k8s.io", "ipaddresses"): Table(
        (NAME, text("ParentRef", "The object that uses the address.")), _ip_address
    ),
}
