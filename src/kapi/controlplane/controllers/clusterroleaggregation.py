"""The clusterrole-aggregation-controller: the rules of ClusterRoles that are put together from others.

A ClusterRole with an aggregationRule has the rules of all ClusterRoles whose labels match one of its selectors, in the
order of their names, each once. Reads the view; applies the rules with a field manager of its own, so that they are the
controller's in managedFields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.selectors import from_label_selector
from kapi.codec import json
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

CLUSTER_ROLES: Final = "clusterroles.rbac.authorization.k8s.io"

_AGGREGATED: Final = b'"aggregationRule":'
_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def add_clusterrole_aggregation_controller(context: ControllerContext) -> None:
    """Add the controller of aggregated ClusterRoles."""
    controller = ClusterRoleAggregationController(context)
    context.add(
        names.CLUSTERROLE_AGGREGATION,
        controller,
        enqueue={CLUSTER_ROLES: lambda _event: controller.all_aggregated()},
        initial=controller.all_aggregated,
    )


class ClusterRoleAggregationController:
    """Reconciles ClusterRoles that have an aggregationRule."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def all_aggregated(self) -> Iterable[Request]:
        """Requests for all aggregated ClusterRoles: any ClusterRole may be a part of any of them."""
        return [request_for(item) for item in self._context.view.items(CLUSTER_ROLES) if _AGGREGATED in item.body]

    async def reconcile(self, request: Request) -> None:
        """Give a ClusterRole the rules of those it selects."""
        role = self._context.view.get(CLUSTER_ROLES, *request)
        if role is None or not role.get("aggregationRule"):
            return
        rules = self._rules(role)
        if rules != [_meaning(rule) for rule in role.get("rules") or ()]:
            await self._apply(request.name, rules)

    def _rules(self, role: Object) -> list[dict[str, Any]]:
        rules: dict[bytes, dict[str, Any]] = {}
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            for rule in self._selected(selector, role["metadata"]["name"]):
                rules.setdefault(json.encode(rule), rule)
        return list(rules.values())

    def _selected(self, selector: Object, own: str) -> Iterator[dict[str, Any]]:
        """Yield the rules of all ClusterRoles that a selector matches, but for the aggregated one itself."""
        view = self._context.view
        matches = from_label_selector(selector).matches
        for item in view.items(CLUSTER_ROLES):
            if item.name != own and matches(item.labels or {}):
                for rule in view.decode(CLUSTER_ROLES, item).get("rules") or ():
                    yield _meaning(rule)

    async def _apply(self, name: str, rules: list[dict[str, Any]]) -> None:
        resource = self._context.view.of_kind("rbac.authorization.k8s.io/v1", "ClusterRole")
        assert resource is not None
        applied = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "rules": rules,
        }
        client = self._context.writer.resource(resource)
        await client.apply(applied, field_manager=names.CLUSTERROLE_AGGREGATION, force=True)


def _meaning(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule without empty lists, which mean the same as none."""
    return {field: rule[field] for field in _FIELDS if rule.get(field)}
