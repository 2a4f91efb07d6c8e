"""ValidatingAdmissionPolicy: effective at once, with all actions, params of all kinds, budgets, and broken objects."""

import json
from pathlib import Path

import yaml

from api_client import CM, DEPLOY, NS, cm, served
from kapi.server.admission.expressions import LOOP_ALLOWANCE
from kapi.server.admission.policies.validating import FAILURE_ANNOTATION

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def policy(name="p", *, validations=None, **spec):
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": validations or [], **spec}
    return {"metadata": {"name": name}, "spec": spec}


def binding(name="b", *, actions=("Deny",), **spec):
    return {"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": list(actions), **spec}}


async def install(api, *validations, actions=("Deny",), bound=None, **spec):
    await api.made(POLICIES, policy(validations=[{"expression": one} for one in validations], **spec))
    await api.made(BINDINGS, binding(actions=actions, **(bound or {})))


def denied(message):
    return f"configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {message}"


@served
async def test_a_policy_is_enforced_from_its_binding_until_its_deletion(api):
    await api.made(POLICIES, policy(validations=[{"expression": "object.data.size() < 2", "message": "too much"}]))
    data = {"x": "1", "y": "2"}
    assert (await api.post(CM, cm("before", data=data))).status == 201
    await api.made(BINDINGS, binding())
    assert (await api.post(CM, cm("a", data=data))).error == (422, "Invalid", denied("too much"))
    await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "true"}]}})
    assert (await api.post(CM, cm("a", data=data))).status == 201
    await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false"}]}})
    assert (await api.post(CM, cm("b", data=data))).status == 422
    await api.delete(f"{BINDINGS}/b")
    assert (await api.post(CM, cm("b", data=data))).status == 201


@served
async def test_every_way_to_write_is_checked(api):
    await api.made(CM, cm("a"))
    await install(api, "!has(object.data)")
    bad = cm("a", data={"x": "1"})
    message = denied("failed expression: !has(object.data)")
    assert (await api.put(f"{CM}/a", bad)).message == message
    assert (await api.patch(f"{CM}/a", {"data": {"x": "1"}})).message == message
    apply = {"apiVersion": "v1", "kind": "ConfigMap", **bad}
    applied = await api.patch(f"{CM}/a", apply, "application/apply-patch+yaml", fieldManager="m", force="true")
    assert applied.message == message
    assert (await api.put(f"{CM}/a", bad, dryRun="All")).message == message
    assert (await api.put(f"{CM}/a", cm("a"))).status == 200


@served
async def test_deletions_are_checked_with_the_stored_object(api):
    rule = {**RULE, "operations": ["DELETE"]}
    await api.made(CM, cm("a", metadata={"labels": {"keep": "yes"}}))
    await api.made(CM, cm("b"))
    expression = "object == null && !has(oldObject.metadata.labels)"
    await install(api, expression, matchConstraints={"resourceRules": [rule]})
    assert (await api.delete(f"{CM}/a")).status == 422
    assert (await api.delete(f"{CM}/b")).status == 200
    assert (await api.delete(CM)).message.startswith('configmaps "Unknown" is forbidden: ')
    assert (await api.get(f"{CM}/a")).status == 200


@served
async def test_warn_and_audit_let_the_request_pass(api):
    await install(api, "true", "1 > 2", "object.x == 1", actions=["Warn", "Audit"])
    answer = await api.post(CM, cm("a"))
    assert answer.status == 201
    prefix = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
    errors = ["failed expression: 1 > 2", "expression 'object.x == 1' resulted in error: no such key: x"]
    assert answer.warnings == [prefix + error for error in errors]


@served
async def test_failures_and_annotations_are_for_the_audit_log(api):
    annotations = [{"key": "size", "valueExpression": "'n=' + string(object.data.size())"}]
    await install(api, "object.data.size() < 1", actions=["Audit"], auditAnnotations=annotations)
    seen = {}
    admission = api.services.admission
    validate = admission.validate

    async def recorded(write, obj, old):
        await validate(write, obj, old)
        seen.update(write.audit_annotations)

    admission.validate = recorded
    assert (await api.post(CM, cm("a", data={"x": "1"}))).status == 201
    assert seen["p/size"] == "n=1"
    assert seen[FAILURE_ANNOTATION] == (
        '[{"message":"failed expression: object.data.size() \\u003c 1","policy":"p","binding":"b",'
        '"expressionIndex":0,"validationActions":["Audit"]}]'
    )
    assert json.loads(seen[FAILURE_ANNOTATION])[0]["expressionIndex"] == 0


@served
async def test_a_failed_audit_annotation_refuses_the_request(api):
    annotations = [{"key": "k", "valueExpression": "string(object.x)"}]
    await install(api, "true", actions=["Warn"], auditAnnotations=annotations)
    assert (await api.post(CM, cm("a"))).message == denied(
        "expression 'string(object.x)' resulted in error: no such key: x"
    )
    await api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})
    assert (await api.post(CM, cm("a"))).status == 201


@served
async def test_an_error_is_a_refusal_unless_failures_are_ignored(api):
    await install(api, "object.data.x == 'y'")
    refused = await api.post(CM, cm("a"))
    assert refused.error == (
        422,
        "Invalid",
        denied("expression 'object.data.x == 'y'' resulted in error: no such key: data"),
    )
    await api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})
    assert (await api.post(CM, cm("a"))).status == 201


@served
async def test_reasons_have_their_codes(api):
    for reason, code in (("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)):
        name = reason.lower()
        await api.made(POLICIES, policy(name, validations=[{"expression": "false", "reason": reason, "message": "m"}]))
        bound = binding(name)
        bound["spec"]["policyName"] = name
        await api.made(BINDINGS, bound)
        answer = await api.post(CM, cm("a"))
        assert answer.error[:2] == (code, reason)
        assert answer["details"]["causes"] == [
            {"message": f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: m"}
        ]
        await api.delete(f"{BINDINGS}/{name}")


# -- params -----------------------------------------------------------------------------------------------------------

PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = "object.metadata.name == 'limits' || int(params.data.max) >= object.data.size()"


@served
async def test_each_policy_gets_the_variables_that_its_own_expressions_name(api):
    # The first names none, and each of the others one more, in another kind of expression.
    refusing = {"expression": "object.metadata.name != 'a'", "messageExpression": "namespaceObject.metadata.name"}
    specs = {
        "p0": {"validations": [{"expression": "true"}]},
        "p1": {"validations": [{"expression": "request.operation == 'CREATE' && oldObject == null"}]},
        "p2": {
            "variables": [{"name": "home", "expression": "namespaceObject.metadata.name"}],
            "validations": [{"expression": "variables.home == object.metadata.namespace"}],
        },
        "p3": {
            "matchConditions": [{"name": "c", "expression": "request.name == object.metadata.name"}],
            "validations": [refusing],
        },
        "p4": {"validations": [{"expression": "variables.later", "message": "four"}]},
    }
    specs["p4"]["variables"] = [{"name": "later", "expression": "request.name != 'b'"}]
    for name, spec in specs.items():
        await api.made(POLICIES, policy(name, **spec))
        await api.made(BINDINGS, binding(f"b-{name}", policyName=name))
    assert (await api.post(CM, cm("a"))).message.endswith("'p3' with binding 'b-p3' denied request: default")
    assert (await api.post(CM, cm("b"))).message.endswith("'p4' with binding 'b-p4' denied request: four")
    assert (await api.post(CM, cm("c"))).status == 201


@served
async def test_all_bindings_of_a_policy_without_params_apply(api):
    await install(api, "object.metadata.name == 'c'", actions=["Warn"])
    await api.made(BINDINGS, binding("other", actions=["Warn"]))
    warnings = (await api.post(CM, cm("a"))).warnings
    assert [warning.split("'")[3] for warning in warnings] == ["b", "other"]
    assert (await api.post(CM, cm("c"))).warnings == []


@served
async def test_params_are_read_as_they_are_now(api):
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    await install(api, LIMIT, paramKind=PARAM_KIND, bound={"paramRef": reference})
    missing = denied(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    assert (await api.post(CM, cm("a", data={"x": "1"}))).message == missing
    await api.delete(f"{BINDINGS}/b")
    await api.made(CM, cm("limits", data={"max": "1"}))
    await api.made(BINDINGS, binding(paramRef=reference))
    assert (await api.post(CM, cm("a", data={"x": "1"}))).status == 201
    assert (await api.put(f"{CM}/a", cm("a", data={"x": "1", "y": "2"}))).status == 422
    await api.patch(f"{CM}/limits", {"data": {"max": "2"}})
    assert (await api.put(f"{CM}/a", cm("a", data={"x": "1", "y": "2"}))).status == 200


@served
async def test_every_selected_param_must_be_satisfied(api):
    for number in (1, 3):
        labels = {"labels": {"role": "limits"}}
        await api.made(CM, cm(f"limits-{number}", data={"max": str(number)}, metadata=labels))
    reference = {"selector": {"matchLabels": {"role": "limits"}}, "parameterNotFoundAction": "Allow"}
    expression = "int(params.data.max) >= object.data.size()"
    await install(api, expression, paramKind=PARAM_KIND, bound={"paramRef": reference})
    assert (await api.post(CM, cm("a", data={"x": "1"}))).status == 201
    assert (await api.put(f"{CM}/a", cm("a", data={"x": "1", "y": "2"}))).status == 422
    await api.delete(f"{CM}/limits-1")
    assert (await api.put(f"{CM}/a", cm("a", data={"x": "1", "y": "2"}))).status == 200
    await api.delete(f"{CM}/limits-3")
    assert (await api.put(f"{CM}/a", cm("a", data=dict.fromkeys("abcdef", "")))).status == 200


@served
async def test_an_unknown_kind_of_params_refuses_what_the_policy_matches(api):
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    reference = {"name": "x", "parameterNotFoundAction": "Allow"}
    await install(api, "true", paramKind=kind, bound={"paramRef": reference})
    assert (await api.post(CM, cm("a"))).message == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
        "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    )
    assert (await api.post(f"{NS}/default/secrets", {"metadata": {"name": "a"}})).status == 201


@served
async def test_params_in_other_namespaces_need_a_namespaced_kind(api):
    reference = {"name": "default", "namespace": "default", "parameterNotFoundAction": "Allow"}
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    await install(api, "true", paramKind=kind, bound={"paramRef": reference})
    assert (
        "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        in (await api.post(CM, cm("a"))).message
    )


# -- what is never asked, and what costs much --------------------------------------------------------------------------


@served
async def test_policies_do_not_apply_to_policies(api):
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await install(api, "false", matchConstraints={"resourceRules": [rule]})
    assert (await api.post(CM, cm("a"))).status == 422
    assert (await api.post(POLICIES, policy("q", validations=[{"expression": "true"}]))).status == 201
    assert (await api.delete(f"{BINDINGS}/b")).status == 200


@served
async def test_an_expensive_policy_is_evaluated_off_the_loop_and_within_its_budget(api):
    await install(api, "object.data.all(k, object.data.all(l, l != 'x'))")
    few = {f"k{number}": "" for number in range(200)}
    assert len(few) ** 2 > LOOP_ALLOWANCE
    assert (await api.post(CM, cm("few", data=few))).status == 201
    many = {f"k{number}": "" for number in range(800)}
    assert (await api.post(CM, cm("a", data=many))).message == denied(
        "expression 'object.data.all(k, object.data.all(l, l != 'x'))' resulted in error: operation cancelled: actual "
        "cost limit exceeded"
    )


@served
async def test_a_stored_policy_that_cannot_be_compiled_refuses_what_it_matches(api):
    await install(api, "true")
    store = api.catalog.store("validatingadmissionpolicies.admissionregistration.k8s.io")
    item = store.get("", "p")
    broken = store.decode(item)
    broken["spec"]["validations"] = [{"expression": "no such language"}]
    await store.put(item.key, broken, item.revision)
    message = (await api.post(CM, cm("a"))).message
    assert message.startswith(denied("compilation error: compilation failed: ERROR: <input>:1:4: Syntax error:"))
    assert (await api.post(f"{NS}/default/secrets", {"metadata": {"name": "a"}})).status == 201


@served
async def test_the_checks_that_fail_are_counted(api):
    await install(api, "false", "object.x == 1", actions=["Warn"])
    await api.post(CM, cm("a"))
    labels = 'enforcement_action="warn",error_type="invalid_error",policy="p",policy_binding="b"'
    lines = api.metrics.render().decode().splitlines()
    assert f"apiserver_validating_admission_policy_check_total{{{labels}}} 2.0" in lines
    assert f"apiserver_validating_admission_policy_check_duration_seconds_count{{{labels}}} 2.0" in lines


@served
async def test_the_policy_of_the_how_to_works(api):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "admission.md").read_text()
    text = next(block for block in page.split("```yaml\n") if "kind: ValidatingAdmissionPolicy\n" in block)
    made, bound = yaml.safe_load_all(text.partition("```")[0])
    await api.patch(f"{NS}/default", {"metadata": {"labels": {"team": "red"}}})
    await api.made(CM, cm("limits", data={"most": "3"}))
    await api.made(POLICIES, made)
    await api.made(BINDINGS, bound)
    containers = [{"name": "main", "image": "a"}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await api.made(DEPLOY, {"metadata": {"name": "web"}, "spec": spec})
    answer = await api.patch(f"{DEPLOY}/web", {"spec": {"replicas": 9}})
    assert answer.error[:2] == (403, "Forbidden")
    assert answer.message in page


@served
async def test_a_stored_policy_with_nonsense_in_it_refuses_what_it_matches(api):
    await install(api, "true")
    store = api.catalog.store("validatingadmissionpolicies.admissionregistration.k8s.io")
    item = store.get("", "p")
    broken = store.decode(item)
    broken["spec"]["validations"] = ["nonsense"]
    await store.put(item.key, broken, item.revision)
    refused = await api.post(CM, cm("a"))
    assert refused.status == 422
    assert "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: the policy cannot be read: " in (
        refused.message
    )
    assert (await api.post(f"{NS}/default/secrets", {"metadata": {"name": "a"}})).status == 201


@served
async def test_stored_objects_that_cannot_be_read_disturb_nothing(api):
    await install(api, "object.metadata.name != 'bad'")
    for name, kind in (("validatingadmissionpolicies", "p2"), ("validatingadmissionpolicybindings", "b2")):
        store = api.catalog.store(f"{name}.admissionregistration.k8s.io")
        obj = store.decode(store.get("", "p" if kind == "p2" else "b"))
        obj["metadata"]["name"], obj["spec"] = kind, "nonsense"
        await store.put(store.key("", kind), obj, 0)
    assert (await api.post(CM, cm("a"))).status == 201
    assert (await api.post(CM, cm("bad"))).status == 422
