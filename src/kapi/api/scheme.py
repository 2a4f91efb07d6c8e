"""The scheme: which Python class stands for which kind.

`SCHEME` is the default one: it knows the built-in kinds, whose classes are imported when they are first asked
for, and every class that was decorated with `@resource`. A `Scheme` of one's own is for tests, and for programs that
want another class for a kind than the usual one. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec

from kapi.api import builtin
from kapi.api.meta import GroupVersion, GroupVersionKind

if TYPE_CHECKING:
    from kapi.api.access import AnyObject


class _NamedMetadata(Protocol):
    """Metadata that has a name: what an object has, and what a list or a part of an object has not."""

    @property
    def name(self) -> str | None:
        """`metadata.name`."""
        ...


class TypedObject(Protocol):
    """An instance of a class that stands for a kind: a built-in one, or a `CustomResource`."""

    gvk: ClassVar[GroupVersionKind]

    @property
    def metadata(self) -> _NamedMetadata | None:
        """The object's metadata."""
        ...


S = TypeVar("S", bound=TypedObject)


class Scheme:
    """Kinds and their classes, both ways.

    A kind has one class; of two that are registered the last one counts, so that a module can be loaded again and a
    program can put its own class in the place of a built-in one. A class may stand for a kind without being registered:
    `gvk_of` asks the class itself.
    """

    def __init__(self) -> None:
        self._classes: dict[GroupVersionKind, type[msgspec.Struct]] = {}

    def register(self, cls: type[S]) -> type[S]:
        """Let a class stand for its kind; gives the class back, so that it can be used as a decorator."""
        candidate: Any = cls
        if not (isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)):
            raise TypeError(f"{cls!r} is not a msgspec.Struct class")
        self._classes[self.gvk_of(candidate)] = candidate
        return cls

    @property
    def registered(self) -> tuple[type[msgspec.Struct], ...]:
        """The classes that were registered, and those of built-in kinds that were asked for."""
        return tuple(self._classes.values())

    def class_for(self, gvk: GroupVersionKind) -> type[msgspec.Struct] | None:
        """The class of a kind; None when objects of the kind are dictionaries."""
        found = self._classes.get(gvk)
        if found is None and tuple(gvk) in builtin.KINDS:
            found = self._classes[gvk] = builtin.load(*gvk)
        return found

    def gvk_of(self, thing: type[Any] | AnyObject) -> GroupVersionKind:
        """The kind of a class or of an object.

        Raises:
            TypeError: a class that stands for no kind.
            ValueError: a dictionary that does not say what it is.
        """
        if isinstance(thing, dict):
            return _said_by(thing)
        cls = thing if isinstance(thing, type) else type(thing)
        gvk = getattr(cls, "gvk", None)
        if not isinstance(gvk, GroupVersionKind):
            raise TypeError(
                f"{cls.__qualname__} stands for no kind: it needs a gvk, which @resource(...) gives to custom classes"
            )
        return gvk


def _said_by(obj: dict[str, Any]) -> GroupVersionKind:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        raise ValueError("the object does not say what it is: set apiVersion and kind")
    return GroupVersionKind(*GroupVersion.parse(api_version), kind)


SCHEME = Scheme()
"""The default scheme, shared by the whole process."""
