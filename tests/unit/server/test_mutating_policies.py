"""MutatingAdmissionPolicy: what its mutations make of objects, in which order, and how they fail."""

import pytest

from api_client import CM, DEPLOY, NS, cm, served

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/mutatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/mutatingadmissionpolicybindings"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": ["", "apps"], "apiVersions": ["v1"], "resources": ["*"]}
ADD_LABEL = "Object{metadata: Object.metadata{labels: {'added': 'yes'}}}"


def patch(source):
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": source}}


def apply(source):
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": source}}


async def install(api, *mutations, name="p", reinvocation="Never", bound=None, **spec):
    spec = {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": list(mutations),
        "reinvocationPolicy": reinvocation,
        **spec,
    }
    await api.made(POLICIES, {"metadata": {"name": name}, "spec": spec})
    await api.made(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, **(bound or {})}})


def deployment(**pod):
    containers = [{"name": "main", "image": "a:1"}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **pod}}
    return {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}


def denied(message):
    return f"policy 'p' with binding 'p' denied request: {message}"


@served
async def test_a_policy_is_applied_from_its_binding_until_its_deletion(api):
    await install(api, apply(ADD_LABEL))
    made = await api.post(CM, cm("a", metadata={"labels": {"own": "1"}}))
    assert made.metadata["labels"] == {"own": "1", "added": "yes"}
    changed = await api.patch(f"{CM}/a", {"metadata": {"labels": {"added": None}}})
    assert changed.metadata["labels"] == {"own": "1", "added": "yes"}
    await api.delete(f"{POLICIES}/p")
    assert "labels" not in (await api.post(CM, cm("b"))).metadata


@served
async def test_lists_are_merged_by_key_and_get_defaults(api):
    side = "Object.spec.template.spec.containers{name: 'side', image: 's:1'}"
    source = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{side}]}}}}}}}}"
    await install(api, apply(source))
    containers = (await api.post(DEPLOY, deployment()))["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["imagePullPolicy"]) for one in containers] == [
        ("main", "IfNotPresent"),
        ("side", "IfNotPresent"),
    ]


@served
async def test_json_patches_escape_keys_and_a_failed_test_changes_nothing(api):
    key = "jsonpatch.escapeKey('example.com/a')"
    await install(
        api,
        patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'n': object.metadata.name}}]"),
        patch(f"[JSONPatch{{op: 'add', path: '/metadata/annotations/' + {key}, value: 'x'}}]"),
        patch("[JSONPatch{op: 'test', path: '/data/k', value: 'w'}, JSONPatch{op: 'remove', path: '/data'}]"),
    )
    made = await api.post(CM, cm("a", data={"k": "v"}))
    assert made.metadata["annotations"] == {"n": "a", "example.com/a": "x"}
    assert made["data"] == {"k": "v"}
    assert "data" not in (await api.post(CM, cm("b", data={"k": "w"}))).json


@pytest.mark.parametrize(
    ("mutation", "error"),
    [
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            (
                "JSON Patch: error in remove for path: '/data/none': "
                "Unable to remove nonexistent key: none: missing value"
            ),
        ),
        (patch("[JSONPatch{op: 'x', path: '/data'}]"), "JSON Patch: Unexpected kind: x"),
        (
            patch("[JSONPatch{op: 'add', path: '/data', value: object.x}]"),
            "expression '[JSONPatch{op: 'add', path: '/data', value: object.x}]' resulted in error: no such key: x",
        ),
        (
            apply("Object{nothing: 1}"),
            (
                "error applying patch: failed to convert patch object to typed object: .nothing: "
                "field not declared in schema"
            ),
        ),
        (
            apply("Object{metadata: Object.data{}}"),
            (
                'type mismatch: unexpected type name "Object.data", expected "Object.metadata", '
                "which matches field name path from root Object type"
            ),
        ),
    ],
)
@served
async def test_a_mutation_that_fails_refuses_the_request(api, mutation, error):
    await install(api, mutation)
    answer = await api.post(CM, cm("a", data={"k": "v"}))
    assert answer.error == (403, "Invalid", denied(error))
    assert answer["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": denied(error)}]}
    await api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})
    assert (await api.post(CM, cm("a", data={"k": "v"}))).status == 201


@served
async def test_atomic_fields_cannot_be_applied(api):
    await install(api, apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}"))
    assert (await api.post(DEPLOY, deployment())).message == denied(
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        ".spec.selector"
    )


@served
async def test_unknown_fields_of_a_json_patch_are_an_error(api):
    await install(api, patch("[JSONPatch{op: 'add', path: '/nothing', value: 1}]"))
    assert (await api.post(CM, cm("a"))).error == (
        500,
        "InternalError",
        'Internal error occurred: strict decoding error: unknown field "nothing"',
    )


@served
async def test_a_policy_that_cannot_be_configured_forbids(api):
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await install(api, apply(ADD_LABEL), paramKind=kind)
    text = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    assert (await api.post(CM, cm("a"))).error == (403, "Forbidden", f'policy "p" denied request: {text}')


@served
async def test_params_are_used(api):
    await api.made(CM, cm("defaults", data={"team": "red"}))
    reference = {"name": "defaults", "parameterNotFoundAction": "Deny"}
    source = "Object{metadata: Object.metadata{labels: {'team': string(params.data.team)}}}"
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await install(api, apply(source), paramKind=kind, bound={"paramRef": reference})
    assert (await api.post(CM, cm("a"))).metadata["labels"] == {"team": "red"}


@served
async def test_earlier_policies_are_invoked_again_if_they_want_it(api):
    after = "has(object.metadata.labels) && 'b' in object.metadata.labels"
    for name, reinvocation in (("a-needed", "IfNeeded"), ("a-never", "Never")):
        source = f"{after} ? Object{{metadata: Object.metadata{{labels: {{'{name}': 'yes'}}}}}} : Object{{}}"
        await install(api, apply(source), name=name, reinvocation=reinvocation)
    await install(api, apply("Object{metadata: Object.metadata{labels: {'b': 'yes'}}}"), name="b")
    assert (await api.post(CM, cm("x"))).metadata["labels"] == {"b": "yes", "a-needed": "yes"}


@served
async def test_match_conditions_decide_about_mutations(api):
    conditions = [{"name": "c", "expression": "object.metadata.labels.tier == 'front'"}]
    await install(api, apply(ADD_LABEL), matchConditions=conditions)
    assert (await api.post(CM, cm("a", metadata={"labels": {"tier": "back"}}))).metadata["labels"] == {"tier": "back"}
    assert "added" in (await api.post(CM, cm("b", metadata={"labels": {"tier": "front"}}))).metadata["labels"]
    assert (await api.post(CM, cm("c"))).message == denied(
        "expression 'object.metadata.labels.tier == 'front'' resulted in error: no such key: labels"
    )


@served
async def test_what_is_mutated_is_validated_and_not_owned(api):
    await install(api, apply("Object{metadata: Object.metadata{labels: {'added': 'not a value'}}}"))
    assert (await api.post(CM, cm("a"))).status == 422
    await api.delete(f"{POLICIES}/p")
    await install(api, apply(ADD_LABEL), name="q", bound={"policyName": "q"})
    made = await api.post(CM, cm("a", data={"k": "v"}))
    assert "f:metadata" not in made.metadata["managedFields"][0]["fieldsV1"]
    assert (await api.get(f"{NS}/default/configmaps/a")).metadata["labels"] == {"added": "yes"}
