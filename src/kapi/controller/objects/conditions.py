"""Conditions in a status: one entry per type, and a time that moves only when the entry's status does.

    set_condition(network, "Ready", True, reason="Done")
    await client.update_status(network)

For objects and for lists of conditions: dictionaries, `metav1` Condition instances, or any class with the same fields.
They are changed in place; nothing is sent anywhere.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kapi.api.builtin.meta_v1 import Condition
from kapi.api.meta import format_time
from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.access import AnyObject
    from kapi.base.clock import Clock

C = TypeVar("C")

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def find_condition(conditions: Sequence[C] | None, kind: str) -> C | None:
    """The condition of a type, or None."""
    return next((one for one in conditions or () if _get(one, "type") == kind), None)


def is_true(conditions: Sequence[Any] | None, kind: str) -> bool:
    """Return True if the status of a condition is True."""
    found = find_condition(conditions, kind)
    return found is not None and _get(found, "status") == TRUE


def set_condition(
    target: AnyObject | list[Any],
    kind: str,
    status: str | bool,
    *,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    clock: Clock | None = None,
    cls: type[Any] | None = None,
) -> bool:
    """Set a condition of an object, or in a list of conditions; returns True if that changed anything.

    Of an object, `status.conditions` is meant, and made if there is none. A new entry is of the class `cls`; unless
    given, that of the other entries, else the one that the object's class says, else `metav1` Condition. In an object
    that is a dictionary entries are dictionaries.
    """
    conditions, declared = (target, None) if isinstance(target, list) else _conditions_of(target)
    text = status if isinstance(status, str) else TRUE if status else FALSE
    found = find_condition(conditions, kind)
    now = format_time((clock or SystemClock()).now())
    if found is None:
        made_of = cls or (type(conditions[0]) if conditions else declared or Condition)
        conditions.append(_new(made_of, kind, text, reason, message, observed_generation, now))
        return True
    wanted = {"status": text, "reason": reason, "message": message}
    if observed_generation is not None:
        wanted["observedGeneration"] = observed_generation  # type: ignore[assignment]
    changed = {key: value for key, value in wanted.items() if (_get(found, key) or "") != value}
    for key, value in changed.items():
        _put(found, key, value)
    if "status" in changed:
        _put(found, "lastTransitionTime", now)
    return bool(changed)


def remove_condition(conditions: list[Any], kind: str) -> bool:
    """Remove a condition; returns True if there was one."""
    kept = [one for one in conditions if _get(one, "type") != kind]
    changed = len(kept) != len(conditions)
    conditions[:] = kept
    return changed


def _conditions_of(obj: AnyObject) -> tuple[list[Any], type[Any] | None]:
    """The conditions of an object, made if there are none, and the class of their entries."""
    if isinstance(obj, dict):
        status = obj.get("status")
        if status is None:
            status = obj["status"] = {}
        if status.get("conditions") is None:
            status["conditions"] = []
        return status["conditions"], dict
    holder: Any = obj
    status_type = _field_type(type(obj), "status")
    if holder.status is None:
        holder.status = status_type()
    (entry,) = typing.get_args(_field_type(status_type, "conditions")) or (None,)
    if holder.status.conditions is None:
        holder.status.conditions = []
    # Assigned, so that it counts as set, also when it is the empty list of the class's default.
    holder.status.conditions = conditions = holder.status.conditions
    return conditions, entry


@functools.cache
def _field_type(cls: type[Any], name: str) -> Any:
    """The type of a field, without None."""
    for field in msgspec.structs.fields(cls):
        if field.name == name:
            found = field.type
            if typing.get_origin(found) in (typing.Union, types.UnionType):
                (found,) = (part for part in typing.get_args(found) if part is not types.NoneType)
            return typing.get_args(found)[0] if typing.get_origin(found) is typing.Annotated else found
    raise TypeError(f"{cls.__qualname__} has no field {name}, so it has no conditions")


def _new(cls: type[Any], kind: str, status: str, reason: str, message: str, generation: int | None, now: str) -> Any:
    if not issubclass(cls, dict):
        return cls(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            observed_generation=generation,
            last_transition_time=now,
        )
    condition = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
    return condition | ({} if generation is None else {"observedGeneration": generation})


_ATTRIBUTES = {"observedGeneration": "observed_generation", "lastTransitionTime": "last_transition_time"}


def _get(condition: Any, key: str) -> Any:
    return condition.get(key) if isinstance(condition, dict) else getattr(condition, _ATTRIBUTES.get(key, key), None)


def _put(condition: Any, key: str, value: Any) -> None:
    if isinstance(condition, dict):
        condition[key] = value
    else:
        setattr(condition, _ATTRIBUTES.get(key, key), value)
