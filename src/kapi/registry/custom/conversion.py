"""Conversion of custom objects from one version to another.

The strategy `None` changes the apiVersion and nothing else. Anything more is the work of a webhook, which this package
knows only as a `Converter`; the control plane supplies them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object


class Converter(Protocol):
    """Converts objects of one kind by a request to a webhook."""

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """The objects in another version, in the same order: all of them, or an `ApiError`.

        The objects given are not changed.
        """
        ...


if TYPE_CHECKING:
    ConverterFor = Callable[[str, Object], Converter]
    """Makes the converter of a definition, from its name and its `spec.conversion`."""


def relabel(obj: Object, api_version: str) -> Object:
    """An object in another version, by the strategy `None`; shares everything but its top level."""
    return {**obj, "apiVersion": api_version}
