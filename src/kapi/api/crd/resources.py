"""The base of custom classes, and the decorator that says what their kind is called."""

from __future__ import annotations

import copy
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations of classes
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from kapi.api.access import SET_FIELDS
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd.markers import Rule  # noqa: TC001 - as above
from kapi.api.meta import GroupVersionKind
from kapi.api.scheme import SCHEME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.crd.markers import Column, Scale

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Naming:
    """The arguments of `@resource`: the names of a kind and how it is served at one version."""

    gvk: GroupVersionKind
    plural: str
    singular: str
    list_kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    scale: Scale | None = None
    status: bool = True
    served: bool = True
    storage: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""


class _ModelMeta(msgspec.StructMeta):
    """Notes which fields an instance is made with."""

    # Hidden from type checkers, which take the arguments of a class from its fields.
    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **fields: Any) -> Any:
            obj = super().__call__(*args, **fields)
            obj.__dict__[SET_FIELDS] = {*fields, *self.__struct_fields__[: len(args)]}
            return obj


class Model(
    msgspec.Struct,
    metaclass=_ModelMeta,
    rename="camel",
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    dict=True,
):
    """The base of the parts of custom objects: camelCase on the wire, and what was not set is left out there.

    A field that was set is sent, also when it has the value of its default: `Spec(on=False)` says more than `Spec()`.
    An instance that was decoded, or made by `msgspec.structs.replace`, has no fields that were set by the program.

    msgspec does not inherit `kw_only`: required fields come first, or the subclass says `kw_only=True` itself.
    """

    RULES: ClassVar[tuple[Rule, ...]] = ()
    """Validation rules of the class as a whole. A subclass that has its own replaces those of its base."""
    SCHEMA: ClassVar[Mapping[str, Any]] = _NOTHING
    """More fields of the schema of the class, as the definition has them: `{"minProperties": 1}`."""

    # Hidden from type checkers, which would take them for permission to set any attribute.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if (were_set := self.__dict__.get(SET_FIELDS)) is not None:
                were_set.add(name)

        def __copy__(self) -> Model:
            made = super().__copy__()
            made.__dict__.update(self.__dict__)
            if (were_set := self.__dict__.get(SET_FIELDS)) is not None:
                made.__dict__[SET_FIELDS] = set(were_set)
            return made

        def __deepcopy__(self, memo: dict[int, Any]) -> Model:
            made = self.__copy__()
            for name in self.__struct_fields__:
                msgspec.Struct.__setattr__(made, name, copy.deepcopy(getattr(self, name), memo))
            return made


class CustomResource(Model, kw_only=True):
    """The base of custom kinds.

    A subclass adds `spec`, `status` and what else its objects have, and is decorated with `@resource`; apiVersion and
    kind are then filled in by themselves.
    """

    gvk: ClassVar[GroupVersionKind]
    naming: ClassVar[Naming]

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def __post_init__(self) -> None:
        """Say what this is, unless it was said."""
        self.api_version = self.api_version or self.gvk.api_version
        self.kind = self.kind or self.gvk.kind


T = TypeVar("T", bound=CustomResource)


def resource(
    group_version: str,
    *,
    kind: str = "",
    plural: str = "",
    singular: str = "",
    list_kind: str = "",
    scope: str = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
    annotations: Mapping[str, str] = _NOTHING,
    columns: Iterable[Column] = (),
    rules: Iterable[Rule] = (),
    selectable_fields: Iterable[str] = (),
    scale: Scale | None = None,
    status: bool | None = None,
    served: bool = True,
    storage: bool = True,
    deprecated: bool = False,
    deprecation_warning: str = "",
) -> Callable[[type[T]], type[T]]:
    """Give a class its kind. `group_version` is `group/version`; the kind is the class's name unless said otherwise.

    The status sub-resource is there when the class has a `status`, unless `status` says otherwise. `annotations` are
    those of the definition. A version with a `deprecation_warning` is deprecated.
    """
    group, _, version = group_version.partition("/")
    if not group or not version or "/" in version:
        raise ValueError(f"{group_version!r} is not of the form group/version")
    if scope not in ("Namespaced", "Cluster"):
        raise ValueError(f"scope is Namespaced or Cluster, not {scope!r}")

    for words in (short_names, categories, selectable_fields):
        if isinstance(words, str):  # which is iterable, too: letter by letter
            raise TypeError(f"names are given as a list or a tuple: ({words!r},)")

    def decorate(cls: type[T]) -> type[T]:
        if not (isinstance(cls, type) and issubclass(cls, CustomResource)):
            raise TypeError(f"@resource is for subclasses of CustomResource, which {cls!r} is not")
        name = kind or cls.__name__
        cls.gvk = GroupVersionKind(group, version, name)
        cls.naming = Naming(
            gvk=cls.gvk,
            plural=plural or plural_of(name),
            singular=singular or name.lower(),
            list_kind=list_kind or f"{name}List",
            namespaced=scope == "Namespaced",
            short_names=tuple(short_names),
            categories=tuple(categories),
            annotations=tuple(sorted(annotations.items())),
            columns=tuple(columns),
            rules=tuple(rules),
            selectable_fields=tuple(selectable_fields),
            scale=scale,
            status="status" in cls.__struct_fields__ if status is None else status,
            served=served,
            storage=storage,
            deprecated=deprecated or bool(deprecation_warning),
            deprecation_warning=deprecation_warning,
        )
        return SCHEME.register(cls)

    return decorate


def naming_of(cls: type[CustomResource]) -> Naming:
    """Return the arguments of `@resource` for a class; raises TypeError when it was not decorated itself."""
    naming = cls.__dict__.get("naming")
    if not isinstance(naming, Naming):
        raise TypeError(f"{cls.__qualname__} has no kind: decorate it with @resource(...)")
    return naming


def plural_of(kind: str) -> str:
    """The plural in lower case, as English mostly makes it; `@resource(plural=...)` is for the rest."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return f"{lower[:-1]}ies"
    return f"{lower}s"
