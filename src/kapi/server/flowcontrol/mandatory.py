"""The mandatory FlowSchemas and priority levels, which are in force whether they are stored or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

EXEMPT: Final = "exempt"
CATCH_ALL: Final = "catch-all"

_ALL: Final = ["*"]
ANY_RESOURCE: Final = {"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL, "clusterScope": True, "namespaces": _ALL}
ANY_PATH: Final = {"verbs": _ALL, "nonResourceURLs": _ALL}


def _rule(*groups: str) -> dict[str, Any]:
    subjects = [{"kind": "Group", "group": {"name": name}} for name in groups]
    return {"subjects": subjects, "resourceRules": [ANY_RESOURCE], "nonResourceRules": [ANY_PATH]}


LEVELS: Final[Mapping[str, dict[str, Any]]] = {
    EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    CATCH_ALL: {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}
SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    EXEMPT: {
        "matchingPrecedence": 1,
        "priorityLevelConfiguration": {"name": EXEMPT},
        "rules": [_rule("system:masters")],
    },
    CATCH_ALL: {
        "matchingPrecedence": 10000,
        "priorityLevelConfiguration": {"name": CATCH_ALL},
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [_rule("system:unauthenticated", "system:authenticated")],
    },
}


def objects(specs: Mapping[str, dict[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return objects with these specs, by name."""
    return {name: {"metadata": {"name": name}, "spec": spec} for name, spec in specs.items()}
