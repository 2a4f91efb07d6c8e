"""The status of ValidatingAdmissionPolicies tells which fields of their expressions do not exist."""

from controller_api import with_controllers
from kapi.controlplane.controllers.validatingadmissionpolicystatus import (
    add_validatingadmissionpolicy_status_controller,
)
from policy_programs import WIDGETS

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
RULE = {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "replicasets"]}


def policy(*expressions, rule=RULE, **spec):
    validations = [{"expression": one} for one in expressions]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec},
    }


async def status_of(api, made):
    await api.made(POLICIES, made)
    await api.run_until_idle()
    return (await api.get(f"{POLICIES}/p")).json["status"]


@with_controllers(add_validatingadmissionpolicy_status_controller)
async def test_a_field_that_one_of_the_matched_kinds_lacks_is_named(api):
    status = await status_of(api, policy("object.spec.replicas > 1", "object.spec.strategy.type == 'Recreate'"))
    assert status == {
        "observedGeneration": 1,
        "typeChecking": {
            "expressionWarnings": [
                {
                    "fieldRef": "spec.validations[1].expression",
                    "warning": "apps/v1, Kind=ReplicaSet: ERROR: <input>:1:12: undefined field 'strategy'\n"
                    " | object.spec.strategy.type == 'Recreate'\n | ...........^\n",
                }
            ]
        },
    }


@with_controllers(add_validatingadmissionpolicy_status_controller)
async def test_a_changed_policy_is_checked_again(api):
    await status_of(api, policy("object.spec.nothing == 1"))
    await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "object.spec.replicas == 1"}]}})
    await api.run_until_idle()
    checked = (await api.get(f"{POLICIES}/p")).json
    assert checked["status"]["observedGeneration"] == 2
    assert not checked["status"].get("typeChecking")
    managers = {entry["manager"]: entry["operation"] for entry in checked["metadata"]["managedFields"]}
    assert managers["validatingadmissionpolicy-status-controller"] == "Apply"


@with_controllers(add_validatingadmissionpolicy_status_controller)
async def test_custom_kinds_and_params_are_checked_by_their_schemas(api):
    await api.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    rule = {**RULE, "apiGroups": ["policies.example.com"], "resources": ["widgets", "widgets/status"]}
    kind = {"apiVersion": "policies.example.com/v1", "kind": "Widget"}
    status = await status_of(
        api, policy("object.spec.size > params.spec.size", "params.spec.sice > 1", rule=rule, paramKind=kind)
    )
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[1].expression"
    assert "policies.example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'sice'" in warning["warning"]


@with_controllers(add_validatingadmissionpolicy_status_controller)
async def test_what_wildcards_match_is_not_checked(api):
    status = await status_of(api, policy("object.nothing == 1", rule={**RULE, "apiVersions": ["*"]}))
    assert status == {"observedGeneration": 1, "typeChecking": {}}
