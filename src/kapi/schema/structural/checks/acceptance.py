"""Fast validation by a schema, without error messages.

Nearly all objects that are written are valid, so this is what runs on the road; `explaining` finds the words when it
says no. The two must agree, and there is a test that they do.

A schema becomes one verdict for each class of JSON values: yes, no, or a function that decides. Much is known before
any value is seen: for a string, `anyOf` an integer or a string is yes. The functions that are left are made of the
functions of the parts, and a part that allows everything needs none.

Most places take one class of values. Maps and lists look at it themselves, so that a value that has nothing but a type
costs no call, and others cost one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.structural.checks.enumeration import Enumeration, has_duplicates
from kapi.schema.structural.checks.numbers import NumberRules
from kapi.schema.structural.checks.strings import StringRules
from kapi.schema.structural.checks.typenames import KINDS, TypeRules
from kapi.schema.structural.model import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Accept = Callable[[Any], bool]
    Verdict = Accept | bool
    Verdicts = dict[type, Verdict]
    Place = tuple[type, Accept | None, Accept | None]
    """The class that most values here have, what decides about them, and what decides about all others.

    Without the first function all of the class pass, and without the second no others do.
    """

_SAMPLES: Final[dict[type, Any]] = {str: "", int: 0, float: 0.5, bool: False, list: [], dict: {}, type(None): None}
_NULL: Final = type(None)
_NOTHING: Final[Place] = (object, None, None)
"""A place where no value may stand: none is of this very class."""


def compile_accept(schema: Schema) -> Accept | None:
    """The function that returns True for valid values; None when all are valid."""
    return _by_class(_verdicts(schema))


def _verdicts(schema: Schema) -> Verdicts:
    types = TypeRules.of(schema)
    verdicts: Verdicts = {}
    for kind in KINDS:
        verdicts[kind] = types.problem(_SAMPLES[kind]) is None
    verdicts[_NULL] = verdicts[_NULL] and not schema.enum
    if verdicts[str]:
        verdicts[str] = StringRules.of(schema).accepts() or True
    if verdicts[int]:
        verdicts[int] = NumberRules.of(schema, types.format).accepts_integers() or True
    if verdicts[float] or verdicts[int]:
        verdicts[float] = _float(schema, types)
    if verdicts[list]:
        verdicts[list] = _list(schema)
    if verdicts[dict]:
        verdicts[dict] = _object(schema)
    if schema.enum:
        _add_enum(Enumeration(schema.enum), verdicts)
    _add_junctors(schema, verdicts)
    return verdicts


def _by_class(verdicts: Verdicts) -> Accept | None:
    """One function that dispatches on the class of a value; None when all values are valid."""
    place = _place(verdicts)
    if place is None:
        return None
    main, check, other = place
    if other is None:
        if check is None:
            return lambda value: value.__class__ is main
        return lambda value: value.__class__ is main and check(value)

    def accept(value: Any) -> bool:
        if value.__class__ is main:
            return check is None or check(value)
        return other(value)

    return accept


def _place(verdicts: Verdicts) -> Place | None:
    """The verdicts, for callers that check the class themselves; None when all values are valid."""
    allowed = {kind: verdict for kind, verdict in verdicts.items() if verdict is not False}
    if len(allowed) == len(verdicts) and all(verdict is True for verdict in allowed.values()):
        return None
    if not allowed:
        return _NOTHING
    main = next((kind for kind, verdict in allowed.items() if verdict is not True), next(iter(allowed)))
    check = allowed.pop(main)
    return main, None if isinstance(check, bool) else check, _others(allowed)


def _others(allowed: Mapping[type, Verdict]) -> Accept | None:
    if not allowed:
        return None
    if all(verdict is True for verdict in allowed.values()):
        return lambda value: value.__class__ in allowed

    def accept(value: Any) -> bool:
        verdict = allowed.get(value.__class__, False)
        return verdict if isinstance(verdict, bool) else verdict(value)

    return accept


# --- verdicts together ------------------------------------------------------------------------------------------------


def _both(first: Verdict, second: Verdict) -> Verdict:
    if first is False or second is False:
        return False
    if isinstance(first, bool):
        return second
    if isinstance(second, bool):
        return first
    return lambda value: first(value) and second(value)


def _any_of(verdicts: list[Verdict]) -> Verdict:
    if True in verdicts:
        return True
    open_ones = [verdict for verdict in verdicts if not isinstance(verdict, bool)]
    if not open_ones:
        return False
    if len(open_ones) == 1:
        return open_ones[0]
    return lambda value: any(check(value) for check in open_ones)


def _one_of(verdicts: list[Verdict]) -> Verdict:
    sure = sum(verdict is True for verdict in verdicts)
    open_ones = [verdict for verdict in verdicts if not isinstance(verdict, bool)]
    if sure > 1 or not open_ones:
        return sure == 1
    return lambda value: sure + sum([check(value) for check in open_ones]) == 1


def _opposite(verdict: Verdict) -> Verdict:
    if isinstance(verdict, bool):
        return not verdict
    return lambda value: not verdict(value)


def _add_junctors(schema: Schema, verdicts: Verdicts) -> None:
    """Combine the verdicts with those of allOf, anyOf, oneOf and not, which ignore null."""
    every: list[Verdicts] = []
    some: list[Verdicts] = []
    one: list[Verdicts] = []
    for group, branches in ((every, schema.all_of), (some, schema.any_of), (one, schema.one_of)):
        for branch in branches:
            group.append(_verdicts(branch))
    refused = _verdicts(schema.not_) if schema.not_ is not None else None
    for kind in KINDS[:-1]:
        verdict = verdicts[kind]
        for branch_verdicts in every:
            verdict = _both(verdict, branch_verdicts[kind])
        if some:
            verdict = _both(verdict, _any_of([branch_verdicts[kind] for branch_verdicts in some]))
        if one:
            verdict = _both(verdict, _one_of([branch_verdicts[kind] for branch_verdicts in one]))
        if refused is not None:
            verdict = _both(verdict, _opposite(refused[kind]))
        verdicts[kind] = verdict


def _add_enum(enum: Enumeration, verdicts: Verdicts) -> None:
    """Combine the verdicts with an enumeration. A string is looked up directly: nothing is converted to one."""
    for kind in KINDS[:-1]:
        listed: Accept = enum.strings.__contains__ if kind is str else enum.__contains__
        verdicts[kind] = _both(verdicts[kind], listed)


# --- verdicts of one class --------------------------------------------------------------------------------------------


def _float(schema: Schema, types: TypeRules) -> Verdict:
    rules = NumberRules.of(schema, types.format)
    if rules.limits_floats() or "integer" in types.names:
        return lambda value: types.problem(value) is None and next(rules.errors(value, ""), None) is None
    return types.problem(_SAMPLES[float]) is None


def _list(schema: Schema) -> Verdict:
    low, high, unique = schema.min_items or 0, schema.max_items, schema.unique_items
    item = _place(_verdicts(schema.items)) if schema.items is not None else None
    each = None if item is None else _every(item)
    most = float("inf") if high is None else high
    if not low and high is None and not unique:
        return True if each is None else each
    return lambda items: (
        low <= len(items) <= most and (each is None or each(items)) and not (unique and has_duplicates(items))
    )


def _every(place: Place) -> Callable[[Iterable[Any]], bool]:
    """A function that returns True if all values of an iterable are valid at a place."""
    main, check, other = place

    def accept(values: Iterable[Any]) -> bool:
        for value in values:
            if value.__class__ is main:
                if check is not None and not check(value):
                    return False
            elif other is None or not other(value):
                return False
        return True

    return accept


def _object(schema: Schema) -> Verdict:
    below: dict[str, Place | None] = {}
    for name, part in schema.properties.items():
        place = _place(_verdicts(part))
        # With a rule for other keys, those without one of their own must be known to be none of them.
        if place is not None or schema.additional not in {None, True}:
            below[name] = place
    others: Place | None = None
    if isinstance(schema.additional, Schema):
        others = _place(_verdicts(schema.additional))
    elif schema.additional is False:
        others = _NOTHING
    return _properties(schema, below, others)


def _properties(schema: Schema, below: dict[str, Place | None], others: Place | None) -> Verdict:
    low, high = schema.min_properties or 0, schema.max_properties
    most = float("inf") if high is None else high
    sized, required, find = bool(low) or high is not None, frozenset(schema.required), below.get
    if not (sized or required or below):
        if others is None:
            return True
        each = _every(others)
        return lambda obj: each(obj.values())

    def accept(obj: dict[str, Any]) -> bool:
        if sized and not low <= len(obj) <= most:
            return False
        if required and not obj.keys() >= required:
            return False
        for name, value in obj.items():
            place = find(name, others)
            if place is None:
                continue
            main, check, other = place
            if value.__class__ is main:
                if check is not None and not check(value):
                    return False
            elif other is None or not other(value):
                return False
        return True

    return accept
