"""The function libraries that expressions may use besides the standard functions, each in a module of its own.

A module has `FUNCTIONS`, the overloads by function for the checker, and `IMPLEMENTATIONS`, what they do, by overload.
Here they are put together. Libraries add overloads to each other's functions, and to standard ones such as `string`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.libraries import cidr, ip, lists, namedformats, quantity, regex, semver, sets, strings, urls
from kapi.schema.cel.libraries.standard import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.cel.types import Overload

_MODULES: Final = (urls, regex, lists, quantity, strings, sets, ip, cidr, namedformats, semver)


def _gather() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for module in _MODULES:
        for name, overloads in module.FUNCTIONS.items():
            found[name] = (*found.get(name, STANDARD.get(name, ())), *overloads)
    return found


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _gather()
"""The overloads of each function, with the standard ones where there are any: `{**STANDARD, **FUNCTIONS}` is all."""

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    overload: implementation for module in _MODULES for overload, implementation in module.IMPLEMENTATIONS.items()
}
"""What each overload does."""

GENERAL: Final = lists.GENERAL
"""Functions with one meaning for all types, which look at their arguments themselves."""
