"""Tables of role bindings and certificate signing requests. Roles have the default table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.duration import human_duration
from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, text, wide

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_RBAC = "rbac.authorization.k8s.io"


def _named(subjects: list[Object], kind: str) -> str:
    return ", ".join(cells.string(each, "name") for each in subjects if each.get("kind") == kind)


def _binding(obj: Object, now: dt.datetime) -> list[Any]:
    role, subjects = cells.part(obj, "roleRef"), cells.items(obj, "subjects")
    return [
        cells.name(obj),
        f"{cells.string(role, 'kind')}/{cells.string(role, 'name')}",
        cells.age(obj, now),
        _named(subjects, "User"),
        _named(subjects, "Group"),
        ", ".join(
            f"{cells.string(each, 'namespace')}/{cells.string(each, 'name')}"
            for each in subjects
            if each.get("kind") == "ServiceAccount"
        ),
    ]


def _signing_state(status: Object) -> str:
    """The status of a request: Denied, Approved or Pending, then Failed and Issued."""
    conditions = {cells.string(each, "type") for each in cells.items(status, "conditions")}
    words = [next((word for word in ("Denied", "Approved") if word in conditions), "Pending")]
    if "Failed" in conditions:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _signing_request(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    lifetime = spec.get("expirationSeconds")
    return [
        cells.name(obj),
        cells.age(obj, now),
        cells.string(spec, "signerName") or cells.NONE,
        cells.string(spec, "username"),
        cells.NONE if lifetime is None else human_duration(lifetime),
        _signing_state(cells.part(obj, "status")),
    ]


_BINDINGS = Table(
    (
        NAME,
        text("Role", "The role that is granted."),
        AGE,
        wide("Users", "The users it is granted to."),
        wide("Groups", "The groups it is granted to."),
        wide("ServiceAccounts", "The service accounts it is granted to."),
    ),
    _binding,
)

TABLES = {
    (_RBAC, "rolebindings"): _BINDINGS,
    (_RBAC, "clusterrolebindings"): _BINDINGS,
    ("certificates.k8s.io", "certificatesigningrequests"): Table(
        (
            NAME,
            AGE,
            text("SignerName", "Who is asked to sign."),
            text("Requestor", "Who asks."),
            text("RequestedDuration", "How long the certificate should be valid."),
            text("Condition", "How far the request has come."),
        ),
        _signing_request,
    ),
}
