"""Reconciles the bootstrap policy with what is stored, as kube-apiserver does at every start.

What is missing is created; permissions, subjects, labels and annotations that are missing are added. Nothing that a
user added is removed, and an object whose annotation `rbac.authorization.kubernetes.io/autoupdate` is "false" is left
as it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.codec import json
from kapi.controlplane.bootstrap import BootstrapError, ensure_object
from kapi.controlplane.rbac.bootstrappolicy import AUTOUPDATE, GROUP, bootstrap_policy
from kapi.server.authz.rbac.rules import Rule, TooManyRules, missing_rules

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.inprocess import InProcessTransport

ATTEMPTS: Final = 5
"""How often a role or binding is reconciled again after another client has changed it meanwhile."""

_HEADERS: Final = {"content-type": "application/json", "user-agent": "kube-apiserver"}
_RESOURCES: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}

_log = structlog.get_logger("kapi.controlplane")


async def ensure_policy(transport: InProcessTransport, catalog: Catalog) -> None:
    """Create or update the default roles and bindings, those of the cluster before those in namespaces.

    Those of a scope are written at once, so that they share a few commits. What creates the objects of a new namespace
    needs its permissions first, so this runs before any namespace is created and creates those that roles are in.
    """
    policy = bootstrap_policy()
    await _all(_ensure(transport, catalog, obj) for obj in (*policy.cluster_roles, *policy.cluster_role_bindings))
    namespaces = dict.fromkeys(role["metadata"]["namespace"] for role in policy.roles)
    await _all(ensure_object(transport, "/api/v1/namespaces", {"metadata": {"name": name}}) for name in namespaces)
    await _all(_ensure(transport, catalog, obj) for obj in (*policy.roles, *policy.role_bindings))


async def _all(work: Iterable[Coroutine[None, None, object]]) -> None:
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _ensure(transport: InProcessTransport, catalog: Catalog, expected: Object) -> None:
    kind, metadata = expected["kind"], expected["metadata"]
    resource, namespace, name = _RESOURCES[kind], metadata.get("namespace", ""), metadata["name"]
    for _ in range(ATTEMPTS):
        existing = catalog.get(f"{resource}.{GROUP}", namespace, name)
        try:
            wanted = expected if existing is None else _reconciled(existing, expected)
        except Exception as error:
            # Written by other means than this server's API: nothing that is stored may keep the server from starting.
            _log.warning("default role or binding cannot be read and is not updated", name=name, error=str(error))
            return
        if wanted is None:
            return
        if existing is not None and existing["metadata"].get("annotations", {}).get(AUTOUPDATE) == "false":
            _log.warning("default role or binding is protected and not updated", kind=kind, name=name)
            return
        if await _write(transport, resource, existing, wanted):
            return
        # Another server that starts at the same time may have written it, and this one not heard of it yet.
        await catalog.store(f"{resource}.{GROUP}").catch_up()
    raise BootstrapError(f"{kind} {name}: other clients keep changing it")


async def _write(transport: InProcessTransport, resource: str, existing: Object | None, wanted: Object) -> bool:
    """Create, update or replace an object; False when it has to be decided again."""
    metadata = wanted["metadata"]
    scope = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    collection = f"/apis/{GROUP}/v1{scope}/{resource}"
    item = f"{collection}/{metadata['name']}"
    if existing is None:
        return await _send(transport, "POST", collection, wanted)
    if metadata.get("uid"):
        return await _send(transport, "PUT", item, wanted)
    # The role of a binding cannot be changed: the binding is deleted, and created again in the next attempt.
    await _send(transport, "DELETE", item, {"preconditions": {"uid": existing["metadata"]["uid"]}})
    return False


async def _send(transport: InProcessTransport, method: str, path: str, body: Object) -> bool:
    reply = await transport.request(method, path, _HEADERS, json.encode(body))
    answer = await reply.read()
    if reply.status in (404, 409):
        return False
    if reply.status >= 300:
        raise BootstrapError(f"{method} {path} was answered with {reply.status}: {answer.decode()}")
    return True


def _reconciled(existing: Object, expected: Object) -> Object | None:
    """Return the existing object with what it lacks, None if that is nothing; the expected one if it is replaced."""
    if "roleRef" in expected and existing.get("roleRef") != expected["roleRef"]:
        return expected
    result = {**existing, "metadata": dict(existing["metadata"])}
    for field in ("labels", "annotations"):
        result["metadata"][field] = {**expected["metadata"][field], **(existing["metadata"].get(field) or {})}
    if "roleRef" in expected:
        subjects = existing.get("subjects") or []
        missing = [subject for subject in expected.get("subjects", ()) if subject not in subjects]
        if missing:
            result["subjects"] = [*subjects, *missing]
    else:
        _reconcile_rules(existing, expected, result)
    return None if result == existing else result


def _reconcile_rules(existing: Object, expected: Object, result: Object) -> None:
    rules = existing.get("rules") or []
    if rules != expected.get("rules"):
        try:
            missing = missing_rules([Rule(rule) for rule in rules], expected.get("rules") or ())
        except TooManyRules:
            missing = [rule for rule in expected.get("rules") or () if rule not in rules]
        if missing:
            result["rules"] = [*rules, *missing]
    if "aggregationRule" not in expected:
        result.pop("aggregationRule", None)
        return
    selectors = (existing.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing_selectors = [one for one in expected["aggregationRule"]["clusterRoleSelectors"] if one not in selectors]
    if missing_selectors:
        result["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *missing_selectors]}
