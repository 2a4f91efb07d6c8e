"""The attributes of a request that authorization decides on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.selectors import (
    EQUALS,
    NOT_EQUALS,
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    SelectorError,
    from_label_selector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.selectors import Requirement
    from kapi.api.user import User
    from kapi.server.requestinfo import RequestInfo

_FIELD_OPERATORS = {"In": EQUALS, "NotIn": NOT_EQUALS}


class Attributes(NamedTuple):
    """A user, a verb, and what the verb is applied to: a resource, or a path that is not one.

    The requirements of a selector are joined by AND, so an authorizer that sees none of them, or not those that could
    not be read, decides about more objects than the request selects and never about fewer.
    """

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    is_resource: bool = True
    path: str = ""
    """The URL path; set for non-resource requests only."""
    field_requirements: tuple[FieldRequirement, ...] = ()
    field_error: str = ""
    """Why a field selector, or part of it, could not be read."""
    label_requirements: tuple[Requirement, ...] = ()
    label_error: str = ""
    """Why a label selector, or part of it, could not be read."""


def attributes_of(user: User, info: RequestInfo) -> Attributes:
    """Return the attributes of a request."""
    if not info.is_resource:
        return Attributes(user, info.verb, is_resource=False, path=info.path)
    attributes = Attributes(
        user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name
    )
    if info.field_selector or info.label_selector:
        return attributes._replace(**selected(info.field_selector, info.label_selector))
    return attributes


def reviewed_attributes(user: User, spec: Mapping[str, Any]) -> Attributes:
    """Return the attributes that the spec of an access review asks about."""
    asked = spec.get("resourceAttributes")
    if asked is None:
        asked = spec["nonResourceAttributes"]
        return Attributes(user, asked.get("verb", ""), is_resource=False, path=asked.get("path", ""))
    attributes = Attributes(
        user,
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("version") or "*",
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
    fields, labels = asked.get("fieldSelector") or {}, asked.get("labelSelector") or {}
    changes = selected(fields.get("rawSelector", ""), labels.get("rawSelector", ""))
    if fields.get("requirements"):
        changes["field_requirements"], changes["field_error"] = _field_requirements(fields["requirements"])
    if labels.get("requirements"):
        changes["label_requirements"], changes["label_error"] = _label_requirements(labels["requirements"])
    return attributes._replace(**changes) if changes else attributes


def selected(fields: str, labels: str) -> dict[str, Any]:
    """Return the fields of Attributes that hold the requirements of two selectors."""
    changes: dict[str, Any] = {}
    if fields:
        try:
            changes["field_requirements"] = FieldSelector.parse(fields).requirements
        except SelectorError as error:
            changes["field_error"] = str(error)
    if labels:
        try:
            changes["label_requirements"] = LabelSelector.parse(labels).requirements
        except SelectorError as error:
            changes["label_error"] = str(error)
    return changes


def _field_requirements(expressions: list[Mapping[str, Any]]) -> tuple[tuple[FieldRequirement, ...], str]:
    requirements, errors = [], []
    for expression in expressions:
        operator: str = expression.get("operator", "")
        values: list[str] = expression.get("values") or []
        if operator in _FIELD_OPERATORS and len(values) == 1:
            requirements.append(FieldRequirement(expression.get("key", ""), _FIELD_OPERATORS[operator], values[0]))
        elif len(values) > 1:
            errors.append("fieldSelectors do not yet support multiple values")
        elif operator in _FIELD_OPERATORS:
            errors.append(f"fieldSelectors {'in' if operator == 'In' else 'not in'} must have one value")
        elif operator in ("Exists", "DoesNotExist"):
            errors.append(f"fieldSelectors do not yet support {operator}")
        else:
            errors.append(f'"{operator}" is not a valid field selector operator')
    return tuple(requirements), ", ".join(errors)


def _label_requirements(expressions: list[Mapping[str, Any]]) -> tuple[tuple[Requirement, ...], str]:
    requirements: list[Requirement] = []
    errors = []
    for expression in expressions:
        try:
            requirements += from_label_selector({"matchExpressions": [expression]}).requirements
        except SelectorError as error:
            errors.append(str(error))
    return tuple(requirements), ", ".join(errors)
