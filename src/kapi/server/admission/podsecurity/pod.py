"""The parts of a Pod, or of the template of one, that the Pod Security Standards are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object


class Violation(NamedTuple):
    """A check that a Pod does not pass: the reason in short, and the containers, fields or values that are to blame."""

    reason: str
    detail: str


class Container(NamedTuple):
    """A container with its name and its security context; an empty one where it has none."""

    name: str
    security: Object
    fields: Object


class PodView:
    """A Pod as the checks see it; `containers` are those of all sorts, init containers first."""

    __slots__ = ("annotations", "containers", "security", "spec")

    def __init__(self, metadata: Object, spec: Object) -> None:
        self.annotations: dict[str, str] = metadata.get("annotations") or {}
        self.spec = spec
        self.security: Object = spec.get("securityContext") or {}
        self.containers = [
            Container(fields.get("name", ""), fields.get("securityContext") or {}, fields)
            for sort in ("initContainers", "containers", "ephemeralContainers")
            for fields in spec.get(sort) or ()
        ]

    @property
    def is_windows(self) -> bool:
        """True if the Pod says that it is for Windows."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_user_namespace(self) -> bool:
        """True if root in the Pod is not root on the node."""
        return self.spec.get("hostUsers") is False

    def setters(self, field: str) -> list[tuple[str, Any]]:
        """Return the values of a field of the security contexts: of the Pod, under an empty name, and of containers."""
        found = [("", self.security[field])] if self.security.get(field) is not None else []
        found += [(one.name, one.security[field]) for one in self.containers if one.security.get(field) is not None]
        return found


def quoted(items: Iterable[str]) -> str:
    """Return names or values as messages list them. They are not escaped, as in Kubernetes."""
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, count: int) -> str:
    """Return a word in the singular for one, in the plural otherwise."""
    return word if count == 1 else f"{word}s"


def named(word: str, names: list[str]) -> str:
    """Return `container "a"` or `containers "a", "b"`."""
    return f"{plural(word, len(names))} {quoted(names)}"


def blamed(names: list[str]) -> str:
    """Return the setters of a wrong value: `pod`, containers, or both. The name of the Pod is the empty string."""
    containers = [name for name in names if name]
    parts = ["pod"] if len(containers) < len(names) else []
    if containers:
        parts.append(named("container", containers))
    return " and ".join(parts)
