"""Typed classes of the built-in kinds, as Python source: one module per stable group version.

Kapi's server works on plain dictionaries; these classes are for people who write operators and want their editor to
know what a PodSpec has in it. Each is a `msgspec.Struct` whose Python names are snake_case and whose wire names are
exact, so decoding and encoding again gives the same JSON (without fields the class does not know).
"""

from __future__ import annotations

import graphlib
import json
import keyword
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator, Mapping

Schema = dict[str, Any]

_MACHINERY = "io.k8s.apimachinery.pkg."
_STABLE = re.compile(r"^io\.k8s\..*?\b(?P<group>[a-z]+)\.(?P<version>v[0-9]+)\.(?P<name>[A-Za-z0-9]+)$")

# A word of a camelCase name. Acronyms stay together, plural ones too (`podIPs` is pod_ips), and a version is its own
# word (`openAPIV3Schema` is open_api_v3_schema).
_WORD = re.compile(r"[A-Z]+(?=V[0-9])|V[0-9]+|[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*")

# Names that annotations use. A field of that name would hide the type from the fields around it.
_TAKEN = {"bool", "dict", "field", "float", "gvk", "int", "list", "msgspec", "str"}

# Definitions that are not objects with fields of their own. Times and quantities keep the form they have on the wire:
# reading one as a datetime or a Decimal and writing it back could change it, and servers compare them as text.
_ALIASES = {
    _MACHINERY + "api.resource.Quantity": "str | int | float",
    _MACHINERY + "util.intstr.IntOrString": "int | str",
    _MACHINERY + "runtime.RawExtension": "dict[str, Any]",
    _MACHINERY + "apis.meta.v1.FieldsV1": "dict[str, Any]",
    _MACHINERY + "apis.meta.v1.MicroTime": "str",
    _MACHINERY + "apis.meta.v1.Patch": "dict[str, Any]",
    _MACHINERY + "apis.meta.v1.Time": "str",
}
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ALIASES |= {
    _EXTENSIONS + "CustomResourceSubresourceStatus": "dict[str, Any]",
    _EXTENSIONS + "JSON": "Any",
    _EXTENSIONS + "JSONSchemaPropsOrArray": "JSONSchemaProps | list[JSONSchemaProps]",
    _EXTENSIONS + "JSONSchemaPropsOrBool": "JSONSchemaProps | bool",
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": "JSONSchemaProps | list[str]",
}
_SCALARS = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}
_OBJECT_META = frozenset({"ObjectMeta", "meta_v1.ObjectMeta"})


class UnknownShape(Exception):
    """The definitions hold something this generator has no rule for; better to stop than to guess."""


class Place(NamedTuple):
    """The target of a definition: a module of the generated package, and a name in it."""

    module: str
    name: str


def generate_types(definitions: Mapping[str, Schema], target: pathlib.Path) -> None:
    """Write the package of typed classes into the directory `target`, replacing what an earlier run left there."""
    places = {name: place for name in sorted(definitions) if (place := place_of(name))}
    modules: dict[str, dict[str, Schema]] = {}
    for name, place in places.items():
        modules.setdefault(place.module, {})[name] = definitions[name]
    sources = {f"{module}.py": _Module(module, members, places).source() for module, members in modules.items()}
    _refuse_cycles(sources)
    sources["__init__.py"] = _index(places, definitions)
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*.py"):
        if stale.name not in sources:
            stale.unlink()
    for file, source in sources.items():
        (target / file).write_text(source, encoding="utf-8")


def place_of(definition: str) -> Place | None:
    """The module and class of a definition; None for alpha and beta versions, which get no class.

    The pieces that every group shares (quantities, raw objects, ...) live with the metadata types in `meta_v1`.
    """
    stable = _STABLE.match(definition)
    if stable:
        return Place(f"{stable['group']}_{stable['version']}", stable["name"])
    if definition == _MACHINERY + "version.Info":
        return Place("meta_v1", "VersionInfo")
    if definition.startswith(_MACHINERY):
        return Place("meta_v1", definition.rpartition(".")[2])
    return None


def python_name(wire: str) -> str:
    """The attribute for a wire name: snake_case, with an underscore behind it when Python has taken the word."""
    name = "_".join(_WORD.findall(wire)).lower()
    if not name.isidentifier():
        raise UnknownShape(f"no Python name for field {wire!r}")
    return name + "_" if keyword.iskeyword(name) or name in _TAKEN else name


def group_version_kind(schema: Schema) -> tuple[str, str, str] | None:
    """Return the group, version and kind of a definition. Options of every group belong to the core group."""
    entries = [
        (entry["group"], entry["version"], entry["kind"]) for entry in schema.get("x-kubernetes-group-version-kind", ())
    ]
    if len(entries) == 1:
        return entries[0]
    return next((entry for entry in entries if entry[0] == ""), None)


class _Module:
    """The source of one generated module; collects the imports that its annotations turn out to need."""

    def __init__(self, name: str, members: Mapping[str, Schema], places: Mapping[str, Place]) -> None:
        self._name = name
        self._members = members
        self._places = places
        self._imports: set[str] = set()

    def source(self) -> str:
        classes = {name: schema for name, schema in self._members.items() if name not in _ALIASES}
        body = [line for name, schema in classes.items() for line in self._class(self._places[name].name, schema)]
        aliases = [
            f"{self._places[name].name}: TypeAlias = {_ALIASES[name]}" for name in self._members if name in _ALIASES
        ]
        exported = [f'    "{self._places[name].name}",' for name in self._members]
        lines = [self._head(), "__all__ = [", *exported, "]", *body, *(["", "", *aliases] if aliases else [])]
        return "\n".join(lines) + "\n"

    def _head(self) -> str:
        imports = "".join(f"from kapi.api.builtin import {module}\n" for module in sorted(self._imports))
        return _HEAD.format(group_version=self._name.replace("_", "/"), imports=imports)

    def _class(self, name: str, schema: Schema) -> Iterator[str]:
        yield from ("", "")
        gvk = group_version_kind(schema)
        # An object of a kind has a place for the document it was read from (`kapi.client.documents`).
        options = ", dict=True" if gvk else ""
        yield f"class {name}(msgspec.Struct, kw_only=True, omit_defaults=True, repr_omit_defaults=True{options}):"
        yield from _docstring(schema.get("description") or f"{name} has no description.")
        if gvk:
            yield from ("", f"    gvk: ClassVar[GroupVersionKind] = GroupVersionKind{_tuple(gvk)}")
        yield ""
        properties: Mapping[str, Schema] = schema.get("properties", {})
        _refuse_collisions(name, properties)
        for wire in sorted(properties, key=_reading_order):
            yield from self._field(wire, properties[wire], gvk)

    def _field(self, wire: str, prop: Schema, gvk: tuple[str, str, str] | None) -> Iterator[str]:
        attribute = python_name(wire)
        renamed = "" if attribute == wire else f"name={_quote(wire)}, "
        constant = _type_meta(wire, gvk)
        if constant is not None:
            # Defaults are left out of the JSON, except those that a factory of our own makes.
            yield f"    {attribute}: str = field({renamed}default_factory=lambda: {_quote(constant)})"
        elif gvk is not None and self._type(prop) in _OBJECT_META:
            # Every object that is read from a server has metadata.
            yield f"    {attribute}: {self._type(prop)} = field(default_factory=lambda: {self._type(prop)}())"
        elif renamed:
            yield f"    {attribute}: {self._type(prop)} | None = field({renamed}default=None)"
        else:
            yield f"    {attribute}: {self._type(prop)} | None = None"
        # A string below a field is documentation to editors, and nothing to the interpreter: it costs no import time.
        yield from _docstring(prop.get("description", ""))

    def _type(self, schema: Schema) -> str:
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"].removeprefix("#/$defs/"))
        kind = _kind(schema)
        if kind == "array":
            return f"list[{self._type(schema['items'])}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self._type(values) if values else 'Any'}]"
        if kind in _SCALARS:
            return _SCALARS[kind]
        raise UnknownShape(f"{self._name}: no Python type for {schema}")

    def _reference(self, definition: str) -> str:
        place = self._places[definition]
        if place.module == self._name:
            return place.name
        self._imports.add(place.module)
        return f"{place.module}.{place.name}"


def _reading_order(wire: str) -> tuple[bool, str]:
    """The sort key of fields: `apiVersion` and `kind` first, the rest alphabetical."""
    return wire not in {"apiVersion", "kind", "metadata"}, wire


def _kind(schema: Schema) -> str | None:
    """The one JSON type of a schema; the definitions add null to whatever is optional."""
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else [name for name in kind or () if name != "null"]
    return names[0] if len(names) == 1 else None


def _type_meta(wire: str, gvk: tuple[str, str, str] | None) -> str | None:
    """Return the default values of `apiVersion` and `kind` of a served kind."""
    if gvk is None:
        return None
    group, version, kind = gvk
    return {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}.get(wire)


def _docstring(text: str) -> Iterator[str]:
    """The description as an indented docstring, its paragraphs kept and wrapped."""
    paragraphs = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip().split("\n")
    lines = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, 114) or [""]]
    if not any(lines):
        return
    if len(lines) == 1 and not lines[0].endswith('"'):
        yield f'    """{lines[0]}"""'
        return
    yield f'    """{lines[0]}'
    yield from (f"    {line}".rstrip() for line in lines[1:])
    yield '    """'


def _index(places: Mapping[str, Place], definitions: Mapping[str, Schema]) -> str:
    """The package's `__init__`: which class is which kind, imported only when asked for."""
    kinds = {gvk: place for name, place in places.items() if (gvk := group_version_kind(definitions[name]))}
    entries = [f'    {_tuple(gvk)}: "{place.module}:{place.name}",' for gvk, place in sorted(kinds.items())]
    return _INDEX.format(entries="\n".join(entries))


_HEAD = '''"""The types of {group_version}. Generated from the Kubernetes v1.36 definitions; do not edit."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import field

{imports}from kapi.api.meta import GroupVersionKind
'''

_INDEX = '''"""Typed classes of the built-in kinds by group version: `from kapi.api.builtin import core_v1`.

Generated from the Kubernetes v1.36 definitions; do not edit. Importing this package imports none of the modules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import msgspec

__all__ = ["KINDS", "load"]

KINDS: dict[tuple[str, str, str], str] = {{
{entries}
}}
"""Group, version and kind to `module:Class`, for every kind that has a class."""


def load(group: str, version: str, kind: str) -> type[msgspec.Struct]:
    """The class of a kind, importing its module on first use; raises LookupError when there is none."""
    where = KINDS.get((group, version, kind))
    if where is None:
        raise LookupError(f"no typed class for kind {{kind!r}} in group {{group!r}}, version {{version!r}}")
    module, _, name = where.partition(":")
    found: type[msgspec.Struct] = getattr(importlib.import_module(f"{{__name__}}.{{module}}"), name)
    return found
'''


def _refuse_collisions(owner: str, properties: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for wire in properties:
        other = seen.setdefault(python_name(wire), wire)
        if other != wire:
            raise UnknownShape(f"{owner}: fields {other!r} and {wire!r} would have one Python name")


def _refuse_cycles(sources: Mapping[str, str]) -> None:
    """Modules import what their annotations name; that only works while the groups refer to each other one way."""
    imports = re.compile(r"^from kapi\.api\.builtin import (\w+)$", re.MULTILINE)
    graphlib.TopologicalSorter({f: {f"{m}.py" for m in imports.findall(s)} for f, s in sources.items()}).prepare()


def _quote(text: str) -> str:
    return json.dumps(text)


def _tuple(parts: Iterable[str]) -> str:
    return f"({', '.join(map(_quote, parts))})"
