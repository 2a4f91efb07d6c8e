"""The formats of strings that schemas can name, each with a function that validates a text.

A format that is not in `SUPPORTED` is documentation only, as are the number formats on a string and any format on a
list or an object. Dashes in the name do not count, so `date-time` and `datetime` are one format. Kubernetes has had all
of these since custom resources exist, but for the two `k8s` names, which came with 1.34.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from importlib import import_module
from typing import TYPE_CHECKING, Final

import re2

from kapi.api.go.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    Validator = Callable[[str], bool]

_INT64_MAX: Final = 2**63 - 1
_DIGITS: Final = frozenset("0123456789")
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _pattern(expression: str) -> Validator:
    """Return the validator of an expression, which is compiled for the first text: most formats are never used."""
    compiled = functools.cache(lambda: re.compile(expression).fullmatch)
    return lambda text: compiled()(text) is not None


def _address(name: str) -> Validator:
    """Return a validator of `schema/addresses`, which is imported for the first text: its patterns take 30 ms."""

    @functools.cache
    def validator() -> Validator:
        found: Validator = getattr(import_module("kapi.schema.addresses"), name)
        return found

    return lambda text: validator()(text)  # noqa: PLW0108 (not called before there is a text)


# --- times ------------------------------------------------------------------------------------------------------------

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})").fullmatch
_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})").fullmatch
# On RE2, because a long run of digits without a unit is quadratic for a backtracking engine.
_LOOSE_SPAN: Final = re2.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-z\x{b5}]+)")
_LOOSE_UNIT: Final = _pattern(
    r"ns|us|\u00b5s|ms|s|m|h|hr|d|w|wk|(?:nano|micro|milli|sec|min|hour|day|week)[a-z\u00b5]*"
)


def is_date(text: str) -> bool:
    """Return True if the text is a day of the calendar, `2006-01-02`."""
    match = _DATE(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


def is_date_time(text: str) -> bool:
    """Return True for a day, a `T` and a time with an offset. Text after a second `T` is ignored."""
    day, separator, rest = text.lower().partition("t")
    match = _CLOCK(rest.partition("t")[0]) if separator and is_date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def is_duration(text: str) -> bool:
    """Return True for a duration as Go writes it, or any text with a number and a unit of time, such as `2 weeks`."""
    if _is_go_duration(text):
        return True
    found = False
    for match in _LOOSE_SPAN.finditer(text):
        digits = match.group(1).lstrip("0")
        if len(digits) > 19 or int(digits or "0") > _INT64_MAX:
            return False
        found = found or _LOOSE_UNIT(match.group(2).lower())
    return found


def _is_go_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


# --- numbers of things ------------------------------------------------------------------------------------------------

_BLANKS_AND_DASHES: Final = str.maketrans("", "", " \t\n\f\r-")
_NOT_DIGITS: Final = re.compile(r"[^0-9]+")
_CARD: Final = _pattern(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_TEN: Final = _pattern(r"[0-9]{9}[0-9X]")
_THIRTEEN: Final = _pattern(r"[0-9]{13}")


def is_isbn10(text: str) -> bool:
    """Return True for ten digits, the last perhaps an X, with the right check digit; blanks and dashes do not count."""
    digits = text.translate(_BLANKS_AND_DASHES)
    if not _TEN(digits):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def is_isbn13(text: str) -> bool:
    """Return True for thirteen digits with the right check digit; blanks and dashes do not count."""
    digits = text.translate(_BLANKS_AND_DASHES)
    return _THIRTEEN(digits) and sum(int(digit) * (3 if odd % 2 else 1) for odd, digit in enumerate(digits)) % 10 == 0


def is_credit_card(text: str) -> bool:
    """Return True for a card number of the large brands with the right check digit; only digits count."""
    digits = _NOT_DIGITS.sub("", text)
    if not _CARD(digits):
        return False
    doubled = (int(digit) * (2 if odd % 2 else 1) for odd, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


# --- names ------------------------------------------------------------------------------------------------------------

_LABEL: Final = _pattern(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


def is_hostname(text: str) -> bool:
    """Return True for one label, or labels with dots of which the last has letters only. Symbols count as letters."""
    labels = text.split(".")
    if len(text.encode()) > 255 or not all(0 < len(label.encode()) <= 63 for label in labels):
        return False
    *others, last = labels
    if not others:
        # A name without dots may have one dash, and only as its second character.
        return _is_sign(last[0]) and all(map(_is_sign, last[1:].removeprefix("-")))
    if len(last) < 2 or not all(map(_is_letter, last)):
        return False
    return all(
        _is_sign(label[0]) and _is_sign(label[-1]) and all(map(_is_sign, label.replace("-", ""))) for label in others
    )


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _is_sign(character: str) -> bool:
    return character in _DIGITS or unicodedata.category(character)[0] in "LS"


def is_short_name(text: str) -> bool:
    """Return True for a name of one label of at most 63 lower-case letters, digits and inner dashes."""
    return len(text) <= 63 and _LABEL(text)


def is_long_name(text: str) -> bool:
    """Return True for a name of labels with dots, at most 253 characters in all."""
    return len(text) <= 253 and all(map(_LABEL, text.split(".")))


# --- the table --------------------------------------------------------------------------------------------------------

_HEX: Final = "[0-9a-fA-F]"
_COLOUR: Final = r"[\t\n\f\r ]*(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*"


def _uuid(third: str, fourth: str) -> Validator:
    return _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


_FOUR: Final = f"{_HEX}{{4}}"
_VARIANT: Final = f"[89abAB]{_HEX}{{3}}"

VALIDATORS: Final[dict[str, Validator]] = {
    "bsonobjectid": _pattern(f"{_HEX}{{24}}"),
    "uri": _address("is_request_uri"),
    "email": _address("is_email"),
    "hostname": is_hostname,
    "ipv4": _address("is_ipv4"),
    "ipv6": _address("is_ipv6"),
    "cidr": _address("is_cidr"),
    "mac": _address("is_mac"),
    "uuid": _uuid(_FOUR, _FOUR),
    "uuid3": _uuid(f"3{_HEX}{{3}}", _FOUR),
    "uuid4": _uuid(f"4{_HEX}{{3}}", _VARIANT),
    "uuid5": _uuid(f"5{_HEX}{{3}}", _VARIANT),
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "creditcard": is_credit_card,
    "ssn": _pattern(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "hexcolor": _pattern(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _pattern(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "byte": _pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda _: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": is_short_name,
    "k8slongname": is_long_name,
}
"""The function that validates each supported format, by its name without dashes."""

SUPPORTED: Final = frozenset(VALIDATORS)
NUMERIC: Final = {"integer": frozenset({"int32", "int64"}), "number": frozenset({"float", "double"})}


def normalized(name: str) -> str:
    """The name of a string format as `SUPPORTED` has it."""
    return name.replace("-", "")


def supported_format(name: str, kind: str) -> str:
    """The name of a format as it is written, if values of a type are validated by it, else nothing."""
    if kind in {"", "string"}:
        return name if normalized(name) in SUPPORTED else ""
    return name if name in NUMERIC.get(kind, ()) else ""
