"""From kinds to a Python package with clients, listers and informers of them, in which no object is an Any.

The package has names and types, and no behaviour: a `NetworkClient` is `kapi.client.kindclient` for `Network`, a
`NetworkLister` and `SharedInformers` are those of `kapi.informer`. Its modules import each other relatively, so that it
works wherever it is put. The same kinds make the same text, which type checkers, linters and formatters leave alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.scaffold.clientset.imports import exported, imports
from kapi.scaffold.clientset.kinds import batches, kinds_of_classes, named
from kapi.scaffold.models import docstring
from kapi.scaffold.source import Brackets, laid_out
from kapi.scaffold.types import types_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.scaffold.clientset.kinds import NamedKind

MADE: Final = "Made by `kapi generate client`."
_INDENT: Final = "    "
_BODY: Final = _INDENT * 2


def package_of_classes(classes: Iterable[type[CustomResource]]) -> dict[str, str]:
    """The files of a package for classes that are somewhere else, by their names in it.

    Raises:
        NoClientset: there is no such package; see `kinds_of_classes` and `named`.
    """
    return _package(named(kinds_of_classes(classes)))


def package_of_definitions(definitions: Sequence[Object], version: str = "") -> dict[str, str]:
    """The same for definitions in the form of `apiextensions.k8s.io/v1`, with modules for their classes.

    Of each, all versions that are served are taken, or the one that is asked for.

    Raises:
        NoTypes: no classes can be made of a definition.
        NoClientset: no package can be made of them all.
    """
    found = batches(definitions, version)
    sources = {f"{batch.module}.py": types_source(batch.definitions, batch.version) for batch in found}
    return _package(named(kind for batch in found for kind in batch.kinds())) | sources


def _package(kinds: Sequence[NamedKind]) -> dict[str, str]:
    groups = ", ".join(sorted({kind.served.group for kind in kinds}))
    return {
        "__init__.py": _front(groups, kinds),
        "clientset.py": _clientset(groups, kinds),
        "informers.py": _informers(groups, kinds),
        "kinds.py": _kinds(groups, kinds),
        "listers.py": _listers(groups, kinds),
    }


def _module(about: str, groups: str, *parts: Iterable[str]) -> str:
    lines = list(docstring(f"{about}\n\nFor {groups}. {MADE}", indent=""))
    for part in parts:
        lines += part
    return "\n".join(lines) + "\n"


def _own(kinds: Sequence[NamedKind]) -> list[tuple[str, str]]:
    return [(".kinds", kind.cls) for kind in kinds]


# -- what the package shows -------------------------------------------------------------------------------------------


def _front(groups: str, kinds: Sequence[NamedKind]) -> str:
    shown = [(".clientset", "Clientset"), (".informers", "SharedInformers"), *_own(kinds)]
    shown += [(".clientset", kind.client) for kind in kinds]
    shown += [(".listers", kind.lister) for kind in kinds]
    return _module(
        "Clients, listers and informers of custom kinds.",
        groups,
        ["", *imports(shown)],
        ["", *exported(name for _, name in shown)],
    )


def _kinds(groups: str, kinds: Sequence[NamedKind]) -> str:
    # The one module that imports from outside: what a linter takes that for, it sorts alone.
    found = imports([(kind.served.module, _renamed(kind)) for kind in kinds])
    return _module(
        "The classes of the kinds, by the names they have in this package.",
        groups,
        ["", *found],
        ["", *exported(kind.cls for kind in kinds)],
    )


def _renamed(kind: NamedKind) -> str:
    return kind.cls if kind.cls == kind.served.cls else f"{kind.served.cls} as {kind.cls}"


# -- clients ----------------------------------------------------------------------------------------------------------


def _clientset(groups: str, kinds: Sequence[NamedKind]) -> str:
    needed = [("dataclasses", "dataclass"), ("kapi.client", "Client")]
    needed += [("kapi.client.kindclient", base) for kind in kinds for base in _bases(kind)]
    clients = (line for kind in kinds for line in _client(kind))
    return _module("Clients of each kind.", groups, ["", *imports([*needed, *_own(kinds)])], clients, _chooser(kinds))


def _bases(kind: NamedKind) -> tuple[str, ...]:
    """The verbs that the server has for a kind."""
    match kind.served.status, kind.served.scale:
        case True, True:
            return ("KindClient",)
        case True, False:
            return ("StatusVerbs",)
        case False, True:
            return ("ScaleVerbs",)
    return ("KindVerbs",)


def _client(kind: NamedKind) -> Iterator[str]:
    served = kind.served
    where = " in one namespace, or in all" if served.namespaced else ""
    yield from ("", "")
    bases = tuple(f"{base}[{kind.cls}]" for base in _bases(kind))
    yield from laid_out(Brackets(f"class {kind.client}(", bases, ")"), "", "", ":")
    yield from docstring(f"The verbs of {served.plural} of {served.api_version}{where}.")


def _function(head: str, parameters: tuple[str, ...], returns: str, doc: str) -> Iterator[str]:
    yield ""
    yield from laid_out(Brackets(f"{head}(", parameters, ")"), _INDENT, _INDENT, f" -> {returns}:")
    yield from docstring(doc, _BODY)


def _chooser(kinds: Sequence[NamedKind]) -> Iterator[str]:
    yield from ("", "", "@dataclass(frozen=True, slots=True)", "class Clientset:")
    yield from docstring(
        "A client for each kind.\n\nWhere no namespace is given it is the object's own, else the client's; "
        "`kapi.client.ALL_NAMESPACES` is for lists and watches."
    )
    yield from ("", f"{_INDENT}client: Client")
    for kind in kinds:
        served = kind.served
        doc = f"The client of {served.plural} of {served.api_version}."
        where = (("namespace: str | None = None",), ("namespace",)) if served.namespaced else ((), ())
        yield from _function(f"def {served.method}", ("self", *where[0]), kind.client, doc)
        call = Brackets(f"{kind.client}(", ("self.client", kind.cls, *where[1]), ")")
        yield from laid_out(call, _BODY, f"{_BODY}return ")


# -- listers ----------------------------------------------------------------------------------------------------------


def _listers(groups: str, kinds: Sequence[NamedKind]) -> str:
    needed = [("kapi.informer", "Lister")]
    if any(kind.served.namespaced for kind in kinds):
        needed.append(("kapi.informer", "NamespaceLister"))
    listers = (line for kind in kinds for line in _lister(kind))
    return _module(
        "What informers have of each kind, without asking the server.",
        groups,
        ["", *imports([*needed, *_own(kinds)])],
        listers,
    )


def _lister(kind: NamedKind) -> Iterator[str]:
    served = kind.served
    yield from ("", "")
    yield from laid_out(Brackets(f"class {kind.lister}(", (f"Lister[{kind.cls}]",), ")"), "", "", ":")
    yield from docstring(f"The {served.plural} of {served.api_version} that an informer has: give it its `indexer`.")
    if served.namespaced:
        returns = f"NamespaceLister[{kind.cls}]"
        yield from _function(f"def {served.method}", ("self", "namespace: str"), returns, "Those of one namespace.")
        yield f"{_BODY}return self.in_namespace(namespace)"


# -- informers --------------------------------------------------------------------------------------------------------


def _informers(groups: str, kinds: Sequence[NamedKind]) -> str:
    needed = [
        ("kapi.api.selectors", "LabelSelector"),
        ("kapi.informer", "SharedInformer"),
        ("kapi.informer", "SharedInformerFactory"),
    ]
    return _module("Informers of each kind.", groups, ["", *imports([*needed, *_own(kinds)])], _factory(kinds))


def _factory(kinds: Sequence[NamedKind]) -> Iterator[str]:
    yield from ("", "", "class SharedInformers(SharedInformerFactory):")
    yield from docstring("Makes, shares, starts and stops informers; it has a method for each kind.")
    for kind in kinds:
        served = kind.served
        where = ("namespace: str | None = None",) if served.namespaced else ()
        options = ("self", "*", *where, 'labels: LabelSelector | str = ""', 'fields: str = ""')
        doc = f"The informer of {served.plural} of {served.api_version}."
        yield from _function(f"def {served.method}", options, f"SharedInformer[{kind.cls}]", doc)
        asked = ("namespace=namespace",) if where else ()
        call = Brackets("self.informer(", (kind.cls, *asked, "labels=labels", "fields=fields"), ")")
        yield from laid_out(call, _BODY, f"{_BODY}return ")
