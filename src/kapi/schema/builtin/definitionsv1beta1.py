"""The schema of CustomResourceDefinition in v1beta1, which is no longer in the published definitions.

Made from that of v1 with its differences: parts of versions may be in the spec, columns spell `JSONPath`, the fields of
the webhook are in the conversion. One thing is ours: fields of `names` that were put next to it are decoded and kept,
so that validation can report them. Has the interface of `kapi.schema.builtin.typed.KindSchema`. The conversion between
the two versions is in `kapi.registry.kinds.apiextensions.v1beta1`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from kapi.api.ownership.shape import ATOMIC_LIST, DEDUCED, STRUCT, Shape
from kapi.schema.builtin import decoder, shapes
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.definitions import Node
from kapi.schema.builtin.mergekeys import MergeNode
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.typed import KindSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object

_PACKAGE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."
_V1, _OWN = f"{_PACKAGE}v1.", f"{_PACKAGE}v1beta1."
_MISPLACED: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_STRINGS: Final = Node(type="array", items=Node(type="string"), drops_zero=True)


def _ref(name: str) -> Node:
    return Node(ref=name)


def _list(name: str) -> Node:
    return Node(type="array", items=_ref(name), drops_zero=True)


@functools.cache
def _structs() -> dict[str, dict[str, Node]]:
    """The fields of every struct that is not as in v1."""
    column = dict(builtin.definition(f"{_V1}CustomResourceColumnDefinition").properties)
    column["JSONPath"] = column.pop("jsonPath")
    columns = _list(f"{_OWN}CustomResourceColumnDefinition")
    version = builtin.definition(f"{_V1}CustomResourceDefinitionVersion").properties
    spec = builtin.definition(f"{_V1}CustomResourceDefinitionSpec").properties
    whole = builtin.definition(f"{_V1}CustomResourceDefinition").properties
    return {
        f"{_OWN}CustomResourceColumnDefinition": column,
        f"{_OWN}CustomResourceDefinitionVersion": {**version, "additionalPrinterColumns": columns},
        f"{_OWN}CustomResourceConversion": {
            "strategy": Node(type="string", go_type="v1beta1.ConversionStrategyType"),
            "webhookClientConfig": _ref(f"{_V1}WebhookClientConfig"),
            "conversionReviewVersions": _STRINGS,
        },
        f"{_OWN}CustomResourceDefinitionSpec": {
            **spec,
            "version": Node(type="string", drops_zero=True),
            "validation": _ref(f"{_V1}CustomResourceValidation"),
            "subresources": _ref(f"{_V1}CustomResourceSubresources"),
            "additionalPrinterColumns": columns,
            "selectableFields": version["selectableFields"],
            "versions": _list(f"{_OWN}CustomResourceDefinitionVersion"),
            "conversion": _ref(f"{_OWN}CustomResourceConversion"),
            "preserveUnknownFields": Node(type="boolean"),
            **{name: _ref(builtin.JSON) for name in _MISPLACED},
        },
        f"{_OWN}CustomResourceDefinition": {**whole, "spec": _ref(f"{_OWN}CustomResourceDefinitionSpec")},
    }


class DefinitionSchema(KindSchema):
    """The compiled schema. Promises what `KindSchema` does."""

    def __init__(self) -> None:
        self.name = f"{_OWN}CustomResourceDefinition"
        for name, fields in _structs().items():
            decoder.structs[name] = _decoder(name, fields)
        self._coerce = decoder.structs[self.name]

    def validate(self, obj: Object) -> list[FieldError]:
        """Return no errors: definitions have validation of their own in the registry."""
        return []

    @functools.cached_property
    def merge(self) -> MergeNode:
        """No field has a patch strategy but those inside of schemas, and these are the same in both versions."""
        return _merge(self.name)

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of objects for server-side apply."""
        return _shape("CustomResourceDefinition", {"spec": _spec_shape()})


@functools.cache
def definition_schema() -> DefinitionSchema:
    """The one schema, compiled on first use."""
    return DefinitionSchema()


# -- decoding --------------------------------------------------------------------------------------------------------


def _decoder(name: str, fields: Mapping[str, Node]) -> decoder.Container:
    """The function of a struct, as `decoder` makes them from published definitions."""
    readers = {key: decoder.field(node) for key, node in fields.items()}
    short = name.rpartition(".")[2]

    def coerce(obj: Any) -> decoder.Paths:
        if type(obj) is not dict:
            raise TypeMismatch.of(obj, f"v1beta1.{short}")
        unknown: list[str] = []
        for key, value in list(obj.items()):
            if key not in readers:
                del obj[key]
                unknown.append(f".{key}")
                continue
            try:
                kept, below = _read(readers[key], value)
            except TypeMismatch as error:
                error.enclose(short, key)
                raise
            unknown += [f".{key}{path}" for path in below]
            if kept is None:
                del obj[key]
            else:
                obj[key] = kept
        return unknown[: decoder.MOST_UNKNOWN] or None

    return coerce


def _read(field: decoder.Field, value: Any) -> tuple[Any, Iterable[str]]:
    """The value to keep, None for nothing, and the unknown fields below it."""
    how, reader, drops, type_name = field
    below: Iterable[str] = ()
    if value is None:
        return None, below
    if how == decoder.PLAIN:
        if type(value) is not reader:
            raise TypeMismatch.of(value, type_name)
    elif how == decoder.CONTAINER:
        below = reader(value) or ()
    else:
        value = reader(value)
    return (None if drops and not value else value), below


# -- owning and merging ----------------------------------------------------------------------------------------------


def _shape(like: str, changed: Mapping[str, Shape], *without: str) -> Shape:
    """The shape of a struct of v1 with some fields changed, some added and some gone."""

    def fill() -> tuple[Mapping[str, tuple[str, Shape]], Mapping[str, Any]]:
        known = shapes.kind_shape(f"{_V1}{like}")
        fields = {name: field for name, field in known.fields.items() if name not in without}
        fields |= {name: (f"f:{name}", shape) for name, shape in changed.items()}
        # A list that is optional here is absent unless it is set.
        present = {
            name: value
            for name, value in known.present.items()
            if name in fields and (name not in changed or changed[name].kind == STRUCT)
        }
        return fields, present

    return Shape(STRUCT, fill=fill)


def _field(like: str, name: str) -> Shape:
    return shapes.kind_shape(f"{_V1}{like}").fields[name][1]


def _spec_shape() -> Shape:
    column = _shape(
        "CustomResourceColumnDefinition", {"JSONPath": _field("CustomResourceColumnDefinition", "jsonPath")}, "jsonPath"
    )
    columns = Shape(ATOMIC_LIST, items=column)
    version = _shape("CustomResourceDefinitionVersion", {"additionalPrinterColumns": columns})
    conversion = _shape(
        "CustomResourceConversion",
        {
            "webhookClientConfig": _field("WebhookConversion", "clientConfig"),
            "conversionReviewVersions": _field("WebhookConversion", "conversionReviewVersions"),
        },
        "webhook",
    )
    changed = {
        "version": _field("CustomResourceDefinitionSpec", "group"),
        "validation": _field("CustomResourceDefinitionVersion", "schema"),
        "subresources": _field("CustomResourceDefinitionVersion", "subresources"),
        "additionalPrinterColumns": columns,
        "selectableFields": _field("CustomResourceDefinitionVersion", "selectableFields"),
        "versions": Shape(ATOMIC_LIST, items=version),
        "conversion": conversion,
        **dict.fromkeys(_MISPLACED, DEDUCED),
    }
    return _shape("CustomResourceDefinitionSpec", changed)


class _Fields(MergeNode):
    """The merge rules of a struct that no published definition describes."""

    __slots__ = ("_children",)

    def __init__(self, children: dict[str, MergeNode]) -> None:
        super().__init__(Node(type="object"))
        self._children = children

    def child(self, field: str) -> MergeNode | None:
        """A field of the struct."""
        return self._children.get(field)


def _merge(name: str) -> MergeNode:
    fields = _structs().get(name)
    if fields is None:
        return MergeNode(_ref(name))
    children = {key: _merge(node.ref) if node.ref else MergeNode(_replaced(node)) for key, node in fields.items()}
    return _Fields(children)


def _replaced(node: Node) -> Node:
    """A list that a patch replaces as a whole, whatever its items are."""
    return Node(type="array", items=Node(type="object")) if node.type == "array" else node
