"""Label selectors and field selectors: read, printed, and asked millions of times whether they match.

A selector is parsed once (results are cached, the cache is bounded) and compiled into one function, because a list or a
watch calls it per object. Selectors are immutable. Error texts are those of kube-apiserver's parser, as clients see
them in a 400. Pure; no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, invalid, required
from kapi.api.limits import SELECTOR_TERMS

Labels = Mapping[str, str]
Matcher = Callable[[Labels | None], bool]

EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
IN: Final = "in"
NOT_IN: Final = "notin"
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER_THAN: Final = "gt"
LESS_THAN: Final = "lt"

_BINARY_OPERATORS = (IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN)
_PRINTED = {IN: " in ", NOT_IN: " notin ", GREATER_THAN: ">", LESS_THAN: "<"}
_OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_is_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch
_NO_LABELS: Labels = {}


_REMEMBERED_LENGTH = 512
"""Of longer selectors only the last few are cached: any client may send them, and they take much memory."""

_REMEMBERED_LONG = 4
"""Enough to parse a selector once for all steps of a request."""

_FEW = 16
"""More requirements than this are compiled into look-ups, which would take longer for few of them."""


class SelectorError(ValueError):
    """A selector that cannot be read; the text is the whole message."""


def _check_terms(kind: str, text: str) -> None:
    """Refuse a selector whose parsing takes long, before any of it is parsed."""
    terms = text.count(",") + 1
    if terms > SELECTOR_TERMS:
        raise SelectorError(f"the {kind} selector has {terms} terms and values; at most {SELECTOR_TERMS} are allowed")


class Requirement(NamedTuple):
    """One condition on one label. `values` is sorted and free of duplicates when it was parsed."""

    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in {IN, NOT_IN}:
            values = f"({values})"
        return f"{self.key}{_PRINTED.get(self.operator, self.operator)}{values}"


class LabelSelector:
    """All of its requirements must hold; none means everything matches.

    Promises: `LabelSelector.parse(str(s)) == s` for every parsed `s`; `matches` never raises on a mapping of strings.
    """

    __slots__ = ("matches", "requirements")

    matches: Matcher
    """Whether labels (None when there are none) satisfy every requirement."""

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.matches = _compile(self.requirements)

    @staticmethod
    def parse(text: str) -> LabelSelector:
        """Read `a=b,c in (d,e),!f`; raises SelectorError."""
        if len(text) <= _REMEMBERED_LENGTH:
            return _parse_labels(text)
        _check_terms("label", text)
        return _parse_long_labels(text)

    @classmethod
    def of(cls, labels: Labels) -> LabelSelector:
        """The selector for objects that have all of `labels`, unchecked; a bare `spec.selector` map."""
        return cls(Requirement(key, EQUALS, (value,)) for key, value in labels.items())

    def requires_exact_match(self, key: str) -> str | None:
        """The one value `key` must have, when there is one."""
        for requirement in self.requirements:
            if requirement.key == key:
                exact = requirement.operator in {EQUALS, DOUBLE_EQUALS, IN} and len(requirement.values) == 1
                return requirement.values[0] if exact else None
        return None

    @property
    def equalities(self) -> list[tuple[str, str]]:
        """The labels that must have one certain value, with that."""
        return [
            (key, values[0])
            for key, operator, values in self.requirements
            if operator in {EQUALS, DOUBLE_EQUALS, IN} and len(values) == 1
        ]

    def __bool__(self) -> bool:
        """False when everything matches."""
        return bool(self.requirements)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class _Nothing(LabelSelector):
    """What a missing label selector object selects."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.matches = _never

    def __bool__(self) -> bool:
        return True


def _never(_: Labels | None) -> bool:
    return False


def _always(_: Labels | None) -> bool:
    return True


# -- matching ---------------------------------------------------------------------------------------------------------


def _compile(requirements: tuple[Requirement, ...]) -> Matcher:
    if not requirements:
        return _always
    if len(requirements) > _FEW:
        return _compile_many(requirements)
    if all(requirement.operator in {EQUALS, DOUBLE_EQUALS} for requirement in requirements):
        return _compile_equalities(tuple((requirement.key, requirement.values[0]) for requirement in requirements))
    tests = tuple(_compile_one(requirement) for requirement in requirements)

    def matches(labels: Labels | None) -> bool:
        known = labels or _NO_LABELS
        return all(test(known) for test in tests)

    return matches


def _compile_many(requirements: tuple[Requirement, ...]) -> Matcher:
    """A matcher whose time depends on the labels of the object and hardly on the number of requirements.

    A list asks its selector of every object. What must be absent is looked up for the labels that an object has, and
    what must be there is one test for each key; an object with fewer labels than there are such keys cannot match.
    """
    absent = {requirement.key for requirement in requirements if requirement.operator == DOES_NOT_EXIST}
    unwanted: dict[str, set[str]] = {}
    wanted: dict[str, _Wanted] = {}
    for requirement in requirements:
        key, operator, values = requirement
        if operator in {NOT_IN, NOT_EQUALS}:
            unwanted.setdefault(key, set()).update(values)
        elif operator != DOES_NOT_EXIST:
            wanted.setdefault(key, _Wanted()).add(operator, values)
    tests = tuple((key, of_key.matches) for key, of_key in wanted.items())

    def matches(labels: Labels | None) -> bool:
        if not labels:
            return not tests
        known = labels.keys()
        if len(known) < len(tests) or not known.isdisjoint(absent):  # it iterates over the smaller of the two
            return False
        if any(labels[key] in unwanted[key] for key in known & unwanted.keys()):
            return False
        return all(test(labels.get(key)) for key, test in tests)

    return matches


class _Wanted:
    """The values that one label may have: all requirements on it together, which take no longer than one of them."""

    def __init__(self) -> None:
        self._values: set[str] | None = None
        """None: any."""
        self._above: int | None = None
        self._below: int | None = None

    def add(self, operator: str, values: tuple[str, ...]) -> None:
        """Add a requirement of any kind that a missing label does not satisfy."""
        if operator == EXISTS:
            return
        bound = _parse_int64(values[0]) if operator in {GREATER_THAN, LESS_THAN} and len(values) == 1 else None
        if bound is None:  # a comparison with what is no number has no values that satisfy it
            chosen = set() if operator in {GREATER_THAN, LESS_THAN} else set(values)
            self._values = chosen if self._values is None else self._values & chosen
        elif operator == GREATER_THAN:
            self._above = bound if self._above is None else max(self._above, bound)
        else:
            self._below = bound if self._below is None else min(self._below, bound)

    def matches(self, value: str | None) -> bool:
        """Return True if the label is there and its value satisfies every requirement."""
        if value is None or (self._values is not None and value not in self._values):
            return False
        if self._above is None and self._below is None:
            return True
        number = _parse_int64(value)
        return (
            number is not None
            and (self._above is None or number > self._above)
            and (self._below is None or number < self._below)
        )


def _compile_equalities(pairs: tuple[tuple[str, str], ...]) -> Matcher:
    """Most selectors are a few equalities; they get the shortest loop there is."""

    def matches(labels: Labels | None) -> bool:
        if not labels:
            return False
        for key, value in pairs:  # noqa: SIM110  # all() with a generator takes twice the time
            if labels.get(key) != value:
                return False
        return True

    return matches


def _compile_one(requirement: Requirement) -> Callable[[Labels], bool]:
    key, operator, values = requirement
    if operator == EXISTS:
        return lambda labels: key in labels
    if operator == DOES_NOT_EXIST:
        return lambda labels: key not in labels
    if operator in {GREATER_THAN, LESS_THAN}:
        return _compile_comparison(key, operator, values)
    wanted = frozenset(values)
    if operator in {NOT_IN, NOT_EQUALS}:
        # A missing label is None, which is in no set of strings: it matches, as it must.
        return lambda labels: labels.get(key) not in wanted
    return lambda labels: labels.get(key) in wanted


def _compile_comparison(key: str, operator: str, values: tuple[str, ...]) -> Callable[[Labels], bool]:
    bound = _parse_int64(values[0]) if len(values) == 1 else None
    if bound is None:
        return lambda _: False
    limit, sign = bound, 1 if operator == GREATER_THAN else -1

    def matches(labels: Labels) -> bool:
        number = _parse_int64(labels.get(key, ""))
        return number is not None and (number - limit) * sign > 0

    return matches


def _parse_int64(text: str) -> int | None:
    number = int(text) if _is_integer(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


EVERYTHING: Final = LabelSelector()
NOTHING: Final[LabelSelector] = _Nothing()


# -- reading label selectors ------------------------------------------------------------------------------------------

_IDENTIFIER: Final = "identifier"
_KEYWORD: Final = "keyword"
_END: Final = "end"
# A NUL ends a token like the end of the text does, and at the start of a token ends the selector.
_next_token = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])\0?|([^ \t\r\n=!(),<>\0]+)\0?|)").match
_SYMBOL_OPERATORS = {
    "in": IN,
    "notin": NOT_IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    "!=": NOT_EQUALS,
    ">": GREATER_THAN,
    "<": LESS_THAN,
}


def _tokens(text: str) -> list[tuple[str, str]]:
    """Pairs of (kind, literal); a symbol's kind is the symbol. The last is the end."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while (token := _next_token(text, position)) is not None and token.lastindex is not None:
        symbol, word = token.groups()
        if symbol:
            tokens.append((symbol, symbol))
        else:
            tokens.append((_KEYWORD if word in {IN, NOT_IN} else _IDENTIFIER, word))
        position = token.end()
    return [*tokens, (_END, "")]


class _LabelParser:
    """A recursive descent over the tokens. `in` and `notin` are words wherever an operator cannot stand."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def _peek(self) -> tuple[str, str]:
        kind, literal = self._tokens[self._position]
        return (_IDENTIFIER if kind is _KEYWORD else kind), literal

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._position += 1
        return token

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            kind, literal = self._peek()
            if kind is _END:
                return requirements
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind is _END:
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._peek()
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        negated = kind == "!"
        if negated:
            kind, key = self._take()
        if kind is not _IDENTIFIER:
            raise SelectorError(f"found '{key}', expected: identifier")
        if sentences := names.qualified_name(key):
            raise SelectorError(str(invalid("<nil>", key, "; ".join(sentences))))
        if negated:
            return Requirement(key, DOES_NOT_EXIST, ())
        if self._peek()[0] in {_END, ","}:
            return Requirement(key, EXISTS, ())
        operator = self._operator()
        values = self._values() if operator in {IN, NOT_IN} else self._exact_value()
        return _checked(key, operator, tuple(sorted(values)))

    def _operator(self) -> str:
        _, literal = self._tokens[self._position]
        self._position += 1
        operator = _SYMBOL_OPERATORS.get(literal)
        if operator is None:
            raise SelectorError(f"found '{literal}', expected: {', '.join(_BINARY_OPERATORS)}")
        return operator

    def _exact_value(self) -> set[str]:
        if self._peek()[0] in {_END, ","}:
            return {""}
        kind, literal = self._take()
        if kind is not _IDENTIFIER:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return {literal}

    def _values(self) -> set[str]:
        kind, literal = self._take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return {""}
        if kind not in {_IDENTIFIER, ","}:
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._take()
        return values

    def _identifiers(self) -> set[str]:
        """The list up to, not including, the closing parenthesis; gaps between commas are empty values."""
        values: set[str] = set()
        while True:
            kind, literal = self._take()
            following, next_literal = self._peek() if kind is not _END else (_END, "")
            if kind is _IDENTIFIER:
                values.add(literal)
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{next_literal}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in {")", ","}:
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """A requirement whose key and values obey the rules of labels; raises SelectorError naming all that do not."""
    errors = []
    if sentences := names.qualified_name(key):
        errors.append(invalid("key", key, "; ".join(sentences)))
    errors.extend(_operand_errors(operator, values))
    for index, value in enumerate(values):
        if sentences := names.label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(sentences)))
    if errors:
        texts = list(dict.fromkeys(map(str, errors)))
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, values)


def _operand_errors(operator: str, values: tuple[str, ...]) -> list[FieldError]:
    if operator in {IN, NOT_IN} and not values:
        return [invalid("values", None, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in {EXISTS, DOES_NOT_EXIST} and values:
        return [invalid("values", values, "values set must be empty for exists and does not exist")]
    if operator in {GREATER_THAN, LESS_THAN}:
        return [
            invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for index, value in enumerate(values)
            if _parse_int64(value) is None
        ]
    return []


@lru_cache(maxsize=2048)
def _parse_labels(text: str) -> LabelSelector:
    return LabelSelector(_LabelParser(text).parse()) if text else EVERYTHING


_parse_long_labels = lru_cache(maxsize=_REMEMBERED_LONG)(_parse_labels.__wrapped__)


# -- label selectors as objects ---------------------------------------------------------------------------------------


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector a `matchLabels`/`matchExpressions` object means; None selects nothing, `{}` everything."""
    if selector is None:
        return NOTHING
    requirements = [_checked(key, EQUALS, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        values = tuple(expression.get("values") or ())
        requirements.append(_checked(expression.get("key", ""), operator, values))
    return LabelSelector(requirements)


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """The rules for a map of labels. The errors do not name the key in the path; kube-apiserver does not either."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        if wrong := names.qualified_name(key):
            errors.extend(invalid(path, key, sentence) for sentence in wrong)
        if wrong := names.label_value(value):
            errors.extend(invalid(path, value, sentence) for sentence in wrong)
    return errors


def validate_label_selector(
    selector: Mapping[str, Any] | None, path: str, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """The rules for a label selector object. Stored objects may keep values that break them."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        errors.extend(_expression_errors(expression, where, allow_invalid_values=allow_invalid_values))
    return errors


def _expression_errors(expression: Mapping[str, Any], path: str, *, allow_invalid_values: bool) -> list[FieldError]:
    operator, key, values = expression.get("operator", ""), expression.get("key", ""), expression.get("values") or ()
    errors = []
    if operator in {"In", "NotIn"}:
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            what = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", what))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors.extend(invalid(f"{path}.key", key, sentence) for sentence in names.qualified_name(key))
    if not allow_invalid_values:
        for index, value in enumerate(values):
            where = f"{path}.values[{index}]"
            errors.extend(invalid(where, value, sentence) for sentence in names.label_value(value))
    return errors


# -- field selectors --------------------------------------------------------------------------------------------------


class FieldRequirement(NamedTuple):
    """One field that must (`=`) or must not (`!=`) have a value. A field that is not there has the empty value."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{self.operator}{escaped}"


class FieldSelector:
    """All of its requirements must hold; none means everything matches."""

    __slots__ = ("_different", "_equal", "requirements")

    def __init__(self, requirements: Iterable[FieldRequirement] = ()) -> None:
        self.requirements = tuple(requirements)
        # Distinct values of one field end the match at the second of them, however many there are.
        self._equal = tuple({(r.field, r.value): None for r in self.requirements if r.operator == EQUALS})
        different: dict[str, set[str]] = {}
        for requirement in self.requirements:
            if requirement.operator == NOT_EQUALS:
                different.setdefault(requirement.field, set()).add(requirement.value)
        self._different = tuple(different.items())

    @staticmethod
    def parse(text: str) -> FieldSelector:
        """Read `metadata.name=x,status.phase!=Running`; raises SelectorError."""
        if len(text) <= _REMEMBERED_LENGTH:
            return _parse_fields(text)
        _check_terms("field", text)
        return _parse_long_fields(text)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return True if the fields satisfy every requirement."""
        for field, value in self._equal:
            if fields.get(field, "") != value:
                return False
        for field, values in self._different:  # noqa: SIM110  # as above, once per object of a list
            if fields.get(field, "") in values:
                return False
        return True

    @property
    def equalities(self) -> tuple[tuple[str, str], ...]:
        """The fields that must have one certain value, with that."""
        return self._equal

    def requires_exact_match(self, field: str) -> str | None:
        """The value `field` must have, when a requirement says so."""
        return next((value for name, value in self._equal if name == field), None)

    def transform(self, change: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """Rewrite every (field, value); `change` raises to refuse a field, or answers two empty strings to drop it."""
        changed = (
            (requirement.operator, change(requirement.field, requirement.value)) for requirement in self.requirements
        )
        return FieldSelector(
            FieldRequirement(field, operator, value) for operator, (field, value) in changed if field or value
        )

    def __bool__(self) -> bool:
        """False when everything matches."""
        return bool(self.requirements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"


_split_term = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL).fullmatch
_next_field_term = re.compile(r"(?:\\.|[^,\\])*\\?", re.DOTALL).match


def _terms(text: str) -> list[str]:
    """The parts between commas that no backslash precedes, backslashes kept."""
    terms = []
    position = 0
    while True:
        term = _next_field_term(text, position)
        assert term is not None  # the pattern matches the empty string
        terms.append(term[0])
        if term.end() >= len(text):
            return terms
        position = term.end() + 1


def _unescape(value: str) -> str:
    if not any(character in value for character in "\\,="):
        return value
    characters = iter(value)
    unescaped = []
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"\\", ",", "="}:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            unescaped.append(escaped)
        elif character in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            unescaped.append(character)
    return "".join(unescaped)


@lru_cache(maxsize=2048)
def _parse_fields(text: str) -> FieldSelector:
    requirements = []
    for term in sorted(_terms(text)):
        if not term:
            continue
        parts = _split_term(term)
        if parts is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = parts[1], parts[2], _unescape(parts[3])
        if field or value:
            requirements.append(FieldRequirement(field, NOT_EQUALS if operator == NOT_EQUALS else EQUALS, value))
    return FieldSelector(requirements)


_parse_long_fields = lru_cache(maxsize=_REMEMBERED_LONG)(_parse_fields.__wrapped__)
