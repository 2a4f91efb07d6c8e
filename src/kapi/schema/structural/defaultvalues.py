"""Validation of the defaults in a schema, before the schema is accepted.

A default must have no unknown fields, must be valid at its place, and inside `apiVersion`, `kind` and `metadata` of an
object must result in valid ones. Used when a definition is written, never for custom objects.

Each default is validated by its schema reduced to the fields that the default has. So a definition with defaults at
every depth costs what its defaults cost, and not its size times its depth.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kapi.api.fielderror import invalid
from kapi.schema.structural.defaulting import copy_json, has_default
from kapi.schema.structural.metadata import MalformedMetadata, compile_coerce, compile_embedded_check
from kapi.schema.structural.model import MISSING, Schema, read
from kapi.schema.structural.pruning import META_FIELDS, compile_prune, prunes_anything
from kapi.schema.structural.report import Report, join, ordered
from kapi.schema.structural.validator import compile_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.schema.structural.report import Path

    CheckRules = Callable[[Schema, Any, str, bool], list[FieldError]]
    """Validates a value by the CEL rules of a schema; takes both, the path, and True at the root of an object."""

    Around = tuple[Any, str | None] | None
    """The way from the root of an object to a value: the way above, and a key, or None for the only item of a list."""

_TYPE_META: Final = {"apiVersion": "validation/v1", "kind": "Validation"}
_ITEM: Final = None


def default_errors(
    props: Mapping[str, Any], path: str, *, check_rules: CheckRules | None = None, require_pruned: bool = True
) -> list[FieldError]:
    """The errors of the defaults in a structural schema (see `violations`) at `path`.

    `require_pruned` is False for the update of a definition that had defaults with unknown fields already. Defaults
    below `additionalProperties` are not validated, as in kube-apiserver.
    """
    schema = dataclasses.replace(read(props), embedded=True)
    validation = _Validation(check_rules, require_pruned=require_pruned)
    validation.walk(schema, (None, path), schema, None, in_head=False)
    return validation.report.errors


class _Validation:
    """One walk over a schema."""

    def __init__(self, check_rules: CheckRules | None, *, require_pruned: bool) -> None:
        self.report = Report()
        self._check_rules = check_rules
        self._require_pruned = require_pruned

    def walk(self, schema: Schema, path: Path, root: Schema, around: Around, *, in_head: bool) -> None:
        """Validate the defaults at a place and below, inside the object `root`; `in_head` is True in its metadata."""
        if self.report.full:
            return
        if schema.embedded:
            root, around, in_head = schema, None, False
        if has_default(schema):
            for error in self._errors(schema, (path, ".default"), root, around, in_head=in_head):
                self.report.add(error)
        if schema.items is not None:
            self.walk(schema.items, (path, ".items"), root, (around, _ITEM), in_head=in_head)
        for name, below in schema.properties.items():
            below_in_head = in_head or (schema.embedded and name in META_FIELDS)
            self.walk(below, (path, f".properties[{name}]"), root, (around, name), in_head=below_in_head)

    def _errors(self, schema: Schema, path: Path, root: Schema, around: Around, *, in_head: bool) -> list[FieldError]:
        value = copy_json(schema.default)
        small = _narrowed(schema, [value])
        if in_head:
            problem = _head_problem(root, _surrounded(value, around))
            if problem:
                what = f"must result in valid metadata: {problem}"
                return [invalid(join(path), ordered(schema.default), what)]
            errors: list[FieldError] = []
        else:
            has_unknown = self._require_pruned and prunes_anything(small, copy_json(value))
            wrong = _embedded_errors(small, path, value)
            # Shown after coercion, which takes unknown metadata out, as kube-apiserver shows it.
            what = "must not have unknown fields"
            errors = [invalid(join(path), ordered(value), what)] if has_unknown else []
            if wrong:
                return errors + wrong
        return errors + (_value_errors(small, path, value) or self._rule_errors(schema, path, root, value))

    def _rule_errors(self, schema: Schema, path: Path, root: Schema, value: Any) -> list[FieldError]:
        return self._check_rules(schema, value, join(path), schema is root) if self._check_rules is not None else []


def _embedded_errors(small: Schema, path: Path, value: Any) -> list[FieldError]:
    """The errors of embedded objects in a default, which this also coerces."""
    coerce = compile_coerce(small, root=False)
    if coerce is not None:
        try:
            coerce(value)
        except MalformedMetadata as error:
            return [error.error._replace(field=_under(path, error.error.field))]
    check = compile_embedded_check(small)
    return check(value, join(path)) if check is not None and check(value, "") else []


def _under(path: Path, field: str) -> str:
    return join((path, field if field.startswith("[") else f".{field}"))


def _value_errors(small: Schema, path: Path, value: Any) -> list[FieldError]:
    check = compile_validator(small)
    # The path is part of the texts, and joining a long one is expensive: only if there is an error.
    return check(value, MISSING, join(path)) if check(value, MISSING, "") else []


def _head_problem(root: Schema, whole: Any) -> str:
    """The error of the metadata that an object with the default would have; empty when there is none."""
    small = _narrowed(root, [whole])
    coerce, check = compile_coerce(small), compile_embedded_check(small, root=True)
    assert coerce is not None
    assert check is not None
    try:
        coerce(whole)
    except MalformedMetadata as error:
        return error.message
    texts = list(dict.fromkeys(map(str, check(whole, ""))))
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def _surrounded(value: Any, around: Around) -> dict[str, Any]:
    """An object that has its type and the value, at its place, and nothing else."""
    while around is not None:
        around, key = around
        value = [value] if key is _ITEM else {key: value}
    assert isinstance(value, dict)
    return _TYPE_META | value


def _narrowed(schema: Schema, values: Iterable[Any]) -> Schema:
    """The schema without the parts for fields and items that none of the values has."""
    values = list(values)
    if not values:
        return Schema(type=schema.type)
    held: dict[str, list[Any]] = {}
    items: list[Any] = []
    for value in values:
        if type(value) is dict:
            for name, below in value.items():
                held.setdefault(name, []).append(below)
        elif type(value) is list:
            items += value
    known, additional = schema.properties, schema.additional
    if isinstance(additional, Schema):
        others = (below for name, found in held.items() if name not in known for below in found)
        additional = _narrowed(additional, others)
    return dataclasses.replace(
        schema,
        # kube-apiserver validates defaults without this extension, and so only by the anyOf next to it, if any.
        int_or_string=False,
        properties={name: _narrowed(known[name], found) for name, found in held.items() if name in known},
        items=_narrowed(schema.items, items) if schema.items is not None else None,
        additional=additional,
        all_of=tuple(_narrowed(each, values) for each in schema.all_of),
        any_of=tuple(_narrowed(each, values) for each in schema.any_of),
        one_of=tuple(_narrowed(each, values) for each in schema.one_of),
        not_=_narrowed(schema.not_, values) if schema.not_ is not None else None,
    )


# -- when a schema is used ------------------------------------------------------------------------------------------


def prune_defaults(schema: Schema) -> None:
    """Remove unknown fields from the defaults of an accepted schema, in place, before it is compiled.

    New definitions cannot have them, but for unknown metadata of embedded objects; old definitions can.
    """
    prune, coerce = compile_prune(schema), compile_coerce(schema, drop_malformed=True)
    assert coerce is not None
    waiting: list[tuple[Schema, Around]] = [(schema, None)]
    while waiting:
        place, around = waiting.pop()
        if has_default(place) and around is not None:
            whole = _surrounded(copy_json(place.default), around)
            coerce(whole)
            prune(whole)
            place.default = _inside(whole, around)
        if isinstance(place.additional, Schema):
            waiting.append((place.additional, (around, "*")))
        if place.items is not None:
            waiting.append((place.items, (around, _ITEM)))
        waiting += ((below, (around, name)) for name, below in place.properties.items())


def _inside(whole: Any, around: Around) -> Any:
    """The value inside an object made by `_surrounded`; None when it was removed."""
    way: list[str | None] = []
    while around is not None:
        around, key = around
        way.append(key)
    for key in reversed(way):
        whole = whole[0] if key is _ITEM else whole.get(key)
        if whole is None:
            return None
    return whole
