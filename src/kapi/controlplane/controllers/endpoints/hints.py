"""Hints of EndpointSlices: from which zones and nodes an endpoint is meant to be used, as `trafficDistribution` has it.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kapi.api.meta import Object

_SAME_NODE: Final = "PreferSameNode"
_DISTRIBUTIONS: Final = frozenset({"PreferClose", "PreferSameZone", _SAME_NODE})
_TOPOLOGY_MODES: Final = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
"""The older annotation wins."""


def distribution_of(service: Object) -> str:
    """What a Service says about who is served by whom; empty when it says nothing that we follow."""
    wanted: str = service["spec"].get("trafficDistribution") or ""
    return "" if wanted not in _DISTRIBUTIONS or asks_for_topology(service) else wanted


def asks_for_topology(service: Object) -> bool:
    """Whether a Service asks for hints by the proportions of zones, which takes precedence."""
    annotations = service["metadata"].get("annotations") or {}
    mode = next((annotations[name] for name in _TOPOLOGY_MODES if name in annotations), "")
    return mode in ("Auto", "auto")


def are_right(endpoints: list[dict[str, Any]], distribution: str) -> bool:
    """Whether endpoints have the hints that a distribution wants."""
    if not distribution:
        return all("hints" not in endpoint for endpoint in endpoints)
    return all(
        _said(endpoint.get("hints")) == _said(_wanted(endpoint, distribution))
        for endpoint in endpoints
        if _is_ready(endpoint)
    )


def give(endpoints: list[dict[str, Any]], distribution: str) -> list[dict[str, Any]]:
    """The endpoints with the hints that a distribution wants; those that are not ready get none."""
    given = []
    for endpoint in endpoints:
        wanted = _wanted(endpoint, distribution) if distribution and _is_ready(endpoint) else {}
        plain = {key: value for key, value in endpoint.items() if key != "hints"}
        given.append({**plain, "hints": wanted} if wanted else plain)
    return given


def _wanted(endpoint: dict[str, Any], distribution: str) -> Object:
    hints: Object = {}
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if "nodeName" in endpoint and distribution == _SAME_NODE:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _said(hints: Object | None) -> tuple[list[Any], list[Any]]:
    return ((hints or {}).get("forZones") or [], (hints or {}).get("forNodes") or [])


def _is_ready(endpoint: dict[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is True
