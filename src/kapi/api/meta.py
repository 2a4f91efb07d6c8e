"""The nouns every object shares: group, version, kind, resource, and the metadata block.

Objects are plain dictionaries here, as decoded from JSON; these helpers say what is in them. No I/O, no policy.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any, NamedTuple

Object = dict[str, Any]
"""A decoded API object: `apiVersion`, `kind`, `metadata` and what the kind adds."""


class GroupResource(NamedTuple):
    """A resource without its version; printed as `deployments.apps`, or `pods` for the core group."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    """A kind without its version; printed as `Deployment.apps`, or `Pod` for the core group."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupVersion(NamedTuple):
    """An API group at a version, printed as `apps/v1`, or `v1` for the core group."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Read an `apiVersion`; raises ValueError when it has more than one slash."""
        group, slash, version = api_version.partition("/")
        if "/" in version:
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version) if slash else cls("", group)


class GroupVersionKind(NamedTuple):
    """The group, version and kind of an object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The `apiVersion` field of such an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """Without the version."""
        return GroupKind(self.group, self.kind)


class GroupVersionResource(NamedTuple):
    """The group, version and resource name under which objects are served."""

    group: str
    version: str
    resource: str

    @property
    def group_resource(self) -> GroupResource:
        """Without the version."""
        return GroupResource(self.group, self.resource)


def format_time(moment: dt.datetime) -> str:
    """A moment as `metav1.Time` prints it: UTC, whole seconds."""
    return _format_second(moment.replace(microsecond=0))


@lru_cache(maxsize=16)
def _format_second(moment: dt.datetime) -> str:
    # Remembered, because every write of a second has the same time in it, most of them twice.
    at = moment if moment.tzinfo is dt.UTC else moment.astimezone(dt.UTC)
    return at.isoformat(timespec="seconds")[:19] + "Z"


def parse_time(text: str) -> dt.datetime | None:
    """Read an RFC 3339 time; None when it is not one."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def is_deleting(obj: Object) -> bool:
    """True once the object has a deletionTimestamp."""
    return bool(obj["metadata"].get("deletionTimestamp"))
