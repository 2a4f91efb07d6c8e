"""The order of API versions: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, and names of any other form after those.

Clients take the first version of a group for the preferred one, so discovery lists them in this order.
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?\Z")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


def by_priority(version: str) -> tuple[int, int, int, str]:
    """The sort key of a version: the better one is the smaller."""
    match = _VERSION.match(version)
    if match is None:
        return len(_STABILITY), 0, 0, version
    major, stability, minor = match.groups()
    return _STABILITY[stability], -int(major), -int(minor or 0), ""
