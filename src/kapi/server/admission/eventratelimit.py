"""EventRateLimit: a limit on the rate of Events, for the server, a namespace, a user, or a source and object.

Off by default; needs a configuration. Each limit has a bucket of tokens for each key, and forgets the key that was
used the longest time ago when there are too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import TooManyRequests
from kapi.api.fielderror import invalid, not_supported
from kapi.api.meta import GroupKind
from kapi.registry.request import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

EVENT: Final = GroupKind("", "Event")
CACHE_SIZE: Final = 4096

_SHAPE: Final[Mapping[str, Any]] = {"limits": [{"type": str, "qps": int, "burst": int, "cacheSize": int}]}
KINDS: Final = {("eventratelimit.admission.k8s.io/v1alpha1", "Configuration"): _SHAPE}


def configuration_errors(configuration: Object) -> list[FieldError]:
    """Validate a configuration whose shape is right."""
    limits = configuration.get("limits") or []
    errors = [] if limits else [invalid("limits", limits, "must not be empty")]
    for index, limit in enumerate(limits):
        path = f"limits[{index}]"
        if limit.get("type") not in _KEYS:
            errors.append(not_supported(f"{path}.type", limit.get("type") or "", sorted(_KEYS)))
        errors += [
            invalid(f"{path}.{field}", limit.get(field, 0), "must be positive")
            for field in ("burst", "qps")
            if limit.get(field, 0) <= 0
        ]
        if limit.get("type") != "Server" and limit.get("cacheSize", 0) < 0:
            errors.append(invalid(f"{path}.cacheSize", limit["cacheSize"], "must not be negative"))
    return errors


class EventRateLimit:
    """Refuses Events beyond the limits."""

    reads_only = True

    def __init__(self, configuration: Object, clock: Clock) -> None:
        self._limits = [_Limit(one, clock) for one in configuration["limits"]]

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Events of the core group that are created or changed."""
        return resource.group_kind == EVENT and operation in {CREATE, UPDATE}

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Take a token of each limit; refuse when one has none left. A dry run takes none."""
        if write.dry_run:
            return
        problems = [problem for limit in self._limits if (problem := limit.problem(write, obj or {}))]
        if problems:
            problems = list(dict.fromkeys(problems))
            why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise TooManyRequests(f"Too many requests: {why}")


class _Limit:
    """One limit: a bucket for each key, the one used last at the end."""

    def __init__(self, fields: Object, clock: Clock) -> None:
        self._type: str = fields["type"]
        self._key = _KEYS[self._type]
        self._qps: int = fields["qps"]
        self._burst: int = fields["burst"]
        self._size: int = fields.get("cacheSize") or CACHE_SIZE
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def problem(self, write: Write, event: Object) -> str:
        """Take a token; the reason why there is none, or an empty text."""
        key = self._key(write, event)
        now = self._clock.monotonic()
        bucket = self._buckets.pop(key, None) or _Bucket(self._qps, self._burst, now)
        self._buckets[key] = bucket
        if len(self._buckets) > self._size:
            del self._buckets[next(iter(self._buckets))]
        return "" if bucket.take(now) else f"limit reached on type {self._type} for key {key}"


class _Bucket:
    """A bucket of tokens that fills with time."""

    __slots__ = ("_burst", "_counted_at", "_qps", "_tokens")

    def __init__(self, qps: int, burst: int, now: float) -> None:
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._counted_at = now

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._qps)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _source_and_object(write: Write, event: Object) -> str:
    source, about = event.get("source") or {}, event.get("involvedObject") or {}
    parts = (source.get("component"), source.get("host"), *(about.get(name) for name in _OBJECT_FIELDS))
    return "".join(part or "" for part in parts)


_OBJECT_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion")
_KEYS: Final[Mapping[str, Callable[[Write, Object], str]]] = {
    "Server": lambda write, event: "",
    "Namespace": lambda write, event: write.namespace,
    "User": lambda write, event: write.user.name,
    "SourceAndObject": _source_and_object,
}
