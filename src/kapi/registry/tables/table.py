"""A table: named columns, and a function that makes the cells of one object.

This is the contract between the kinds in this package and the server, which fills in the rows. A table is of one kind;
it does no I/O and never changes an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item

    Row = Callable[[Object, dt.datetime], list[Any]]
    """The function that makes the cells of an object; ages are counted to the given moment."""


class Column(NamedTuple):
    """A column of a Table. One with a priority above zero is shown by `-o wide` only."""

    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0


def text(name: str, description: str) -> Column:
    """A column that is always shown. Most cells are strings, but numbers stay numbers."""
    return Column(name, "string", "", description)


def wide(name: str, description: str) -> Column:
    """A column that only `-o wide` shows."""
    return Column(name, "string", "", description, 1)


def integer(name: str, description: str) -> Column:
    """A column of whole numbers."""
    return Column(name, "integer", "", description)


def boolean(name: str, description: str) -> Column:
    """A column of booleans."""
    return Column(name, "boolean", "", description)


NAME = Column("Name", "string", "name", "The name of the object, unique among its kind in its namespace.")
AGE = text("Age", "How long ago the object was created.")


def _no_conditions(_obj: Object) -> list[Object]:
    return []


def _as_listed(items: Sequence[Item]) -> Sequence[Item]:
    return items


class Table:
    """The printed form of one kind.

    Promises: `cells` answers for any object of the kind, whatever parts it lacks; `arrange` returns the same items,
    each once. A table is columns and one function for the row, so a kind that is defined at run time can have one too.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        row: Row,
        *,
        conditions: Callable[[Object], list[Object]] = _no_conditions,
        arrange: Callable[[Sequence[Item]], Sequence[Item]] = _as_listed,
    ) -> None:
        self.columns = tuple(columns)
        self._row = row
        self._conditions = conditions
        self._arrange = arrange

    def cells(self, obj: Object, now: dt.datetime) -> list[Any]:
        """The row of an object, in the order of the columns."""
        return self._row(obj, now)

    def conditions(self, obj: Object) -> list[Object]:
        """The conditions of the row, such as Completed; none for most kinds."""
        return self._conditions(obj)

    def arrange(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items of a list in the order of the rows."""
        return self._arrange(items)
