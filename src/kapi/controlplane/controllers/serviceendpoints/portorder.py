"""The order of the ports of endpoints, which is that of Kubernetes: by a hash of how its debug printer shows them.

Any order would be valid, but it shows in `kubectl get endpoints`, and objects that differ in it look changed. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_FNV_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME: Final = 0x0000000001000000000000000000013B
_MASK: Final = (1 << 128) - 1


@lru_cache(maxsize=4096)
def _fnv1a(text: str) -> int:
    """The 128 bit FNV-1a hash."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def in_slice_order(ports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ports of an EndpointSlice, sorted."""
    return sorted(ports, key=lambda port: _fnv1a(_slice_text(port)))


def in_subset_order(ports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ports of a subset of Endpoints, sorted."""
    return sorted(ports, key=lambda port: _fnv1a(_subset_text(port)))


def _slice_text(port: dict[str, Any]) -> str:
    return (
        f"(v1.EndpointPort){{Name:(*string){port.get('name', '<nil>')} "
        f"Protocol:(*v1.Protocol){port.get('protocol', '<nil>')} "
        f"Port:(*int32){port.get('port', '<nil>')} "
        f"AppProtocol:(*string){port.get('appProtocol', '<nil>')}}}"
    )


def _subset_text(port: dict[str, Any]) -> str:
    return (
        f"(v1.EndpointPort){{Name:(string){port.get('name', '')} "
        f"Port:(int32){port.get('port', 0)} "
        f"Protocol:(v1.Protocol){port.get('protocol', '')} "
        f"AppProtocol:(*string){port.get('appProtocol', '<nil>')}}}"
    )
