"""What is wrong with a value by a schema, in the words and the order of the reference.

Runs only for values that `accepting` refused. The reference judges a value by a row of validators (type, junctors,
string, format, number, list, enumeration, object) and counts how many of them were content: of the branches of a failed
`anyOf` or `oneOf` it shows the errors of the one with the highest count, so the count is part of the answer here. It
judges the properties of an object in no particular order; we take that of the schema.

On an update the errors of a part are dropped when the part has not changed. That is not done inside junctors.

Names in messages are paths from the root of what is judged. They are passed down as links and joined when an error is
kept, and errors are kept up to a total size: an object with a key of a megabyte and a hundred thousand faults below it
must not cost a hundred gigabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import too_many
from kapi.api.go.text import quote
from kapi.schema.structural.checks.enumeration import Enumeration, has_duplicates
from kapi.schema.structural.checks.numeric import NumberRules
from kapi.schema.structural.checks.textual import StringRules
from kapi.schema.structural.checks.typenames import TypeRules
from kapi.schema.structural.correlation import Comparison, correlate_items
from kapi.schema.structural.model import MISSING, Schema
from kapi.schema.structural.report import ENOUGH
from kapi.schema.structural.wording import invalid, required, wrong_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.fielderror import FieldError

    Path = tuple[Any, str] | None
    """The path above and one step; None at the root."""

_TYPE_META = frozenset({"apiVersion", "kind"})


class Findings:
    """The errors found so far, each once, and whether there were any: `failed` holds even if none was kept."""

    __slots__ = ("errors", "failed", "room")

    def __init__(self, room: int = ENOUGH) -> None:
        self.errors: dict[FieldError, None] = {}
        self.failed = False
        self.room = room

    @property
    def full(self) -> bool:
        """Whether another error would change nothing."""
        return self.failed and self.room < 0

    def add(self, errors: Iterable[FieldError]) -> None:
        """Keep errors while there is room, and the first one always."""
        for error in errors:
            if self.full:
                return
            self.failed = True
            if error not in self.errors:
                self.errors[error] = None
                self.room -= len(error.field) + len(error.body)

    def merge(self, other: Findings) -> None:
        """Take over what was found elsewhere."""
        self.add(other.errors)


def join(path: Path) -> str:
    """The path as messages show it."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps))


class Explainer:
    """One place of a schema, ready to say what is wrong with a value there."""

    __slots__ = (
        "_additional",
        "_all",
        "_any",
        "_enum",
        "_items",
        "_not",
        "_numbers",
        "_one",
        "_properties",
        "_schema",
        "_strings",
        "_types",
    )

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._types = TypeRules.of(schema)
        self._strings = StringRules.of(schema)
        self._numbers = NumberRules.of(schema, self._types.format)
        self._enum = Enumeration(schema.enum) if schema.enum else None
        # Plain loops, because a schema may be deep and a comprehension is a frame of its own.
        self._all: list[Explainer] = []
        self._any: list[Explainer] = []
        self._one: list[Explainer] = []
        for group, branches in ((self._all, schema.all_of), (self._any, schema.any_of), (self._one, schema.one_of)):
            for branch in branches:
                group.append(Explainer(branch))
        self._not = Explainer(schema.not_) if schema.not_ is not None else None
        self._items = Explainer(schema.items) if schema.items is not None else None
        self._additional = Explainer(schema.additional) if isinstance(schema.additional, Schema) else None
        self._properties: dict[str, Explainer] = {}
        for name, below in schema.properties.items():
            self._properties[name] = Explainer(below)

    def explain(self, value: Any, old: Any, path: Path, found: Findings, comparison: Comparison) -> int:
        """Add what is wrong with `value` to `found`; how many validators were content.

        `old` is the earlier state of the value, or MISSING if there is none; `comparison` is only asked if there is.
        """
        kept = found
        if old is not MISSING:
            found = Findings(kept.room)
        if value is None:
            count = self._explain_type(value, path, found)
            self._explain_enum(value, path, found)
        else:
            # One for the row as a whole, and one each for junctors and enumeration, which always have their say.
            count = 3 + self._explain_type(value, path, found)
            if self._types.names or self._types.format:
                count += 1
            count += self._explain_junctors(value, path, found)
            kind = type(value)
            if kind is str:
                count += 2 if self._strings.fits else 1
                self._explain_scalar(self._strings, value, path, found)
            elif kind is int or kind is float:
                count += 2
                self._explain_scalar(self._numbers, value, path, found)
            elif kind is list:
                count += 2 + self._explain_items(value, old, path, found, comparison)
            self._explain_enum(value, path, found)
            if kind is dict:
                count += 1 + self._explain_object(value, old, path, found, comparison)
        if found is not kept and found.failed and not comparison.unchanged(self._schema, value, old):
            kept.merge(found)
        return count

    def _explain_type(self, value: Any, path: Path, found: Findings) -> int:
        problem = self._types.problem(value)
        if problem is not None:
            wanted, has = problem
            if not found.full:
                found.add([wrong_type(join(path), has, wanted)])
            return 0
        return 1 if value is None or self._types.names or self._types.format else 0

    def _explain_enum(self, value: Any, path: Path, found: Findings) -> None:
        if self._enum is not None and not found.full and value not in self._enum:
            found.add([self._enum.error(value, join(path))])

    @staticmethod
    def _explain_scalar(rules: StringRules | NumberRules, value: Any, path: Path, found: Findings) -> None:
        # Asked twice, so that the path of a valid value is never joined.
        if not found.full and next(rules.errors(value, ""), None) is not None:
            found.add(rules.errors(value, join(path)))

    def _explain_junctors(self, value: Any, path: Path, found: Findings) -> int:
        count = 1
        if self._any:
            count += self._explain_any(value, path, found)
        if self._one:
            count += self._explain_one(value, path, found)
        if self._all:
            count += self._explain_all(value, path, found)
        if self._not is not None:
            refused = Findings(found.room)
            self._not.explain(value, MISSING, path, refused, _NEVER)
            if not refused.failed:
                _complain(path, found, "must not validate the schema (not)")
        return count

    def tried(self, value: Any, path: Path, found: Findings) -> tuple[Findings, int]:
        """What is wrong with a value by this branch alone, and how many validators were content."""
        result = Findings(found.room)
        count = self.explain(value, MISSING, path, result, _NEVER)
        return result, count

    def _explain_any(self, value: Any, path: Path, found: Findings) -> int:
        best: tuple[Findings, int] | None = None
        for branch in self._any:
            result, count = branch.tried(value, path, found)
            if not result.failed:
                return count
            if best is None or count > best[1]:
                best = result, count
        assert best is not None
        _complain(path, found, "must validate at least one schema (anyOf)")
        found.merge(best[0])
        return best[1]

    def _explain_one(self, value: Any, path: Path, found: Findings) -> int:
        best: tuple[Findings, int] | None = None
        valid: list[int] = []
        for branch in self._one:
            result, count = branch.tried(value, path, found)
            if not result.failed:
                valid.append(count)
            elif not valid and (best is None or count > best[1]):
                best = result, count
        if len(valid) == 1:
            return valid[0]
        which = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        _complain(path, found, f"must validate one and only one schema (oneOf). {which}")
        if valid or best is None:
            return 0
        found.merge(best[0])
        return best[1]

    def _explain_all(self, value: Any, path: Path, found: Findings) -> int:
        total = valid = 0
        for branch in self._all:
            result, count = branch.tried(value, path, found)
            found.merge(result)
            total += count
            valid += not result.failed
        if valid < len(self._all):
            which = "" if valid else ". None validated"
            _complain(path, found, f"must validate all the schemas (allOf){which}")
        return total

    def _explain_items(self, items: list[Any], old: Any, path: Path, found: Findings, comparison: Comparison) -> int:
        schema, count, size = self._schema, 0, len(items)
        if self._items is not None:
            before = correlate_items(schema, items, old)
            for index, item in enumerate(items):
                count += self._items.explain(item, before[index], (path, f"[{index}]"), found, comparison)
        if found.full:
            return count
        if schema.min_items is not None and size < schema.min_items:
            name = join(path)
            found.add([invalid(name, size, f"{name} in body should have at least {schema.min_items} items")])
        if schema.max_items is not None and size > schema.max_items:
            found.add([too_many(join(path), size, schema.max_items)])
        if schema.unique_items and has_duplicates(items):
            name = join(path)
            found.add([invalid(name, "", f"{name} in body shouldn't contain duplicates")])
        return count

    def _explain_object(
        self, obj: dict[str, Any], old: Any, path: Path, found: Findings, comparison: Comparison
    ) -> int:
        count = 0
        before = old if type(old) is dict else {}
        self._explain_size(obj, path, found)
        if self._additional is not None:
            for key, value in obj.items():
                if key not in self._properties:
                    earlier = MISSING if path is None and key in _TYPE_META else before.get(key, MISSING)
                    count += self._additional.explain(value, earlier, (path, "." + key), found, comparison)
        for name, below in self._properties.items():
            if name in obj:
                # The version and kind of an object are converted before they get here, so old and new never differ.
                earlier = MISSING if path is None and name in _TYPE_META else before.get(name, MISSING)
                step = name if path is None else "." + name
                count += below.explain(obj[name], earlier, (path, step), found, comparison)
        if not found.full:
            missing = [name for name in self._schema.required if name not in obj]
            found.add(required(f"{join(path)}.{name}") for name in missing)
        return count

    def _explain_size(self, obj: dict[str, Any], path: Path, found: Findings) -> None:
        schema, size = self._schema, len(obj)
        if found.full:
            return
        if schema.min_properties is not None and size < schema.min_properties:
            name = join(path)
            found.add([invalid(name, size, f"{name} in body should have at least {schema.min_properties} properties")])
        if schema.max_properties is not None and size > schema.max_properties:
            found.add([too_many(join(path), size, schema.max_properties)])
        if schema.additional is False:
            name = join(path)
            unknown = [key for key in obj if key not in self._properties]
            found.add(invalid(name, key, f"{name}.{key} in body is a forbidden property") for key in unknown)


_NEVER = Comparison()
"""Stands where there is no earlier state to compare with."""


def _complain(path: Path, found: Findings, what: str) -> None:
    """An error of a junctor: it names the value in its text, and has no field."""
    if not found.full:
        found.add([invalid("", "", f"{quote(join(path))} {what}")])
