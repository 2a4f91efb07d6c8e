"""Function libraries: signatures, implementations and costs of functions, declared apart from the engine.

A `Library` is all that an environment needs to know of some functions; those of Kubernetes are in `libraries`, and
callers may write their own. `Functions` is several libraries merged, which the checker, the estimator and the planner
look functions up in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kapi.schema.cel.types import Overload, Type, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kapi.schema.cel.cost.calls import CallEstimator
    from kapi.schema.cel.cost.prices import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Functions that expressions may call.

    Overloads may be added to functions that other libraries have too. The values of a type that a library defines are
    instances of a subclass of `values.Opaque`.
    """

    name: str
    functions: Mapping[str, tuple[Overload, ...]]
    """The overloads of each function. The receiver of a member function is its first argument."""
    implementations: Mapping[str, Callable[..., Any]]
    """By overload id. They get run-time values of the declared types and raise EvaluationError."""
    general: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """By function: one implementation for all types, which looks at its arguments itself."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """The cost of calls at run time, by overload id or else by function; 1 where nothing is given."""
    estimates: Mapping[str, CallEstimator] = field(default_factory=dict)
    """The estimated cost of calls, by overload id or else by function; 1 where nothing is given."""
    equality: Mapping[Type, CallEstimator] = field(default_factory=dict)
    """The estimated cost of `==` of two values of a type that the library defines."""
    types: Mapping[str, Type] = field(default_factory=dict)
    """Types by the names that expressions may use as values, as in `type(x) == net.IP`."""
    since: tuple[int, int] = (1, 0)
    """The Kubernetes version that has the library first."""


class Functions:
    """The functions of several libraries. Immutable, and shared by all environments that enable the same libraries."""

    __slots__ = (
        "dotted",
        "equality",
        "estimates",
        "general",
        "implementations",
        "overloads",
        "prices",
        "signatures",
        "types",
    )

    def __init__(self, libraries: Iterable[Library]) -> None:
        self.overloads: dict[str, tuple[Overload, ...]] = {}
        self.signatures: dict[str, tuple[Type, ...]] = {}
        self.implementations: dict[str, Callable[..., Any]] = {}
        self.general: dict[str, Callable[..., Any]] = {}
        self.prices: dict[str, Price] = {}
        self.estimates: dict[str, CallEstimator] = {}
        self.equality: dict[Type, CallEstimator] = {}
        self.types: dict[str, Type] = {}
        for library in libraries:
            self._add(library)
        self.dotted = frozenset(name.partition(".")[0] for name in self.types if "." in name)
        """The first parts of dotted type names."""

    def _add(self, library: Library) -> None:
        for name, overloads in library.functions.items():
            self.overloads[name] = (*self.overloads.get(name, ()), *overloads)
            self.signatures.update((overload.id, overload.args) for overload in overloads)
        self.implementations.update(library.implementations)
        self.general.update(library.general)
        self.prices.update(library.prices)
        self.estimates.update(library.estimates)
        self.equality.update(library.equality)
        self.types.update((name, type_of(type_)) for name, type_ in library.types.items())

    def price(self, function: str, overload: str) -> Price:
        """The price of a call; `overload` is empty when it is only known at run time."""
        found = self.prices.get(overload)
        return self.prices.get(function, 1) if found is None else found
