"""Functions that review requests, by path and class. A `WebhookServer` serves them over HTTPS.

An embedded control plane calls them itself: `ControlPlane(options, webhooks=functions)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from kapi.controller.webhook.admission import mutating, validating
from kapi.controller.webhook.registration import Hook, Match, path_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.meta import Object
    from kapi.controller.webhook.admission import Mutator, Review, Validator

T = TypeVar("T")

DEFAULT_MATCH: Final = Match()


class WebhookFunctions:
    """Validating and mutating functions. Those with a class are registered with an API server."""

    def __init__(self) -> None:
        self._reviews: dict[str, Review] = {}
        self._hooks: list[Hook] = []

    def registered(self) -> Iterator[tuple[Hook, Review]]:
        """The functions that have a class, and how each is called for."""
        for hook in self._hooks:
            yield hook, self._reviews[hook.path]

    @overload
    def validating(self, path: type[T], /, *, match: Match = ...) -> Callable[[Validator[T]], Validator[T]]: ...
    @overload
    def validating(self, path: str, cls: type[T], *, match: Match = ...) -> Callable[[Validator[T]], Validator[T]]: ...
    @overload
    def validating(self, path: str) -> Callable[[Validator[Object]], Validator[Object]]: ...
    def validating(
        self, path: Any, cls: Any = None, *, match: Match = DEFAULT_MATCH
    ) -> Callable[[Validator[Any]], Validator[Any]]:
        """Ask a function about requests for objects of a class, or of any kind, as dictionaries.

        The path is derived from the class where none is given. What has a class is registered, see `Registration`.
        """

        def decorate(function: Validator[Any]) -> Validator[Any]:
            where, kind = self._place("validate", path, cls, match)
            self._add(where, validating(function, kind))
            return function

        return decorate

    @overload
    def mutating(self, path: type[T], /, *, match: Match = ...) -> Callable[[Mutator[T]], Mutator[T]]: ...
    @overload
    def mutating(self, path: str, cls: type[T], *, match: Match = ...) -> Callable[[Mutator[T]], Mutator[T]]: ...
    @overload
    def mutating(self, path: str) -> Callable[[Mutator[Object]], Mutator[Object]]: ...
    def mutating(
        self, path: Any, cls: Any = None, *, match: Match = DEFAULT_MATCH
    ) -> Callable[[Mutator[Any]], Mutator[Any]]:
        """Let a function change objects before they are stored: in place, or by returning another.

        It is not called for DELETE, where there is nothing to change; `validating` is.
        """

        def decorate(function: Mutator[Any]) -> Mutator[Any]:
            where, kind = self._place("mutate", path, cls, match)
            self._add(where, mutating(function, kind))
            return function

        return decorate

    def _place(self, action: Literal["validate", "mutate"], path: Any, cls: Any, match: Match) -> tuple[str, Any]:
        """Return path and class of a webhook, and note it for the registration."""
        if not isinstance(path, str):
            path, cls = path_for(action, path.gvk, match.subresource), path
        if cls is not None:
            self._hooks.append(Hook(action, cls.gvk, path, match))
        return path, cls

    def _add(self, path: str, review: Review) -> None:
        if not path.startswith("/"):
            raise ValueError(f"path {path!r}: a path begins with a slash")
        if path in self._reviews:
            raise ValueError(f"path {path!r} is taken")
        self._reviews[path] = review
