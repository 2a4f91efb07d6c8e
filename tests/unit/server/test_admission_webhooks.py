"""Admission webhooks in the chain: which are called, in which order, with what, and what becomes of their answers."""

import asyncio
import json

import pytest

from admission_webhook import (
    MUTATING,
    VALIDATING,
    admitted,
    admitting,
    allow,
    allowing,
    configuration,
    data,
    denying,
    label,
    patching,
)
from api_client import APPLY, CM, DEPLOY, NS, PODS, Api, cm, deployment, pod
from webhook_server import Certificates, Reply

HPA = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
MUTATION = "mutation.webhook.admission.k8s.io/round_{}_index_{}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def rule(*resources, operations=("*",), groups=("*",), versions=("*",), **fields):
    return {
        "operations": list(operations),
        "apiGroups": list(groups),
        "apiVersions": list(versions),
        "resources": list(resources),
        **fields,
    }


# -- what is called ---------------------------------------------------------------------------------------------------


@admitted
async def test_a_configuration_is_effective_when_its_write_is_answered(api, webhook):
    webhook.answer = denying(message="no")
    assert (await api.post(CM, cm("before"))).status == 201
    made = await api.validating()
    assert (await api.post(CM, cm("a"))).status == 400
    made["webhooks"][0]["rules"] = [rule("secrets")]
    assert (await api.put(f"{VALIDATING}/it", made)).status == 200
    assert (await api.post(CM, cm("b"))).status == 201
    await api.mutating("other")
    assert (await api.post(CM, cm("c"))).status == 400
    await api.delete(f"{MUTATING}/other")
    assert (await api.post(CM, cm("d"))).status == 201


@admitted
async def test_a_stored_configuration_is_effective_after_a_restart(api, webhook):
    await api.validating()
    webhook.answer = denying(message="no")
    again = Api(api.storage, clock=api.clock)
    await again.catalog.load()
    again.policy.start()
    assert (await again.post(CM, cm("a"))).status == 400
    await again.stop()


@admitted
async def test_requests_that_no_rule_covers_are_not_sent(api, webhook):
    await api.validating(rules=[rule("configmaps", operations=["UPDATE"])])
    await api.mutating(rules=[rule("configmaps/status", "secrets")])
    await api.made(CM, cm("a"))
    await api.delete(f"{CM}/a")
    assert webhook.calls == []


@admitted
async def test_every_operation_is_told(api, webhook):
    await api.validating(rules=[rule("*/*")])
    await api.made(CM, cm("a", data={"x": "1"}))
    await api.patch(f"{CM}/a", {"data": {"x": "2"}})
    await api.patch(f"{CM}/b", cm("b"), APPLY, fieldManager="me")
    await api.delete(f"{CM}/a", gracePeriodSeconds=3)
    told = [(one["operation"], one["name"], one["options"]) for one in webhook.requests]
    options = {"apiVersion": "meta.k8s.io/v1"}
    assert told == [
        ("CREATE", "a", {"kind": "CreateOptions", **options}),
        ("UPDATE", "a", {"kind": "UpdateOptions", **options}),
        ("CREATE", "b", {"kind": "CreateOptions", "fieldManager": "me", **options}),
        ("DELETE", "a", {"kind": "DeleteOptions", "gracePeriodSeconds": 3, **options}),
    ]
    created, updated, _, deleted = webhook.requests
    assert created["oldObject"] is None
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"x": "1"}, {"x": "2"})
    assert deleted["object"] is None
    assert deleted["oldObject"]["data"] == {"x": "2"}


@admitted
async def test_a_review_is_what_kubernetes_sends(api, webhook):
    await api.mutating(rules=[rule("deployments/scale", operations=["UPDATE"])])
    made = await api.made(DEPLOY, deployment("d"))
    bob = api.user("bob", "devs", "system:masters")
    answer = await api.request(
        "PATCH",
        f"{DEPLOY}/d/scale",
        {"spec": {"replicas": 3}},
        headers={"content-type": "application/merge-patch+json"},
        transport=bob,
        dryRun="All",
    )
    assert answer.status == 200, answer
    (call,) = webhook.calls
    assert call.target == "/admit?timeout=30s"
    assert call.headers["content-type"] == "application/json"
    review = call.review
    request = review.pop("request")
    assert review == {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 3}, {"replicas": 1})
    assert request["object"]["kind"] == "Scale"
    assert request["object"]["metadata"]["name"] == made["metadata"]["name"]
    assert {key: request[key] for key in request.keys() - {"uid", "object", "oldObject"}} == {
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "requestKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestSubResource": "scale",
        "name": "d",
        "namespace": "default",
        "operation": "UPDATE",
        "userInfo": {"username": "bob", "groups": ["devs", "system:masters", "system:authenticated"]},
        "dryRun": True,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
    }


@admitted
async def test_each_object_of_a_collection_is_asked_about_without_a_name(api, webhook):
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    await api.validating(rules=[rule("configmaps", operations=["DELETE"])])
    assert (await api.delete(CM)).status == 200
    assert sorted(one["oldObject"]["metadata"]["name"] for one in webhook.requests) == ["a", "b"]
    assert ["name" in one for one in webhook.requests] == [False, False]


@admitted
async def test_a_refused_deletion_leaves_the_object(api, webhook):
    await api.made(CM, cm("a"))
    await api.validating()
    webhook.answer = denying(message="keep it")
    assert (await api.delete(f"{CM}/a")).error[2].endswith("denied the request: keep it")
    assert (await api.delete(CM)).status == 400
    assert (await api.get(f"{CM}/a")).status == 200


@admitted
async def test_connections_are_asked_about(api, webhook):
    await api.made(PODS, pod("p"))
    await api.validating(rules=[rule("pods/exec", operations=["CONNECT"])])
    webhook.answer = denying(message="no shells", code=403)
    answer = await api.post(f"{PODS}/p/exec?command=sh&command=-c&container=c", b"")
    assert answer.error == (403, "", 'admission webhook "hook.example.dev" denied the request: no shells')
    (request,) = webhook.requests
    assert request["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "container": "c",
        "command": ["sh", "-c"],
    }
    assert (request["options"], request["subResource"], request["name"]) == (None, "exec", "p")


@admitted
async def test_evictions_and_bindings_are_asked_about(api, webhook):
    await api.made(PODS, pod("p"))
    await api.validating(rules=[rule("pods/eviction", "pods/binding")])
    target = {"kind": "Node", "name": "n"}
    await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
    await api.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert [one["kind"]["kind"] for one in webhook.requests] == ["Binding", "Eviction"]


@admitted
async def test_the_configurations_of_admission_are_never_asked_about(api, webhook):
    await api.validating(rules=[rule("*/*")])
    await api.mutating(rules=[rule("*/*")])
    webhook.answer = denying(message="no")
    for path in (VALIDATING, MUTATING):
        assert (await api.patch(f"{path}/it", {"metadata": {"labels": {"a": "b"}}})).status == 200
        assert (await api.delete(f"{path}/it")).status == 200
    assert webhook.calls == []


@admitted
async def test_selectors_decide_by_namespace_and_labels(api, webhook):
    await api.made(NS, {"metadata": {"name": "prod", "labels": {"tier": "prod"}}})
    await api.validating(
        namespaceSelector={"matchLabels": {"tier": "prod"}}, objectSelector={"matchLabels": {"checked": "yes"}}
    )
    checked = {"labels": {"checked": "yes"}}
    await api.made(CM, cm("a", metadata=checked))
    await api.made(f"{NS}/prod/configmaps", cm("b"))
    await api.made(f"{NS}/prod/configmaps", cm("c", metadata=checked))
    await api.patch(f"{NS}/prod/configmaps/c", {"metadata": {"labels": None}})
    assert [(one["operation"], one["name"]) for one in webhook.requests] == [("CREATE", "c"), ("UPDATE", "c")]


@admitted
async def test_a_namespace_selector_follows_the_labels_of_namespaces(api, webhook):
    await api.validating(namespaceSelector={"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
    for namespace in ("one", "two"):
        await api.made(NS, {"metadata": {"name": namespace}})
    for number, (namespace, tier) in enumerate(
        [("one", None), ("one", "prod"), ("two", None), ("one", "prod"), ("one", None), ("two", "prod"), ("one", None)]
    ):
        await api.patch(f"{NS}/{namespace}", {"metadata": {"labels": {"tier": tier}}})
        await api.made(f"{NS}/{namespace}/configmaps", cm(f"a{number}"))
    assert [one["name"] for one in webhook.requests] == ["a0", "a2", "a4", "a6"]


@admitted
async def test_match_conditions_decide_last(api, webhook):
    conditions = [
        {"name": "not-kube", "expression": "!object.metadata.name.startsWith('kube-')"},
        {"name": "by-alice", "expression": "request.userInfo.username != 'bob'"},
    ]
    await api.mutating(matchConditions=conditions)
    await api.made(CM, cm("kube-a"))
    await api.made(CM, cm("a"))
    await api.request("POST", CM, cm("b"), transport=api.user("bob", "system:masters"))
    assert [one["name"] for one in webhook.requests] == ["a"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 403), ("Ignore", 201)])
@admitted
async def test_a_match_condition_that_fails_refuses_or_excludes_by_the_failure_policy(api, webhook, policy, status):
    condition = {"name": "broken", "expression": "object.data.missing == 'x'"}
    await api.validating(matchConditions=[condition], failurePolicy=policy)
    answer = await api.post(CM, cm("a"))
    assert (answer.status, webhook.calls) == (status, [])
    if policy == "Fail":
        assert answer.message.startswith('configmaps "a" is forbidden: expression ')


# -- mutating ---------------------------------------------------------------------------------------------------------


@admitted
async def test_a_patch_changes_what_is_stored(api, webhook):
    await api.mutating()
    webhook.answer = patching(data("x"), {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})
    answer = await api.post(CM, cm("a", data={"a": "b"}))
    assert answer.json["data"] == {"a": "b", "x": "yes"}
    stored = await api.get(f"{CM}/a")
    assert (stored.json["data"], stored.metadata["labels"]) == ({"a": "b", "x": "yes"}, {"seen": "yes"})


@admitted
async def test_webhooks_are_called_in_the_order_of_their_configurations_and_see_each_others_changes(api, webhook):
    hooks = [webhook.webhook(f"{name}.example.dev", path=f"/{name}") for name in "dcba"]
    for name in "abcd":
        webhook.paths[f"/{name}"] = patching(label(name))
    await api.made(MUTATING, configuration(hooks[0], hooks[1], name="z"))
    await api.made(MUTATING, configuration(hooks[3], hooks[2], name="y"))
    made = await api.made(CM, cm("a", metadata={"labels": {"first": "yes"}}))
    assert webhook.called_paths == ["/a", "/b", "/d", "/c"]
    assert set(made["metadata"]["labels"]) == {"first", "a", "b", "c", "d"}
    assert [set(one["object"]["metadata"]["labels"]) for one in webhook.requests] == [
        {"first"},
        {"first", "a"},
        {"first", "a", "b"},
        {"first", "a", "b", "d"},
    ]


@admitted
async def test_a_patch_gets_the_defaults_of_what_it_adds(api, webhook):
    await api.mutating(rules=[rule("pods")])
    sidecar = {"name": "envoy", "image": "envoy:1"}
    webhook.answer = patching({"op": "add", "path": "/spec/containers/-", "value": sidecar})
    made = await api.made(PODS, pod("p"))
    added = made["spec"]["containers"][1]
    assert (added["name"], added["terminationMessagePath"], added["imagePullPolicy"]) == (
        "envoy",
        "/dev/termination-log",
        "IfNotPresent",
    )


@admitted
async def test_what_a_patch_makes_of_an_object_is_validated(api, webhook):
    await api.mutating(rules=[rule("pods")])
    webhook.answer = patching({"op": "remove", "path": "/spec/containers/0"})
    answer = await api.post(PODS, pod("p"))
    assert answer.error[:2] == (422, "Invalid")
    assert "spec.containers: Required value" in answer.message


@admitted
async def test_an_update_may_not_be_patched_into_another_object(api, webhook):
    await api.made(CM, cm("a"))
    await api.mutating()
    for field in ("name", "uid"):
        webhook.answer = patching({"op": "replace", "path": f"/metadata/{field}", "value": "other"})
        answer = await api.patch(f"{CM}/a", {"data": {"x": "y"}})
        assert answer.error[:2] == (422, "Invalid"), answer
        assert f"metadata.{field}: Invalid value" in answer.message
    assert "data" not in (await api.get(f"{CM}/a")).json


@admitted
async def test_a_deletion_cannot_be_patched(api, webhook):
    await api.made(CM, cm("a"))
    await api.mutating()
    webhook.answer = patching(data("x"))
    why = "attempted to modify the object, which is not supported for this operation"
    assert (await api.delete(f"{CM}/a")).message == (
        f'Internal error occurred: admission webhook "hook.example.dev" {why}'
    )


@admitted
async def test_a_webhook_that_wants_it_is_called_again_after_a_later_change(api, webhook):
    hooks = [
        webhook.webhook("a.example.dev", path="/a", reinvocationPolicy="IfNeeded"),
        webhook.webhook("b.example.dev", path="/b"),
        webhook.webhook("c.example.dev", path="/c", reinvocationPolicy="IfNeeded"),
    ]
    webhook.paths["/b"] = patching(label("b"))
    await api.made(MUTATING, configuration(*hooks))
    await api.made(CM, cm("a", metadata={"labels": {"first": "yes"}}))
    assert webhook.called_paths == ["/a", "/b", "/c", "/a"]
    assert "b" in webhook.requests[-1]["object"]["metadata"]["labels"]


@admitted
async def test_no_webhook_is_called_again_without_a_change(api, webhook):
    hooks = [webhook.webhook(f"{name}.example.dev", path=f"/{name}", reinvocationPolicy="IfNeeded") for name in "ab"]
    await api.made(CM, cm("a", data={"x": "y"}))
    webhook.paths["/b"] = patching({"op": "replace", "path": "/data/x", "value": "y"})
    await api.made(MUTATING, configuration(*hooks))
    assert (await api.patch(f"{CM}/a", {"data": {"x": "y"}})).status == 200
    assert webhook.called_paths == ["/a", "/b"]


@admitted
async def test_the_first_patch_of_an_object_with_new_owners_is_a_change_as_in_kubernetes(api, webhook):
    hooks = [webhook.webhook(f"{name}.example.dev", path=f"/{name}", reinvocationPolicy="IfNeeded") for name in "ab"]
    webhook.paths["/b"] = patching({"op": "test", "path": "/kind", "value": "ConfigMap"})
    await api.made(MUTATING, configuration(*hooks))
    await api.made(CM, cm("a", data={"x": "y"}))
    assert webhook.called_paths == ["/a", "/b", "/a"]


@admitted
async def test_owners_of_fields_are_those_of_the_request(api, webhook):
    await api.mutating()
    webhook.answer = patching(data("x"))
    made = (await api.post(CM, cm("a", data={"a": "b"}), fieldManager="me")).json
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["fieldsV1"]) == ("me", {"f:data": {".": {}, "f:a": {}}})


# -- versions ---------------------------------------------------------------------------------------------------------

SCALER = {
    "metadata": {"name": "h"},
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
    },
}


@admitted
async def test_an_equivalent_version_is_sent_and_patched_in_that_version(api, webhook):
    await api.mutating(rules=[rule("horizontalpodautoscalers", versions=["v1"])])
    webhook.answer = patching({"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 70})
    made = await api.made(HPA.format("v2"), SCALER)
    (request,) = webhook.requests
    assert request["object"]["apiVersion"] == "autoscaling/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert made["apiVersion"] == "autoscaling/v2"
    assert made["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}


@admitted
async def test_exact_rules_leave_other_versions_alone(api, webhook):
    await api.validating(rules=[rule("horizontalpodautoscalers", versions=["v1"])], matchPolicy="Exact")
    await api.made(HPA.format("v2"), SCALER)
    assert webhook.calls == []


GADGETS = "/apis/example.dev/{}/namespaces/default/gadgets"


def gadgets(*versions):
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
                for version in versions
            ],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@admitted
async def test_custom_objects_are_patched_in_the_version_of_the_rule_then_pruned_and_defaulted(api, webhook):
    await api.made(DEFINITIONS, gadgets("v1", "v2"))
    await api.mutating(rules=[rule("gadgets", versions=["v2"])])
    webhook.answer = patching({"op": "add", "path": "/spec", "value": {"unknown": 1}})
    gadget = {"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    made = await api.made(GADGETS.format("v1"), gadget)
    assert webhook.requests[0]["object"]["apiVersion"] == "example.dev/v2"
    assert (made["apiVersion"], made["spec"]) == ("example.dev/v1", {"size": 1})


@admitted
async def test_a_version_that_is_added_to_a_definition_is_equivalent_at_once(api, webhook):
    definition = await api.made(DEFINITIONS, gadgets("v1"))
    await api.validating(rules=[rule("gadgets", versions=["v2"])])
    gadget = {"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    await api.made(GADGETS.format("v1"), gadget)
    assert webhook.calls == []
    definition["spec"]["versions"] = gadgets("v1", "v2")["spec"]["versions"]
    assert (await api.put(f"{DEFINITIONS}/gadgets.example.dev", definition)).status == 200
    await api.made(GADGETS.format("v1"), {**gadget, "metadata": {"name": "h"}})
    assert [one["object"]["apiVersion"] for one in webhook.requests] == ["example.dev/v2"]


# -- validating -------------------------------------------------------------------------------------------------------


@admitted
async def test_validating_webhooks_are_called_at_the_same_time(api, webhook):
    everyone, waiting = asyncio.Event(), []

    async def wait(call):
        waiting.append(call)
        if len(waiting) == 3:
            everyone.set()
        await everyone.wait()
        return Reply(allow(call))

    webhook.answer = wait
    await api.made(VALIDATING, configuration(*(webhook.webhook(f"{name}.example.dev") for name in "abc")))
    assert (await api.post(CM, cm("a"))).status == 201


@admitted
async def test_of_several_refusals_the_first_webhooks_is_returned(api, webhook):
    for name in "abc":
        webhook.paths[f"/{name}"] = denying(message=name) if name != "a" else allowing()
    hooks = [webhook.webhook(f"{name}.example.dev", path=f"/{name}") for name in "abc"]
    await api.made(VALIDATING, configuration(*hooks))
    assert (await api.post(CM, cm("a"))).message == 'admission webhook "b.example.dev" denied the request: b'
    assert sorted(webhook.called_paths) == ["/a", "/b", "/c"]


@admitted
async def test_a_validating_webhook_sees_the_object_that_would_be_stored(api, webhook):
    await api.validating()
    made = await api.made(CM, {"metadata": {"generateName": "gen-"}})
    (request,) = webhook.requests
    assert request["name"] == made["metadata"]["name"]
    assert request["object"]["metadata"]["uid"] == made["metadata"]["uid"]


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@admitted
async def test_a_webhook_that_does_not_answer_is_ignored_or_refuses_by_its_failure_policy(api, webhook, kind):
    await getattr(api, kind)(failurePolicy="Ignore", path="/gone")
    await getattr(api, kind)("later", failurePolicy="Fail", name="later.example.dev", rules=[rule("secrets")])
    # Before any call: a connection that is kept may be found closed only when it is used again.
    await webhook.stop()
    assert (await api.post(CM, cm("a"))).status == 201
    answer = await api.post(f"{NS}/default/secrets", {"metadata": {"name": "s"}})
    url = f"https://127.0.0.1:{webhook.port}/admit?timeout=30s"
    why = f'failed to call webhook: Post "{url}": dial tcp 127.0.0.1:{webhook.port}: connect: connection refused'
    assert answer.error == (
        500,
        "InternalError",
        f'Internal error occurred: failed calling webhook "later.example.dev": {why}',
    )
    await webhook.start()
    webhook.paths["/gone"] = lambda call: Reply(b"no", 500, content_type="text/plain")
    assert (await api.post(CM, cm("b"))).status == 201


@admitted
async def test_a_refusal_counts_whatever_the_failure_policy_is(api, webhook):
    await api.validating(failurePolicy="Ignore")
    webhook.answer = denying(message="no")
    assert (await api.post(CM, cm("a"))).status == 400


@admitted
async def test_a_slow_webhook_costs_only_the_requests_that_it_matches(api, webhook):
    released = asyncio.Event()

    async def wait(call):
        await released.wait()
        return Reply(allow(call))

    webhook.answer = wait
    await api.validating()
    slow = [asyncio.ensure_future(api.post(CM, cm(f"slow-{number}"))) for number in range(20)]
    while len(webhook.calls) < 20:
        await webhook.until_called()
    for number in range(20):
        await api.made(f"{NS}/default/secrets", {"metadata": {"name": f"s{number}"}})
    assert not any(one.done() for one in slow)
    released.set()
    assert {(await one).status for one in slow} == {201}


@admitted
async def test_a_webhook_that_hangs_is_given_up_after_its_timeout(api, webhook):
    released = asyncio.Event()

    async def hang(call):
        await released.wait()
        return Reply(allow(call))

    webhook.answer = hang
    await api.validating(timeoutSeconds=1)
    answer = await api.post(CM, cm("a"))
    assert answer.message.endswith(f'Post "{webhook.url}?timeout=1s": context deadline exceeded')
    released.set()


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@admitted
async def test_a_dry_run_is_refused_where_a_webhook_may_have_side_effects(api, webhook, kind):
    await getattr(api, kind)()
    path = MUTATING if kind == "mutating" else VALIDATING
    assert (await api.post(CM, cm("a"), dryRun="All")).status == 201
    assert [one["dryRun"] for one in webhook.requests] == [True]
    # Only older versions of the API let such a configuration in.
    store = api.catalog.store(path.rpartition("/")[2] + ".admissionregistration.k8s.io")
    item = store.find("", "it")
    obj = store.decode(item)
    obj["webhooks"][0]["sideEffects"] = "Some"
    await store.put(item.key, obj, item.revision)
    answer = await api.post(CM, cm("a"), dryRun="All")
    assert answer.error == (400, "BadRequest", 'admission webhook "hook.example.dev" does not support dry run')
    assert (await api.post(CM, cm("a"))).status == 201


@admitted
async def test_a_stored_configuration_that_cannot_be_used_does_not_stop_the_server(api, webhook):
    await api.validating()
    store = api.catalog.store("validatingwebhookconfigurations.admissionregistration.k8s.io")
    item = store.find("", "it")
    for broken in ({"webhooks": [1]}, {"webhooks": [{"rules": 5}]}, {"webhooks": {"a": "b"}}):
        obj = {**store.decode(item), **broken}
        item = await store.put(item.key, obj, item.revision)
        assert (await api.post(CM, cm("a"), dryRun="All")).status == 201
        assert "admission webhooks" in api.catalog.hub.invalid.check()


@admitted
async def test_a_ca_bundle_that_cannot_be_used_is_reported_as_in_kubernetes(api, webhook):
    entry = webhook.webhook()
    entry["clientConfig"]["caBundle"] = "anVuaw=="
    await api.made(VALIDATING, configuration(entry))
    why = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    assert (await api.post(CM, cm("a"))).message == (
        f'Internal error occurred: failed calling webhook "hook.example.dev": {why}'
    )


# -- what is reported -------------------------------------------------------------------------------------------------


@admitted
async def test_warnings_reach_the_client(api, webhook):
    await api.mutating()
    await api.validating()
    webhook.answer = allowing(warnings=["one", "two", "one", ""])
    assert (await api.post(CM, cm("a"))).warnings == ["one", "two"]
    webhook.answer = lambda call: Reply(allow(call, allowed=False, warnings=["three"]))
    assert (await api.post(CM, cm("b"))).warnings == ["three"]


def test_audit_annotations_are_those_of_kubernetes(certificates):
    async def body():
        recorded = []
        async with admitting(certificates) as (api, webhook):
            remember_annotations(api, recorded)
            webhook.paths["/patch"] = lambda call: Reply(allow(call, auditAnnotations={"k": "v", "no key": "x"}))
            first = webhook.webhook("a.example.dev", path="/patch")
            broken = webhook.webhook("b.example.dev", path="/broken", failurePolicy="Ignore")
            webhook.paths["/broken"] = lambda call: Reply(b"")
            other = webhook.webhook("c.example.dev", rules=[rule("secrets")])
            last = webhook.webhook("d.example.dev", path="/last")
            webhook.paths["/last"] = patching({"value": "yes", "path": "/data/x", "op": "add"})
            await api.made(MUTATING, configuration(first, broken, other, last, name="m"))
            await api.made(VALIDATING, configuration(other, broken, name="v"))
            recorded.clear()
            await api.made(CM, cm("a", data={"a": "b"}))
        return recorded

    (annotations,) = asyncio.run(body())

    def mutation(webhook, mutated):
        return json.dumps({"configuration": "m", "webhook": webhook, "mutated": mutated}, separators=(",", ":"))

    expected = {
        MUTATION.format(0, 0): mutation("a.example.dev", mutated=False),
        "a.example.dev/k": "v",
        MUTATION.format(0, 1): mutation("b.example.dev", mutated=False),
        "failed-open." + MUTATION.format(0, 1): "b.example.dev",
        MUTATION.format(0, 3): mutation("d.example.dev", mutated=True),
        "patch.webhook.admission.k8s.io/round_0_index_3": (
            '{"configuration":"m","webhook":"d.example.dev",'
            '"patch":[{"op":"add","path":"/data/x","value":"yes"}],"patchType":"JSONPatch"}'
        ),
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "b.example.dev",
    }
    assert {key: value for key, value in annotations.items() if "authorization" not in key} == expected


@admitted
async def test_patches_are_recorded_in_the_audit_annotations_unless_they_are_very_long(api, webhook):
    recorded = []
    remember_annotations(api, recorded)
    await api.mutating()
    key = "patch.webhook.admission.k8s.io/round_0_index_0"
    # Short ones are remembered, encoded as they are recorded; they are the same each time.
    for size, name in ((10, "a"), (10, "b"), (10_000, "c"), (200_000, "d")):
        webhook.answer = patching(data("x", "y" * size))
        await api.made(CM, cm(name, data={"a": "b"}))
        operation = {"op": "add", "path": "/data/x", "value": "y" * size}
        shown = {"configuration": "it", "webhook": "hook.example.dev", "patch": [operation], "patchType": "JSONPatch"}
        expected = json.dumps(shown, separators=(",", ":")) if size < 100_000 else None
        assert recorded[-1].get(key) == expected


def remember_annotations(api, recorded):
    """Have the audit annotations of every write appended to a list."""
    validate = api.services.admission.validate

    async def remember(write, obj, old):
        await validate(write, obj, old)
        recorded.append(write.audit_annotations)

    api.services.admission.validate = remember


@admitted
async def test_calls_are_counted(api, webhook):
    def sample(metric, /, **labels):
        found = api.metrics.registry.get_sample_value(f"apiserver_admission_webhook_{metric}", labels)
        return found or 0

    await api.mutating(failurePolicy="Ignore")
    await api.validating()
    hook = {"name": "hook.example.dev", "operation": "CREATE"}
    await api.made(CM, cm("a"))
    for kind in ("admit", "validating"):
        assert sample("request_total", **hook, type=kind, code="200", rejected="false") == 1
        assert sample("admission_duration_seconds_count", **hook, type=kind, rejected="false") == 1
    webhook.answer = denying(message="no", code=418)
    await api.post(CM, cm("b"))
    assert sample("request_total", **hook, type="admit", code="418", rejected="true") == 1
    refused = {**hook, "type": "admit", "error_type": "no_error", "rejection_code": "418"}
    assert sample("rejection_count", **refused) == 1
    webhook.answer = lambda call: Reply(b"x", 500)
    await api.post(CM, cm("c"))
    assert sample("fail_open_count", name="hook.example.dev", type="admit") == 1
    assert sample("request_total", **hook, type="admit", code="500", rejected="false") == 1
    failed = {**hook, "type": "validating", "error_type": "calling_webhook_error", "rejection_code": "500"}
    assert sample("rejection_count", **failed) == 1


@admitted
async def test_connections_are_reused(api, webhook):
    await api.validating()
    for number in range(10):
        await api.made(CM, cm(f"a{number}"))
    assert (len(webhook.calls), webhook.opened) == (10, 1)
