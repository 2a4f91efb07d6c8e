"""Compilation of expressions in admission, with the errors in the words of kube-apiserver.

`PolicyExpressions` compiles those of one policy: its variables first, in order, then the expressions that may use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.environments import VARIABLES, base_environment
from kapi.schema.cel.check.substitutions import is_exact
from kapi.schema.cel.libraries import mutation
from kapi.schema.cel.run.code import ProgramError
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.types import BOOL, DYN, LIST, MAP, NULL, STRING, Object, Type, list_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.schema.cel.environment import Environment
    from kapi.schema.cel.run.program import Program

_KEPT_TYPES: Final = frozenset(
    {"bool", "bytes", "double", "int", "null_type", "string", "uint"}
    | {"google.protobuf.Duration", "google.protobuf.Timestamp"}
)
_PATCHES: Final = list_of(mutation.TYPES[mutation.JSON_PATCH])
_CONFIGURATION: Final = mutation.TYPES[mutation.OBJECT]


class Compiled(NamedTuple):
    """An expression, with its program or the reason why it has none."""

    source: str
    program: Program | None
    error: str = ""
    is_internal: bool = False
    """The error is not one of the expression's text: it could be checked, and cannot run."""

    @property
    def type(self) -> Type | None:
        """The type of its values; None when it cannot be compiled."""
        return None if self.program is None else self.program.type


def compile_expression(source: str, environment: Environment, results: Sequence[Type] = ()) -> Compiled:
    """Compile an expression whose value must be of one of the given types; any type when none is given."""
    try:
        program = environment.compile(source)
    except ExpressionErrors as error:
        return Compiled(source, None, f"compilation failed: {error}")
    except ProgramError as error:
        return Compiled(source, None, f"program instantiation failed: {error}", is_internal=True)
    if results and not any(is_exact(program.type, wanted) for wanted in results):
        wanted = go_type(results[0]) if len(results) == 1 else f"one of [{' '.join(map(go_type, results))}]"
        return Compiled(source, None, f"must evaluate to {wanted} but got {go_type(program.type)}")
    return Compiled(source, program)


def go_type(type_: Type) -> str:
    """A type as cel-go prints it outside of the errors of its checker."""
    if not type_.params:
        return type_.name
    return f"{type_.name}({', '.join(map(go_type, type_.params))})"


def declared_type(type_: Type | None) -> Type:
    """The type that other expressions see of a variable: scalars, lists and maps are kept, all others are `dyn`."""
    if type_ is None:
        return DYN
    if type_.name in (LIST, MAP) and type_.params:
        return Type(type_.name, tuple(map(declared_type, type_.params)))
    return type_ if type_.name in _KEPT_TYPES else DYN


class PolicyExpressions:
    """Compiles the expressions of one policy."""

    def __init__(self, *, has_params: bool, has_variables: bool = True) -> None:
        """Without `has_variables`, expressions cannot refer to `variables` at all."""
        self._has_params = has_params
        self._types: dict[str, Type] = {}
        self._has_variables = has_variables
        self._environments: dict[tuple[bool, bool], Environment] = {}
        self.variables: dict[str, Compiled] = {}
        """Those that were added, by name."""

    def environment(self, *, has_authorizer: bool = True, has_patch_types: bool = False) -> Environment:
        """The environment of expressions; variables that are added later are known to it too."""
        key = has_authorizer, has_patch_types
        found = self._environments.get(key)
        if found is None:
            found = base_environment(
                has_params=self._has_params, has_authorizer=has_authorizer, has_patch_types=has_patch_types
            )
            if self._has_variables:
                found = found.extend({VARIABLES: Object("kubernetes.variables", fields=self._types, keeps_null=True)})
            self._environments[key] = found
        return found

    def add_variable(self, name: str, source: str) -> Compiled:
        """Compile a variable, which may use those that were added before; one that fails is of any type."""
        compiled = self.variables[name] = compile_expression(source, self.environment())
        self._types[name] = declared_type(compiled.type)
        return compiled

    def condition(self, source: str) -> Compiled:
        """Compile a validation or a match condition."""
        return compile_expression(source, self.environment(), (BOOL,))

    def message(self, source: str) -> Compiled:
        """Compile a messageExpression, which cannot ask the authorizer."""
        return compile_expression(source, self.environment(has_authorizer=False), (STRING,))

    def audit_annotation(self, source: str) -> Compiled:
        """Compile the valueExpression of an audit annotation."""
        return compile_expression(source, self.environment(), (STRING, NULL))

    def json_patch(self, source: str) -> Compiled:
        """Compile an expression that makes a list of JSONPatch operations."""
        return compile_expression(source, self.environment(has_patch_types=True), (_PATCHES,))

    def apply_configuration(self, source: str) -> Compiled:
        """Compile an expression that makes an apply configuration, an `Object`."""
        return compile_expression(source, self.environment(has_patch_types=True), (_CONFIGURATION,))


def policy_expressions(spec: Mapping[str, Any]) -> PolicyExpressions:
    """The compiler of the expressions of a stored policy, with its variables."""
    expressions = PolicyExpressions(has_params=spec.get("paramKind") is not None)
    for variable in spec.get("variables") or ():
        expressions.add_variable(variable.get("name", ""), variable.get("expression", ""))
    return expressions
