"""The errors of a value by its schema, in the words and the order of kube-apiserver.

Runs only for values that `acceptance` refused. kube-apiserver runs a value through a list of validators (type,
junctors, string, format, number, list, enumeration, object) and counts how many of them passed: of the branches of a
failed `anyOf` or `oneOf` it shows the errors of the one with the highest count, so the count is part of the result
here. It validates the properties of an object in no particular order; we take that of the schema.

On an update the errors of a part are dropped when the part has not changed. That is not done inside junctors.

Names in messages are paths from the root of the validated value. They are passed down as links and joined when an error
is kept, and errors are kept up to a total size: an object with a key of a megabyte and a hundred thousand errors below
it must not cost a hundred gigabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import too_many
from kapi.api.go.text import quote
from kapi.schema.structural.checks.enumeration import Enumeration, has_duplicates
from kapi.schema.structural.checks.numbers import NumberRules
from kapi.schema.structural.checks.strings import StringRules
from kapi.schema.structural.checks.typenames import TypeRules
from kapi.schema.structural.correlation import Comparison, correlate_items
from kapi.schema.structural.messages import invalid, required, wrong_type
from kapi.schema.structural.model import MISSING, Schema
from kapi.schema.structural.report import Report, join_steps

if TYPE_CHECKING:
    from kapi.schema.structural.report import Path

_TYPE_META = frozenset({"apiVersion", "kind"})


class Explainer:
    """Finds the errors of values at one place of a schema."""

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

    def explain(self, value: Any, old: Any, path: Path, found: Report, comparison: Comparison) -> int:
        """Add the errors of `value` to `found`; return how many validators passed.

        `old` is the old value, or MISSING if there is none; `comparison` is only used if there is one.
        """
        kept = found
        if old is not MISSING:
            found = Report(kept.remaining, distinct=True)
        if value is None:
            count = self._explain_type(value, path, found)
            self._explain_enum(value, path, found)
        else:
            # One for the list as a whole, and one each for junctors and enumeration, which always run.
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
            kept.extend(found.errors)
        return count

    def _explain_type(self, value: Any, path: Path, found: Report) -> int:
        problem = self._types.problem(value)
        if problem is not None:
            wanted, has = problem
            if not found.full:
                found.add(wrong_type(join_steps(path), has, wanted))
            return 0
        return 1 if value is None or self._types.names or self._types.format else 0

    def _explain_enum(self, value: Any, path: Path, found: Report) -> None:
        if self._enum is not None and not found.full and value not in self._enum:
            found.add(self._enum.error(value, join_steps(path)))

    @staticmethod
    def _explain_scalar(rules: StringRules | NumberRules, value: Any, path: Path, found: Report) -> None:
        # Called twice, so that the path of a valid value is never joined.
        if not found.full and next(rules.errors(value, ""), None) is not None:
            found.extend(rules.errors(value, join_steps(path)))

    def _explain_junctors(self, value: Any, path: Path, found: Report) -> int:
        count = 1
        if self._any:
            count += self._explain_any(value, path, found)
        if self._one:
            count += self._explain_one(value, path, found)
        if self._all:
            count += self._explain_all(value, path, found)
        if self._not is not None:
            refused = Report(found.remaining, distinct=True)
            self._not.explain(value, MISSING, path, refused, _NEVER)
            if not refused.failed:
                _report(path, found, "must not validate the schema (not)")
        return count

    def tried(self, value: Any, path: Path, found: Report) -> tuple[Report, int]:
        """The errors of a value by this branch alone, and how many validators passed."""
        result = Report(found.remaining, distinct=True)
        count = self.explain(value, MISSING, path, result, _NEVER)
        return result, count

    def _explain_any(self, value: Any, path: Path, found: Report) -> int:
        best: tuple[Report, int] | None = None
        for branch in self._any:
            result, count = branch.tried(value, path, found)
            if not result.failed:
                return count
            if best is None or count > best[1]:
                best = result, count
        assert best is not None
        _report(path, found, "must validate at least one schema (anyOf)")
        found.extend(best[0].errors)
        return best[1]

    def _explain_one(self, value: Any, path: Path, found: Report) -> int:
        best: tuple[Report, int] | None = None
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
        _report(path, found, f"must validate one and only one schema (oneOf). {which}")
        if valid or best is None:
            return 0
        found.extend(best[0].errors)
        return best[1]

    def _explain_all(self, value: Any, path: Path, found: Report) -> int:
        total = valid = 0
        for branch in self._all:
            result, count = branch.tried(value, path, found)
            found.extend(result.errors)
            total += count
            valid += not result.failed
        if valid < len(self._all):
            which = "" if valid else ". None validated"
            _report(path, found, f"must validate all the schemas (allOf){which}")
        return total

    def _explain_items(self, items: list[Any], old: Any, path: Path, found: Report, comparison: Comparison) -> int:
        schema, count, size = self._schema, 0, len(items)
        if self._items is not None:
            before = correlate_items(schema, items, old)
            for index, item in enumerate(items):
                count += self._items.explain(item, before[index], (path, f"[{index}]"), found, comparison)
        if found.full:
            return count
        if schema.min_items is not None and size < schema.min_items:
            name = join_steps(path)
            found.add(invalid(name, size, f"{name} in body should have at least {schema.min_items} items"))
        if schema.max_items is not None and size > schema.max_items:
            found.add(too_many(join_steps(path), size, schema.max_items))
        if schema.unique_items and has_duplicates(items):
            name = join_steps(path)
            found.add(invalid(name, "", f"{name} in body shouldn't contain duplicates"))
        return count

    def _explain_object(self, obj: dict[str, Any], old: Any, path: Path, found: Report, comparison: Comparison) -> int:
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
            found.extend(required(f"{join_steps(path)}.{name}") for name in missing)
        return count

    def _explain_size(self, obj: dict[str, Any], path: Path, found: Report) -> None:
        schema, size = self._schema, len(obj)
        if found.full:
            return
        if schema.min_properties is not None and size < schema.min_properties:
            name = join_steps(path)
            found.add(invalid(name, size, f"{name} in body should have at least {schema.min_properties} properties"))
        if schema.max_properties is not None and size > schema.max_properties:
            found.add(too_many(join_steps(path), size, schema.max_properties))
        if schema.additional is False:
            name = join_steps(path)
            unknown = [key for key in obj if key not in self._properties]
            found.extend(invalid(name, key, f"{name}.{key} in body is a forbidden property") for key in unknown)


_NEVER = Comparison()
"""Used where there is no old value to compare with."""


def _report(path: Path, found: Report, what: str) -> None:
    """An error of a junctor: it names the value in its text, and has no field."""
    if not found.full:
        found.add(invalid("", "", f"{quote(join_steps(path))} {what}"))
