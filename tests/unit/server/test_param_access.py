"""Policies and bindings may only refer to params that their writer may read."""

from api_client import NS, served

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
BOB = "&{bob  [devs system:authenticated] map[]}"


async def grant(api, *resources):
    writes = {"verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}
    reads = {"verbs": ["get", "list"], "apiGroups": [""], "resources": list(resources)}
    await api.made(
        f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [writes, *([reads] if resources else [])]}
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    await api.made(f"{RBAC}/clusterrolebindings", binding)


def policy(**spec):
    constraints = {"resourceRules": [RULE]}
    validations = [{"expression": "true"}]
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, "validations": validations, **spec}}


def binding(**reference):
    reference = {"parameterNotFoundAction": "Deny", **reference}
    return {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference},
    }


async def written(api, obj, *, update=False):
    kind = "validatingadmissionpolicies" if "validations" in obj["spec"] else "validatingadmissionpolicybindings"
    path = f"{ADMISSION}/{kind}"
    if update:
        name = obj["metadata"]["name"]
        return await api.patch(f"{path}/{name}", {"spec": obj["spec"]}, transport=api.user("bob", "devs"))
    return await api.post(path, obj, transport=api.user("bob", "devs"))


@served
async def test_the_author_of_a_policy_must_be_able_to_read_all_params(api):
    await grant(api)
    assert (await written(api, policy())).status == 201
    refused = await written(api, policy(paramKind=CONFIG_MAP), update=True)
    assert refused.error == (
        422,
        "Invalid",
        (
            'ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.paramKind: Forbidden: user '
            f'{BOB} must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)'
        ),
    )


@served
async def test_a_policy_that_keeps_its_kind_of_params_may_be_changed(api):
    await grant(api)
    await api.made(f"{ADMISSION}/validatingadmissionpolicies", policy(paramKind=CONFIG_MAP))
    assert (await written(api, policy(paramKind=CONFIG_MAP, failurePolicy="Ignore"), update=True)).status == 200


@served
async def test_who_may_read_the_params_may_use_them(api):
    await grant(api, "configmaps")
    assert (await written(api, policy(paramKind=CONFIG_MAP))).status == 201
    assert (await written(api, binding(name="limits"))).status == 201
    assert (await written(api, binding(selector={}), update=True)).status == 422  # a name and a selector
    other = policy(paramKind={"apiVersion": "v1", "kind": "Secret"})
    assert (await written(api, other, update=True)).status == 422


@served
async def test_the_author_of_a_binding_must_be_able_to_read_its_params(api):
    await grant(api)
    wanted = 'ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io "b" is invalid: spec.paramRef: Forbidden: '
    everything = "permission for all groups, versions and resources"
    refused = await written(api, binding(name="x"))
    assert refused.message == (
        f"{wanted}unable to get policy p to determine minimum required permissions and user {BOB} does not have "
        f'"get" {everything}'
    )
    await api.made(f"{ADMISSION}/validatingadmissionpolicies", policy(paramKind=CONFIG_MAP))
    refused = await written(api, binding(selector={}))
    assert refused.message == (
        f'{wanted}user {BOB} does not have "list" permission on the object referenced by paramRef'
    )
    unknown = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await api.patch(f"{ADMISSION}/validatingadmissionpolicies/p", {"spec": {"paramKind": unknown}})
    refused = await written(api, binding(name="x"))
    assert refused.message == (
        f"{wanted}unable to resolve paramKind &{{example.com/v1 Limit}} to determine minimum required permissions and "
        f'user {BOB} does not have "get" {everything}'
    )


@served
async def test_one_permitted_param_is_enough(api):
    await grant(api)
    await api.made(f"{ADMISSION}/validatingadmissionpolicies", policy(paramKind=CONFIG_MAP))
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["limits"]}]
    await api.made(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "one"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    bound = {"metadata": {"name": "one"}, "roleRef": reference, "subjects": [subject]}
    await api.made(f"{RBAC}/namespaces/default/rolebindings", bound)
    assert (await api.get(f"{NS}/default")).status == 200
    assert (await written(api, binding(name="limits", namespace="default"))).status == 201
    assert (await written(api, binding(name="other", namespace="default"), update=True)).status == 422
