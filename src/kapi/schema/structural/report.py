"""Field errors up to a total size, and paths that are joined only when an error is kept.

A hostile document can have a key of a megabyte above a hundred thousand errors. Naming each of them in full would take
more memory than there is, so the walks of this package pass paths down as links and stop when the report is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.fielderror import FieldError

    Path = tuple[Any, str] | None
    """The path above and one step (`.name`, `[0]`); None at the top."""

LIMIT: Final = 1 << 20
"""The most characters of errors that are reported in all. Ordinary schemas and objects stay far below."""


def join(path: Path) -> str:
    """The path as field errors have it, without a leading dot."""
    return join_steps(path).removeprefix(".")


def join_steps(path: Path) -> str:
    """All steps of a path, the leading dot included."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps))


def ordered(value: Any) -> Any:
    """The value with the keys of its maps sorted, as messages show it."""
    if type(value) is dict:
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(below) for below in value] if type(value) is list else value


class Report:
    """The errors found so far. A walk may stop when it is `full`, since no more would be kept.

    `distinct` keeps equal errors once. `remaining` is how many more characters are kept; the first error always is.
    """

    __slots__ = ("_seen", "errors", "remaining")

    def __init__(self, limit: int = LIMIT, *, distinct: bool = False) -> None:
        self.errors: list[FieldError] = []
        self.remaining = limit
        self._seen: set[FieldError] | None = set() if distinct else None

    @property
    def failed(self) -> bool:
        """Return True if there was an error."""
        return bool(self.errors)

    @property
    def full(self) -> bool:
        """Return True if another error would not be kept."""
        return self.remaining < 0 and bool(self.errors)

    def add(self, error: FieldError) -> None:
        """Add an error, unless the report is full."""
        if self.full:
            return
        if self._seen is not None:
            if error in self._seen:
                return
            self._seen.add(error)
        self.errors.append(error)
        self.remaining -= len(error.field) + len(error.body)

    def extend(self, errors: Iterable[FieldError]) -> None:
        """Add several errors, until the report is full."""
        for error in errors:
            if self.full:
                return
            self.add(error)
