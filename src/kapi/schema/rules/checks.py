"""Validation of the rules in a definition, before it is accepted: they must compile and not be too expensive.

A rule that sits below lists and maps runs once for each item, so its estimated cost is multiplied by how many there may
be: as the schema limits them, or else as many as fit into one request. Texts and limits are those of kube-apiserver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kapi.api.fielderror import FieldError, forbidden, not_supported, required
from kapi.schema.cel.cost.estimates import LARGEST
from kapi.schema.cel.syntax.identifiers import escape
from kapi.schema.rules.compiler import OLD_SELF, RuleError, compile_message, compile_rule, rule_environment
from kapi.schema.rules.declarations import REQUEST_BYTES, Declaration, declare, sizes_of
from kapi.schema.rules.fieldpaths import FieldPathError, resolve
from kapi.schema.structural.messages import invalid, json_text
from kapi.schema.structural.model import Schema
from kapi.schema.structural.report import Report, join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kapi.schema.cel.types import Type
    from kapi.schema.structural.model import Rule
    from kapi.schema.structural.report import Path

_EXPRESSION_LIMIT: Final = 10_000_000
_TOTAL_LIMIT: Final = 100_000_000
_NOTABLE: Final = _TOTAL_LIMIT // 100
_MOST_NAMED: Final = 4
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_rules(
    schema: Schema,
    path: str,
    *,
    is_structural: bool = True,
    known: Collection[FieldError] = (),
    cost_limited: bool = True,
) -> list[FieldError]:
    """The errors of the rules in a resource's schema, which is at `path` in its definition.

    Expressions are not compiled when the schema is not structural or has invalid defaults, nor where one of the other
    errors in `known` is at or below the place of the rule. `cost_limited` is False on an update that leaves
    the schema as it was; then single expressions may be too expensive, since they were accepted once.
    """
    checks = _Checks(known=[error.field for error in known], cost_limited=cost_limited)
    top: Path = (None, path)
    checks.visit(_Place(schema, top, is_root=True, repeats=1, is_typed=is_structural))
    return [*checks.wordings.errors, *checks.found.errors, *checks.total_errors(path)]


@dataclass(slots=True)
class _Place:
    """The current place of the walk over a schema."""

    schema: Schema
    path: Path
    is_root: bool
    repeats: int | None
    """The most values that may be here in one object; None when nothing limits them."""
    declaration: Declaration | None = None
    """Part of the declaration of the schema above, where that has rules."""
    uncorrelated: Path = None
    """The highest list above whose items cannot be correlated with those of the old object."""
    is_typed: bool = True
    """False where expressions are not compiled, as inside `not` and `allOf`."""


@dataclass(slots=True)
class _Checks:
    known: list[str]
    cost_limited: bool
    wordings: Report = field(default_factory=Report)
    found: Report = field(default_factory=Report)
    total: int = 0
    most_expensive: list[tuple[int, str]] = field(default_factory=list)

    def visit(self, place: _Place) -> bool:
        """Check a place and everything below; return True if the schema is valid there, apart from expressions."""
        schema = place.schema
        if schema.rules and place.declaration is None and place.is_typed:
            place.declaration = declare(schema, root=place.is_root)
        sound = True
        for below in _below(place):
            sound &= self.visit(below)
        for index, rule in enumerate(schema.rules):
            for error in _wording_errors(rule, schema, join((place.path, f".x-kubernetes-validations[{index}]"))):
                self.wordings.add(error)
                sound = False
        if schema.rules and place.is_typed and sound and not self._is_known_broken(place):
            self._expressions(place)
        return sound

    def _is_known_broken(self, place: _Place) -> bool:
        path = join(place.path)
        return any(error.startswith(path) for error in self.known)

    def _expressions(self, place: _Place) -> None:
        declaration = place.declaration
        path = join(place.path) + ".x-kubernetes-validations"
        if declaration is None:
            self.found.add(_internal(path, f"internal error: {_NO_TYPES}"))
            return
        of = declaration.type()
        repeats = REQUEST_BYTES // (declaration.min_size + 1) if place.repeats is None else place.repeats
        for index, rule in enumerate(place.schema.rules):
            if self.found.full:
                return
            self._rule(rule, f"{path}[{index}]", of, declaration, repeats, place.uncorrelated)

    def _rule(
        self, rule: Rule, path: str, of: Type, declaration: Declaration, repeats: int, uncorrelated: Path
    ) -> None:
        environment = rule_environment(rule, of)
        try:
            program = compile_rule(rule, environment)
        except RuleError as error:
            self.found.add(_invalid_rule(f"{path}.rule", rule, str(error)))
            self._optional_old_self(rule, path)
            return
        sizes = sizes_of(declaration)
        self._observe(f"{path}.rule", "estimated rule cost", program.estimate(sizes).max * repeats)
        if rule.message_expression:
            try:
                message = compile_message(rule, environment)
            except RuleError as error:
                self.found.add(_invalid_rule(f"{path}.messageExpression", rule, str(error)))
            else:
                most = message.estimate(sizes).max
                self._observe(f"{path}.messageExpression", "estimated messageExpression cost", most)
        if not program.uses(OLD_SELF):
            self._optional_old_self(rule, path)
        elif uncorrelated is not None:
            within = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {join(uncorrelated)}"
            self.found.add(invalid(f"{path}.rule", rule.rule, within))

    def _optional_old_self(self, rule: Rule, path: str) -> None:
        if rule.optional_old_self is not None:
            detail = "may not be set if oldSelf is not used in rule"
            self.found.add(invalid(f"{path}.optionalOldSelf", rule.optional_old_self, detail))

    def _observe(self, path: str, name: str, cost: int) -> None:
        cost = min(cost, LARGEST)
        if self.cost_limited and cost > _EXPRESSION_LIMIT:
            self.found.add(forbidden(path, _too_expensive(name, cost, _EXPRESSION_LIMIT)))
        self.total = min(self.total + cost, LARGEST)
        if cost >= _NOTABLE:
            self.most_expensive.append((cost, path))
            self.most_expensive.sort(key=lambda one: -one[0])
            del self.most_expensive[_MOST_NAMED:]

    def total_errors(self, path: str) -> Iterator[FieldError]:
        """The errors when all rules together may cost too much."""
        if self.total <= _TOTAL_LIMIT:
            return
        for _, one in self.most_expensive:
            yield forbidden(
                one, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            )
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, _too_expensive(name, self.total, _TOTAL_LIMIT))


_NO_TYPES: Final = (
    "failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


def _below(place: _Place) -> Iterator[_Place]:
    schema, path, declared = place.schema, place.path, place.declaration
    repeats, typed, uncorrelated = _repeats_below(place), place.is_typed, place.uncorrelated
    element = declared.element if declared else None
    if isinstance(schema.additional, Schema):
        below = schema.additional
        yield _Place(below, (path, ".additionalProperties"), below.embedded, repeats, element, uncorrelated, typed)
    for name, below in schema.properties.items():
        written = escape(name)
        known = declared.fields.get(written) if declared and declared.fields and written else None
        yield _Place(below, (path, f".properties[{name}]"), below.embedded, repeats, known, uncorrelated, typed)
    for part, below in _conditions(schema):
        yield _Place(below, (path, part), False, None, None, uncorrelated, is_typed=False)
    if schema.items is not None:
        if uncorrelated is None and schema.list_type != "map":
            uncorrelated = path
        below = schema.items
        yield _Place(below, (path, ".items"), below.embedded, repeats, element, uncorrelated, typed)


def _conditions(schema: Schema) -> Iterator[tuple[str, Schema]]:
    if schema.not_ is not None:
        yield ".not", schema.not_
    for name, parts in (("allOf", schema.all_of), ("oneOf", schema.one_of), ("anyOf", schema.any_of)):
        for index, part in enumerate(parts):
            yield f".{name}[{index}]", part


def _repeats_below(place: _Place) -> int | None:
    schema = place.schema
    most: int | None = 1
    if schema.type == "array":
        most = schema.max_items
    elif schema.type == "object" and schema.additional is not None:
        most = schema.max_properties
    return None if place.repeats is None or most is None else min(place.repeats * max(most, 0), LARGEST)


def _wording_errors(rule: Rule, schema: Schema, path: str) -> Iterator[FieldError]:
    """The errors of a rule that show without compiling its expressions."""
    text, message = rule.rule.strip(), rule.message.strip()
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif rule.message and not message:
        yield invalid(f"{path}.message", rule.message, "must be non-empty if specified")
    elif _has_newlines(message):
        yield invalid(f"{path}.message", rule.message, "must not contain line breaks")
    elif _has_newlines(text) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.message_expression and not rule.message_expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.reason and rule.reason not in _REASONS:
        yield not_supported(f"{path}.reason", rule.reason, _REASONS)
    if rule.field_path:
        yield from _field_path_errors(rule.field_path, schema, f"{path}.fieldPath")


def _field_path_errors(field_path: str, schema: Schema, path: str) -> Iterator[FieldError]:
    if not field_path.strip():
        yield invalid(path, field_path, "must be non-empty if specified")
    if _has_newlines(field_path):
        yield invalid(path, field_path, "must not contain line breaks")
    try:
        resolve(field_path, schema)
    except FieldPathError:
        yield invalid(path, field_path, "must be a valid path")


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _too_expensive(name: str, cost: int, limit: int) -> str:
    factor = float(cost) / float(limit)
    shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    if factor > 100:
        shown = "more than 100x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, "
        "and maxLength where arrays, maps, and strings are declared)"
    )


def _invalid_rule(path: str, rule: Rule, detail: str) -> FieldError:
    """The value is the whole rule, with the names of the fields in kube-apiserver's Go type."""
    shown = ",".join(
        f"{json_text(name)}:{json_text(value)}"
        for name, value in (
            ("Rule", rule.rule),
            ("Message", rule.message),
            ("MessageExpression", rule.message_expression),
            ("Reason", rule.reason or None),
            ("FieldPath", rule.field_path),
            ("OptionalOldSelf", rule.optional_old_self),
        )
    )
    return FieldError("FieldValueInvalid", path, f"Invalid value: {{{shown}}}: {detail}")


def _internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, f"Internal error: {detail}")
