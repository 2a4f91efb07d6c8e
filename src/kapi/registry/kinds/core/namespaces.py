"""Namespace: its two sets of finalizers, its phase, and the label that carries its name.

`spec.finalizers` belongs to the server: the ordinary endpoint keeps it, only `/finalize` changes it. Emptying it is
what lets a terminating namespace go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy, copy_field

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"

_STANDARD_FINALIZERS = (FINALIZER, "orphan", "foregroundDeletion")


def _finalizer_errors(path: str, value: str) -> list[FieldError]:
    errors = fieldrules.qualified_name(path, value)
    if "/" not in value and value not in _STANDARD_FINALIZERS:
        errors.append(
            invalid(path, value, "name is neither a standard finalizer name nor is it fully qualified"),
        )
    return errors


class NamespaceStrategy(Strategy):
    """The rules of Namespace."""

    has_status = True
    returns_deleted_object = True
    selectable_fields = ("status.phase",)

    def default(self, obj: Object) -> None:
        """Label the namespace with its name, once it has one; it is active unless it says otherwise."""
        obj.setdefault("status", {}).setdefault("phase", "Active")
        name = obj["metadata"].get("name")
        if name:
            labels = obj["metadata"].get("labels") or {}
            obj["metadata"]["labels"] = {**labels, NAME_LABEL: name}

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Start active, held by the server's finalizer."""
        self.default(obj)
        finalizers = fieldrules.spec_of(obj).get("finalizers") or []
        if FINALIZER not in finalizers:
            finalizers = [*finalizers, FINALIZER]
        obj["spec"]["finalizers"] = finalizers
        obj["status"] = {"phase": "Active"}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Finalizers have names of the right form."""
        return [
            error
            for finalizer in obj.get("spec", {}).get("finalizers", ())
            for error in _finalizer_errors("spec.finalizers", finalizer)
        ]

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Keep the finalizers: they change through `/finalize` only."""
        copy_field(obj, old, "spec")

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Nothing beyond metadata can have changed."""
        return []

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The phase follows the deletion timestamp."""
        phase = obj.get("status", {}).get("phase", "")
        deleting = "deletionTimestamp" in obj["metadata"]
        if not deleting and phase != "Active":
            return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        if deleting and phase != "Terminating":
            return [invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
        return []

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """An absent phase means active."""
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A DNS label."""
        return names.dns_label(name, prefix=prefix)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By phase."""
        return {"status.phase": obj.get("status", {}).get("phase", "")}


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """The rules of `namespaces/{name}/finalize`: spec.finalizers is the request's, all else but metadata stays."""

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Keep the status."""
        copy_field(obj, old, "status")

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Finalizers have names of the right form."""
        finalizers = obj.get("spec", {}).get("finalizers") or ()
        return [
            error
            for index, finalizer in enumerate(finalizers)
            for error in _finalizer_errors(f"spec.finalizers[{index}]", finalizer)
        ]


STRATEGIES: dict[tuple[str, str], Strategy] = {("", "Namespace"): NamespaceStrategy()}
