"""Semantic versions: `semver('1.2.3').isLessThan(semver('1.3.0'))`. Build metadata does not count in comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api.go.text import parse_uint, quote
from kapi.schema.cel.cost.calls import one, read_argument
from kapi.schema.cel.cost.prices import reads
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, INT, STRING, Overload, Type
from kapi.schema.cel.values import EvaluationError, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

    Identifier = int | str

SEMVER_TYPE: Final = Type("kubernetes.Semver")
_DIGITS: Final = frozenset("0123456789")
_IDENTIFIER: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


@dataclass(frozen=True, slots=True, eq=False)
class Version(Opaque):
    """A version; `before` are the identifiers of a pre-release, `build` says how it was made."""

    cel_type: ClassVar[Type] = SEMVER_TYPE

    numbers: tuple[int, int, int]
    before: tuple[Identifier, ...] = ()
    build: tuple[str, ...] = ()

    def same(self, other: Version) -> bool:
        """Return True if neither is newer."""
        return compare_versions(self, other) == 0

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        if self.before:
            text += f"-{'.'.join(map(str, self.before))}"
        return f"{text}+{'.'.join(self.build)}" if self.build else text


# -- reading ----------------------------------------------------------------------------------------------------------


def _number(text: str, part: str) -> int:
    if not _DIGITS.issuperset(text):
        raise EvaluationError(f"Invalid character(s) found in {part.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{part} number must not contain leading zeroes {quote(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    value = parse_uint(text)
    if value is None:
        problem = "value out of range" if text else "invalid syntax"
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: {problem}")
    return value


def parse_version(text: str) -> Version:
    """A version, to the letter; raises EvaluationError."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    numbers = (major, minor, _number(patch, "Patch"))
    identifiers = tuple(map(_identifier, before.split("."))) if dash else ()
    return Version(numbers, identifiers, tuple(map(_build, build.split("."))) if plus else ())


def _identifier(text: str) -> Identifier:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _unsigned(text)
    if not _IDENTIFIER.issuperset(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not _IDENTIFIER.issuperset(text):
        raise EvaluationError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _normalized(text: str) -> str:
    """Without a leading `v` and leading zeros, and with all three numbers."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in _DIGITS else f"0{stripped}"


def _read(text: str, normalize: bool = False) -> Version:
    return parse_version(_normalized(text) if normalize else text)


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        _read(text, normalize)
    except EvaluationError:
        return False
    return True


# -- order ------------------------------------------------------------------------------------------------------------


def compare_versions(left: Version, right: Version) -> int:
    """-1, 0 or 1; a pre-release comes before its release."""
    if left.numbers != right.numbers:
        return 1 if left.numbers > right.numbers else -1
    if not left.before or not right.before:
        return bool(right.before) - bool(left.before)
    ours, theirs = ([*map(_rank, version.before)] for version in (left, right))
    return (ours > theirs) - (ours < theirs)


def _rank(identifier: Identifier) -> tuple[bool, int, str]:
    """Numbers come before words."""
    return (True, 0, identifier) if isinstance(identifier, str) else (False, identifier, "")


def _signed(value: int) -> int:
    """An unsigned number of 64 bits as cel-go shows it: the upper half is negative."""
    return value if value < 2**63 else value - 2**64


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "semver": (
        Overload("string_to_semver", (STRING,), SEMVER_TYPE),
        Overload("string_bool_to_semver", (STRING, BOOL), SEMVER_TYPE),
    ),
    "isSemver": (
        Overload("is_semver_string", (STRING,), BOOL),
        Overload("is_semver_string_bool", (STRING, BOOL), BOOL),
    ),
    "isGreaterThan": (Overload("semver_is_greater_than", (SEMVER_TYPE, SEMVER_TYPE), BOOL, member=True),),
    "isLessThan": (Overload("semver_is_less_than", (SEMVER_TYPE, SEMVER_TYPE), BOOL, member=True),),
    "compareTo": (Overload("semver_compare_to", (SEMVER_TYPE, SEMVER_TYPE), INT, member=True),),
    "major": (Overload("semver_major", (SEMVER_TYPE,), INT, member=True),),
    "minor": (Overload("semver_minor", (SEMVER_TYPE,), INT, member=True),),
    "patch": (Overload("semver_patch", (SEMVER_TYPE,), INT, member=True),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_semver": _read,
    "string_bool_to_semver": _read,
    "is_semver_string": _is_version,
    "is_semver_string_bool": _is_version,
    "semver_is_greater_than": lambda left, right: compare_versions(left, right) > 0,
    "semver_is_less_than": lambda left, right: compare_versions(left, right) < 0,
    "semver_compare_to": compare_versions,
    "semver_major": lambda version: _signed(version.numbers[0]),
    "semver_minor": lambda version: _signed(version.numbers[1]),
    "semver_patch": lambda version: _signed(version.numbers[2]),
}

LIBRARY: Final = Library(
    name="kubernetes.semver",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices=dict.fromkeys(("semver", "isSemver"), reads()),
    estimates=dict.fromkeys(("semver", "isSemver"), read_argument),
    equality={SEMVER_TYPE: one},
    since=(1, 33),
)
