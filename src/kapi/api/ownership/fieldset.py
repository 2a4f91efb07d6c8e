"""Sets of fields, in the form in which objects carry them: FieldsV1.

A set is a tree of dictionaries. Each key is one step of a path, written as FieldsV1 writes it:

    f:name                                        a field of a struct, or a key of a map
    k:{"containerPort":80,"protocol":"TCP"}       the item of a list with these keys
    v:"x"                                         the item of a list that is a set
    i:3                                           the item at an index
    .                                             the place itself is in the set, besides what is below it

A place with nothing below it is `{}` and is in the set. So the root `{}` is the empty set, no other place is ever
without a member, and two sets are equal when their dictionaries are. Sets are shared freely and never changed: every
function here returns a new one, or one of its arguments. A set is in the order of the wire when `parse` or `ordered`
made it, or when it was computed from such sets.
"""

from __future__ import annotations

import decimal
import functools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FieldSet = dict[str, Any]
"""A set of fields, or the part of one below a place."""
Path = tuple[str, ...]
"""The steps from the root to a place."""

LEAF: Final[FieldSet] = {}
"""A place with nothing below it. One dictionary for all of them, never changed."""
SELF: Final = "."
ANY: Final = "*"
"""A step of a pattern that fits every step of a path; see `matching`."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# The characters that stand for themselves in the JSON of kube-apiserver, which escapes those HTML minds, too.
_plain = re.compile(r"[ !#-%'-;=?-\[\]-~]*").fullmatch
_special = re.compile(r'["\\<>&\x00-\x1f\u2028\u2029]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


# -- algebra ----------------------------------------------------------------------------------------------------------


def of(*paths: Iterable[str]) -> FieldSet:
    """The set of these places, each a path of steps."""
    result: FieldSet = {}
    for path in paths:
        single: FieldSet = LEAF
        for step in reversed(tuple(path)):
            single = {step: single}
        result = union(result, single)
    return result


def fields(*names: str) -> Path:
    """The path through fields of these names."""
    return tuple(f"f:{name}" for name in names)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the union of two sets."""
    if not one or one is other:
        return other
    return _union(one, other) if other else one


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """What is in any of the sets, of which there is at least one.

    Halves are joined, because a union copies both of its sides: one set after the other would be quadratic.
    """
    if len(sets) == 1:
        return sets[0]
    half = len(sets) // 2
    return union(union_of(sets[:half]), union_of(sets[half:]))


def _union(one: FieldSet, other: FieldSet) -> FieldSet:
    if one is other:
        return one
    if not one:
        return with_self(other)
    if not other:
        return with_self(one)
    merged = dict(one)
    for step, below in other.items():
        mine = merged.get(step)
        merged[step] = below if mine is None else _union(mine, below)
    return merged if len(merged) == len(one) else {step: merged[step] for step in _sorted(merged)}


def with_self(below: FieldSet) -> FieldSet:
    """The same place, itself in the set."""
    return below if not below or SELF in below else {SELF: LEAF, **below}


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the intersection of two sets."""
    if not one or not other:
        return LEAF
    return _intersection(one, other) or LEAF


def _intersection(one: FieldSet, other: FieldSet) -> FieldSet | None:
    if one is other:
        return one
    both = (not one or SELF in one) and (not other or SELF in other)
    shared: FieldSet = {}
    for step, below in one.items():
        theirs = other.get(step)
        if theirs is not None and step != SELF:
            common = _intersection(below, theirs)
            if common is not None:
                shared[step] = common
    if both:
        return {SELF: LEAF, **shared} if shared else LEAF
    return shared or None


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the difference of two sets. A place in the second takes nothing below it with it."""
    if not one or not other:
        return one
    return _difference(one, other) or LEAF


def _difference(one: FieldSet, other: FieldSet) -> FieldSet | None:
    taken = not other or SELF in other
    if not one:
        return None if taken else one
    rest: FieldSet | None = None
    for step, below in one.items():
        theirs = other.get(step)
        if step == SELF or theirs is None:
            continue
        left = _difference(below, theirs)
        if left is not below:
            rest = dict(one) if rest is None else rest
            _put(rest, step, left)
    if taken and SELF in one:
        rest = dict(one) if rest is None else rest
        del rest[SELF]
    return one if rest is None else _tidy(rest)


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the first set without the places of the second and everything below them."""
    if not one or not other:
        return one
    return _recursive_difference(one, other) or LEAF


def _recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet | None:
    rest: FieldSet | None = None
    for step, theirs in other.items():
        below = one.get(step)
        if below is None or step == SELF:
            continue
        left = None if not theirs or SELF in theirs else _recursive_difference(below, theirs)
        if left is not below:
            rest = dict(one) if rest is None else rest
            _put(rest, step, left)
    return one if rest is None else _tidy(rest)


def _put(node: FieldSet, step: str, below: FieldSet | None) -> None:
    if below is None:
        del node[step]
    else:
        node[step] = below


def _tidy(node: FieldSet) -> FieldSet | None:
    """A place after something below it went: nothing when it is empty, a leaf when only itself is left."""
    if not node:
        return None
    return LEAF if len(node) == 1 and SELF in node else node


def leaves(one: FieldSet) -> FieldSet:
    """The places that have no other place of the set below them."""
    return {step: leaves(below) if below else LEAF for step, below in one.items() if step != SELF}


def matching(one: FieldSet, pattern: FieldSet) -> FieldSet:
    """The part of a set that lies on or below the paths of a pattern, whose steps may be `*`."""
    return (one and _matching(one, pattern)) or LEAF


def _matching(one: FieldSet, pattern: FieldSet) -> FieldSet | None:
    if not pattern:
        return one
    kept: FieldSet = {}
    for step, below in one.items():
        wanted = pattern.get(ANY, pattern.get(step))
        if wanted is None or step == SELF:
            continue
        # Places above the wanted ones stay when they are in the set themselves.
        part = _matching(below, wanted)
        if not below or SELF in below:
            kept[step] = with_self(part) if part else LEAF
        elif part is not None:
            kept[step] = part
    return kept or None


def contains(one: FieldSet, path: Path) -> bool:
    """Return True if the place itself is in the set."""
    node: FieldSet | None = one
    for step in path:
        node = node.get(step) if node is not None else None
    return bool(path) and node is not None and (not node or SELF in node)


def paths(one: FieldSet) -> Iterator[Path]:
    """Every place in the set: those of one level in order, then what is below each."""
    yield from _paths(one, ())


def _paths(node: FieldSet, prefix: Path) -> Iterator[Path]:
    steps = sorted((step for step in node if step != SELF), key=_order)
    for step in steps:
        below = node[step]
        if not below or SELF in below:
            yield (*prefix, step)
    for step in steps:
        yield from _paths(node[step], (*prefix, step))


# -- the wire ---------------------------------------------------------------------------------------------------------


def parse(document: Any) -> FieldSet:
    """Read FieldsV1, decoded from JSON. Raises ValueError when it is malformed.

    Steps of a kind we do not know are left out with what is below them: they may come from a later version.
    """
    return ordered(_parse(document))


def _parse(document: Any) -> FieldSet:
    if document is None:
        return LEAF
    if not isinstance(document, dict):
        raise ValueError(f"expected an object, got {type(document).__name__}")  # noqa: TRY004 - malformed input
    node: FieldSet = {}
    member = False
    for key, value in document.items():
        if key == SELF:
            member = True
            continue
        step = canonical(key)
        if step:
            below = _parse(value)
            mine = node.get(step)
            node[step] = below if mine is None else _union(mine, below)
    return {SELF: LEAF, **node} if member and node else node


@functools.lru_cache(maxsize=8192)
def canonical(key: str) -> str:
    """A step as we write it; empty when it is of a kind we do not know. Raises ValueError when it is malformed."""
    if len(key) < 2:
        raise ValueError("key must be 2 characters long:")
    if key[1] != ":":
        raise ValueError(f"missing colon: {key}")
    kind, content = key[0], key[2:]
    if kind == "f":
        return key
    if kind == "i":
        return f"i:{int(content)}"
    if kind not in "kv":
        return ""
    value = _decode(content)
    if kind == "v":
        return value_step(value)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object of keys: {key}")  # noqa: TRY004 - malformed input
    return key_step(value)


def ordered(one: FieldSet) -> FieldSet:
    """The same set in the order of the wire."""
    return {step: ordered(below) if (below := one[step]) else LEAF for step in _sorted(one)}


def _sorted(node: FieldSet) -> list[str]:
    steps = sorted(node)
    # Almost always all steps are fields, whose plain order is the right one; the place itself sorts before them.
    if steps and steps[-1][0] not in "f.":
        steps.sort(key=_order)
    return steps


def value_step(value: Any) -> str:
    """The step to the item of a set."""
    return f"v:{scalar_json(value)}"


def key_step(keys: dict[str, Any]) -> str:
    """The step to an item of a list, by its keys."""
    return "k:{" + ",".join(f"{_string_json(name)}:{scalar_json(keys[name])}" for name in sorted(keys)) + "}"


def scalar_json(value: Any) -> str:
    """A value as kube-apiserver writes it inside a step."""
    if isinstance(value, str):
        return f'"{value}"' if _plain(value) else _string_json(value)
    if isinstance(value, float):
        return _float_json(value)
    return _encode(value).decode()


def _string_json(text: str) -> str:
    return '"' + _special.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text) + '"'


def _float_json(value: float) -> str:
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return str(int(value)) if value.is_integer() else f"{decimal.Decimal(repr(value)):f}"
    mantissa, _, exponent = _scientific(value)
    return f"{mantissa}e{int(exponent):+d}"


def _scientific(value: float) -> tuple[str, str, str]:
    """The shortest digits that read back the same, and the exponent."""
    return f"{decimal.Decimal(repr(value)).normalize():e}".partition("e")


# -- order and prose --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def _order(step: str) -> tuple[Any, ...]:
    """Fields, then keys, values and indices; numbers among them by size, not by digits."""
    kind, content = step[:1], step[2:]
    if kind == "f":
        return (1, content)
    if kind == "k":
        return (2, tuple((name, _rank(value)) for name, value in _decode(content).items()))
    if kind == "v":
        return (3, _rank(_decode(content)))
    return (4, int(content)) if kind == "i" else (0,)


def _rank(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (3, value)
    if isinstance(value, int | float):
        return (1, value)
    return (2, value) if isinstance(value, str) else (4, scalar_json(value))


def text(path: Path) -> str:
    """A path as conflicts show it: `.spec.containers[name="c"].image`."""
    return "".join(map(step_text, path))


def step_text(step: str) -> str:
    """One step of it: `.image`, `[name="c"]`, `[="x"]`, `[3]`."""
    kind, content = step[0], step[2:]
    if kind == "f":
        return "." + content
    if kind == "i":
        return f"[{content}]"
    value = _decode(content)
    if kind == "v":
        return f"[={_value_text(value)}]"
    return f"[{','.join(f'{name}={_value_text(item)}' for name, item in value.items())}]"


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return _encode(value).decode()
    if isinstance(value, bool) or value is None:
        return scalar_json(value)
    return _number_text(float(value)) if isinstance(value, int | float) else scalar_json(value)


def _number_text(value: float) -> str:
    """Numbers read from FieldsV1 are floating point to kube-apiserver: an exponent from a million on."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return str(int(value)) if value.is_integer() else repr(value)
    mantissa, _, exponent = _scientific(value)
    return f"{mantissa}e{int(exponent):+03d}"
