"""The usage of objects in a quota."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.meta import GroupResource
from kapi.api.values import Quantity
from kapi.registry.quota.amounts import added, amounts_of, greater, only, printed, subtracted
from kapi.registry.quota.evaluators import (
    CLAIMS,
    DEVICE_CLAIMS,
    PODS,
    SERVICES,
    count_name,
    counted_resource,
    evaluators_for,
    is_counted,
)
from kapi.registry.quota.podresources import pod_limits, pod_requests
from kapi.registry.quota.scopes import Scope, scopes_of, volume_classes_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def container(name="c", requests=None, limits=None, **fields):
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **fields}


def pod(*containers, init=(), status=None, metadata=None, **spec):
    return {
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
        "status": status or {},
    }


def evaluator_for(resource):
    [evaluator] = evaluators_for([count_name(resource)])
    return evaluator


def usage(resource, obj, now=NOW):
    return printed(evaluator_for(resource).usage(obj, now))


# -- amounts ----------------------------------------------------------------------------------------------------------

quantities = st.builds(Quantity, st.integers(-(10**6), 10**6), st.integers(-3, 3))
maps = st.dictionaries(st.sampled_from("abcd"), quantities)


@given(maps, maps)
def test_subtraction_undoes_addition(left, right):
    back = subtracted(added(left, right), right)
    assert {name: amount for name, amount in back.items() if amount} == {
        name: amount for name, amount in left.items() if amount
    }


@given(maps, maps, maps)
def test_addition_is_commutative_and_associative(a, b, c):
    assert added(added(a, b), c) == added(a, added(c, b))


@given(maps, maps)
def test_the_maximum_is_not_less_than_either(left, right):
    both = greater(left, right)
    assert both.keys() == left.keys() | right.keys()
    assert all(both[name] >= amount for amounts in (left, right) for name, amount in amounts.items())
    assert only(both, left.keys() - right.keys()) == only(left, left.keys() - right.keys())


def test_amounts_are_printed_as_the_api_prints_them():
    total = added(amounts_of({"m": "512Mi", "c": "500m"}), amounts_of({"m": "512Mi", "c": "0.5", "n": "1e3"}))
    assert printed(total) == {"c": "1", "m": "1Gi", "n": "1e3"}


# -- Pods -------------------------------------------------------------------------------------------------------------


def test_requests_of_containers_are_added():
    subject = pod(container("a", {"cpu": "100m"}, {"cpu": "1"}), container("b", {"cpu": "200m", "memory": "1Gi"}))
    assert printed(pod_requests(subject)) == {"cpu": "300m", "memory": "1Gi"}
    assert printed(pod_limits(subject)) == {"cpu": "1"}


def test_of_init_containers_the_maximum_counts():
    init = (container("i", {"cpu": "500m"}), container("j", {"cpu": "400m", "memory": "2Gi"}))
    subject = pod(container("a", {"cpu": "300m", "memory": "1Gi"}), init=init)
    assert printed(pod_requests(subject)) == {"cpu": "500m", "memory": "2Gi"}


def test_sidecars_are_added_to_all_later_containers():
    init = (
        container("before", {"cpu": "1"}),
        container("side", {"cpu": "500m"}, restartPolicy="Always"),
        container("after", {"cpu": "900m"}),
    )
    assert printed(pod_requests(pod(container("a", {"cpu": "100m"}), init=init))) == {"cpu": "1400m"}
    assert printed(pod_requests(pod(container("a", {"cpu": "2"}), init=init))) == {"cpu": "2500m"}


def test_overhead_is_added_to_existing_limits_only():
    subject = pod(container("a", {"cpu": "1"}, {"cpu": "2"}), overhead={"cpu": "250m", "memory": "64Mi"})
    assert printed(pod_requests(subject)) == {"cpu": "1250m", "memory": "64Mi"}
    assert printed(pod_limits(subject)) == {"cpu": "2250m"}


def test_pod_level_resources_replace_those_of_containers():
    whole = {"requests": {"cpu": "5", "example.com/gpu": "9"}, "limits": {"memory": "1Gi"}}
    subject = pod(container("a", {"cpu": "1", "memory": "1Mi"}, {"cpu": "2"}), resources=whole)
    assert printed(pod_requests(subject)) == {"cpu": "5", "memory": "1Mi"}
    assert printed(pod_limits(subject)) == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("reason", "requests", "limits"), [("Deferred", "3", "6"), ("Infeasible", "2", "4")], ids=["deferred", "infeasible"]
)
def test_a_resize_counts_with_the_allocated_resources(reason, requests, limits):
    report = {
        "name": "a",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
        "allocatedResources": {"cpu": "2"},
    }
    conditions = [{"type": "PodResizePending", "reason": reason}]
    subject = pod(
        container("a", {"cpu": "3"}, {"cpu": "6"}), status={"containerStatuses": [report], "conditions": conditions}
    )
    assert printed(pod_requests(subject)) == {"cpu": requests}
    assert printed(pod_limits(subject)) == {"cpu": limits}


def test_the_usage_of_a_pod():
    requests = {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1G",
        "hugepages-2Mi": "4Mi",
        "example.com/gpu": "2",
        "deviceclass.resource.kubernetes.io/fast": "1",
        "scheduling.kubernetes.io/odd": "1",
    }
    assert usage(PODS, pod(container("a", requests, {"cpu": "2"}))) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "ephemeral-storage": "1G",
        "requests.ephemeral-storage": "1G",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.example.com/gpu": "2",
        "requests.deviceclass.resource.kubernetes.io/fast": "1",
    }


def deleted(grace):
    return {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}


@pytest.mark.parametrize(
    ("status", "metadata", "seconds", "charged"),
    [
        pytest.param({"phase": "Running"}, {}, 0, True, id="running"),
        pytest.param({"phase": "Failed"}, {}, 0, False, id="failed"),
        pytest.param({"phase": "Succeeded"}, {}, 0, False, id="succeeded"),
        pytest.param({}, deleted(30), 30, True, id="terminating"),
        pytest.param({}, deleted(30), 31, False, id="stuck"),
        pytest.param({}, deleted(0), 1, False, id="deleted except for finalizers"),
    ],
)
def test_a_pod_is_charged_until_it_terminates_or_its_grace_period_is_over(status, metadata, seconds, charged):
    counted = usage(PODS, pod(container("a"), status=status, metadata=metadata), NOW + dt.timedelta(seconds=seconds))
    assert counted["count/pods"] == "1"
    assert ("pods" in counted) is charged


# -- other resources --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "nodeports", "balancers"),
    [
        pytest.param({"type": "ClusterIP", "ports": [{}]}, "0", "0", id="ClusterIP"),
        pytest.param({"type": "NodePort", "ports": [{}, {}]}, "2", "0", id="NodePort"),
        pytest.param({"type": "LoadBalancer", "ports": [{}]}, "1", "1", id="LoadBalancer"),
        pytest.param(
            {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{}, {"nodePort": 30000}]},
            "1",
            "1",
            id="LoadBalancer without node ports",
        ),
        pytest.param({"type": "ExternalName"}, "0", "0", id="ExternalName"),
    ],
)
def test_the_usage_of_a_service(spec, nodeports, balancers):
    assert usage(SERVICES, {"spec": spec}) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": nodeports,
        "services.loadbalancers": balancers,
    }


def claim(storage="10Gi", metadata=None, status=None, **spec):
    return {
        "metadata": metadata or {},
        "spec": {"resources": {"requests": {"storage": storage}}, **spec},
        "status": status or {},
    }


GOLD = "gold.storageclass.storage.k8s.io/"


def test_the_usage_of_a_persistent_volume_claim():
    plain = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "10Gi"}
    of_class = {f"{GOLD}persistentvolumeclaims": "1", f"{GOLD}requests.storage": "10Gi"}
    assert usage(CLAIMS, claim()) == plain
    assert usage(CLAIMS, claim(storageClassName="gold")) == {**plain, **of_class}
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}}
    assert usage(CLAIMS, claim(metadata=annotated, storageClassName="x")) == {**plain, **of_class}


@pytest.mark.parametrize(
    ("asked", "given", "counted"),
    [("1Gi", "2Gi", "2Gi"), ("2Gi", "1Gi", "2Gi"), ("1500m", None, "2"), ("1", "1500m", "2")],
)
def test_storage_is_counted_in_whole_bytes_as_requested_or_allocated(asked, given, counted):
    status = {"allocatedResources": {"storage": given}} if given else {}
    assert usage(CLAIMS, claim(asked, status=status))["requests.storage"] == counted


def test_the_usage_of_a_resource_claim():
    def exactly(mode, name, **fields):
        return {"exactly": {"allocationMode": mode, "deviceClassName": name, **fields}}

    choices = [
        {"allocationMode": "ExactCount", "deviceClassName": "b", "count": 2},
        {"allocationMode": "ExactCount", "deviceClassName": "b", "count": 5},
        {"allocationMode": "Unheard", "deviceClassName": "c", "count": 5},
    ]
    requests = [
        exactly("ExactCount", "a", count=3),
        exactly("All", "a"),
        exactly("Unheard", "d"),
        {"firstAvailable": choices},
    ]
    assert usage(DEVICE_CLAIMS, {"spec": {"devices": {"requests": requests}}}) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "a.deviceclass.resource.k8s.io/devices": "35",
        "b.deviceclass.resource.k8s.io/devices": "5",
        "d.deviceclass.resource.k8s.io/devices": "0",
    }


def test_of_other_resources_the_number_counts():
    assert usage(GroupResource("", "secrets"), {}) == {"count/secrets": "1", "secrets": "1"}
    assert usage(GroupResource("apps", "deployments"), {}) == {"count/deployments.apps": "1"}
    assert evaluators_for(["count/events", "count/events.events.k8s.io"]) == []


@pytest.mark.parametrize(
    ("names", "resources"),
    [
        pytest.param(["cpu"], {"pods"}, id="cpu"),
        pytest.param(["requests.example.com/gpu"], {"pods"}, id="extended"),
        pytest.param(["example.com/gpu"], set(), id="extended without requests"),
        pytest.param(["requests.kubernetes.io/x"], set(), id="native with a slash"),
        pytest.param(["requests.deviceclass.resource.kubernetes.io/x"], {"pods"}, id="device class"),
        pytest.param(["hugepages-2Mi"], {"pods"}, id="huge pages"),
        pytest.param(["requests.storage"], {"persistentvolumeclaims"}, id="storage"),
        pytest.param([f"{GOLD}requests.storage", "services"], {"persistentvolumeclaims", "services"}, id="two"),
        pytest.param(["x.deviceclass.resource.k8s.io/devices"], {"resourceclaims"}, id="devices"),
        pytest.param(["configmaps", "count/configmaps"], {"configmaps"}, id="both names"),
        pytest.param(["count/widgets.example.com"], {"widgets"}, id="custom"),
        pytest.param(["count/pods", "count/services"], {"pods", "services"}, id="counted and more"),
        pytest.param(["count/events", "count/events.events.k8s.io"], set(), id="never counted"),
    ],
)
def test_the_evaluators_of_names(names, resources):
    needed = evaluators_for(names)
    assert {one.resource.resource for one in needed} == resources
    assert len(needed) == len(resources)
    assert all(any(map(one.concerns, names)) for one in needed)


@given(st.sampled_from(["", "apps", "example.com"]), st.sampled_from(["pods", "widgets"]))
def test_count_names_round_trip(group, plural):
    resource = GroupResource(group, plural)
    assert counted_resource(count_name(resource)) == resource


# -- scopes -----------------------------------------------------------------------------------------------------------

FAR = {"podAffinityTerm": {"namespaces": ["x"]}}
BUSY = pod(container("a", {"cpu": "1"}))


@pytest.mark.parametrize(
    ("scope", "subject", "included"),
    [
        pytest.param(Scope("Terminating"), pod(activeDeadlineSeconds=0), True, id="deadline"),
        pytest.param(Scope("Terminating"), pod(), False, id="no deadline"),
        pytest.param(Scope("NotTerminating"), pod(), True, id="not terminating"),
        pytest.param(Scope("BestEffort"), pod(container("a")), True, id="best effort"),
        pytest.param(Scope("NotBestEffort"), BUSY, True, id="not best effort"),
        pytest.param(Scope("BestEffort"), BUSY, False, id="burstable"),
        pytest.param(Scope("BestEffort"), {**BUSY, "status": {"qosClass": "BestEffort"}}, True, id="as it was decided"),
        pytest.param(Scope("PriorityClass"), pod(priorityClassName="x"), True, id="has a priority"),
        pytest.param(Scope("PriorityClass"), pod(), False, id="has no priority"),
        pytest.param(Scope("PriorityClass", "DoesNotExist"), pod(), True, id="must have none"),
        pytest.param(Scope("PriorityClass", "In", ("x", "y")), pod(priorityClassName="x"), True, id="one of"),
        pytest.param(Scope("PriorityClass", "In", ("x", "y")), pod(), False, id="one of, has none"),
        pytest.param(Scope("PriorityClass", "NotIn", ("x",)), pod(), True, id="none of, has none"),
        pytest.param(Scope("PriorityClass", "NotIn", ("x",)), pod(priorityClassName="x"), False, id="none of"),
        pytest.param(Scope("CrossNamespacePodAffinity"), pod(), False, id="no affinity"),
        pytest.param(
            Scope("CrossNamespacePodAffinity"),
            pod(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [FAR]}}),
            True,
            id="away from other namespaces",
        ),
        pytest.param(
            Scope("CrossNamespacePodAffinity"),
            pod(
                affinity={
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}
                }
            ),
            True,
            id="near other namespaces",
        ),
        pytest.param(
            Scope("CrossNamespacePodAffinity"),
            pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}),
            False,
            id="near its own",
        ),
        pytest.param(Scope("VolumeAttributesClass"), pod(), False, id="not about pods"),
    ],
)
def test_the_pods_that_a_scope_includes(scope, subject, included):
    assert is_counted(evaluator_for(PODS), [scope], subject) is included


MOVING = {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}


@pytest.mark.parametrize(
    ("operator", "values", "subject", "included"),
    [
        ("Exists", (), claim(), False),
        ("Exists", (), claim(status=MOVING), True),
        ("In", ("c",), claim(status=MOVING), True),
        ("In", ("a",), claim(volumeAttributesClassName="a"), True),
        ("In", ("a",), claim(), False),
        ("NotIn", ("a",), claim(), True),
        ("NotIn", ("a",), claim(volumeAttributesClassName="a"), False),
        ("NotIn", ("b",), claim(status=MOVING), True),
        ("DoesNotExist", (), claim(), True),
    ],
)
def test_the_claims_that_a_scope_includes(operator, values, subject, included):
    assert is_counted(evaluator_for(CLAIMS), [Scope("VolumeAttributesClass", operator, values)], subject) is included


def test_volume_classes_are_desired_current_and_target():
    assert volume_classes_of(claim(status=MOVING, volumeAttributesClassName="a")) == {"a", "b", "c"}
    assert volume_classes_of({"spec": {}}) == set()


def test_a_quota_with_scopes_counts_no_other_resources():
    assert not is_counted(evaluator_for(SERVICES), [Scope("BestEffort")], {})
    assert not is_counted(evaluator_for(GroupResource("", "secrets")), [Scope("BestEffort")], {})
    assert is_counted(evaluator_for(SERVICES), [], {})


def test_scopes_are_read_from_both_fields():
    expressions = [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]
    quota = {"spec": {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": expressions}}}
    assert scopes_of(quota) == (Scope("BestEffort"), Scope("PriorityClass", "In", ("x",)))
    assert scopes_of({"spec": {}}) == ()
