"""Sub-resources through the whole server: scale, binding, eviction, ephemeral containers, resize, approval, and what
needs a node to answer."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api_client import DEPLOY, JSON_PATCH, NS, PODS, STRATEGIC, TABLE, deployment, pod, served

NOW = "2026-01-01T00:00:00Z"
PDB = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CSR = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


# -- scale ------------------------------------------------------------------------------------------------------------


def _scale(replicas, **metadata):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d", "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


@served
async def test_scale_shows_the_replicas_of_the_object(api):
    made = await api.made(DEPLOY, deployment("d", replicas=3))
    await api.patch(f"{DEPLOY}/d/status", {"status": {"replicas": 2}})
    current = (await api.get(f"{DEPLOY}/d")).metadata
    answer = await api.get(f"{DEPLOY}/d/scale")
    assert answer.status == 200
    assert answer.json == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "d",
            "namespace": "default",
            "uid": made["metadata"]["uid"],
            "resourceVersion": current["resourceVersion"],
            "creationTimestamp": NOW,
        },
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }


@served
async def test_scale_can_be_put(api):
    await api.made(DEPLOY, deployment("d"))
    answer = await api.put(f"{DEPLOY}/d/scale", _scale(5))
    assert (answer.status, answer["kind"], answer["spec"]) == (200, "Scale", {"replicas": 5})
    changed = await api.get(f"{DEPLOY}/d")
    assert changed["spec"]["replicas"] == 5
    assert changed.metadata["generation"] == 2
    assert answer.version == changed.version


@served
async def test_scale_put_honours_preconditions(api):
    made = await api.made(DEPLOY, deployment("d"))
    version = made["metadata"]["resourceVersion"]
    assert (await api.put(f"{DEPLOY}/d/scale", _scale(5, resourceVersion=version))).status == 200
    answer = await api.put(f"{DEPLOY}/d/scale", _scale(6, resourceVersion=version))
    assert answer.error[:2] == (409, "Conflict")
    assert (await api.put(f"{DEPLOY}/d/scale", _scale(6, uid="nope"))).status == 409
    assert (await api.put(f"{DEPLOY}/d/scale", {**_scale(6), "metadata": {"name": "other"}})).status == 400


@served
async def test_scale_can_be_patched(api):
    await api.made(DEPLOY, deployment("d"))
    answer = await api.patch(f"{DEPLOY}/d/scale", {"spec": {"replicas": 4}})
    assert (answer.status, answer["spec"]) == (200, {"replicas": 4})
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 6}]
    answer = await api.patch(f"{DEPLOY}/d/scale", operations, JSON_PATCH)
    assert (await api.get(f"{DEPLOY}/d"))["spec"]["replicas"] == 6
    answer = await api.patch(f"{DEPLOY}/d/scale", {"spec": {"replicas": 0}}, STRATEGIC)
    assert (answer.status, (await api.get(f"{DEPLOY}/d"))["spec"]["replicas"]) == (200, 0)


@served
async def test_scale_cannot_be_negative(api):
    await api.made(DEPLOY, deployment("d"))
    why = "Invalid value: -1: must be greater than or equal to 0"
    answer = await api.patch(f"{DEPLOY}/d/scale", {"spec": {"replicas": -1}})
    assert answer.error == (422, "Invalid", f'Scale.autoscaling "d" is invalid: spec.replicas: {why}')
    assert answer["details"] == {
        "name": "d",
        "group": "autoscaling",
        "kind": "Scale",
        "causes": [{"reason": "FieldValueInvalid", "message": why, "field": "spec.replicas"}],
    }


@served
async def test_scale_can_be_a_dry_run(api):
    made = await api.made(DEPLOY, deployment("d"))
    assert (await api.put(f"{DEPLOY}/d/scale", _scale(5), dryRun="All"))["spec"]["replicas"] == 5
    assert (await api.get(f"{DEPLOY}/d")).json == made


@served
async def test_scale_to_the_same_number_changes_nothing(api):
    made = await api.made(DEPLOY, deployment("d"))
    assert (await api.put(f"{DEPLOY}/d/scale", _scale(1))).version == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH"])
@served
async def test_scale_of_a_missing_object_is_not_found(api, method):
    headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    answer = await api.request(method, f"{DEPLOY}/d/scale", _scale(1), headers=headers)
    assert answer.error == (404, "NotFound", 'deployments.apps "d" not found')


@served
async def test_replication_controllers_have_a_scale(api):
    path = f"{NS}/default/replicationcontrollers"
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.made(
        path, {"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": {"x": "y"}, "template": template}}
    )
    assert (await api.get(f"{path}/d/scale"))["status"]["selector"] == "x=y"
    assert (await api.put(f"{path}/d/scale", _scale(3)))["spec"] == {"replicas": 3}


@served
async def test_kinds_without_scale_have_none(api):
    assert (await api.get(f"{PODS}/p/scale")).error[0] == 404
    assert (await api.post(f"{DEPLOY}/d/scale", _scale(1))).error[0] == 405


# -- binding ----------------------------------------------------------------------------------------------------------


def _binding(name="p", node="n1", **metadata):
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


@pytest.mark.parametrize("path", [f"{PODS}/p/binding", f"{NS}/default/bindings"])
@served
async def test_binding_assigns_the_pod(api, path):
    made = await api.made(PODS, pod("p"))
    watch = await api.watch(PODS, resourceVersion=made["metadata"]["resourceVersion"])
    answer = await api.post(path, _binding(annotations={"a": "b"}))
    assert (answer.status, answer.json) == (201, SUCCESS)
    bound = (await api.get(f"{PODS}/p")).json
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
    assert bound["status"]["conditions"] == [condition]
    assert bound["metadata"]["generation"] == 1
    assert (await watch.next())["object"] == bound
    assert (await api.get(PODS, fieldSelector="spec.nodeName=n1")).names == ["p"]


@served
async def test_pod_is_bound_once(api):
    await api.made(PODS, pod("p"))
    await api.post(f"{PODS}/p/binding", _binding())
    answer = await api.post(f"{PODS}/p/binding", _binding(node="n2"))
    assert answer.error == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
    )
    assert answer["details"]["kind"] == "pods/binding"


@served
async def test_binding_of_a_missing_pod_is_not_found(api):
    answer = await api.post(f"{PODS}/none/binding", _binding("none"))
    assert answer.error == (404, "NotFound", 'pods "none" not found')


@served
async def test_binding_must_be_about_the_pod(api):
    await api.made(PODS, pod("p"))
    assert (await api.post(f"{PODS}/p/binding", _binding("q"))).status == 400
    assert (await api.post(f"{PODS}/p/binding", _binding(uid="other"))).status == 409
    assert (await api.post(f"{PODS}/p/binding", _binding(namespace="kube-system"))).status == 400
    assert (await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {}})).status == 500
    assert "nodeName" not in (await api.get(f"{PODS}/p"))["spec"]


@served
async def test_binding_can_be_a_dry_run(api):
    made = await api.made(PODS, pod("p"))
    assert (await api.post(f"{PODS}/p/binding", _binding(), dryRun="All")).status == 201
    assert (await api.get(f"{PODS}/p")).json == made


# -- eviction ---------------------------------------------------------------------------------------------------------


async def _running(api, name="p"):
    made = await api.made(PODS, pod(name, metadata={"labels": {"app": "x"}}, nodeName="n1"))
    ready = {"type": "Ready", "status": "True"}
    await api.put(f"{PODS}/{name}/status", {**made, "status": {"phase": "Running", "conditions": [ready]}})


async def _budget(api, allowed, *, observed=1, **spec):
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **spec}
    await api.made(PDB, {"metadata": {"name": "b"}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
        "observedGeneration": observed,
    }
    answer = await api.patch(f"{PDB}/b/status", {"status": status})
    assert answer.status == 200, answer


def _eviction(name="p", **fields):
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}


@served
async def test_eviction_without_a_budget_deletes_the_pod(api):
    await _running(api)
    answer = await api.post(f"{PODS}/p/eviction", _eviction())
    assert (answer.status, answer.json) == (201, SUCCESS)
    going = await api.get(f"{PODS}/p")
    assert going.metadata["deletionGracePeriodSeconds"] == 30
    conditions = {condition["type"]: condition for condition in going["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"


@served
async def test_eviction_honours_preconditions(api):
    await _running(api)
    pod = await api.get(f"{PODS}/p")
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        answer = await api.post(f"{PODS}/p/eviction", _eviction(deleteOptions={"preconditions": wrong}))
        assert answer.status == 409, answer
        assert (await api.get(f"{PODS}/p")).json == pod.json
    right = {"uid": pod.metadata["uid"], "resourceVersion": pod.version}
    answer = await api.post(f"{PODS}/p/eviction", _eviction(deleteOptions={"preconditions": right}))
    assert answer.status == 201, answer
    assert "deletionTimestamp" in (await api.get(f"{PODS}/p")).metadata


@served
async def test_eviction_decrements_the_disruption_budget(api):
    await _running(api)
    await _budget(api, 1)
    assert (await api.post(f"{PODS}/p/eviction", _eviction())).status == 201
    status = (await api.get(f"{PDB}/b"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert "p" in status["disruptedPods"]


@served
async def test_eviction_is_refused_when_no_disruptions_are_allowed(api):
    await _running(api)
    await _budget(api, 0)
    answer = await api.post(f"{PODS}/p/eviction", _eviction())
    assert answer.error == (
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    cause = answer["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).metadata


@served
async def test_eviction_is_refused_while_the_budget_is_not_observed(api):
    await _running(api)
    await _budget(api, 1, observed=0)
    answer = await api.post(f"{PODS}/p/eviction", _eviction())
    assert answer.status == 429
    assert answer["details"]["retryAfterSeconds"] == 10
    assert answer.header("Retry-After") == "10"


@served
async def test_eviction_passes_delete_options_on(api):
    await _running(api)
    options = {"gracePeriodSeconds": 5}
    assert (await api.post(f"{PODS}/p/eviction", _eviction(deleteOptions=options))).status == 201
    assert (await api.get(f"{PODS}/p")).metadata["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize(("query", "options"), [({"dryRun": "All"}, {}), ({}, {"deleteOptions": {"dryRun": ["All"]}})])
@served
async def test_eviction_can_be_a_dry_run(api, query, options):
    await _running(api)
    await _budget(api, 1)
    before = api.revision
    assert (await api.post(f"{PODS}/p/eviction", _eviction(**options), **query)).status == 201
    assert api.revision == before


@served
async def test_eviction_of_a_missing_pod_is_not_found(api):
    answer = await api.post(f"{PODS}/none/eviction", _eviction("none"))
    assert answer.error == (404, "NotFound", 'pods "none" not found')


@served
async def test_eviction_must_be_about_the_pod(api):
    await _running(api)
    answer = await api.post(f"{PODS}/p/eviction", _eviction("q"))
    assert answer.error == (400, "BadRequest", "name in URL does not match name in Eviction object")


@served
async def test_eviction_of_the_older_version_is_accepted(api):
    # What clients up to 1.22 send.
    await _running(api)
    answer = await api.post(f"{PODS}/p/eviction", {**_eviction(), "apiVersion": "policy/v1beta1"})
    assert answer.status == 201, answer


# -- parts of pods ----------------------------------------------------------------------------------------------------


@served
async def test_ephemeral_containers_can_be_added_only_there(api):
    made = await api.made(PODS, pod("p"))
    debug = {"name": "debug", "image": "i", "targetContainerName": "c"}
    patch = {"spec": {"ephemeralContainers": [debug]}}
    assert (await api.patch(f"{PODS}/p", patch, STRATEGIC)).status == 422
    answer = await api.patch(f"{PODS}/p/ephemeralcontainers", patch, STRATEGIC)
    assert answer.status == 200
    assert [c["name"] for c in answer["spec"]["ephemeralContainers"]] == ["debug"]
    assert answer["spec"]["containers"] == made["spec"]["containers"]
    body = {**answer.json, "spec": {**answer["spec"], "ephemeralContainers": []}}
    answer = await api.put(f"{PODS}/p/ephemeralcontainers", body)
    assert answer.status == 422
    assert 'existing ephemeral containers "debug" may not be removed' in answer.message
    assert (await api.get(f"{PODS}/p/ephemeralcontainers"))["kind"] == "Pod"


@served
async def test_ephemeral_containers_endpoint_changes_nothing_else(api):
    made = await api.made(PODS, pod("p"))
    body = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    answer = await api.put(f"{PODS}/p/ephemeralcontainers", body)
    assert (answer.status, answer.json) == (200, made)


@served
async def test_resize_changes_resources_only(api):
    obj = pod("p")
    obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    made = await api.made(PODS, obj)
    container = made["spec"]["containers"][0]
    resized = {**container, "image": "other", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    answer = await api.put(f"{PODS}/p/resize", {**made, "spec": {**made["spec"], "containers": [resized]}})
    assert answer.status == 200, answer
    assert answer["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    assert answer["spec"]["containers"][0]["image"] == "i"
    assert answer.metadata["generation"] == 2
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    assert (await api.patch(f"{PODS}/p", patch, STRATEGIC)).status == 422
    assert (await api.patch(f"{PODS}/p/resize", patch, STRATEGIC)).status == 200


@served
async def test_pod_status_can_be_written(api):
    made = await api.made(PODS, pod("p"))
    status = {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}
    answer = await api.put(f"{PODS}/p/status", {**made, "spec": {**made["spec"], "nodeName": "zz"}, "status": status})
    assert answer.status == 200, answer
    assert answer["status"]["podIP"] == "10.1.1.1"
    assert "nodeName" not in answer["spec"]
    assert answer.metadata["generation"] == 1


# -- what needs a node ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "sub"),
    [
        ("GET", "log"),
        ("GET", "exec"),
        ("POST", "exec"),
        ("POST", "attach"),
        ("POST", "portforward"),
        ("GET", "proxy"),
        ("DELETE", "proxy"),
        ("GET", "proxy/some/path"),
    ],
)
@served
async def test_subresources_that_need_a_kubelet_are_not_implemented(api, method, sub):
    missing = await api.request(method, f"{PODS}/p/{sub}")
    assert missing.error == (404, "NotFound", 'pods "p" not found')
    await api.made(PODS, pod("p"))
    answer = await api.request(method, f"{PODS}/p/{sub}")
    assert answer.error[:2] == (501, "NotImplemented")
    assert "runs no nodes" in answer.message


@served
async def test_wrong_methods_of_kubelet_subresources_are_not_allowed(api):
    await api.made(PODS, pod("p"))
    assert (await api.request("POST", f"{PODS}/p/log")).error[0] == 405
    assert (await api.request("PUT", f"{PODS}/p/exec")).error[0] == 405
    assert (await api.request("GET", f"{PODS}/p/binding")).error[0] == 405


@served
async def test_tokens_of_service_accounts_are_not_issued_without_a_key(api):
    path = f"{NS}/default/serviceaccounts"
    await api.made(path, {"metadata": {"name": "s"}})
    answer = await api.post(f"{path}/s/token", {"spec": {}})
    assert answer.error[:2] == (501, "NotImplemented")


@served
async def test_unknown_subresource_is_not_found(api):
    await api.made(PODS, pod("p"))
    for path in (f"{PODS}/p/nope", f"{PODS}/p/status/more", f"{PODS}/p/log/more"):
        answer = await api.get(path)
        assert answer.error == (404, "NotFound", "the server could not find the requested resource")
        assert answer["details"] == {}


@served
async def test_status_is_served_as_a_table(api):
    await api.made(PODS, pod("p"))
    answer = await api.get(f"{PODS}/p/status", headers={"accept": TABLE})
    assert answer["kind"] == "Table"


# -- certificates -----------------------------------------------------------------------------------------------------


def _request(name="c"):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": encoded, "signerName": "example.com/x", "usages": ["client auth"], "username": "liar"}
    return {"metadata": {"name": name}, "spec": spec}


@served
async def test_certificate_signing_request_records_the_requesting_user(api):
    made = await api.made(CSR, _request())
    assert made["spec"]["username"] == "system:apiserver"
    assert "system:authenticated" in made["spec"]["groups"]
    assert (await api.get(CSR, fieldSelector="spec.signerName=example.com/x")).names == ["c"]


@served
async def test_certificate_signing_request_is_approved_through_its_subresource(api):
    made = await api.made(CSR, _request())
    approved = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "fine"}
    body = {**made, "status": {"conditions": [approved]}}
    assert (await api.put(f"{CSR}/c", body)).json.get("status") == made.get("status")
    answer = await api.put(f"{CSR}/c/approval", body)
    assert answer.status == 200, answer
    condition = answer["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("Approved", "ByHand")
    assert condition["lastUpdateTime"] == NOW
    # A decision cannot be taken back.
    assert (await api.put(f"{CSR}/c/approval", {**answer.json, "status": {}})).status == 422
    assert (await api.get(f"{CSR}/c/approval")).json == answer.json


@served
async def test_certificate_approval_can_be_patched(api):
    await api.made(CSR, _request())
    denied = {"type": "Denied", "status": "True", "reason": "No"}
    answer = await api.patch(f"{CSR}/c/approval", {"status": {"conditions": [denied]}})
    assert answer.status == 200, answer
    assert answer["status"]["conditions"][0]["type"] == "Denied"
