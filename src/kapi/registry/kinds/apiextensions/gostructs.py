"""Parts of a definition as kube-apiserver shows them inside an error message.

Most values in a message are scalars. Where a whole version or schema is wrong, kube-apiserver prints its internal
structures, whose fields have other names than those of the API and are all there, set or not. People search for
these texts, so they are made here, field by field. Pure functions. What is shown of a very large schema is cut, because
each of its places takes a kilobyte in this form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.fielderror import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Props = Mapping[str, Any]

MOST_SCHEMAS: Final = 200
"""The number of schemas, nested ones included, that one message shows."""

_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_sorted = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """An `Invalid value` whose value is printed as Go prints structures: angle brackets escaped, order kept."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_text(value)}: {detail}")


def _text(value: Any) -> str:
    return _encode(value).decode().translate(_HTML)


def versions(shown: Iterable[Props]) -> list[Any]:
    """The versions of a definition."""
    budget = _Budget()
    return [
        {
            "Name": one.get("name", ""),
            "Served": one.get("served", False),
            "Storage": one.get("storage", False),
            "Deprecated": one.get("deprecated", False),
            "DeprecationWarning": one.get("deprecationWarning"),
            "Schema": _validation(one.get("schema"), budget),
            "Subresources": _subresources(one.get("subresources")),
            "AdditionalPrinterColumns": _each(one.get("additionalPrinterColumns"), _column),
            "SelectableFields": _each(one.get("selectableFields"), _selectable),
        }
        for one in shown
    ]


def schema(props: Props) -> Any:
    """A schema."""
    return _Budget().schema(props)


def items(value: Any) -> Any:
    """The `items` of a schema: one schema or a list of them."""
    return _Budget().items(value)


def _validation(value: Props | None, budget: _Budget) -> Any:
    if value is None:
        return None
    props = value.get("openAPIV3Schema")
    return {"OpenAPIV3Schema": None if props is None else budget.schema(props)}


def _subresources(value: Props | None) -> Any:
    if value is None:
        return None
    scale = value.get("scale")
    return {
        "Status": None if value.get("status") is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath", ""),
            "StatusReplicasPath": scale.get("statusReplicasPath", ""),
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _column(value: Props) -> Any:
    return {
        "Name": value.get("name", ""),
        "Type": value.get("type", ""),
        "Format": value.get("format", ""),
        "Description": value.get("description", ""),
        "Priority": value.get("priority", 0),
        "JSONPath": value.get("jsonPath", ""),
    }


def _selectable(value: Props) -> Any:
    return {"JSONPath": value.get("jsonPath", "")}


def _each(values: Any, show: Callable[[Any], Any]) -> Any:
    return [show(one) for one in values] if values else None


_PLAIN, _JSON, _SCHEMA, _SCHEMAS, _NAMED, _ITEMS, _OR_BOOL, _DEPENDENCIES, _DOCS, _RULES = range(10)

FIELDS: Final[tuple[tuple[str, str, int, Any], ...]] = (
    ("ID", "id", _PLAIN, ""),
    ("Schema", "$schema", _PLAIN, ""),
    ("Ref", "$ref", _PLAIN, None),
    ("Description", "description", _PLAIN, ""),
    ("Type", "type", _PLAIN, ""),
    ("Nullable", "nullable", _PLAIN, False),
    ("Format", "format", _PLAIN, ""),
    ("Title", "title", _PLAIN, ""),
    ("Default", "default", _JSON, None),
    ("Maximum", "maximum", _PLAIN, None),
    ("ExclusiveMaximum", "exclusiveMaximum", _PLAIN, False),
    ("Minimum", "minimum", _PLAIN, None),
    ("ExclusiveMinimum", "exclusiveMinimum", _PLAIN, False),
    ("MaxLength", "maxLength", _PLAIN, None),
    ("MinLength", "minLength", _PLAIN, None),
    ("Pattern", "pattern", _PLAIN, ""),
    ("MaxItems", "maxItems", _PLAIN, None),
    ("MinItems", "minItems", _PLAIN, None),
    ("UniqueItems", "uniqueItems", _PLAIN, False),
    ("MultipleOf", "multipleOf", _PLAIN, None),
    ("Enum", "enum", _JSON, None),
    ("MaxProperties", "maxProperties", _PLAIN, None),
    ("MinProperties", "minProperties", _PLAIN, None),
    ("Required", "required", _PLAIN, None),
    ("Items", "items", _ITEMS, None),
    ("AllOf", "allOf", _SCHEMAS, None),
    ("OneOf", "oneOf", _SCHEMAS, None),
    ("AnyOf", "anyOf", _SCHEMAS, None),
    ("Not", "not", _SCHEMA, None),
    ("Properties", "properties", _NAMED, None),
    ("AdditionalProperties", "additionalProperties", _OR_BOOL, None),
    ("PatternProperties", "patternProperties", _NAMED, None),
    ("Dependencies", "dependencies", _DEPENDENCIES, None),
    ("AdditionalItems", "additionalItems", _OR_BOOL, None),
    ("Definitions", "definitions", _NAMED, None),
    ("ExternalDocs", "externalDocs", _DOCS, None),
    ("Example", "example", _JSON, None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _PLAIN, None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _PLAIN, False),
    ("XIntOrString", "x-kubernetes-int-or-string", _PLAIN, False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", _PLAIN, None),
    ("XListType", "x-kubernetes-list-type", _PLAIN, None),
    ("XMapType", "x-kubernetes-map-type", _PLAIN, None),
    ("XValidations", "x-kubernetes-validations", _RULES, None),
)
"""The fields of a schema in the order of kube-apiserver: its name, the API's, how it is shown, what it is if absent."""


class _Budget:
    """The number of schemas that one message may still show."""

    def __init__(self) -> None:
        self._left = MOST_SCHEMAS

    def schema(self, props: Props) -> Any:
        self._left -= 1
        if self._left < 0:
            return "..."
        return {
            name: zero if props.get(key) is None else self._field(how, props[key]) for name, key, how, zero in FIELDS
        }

    def items(self, value: Any) -> Any:
        if isinstance(value, list):
            return {"Schema": None, "JSONSchemas": [self.schema(one) for one in value]}
        return {"Schema": self.schema(value), "JSONSchemas": None}

    def _field(self, how: int, value: Any) -> Any:
        if how == _PLAIN:
            return value
        if how == _JSON:
            return msgspec.Raw(_sorted(value))
        if how == _SCHEMA:
            return self.schema(value)
        if how == _SCHEMAS:
            return [self.schema(one) for one in value]
        if how == _NAMED:
            return {name: self.schema(value[name]) for name in sorted(value)}
        return self._odd_field(how, value)

    def _odd_field(self, how: int, value: Any) -> Any:
        if how == _ITEMS:
            return self.items(value)
        if how == _OR_BOOL:
            nested = isinstance(value, dict)
            return {"Allows": nested or value, "Schema": self.schema(value) if nested else None}
        if how == _DEPENDENCIES:
            return {
                name: {"Schema": self.schema(one), "Property": None}
                if isinstance(one, dict)
                else {"Schema": None, "Property": one}
                for name, one in sorted(value.items())
            }
        if how == _DOCS:
            return {"Description": value.get("description", ""), "URL": value.get("url", "")}
        return [rule(one) for one in value]


def rule(props: Props) -> Any:
    """A validation rule."""
    return {
        "Rule": props.get("rule", ""),
        "Message": props.get("message", ""),
        "MessageExpression": props.get("messageExpression", ""),
        "Reason": props.get("reason"),
        "FieldPath": props.get("fieldPath", ""),
        "OptionalOldSelf": props.get("optionalOldSelf"),
    }
