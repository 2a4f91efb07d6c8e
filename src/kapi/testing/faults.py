"""Fault injection by rule: requests that are lost, delayed or refused, answers that are lost, watches that are cut.

    env.faults.add(verb="update", resource="networks", then="conflict", times=2)
    env.faults.add(verb="watch", resource="networks", then="cut_watch")
    with env.faults.active(verb="create", resource="pods", then="lose_response"):
        ...

Faults are injected between the client and its transport, so that the client's own code (retries, back-off, reflectors)
deals with them as it would with a bad network. They affect the clients of the environment, whether it is a server in
this process, another process or a cluster; not the built-in controllers, and not other programs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, Literal, get_args

from kapi.api.errors import Conflict, Expired, InternalError, ServiceUnavailable, TooManyRequests
from kapi.api.meta import GroupResource
from kapi.testing.target import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.crd import CustomResource
    from kapi.api.errors import ApiError
    from kapi.testing.target import Target

Then = Literal[
    "drop",
    "delay",
    "conflict",
    "expired",
    "too_many_requests",
    "server_error",
    "unavailable",
    "cut_watch",
    "slow_watch",
    "lose_response",
]
"""What happens to a request:

* `drop`: the connection breaks before the server has it;
* `delay`: it is sent `seconds` later;
* `conflict`, `expired`, `too_many_requests`, `server_error`, `unavailable`: it is not sent, and answered with 409, 410,
  429 with Retry-After, 500 or 503; an open watch that is `expired` gets an ERROR event with the 410 and ends;
* `cut_watch`: the connection of a watch breaks, at once if it is open already;
* `slow_watch`: each event of a watch takes `seconds` to arrive, one after the other, so that caches are behind; `name`
  selects the events of single objects;
* `lose_response`: the server does what is asked, then the connection breaks.
"""

_THENS: Final = frozenset(get_args(Then))
_REFUSALS: Final[dict[str, Callable[[GroupResource, str], ApiError]]] = {
    "conflict": Conflict.modified,
    "expired": lambda _, __: Expired("The resourceVersion for the provided watch is too old."),
    "too_many_requests": lambda _, __: TooManyRequests(
        "Too many requests, please try again later.", details={"retryAfterSeconds": 1}
    ),
    "server_error": lambda _, __: InternalError.of("a fault was injected"),
    "unavailable": lambda _, __: ServiceUnavailable("the server is currently unable to handle the request"),
}


@dataclass(slots=True, eq=False)
class Fault:
    """One rule. `hits` counts the requests that it has affected; after `times` of them it is spent."""

    pattern: Pattern
    then: Then
    times: float = inf
    after: int = 0
    """Matching requests that are left alone first."""
    seconds: float = 1.0
    hits: int = 0
    _skipped: int = field(default=0, repr=False)

    @property
    def is_spent(self) -> bool:
        """True if it affects no more requests."""
        return self.hits >= self.times

    def take(self, target: Target, user: str) -> bool:
        """Return True if the rule affects a request, and count it."""
        if self.is_spent or not self.pattern.matches(target, user):
            return False
        if self._skipped < self.after:
            self._skipped += 1
            return False
        self.hits += 1
        return True

    def refusal(self, target: Target) -> ApiError | None:
        """Return the error that the request is answered with; None if it is not answered by the rule."""
        make = _REFUSALS.get(self.then)
        return None if make is None else make(GroupResource(target.group, target.resource), target.name)

    def __str__(self) -> str:
        return f"{self.then} for {self.pattern}"


class Faults:
    """The rules of one environment. The first that matches a request affects it."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._watches: dict[Callable[[], None], None] = {}

    def add(
        self,
        *,
        then: Then,
        verb: str = "",
        resource: str | type[CustomResource] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        times: float = inf,
        after: int = 0,
        seconds: float = 1.0,
    ) -> Fault:
        """Add a rule for the requests that match, see `Pattern`: for `times` of them, without the first `after`."""
        if then not in _THENS:
            raise ValueError(f"then={then!r}: expected one of {', '.join(sorted(_THENS))}")
        if then in ("cut_watch", "slow_watch"):
            verb = verb or "watch"
            if verb != "watch":
                raise ValueError(f"{then} is for watches, not for verb={verb!r}")
        pattern = Pattern(verb=verb, resource=resource, namespace=namespace, name=name, user=user)
        rule = Fault(pattern, then, times, after, seconds)
        self._rules.append(rule)
        for look in tuple(self._watches):
            look()
        return rule

    @contextlib.contextmanager
    def active(
        self,
        *,
        then: Then,
        verb: str = "",
        resource: str | type[CustomResource] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        times: float = inf,
        after: int = 0,
        seconds: float = 1.0,
    ) -> Iterator[Fault]:
        """Add a rule for the length of a block."""
        rule = self.add(
            then=then,
            verb=verb,
            resource=resource,
            namespace=namespace,
            name=name,
            user=user,
            times=times,
            after=after,
            seconds=seconds,
        )
        try:
            yield rule
        finally:
            self.remove(rule)

    def remove(self, rule: Fault) -> None:
        """Remove a rule; no error if it is not there."""
        with contextlib.suppress(ValueError):
            self._rules.remove(rule)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def take(self, target: Target, user: str) -> Fault | None:
        """Return the rule for a request, and count it; None if it is left alone."""
        if not self._rules:
            return None
        rules = (rule for rule in self._rules if rule.then != "slow_watch")
        return next((rule for rule in rules if rule.take(target, user)), None)

    def watch_delay(self, target: Target, user: str) -> float:
        """Return the seconds by which an event of a watch is late; `target` names its object."""
        rules = (rule for rule in self._rules if rule.then == "slow_watch")
        return next((rule.seconds for rule in rules if rule.take(target, user)), 0.0)

    def take_for_open_watch(self, target: Target, user: str) -> Fault | None:
        """Return the rule that ends a watch which is open, and count it."""
        rules = (rule for rule in self._rules if rule.then in ("cut_watch", "expired"))
        return next((rule for rule in rules if rule.take(target, user)), None)

    @contextlib.contextmanager
    def watching(self, look: Callable[[], None]) -> Iterator[None]:
        """Call a function whenever a rule is added, inside the block: the one that ends a watch which is open."""
        self._watches[look] = None
        try:
            yield
        finally:
            self._watches.pop(look, None)
