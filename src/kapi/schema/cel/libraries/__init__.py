"""The function libraries that Kubernetes enables in expressions, each in a module of its own.

A module has `FUNCTIONS`, the overloads by function, `IMPLEMENTATIONS`, what they do, by overload id, and `LIBRARY`,
which adds their costs. Libraries add overloads to each other's functions, and to standard ones such as `string`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.schema.cel.libraries import (
    authorizer,
    cidr,
    extlists,
    ip,
    lists,
    namedformats,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    urls,
)

if TYPE_CHECKING:
    from kapi.schema.cel.library import Library

LIBRARIES: Final[tuple[Library, ...]] = (
    standard.LIBRARY,
    urls.LIBRARY,
    regex.LIBRARY,
    lists.LIBRARY,
    authorizer.LIBRARY,
    authorizer.SELECTORS_LIBRARY,
    quantity.LIBRARY,
    strings.LIBRARY,
    sets.LIBRARY,
    ip.LIBRARY,
    cidr.LIBRARY,
    namedformats.LIBRARY,
    semver.LIBRARY,
    extlists.LIBRARY,
)
"""In the order in which overloads of one function are tried."""
