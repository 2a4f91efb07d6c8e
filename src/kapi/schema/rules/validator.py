"""Validation of objects by the rules of their schema: `compile_rules` returns a `RuleValidator`.

A validator walks only the parts of a value that have rules on or below them. Each rule is compiled when it first runs.
One call has one budget for all rules together, so no object can keep the server busy for long.

`checks.check_rules` is the other half: the validation of a definition's rules, before any of this runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from kapi.api.fielderror import FieldError, forbidden, required
from kapi.api.go.text import quote
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.syntax.identifiers import escape
from kapi.schema.cel.values import NONE, EvaluationError, Optional
from kapi.schema.rules.adapters import UsedFields, adapter, merge, used_fields
from kapi.schema.rules.compiler import OLD_SELF, SELF, RuleError, compile_message, compile_rule, rule_environment
from kapi.schema.rules.declarations import Declaration, declare, with_metadata
from kapi.schema.rules.fieldpaths import FieldPathError, resolve
from kapi.schema.structural.correlation import Comparison, correlate_items
from kapi.schema.structural.messages import NOWHERE, duplicate, invalid
from kapi.schema.structural.model import MISSING, Schema, has_rules
from kapi.schema.structural.report import Report, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.schema.cel.run.program import Program
    from kapi.schema.cel.types import Type
    from kapi.schema.structural.model import Rule
    from kapi.schema.structural.report import Path

    Correlation = tuple[Schema, Any, Any]
    """A place of the schema, the value there, and the old value that corresponds to it."""

REQUEST_BUDGET: Final = 10_000_000
"""The most that all rules may cost together on one object."""
LONGEST_MESSAGE: Final = 5 * 1024
"""In bytes; a longer one that an expression made is not shown."""

_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_SKIPPED: Final = invalid(
    NOWHERE,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
_NO_MORE: Final = "due to running out of cost budget, no further validation rules will be run"
_OUT_OF_BUDGET: Final = f"validation failed {_NO_MORE}"
_MESSAGE_OUT_OF_BUDGET: Final = f"messageExpression evaluation failed {_NO_MORE}"
_IDENTITY: Final = ("apiVersion", "kind")


def skipped_rules(errors: Iterable[FieldError]) -> FieldError | None:
    """The error to add instead of running rules when the value is not of the shape that they rely on, else None."""
    return _SKIPPED if any(error.reason in _BLOCKING for error in errors) else None


def compile_rules(schema: Schema, *, root: bool = True) -> RuleValidator | None:
    """The validator of a schema; None when it has no rules. `root` says that it is the schema of a whole resource."""
    declaration = declare(schema, root=root) if has_rules(schema) else None
    return None if declaration is None else RuleValidator(schema, declaration, root=root)


def validate_default(
    schema: Schema, value: Any, path: str, root: bool, *, budget: int = REQUEST_BUDGET
) -> list[FieldError]:
    """The errors of a default by the rules of its schema: it must be valid as a new value and as an unchanged one."""
    validate = compile_rules(schema, root=root)
    if validate is None:
        return []
    unchanged = validate(value, value, path, ratcheting=False, budget=budget)
    return unchanged or validate(value, MISSING, path, budget=budget)


class RuleValidator:
    """Validates values of one resource by its rules. Keeps nothing between calls but compiled rules."""

    __slots__ = ("_root",)

    def __init__(self, schema: Schema, declaration: Declaration, *, root: bool) -> None:
        self._root = _Node(schema, declaration, is_root=root)

    def __call__(
        self,
        value: Any,
        old: Any = MISSING,
        path: str = "",
        *,
        warnings: list[str] | None = None,
        budget: int = REQUEST_BUDGET,
        ratcheting: bool = True,
    ) -> list[FieldError]:
        """The errors of a value that replaces `old`, or is new when that is MISSING.

        With `ratcheting`, failures of values that the update does not change are added to `warnings` instead.
        """
        evaluation = _Evaluation(budget)
        top: Path = (None, path) if path else None
        is_update = old is not MISSING
        correlation = (self._root.schema, value, old) if is_update and ratcheting else None
        with suppress(_Stop):
            evaluation.visit(self._root, top, value, old if is_update else None, correlation, None)
        if warnings is not None:
            warnings.extend(map(str, evaluation.ratcheted.errors))
        return evaluation.found.errors


class _Node:
    """One place of a schema that has rules, or has rules below it."""

    __slots__ = ("_rules", "additional", "declaration", "is_root", "items", "properties", "schema")

    def __init__(self, schema: Schema, declaration: Declaration, *, is_root: bool) -> None:
        self.schema = schema
        self.declaration = declaration
        self.is_root = is_root
        self._rules: _PlaceRules | None = None
        element = declaration.element
        self.items = _node(schema.items, element) if schema.items else None
        self.additional = _node(schema.additional, element) if isinstance(schema.additional, Schema) else None
        self.properties: dict[str, _Node] = {}
        for name, below in schema.properties.items():
            node = _node(below, _field(declaration, name, below))
            if node is not None:
                self.properties[name] = node

    def rules(self) -> _PlaceRules:
        """The rules of this place, compiled on first use."""
        if self._rules is None:
            self._rules = _PlaceRules(self.schema, self.declaration, is_root=self.is_root)
        return self._rules


def _node(schema: Schema, declaration: Declaration | None) -> _Node | None:
    if declaration is None or not has_rules(schema):
        return None
    return _Node(schema, declaration, is_root=schema.embedded)


def _field(declaration: Declaration, name: str, schema: Schema) -> Declaration | None:
    written = escape(name)
    if written is None:
        # Expressions above cannot name it, but it may have rules of its own.
        return declare(schema, root=schema.embedded)
    return declaration.fields.get(written) if declaration.fields else None


class _CompiledRule:
    """A rule ready to run. `broken` is why it cannot run; rules of accepted definitions are never broken."""

    __slots__ = ("broken", "message", "name", "program", "rule", "suffix", "uses_old")

    def __init__(self, rule: Rule, schema: Schema, of: Type) -> None:
        self.rule = rule
        self.name = rule.message.strip() or rule.rule.strip()
        self.broken = ""
        self.message: Program | None = None
        self.program: Program | None = None
        self.uses_old = False
        self.suffix = ""
        environment = rule_environment(rule, of)
        try:
            self.program = compile_rule(rule, environment)
        except RuleError as error:
            self.broken = str(error)
            return
        self.uses_old = self.program.uses(OLD_SELF)
        if rule.message_expression:
            with suppress(RuleError):
                self.message = compile_message(rule, environment)
        if rule.field_path:
            with suppress(FieldPathError):
                self.suffix = resolve(rule.field_path, schema).name

    def programs(self) -> list[Program]:
        """The programs that may run."""
        return [one for one in (self.program, self.message) if one]


class _PlaceRules:
    """The rules of one place, and the functions that turn its values into those of expressions."""

    __slots__ = ("adapt", "adapt_old", "rules")

    def __init__(self, schema: Schema, declaration: Declaration, *, is_root: bool) -> None:
        of = declaration.type()
        self.rules = [_CompiledRule(rule, schema, of) for rule in schema.rules]
        programs = [one for rule in self.rules for one in rule.programs()]
        schema = with_metadata(schema, root=is_root)
        self.adapt = _adapter(schema, programs, SELF)
        self.adapt_old = _adapter(schema, programs, OLD_SELF)


def _adapter(schema: Schema, programs: list[Program], variable: str) -> Callable[[Any], Any] | None:
    parts: UsedFields | None = {}
    for program in programs:
        parts = merge(parts, used_fields(program.checked.root, variable))
    return adapter(schema, parts)


class _Subject(NamedTuple):
    """One value that rules run on."""

    kind: str
    """The type that the schema gives it."""
    path: Path
    value: Any
    old: Any
    """None when there is none."""
    variables: dict[str, Any]
    """The variables of expressions: `self`, and `oldSelf` if there is one."""
    correlation: Correlation | None
    """The values to compare to tell whether the value changed."""


class _Stop(Exception):
    """No more rules are to run on this object."""


class _Evaluation:
    """One call of a validator."""

    __slots__ = ("_comparison", "budget", "found", "ratcheted")

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.found = Report()
        self.ratcheted = Report()
        self._comparison = Comparison()

    def visit(
        self,
        node: _Node,
        path: Path,
        value: Any,
        old: Any,
        correlation: Correlation | None,
        nearest: Correlation | None,
    ) -> None:
        """Validate a value and everything in it. `old` is None when there is none.

        To tell what did not change, `correlation` is this value with its old value, if the two correspond, and
        `nearest` is the same for the closest value around it that has one.
        """
        if value is None:
            # The rules of the object that contains it decide about a null.
            return
        if node.schema.rules:
            self._run_rules(node, path, value, old, correlation or nearest)
        if type(value) is list:
            self._visit_items(node, path, value, old, correlation, nearest)
        elif type(value) is dict:
            self._visit_entries(node, path, value, old, correlation, nearest)

    def _visit_entries(
        self,
        node: _Node,
        path: Path,
        value: dict[str, Any],
        old: Any,
        correlation: Correlation | None,
        nearest: Correlation | None,
    ) -> None:
        before: dict[str, Any] = old if type(old) is dict else {}
        around = correlation or nearest
        if node.additional is not None:
            for name, below in value.items():
                link = (node.additional.schema, below, before[name]) if correlation and name in before else None
                self.visit(node.additional, (path, f"[{name}]"), below, before.get(name), link, around)
        for name, child in node.properties.items():
            if name not in value:
                continue
            below = value[name]
            if correlation and not nearest and name in _IDENTITY:
                # Both objects are converted to one version, so these two never look changed.
                self.visit(child, (path, f".{name}"), below, before.get(name), None, None)
                continue
            link = (child.schema, below, before[name]) if correlation and name in before else None
            self.visit(child, (path, f".{name}"), below, before.get(name), link, around)

    def _visit_items(
        self,
        node: _Node,
        path: Path,
        value: list[Any],
        old: Any,
        correlation: Correlation | None,
        nearest: Correlation | None,
    ) -> None:
        child = node.items
        if child is None:
            return
        for index, (item, before) in enumerate(zip(value, correlate_items(node.schema, value, old), strict=True)):
            is_known = before is not MISSING
            link = (child.schema, item, before) if correlation and is_known else None
            self.visit(child, (path, f"[{index}]"), item, before if is_known else None, link, correlation or nearest)

    def _run_rules(self, node: _Node, path: Path, value: Any, old: Any, correlation: Correlation | None) -> None:
        if self.budget <= 0:
            self._stop(path, node.schema.type, _OUT_OF_BUDGET)
        rules = node.rules()
        variables = {SELF: rules.adapt(value) if rules.adapt else value}
        if old is not None:
            variables[OLD_SELF] = rules.adapt_old(old) if rules.adapt_old else old
        subject = _Subject(node.schema.type, path, value, old, variables, correlation)
        for rule in rules.rules:
            if rule.broken:
                self._add(_invalid(path, subject.kind, f"rule compile error: {rule.broken}"))
            elif old is not None or not rule.uses_old or rule.rule.optional_old_self:
                self._run_rule(rule, subject)

    def _run_rule(self, rule: _CompiledRule, subject: _Subject) -> None:
        assert rule.program is not None
        variables, path, kind = subject.variables, subject.path, subject.kind
        if rule.rule.optional_old_self:
            # As in kube-apiserver, the optional holds plain JSON: times are strings there, and sets are lists.
            variables = variables | {OLD_SELF: NONE if subject.old is None else Optional(subject.old)}
        try:
            result, cost = rule.program.evaluate(variables)
        except BudgetExceeded as error:
            self._spend(error.cost, path, kind)
            reason = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(path, kind, f"'{error}': {reason}: {rule.name}")
        except EvaluationError as error:
            self._spend(error.cost, path, kind)
            self._add(_invalid(path, kind, _evaluation_text(error, rule.name)))
        else:
            self._spend(cost, path, kind)
            if result is not True:
                self._fail(rule, subject)

    def _spend(self, cost: int, path: Path, kind: str) -> None:
        if cost > self.budget:
            self._stop(path, kind, _OUT_OF_BUDGET)
        self.budget -= cost

    def _stop(self, path: Path, kind: str, detail: str) -> NoReturn:
        self._add(_invalid(path, kind, detail))
        raise _Stop

    def _fail(self, rule: _CompiledRule, subject: _Subject) -> None:
        where = _named(subject.path)
        if rule.suffix:
            where = f"{join(subject.path)}.{rule.suffix}" if subject.path else rule.suffix
        correlation = subject.correlation
        is_ratcheted = not rule.uses_old and correlation is not None and self._comparison.unchanged(*correlation)
        try:
            detail = self._message(rule, subject.variables) or rule.rule.message.strip() or f"failed rule: {rule.name}"
        except _NoMessage as error:
            self._add(invalid(where, subject.kind, str(error)), is_ratcheted)
            raise _Stop from error
        self._add(_failure(where, subject.kind, subject.value, detail, rule.rule.reason), is_ratcheted)

    def _add(self, error: FieldError, is_ratcheted: bool = False) -> None:
        (self.ratcheted if is_ratcheted else self.found).add(error)
        if self.found.full:
            raise _Stop

    def _message(self, rule: _CompiledRule, variables: dict[str, Any]) -> str:
        """The result of the rule's messageExpression; empty when it has none, or none that can be shown.

        It gets `oldSelf` as it is even where the rule gets an optional, as in kube-apiserver: calling `value()` on it
        fails then, and the plain message is shown.
        """
        if rule.message is None:
            return ""
        try:
            text, cost = rule.message.evaluate(variables)
        except BudgetExceeded as error:
            if error.cost > self.budget:
                raise _NoMessage(_MESSAGE_OUT_OF_BUDGET) from error
            shown = quote(rule.rule.message_expression)
            reason = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            raise _NoMessage(f"{reason}: {shown}") from error
        except EvaluationError as error:
            text, cost = "", error.cost
        if cost > self.budget:
            raise _NoMessage(_MESSAGE_OUT_OF_BUDGET)
        self.budget -= cost
        text = text.strip()
        return "" if "\n" in text or len(text.encode()) > LONGEST_MESSAGE else text


class _NoMessage(Exception):
    """The messageExpression cost too much."""


def _evaluation_text(error: EvaluationError, name: str) -> str:
    text = str(error)
    if text.startswith("no such overload"):
        return (
            f"'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
        )
    return f"{text} evaluating rule: {name}"


def _failure(where: str, kind: str, value: Any, detail: str, reason: str) -> FieldError:
    if reason == "FieldValueForbidden":
        return forbidden(where, detail)
    if reason == "FieldValueRequired":
        return required(where, detail)
    is_compound = kind in ("object", "array")
    if reason == "FieldValueDuplicate":
        return FieldError(reason, where, "Duplicate value") if is_compound else duplicate(where, value)
    if is_compound:
        return FieldError("FieldValueInvalid", where, f"Invalid value: {detail}")
    return invalid(where, value, detail)


def _invalid(path: Path, kind: str, detail: str) -> FieldError:
    return invalid(_named(path), kind, detail)


def _named(path: Path) -> str:
    return join(path) if path else NOWHERE
