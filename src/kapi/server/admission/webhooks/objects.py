"""The objects of a request in the versions that webhooks want, each converted and encoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.codec import json
from kapi.server.admission.versions import in_version

if TYPE_CHECKING:
    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.request import Write
    from kapi.server.admission.matching import ResourceMatch

_NONE: Final = (None, None)


class Versioned:
    """The two objects of a request in one version, as dictionaries and as JSON."""

    __slots__ = ("encoded", "encoded_old", "obj", "old")

    def __init__(
        self, obj: Object | None, old: Object | None, encoded: bytes | None, encoded_old: bytes | None
    ) -> None:
        self.obj = obj
        self.old = old
        self.encoded = encoded
        self.encoded_old = encoded_old


class AdmittedObjects:
    """The object that a request writes, and the one that is stored, as they are now."""

    def __init__(self, write: Write, obj: Object | None, old: Object | None) -> None:
        self.write = write
        self.obj = obj
        self.old = old
        self._objects: dict[GroupVersionKind, tuple[Object, bytes]] = {}
        self._old_objects: dict[GroupVersionKind, tuple[Object, bytes]] = {}

    async def at(self, match: ResourceMatch) -> Versioned:
        """Return the objects as the kind that a rule matched."""
        obj, encoded = _NONE if self.obj is None else await self._at(match, self.obj, self._objects)
        old, encoded_old = _NONE if self.old is None else await self._at(match, self.old, self._old_objects)
        return Versioned(obj, old, encoded, encoded_old)

    async def _at(
        self, match: ResourceMatch, obj: Object, known: dict[GroupVersionKind, tuple[Object, bytes]]
    ) -> tuple[Object, bytes]:
        found = known.get(match.kind)
        if found is None:
            versioned = await in_version(self.write, obj, match.resource, match.kind)
            found = known[match.kind] = versioned, json.encode(versioned)
        return found

    def replace(self, obj: Object) -> None:
        """Make the object, in place, what a webhook has made of it."""
        assert self.obj is not None
        self.obj.clear()
        self.obj.update(obj)
        self._objects.clear()
