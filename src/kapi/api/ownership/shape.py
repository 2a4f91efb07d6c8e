"""Values and what their schema says about owning and merging them: the walks over one object.

A `Shape` stands for a place of a schema: a leaf, a struct or map whose fields are owned one by one, a list whose items
are told apart by keys or by value, or a list or map that has one owner as a whole. Walking an object along its shape
gives the fields it sets (`field_set`) and what is wrong with it (`problems`). The walks over two objects are in
`kapi.api.ownership.merge`. `kapi.schema` makes shapes for built-in kinds; `DEDUCED` serves objects without a schema.

Null is a value here and not the same as absent: `None` in a dictionary against a missing key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.text import format_syntax, format_value
from kapi.api.go.types import type_name
from kapi.api.ownership import fieldset
from kapi.api.ownership.fieldset import LEAF, SELF

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kapi.api.ownership.fieldset import FieldSet

SCALAR, ATOMIC_MAP, ATOMIC_LIST, STRUCT, SET, KEYED, ANY = range(7)
"""The kinds of shapes. Those up to ATOMIC_LIST are leaves: one owner, replaced as a whole."""
LAST_LEAF: Final = ATOMIC_LIST

UNTYPED: Final = "untyped"

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "numeric": (int, float),
    "boolean": (bool,),
    UNTYPED: (str, int, float, bool),
}
"""The scalars there are, and the types of their values."""

Field = tuple[str, "Shape"]
"""The step to a field, and its shape."""
Key = tuple[str, Any]
"""A key of a list, and the value an item without it has; None when the key is then left out."""


class InvalidValue(ValueError):
    """A value that has no place in its shape, such as an item without any of its keys."""


class Shape:
    """The rules of one place. Immutable once filled in; a struct is filled in when its fields are first wanted.

    `fields` are the declared ones, `values` is the shape of all others (None: there are no others). `present` has the
    fields that are there even when the object does not show them, and what they then are: servers written with typed
    objects own and compare those as existing; `zeros` are those of them that are scalars and not empty (the quantity
    "0"). `deep` has the shapes of the declared fields that are no leaves. `is_loose` says that below are values of any
    type, so that 1 and true, which are equal to Python, have to be told apart.
    """

    __slots__ = (
        "_fill",
        "as_list",
        "as_map",
        "deep",
        "fields",
        "is_loose",
        "items",
        "key_names",
        "keys",
        "kind",
        "present",
        "scalar",
        "types",
        "values",
        "zeros",
    )

    kind: int
    scalar: str
    types: tuple[type, ...]
    fields: Mapping[str, Field]
    present: Mapping[str, Any]
    deep: Mapping[str, Shape]
    zeros: Mapping[str, Any]
    values: Shape | None
    items: Shape | None
    keys: Sequence[Key]
    key_names: Sequence[str]
    as_map: Shape
    as_list: Shape
    is_loose: bool

    def __init__(
        self,
        kind: int,
        *,
        scalar: str = UNTYPED,
        values: Shape | None = None,
        items: Shape | None = None,
        keys: Sequence[Key] = (),
        fill: Callable[[], tuple[Mapping[str, Field], Mapping[str, Any]]] | None = None,
    ) -> None:
        self.kind = kind
        self.scalar = scalar
        self.types = _TYPES[scalar]
        self.values = values
        self.items = items
        self.key_names = [name for name, _ in keys]
        self.keys = sorted(keys, key=lambda key: key[0])
        self._fill = fill
        if fill is None:
            self.fields = self.present = {}

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not set yet, so that reading what is set costs nothing.
        if name == "is_loose":
            _compute_looseness(self)
        elif name in ("fields", "present"):
            assert self._fill is not None
            self.fields, self.present = self._fill()
        elif name == "deep":
            self.deep = {field: below for field, (_, below) in self.fields.items() if below.kind > LAST_LEAF}
        elif name == "zeros":
            self.zeros = {field: zero for field, zero in self.present.items() if zero and not isinstance(zero, dict)}
        else:
            raise AttributeError(name)
        return getattr(self, name)

    def part(self, value: Any) -> Shape:
        """Of a shape that takes anything: the shape for this value. Null counts as a map."""
        if value is None or isinstance(value, dict):
            return self.as_map
        return self.as_list if isinstance(value, list) else _ANY_SCALAR


def any_shape(as_map: Shape, as_list: Shape) -> Shape:
    """A shape that takes scalars, maps and lists."""
    shape = Shape(ANY)
    shape.as_map, shape.as_list = as_map, as_list
    return shape


def struct(fields: Mapping[str, Shape], *, values: Shape | None = None, atomic: bool = False) -> Shape:
    """A shape with these fields."""
    steps = {name: (f"f:{name}", shape) for name, shape in fields.items()}
    return Shape(ATOMIC_MAP if atomic else STRUCT, values=values, fill=lambda: (steps, {}))


def _compute_looseness(shape: Shape) -> None:
    """Find out whether values of any type may be found below. If not, that holds for everything below, too."""
    seen: dict[int, Shape] = {}
    waiting: list[Shape | None] = [shape]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        if current.kind == ANY:
            shape.is_loose = True
            return
        seen[id(current)] = current
        waiting += (current.values, current.items, *(below for _, below in current.fields.values()))
    for current in seen.values():
        current.is_loose = False


_ANY_SCALAR: Final = Shape(SCALAR)
_ANY_SCALAR.is_loose = True
WHOLE: Final = any_shape(Shape(ATOMIC_MAP), Shape(ATOMIC_LIST))
"""Anything at all, with one owner."""
DEDUCED: Final = any_shape(Shape(STRUCT), Shape(ATOMIC_LIST, items=WHOLE))
"""Anything at all: maps are owned key by key, lists as a whole."""
for _part in (WHOLE.as_map, WHOLE.as_list):
    _part.values, _part.items = (WHOLE, None) if _part.kind == ATOMIC_MAP else (None, WHOLE)
DEDUCED.as_map.values = DEDUCED


# -- the items of lists -----------------------------------------------------------------------------------------------


def step_of(shape: Shape, item: Any) -> str:
    """The step to an item of a keyed list or a set. Raises `InvalidValue` when it cannot be told from others."""
    if shape.kind == SET:
        if type(item) is str or isinstance(item, int | float):
            return fieldset.value_step(item)
        raise InvalidValue(_not_in_set(item))
    if type(item) is not dict:
        what = "a null element" if item is None else "non-map elements"
        raise InvalidValue(f"associative list with keys may not have {what}")
    parts = []
    for name, default in shape.keys:
        value = item.get(name, default)
        if value is not None or name in item:
            parts.append(f'"{name}":{fieldset.scalar_json(value)}')
    if not parts:
        names = " ".join(f'"{name}"' for name in shape.key_names)
        raise InvalidValue(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:{" + ",".join(parts) + "}"


def _not_in_set(item: Any) -> str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null"


# -- what an object looks like without its values ---------------------------------------------------------------------


def outline(shape: Shape, value: Any) -> object:
    """Everything about a value that says which fields a creation sets: names, steps, and which values are empty.

    Two objects with the same outline set the same fields. Raises `InvalidValue` for items that cannot be told apart.
    """
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(value)
        kind = shape.kind
    if kind <= LAST_LEAF or not value:
        # An empty value may equal what the place has without it; see `present`. Of others only those in `zeros` do.
        return True if value else type(value)
    if kind != STRUCT:
        return _outline_of_list(shape, value)
    names, inner = tuple(value), shape.values
    if inner is not None and inner.kind > LAST_LEAF:
        fields = shape.fields
        return (names, *[outline(fields[name][1] if name in fields else inner, value[name]) for name in names])
    deep, zeros = shape.deep, shape.zeros
    parts: list[object] = [names]
    if zeros:
        parts += [value.get(name) == zero for name, zero in zeros.items()]
    if deep:
        parts += [outline(deep[name], value[name]) for name in names if name in deep]
    if not all(value.values()):
        parts.append(tuple([True if one else type(one) for one in value.values()]))
    return tuple(parts)


def _outline_of_list(shape: Shape, value: list[Any]) -> object:
    items, keys = shape.items, shape.key_names
    parts: list[object] = [shape.kind]
    for item in value:
        if len(keys) == 1 and type(item) is dict and type(key := item.get(keys[0])) is str:
            parts.append(key)
        else:
            parts.append((step_of(shape, item),))
        if items is not None and shape.kind != SET:
            parts.append(outline(items, item))
    return tuple(parts)


# -- what an object sets ----------------------------------------------------------------------------------------------


def field_set(shape: Shape, value: Any) -> FieldSet:
    """The fields an object sets: every leaf, every item of a list, every key of a map."""
    return _set_by(shape, value) or LEAF


def _set_by(shape: Shape, value: Any) -> FieldSet | None:
    """The part of the set below a place; None when the place does not add to the set."""
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(value)
        kind = shape.kind
    if kind <= LAST_LEAF:
        return LEAF
    if not value:
        return None
    if kind == STRUCT:
        return _set_by_struct(shape, value)
    node: FieldSet = {}
    for item in value:
        step = step_of(shape, item)
        # Items that cannot be told apart are owned together, without what is in them.
        if step in node or kind == SET:
            node[step] = LEAF
        else:
            node[step] = with_items(_set_by(shape.items, item)) if shape.items else LEAF
    return node


def with_items(below: FieldSet | None) -> FieldSet:
    """An item of a list or a key of a map: itself in the set, with what is below it."""
    if not below:
        return LEAF
    return below if SELF in below else {SELF: LEAF, **below}


def _set_by_struct(shape: Shape, value: dict[str, Any]) -> FieldSet | None:
    node: FieldSet = {}
    fields, values = shape.fields, shape.values
    for name, below in value.items():
        known = fields.get(name)
        if known is None:
            node[f"f:{name}"] = with_items(_set_by(values, below)) if values else LEAF
            continue
        step, inner = known
        if inner.kind <= LAST_LEAF or below is None or below == {}:
            node[step] = LEAF
        else:
            part = _set_by(inner, below)
            if part is not None:
                node[step] = part
    return node or None


def ensure_named(shape: Shape, owned: FieldSet) -> FieldSet:
    """The set with every declared field that has something below it in the set."""
    return {step: _named(shape, step, below) if below else LEAF for step, below in owned.items()}


def _named(shape: Shape, step: str, below: FieldSet) -> FieldSet:
    inner, declared = _below(shape, step)
    named = ensure_named(inner, below) if inner else below
    return with_items(named) if declared else named


def _below(shape: Shape, step: str) -> tuple[Shape | None, bool]:
    """The shape a step leads to, and whether it is a declared field."""
    if shape.kind == ANY:
        shape = shape.as_map if step[0] == "f" else shape.as_list
    if step[0] == "f":
        known = shape.fields.get(step[2:])
        return (known[1], True) if known else (shape.values, False)
    return (shape.items, False)


def reconcile(shape: Shape, owned: FieldSet) -> FieldSet:
    """A set that may have been made under an earlier schema: what is a leaf now is owned as one."""
    if shape.kind == ANY and not shape.as_map.fields:
        return owned
    result = owned
    for step, below in owned.items():
        inner, _ = _below(shape, step) if step != SELF else (None, False)
        if inner is None or not below:
            continue
        kind = inner.kind
        new = LEAF if kind in (ATOMIC_MAP, ATOMIC_LIST) else reconcile(inner, below) if kind != SCALAR else below
        if new is not below:
            result = dict(result) if result is owned else result
            result[step] = new
    return result


# -- what is wrong with an object -------------------------------------------------------------------------------------


def problems(shape: Shape, value: Any, *, repeats: bool = False) -> list[str]:
    """Return what keeps a value from its shape: unknown fields, wrong types, items that cannot be told apart.

    With `repeats`, for what is not merged but only compared, items of a list may have the same key.
    """
    found = _problems(shape, value, repeats)
    return [f"{path}: {message}" if path else message for path, message in found]


Problem = tuple[str, str]


def _problems(shape: Shape, value: Any, repeats: bool) -> list[Problem]:
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(value)
        kind = shape.kind
    if value is None:
        return []
    if kind == SCALAR:
        return [] if type(value) in shape.types else _wrong_scalar(shape.scalar, value)
    if kind in (STRUCT, ATOMIC_MAP):
        return (
            _wrong_fields(shape, value, repeats)
            if type(value) is dict
            else [("", f"expected map, got {_shown(value)}")]
        )
    return _wrong_items(shape, value, repeats) if type(value) is list else [("", f"expected list, got {_shown(value)}")]


def _wrong_scalar(scalar: str, value: Any) -> list[Problem]:
    if scalar == "numeric":
        return [("", f"expected numeric (int or float), got {type_name(value)}")]
    if scalar == "string":
        return [("", f"expected string, got &value.valueUnstructured{{Value:{format_syntax(value)}}}")]
    return [("", f"expected {'boolean' if scalar == 'boolean' else 'any scalar'}, got {_shown(value)}")]


def _wrong_fields(shape: Shape, value: dict[str, Any], repeats: bool) -> list[Problem]:
    found: list[Problem] = []
    fields, values = shape.fields, shape.values
    for name, below in value.items():
        known = fields.get(name)
        inner = known[1] if known else values
        if inner is None:
            # kube-apiserver looks no further in this struct.
            return [*found, (f".{name}", "field not declared in schema")]
        if inner.kind == SCALAR and type(below) in inner.types:
            continue
        wrong = _problems(inner, below, repeats)
        if wrong:
            found += ((f".{name}{path}", message) for path, message in wrong)
    return found


def _wrong_items(shape: Shape, value: list[Any], repeats: bool) -> list[Problem]:
    found: list[Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        step = f"i:{index}"
        if shape.kind != ATOMIC_LIST:
            try:
                step = step_of(shape, item)
            except InvalidValue as error:
                return [*found, ("", f"element {index}: {error}")]
            if step in seen and not repeats:
                found.append(("", f"duplicate entries for key {fieldset.step_text(step)}"))
            seen.add(step)
        wrong = _problems(shape.items, item, repeats) if shape.items else []
        if wrong:
            prefix = fieldset.step_text(step)
            found += ((f"{prefix}{path}", message) for path, message in wrong)
    return found


def _shown(value: Any) -> str:
    return f"&{{{format_value(value)}}}"
