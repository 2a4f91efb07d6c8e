"""Server-side apply where a part of an object is at stake: items of lists, sub-resources, other versions."""

import pytest

from api_client import APPLY, CM, DEPLOY, NS, PODS, STRATEGIC, SVC, cm, deployment, pod, served

A = f"{CM}/a"
D = f"{DEPLOY}/d"
EVENTS = f"{NS}/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers/h"


async def applied(api, path, config, manager="m1", **query):
    return await api.patch(path, config, APPLY, fieldManager=manager, **query)


def fields(answer, manager, operation="Apply", subresource=""):
    """What a manager owns."""
    found = [
        entry["fieldsV1"]
        for entry in answer.metadata.get("managedFields", [])
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, subresource)
    ]
    assert len(found) < 2, "an owner has one entry"
    return found[0] if found else None


def with_containers(*containers, **pod_spec):
    config = deployment("d")
    config["spec"]["template"]["spec"] = {"containers": list(containers), **pod_spec}
    return config


def containers_of(answer):
    return answer["spec"]["template"]["spec"]["containers"]


def container(name, **more):
    return {"name": name, "image": "i", **more}


# -- lists whose items have keys --------------------------------------------------------------------------------------


@served
async def test_containers_of_two_field_managers_are_merged_by_name(api):
    await applied(api, D, with_containers(container("a"), container("b")))
    answer = await applied(api, D, with_containers(container("side", args=["x"])), "m2")
    assert [c["name"] for c in containers_of(answer)] == ["a", "b", "side"]
    items = fields(answer, "m2")["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert items == {'k:{"name":"side"}': {".": {}, "f:args": {}, "f:image": {}, "f:name": {}}}
    answer = await applied(api, D, with_containers(container("b")))
    assert [c["name"] for c in containers_of(answer)] == ["b", "side"]


@served
async def test_items_keep_the_order_of_the_configuration(api):
    await applied(api, D, with_containers(*(container(name) for name in "abc")))
    answer = await applied(api, D, with_containers(*(container(name) for name in "cab")))
    assert [c["name"] for c in containers_of(answer)] == ["c", "a", "b"]


@served
async def test_a_field_inside_a_list_item_may_conflict(api):
    await applied(api, D, with_containers(container("a")))
    answer = await applied(api, D, with_containers({"name": "a", "image": "other"}), "m2")
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "m1": .spec.template.spec.containers[name="a"].image'
    )


@served
async def test_container_ports_are_keyed_by_number_and_defaulted_protocol(api):
    await applied(api, D, with_containers(container("a", ports=[{"containerPort": 53}])))
    udp = [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]
    answer = await applied(api, D, with_containers({"name": "a", "ports": udp}), "m2")
    assert [port["protocol"] for port in containers_of(answer)[0]["ports"]] == ["TCP", "UDP"]
    item = fields(answer, "m1")["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"a"}']
    assert item["f:ports"] == {'k:{"containerPort":53,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    tcp = [{"containerPort": 53, "protocol": "TCP", "name": "tcp"}]
    answer = await applied(api, D, with_containers({"name": "a", "ports": tcp}), "m3")
    assert [port["name"] for port in containers_of(answer)[0]["ports"]] == ["tcp", "dns"]


@served
async def test_service_ports_are_keyed_by_port_and_protocol(api):
    def service(*ports, **spec):
        spec = {"ports": list(ports), **spec}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}

    web = {"port": 80, "name": "web"}
    assert (await applied(api, f"{SVC}/s", service(web, selector={"a": "b"}))).status == 201
    answer = await applied(api, f"{SVC}/s", service({"port": 81, "name": "more"}), "m2")
    assert [port["port"] for port in answer["spec"]["ports"]] == [80, 81]
    address = answer["spec"]["clusterIP"]
    answer = await applied(api, f"{SVC}/s", service({"port": 82, "name": "other"}), "m2")
    assert [port["port"] for port in answer["spec"]["ports"]] == [80, 82]
    assert answer["spec"]["clusterIP"] == address
    answer = await applied(api, f"{SVC}/s", service(web, web))
    assert answer.status == 500
    assert '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]' in answer.message


@served
async def test_environments_are_merged_by_name(api):
    one, other = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    await applied(api, D, with_containers(container("a", env=[one])))
    answer = await applied(api, D, with_containers({"name": "a", "env": [other]}), "m2")
    assert containers_of(answer)[0]["env"] == [one, other]
    answer = await applied(api, D, with_containers(container("a")))
    assert containers_of(answer)[0]["env"] == [other]


# -- sets and values with one owner -----------------------------------------------------------------------------------


@served
async def test_finalizers_are_a_set(api):
    await applied(api, A, cm("a", metadata={"finalizers": ["a.io/1", "a.io/2"]}))
    answer = await applied(api, A, cm("a", metadata={"finalizers": ["a.io/3"]}), "m2")
    assert answer.metadata["finalizers"] == ["a.io/1", "a.io/2", "a.io/3"]
    assert fields(answer, "m1") == {"f:metadata": {"f:finalizers": {'v:"a.io/1"': {}, 'v:"a.io/2"': {}}}}
    answer = await applied(api, A, cm("a", metadata={"finalizers": ["a.io/2"]}))
    assert answer.metadata["finalizers"] == ["a.io/2", "a.io/3"]


@served
async def test_a_list_without_items_has_no_owner_and_an_empty_map_has(api):
    answer = await applied(api, A, cm("a", metadata={"labels": {}, "finalizers": []}))
    assert fields(answer, "m1") == {"f:metadata": {"f:labels": {}}}


@served
async def test_owner_references_are_keyed_by_uid(api):
    def config(name, uid):
        return cm("a", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]})

    await applied(api, A, config("x", "u1"))
    answer = await applied(api, A, config("y", "u2"), "m2")
    assert [owner["uid"] for owner in answer.metadata["ownerReferences"]] == ["u1", "u2"]


@served
async def test_a_selector_has_one_owner(api):
    def service(selector):
        metadata, spec = {"name": "s"}, {"ports": [{"port": 80}], "selector": selector}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    answer = await applied(api, f"{SVC}/s", service({"a": "b"}))
    assert fields(answer, "m1")["f:spec"]["f:selector"] == {}
    answer = await applied(api, f"{SVC}/s", service({"c": "d"}), "m2")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.selector'


@served
async def test_arguments_have_one_owner(api):
    await applied(api, D, with_containers(container("a", args=["x", "y"])))
    answer = await applied(api, D, with_containers({"name": "a", "args": ["x"]}), "m2")
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "m1": .spec.template.spec.containers[name="a"].args'
    )
    answer = await applied(api, D, with_containers({"name": "a", "args": ["z"]}), "m2", force="true")
    assert containers_of(answer)[0]["args"] == ["z"]


@served
async def test_a_quantity_written_in_another_way_is_the_same_value_only_as_it_is_shown(api):
    limits = {"cpu": "1000m", "memory": "1024Mi"}
    made = await applied(api, D, with_containers(container("a", resources={"limits": limits})))
    assert containers_of(made)[0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    again = await applied(api, D, with_containers(container("a", resources={"limits": limits})))
    assert again.version == made.version
    canonical = {"cpu": "1", "memory": "1Gi"}
    answer = await applied(api, D, with_containers({"name": "a", "resources": {"limits": canonical}}), "m2")
    assert answer.status == 200


@served
async def test_the_data_of_a_secret_is_owned_where_it_was_written(api):
    path = f"{NS}/default/secrets/x"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "b"}}
    answer = await applied(api, path, secret)
    assert (answer["data"], fields(answer, "m1")) == ({"a": "Yg=="}, {"f:stringData": {"f:a": {}}})


# -- status -----------------------------------------------------------------------------------------------------------


def status(**parts):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": parts}


@served
async def test_status_applied_to_the_object_is_dropped_and_not_owned(api):
    answer = await applied(api, D, {**deployment("d"), "status": {"replicas": 3}})
    assert answer.status == 201
    assert not answer["status"].get("replicas")
    assert "f:status" not in fields(answer, "m1")


@served
async def test_the_status_subresource_owns_only_status(api):
    await applied(api, D, deployment("d", replicas=1))
    config = {**deployment("d", replicas=9), "status": {"replicas": 2}}
    config["metadata"]["labels"] = {"x": "y"}
    answer = await applied(api, f"{D}/status", config, "ctl")
    assert (answer.status, answer["status"]["replicas"], answer["spec"]["replicas"]) == (200, 2, 1)
    assert "labels" not in answer.metadata
    assert fields(answer, "ctl", subresource="status") == {"f:status": {"f:replicas": {}}}
    assert answer.metadata["generation"] == 1


@served
async def test_status_conflicts_name_the_sub_resource(api):
    await applied(api, D, deployment("d"))
    await applied(api, f"{D}/status", status(replicas=2), "ctl")
    answer = await applied(api, f"{D}/status", status(replicas=3), "other")
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "ctl" with subresource "status": .status.replicas'
    )
    answer = await applied(api, f"{D}/status", status(replicas=3), "other", force="true")
    assert fields(answer, "ctl", subresource="status") is None
    await api.patch(f"{D}/status", {"status": {"replicas": 4}}, STRATEGIC, fieldManager="hand")
    answer = await applied(api, f"{D}/status", status(replicas=5), "other")
    assert '"hand" with subresource "status" using apps/v1: .status.replicas' in answer.message


@served
async def test_conditions_are_merged_by_type(api):
    def ready(kind, value):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "status": {"conditions": [{"type": kind, "status": value}]},
        }

    await applied(api, f"{PODS}/p", pod("p"))
    await applied(api, f"{PODS}/p/status", ready("Ready", "True"), "kubelet")
    answer = await applied(api, f"{PODS}/p/status", ready("Gate", "True"), "gate")
    assert [one["type"] for one in answer["status"]["conditions"]] == ["Ready", "Gate"]
    answer = await applied(api, f"{PODS}/p/status", ready("Ready", "False"), "gate")
    assert answer.message.endswith('"kubelet" with subresource "status": .status.conditions[type="Ready"].status')


@pytest.mark.parametrize("part", ["status", "scale"])
@pytest.mark.parametrize("body", [status(replicas=1), b"a: ["])
@served
async def test_applying_a_subresource_of_a_missing_object_is_not_found(api, part, body):
    answer = await applied(api, f"{DEPLOY}/none/{part}", body)
    assert answer.error == (404, "NotFound", 'deployments.apps "none" not found')


# -- scale ------------------------------------------------------------------------------------------------------------


def scale(replicas, **metadata):
    metadata = {"name": "d", **metadata}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


@served
async def test_applying_a_scale_owns_the_replicas_of_the_object(api):
    await applied(api, D, deployment("d"))
    answer = await applied(api, f"{D}/scale", scale(4), "hpa", force="true")
    assert (answer.status, answer["kind"], answer["spec"]) == (200, "Scale", {"replicas": 4})
    answer = await api.get(D)
    assert answer["spec"]["replicas"] == 4
    entry = answer.metadata["managedFields"][0]
    assert entry == {
        "manager": "hpa",
        "operation": "Apply",
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }


@served
async def test_scale_and_object_conflict_both_ways(api):
    await applied(api, D, deployment("d", replicas=2))
    answer = await applied(api, f"{D}/scale", scale(4), "hpa")
    assert answer.error == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas')
    await applied(api, f"{D}/scale", scale(4), "hpa", force="true")
    answer = await applied(api, D, deployment("d", replicas=2))
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale": .spec.replicas'
    )
    # Who no longer mentions the replicas leaves them to the other.
    answer = await applied(api, D, deployment("d"))
    assert (answer.status, answer["spec"]["replicas"]) == (200, 4)


@served
async def test_a_scale_by_update_is_recorded_too(api):
    await applied(api, D, deployment("d", replicas=2))
    await api.patch(f"{D}/scale", {"spec": {"replicas": 6}}, fieldManager="hand")
    answer = await api.get(D)
    assert fields(answer, "hand", "Update", "scale") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in fields(answer, "m1")["f:spec"]


@pytest.mark.parametrize(
    ("config", "status", "problem"),
    [
        (deployment("d"), 400, "invalid object type: apps/v1, Kind=Deployment"),
        (scale(4, name="e"), 400, "the name of the object (e) does not match the name on the URL (d)"),
        (scale(4, managedFields=[]), 400, "metadata.managedFields must be nil"),
        (scale(4, resourceVersion="1"), 409, 'Operation cannot be fulfilled on deployments.apps "d": the object has'),
        (
            scale("x"),
            500,
            (
                "failed to create typed patch object (/d; autoscaling/v1, Kind=Scale): "
                ".spec.replicas: expected numeric (int or float), got string"
            ),
        ),
    ],
)
@served
async def test_a_scale_that_cannot_be_applied(api, config, status, problem):
    made = await applied(api, D, deployment("d"))
    answer = await applied(api, f"{D}/scale", config, "hpa", force="true")
    assert answer.status == status
    assert answer.message.startswith(problem)
    assert (await api.get(D)).json == made.json


# -- other sub-resources ----------------------------------------------------------------------------------------------


@served
async def test_an_ephemeral_container_can_be_applied(api):
    await applied(api, f"{PODS}/p", pod("p"))
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    config["spec"] = {"ephemeralContainers": [{"name": "dbg", "image": "b"}]}
    answer = await applied(api, f"{PODS}/p/ephemeralcontainers", config, "dbg")
    assert (answer.status, answer["spec"]["ephemeralContainers"][0]["name"]) == (200, "dbg")
    owned = fields(answer, "dbg", subresource="ephemeralcontainers")
    assert list(owned["f:spec"]) == ["f:ephemeralContainers"]


# -- versions ---------------------------------------------------------------------------------------------------------


def scaler(version, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, **spec}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": spec,
    }


def cpu(utilization):
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@served
async def test_a_field_manager_may_apply_in_another_version(api):
    old, new = SCALERS.format("v1"), SCALERS.format("v2")
    assert (await applied(api, old, scaler("v1", targetCPUUtilizationPercentage=50))).status == 201
    answer = await applied(api, new, scaler("v2", metrics=[cpu(50)]))
    # The very value that v1 wrote in its own field must not be taken for one that was dropped.
    assert answer["spec"]["metrics"] == [cpu(50)]
    assert [entry["apiVersion"] for entry in answer.metadata["managedFields"]] == ["autoscaling/v2"]
    answer = await applied(api, old, scaler("v1", targetCPUUtilizationPercentage=60))
    assert answer["spec"]["targetCPUUtilizationPercentage"] == 60
    assert (await api.get(new))["spec"]["metrics"] == [cpu(60)]


@served
async def test_conflicts_are_found_across_versions(api):
    old, new = SCALERS.format("v1"), SCALERS.format("v2")
    await applied(api, new, scaler("v2", metrics=[cpu(50)]))
    answer = await applied(api, old, scaler("v1", targetCPUUtilizationPercentage=70), "m2")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.metrics'
    answer = await applied(api, old, scaler("v1", targetCPUUtilizationPercentage=70), "m2", force="true")
    assert (await api.get(new))["spec"]["metrics"] == [cpu(70)]
    assert "f:metrics" not in fields(answer, "m1")["f:spec"]


@served
async def test_a_version_is_applied_at_its_own_endpoint(api):
    answer = await applied(api, SCALERS.format("v1"), scaler("v2"))
    assert answer.message == "invalid object type: autoscaling/v2, Kind=HorizontalPodAutoscaler"


@served
async def test_an_event_has_managed_fields_in_both_groups(api):
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x.io/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "n",
    }
    assert (await applied(api, f"{NEW_EVENTS}/e", event)).status == 201
    answer = await api.patch(f"{EVENTS}/e", {"metadata": {"labels": {"a": "1"}}}, fieldManager="x")
    assert fields(answer, "x", "Update") == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    assert fields(answer, "m1")["f:note"] == {}
    event["metadata"]["labels"] = {"a": "2"}
    answer = await applied(api, f"{NEW_EVENTS}/e", event, "y")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "x" using v1: .metadata.labels.a'
    answer = await applied(api, f"{NEW_EVENTS}/e", event)
    assert answer.status == 409


OMITS_KEY = (
    '.secrets: element 0: associative list with keys has an element that omits all key fields ["name"] '
    "(and doesn't have default values for any key fields)"
)


@served
async def test_an_apply_to_an_object_with_an_item_without_its_key_is_refused_as_in_kubernetes(api):
    accounts = f"{NS}/default/serviceaccounts"
    await api.made(accounts, {"metadata": {"name": "x"}, "secrets": [{}]})
    answer = await applied(api, f"{accounts}/x", {"apiVersion": "v1", "kind": "ServiceAccount"})
    place = "(default/x; /v1, Kind=ServiceAccount)"
    message = (
        f"failed to create manager for existing fields: failed to convert new object {place} to smd typed: {OMITS_KEY}"
    )
    assert answer.error == (500, "", message)


@served
async def test_an_apply_after_an_item_lost_its_key_is_refused_as_in_kubernetes(api):
    account = f"{NS}/default/serviceaccounts/x"
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x", "labels": {"a": "b"}}}
    await applied(api, account, config)
    await api.patch(account, {"secrets": [{}]})
    answer = await applied(api, account, {**config, "secrets": [{"name": "a"}]})
    assert answer.error == (
        500,
        "",
        f"failed to create typed live object (default/x; /v1, Kind=ServiceAccount): {OMITS_KEY}",
    )
