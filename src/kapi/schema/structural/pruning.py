"""Pruning: removal of the fields of a custom object that its schema does not specify.

A schema is compiled, once, into one function per place for maps and one for lists; scalars are never touched. Under
`x-kubernetes-preserve-unknown-fields` unknown fields stay, and pruning begins again below every property that is
specified there. Types do not matter here: a map where the schema wants a string loses all its fields, and validation
reports the type.

Pure functions over decoded JSON, changed in place. Paths are collected as steps from the inside out, so that long keys
in deep objects are joined once and not at every level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.structural.model import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Trails = list[list[str]] | None
    """For each removed field its steps, the innermost first; None when nothing was removed."""
    Pruner = Callable[[Any], Trails]
    Place = tuple[Pruner | None, Pruner | None]
    """The functions for a map and for a list at this place; None where nothing is ever removed."""

MOST_UNKNOWN: Final = 100
"""The most removed fields that are reported. It bounds the response to a hostile object."""
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The fields that every object has, even if its schema does not name them."""

_IDLE: Final[Place] = (None, None)


def compile_prune(schema: Schema, *, root: bool = True) -> Callable[[Any], list[str] | None]:
    """A function that removes unknown fields from an object, in place, and returns their paths, sorted.

    Paths read as in `unknown field "spec.list[0].x"`; None means that nothing was removed. At the `root` of an object,
    as in an embedded one, `apiVersion`, `kind` and `metadata` are kept as they are. Otherwise they are removed
    silently when the schema does not name them, as kube-apiserver does. Pruning twice changes nothing.
    """
    on_map, on_list = _pruned(schema, root=root)

    def prune(value: Any) -> list[str] | None:
        pruner = on_map if type(value) is dict else on_list if type(value) is list else None
        trails = pruner(value) if pruner is not None else None
        return _paths(trails, root=root) if trails is not None else None

    return prune


def prunes_anything(schema: Schema, value: Any) -> bool:
    """Prune the value; return True if that removed anything, reported or not."""
    on_map, on_list = _pruned(schema)
    pruner = on_map if type(value) is dict else on_list if type(value) is list else None
    return pruner is not None and pruner(value) is not None


def _paths(trails: list[list[str]], *, root: bool) -> list[str] | None:
    if not root:
        trails = [trail for trail in trails if len(trail) > 1 or trail[0][1:] not in META_FIELDS]
    return sorted("".join(reversed(trail)).removeprefix(".") for trail in trails) or None


# -- places -----------------------------------------------------------------------------------------------------------


def _pruned(schema: Schema | bool | None, *, root: bool = False) -> Place:
    """A place where unknown fields are removed. Without a schema all fields are unknown."""
    if not isinstance(schema, Schema):
        return _EMPTIED
    if schema.preserve_unknown:
        return _preserved(schema, root=root)
    embedded = root or schema.embedded
    if not (embedded or schema.properties or schema.items or schema.additional is not None):
        return _EMPTIED
    others = _pruned(schema.additional) if schema.additional is not None else None
    return _map(_known(schema, embedded=embedded), others), _list(_pruned(schema.items))


def _preserved(schema: Schema, *, root: bool = False) -> Place:
    """A place where unknown fields stay; specified ones are pruned below, and list items inherit."""
    items = _preserved(schema.items) if schema.items is not None else _IDLE
    on_map = None
    if schema.properties or schema.additional is not None:
        others = _pruned(schema.additional) if schema.additional is not None else _IDLE
        on_map = _map(_known(schema, embedded=root or schema.embedded), others)
    return on_map, _list(items) if any(items) else None


def _known(schema: Schema, *, embedded: bool) -> dict[str, Place]:
    known = {name: _pruned(below) for name, below in schema.properties.items()}
    return known | dict.fromkeys(META_FIELDS, _IDLE) if embedded else known


def _map(known: dict[str, Place], others: Place | None) -> Pruner:
    """The function for maps; `others` is the place of keys that are not known, None when they are removed."""
    find = known.get

    def prune(obj: dict[str, Any]) -> Trails:
        trails: Trails = None
        gone: list[str] = []
        for key, value in obj.items():
            place = find(key, others)
            if place is None:
                gone.append(key)
                continue
            kind = type(value)
            if kind is dict:
                pruner = place[0]
            elif kind is list:
                pruner = place[1]
            else:
                continue
            if pruner is not None:
                below = pruner(value)
                if below is not None:
                    trails = _add(trails, below, f".{key}")
        if gone:
            trails = _remove(obj, gone, trails)
        return trails

    return prune


def _list(place: Place) -> Pruner:
    on_map, on_list = place

    def prune(items: list[Any]) -> Trails:
        trails: Trails = None
        for index, item in enumerate(items):
            kind = type(item)
            pruner = on_map if kind is dict else on_list if kind is list else None
            if pruner is not None:
                below = pruner(item)
                if below is not None:
                    trails = _add(trails, below, f"[{index}]")
        return trails

    return prune


def _empty_map(obj: dict[str, Any]) -> Trails:
    return _remove(obj, list(obj), None) if obj else None


def _empty_list(items: list[Any]) -> Trails:
    return _empty_items(items)


_EMPTIED: Final[Place] = (_empty_map, _empty_list)
_empty_items: Final = _list(_EMPTIED)


# -- reports ----------------------------------------------------------------------------------------------------------


def _add(trails: Trails, below: list[list[str]], step: str) -> list[list[str]]:
    """Add the fields removed below a step, up to the number that is reported."""
    for trail in below:
        trail.append(step)
    if trails is None:
        return below
    trails.extend(below[: MOST_UNKNOWN - len(trails)])
    return trails


def _remove(obj: dict[str, Any], gone: Iterable[str], trails: Trails) -> list[list[str]]:
    trails = [] if trails is None else trails
    for key in gone:
        del obj[key]
        if len(trails) < MOST_UNKNOWN:
            trails.append([f".{key}"])
    return trails
