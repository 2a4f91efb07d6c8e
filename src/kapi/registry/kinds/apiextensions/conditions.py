"""The status of a definition: which names it got, whether it is served, and what is remarkable about it.

kube-apiserver has a controller for each of these, which look at a definition one after the other after it was written.
Here there is one process and nothing to wait for, so all of it is set in the same write: `update` is called by the
strategy, and again for the neighbours of a definition that gave up names. Pure functions that change a definition in
place and never a part it shares with another one.

A condition's `lastTransitionTime` moves when its status does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.fielderror import invalid
from kapi.api.go.text import quote
from kapi.api.meta import format_time
from kapi.registry.kinds.apiextensions import approval, conversion
from kapi.schema.structural.violations import unconvertible, violations

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import Object

    Names = Mapping[str, Any]
    Condition = dict[str, Any]

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a definition that is being deleted until its instances are gone. Put there when the deletion begins."""

ESTABLISHED: Final = "Established"
NAMES_ACCEPTED: Final = "NamesAccepted"
NON_STRUCTURAL: Final = "NonStructuralSchema"
APPROVED: Final = "KubernetesAPIApprovalPolicyConformant"
TERMINATING: Final = "Terminating"

_NAME_FIELDS: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_ALWAYS_SHOWN: Final = ("plural", "kind")


class State(NamedTuple):
    """The status, reason and message of a condition."""

    status: str
    reason: str
    message: str


DELETION_PENDING: Final = State(
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
DELETION_IN_PROGRESS: Final = State("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
DELETION_COMPLETED: Final = State("False", "InstanceDeletionCompleted", "removed all instances")
NEVER_ESTABLISHED: Final = State("False", "NeverEstablished", "resource was never established")
NOT_ACCEPTED: Final = State("False", "NotAccepted", "not all names are accepted")


def deletion_failed(error: object) -> State:
    """Some instances could not be deleted."""
    return State("True", "InstanceDeletionFailed", f"could not issue all deletes: {error}")


# -- reading ---------------------------------------------------------------------------------------------------------


def find(definition: Object, kind: str) -> Condition | None:
    """The condition of a type, or None."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), None)


def is_true(definition: Object, kind: str) -> bool:
    """Return True if a condition is there and true."""
    return (find(definition, kind) or {}).get("status") == "True"


def accepted_names(definition: Object) -> dict[str, Any]:
    """The names a definition holds; empty ones are left out."""
    return (definition.get("status") or {}).get("acceptedNames") or {}


# -- writing ---------------------------------------------------------------------------------------------------------


def put(definition: Object, kind: str, state: State, now: dt.datetime) -> None:
    """Set a condition, at its place if there is one already."""
    old = find(definition, kind)
    changed = old is None or old.get("status") != state.status or not old.get("lastTransitionTime")
    moment = format_time(now) if changed or old is None else old["lastTransitionTime"]
    new: Condition = {
        **(old or {}),
        "type": kind,
        "status": state.status,
        "lastTransitionTime": moment,
        "reason": state.reason,
        "message": state.message,
    }
    status = _own_status(definition)
    conditions = status.get("conditions") or []
    status["conditions"] = (
        [*conditions, new] if old is None else [new if one.get("type") == kind else one for one in conditions]
    )


def remove(definition: Object, kind: str) -> None:
    """Take a condition away."""
    if find(definition, kind) is not None:
        status = _own_status(definition)
        status["conditions"] = [one for one in status["conditions"] if one.get("type") != kind]


def complete(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status with the fields that kube-apiserver always writes, empty where the client left them out."""
    conditions = status.get("conditions")
    if conditions is not None:
        empty = {"lastTransitionTime": None, "status": "", "type": ""}
        conditions = [empty | _without_nulls(one) for one in conditions]
    names = dict.fromkeys(_ALWAYS_SHOWN, "") | _without_nulls(status.get("acceptedNames"))
    return {**status, "conditions": conditions, "acceptedNames": names}


def _without_nulls(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Fields that are set; to Go, null is a field that is not."""
    return {name: value for name, value in (fields or {}).items() if value is not None}


def _own_status(definition: Object) -> dict[str, Any]:
    """The status, as a dictionary that no other state of the definition has."""
    status = definition["status"] = dict(definition.get("status") or {})
    return status


def update(definition: Object, others: Iterable[Object], now: dt.datetime) -> None:
    """Bring names and conditions up to date with the spec, in place.

    `others` are the other definitions there are, of any group; they are only looked at when names have to be given
    out. A definition that was established once stays so.
    """
    _update_names(definition, others, now)
    if is_true(definition, NAMES_ACCEPTED) and not is_true(definition, ESTABLISHED):
        put(definition, ESTABLISHED, _establishment(definition), now)
    _update_structure(definition, now)
    _update_approval(definition, now)


def accept_again(definition: Object, old: Object | None, others: Iterable[Object], now: dt.datetime) -> None:
    """Decide again on the names of a definition that is about to be stored, in place.

    The first decision was made when the write began. Since then another definition may have taken a name.
    """
    stored = old or {}
    wanted = _nonempty((definition.get("spec") or {}).get("names") or {})
    if wanted == _nonempty(accepted_names(stored)) and is_true(stored, NAMES_ACCEPTED):
        return
    before = {**definition, "status": stored.get("status") or {}}
    names, state = _decide_names(wanted, before, others)
    found = find(definition, NAMES_ACCEPTED) or {}
    if names == accepted_names(definition) and state == tuple(map(found.get, State._fields)):
        return
    _own_status(definition)["acceptedNames"] = names
    put(definition, NAMES_ACCEPTED, state, now)
    if is_true(stored, ESTABLISHED):
        return
    accepted = state.status == "True"
    put(definition, ESTABLISHED, _establishment(definition) if accepted else NOT_ACCEPTED, now)


def record_storage_version(definition: Object) -> None:
    """Add the version objects are now stored in to those that some may be stored in."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    for version in (definition.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            name = version.get("name", "")
            if name not in stored:
                _own_status(definition)["storedVersions"] = [*stored, name]
            return


# -- names -----------------------------------------------------------------------------------------------------------


def _update_names(definition: Object, others: Iterable[Object], now: dt.datetime) -> None:
    wanted = _nonempty((definition.get("spec") or {}).get("names") or {})
    if wanted == _nonempty(accepted_names(definition)) and is_true(definition, NAMES_ACCEPTED):
        return
    names, state = _decide_names(wanted, definition, others)
    _own_status(definition)["acceptedNames"] = names
    put(definition, NAMES_ACCEPTED, state, now)
    if find(definition, ESTABLISHED) is None and state.status != "True":
        put(definition, ESTABLISHED, NOT_ACCEPTED, now)


def _nonempty(names: Names) -> dict[str, Any]:
    return {field: names[field] for field in _NAME_FIELDS if names.get(field)}


def _decide_names(wanted: Names, definition: Object, others: Iterable[Object]) -> tuple[dict[str, Any], State]:
    """The names a definition gets, and whether that is all it wants. The last conflict is the one that is told."""
    held = accepted_names(definition)
    resources, kinds = _taken(definition, others)
    names, conflict = dict(held), None
    for field, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        problem = _conflict(wanted.get(field), held.get(field), taken)
        if problem:
            conflict = State("False", reason, problem)
        else:
            names[field] = wanted.get(field)
    names["categories"] = wanted.get("categories")
    shown = {field: names.get(field) or "" for field in _NAME_FIELDS if names.get(field) or field in _ALWAYS_SHOWN}
    return shown, conflict or State("True", "NoConflicts", "no conflicts found")


def _taken(definition: Object, others: Iterable[Object]) -> tuple[set[str], set[str]]:
    """The names of resources and of kinds in use in the group, those of the definition itself included."""
    group = (definition.get("spec") or {}).get("group")
    own = (definition.get("metadata") or {}).get("name")
    resources: set[str] = set()
    kinds: set[str] = set()
    neighbours = (
        one for one in others if (one.get("spec") or {}).get("group") == group and one["metadata"].get("name") != own
    )
    for one in (definition, *neighbours):
        names = accepted_names(one)
        resources.update((names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())))
        kinds.update((names.get("kind", ""), names.get("listKind", "")))
    return resources, kinds


def _conflict(wanted: Any, held: Any, taken: set[str]) -> str:
    """Return why a name, or a list of short names, is not accepted; empty if it is."""
    if (wanted or None) == (held or None):
        return ""
    names = wanted if isinstance(wanted, list) else [wanted or ""]
    mine = held if isinstance(held, list) else ()
    problems = [
        f"{quote(name)} is already in use" for name in dict.fromkeys(names) if name not in mine and name in taken
    ]
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


# -- the other conditions --------------------------------------------------------------------------------------------


def _establishment(definition: Object) -> State:
    config = conversion.client_config((definition.get("spec") or {}).get("conversion")) or {}
    if conversion.bundle_problem(config.get("caBundle")):
        return State("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    return State("True", "InitialNamesAccepted", "the initial names have been accepted")


def _update_structure(definition: Object, now: dt.datetime) -> None:
    spec = definition.get("spec") or {}
    # A definition that prunes has structural schemas: nothing else is accepted, so there is nothing to look at.
    if not spec.get("preserveUnknownFields"):
        remove(definition, NON_STRUCTURAL)
        return
    problems = [str(invalid("spec.preserveUnknownFields", True, "must be false"))]
    for index, version in enumerate(spec.get("versions") or ()):
        props = (version.get("schema") or {}).get("openAPIV3Schema")
        if props is None:
            continue
        unreadable = unconvertible(props)
        if unreadable is not None:
            message = f"failed to check validation schema for version {version.get('name', '')}: {unreadable}"
            put(definition, NON_STRUCTURAL, State("Unknown", "StructuralError", message), now)
            return
        problems += map(str, violations(props, f"spec.versions[{index}].schema.openAPIV3Schema"))
    problems = list(dict.fromkeys(problems))
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    put(definition, NON_STRUCTURAL, State("True", "Violations", message), now)


def _update_approval(definition: Object, now: dt.datetime) -> None:
    if not approval.is_protected((definition.get("spec") or {}).get("group", "")):
        return
    state, message = approval.approval_of((definition.get("metadata") or {}).get("annotations"))
    status = "True" if state == approval.APPROVED else "False"
    put(definition, APPROVED, State(status, state, message), now)


# -- deletion --------------------------------------------------------------------------------------------------------


def begin_deletion(definition: Object, now: dt.datetime) -> None:
    """Begin the deletion of a definition: set the finalizer and the Terminating condition."""
    metadata = definition["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    put(definition, TERMINATING, DELETION_PENDING, now)


def end_deletion(definition: Object, state: State, now: dt.datetime) -> None:
    """The instances are gone, or there never were any: say so and let the definition go."""
    metadata = definition["metadata"]
    put(definition, TERMINATING, state, now)
    left = [one for one in metadata.get("finalizers") or () if one != FINALIZER]
    if left:
        metadata["finalizers"] = left
    else:
        metadata.pop("finalizers", None)
