"""The kinds of a generated package, and the names of their classes, methods and modules.

Kinds come from classes written by hand, or from definitions whose classes are written along with the package. Names
depend on a kind and its version alone wherever they can, so that a kind that is added renames none that was there.
"""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kapi.api.crd import naming_of
from kapi.scaffold.names import Names, class_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object

CLASSES: Final = frozenset({
    "Client", "Clientset", "KindClient", "KindVerbs", "LabelSelector", "Lister", "NamespaceLister", "ScaleVerbs",
    "SharedInformer", "SharedInformerFactory", "SharedInformers", "StatusVerbs",
})  # fmt: skip
"""The names that generated modules import or define: a kind of that name is renamed."""

METHODS: Final = frozenset({
    "by_index", "by_key", "cached", "client", "get", "in_namespace", "informer", "informers", "is_whole", "list",
    "metadata_informer", "release", "start", "stop", "wait_for_sync",
})  # fmt: skip
"""The attributes of clientsets, listers and informer factories: the method of a kind must not hide them."""


class NoClientset(ValueError):
    """Kinds that no package can be made for; the text says why."""


@dataclass(frozen=True, slots=True)
class Served:
    """A kind at one version: where its class is, how it is called, and what the server has of it."""

    module: str
    cls: str
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = False
    scale: bool = False
    storage: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}"

    @property
    def method(self) -> str:
        """Return the name of its method: `networks`, and `networks_v1beta1` for a version that is not stored."""
        name = identifier(self.plural if self.storage else f"{self.plural}_{self.version}")
        return f"{name}_" if name in METHODS or keyword.iskeyword(name) else name

    @property
    def stem(self) -> str:
        """Return the prefix of its classes: `Network`, and `NetworkV1Beta1` for a version that is not stored."""
        version = "" if self.storage else re.sub(r"[a-z]+", lambda word: word[0].capitalize(), self.version)
        return class_name(self.kind, version)


@dataclass(frozen=True, slots=True)
class NamedKind:
    """A kind with the names its classes have in the generated modules, where each name is there once."""

    served: Served
    cls: str
    client: str
    lister: str


def identifier(name: str) -> str:
    """A name of the server's with nothing in it that Python does not allow: a plural or a version may have hyphens."""
    return re.sub(r"\W", "_", name)


def named(kinds: Iterable[Served]) -> list[NamedKind]:
    """Kinds in the order of their methods, with names for what is generated of them.

    Raises:
        NoClientset: there are none, or two of them would be called the same.
    """
    methods: dict[str, Served] = {}
    for kind in kinds:
        other = methods.setdefault(kind.method, kind)
        if other != kind:
            raise NoClientset(
                f"{other.plural}.{other.api_version} ({other.cls}) and {kind.plural}.{kind.api_version} ({kind.cls})"
                f" would both be called {kind.method}: make a package for each"
            )
    if not methods:
        raise NoClientset("none of the kinds is served: there is nothing to make clients of")
    ordered = [methods[method] for method in sorted(methods)]
    names = Names(CLASSES)
    made = [[names.claim(f"{kind.stem}{what}") for what in ("Client", "Lister")] for kind in ordered]
    taken = CLASSES.union(*made)
    classes: dict[Served, str] = {}
    # Of versions whose classes have one name, that of the stored version keeps it.
    for kind in sorted(ordered, key=lambda kind: not kind.storage):
        classes[kind] = names.claim(_wanted(kind, taken.union(classes.values())))
    return [NamedKind(kind, classes[kind], *claimed) for kind, claimed in zip(ordered, made, strict=True)]


def _wanted(kind: Served, taken: frozenset[str]) -> str:
    """The class's own name if it is free, else one that says what it is."""
    otherwise = f"{kind.stem}Kind"
    return next((name for name in (kind.cls, kind.stem) if name not in taken), otherwise)


def kinds_of_classes(classes: Iterable[type[CustomResource]]) -> list[Served]:
    """The served kinds of some classes.

    Raises:
        NoClientset: a class cannot be imported by its name from the module it was defined in.
    """
    return [_of_class(cls) for cls in dict.fromkeys(classes) if naming_of(cls).served]


def _of_class(cls: type[CustomResource]) -> Served:
    module, name, naming = cls.__module__, cls.__qualname__, naming_of(cls)
    if getattr(sys.modules.get(module), name, None) is not cls:
        raise NoClientset(f"{module}.{name} cannot be imported by that name: define it at the top of its module")
    return Served(
        module=module,
        cls=name,
        group=naming.gvk.group,
        version=naming.gvk.version,
        kind=naming.gvk.kind,
        plural=naming.plural,
        namespaced=naming.namespaced,
        status=naming.status,
        scale=naming.scale is not None,
        storage=naming.storage,
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Definitions whose classes, at one version of each, are in one module; no `version` means the stored ones."""

    module: str
    version: str
    definitions: Sequence[Object]

    def kinds(self) -> list[Served]:
        """The served kinds of what `types_source` makes of the same."""
        names = Names()
        # The same names in the same order as `types_source` gives them.
        classes = [names.claim(class_name(one["spec"]["names"]["kind"])) for one in self.definitions]
        return [
            _of_definition(f".{self.module}", cls, one["spec"], version)
            for cls, one in zip(classes, self.definitions, strict=True)
            for version in one["spec"]["versions"]
            if version.get("served") and self._has(version)
        ]

    def _has(self, version: Object) -> bool:
        return version["name"] == self.version if self.version else bool(version.get("storage"))


def batches(definitions: Sequence[Object], version: str = "") -> list[Batch]:
    """Definitions by the modules their classes go to: `types` for stored versions, one for each other that is served.

    With a version there is only that one, of all of them.
    """
    if version:
        return [Batch("types", version, definitions)]
    modules: dict[tuple[str, str], list[Object]] = {}
    for one in definitions:
        for served in one["spec"].get("versions") or ():
            if served.get("served"):
                name = served.get("name", "")
                where = ("types", "") if served.get("storage") else (f"types_{identifier(name)}", name)
                modules.setdefault(where, []).append(one)
    return [Batch(module, name, found) for (module, name), found in modules.items()]


def _of_definition(module: str, cls: str, spec: Object, version: Object) -> Served:
    subresources = version.get("subresources") or {}
    return Served(
        module=module,
        cls=cls,
        group=spec["group"],
        version=version["name"],
        kind=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=spec.get("scope") != "Cluster",
        status=subresources.get("status") is not None,
        scale=subresources.get("scale") is not None,
        storage=bool(version.get("storage")),
    )
