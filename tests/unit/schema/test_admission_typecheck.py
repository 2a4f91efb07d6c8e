"""Type checking of policies: the warnings are those that kube-controller-manager wrote."""

import json
import re
from pathlib import Path

import pytest

from kapi.api.meta import GroupVersionKind
from kapi.schema.admission.typecheck import CheckedKind, builtin_type, custom_type, expression_warnings
from kapi.schema.cel.types import DYN
from policy_programs import WIDGETS

RECORDED = json.loads((Path(__file__).parents[2] / "recordings" / "policy_type_checks.json").read_text())
KINDS = {
    "configmaps": "ConfigMap",
    "customresourcedefinitions": "CustomResourceDefinition",
    "deployments": "Deployment",
    "pods": "Pod",
    "replicasets": "ReplicaSet",
    "widgets": "Widget",
}
WIDGET_SCHEMA = WIDGETS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def checked_kinds(rules):
    for rule in rules:
        for resource in sorted(KINDS.keys() & set(rule["resources"])):
            kind = GroupVersionKind(rule["apiGroups"][0], rule["apiVersions"][0], KINDS[resource])
            yield CheckedKind(kind, builtin_type(kind) or custom_type(kind, WIDGET_SCHEMA))


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["validations"][0]["expression"])
def test_warnings_are_those_of_kubernetes(case):
    params = case["more"].get("paramKind")
    of = DYN if params is None else builtin_type(GroupVersionKind("", params["apiVersion"], params["kind"])) or DYN
    spec = {**case["more"], "validations": case["validations"]}
    found = expression_warnings(spec, list(checked_kinds(case["rules"])), of)
    expected = case["status"].get("typeChecking", {}).get("expressionWarnings", [])
    # Kubernetes puts the nanoseconds of the clock into the names of types.
    for warning in expected:
        warning["warning"] = re.sub(r"(Deployment)\d+", r"\1", warning["warning"])
    assert found == expected


def test_the_recording_has_warnings_and_correct_expressions():
    warned = sum(len(case["status"].get("typeChecking", {}).get("expressionWarnings", [])) for case in RECORDED)
    assert 0 < warned < sum(len(case["validations"]) for case in RECORDED)
