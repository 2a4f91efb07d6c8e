"""Hints of EndpointSlices: the zones and nodes that an endpoint is meant for, from `trafficDistribution`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kapi.api.meta import Object

_SAME_NODE: Final = "PreferSameNode"
_DISTRIBUTIONS: Final = frozenset({"PreferClose", "PreferSameZone", _SAME_NODE})
_TOPOLOGY_MODES: Final = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
"""The older annotation takes precedence."""


def distribution_of(service: Object) -> str:
    """The traffic distribution of a Service; empty when it has none that is supported."""
    wanted: str = service["spec"].get("trafficDistribution") or ""
    return "" if wanted not in _DISTRIBUTIONS or asks_for_topology(service) else wanted


def asks_for_topology(service: Object) -> bool:
    """Return True if a Service asks for topology aware hints, which take precedence."""
    annotations = service["metadata"].get("annotations") or {}
    mode = next((annotations[name] for name in _TOPOLOGY_MODES if name in annotations), "")
    return mode in ("Auto", "auto")


def are_correct(endpoints: list[dict[str, Any]], distribution: str) -> bool:
    """Return True if endpoints have the hints of a distribution."""
    if not distribution:
        return all("hints" not in endpoint for endpoint in endpoints)
    return all(
        _listed(endpoint.get("hints")) == _listed(_wanted(endpoint, distribution))
        for endpoint in endpoints
        if _is_ready(endpoint)
    )


def with_hints(endpoints: list[dict[str, Any]], distribution: str) -> list[dict[str, Any]]:
    """The endpoints with the hints of a distribution; those that are not ready have none."""
    hinted = []
    for endpoint in endpoints:
        wanted = _wanted(endpoint, distribution) if distribution and _is_ready(endpoint) else {}
        plain = {key: value for key, value in endpoint.items() if key != "hints"}
        hinted.append({**plain, "hints": wanted} if wanted else plain)
    return hinted


def _wanted(endpoint: dict[str, Any], distribution: str) -> Object:
    hints: Object = {}
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if "nodeName" in endpoint and distribution == _SAME_NODE:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _listed(hints: Object | None) -> tuple[list[Any], list[Any]]:
    return ((hints or {}).get("forZones") or [], (hints or {}).get("forNodes") or [])


def _is_ready(endpoint: dict[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is True
