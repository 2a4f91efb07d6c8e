"""Tables of nodes, namespaces, events, configuration, quotas and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, boolean, integer, text, wide

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"

# -- nodes ------------------------------------------------------------------------------------------------------------


def _node_status(obj: Object) -> str:
    """The status of a node: Ready or NotReady by its last Ready condition, and SchedulingDisabled."""
    found = [each for each in cells.items(obj, "status", "conditions") if each.get("type") == "Ready"]
    status = "Unknown"
    if found:
        status = "Ready" if found[-1].get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if cells.part(obj, "spec").get("unschedulable") else status


def _roles(labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {labels.get(_ROLE_LABEL) or ""}) - {""})) or cells.NONE


def _node_address(obj: Object, kind: str) -> str:
    every = cells.items(obj, "status", "addresses")
    return next((cells.string(each, "address") for each in every if each.get("type") == kind), cells.NONE)


def _node(obj: Object, now: dt.datetime) -> list[Any]:
    info = cells.part(obj, "status", "nodeInfo")
    kernel, architecture = cells.string(info, "kernelVersion") or cells.UNKNOWN, cells.string(info, "architecture")
    return [
        cells.name(obj),
        _node_status(obj),
        _roles(cells.part(obj, "metadata", "labels")),
        cells.age(obj, now),
        cells.string(info, "kubeletVersion"),
        _node_address(obj, "InternalIP"),
        _node_address(obj, "ExternalIP"),
        cells.string(info, "osImage") or cells.UNKNOWN,
        f"{kernel} ({architecture})" if architecture else kernel,
        cells.string(info, "containerRuntimeVersion") or cells.UNKNOWN,
    ]


# -- events -----------------------------------------------------------------------------------------------------------


def _target(obj: Object) -> str:
    involved = cells.part(obj, "involvedObject")
    kind, name = cells.string(involved, "kind").lower(), cells.string(involved, "name")
    return f"{kind}/{name}" if name else kind


def _source(obj: Object) -> str:
    component = cells.string(obj, "source", "component") or cells.string(obj, "reportingComponent")
    instance = cells.string(obj, "source", "host") or cells.string(obj, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _event(obj: Object, now: dt.datetime) -> list[Any]:
    """The row of an event in its core form. Newer clients set series and eventTime instead of timestamps and count."""
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last, times = obj.get("lastTimestamp") or first, obj.get("count") or 1
    series = obj.get("series")
    if series is not None:
        last, times = series.get("lastObservedTime"), cells.count(series, "count")
    return [
        cells.since(last, now),
        cells.string(obj, "type"),
        cells.string(obj, "reason"),
        _target(obj),
        cells.string(obj, "involvedObject", "fieldPath"),
        _source(obj),
        cells.string(obj, "message").strip(),
        cells.since(first, now),
        times,
        cells.name(obj),
    ]


# -- the rest ---------------------------------------------------------------------------------------------------------


def _namespace(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "status", "phase"), cells.age(obj, now)]


def _component_status(obj: Object, _now: dt.datetime) -> list[Any]:
    healthy = next((each for each in cells.items(obj, "conditions") if each.get("type") == "Healthy"), None)
    if healthy is None:
        return [cells.name(obj), "Unknown", "", ""]
    status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [cells.name(obj), status, cells.string(healthy, "message"), cells.string(healthy, "error")]


def _config_map(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), len(cells.part(obj, "data")) + len(cells.part(obj, "binaryData")), cells.age(obj, now)]


def _secret(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "type"), len(cells.part(obj, "data")), cells.age(obj, now)]


def _name_and_age(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.age(obj, now)]


def _quota(obj: Object, now: dt.datetime) -> list[Any]:
    used = cells.part(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(cells.part(obj, "status", "hard").items()):
        line = f"{resource}: {cells.quantity(used.get(resource))}/{cells.quantity(hard)}"
        (limits if resource.startswith("limits.") else requests).append(line)
    return [cells.name(obj), ", ".join(requests), ", ".join(limits), cells.age(obj, now)]


def _lease(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "spec", "holderIdentity"), cells.age(obj, now)]


def _priority_class(obj: Object, now: dt.datetime) -> list[Any]:
    return [
        cells.name(obj),
        cells.count(obj, "value"),
        cells.flag(obj, "globalDefault"),
        cells.age(obj, now),
        cells.string(obj, "preemptionPolicy"),
    ]


def _runtime_class(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "handler"), cells.age(obj, now)]


_EVENTS = Table(
    (
        text("Last Seen", "How long ago the event happened last."),
        text("Type", "Whether the event is normal or a warning."),
        text("Reason", "What happened, in a word."),
        text("Object", "What it happened to."),
        wide("Subobject", "The part of the object it happened to."),
        wide("Source", "Who reported the event."),
        text("Message", "What happened, in a sentence."),
        wide("First Seen", "How long ago the event happened first."),
        wide("Count", "How often the event happened."),
        NAME._replace(priority=1),
    ),
    _event,
)

TABLES = {
    ("", "nodes"): Table(
        (
            NAME,
            text("Status", "Whether the node is ready, and whether it takes new pods."),
            text("Roles", "The roles the node is labelled with."),
            AGE,
            text("Version", "The version of the node agent."),
            wide("Internal-IP", "The address of the node inside the cluster."),
            wide("External-IP", "The address of the node outside the cluster."),
            wide("OS-Image", "The operating system of the node."),
            wide("Kernel-Version", "The kernel of the node, and its architecture."),
            wide("Container-Runtime", "The container runtime of the node."),
        ),
        _node,
    ),
    ("", "namespaces"): Table(
        (NAME, text("Status", "Whether the namespace is active or going away."), AGE), _namespace
    ),
    ("", "events"): _EVENTS,
    ("events.k8s.io", "events"): _EVENTS,
    ("", "componentstatuses"): Table(
        (
            NAME,
            text("Status", "Whether the component is healthy."),
            text("Message", "What the component answered."),
            text("Error", "The error of the health check."),
        ),
        _component_status,
    ),
    ("", "configmaps"): Table((NAME, text("Data", "How many keys it holds."), AGE), _config_map),
    ("", "secrets"): Table(
        (NAME, text("Type", "What the secret is for."), text("Data", "How many keys it holds."), AGE), _secret
    ),
    ("", "serviceaccounts"): Table((NAME, AGE), _name_and_age),
    ("", "resourcequotas"): Table(
        (
            NAME,
            text("Request", "What may be requested or counted: used and allowed."),
            text("Limit", "What limits may add up to: used and allowed."),
            AGE,
        ),
        _quota,
    ),
    ("coordination.k8s.io", "leases"): Table((NAME, text("Holder", "Who holds the lease."), AGE), _lease),
    ("scheduling.k8s.io", "priorityclasses"): Table(
        (
            NAME,
            integer("Value", "The priority; Pods of higher priority are scheduled first."),
            boolean("Global-Default", "Whether pods without a class get this one."),
            AGE,
            text("PreemptionPolicy", "Whether pods of this class may displace others."),
        ),
        _priority_class,
    ),
    ("node.k8s.io", "runtimeclasses"): Table(
        (NAME, text("Handler", "The configuration of the container runtime."), AGE), _runtime_class
    ),
}
