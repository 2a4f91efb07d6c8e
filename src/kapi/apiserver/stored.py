"""Resources whose objects Kapi stores, in memory or in SQLite: the generic registry of an API server of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object


class Stored:
    """A kind that is served as Kapi serves custom resources: all verbs, managedFields, server-side apply, finalizers.

    Give it the class of each version (one of them stored), or the dictionary of a CustomResourceDefinition.
    """

    def __init__(self, *kinds: type[CustomResource] | Object) -> None:
        self.kinds = kinds
