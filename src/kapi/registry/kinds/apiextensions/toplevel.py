"""The top-level fields of a definition: what all its versions have in common.

kube-apiserver keeps a definition in a form where schema, sub-resources, columns and selectable fields stand once, above
the versions, when all versions agree on them. Its error messages name fields as they are in that form, and v1beta1
shows definitions so. Pure functions; they share parts with their argument and never change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
"""The fields of a version that may stand above all versions."""

_canonical = msgspec.json.Encoder(order="sorted").encode


class TopLevel(NamedTuple):
    """The fields that all versions agree on, and what is left in each version."""

    shared: dict[str, Any]
    versions: list[dict[str, Any]]


def identical(left: Any, right: Any) -> bool:
    """Return True if two JSON values are the same, told apart as JSON does: `1`, `1.0` and `true` are three values."""
    return bool(left == right) and bool(_canonical(left) == _canonical(right))


def top_level(versions: Sequence[Mapping[str, Any]]) -> TopLevel:
    """Split versions into what they share and the rest. Versions that all lack a field share nothing of it."""
    agreed = [field for field in SHARED if _agree(versions, field)]
    shared = {field: versions[0][field] for field in agreed if versions[0].get(field) is not None}
    return TopLevel(shared, [{key: value for key, value in one.items() if key not in agreed} for one in versions])


def _agree(versions: Sequence[Mapping[str, Any]], field: str) -> bool:
    if not versions:
        return False
    first = versions[0].get(field)
    if first is None:
        return all(one.get(field) is None for one in versions)
    text = _canonical(first)
    return all(one.get(field) == first and _canonical(one.get(field)) == text for one in versions[1:])
