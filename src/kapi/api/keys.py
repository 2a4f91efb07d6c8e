"""The key of an object among the objects of its kind: a namespace and a name.

Caches, queues and reconcilers speak of objects by key, because the object itself may be gone by the time it is its
turn. No I/O, no policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.access import name_of, namespace_of

if TYPE_CHECKING:
    from kapi.api.access import AnyObject


class ObjectKey(NamedTuple):
    """A namespace and a name, printed as `namespace/name`, or `name` for an object without a namespace.

    Keys sort by namespace, then by name, and `parse` reads what `str` prints.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: AnyObject) -> ObjectKey:
        """The key of an object; its parts are empty where its metadata does not say."""
        return cls(namespace_of(obj), name_of(obj))

    @classmethod
    def parse(cls, text: str) -> ObjectKey:
        """Read `namespace/name` or `name`; raises ValueError for anything else."""
        namespace, slash, name = text.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ValueError(f"unexpected key format: {text!r} is neither namespace/name nor name")
        return cls(namespace, name)
