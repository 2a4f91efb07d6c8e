"""The validatingadmissionpolicy-status-controller: checks the expressions of policies against the schemas they match.

A policy whose expressions name fields that the matched kinds do not have is accepted, and warned about in its status.
Each generation of a policy is checked once, with the schemas of that moment. Applies the status with a field manager of
its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kapi.api.meta import GroupResource, GroupVersion
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_unless_deleted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.registry.resource import Resource
    from kapi.schema.cel.types import Type

POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
_OFF_LOOP_BYTES: Final = 4096
"""Policies of at least so many bytes are checked in a thread."""
_MOST_KINDS: Final = 10
"""The kinds that one rule of a policy is checked for."""


def add_validatingadmissionpolicy_status_controller(context: ControllerContext) -> None:
    """Add the controller of the status of policies."""
    context.add(
        names.VALIDATINGADMISSIONPOLICY_STATUS,
        PolicyStatusController(context),
        enqueue={POLICIES: enqueue_unless_deleted},
        initial=context.all_of(POLICIES),
    )


class PolicyStatusController:
    """Reconciles the status of ValidatingAdmissionPolicies."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def reconcile(self, request: Request) -> None:
        """Check a policy that has changed since it was checked."""
        item = self._context.view.find(POLICIES, *request)
        if item is None:
            return
        policy = self._context.view.decode(POLICIES, item)
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return
        warnings = await asyncio.to_thread(
            _warnings, policy["spec"], self._matched(policy["spec"]), self._params(policy)
        )
        resource = self._context.view.of_kind(policy["apiVersion"], policy["kind"])
        assert resource is not None
        checking = {"expressionWarnings": warnings} if warnings else {}
        applied = {
            "apiVersion": policy["apiVersion"],
            "kind": policy["kind"],
            "metadata": {"name": request.name},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        }
        client = self._context.writer.resource(resource)
        manager = names.VALIDATINGADMISSIONPOLICY_STATUS
        await client.apply(applied, field_manager=manager, force=True, subresource="status")

    def _matched(self, spec: Mapping[str, Any]) -> list[Resource]:
        """Return the resources that the rules of a policy name, in order of their kinds."""
        found: dict[str, Resource] = {}
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            for number, resource in enumerate(self._named(rule), 1):
                found[resource.gvk.api_version + resource.kind] = resource
                if number == _MOST_KINDS:
                    return sorted(found.values(), key=lambda one: one.gvk)
        return sorted(found.values(), key=lambda one: one.gvk)

    def _named(self, rule: Mapping[str, Any]) -> Iterator[Resource]:
        """Yield the resources that a rule names; what it means by wildcards, and sub-resources, are not checked."""
        groups, versions = (sorted(rule.get(field) or ()) for field in ("apiGroups", "apiVersions"))
        if any("*" in one for one in (*groups, *versions)):
            return
        plain = sorted(one for one in rule.get("resources") or () if "*" not in one and "/" not in one)
        for group in groups:
            for version in versions:
                for name in plain:
                    known = self._context.view.resource(GroupResource(group, name))
                    if known is None:
                        continue
                    found = self._context.view.of_kind(str(GroupVersion(group, version)), known.kind)
                    if found is not None:
                        yield found

    def _params(self, policy: Mapping[str, Any]) -> Resource | None:
        kind = policy["spec"].get("paramKind")
        return None if kind is None else self._context.view.of_kind(kind.get("apiVersion", ""), kind.get("kind", ""))


def _warnings(spec: Mapping[str, Any], matched: list[Resource], params: Resource | None) -> list[dict[str, str]]:
    # Imported here: most servers have no policy.
    from kapi.schema.admission.typecheck import CheckedKind, expression_warnings
    from kapi.schema.cel.types import DYN

    kinds = [CheckedKind(one.gvk, of) for one in matched if (of := _type(one)) is not None]
    return expression_warnings(spec, kinds, (None if params is None else _type(params)) or DYN)


def _type(resource: Resource) -> Type | None:
    from kapi.schema.admission.typecheck import builtin_type, custom_type

    if resource.custom is None:
        return builtin_type(resource.gvk)
    return custom_type(resource.gvk, resource.custom.props)
