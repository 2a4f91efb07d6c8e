"""Kinds that are served twice from one store, and kinds that hold something of a pool."""

import ipaddress

import pytest

from api_client import NS, SVC, TABLE, served

EVENTS = f"{NS}/default/events"
EVENTS_V1 = "/apis/events.k8s.io/v1/namespaces/default/events"
HPA_V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
HPA_V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
ABOUT = {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1", "uid": "u"}


def _event(name="e", **fields):
    return {
        "metadata": {"name": name},
        "involvedObject": ABOUT,
        "reason": "Started",
        "message": "it did",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "count": 1,
        **fields,
    }


def _new_event(name="n", **fields):
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": ABOUT,
        "reason": "Started",
        "action": "Start",
        "note": "it did",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        **fields,
    }


@served
async def test_core_event_is_served_in_events_k8s_io(api):
    made = await api.made(EVENTS, _event())
    answer = await api.get(f"{EVENTS_V1}/e")
    assert answer["apiVersion"] == "events.k8s.io/v1"
    assert answer["regarding"] == ABOUT
    assert answer["note"] == "it did"
    assert answer["deprecatedCount"] == 1
    assert answer["deprecatedSource"] == {"component": "kubelet"}
    assert answer.metadata == made["metadata"]
    assert "involvedObject" not in answer.json


@served
async def test_events_k8s_io_event_is_served_in_the_core_group(api):
    made = await api.made(EVENTS_V1, _new_event())
    assert made["apiVersion"] == "events.k8s.io/v1"
    assert made["note"] == "it did"
    answer = await api.get(f"{EVENTS}/n")
    assert (answer["apiVersion"], answer["message"], answer["involvedObject"]) == ("v1", "it did", ABOUT)
    assert answer["reportingComponent"] == "example.com/c"
    assert (await api.get(EVENTS)).names == (await api.get(EVENTS_V1)).names == ["n"]


@served
async def test_lists_are_in_the_requested_version(api):
    await api.made(EVENTS, _event())
    old, new = await api.get(EVENTS), await api.get(EVENTS_V1)
    assert (old["kind"], old["apiVersion"], old["items"][0]["message"]) == ("EventList", "v1", "it did")
    assert (new["kind"], new["apiVersion"], new["items"][0]["note"]) == ("EventList", "events.k8s.io/v1", "it did")
    assert "apiVersion" not in new["items"][0]
    assert (await api.get(EVENTS_V1, headers={"accept": TABLE}))["rows"][0]["cells"][2] == "Started"


@served
async def test_watches_are_in_the_requested_version(api):
    old, new = await api.watch(EVENTS), await api.watch(EVENTS_V1, allowWatchBookmarks="true")
    bookmark = await new.next()
    assert bookmark["object"]["apiVersion"] == "events.k8s.io/v1"
    await api.made(EVENTS, _event())
    await api.made(EVENTS_V1, _new_event())
    for watch, api_version, text in ((old, "v1", "message"), (new, "events.k8s.io/v1", "note")):
        events = await watch.take(2)
        assert [event["object"]["metadata"]["name"] for event in events] == ["e", "n"]
        assert {event["object"]["apiVersion"] for event in events} == {api_version}
        assert [event["object"][text] for event in events] == ["it did", "it did"]


@served
async def test_fields_are_selected_by_the_names_of_the_version(api):
    await api.made(EVENTS, _event())
    await api.made(EVENTS, _event("f", involvedObject={**ABOUT, "name": "q"}, reason="Killing"))
    assert (await api.get(EVENTS, fieldSelector="involvedObject.name=q")).names == ["f"]
    assert (await api.get(EVENTS, fieldSelector="source=kubelet,reason=Started")).names == ["e"]
    assert (await api.get(EVENTS_V1, fieldSelector="regarding.name=q")).names == ["f"]
    watch = await api.watch(EVENTS_V1, fieldSelector="regarding.name=q")
    assert await watch.brief(1) == [("ADDED", "f")]


@served
async def test_names_of_the_group_are_in_messages(api):
    assert (await api.get(f"{EVENTS}/x")).message == 'events "x" not found'
    assert (await api.get(f"{EVENTS_V1}/x")).message == 'events.events.k8s.io "x" not found'
    await api.made(EVENTS, _event())
    assert (await api.post(EVENTS_V1, _new_event("e"))).message == 'events.events.k8s.io "e" already exists'


@served
async def test_events_can_be_patched_and_deleted_through_both(api):
    await api.made(EVENTS_V1, _new_event())
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    answer = await api.patch(f"{EVENTS_V1}/n", {"series": series})
    assert answer.status == 200, answer
    assert (await api.get(f"{EVENTS}/n"))["series"] == series
    answer = await api.patch(f"{EVENTS}/n", {"count": 5})
    assert (await api.get(f"{EVENTS_V1}/n"))["deprecatedCount"] == 5
    answer = await api.delete(f"{EVENTS_V1}/n")
    assert answer["details"]["group"] == "events.k8s.io"
    assert (await api.get(f"{EVENTS}/n")).status == 404


@served
async def test_put_creates_events_in_both(api):
    assert (await api.put(f"{EVENTS}/e", _event())).status == 201
    assert (await api.put(f"{EVENTS_V1}/n", _new_event())).status == 201
    assert (await api.get(f"{EVENTS}/n"))["message"] == "it did"


@served
async def test_event_must_be_in_the_namespace_of_its_object(api):
    answer = await api.post(EVENTS, _event(involvedObject={**ABOUT, "namespace": "kube-system"}))
    assert answer.status == 422
    assert "does not match event.namespace" in answer.message


# -- autoscalers ------------------------------------------------------------------------------------------------------


def _autoscaler(version, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target, **spec},
    }


@served
async def test_autoscaler_created_in_v1_is_served_in_v2(api):
    made = await api.made(HPA_V1, _autoscaler("v1", targetCPUUtilizationPercentage=70))
    assert (made["apiVersion"], made["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 70)
    answer = await api.get(f"{HPA_V2}/h")
    metric = answer["spec"]["metrics"][0]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    assert answer.version == made["metadata"]["resourceVersion"]


@served
async def test_autoscaler_created_in_v2_round_trips_through_v1(api):
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    }
    made = await api.made(HPA_V2, _autoscaler("v2", metrics=[metric]))
    old = await api.get(f"{HPA_V1}/h")
    assert "metrics" not in old["spec"]
    # Written back unchanged through v1, nothing of it may be lost.
    answer = await api.put(f"{HPA_V1}/h", old.json)
    assert answer.status == 200, answer
    assert (await api.get(f"{HPA_V2}/h")).json == made
    answer = await api.patch(f"{HPA_V1}/h", {"spec": {"maxReplicas": 9}})
    assert (answer.status, answer["spec"]["maxReplicas"]) == (200, 9)
    assert (await api.get(f"{HPA_V2}/h"))["spec"]["metrics"] == [metric]


@served
async def test_both_versions_are_one_store(api):
    await api.made(HPA_V1, _autoscaler("v1"))
    answer = await api.post(HPA_V2, _autoscaler("v2"))
    assert answer.error[:2] == (409, "AlreadyExists")
    watch = await api.watch(HPA_V1)
    event = await watch.next()
    assert event["object"]["apiVersion"] == "autoscaling/v1"
    assert (await api.delete(f"{HPA_V2}/h")).status == 200
    assert (await watch.next())["object"]["apiVersion"] == "autoscaling/v1"


# -- services ---------------------------------------------------------------------------------------------------------


def _service(name="s", **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


@served
async def test_service_gets_a_cluster_ip(api):
    made = await api.made(SVC, _service())
    address = made["spec"]["clusterIP"]
    assert ipaddress.ip_address(address) in ipaddress.ip_network("10.0.0.0/24")
    assert made["spec"]["clusterIPs"] == [address]
    assert made["spec"]["type"] == "ClusterIP"
    assert (await api.get(SVC, fieldSelector=f"spec.clusterIP={address}")).names == ["s"]


@served
async def test_node_port_service_gets_a_node_port(api):
    made = await api.made(SVC, _service(type="NodePort"))
    assert 30000 <= made["spec"]["ports"][0]["nodePort"] <= 32767


@served
async def test_requested_cluster_ip_is_allocated_once(api):
    await api.made(SVC, _service(clusterIP="10.0.0.50"))
    answer = await api.post(SVC, _service("t", clusterIP="10.0.0.50"))
    assert answer.error == (
        422,
        "Invalid",
        (
            'Service "t" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.50"]: '
            "failed to allocate IP 10.0.0.50: provided IP is already allocated"
        ),
    )
    answer = await api.post(SVC, _service("t", clusterIP="1.2.3.4"))
    assert answer.message == (
        'Service "t" is invalid: spec.clusterIPs: Invalid value: ["1.2.3.4"]: '
        "failed to allocate IP 1.2.3.4: the provided network does not match the current range"
    )


@served
async def test_cluster_ip_of_the_api_server_is_allocated_already(api):
    answer = await api.post(SVC, _service(clusterIP="10.0.0.1"))
    assert "provided IP is already allocated" in answer.message


@served
async def test_cluster_ip_and_node_port_are_released_on_deletion(api):
    made = await api.made(SVC, _service(clusterIP="10.0.0.50", type="NodePort"))
    port = made["spec"]["ports"][0]["nodePort"]
    await api.delete(f"{SVC}/s")
    again = _service("t", clusterIP="10.0.0.50", type="NodePort")
    again["spec"]["ports"][0]["nodePort"] = port
    assert (await api.post(SVC, again)).status == 201


@served
async def test_cluster_ip_is_released_when_the_last_finalizer_is_removed(api):
    obj = _service(clusterIP="10.0.0.50")
    obj["metadata"]["finalizers"] = ["x.io/f"]
    await api.made(SVC, obj)
    await api.delete(f"{SVC}/s")
    assert (await api.post(SVC, _service("t", clusterIP="10.0.0.50"))).status == 422
    await api.patch(f"{SVC}/s", {"metadata": {"finalizers": None}})
    assert (await api.post(SVC, _service("t", clusterIP="10.0.0.50"))).status == 201


@served
async def test_cluster_ip_is_released_when_the_create_fails(api):
    await api.made(SVC, _service("taken", clusterIP="10.0.0.50"))
    assert (await api.post(SVC, _service("taken", clusterIP="10.0.0.60"))).status == 409
    assert (await api.post(SVC, _service("t", clusterIP="10.0.0.60"))).status == 201


@served
async def test_dry_run_allocates_no_cluster_ip(api):
    answer = await api.post(SVC, _service(clusterIP="10.0.0.70"), dryRun="All")
    assert answer.status == 201
    assert (await api.post(SVC, _service("t", clusterIP="10.0.0.70"))).status == 201
    answer = await api.post(SVC, _service("u"), dryRun="All")
    # Something has to be shown; nothing has been taken.
    assert answer["spec"]["clusterIP"] == "10.0.0.0"


@served
async def test_update_keeps_allocated_values(api):
    made = await api.made(SVC, _service(type="NodePort"))
    answer = await api.put(f"{SVC}/s", _service(type="NodePort"))
    assert (answer.status, answer.json) == (200, made)
    other = "10.0.0.99" if made["spec"]["clusterIP"] != "10.0.0.99" else "10.0.0.98"
    answer = await api.put(f"{SVC}/s", {**made, "spec": {**made["spec"], "clusterIP": other, "clusterIPs": [other]}})
    assert answer.status == 422
    assert "may not change once set" in answer.message


@served
async def test_change_to_external_name_releases_the_cluster_ip(api):
    await api.made(SVC, _service(clusterIP="10.0.0.80"))
    answer = await api.put(f"{SVC}/s", _service(type="ExternalName", externalName="example.com"))
    assert answer.status == 200, answer
    assert "clusterIP" not in answer["spec"]
    assert (await api.post(SVC, _service("t", clusterIP="10.0.0.80"))).status == 201


@served
async def test_no_two_services_get_the_same_cluster_ip(api):
    addresses = [(await api.made(SVC, _service(f"s{index}")))["spec"]["clusterIP"] for index in range(60)]
    assert len({*addresses, "10.0.0.1"}) == 61


@served
async def test_exhausted_service_range_can_be_used_again_after_a_release(api):
    made = 0
    while (answer := await api.post(SVC, _service(f"s{made}"))).status == 201:
        made += 1
    assert made == 253
    assert "range is full" in answer.message
    await api.delete(f"{SVC}/s7")
    assert (await api.post(SVC, _service("again"))).status == 201


@pytest.mark.parametrize("resource", ["ipaddresses", "servicecidrs"])
@served
async def test_networking_kinds_are_ordinary_resources(api, resource):
    assert (await api.get(f"/apis/networking.k8s.io/v1/{resource}")).status == 200
