"""The parts of cells: ages, counts, truncated lists, labels, selectors, quantities.

Stored objects omit empty fields, so each reader here takes a missing field for the zero value of its type, which is
what kube-apiserver prints. The empty markers differ by kind and are its own choice: `<none>`, `<unset>`, `<unknown>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.duration import human_duration
from kapi.api.meta import parse_time
from kapi.api.values import canonical_quantity, label_selector_to_text

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

# -- reading ----------------------------------------------------------------------------------------------------------


def part(obj: Object, *path: str) -> Object:
    """The object under a path of fields; an empty one when any step is missing."""
    for step in path:
        obj = obj.get(step) or {}
    return obj


def items(obj: Object, *path: str) -> list[Any]:
    """The list under a path of fields; an empty one when any step is missing."""
    return part(obj, *path[:-1]).get(path[-1]) or []


def string(obj: Object, *path: str) -> str:
    """The string under a path of fields, or an empty one."""
    return part(obj, *path[:-1]).get(path[-1]) or ""


def count(obj: Object, *path: str) -> int:
    """The number under a path of fields, or zero."""
    return part(obj, *path[:-1]).get(path[-1]) or 0


def flag(obj: Object, field: str, *, default: bool = False) -> bool:
    """The boolean of a field, or a default."""
    value = obj.get(field)
    return default if value is None else value


def name(obj: Object) -> str:
    """The name of the object."""
    return string(obj, "metadata", "name")


def is_deleting(obj: Object) -> bool:
    """Return True if the object has a deletionTimestamp; unlike the one in `api`, it needs no metadata."""
    return bool(string(obj, "metadata", "deletionTimestamp"))


def status_of(conditions: Sequence[Object], kind: str) -> str | None:
    """The status of the first condition of a type; None when there is no such condition."""
    for condition in conditions:
        if condition.get("type") == kind:
            return string(condition, "status")
    return None


# -- time -------------------------------------------------------------------------------------------------------------


def since(moment: str | None, now: dt.datetime) -> str:
    """The duration since a moment, as kubectl prints it; `<unknown>` when there is no moment."""
    start = parse_time(moment) if moment else None
    return human_duration((now - start).total_seconds()) if start else UNKNOWN


def age(obj: Object, now: dt.datetime) -> str:
    """The time since the object was created."""
    return since(part(obj, "metadata").get("creationTimestamp"), now)


# -- lists and maps ---------------------------------------------------------------------------------------------------


def few(shown: Sequence[str], total: int, separator: str = ",") -> str:
    """The first entries joined, and how many more there are: `a,b,c + 2 more...`."""
    joined = separator.join(shown)
    return f"{joined} + {total - len(shown)} more..." if total > len(shown) else joined


def labels(pairs: Mapping[str, str] | None) -> str:
    """A map of labels as `a=1,b=2`, sorted; `<none>` when empty."""
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) if pairs else NONE


def selector(obj: Object, *path: str) -> str:
    """The label selector under a path of fields as text, `<none>` when it is empty or missing."""
    return label_selector_to_text(part(obj, *path[:-1]).get(path[-1]))


def containers(template: Object) -> list[str]:
    """Two cells: the names and the images of the containers of a pod template."""
    listed = items(template, "spec", "containers")
    return [",".join(string(each, "name") for each in listed), ",".join(string(each, "image") for each in listed)]


def addresses(status: Object) -> str:
    """The addresses, or else host names, of a load balancer, sorted."""
    points = items(status, "loadBalancer", "ingress")
    return ",".join(sorted({string(point, "ip") or string(point, "hostname") for point in points} - {""}))


# -- values -----------------------------------------------------------------------------------------------------------


def quantity(value: str | float | None, absent: str = "0") -> str:
    """A quantity in canonical form. One that cannot be read is shown as it is written."""
    if value is None:
        return absent
    try:
        return canonical_quantity(value)
    except ValueError:
        return str(value)
