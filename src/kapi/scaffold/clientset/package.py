"""From kinds to a Python package with clients, listers and informers of them, in which no object is an Any.

The package is thin: a `NetworkClient` says `Network` to `kapi.client.Client`, a `NetworkLister` and `SharedInformers`
say it to those of `kapi.informer`. What they do is theirs. Its modules import each other relatively, so that it works
wherever it is put. The same kinds make the same text, which type checkers, linters and formatters leave alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.scaffold.clientset.imports import exported, imports
from kapi.scaffold.clientset.kinds import batches, kinds_of_classes, named
from kapi.scaffold.clientset.verbs import VERBS
from kapi.scaffold.models import docstring
from kapi.scaffold.source import Brackets, laid_out
from kapi.scaffold.types import types_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.scaffold.clientset.kinds import NamedKind
    from kapi.scaffold.clientset.verbs import Verb

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
    for kind in kinds:
        shown += [(".listers", name) for name in _lister_names(kind)]
    return _module(
        "Clients, listers and informers of custom kinds.",
        groups,
        ["", *imports(shown)],
        ["", *exported(name for _, name in shown)],
    )


def _lister_names(kind: NamedKind) -> list[str]:
    return [kind.lister, kind.namespace_lister] if kind.served.namespaced else [kind.lister]


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
    needed = [
        ("collections.abc", "AsyncIterator"),
        ("collections.abc", "Sequence"),
        ("contextlib", "AbstractAsyncContextManager"),
        ("dataclasses", "dataclass"),
        ("typing", "Unpack"),
        ("kapi.api.meta", "Object"),
        *(("kapi.client", name) for name in ("Client", "ObjectList", "Watch")),
        *(("kapi.client.options", name) for name in sorted({verb.options for verb in VERBS})),
        ("kapi.client.typed", "PatchKind"),
    ]
    if any(kind.served.scale for kind in kinds):
        needed.append(("kapi.api.builtin.autoscaling_v1", "Scale"))
    clients = (line for kind in kinds for line in _client(kind))
    return _module("Clients of each kind.", groups, ["", *imports([*needed, *_own(kinds)])], clients, _chooser(kinds))


def _client(kind: NamedKind) -> Iterator[str]:
    served = kind.served
    where = " in one namespace, or in all" if served.namespaced else ""
    yield from ("", "", "@dataclass(frozen=True, slots=True)", f"class {kind.client}:")
    yield from docstring(f"The verbs of {served.plural} of {served.api_version}{where}.")
    yield from ("", f"{_INDENT}client: Client")
    if served.namespaced:
        yield f"{_INDENT}namespace: str | None = None"
    for verb in VERBS:
        if not verb.part or getattr(served, verb.part):
            yield from _verb(verb, kind)


def _verb(verb: Verb, kind: NamedKind) -> Iterator[str]:
    def filled(*texts: str) -> tuple[str, ...]:
        return tuple(text.replace("{cls}", kind.cls) for text in texts)

    where = ("namespace=self.namespace",) if kind.served.namespaced else ()
    parameters = ("self", *verb.parameters, f"**options: Unpack[{verb.options}]")
    define, wait = ("async def", "await ") if verb.is_async else ("def", "")
    (returns,) = filled(verb.returns)
    call = Brackets(
        f"self.client.{verb.method or verb.name}(", filled(*verb.arguments, *where, *verb.more, "**options"), ")"
    )
    yield from _function(f"{define} {verb.name}", filled(*parameters), returns, verb.doc)
    give = "" if returns == "None" else "return "
    yield from laid_out(call, _BODY, f"{_BODY}{give}{wait}")


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
        yield from laid_out(Brackets(f"{kind.client}(", ("self.client", *where[1]), ")"), _BODY, f"{_BODY}return ")


# -- listers ----------------------------------------------------------------------------------------------------------


def _listers(groups: str, kinds: Sequence[NamedKind]) -> str:
    needed = [("kapi.informer", "Lister")]
    if any(kind.served.namespaced for kind in kinds):
        needed += [
            ("collections.abc", "Mapping"),
            ("dataclasses", "dataclass"),
            ("kapi.api.selectors", "LabelSelector"),
        ]
    listers = (line for kind in kinds for line in _lister(kind))
    return _module(
        "What informers have of each kind, without asking the server.",
        groups,
        ["", *imports([*needed, *_own(kinds)])],
        listers,
    )


def _lister(kind: NamedKind) -> Iterator[str]:
    served = kind.served
    if served.namespaced:
        yield from _namespace_lister(kind)
    yield from ("", "")
    yield from laid_out(Brackets(f"class {kind.lister}(", (f"Lister[{kind.cls}]",), ")"), "", "", ":")
    yield from docstring(f"The {served.plural} of {served.api_version} that an informer has: give it its `indexer`.")
    if served.namespaced:
        yield from _function(
            f"def {served.method}", ("self", "namespace: str"), kind.namespace_lister, "Those of one namespace."
        )
        yield f"{_BODY}return {kind.namespace_lister}(self, namespace)"


def _namespace_lister(kind: NamedKind) -> Iterator[str]:
    served = kind.served
    yield from ("", "", "@dataclass(frozen=True, slots=True)", f"class {kind.namespace_lister}:")
    yield from docstring(f"The {served.plural} of {served.api_version} that an informer has of one namespace.")
    yield from ("", f"{_INDENT}lister: Lister[{kind.cls}]", f"{_INDENT}namespace: str")
    yield from _function(
        "def get", ("self", "name: str"), f"{kind.cls} | None", "One object; None when it is not in the cache."
    )
    yield f"{_BODY}return self.lister.get(name, self.namespace)"
    labels = "labels: LabelSelector | Mapping[str, str] | str | None = None"
    doc = "The objects whose labels match, as `Lister.list` has it."
    # Last: what comes after it could not say list[...] any more.
    yield from _function("def list", ("self", "*", labels), f"list[{kind.cls}]", doc)
    yield f"{_BODY}return self.lister.list(namespace=self.namespace, labels=labels)"


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
