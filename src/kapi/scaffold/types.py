"""From definitions of custom resources to a Python module with a class for each kind.

The classes are those one would write by hand (see `kapi.api.crd`): a `Model` for each object of the schema, named by
the way to it, and the kind itself. `definition()` of them is the definition they were made from, but for the order of
things, the white space of descriptions, and what is said of apiVersion and kind, which is the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.crd.resources import plural_of
from kapi.scaffold.annotations import Reader
from kapi.scaffold.models import Attribute, ClassModel, NoTypes, docstring
from kapi.scaffold.names import Names, class_name
from kapi.scaffold.source import call, literal, sequence, subscript, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.scaffold.source import Expression

_HEAD: Final = ("apiVersion", "kind", "metadata")
_HEAD_ATTRIBUTES: Final = frozenset({"api_version", "kind", "metadata"})
_APPROVED: Final = "api-approved.kubernetes.io"
_TYPING: Final = frozenset({"Annotated", "Any", "ClassVar", "Literal"})


def types_source(definitions: Iterable[Object], version: str = "") -> str:
    """A module with the kinds of some definitions, each in the form of `apiextensions.k8s.io/v1`.

    Of each, the version that is stored is taken, or the one that is asked for.

    Raises:
        NoTypes: a definition has no such version, no schema for it, or a field that no class can have.
    """
    chosen = [(one["spec"], _version(one, version), one["metadata"]) for one in definitions]
    names = Names()
    # Kinds choose their names first; what is inside of them is named around that.
    kinds = [names.claim(class_name(spec["names"]["kind"])) for spec, _, _ in chosen]
    reader = Reader(names)
    for name, (spec, served, metadata) in zip(kinds, chosen, strict=True):
        reader.classes.append(_kind(reader, name, spec, served, metadata))
    about = ", ".join(f"{spec['names']['kind']} of {spec['group']}/{served['name']}" for spec, served, _ in chosen)
    return _module(f"{about}. Made by `kapi generate types`.", reader.classes)


def _version(definition: Object, wanted: str) -> Mapping[str, Any]:
    name, versions = definition["metadata"].get("name", ""), definition["spec"].get("versions") or []
    for version in versions:
        if version.get("name") and (version["name"] == wanted or (not wanted and version.get("storage"))):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                raise NoTypes(f"{name} has no schema at version {version['name']}")
            found: Mapping[str, Any] = version
            return found
    there = ", ".join(version.get("name", "") for version in versions)
    raise NoTypes(f"{name} has no version {wanted or 'that is stored'}; it has {there or 'none'}")


# -- a kind -----------------------------------------------------------------------------------------------------------


def _kind(
    reader: Reader, name: str, spec: Mapping[str, Any], version: Mapping[str, Any], metadata: Mapping[str, Any]
) -> ClassModel:
    rest = dict(version["schema"]["openAPIV3Schema"])
    rest.pop("type", None)
    properties = rest.get("properties") or {}
    rest["properties"] = {key: below for key, below in properties.items() if key not in _HEAD}
    model = reader.model(rest, (spec["names"]["kind"],), ClassModel(name), taken=_HEAD_ATTRIBUTES)
    model.extra |= rest
    limits = {key: value for key, value in properties.get("metadata", {}).items() if key not in ("type", "description")}
    if limits:
        model.attributes.insert(0, _metadata(limits))
    has_status = any(attribute.name == "status" for attribute in model.attributes)
    model.decorator = _decorator(name, spec, version, metadata, has_status=has_status)
    return model


def _metadata(limits: Mapping[str, Any]) -> Attribute:
    meta = call("msgspec.Meta", extra_json_schema=literal(dict(limits)))
    value = call("msgspec.field", default_factory="ObjectMeta")
    return Attribute("metadata", subscript("Annotated", "ObjectMeta", meta), value)


def _decorator(
    name: str,
    spec: Mapping[str, Any],
    version: Mapping[str, Any],
    metadata: Mapping[str, Any],
    *,
    has_status: bool,
) -> Expression:
    names, subresources = spec["names"], version.get("subresources") or {}
    kind = names["kind"]
    approved = (metadata.get("annotations") or {}).get(_APPROVED)
    said = {
        "kind": (kind, name),
        "plural": (names.get("plural"), plural_of(kind)),
        "singular": (names.get("singular") or kind.lower(), kind.lower()),
        "list_kind": (names.get("listKind") or f"{kind}List", f"{kind}List"),
        "scope": (spec.get("scope"), "Namespaced"),
        "annotations": ({_APPROVED: approved} if approved else None, None),
        "status": (subresources.get("status") is not None, has_status),
        "served": (bool(version.get("served")), True),
        "storage": (bool(version.get("storage")), True),
        "deprecated": (bool(version.get("deprecated")), "deprecationWarning" in version),
        "deprecation_warning": (version.get("deprecationWarning", ""), ""),
    }
    arguments = {key: literal(value) for key, (value, otherwise) in said.items() if value != otherwise}
    arguments |= _lists(names, version)
    if subresources.get("scale") is not None:
        arguments["scale"] = _scale(subresources["scale"])
    return call("crd.resource", text(f"{spec['group']}/{version['name']}"), **arguments)


def _lists(names: Mapping[str, Any], version: Mapping[str, Any]) -> dict[str, Expression]:
    found: dict[str, Sequence[Expression]] = {
        "short_names": [text(one) for one in names.get("shortNames") or ()],
        "categories": [text(one) for one in names.get("categories") or ()],
        "columns": [_column(one) for one in version.get("additionalPrinterColumns") or ()],
        "selectable_fields": [text(one.get("jsonPath", "")) for one in version.get("selectableFields") or ()],
    }
    return {key: sequence(items) for key, items in found.items() if items}


def _column(props: Mapping[str, Any]) -> Expression:
    defaults = {"type": "string", "format": "", "description": "", "priority": 0}
    named = {key: literal(props[key]) for key, usual in defaults.items() if props.get(key, usual) != usual}
    return call("crd.Column", text(props.get("name", "")), text(props.get("jsonPath", "")), **named)


def _scale(props: Mapping[str, Any]) -> Expression:
    usual = {
        "spec_replicas": (props.get("specReplicasPath", ""), ".spec.replicas"),
        "status_replicas": (props.get("statusReplicasPath", ""), ".status.replicas"),
        "selector": (props.get("labelSelectorPath", ""), ""),
    }
    return call("crd.Scale", **{key: text(path) for key, (path, otherwise) in usual.items() if path != otherwise})


# -- the module -------------------------------------------------------------------------------------------------------


def _module(about: str, classes: Sequence[ClassModel]) -> str:
    body = [line for model in classes for line in ("", "", *model.lines())]
    return "\n".join([*docstring(about, indent=""), "", *_imports(classes), *body]) + "\n"


def _imports(classes: Sequence[ClassModel]) -> list[str]:
    used = set().union(*(model.identifiers() for model in classes))
    typing = sorted(used & _TYPING)
    lines = [f"from typing import {', '.join(typing)}", ""] if typing else []
    lines += ["import msgspec"] if "msgspec" in used else []
    lines += ["from kapi.api import crd"]
    return lines + (["from kapi.api.builtin.meta_v1 import ObjectMeta"] if "ObjectMeta" in used else [])
