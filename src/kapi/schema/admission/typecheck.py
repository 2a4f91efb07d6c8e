"""Type checking of a policy's expressions against the schemas of the kinds that it matches.

A policy is evaluated without schemas, so its expressions may well name fields that no object has. What the schemas say
about them is advice for the author of the policy: `status.typeChecking.expressionWarnings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.environments import (
    AUTHORIZER,
    NAMESPACE_OBJECT,
    NAMESPACE_TYPE,
    OBJECT,
    OLD_OBJECT,
    PARAMS,
    REQUEST,
    REQUEST_TYPE,
    VARIABLES,
)
from kapi.schema.admission.expressions import declared_type
from kapi.schema.builtin.definitions import FIELDS_V1 as FIELDS
from kapi.schema.builtin.definitions import (
    INT_OR_STRING,
    MICRO_TIME,
    NOT_STRUCTS,
    RAW_EXTENSION,
    TIME,
    definition,
    definition_name,
)
from kapi.schema.cel.environment import Environment
from kapi.schema.cel.libraries.authorizer import AUTHORIZER_TYPE
from kapi.schema.cel.run.code import ProgramError
from kapi.schema.cel.syntax.identifiers import escape
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Object,
    Type,
    list_of,
    map_of,
)
from kapi.schema.rules.declarations import declare
from kapi.schema.structural.model import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import GroupVersionKind
    from kapi.schema.builtin.definitions import Node

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS: Final = {"byte": BYTES, "date": TIMESTAMP, "date-time": TIMESTAMP, "duration": DURATION}
_SPECIAL: Final[dict[str, Type]] = {INT_OR_STRING: DYN, TIME: TIMESTAMP, MICRO_TIME: TIMESTAMP}
_WITHOUT_FIELDS: Final = frozenset({RAW_EXTENSION, FIELDS})


# -- types of kinds ---------------------------------------------------------------------------------------------------


def builtin_type(kind: GroupVersionKind) -> Type | None:
    """The type of the objects of a built-in kind; None when there is no such kind."""
    name = definition_name(*kind)
    return None if name is None else _reference(name, kind.kind, frozenset())


def custom_type(kind: GroupVersionKind, props: Mapping[str, Any] | None) -> Type:
    """The type of the objects of a custom kind, by its schema as it was written; metadata is that of all kinds."""
    declared = None if props is None else declare(read(props), root=True)
    of = DYN if declared is None else declared.type(kind.kind)
    if not isinstance(of, Object):
        return DYN
    metadata = _reference(_OBJECT_META, f"{kind.kind}.metadata", frozenset())
    assert metadata is not None
    return Object(of.name, fields={**of.fields, "metadata": metadata})


def _reference(ref: str, name: str, within: frozenset[str]) -> Type | None:
    if ref in _SPECIAL:
        return _SPECIAL[ref]
    if ref in _WITHOUT_FIELDS or ref in within:
        # As in Kubernetes, a schema that contains itself is known down to its second appearance.
        return Object(name)
    return None if ref in NOT_STRUCTS else _type(definition(ref), name, within | {ref})


def _type(node: Node, name: str, within: frozenset[str]) -> Type | None:
    """The type of a place of a schema; None when expressions cannot use its values, because they have no type."""
    if node.ref:
        return _reference(node.ref, name, within)
    if node.type == "array":
        items = _type(node.items, f"{name}.@idx", within) if node.items else None
        return None if items is None else list_of(items)
    if node.type == "object":
        if node.values is None:
            return Object(name, fields=_Fields(node, name, within))
        values = _type(node.values, f"{name}.@elem", within)
        return None if values is None else map_of(STRING, values)
    if node.type == "string":
        return DYN if node.format == "int-or-string" else _FORMATS.get(node.format, STRING)
    return _SCALARS.get(node.type)


class _Fields(Mapping[str, Type]):
    """The types of the fields of a definition by the names that expressions use, each made when it is asked for."""

    __slots__ = ("_name", "_nodes", "_within")

    def __init__(self, node: Node, name: str, within: frozenset[str]) -> None:
        self._nodes = {written: one for field, one in node.properties.items() if (written := escape(field))}
        self._name = name
        self._within = within

    def __getitem__(self, field: str) -> Type:
        found = _type(self._nodes[field], f"{self._name}.{field}", self._within)
        if found is None:
            raise KeyError(field)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


# -- checking ---------------------------------------------------------------------------------------------------------


class CheckedKind(NamedTuple):
    """A kind that a policy matches, and the type of its objects."""

    kind: GroupVersionKind
    type: Type


def expression_warnings(
    spec: Mapping[str, Any], kinds: Sequence[CheckedKind], params: Type = DYN
) -> list[dict[str, str]]:
    """The warnings about the validations of a policy and their messages, as its status shows them."""
    environments = [(one.kind, _environment(spec, one.type, params)) for one in kinds]
    warnings = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            source = validation.get(field)
            wrong = [_problem(kind, source, environment) for kind, environment in environments] if source else []
            if any(wrong):
                path = f"spec.validations[{index}].{field}"
                warnings.append({"fieldRef": path, "warning": "\n".join(filter(None, wrong))})
    return warnings


def _environment(spec: Mapping[str, Any], of: Type, params: Type) -> Environment:
    variables: dict[str, Type] = {
        OBJECT: of,
        OLD_OBJECT: of,
        NAMESPACE_OBJECT: NAMESPACE_TYPE,
        REQUEST: REQUEST_TYPE,
        # Kubernetes does not declare `authorizer.requestResource` here, and warns of its use.
        AUTHORIZER: AUTHORIZER_TYPE,
    }
    if spec.get("paramKind") is not None:
        variables[PARAMS] = params
    composed: dict[str, Type] = {}
    variables[VARIABLES] = Object("kubernetes.variables", fields=composed)
    environment = Environment(variables)
    for variable in spec.get("variables") or ():
        try:
            found = environment.compile(variable.get("expression", "")).type
        except (ExpressionErrors, ProgramError):
            found = DYN
        composed[variable.get("name", "")] = declared_type(found)
    return environment


def _problem(kind: GroupVersionKind, source: str, environment: Environment) -> str:
    try:
        environment.compile(source)
    except ExpressionErrors as error:
        return f"{kind.group}/{kind.version}, Kind={kind.kind}: {error}\n"
    except ProgramError:
        return ""  # It is well typed; that it cannot run was found when the policy was written.
    return ""
