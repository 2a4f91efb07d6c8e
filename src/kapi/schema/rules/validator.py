"""Rules of a schema at run time: `compile_rules` makes a `Judge` of them, which says what a value breaks.

A judge walks only the parts of a value that have rules on or below them. Each rule is compiled when it first meets a
value. One call has one budget for all rules together, so no object can keep the server busy for long.

`check_rules` is the other half: what a definition must live up to before any of this runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from kapi.api.fielderror import FieldError, forbidden, required
from kapi.api.go.text import quote
from kapi.schema.cel.run.program import BudgetExceeded
from kapi.schema.cel.syntax.identifiers import escape
from kapi.schema.cel.types import optional_of
from kapi.schema.cel.values import NONE, EvaluationError, Optional
from kapi.schema.rules.adapters import Touched, adapter, merge, touched
from kapi.schema.rules.checks import OLD_SELF, SELF, RuleError, check_rules, compile_message, compile_rule
from kapi.schema.rules.declarations import Declaration, declare, with_metadata
from kapi.schema.rules.fieldpaths import FieldPathError, resolve
from kapi.schema.structural.correlation import Comparison, correlate_items
from kapi.schema.structural.model import MISSING, Schema
from kapi.schema.structural.report import Report, join
from kapi.schema.structural.wording import NOWHERE, duplicate, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.schema.cel.engine import Expression
    from kapi.schema.cel.types import Type
    from kapi.schema.structural.model import Rule
    from kapi.schema.structural.report import Path

    Kin = tuple[Schema, Any, Any]
    """A place of the schema, the value there, and its earlier state."""

__all__ = ["REQUEST_BUDGET", "Judge", "check_rules", "compile_rules", "judge_default", "not_judged"]

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
_NOT_JUDGED: Final = invalid(
    NOWHERE,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
_NO_MORE: Final = "due to running out of cost budget, no further validation rules will be run"
_OUT_OF_BUDGET: Final = f"validation failed {_NO_MORE}"
_MESSAGE_OUT_OF_BUDGET: Final = f"messageExpression evaluation failed {_NO_MORE}"
_IDENTITY: Final = ("apiVersion", "kind")


def not_judged(errors: Iterable[FieldError]) -> FieldError | None:
    """The error to add instead of running rules when the value is not of the shape that they rely on."""
    return _NOT_JUDGED if any(error.reason in _BLOCKING for error in errors) else None


def compile_rules(schema: Schema, *, root: bool = True) -> Judge | None:
    """The judge of a schema; None when it has no rules. `root` says that it is the schema of a whole resource."""
    declaration = declare(schema, root=root) if _has_rules(schema) else None
    return None if declaration is None else Judge(schema, declaration, root=root)


def judge_default(
    schema: Schema, value: Any, path: str, root: bool, *, budget: int = REQUEST_BUDGET
) -> list[FieldError]:
    """What the rules of a schema say against its default, which must do as a first value and as an unchanged one."""
    judge = compile_rules(schema, root=root)
    if judge is None:
        return []
    unchanged = judge(value, value, path, spares_unchanged=False, budget=budget)
    return unchanged or judge(value, MISSING, path, budget=budget)


def _has_rules(schema: Schema) -> bool:
    parts = [*schema.properties.values(), schema.items, schema.additional]
    return bool(schema.rules) or any(isinstance(part, Schema) and _has_rules(part) for part in parts)


class Judge:
    """Judges values of one resource. Holds no state of its own between calls but what was compiled."""

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
        spares_unchanged: bool = True,
    ) -> list[FieldError]:
        """What the rules say against a value, which is to replace `old` unless that is MISSING.

        Failures of what the update does not change are not held against it, unless `spares_unchanged` is False; they
        are added to `warnings` instead.
        """
        trial = _Trial(budget)
        top: Path = (None, path) if path else None
        is_update = old is not MISSING
        kin = (self._root.schema, value, old) if is_update and spares_unchanged else None
        with suppress(_Stop):
            trial.visit(self._root, top, value, old if is_update else None, kin, None)
        if warnings is not None:
            warnings.extend(map(str, trial.spared.errors))
        return trial.found.errors


class _Node:
    """One place of a schema that has rules, or has some below it."""

    __slots__ = ("_bench", "additional", "declaration", "is_root", "items", "properties", "schema")

    def __init__(self, schema: Schema, declaration: Declaration, *, is_root: bool) -> None:
        self.schema = schema
        self.declaration = declaration
        self.is_root = is_root
        self._bench: _Bench | None = None
        element = declaration.element
        self.items = _node(schema.items, element) if schema.items else None
        self.additional = _node(schema.additional, element) if isinstance(schema.additional, Schema) else None
        self.properties: dict[str, _Node] = {}
        for name, below in schema.properties.items():
            node = _node(below, _field(declaration, name, below))
            if node is not None:
                self.properties[name] = node

    def bench(self) -> _Bench:
        """The rules of this very place, compiled."""
        if self._bench is None:
            self._bench = _Bench(self.schema, self.declaration, is_root=self.is_root)
        return self._bench


def _node(schema: Schema, declaration: Declaration | None) -> _Node | None:
    if declaration is None or not _has_rules(schema):
        return None
    return _Node(schema, declaration, is_root=schema.embedded)


def _field(declaration: Declaration, name: str, schema: Schema) -> Declaration | None:
    written = escape(name)
    if written is None:
        # Not to be reached from above, but rules of its own may look at it.
        return declare(schema, root=schema.embedded)
    return declaration.fields.get(written) if declaration.fields else None


class _CompiledRule:
    """A rule ready to run. `broken` is why it cannot, which a definition that was accepted does not have."""

    __slots__ = ("broken", "expression", "message", "name", "rule", "suffix", "uses_old")

    def __init__(self, rule: Rule, schema: Schema, of: Type) -> None:
        self.rule = rule
        self.name = rule.message.strip() or rule.rule.strip()
        self.broken = ""
        self.message: Expression | None = None
        self.expression: Expression | None = None
        self.uses_old = False
        self.suffix = ""
        variables = {SELF: of, OLD_SELF: optional_of(of) if rule.optional_old_self else of}
        try:
            self.expression = compile_rule(rule, variables)
        except RuleError as error:
            self.broken = str(error)
            return
        self.uses_old = self.expression.uses(OLD_SELF)
        if rule.message_expression:
            with suppress(RuleError):
                self.message = compile_message(rule, variables)
        if rule.field_path:
            with suppress(FieldPathError):
                self.suffix = resolve(rule.field_path, schema).name

    def expressions(self) -> list[Expression]:
        """What may run."""
        return [one for one in (self.expression, self.message) if one]


class _Bench:
    """The rules of one place, and how values become what expressions work on."""

    __slots__ = ("adapt", "adapt_old", "rules")

    def __init__(self, schema: Schema, declaration: Declaration, *, is_root: bool) -> None:
        of = declaration.type()
        self.rules = [_CompiledRule(rule, schema, of) for rule in schema.rules]
        expressions = [one for rule in self.rules for one in rule.expressions()]
        schema = with_metadata(schema, root=is_root)
        self.adapt = _adapter(schema, expressions, SELF)
        self.adapt_old = _adapter(schema, expressions, OLD_SELF)


def _adapter(schema: Schema, expressions: list[Expression], variable: str) -> Callable[[Any], Any] | None:
    parts: Touched | None = {}
    for expression in expressions:
        parts = merge(parts, touched(expression.checked.root, variable))
    return adapter(schema, parts)


class _Case(NamedTuple):
    """One value before the rules of its place."""

    kind: str
    """The type that the schema gives it."""
    path: Path
    value: Any
    old: Any
    """None when there is none."""
    variables: dict[str, Any]
    """What expressions see: `self`, and `oldSelf` if there is one."""
    kin: Kin | None
    """What to compare to tell whether the value changed."""


class _Stop(Exception):
    """No more rules are to run on this object."""


class _Trial:
    """One call of a judge."""

    __slots__ = ("_comparison", "budget", "found", "spared")

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.found = Report()
        self.spared = Report()
        self._comparison = Comparison()

    def visit(self, node: _Node, path: Path, value: Any, old: Any, kin: Kin | None, nearest: Kin | None) -> None:
        """Judge a value and what is in it. `old` is None when there is none.

        To tell what did not change, `kin` is this value with its earlier state, if the two correspond, and `nearest` is
        the same for the closest value around it that has one.
        """
        if value is None:
            # A null is the matter of whatever contains it.
            return
        if node.schema.rules:
            self._run_rules(node, path, value, old, kin or nearest)
        if type(value) is list:
            self._visit_items(node, path, value, old, kin, nearest)
        elif type(value) is dict:
            self._visit_entries(node, path, value, old, kin, nearest)

    def _visit_entries(
        self, node: _Node, path: Path, value: dict[str, Any], old: Any, kin: Kin | None, nearest: Kin | None
    ) -> None:
        before: dict[str, Any] = old if type(old) is dict else {}
        if node.additional is not None:
            for name, below in value.items():
                link = (node.additional.schema, below, before[name]) if kin and name in before else None
                self.visit(node.additional, (path, f"[{name}]"), below, before.get(name), link, kin or nearest)
        for name, child in node.properties.items():
            if name not in value:
                continue
            below = value[name]
            if kin and not nearest and name in _IDENTITY:
                # Both states are read as one version, so these two never look changed.
                self.visit(child, (path, f".{name}"), below, before.get(name), None, None)
                continue
            link = (child.schema, below, before[name]) if kin and name in before else None
            self.visit(child, (path, f".{name}"), below, before.get(name), link, kin or nearest)

    def _visit_items(
        self, node: _Node, path: Path, value: list[Any], old: Any, kin: Kin | None, nearest: Kin | None
    ) -> None:
        child = node.items
        if child is None:
            return
        for index, (item, before) in enumerate(zip(value, correlate_items(node.schema, value, old), strict=True)):
            is_known = before is not MISSING
            link = (child.schema, item, before) if kin and is_known else None
            self.visit(child, (path, f"[{index}]"), item, before if is_known else None, link, kin or nearest)

    def _run_rules(self, node: _Node, path: Path, value: Any, old: Any, kin: Kin | None) -> None:
        if self.budget <= 0:
            self._stop(path, node.schema.type, _OUT_OF_BUDGET)
        bench = node.bench()
        variables = {SELF: bench.adapt(value) if bench.adapt else value}
        if old is not None:
            variables[OLD_SELF] = bench.adapt_old(old) if bench.adapt_old else old
        case = _Case(node.schema.type, path, value, old, variables, kin)
        for rule in bench.rules:
            if rule.broken:
                self._add(_invalid(path, case.kind, f"rule compile error: {rule.broken}"))
            elif old is not None or not rule.uses_old or rule.rule.optional_old_self:
                self._run_rule(rule, case)

    def _run_rule(self, rule: _CompiledRule, case: _Case) -> None:
        assert rule.expression is not None
        variables, path, kind = case.variables, case.path, case.kind
        if rule.rule.optional_old_self:
            # As in the reference, what the optional holds is JSON as it is: times are texts there, and sets are lists.
            variables = variables | {OLD_SELF: NONE if case.old is None else Optional(case.old)}
        try:
            result, cost = rule.expression.run(variables)
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
                self._fail(rule, case)

    def _spend(self, cost: int, path: Path, kind: str) -> None:
        if cost > self.budget:
            self._stop(path, kind, _OUT_OF_BUDGET)
        self.budget -= cost

    def _stop(self, path: Path, kind: str, detail: str) -> NoReturn:
        self._add(_invalid(path, kind, detail))
        raise _Stop

    def _fail(self, rule: _CompiledRule, case: _Case) -> None:
        where = _named(case.path)
        if rule.suffix:
            where = f"{join(case.path)}.{rule.suffix}" if case.path else rule.suffix
        is_old_news = not rule.uses_old and case.kin is not None and self._comparison.unchanged(*case.kin)
        try:
            detail = self._word(rule, case.variables) or rule.rule.message.strip() or f"failed rule: {rule.name}"
        except _NoMessage as error:
            self._add(invalid(where, case.kind, str(error)), is_old_news)
            raise _Stop from error
        self._add(_failure(where, case.kind, case.value, detail, rule.rule.reason), is_old_news)

    def _add(self, error: FieldError, is_old_news: bool = False) -> None:
        (self.spared if is_old_news else self.found).add(error)
        if self.found.full:
            raise _Stop

    def _word(self, rule: _CompiledRule, variables: dict[str, Any]) -> str:
        """What the rule's own expression says about the failure; nothing when it says nothing fit to be shown.

        It gets `oldSelf` as it is even where the rule gets an optional, as in the reference: to ask the optional for a
        value fails, and then the plain message is shown.
        """
        if rule.message is None:
            return ""
        try:
            text, cost = rule.message.run(variables)
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
    """Wording a failure cost too much."""


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
