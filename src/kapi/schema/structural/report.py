"""What is wrong and where, at a bounded price: paths that are only joined when shown, errors up to a total size.

A hostile document can have a key of a megabyte above a hundred thousand faults. Naming each of them in full would take
more memory than there is, so the walks of this room pass paths down as links and stop when they have said enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError

    Path = tuple[Any, str] | None
    """The path above and one step (`.name`, `[0]`); None at the top."""

ENOUGH: Final = 1 << 20
"""How many characters of errors are reported in all. An honest schema or object is far below."""


def join(path: Path) -> str:
    """The path as people read it."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".")


def ordered(value: Any) -> Any:
    """The value with the keys of its maps sorted, as messages show it."""
    if type(value) is dict:
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(below) for below in value] if type(value) is list else value


class Report:
    """The errors found so far. `full` says that more would not be kept, so that a walk may stop."""

    __slots__ = ("_room", "errors")

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._room = ENOUGH

    @property
    def full(self) -> bool:
        """Whether enough has been said."""
        return self._room < 0

    def add(self, error: FieldError) -> None:
        """Take an error, unless there are enough."""
        if self._room >= 0:
            self.errors.append(error)
            self._room -= len(error.field) + len(error.body)
