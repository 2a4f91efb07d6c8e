"""Conditions in a status: one entry per type, and a time that moves only when the entry's status does.

For lists of dictionaries and lists of `metav1` Condition instances (or any class with the same fields). A list is
changed in place; nothing is sent anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kapi.api.meta import format_time
from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    conditions: list[Any],
    kind: str,
    status: str | bool,
    *,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    clock: Clock | None = None,
) -> bool:
    """Set a condition; returns True if that changed anything.

    A new entry is of the type of the others in the list, a dictionary if there are none.
    """
    text = status if isinstance(status, str) else TRUE if status else FALSE
    found = find_condition(conditions, kind)
    now = format_time((clock or SystemClock()).now())
    if found is None:
        conditions.append(_new(conditions, kind, text, reason, message, observed_generation, now))
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


def _new(others: list[Any], kind: str, status: str, reason: str, message: str, generation: int | None, now: str) -> Any:
    if others and not isinstance(others[0], dict):
        cls: Any = type(others[0])
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
