"""The finer rules of single columns: what is shown when there is nothing, too much, or something odd."""

from __future__ import annotations

import datetime as dt

import pytest

from kapi.registry.tables import table_for

NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
DELETED = {"name": "x", "deletionTimestamp": "2026-05-04T11:59:00Z"}


def cell(group, resource, column, obj):
    table = table_for(group, resource)
    index = [each.name for each in table.columns].index(column)
    return table.cells({"metadata": {"name": "x"}, **obj}, NOW)[index]


# -- ages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("created", "age"),
    [
        (None, "<unknown>"),
        ("2026-05-04T12:00:00Z", "0s"),
        ("2026-05-04T12:00:01Z", "0s"),
        ("2026-05-04T12:00:05Z", "<invalid>"),
        ("2026-05-04T07:30:00Z", "4h30m"),
        ("2020-01-01T00:00:00Z", "6y125d"),
    ],
)
def test_an_age_is_counted_to_the_moment_of_the_answer(created, age):
    metadata = {"name": "x", "creationTimestamp": created} if created else {"name": "x"}
    assert cell("", "serviceaccounts", "Age", {"metadata": metadata}) == age


# -- services ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "balancer", "shown"),
    [
        ({"type": "ClusterIP"}, [], "<none>"),
        ({"type": "ClusterIP", "externalIPs": ["192.0.2.1", "192.0.2.2"]}, [], "192.0.2.1,192.0.2.2"),
        ({"type": "NodePort"}, [{"ip": "198.51.100.1"}], "<none>"),
        ({"type": "LoadBalancer"}, [], "<pending>"),
        ({"type": "LoadBalancer"}, [{"ip": "198.51.100.2"}, {"ip": "198.51.100.1"}], "198.51.100.1,198.51.100.2"),
        ({"type": "LoadBalancer"}, [{"hostname": "lb.example"}, {"hostname": "lb.example"}], "lb.example"),
        ({"type": "LoadBalancer", "externalIPs": ["192.0.2.1"]}, [], "192.0.2.1"),
        ({"type": "LoadBalancer", "externalIPs": ["192.0.2.1"]}, [{"ip": "198.51.100.1"}], "198.51.100.1,192.0.2.1"),
        ({"type": "ExternalName", "externalName": "db.example"}, [], "db.example"),
        ({}, [], "<unknown>"),
    ],
)
def test_the_external_address_of_a_service_depends_on_its_type(spec, balancer, shown):
    obj = {"spec": spec, "status": {"loadBalancer": {"ingress": balancer}}}
    assert cell("", "services", "External-IP", obj) == shown


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"clusterIPs": ["None"], "clusterIP": "None"}, "None"),
        ({"clusterIP": "10.0.0.1"}, "10.0.0.1"),
        ({"type": "ExternalName"}, "<none>"),
    ],
)
def test_the_cluster_address_of_a_service(spec, shown):
    assert cell("", "services", "Cluster-IP", {"spec": spec}) == shown


def test_a_service_without_ports_or_selector_shows_none():
    assert cell("", "services", "Port(s)", {"spec": {}}) == "<none>"
    assert cell("", "services", "Selector", {"spec": {}}) == "<none>"


# -- endpoints --------------------------------------------------------------------------------------------------------


def ips(*last):
    return [{"ip": f"10.1.0.{each}"} for each in last]


@pytest.mark.parametrize(
    ("subsets", "shown"),
    [
        ([], "<none>"),
        ([{"notReadyAddresses": ips(1), "ports": [{"port": 80}]}], ""),
        ([{"addresses": ips(1)}], "10.1.0.1"),
        ([{"addresses": ips(1, 2, 3), "ports": [{"port": 80}]}], "10.1.0.1:80,10.1.0.2:80,10.1.0.3:80"),
        (
            [{"addresses": ips(1, 2)}, {"addresses": ips(3, 4, 5), "ports": [{"port": 80}]}],
            "10.1.0.1,10.1.0.2,10.1.0.3:80 + 2 more...",
        ),
    ],
)
def test_three_endpoints_are_shown_and_the_rest_counted(subsets, shown):
    assert cell("", "endpoints", "Endpoints", {"subsets": subsets}) == shown


def test_an_empty_slice_is_unset():
    assert cell("discovery.k8s.io", "endpointslices", "Ports", {}) == "<unset>"
    assert cell("discovery.k8s.io", "endpointslices", "Endpoints", {"endpoints": []}) == "<unset>"


def test_three_ports_of_a_slice_are_shown_and_the_rest_counted():
    ports = [{"port": each} for each in (1, 2, 3, 4, 5)]
    assert cell("discovery.k8s.io", "endpointslices", "Ports", {"ports": ports}) == "1,2,3 + 2 more..."


# -- ingress ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        ([], "*"),
        ([""], "*"),
        (["a", "b", "c"], "a,b,c"),
        (["a", "", "b", "c"], "a,b,c"),
        (["a", "b", "c", ""], "a,b,c + 1 more..."),
        (["a", "", "b", "c", "d"], "a,b,c + 2 more..."),
    ],
)
def test_three_hosts_are_shown_and_the_remaining_rules_counted(hosts, shown):
    rules = [{"host": host} if host else {} for host in hosts]
    assert cell("networking.k8s.io", "ingresses", "Hosts", {"spec": {"rules": rules}}) == shown


def test_an_ingress_without_class_tls_or_address():
    table = table_for("networking.k8s.io", "ingresses")
    assert table.cells({"metadata": {"name": "x"}}, NOW) == ["x", "<none>", "*", "", "80", "<unknown>"]


def test_ingress_class_parameters_may_be_of_the_core_group_or_missing():
    spec = {"controller": "c", "parameters": {"kind": "ConfigMap", "name": "m"}}
    assert cell("networking.k8s.io", "ingressclasses", "Parameters", {"spec": spec}) == "ConfigMap/m"
    assert cell("networking.k8s.io", "ingressclasses", "Parameters", {"spec": {}}) == "<none>"


def test_an_empty_pod_selector_shows_none():
    assert cell("networking.k8s.io", "networkpolicies", "Pod-Selector", {"spec": {"podSelector": {}}}) == "<none>"


def test_the_parent_of_an_address_names_its_group():
    parent = {"group": "Gateway.example", "resource": "gateways", "name": "g"}
    assert cell("networking.k8s.io", "ipaddresses", "ParentRef", {"spec": {"parentRef": parent}}) == (
        "gateways.gateway.example/g"
    )
    assert cell("networking.k8s.io", "ipaddresses", "ParentRef", {"spec": {}}) == "<none>"


# -- workloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "Running"),
        (["Suspended"], "Suspended"),
        (["SuccessCriteriaMet"], "SuccessCriteriaMet"),
        (["SuccessCriteriaMet", "FailureTarget"], "FailureTarget"),
        (["FailureTarget", "Failed"], "Failed"),
        (["SuccessCriteriaMet", "Complete"], "Complete"),
    ],
)
def test_the_most_important_condition_is_the_status_of_a_job(conditions, shown):
    status = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
    assert cell("batch", "jobs", "Status", {"status": status}) == shown


def test_a_false_condition_is_not_the_status_of_a_job():
    assert cell("batch", "jobs", "Status", {"status": {"conditions": [{"type": "Suspended", "status": "False"}]}}) == (
        "Running"
    )


def test_a_deleted_job_is_terminating_unless_it_has_finished():
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert cell("batch", "jobs", "Status", {"metadata": DELETED, "status": suspended}) == "Terminating"
    assert cell("batch", "jobs", "Status", {"metadata": DELETED, "status": complete}) == "Complete"


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"completions": 0}, "2/0"),
        ({"completions": 5, "parallelism": 3}, "2/5"),
        ({"parallelism": 3}, "2/1 of 3"),
        ({"parallelism": 1}, "2/1"),
        ({}, "2/1"),
    ],
)
def test_the_completions_of_a_job(spec, shown):
    assert cell("batch", "jobs", "Completions", {"spec": spec, "status": {"succeeded": 2}}) == shown


def test_the_duration_of_a_job_runs_until_it_completes():
    assert cell("batch", "jobs", "Duration", {"status": {}}) == ""
    assert cell("batch", "jobs", "Duration", {"status": {"startTime": "2026-05-04T11:50:00Z"}}) == "10m"


def test_a_cron_job_that_never_ran_shows_none():
    table = table_for("batch", "cronjobs")
    row = table.cells({"metadata": {"name": "x"}, "spec": {"schedule": "@daily"}}, NOW)
    assert row == ["x", "@daily", "<none>", "<unset>", 0, "<none>", "<unknown>", "", "", "<none>"]
    assert cell("batch", "cronjobs", "Suspend", {"spec": {"suspend": True}}) == "True"


def test_invalid_selectors_are_shown_as_invalid():
    broken = {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}
    assert cell("apps", "deployments", "Selector", broken) == "<invalid>"
    assert cell("apps", "replicasets", "Selector", broken) == "<error>"


def test_a_deployment_without_selector_shows_nothing_where_others_show_none():
    assert cell("apps", "deployments", "Selector", {"spec": {"selector": {}}}) == ""
    assert cell("apps", "replicasets", "Selector", {"spec": {"selector": {}}}) == "<none>"


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        ({"apiVersion": "v1", "kind": "Node", "name": "n", "controller": True}, "node/n"),
        ({"apiVersion": "a/b/c", "kind": "Node", "name": "n", "controller": True}, "node/n"),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}, "<none>"),
    ],
)
def test_the_controller_of_a_revision(owner, shown):
    assert cell("apps", "controllerrevisions", "Controller", {"metadata": {"ownerReferences": [owner]}}) == shown


# -- autoscalers ------------------------------------------------------------------------------------------------------


def metric(kind, target, field=None, **more):
    return {"type": kind, field or kind.lower(): {"target": target, **more}}


def measured(field, current):
    return {field: {"current": current}}


CPU = metric("Resource", {"averageUtilization": 50}, name="cpu")


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        (CPU, None, "cpu: <unknown>/50%"),
        (CPU, measured("resource", {"averageValue": "1"}), "cpu: <unknown>/50%"),
        (metric("Resource", {}, name="cpu"), measured("resource", {"averageUtilization": 0}), "cpu: 0%/<auto>"),
        (metric("Resource", {"averageValue": "0.5"}, name="cpu"), None, "cpu: <unknown>/500m"),
        (
            metric("Resource", {"averageValue": "1Gi"}, name="memory"),
            measured("resource", {"averageValue": "512Mi"}),
            "memory: 512Mi/1Gi",
        ),
        (
            metric("ContainerResource", {"averageUtilization": 80}, "containerResource", name="cpu"),
            measured("containerResource", {"averageUtilization": 70}),
            "cpu: 70%/80%",
        ),
        (metric("Pods", {"averageValue": "100"}), measured("pods", {"averageValue": "20"}), "20/100"),
        (metric("Pods", {"averageValue": "100"}), None, "<unknown>/100"),
        (metric("Object", {"value": "10k"}), measured("object", {"value": "5000"}), "5k/10k"),
        (metric("Object", {"averageValue": "2"}), measured("object", {"value": "5"}), "<unknown>/2 (avg)"),
        (metric("External", {"averageValue": "2"}), measured("external", {"averageValue": "1"}), "1/2 (avg)"),
        (metric("External", {"value": "3"}), None, "<unknown>/3"),
        (metric("External", {}), measured("external", {}), "<nil>/<nil>"),
        ({"type": "Moon"}, None, "<unknown type>"),
    ],
)
def test_a_metric_shows_where_it_is_and_where_it_should_be(spec, status, shown):
    obj = {"spec": {"metrics": [spec]}, "status": {"currentMetrics": [status] if status else []}}
    assert cell("autoscaling", "horizontalpodautoscalers", "Targets", obj) == shown


def test_two_metrics_are_shown_and_the_rest_counted():
    obj = {"spec": {"metrics": [CPU] * 4}}
    assert cell("autoscaling", "horizontalpodautoscalers", "Targets", obj) == (
        "cpu: <unknown>/50%, cpu: <unknown>/50% + 2 more..."
    )
    assert cell("autoscaling", "horizontalpodautoscalers", "Targets", {"spec": {}}) == "<none>"
    assert cell("autoscaling", "horizontalpodautoscalers", "MinPods", {"spec": {}}) == "<unset>"


# -- nodes and events -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "Unknown"),
        ([("Ready", "Unknown")], "NotReady"),
        ([("Ready", "False")], "NotReady"),
        ([("Ready", "False"), ("Ready", "True")], "Ready"),
    ],
)
def test_a_node_is_ready_only_with_a_ready_condition(conditions, shown):
    status = {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}
    assert cell("", "nodes", "Status", {"status": status}) == shown


def test_a_bare_node_is_unknown_throughout():
    row = table_for("", "nodes").cells({"metadata": {"name": "x", "labels": {"node-role.kubernetes.io/": ""}}}, NOW)
    assert row == [
        "x",
        "Unknown",
        "<none>",
        "<unknown>",
        "",
        "<none>",
        "<none>",
        "<unknown>",
        "<unknown>",
        "<unknown>",
    ]


def test_an_events_k8s_io_event_shows_the_times_of_its_series():
    obj = {
        "eventTime": "2026-05-04T11:00:00.000000Z",
        "series": {"count": 4, "lastObservedTime": "2026-05-04T11:59:00.500000Z"},
        "reportingComponent": "example.com/scheduler",
        "reportingInstance": "s-1",
    }
    shown = [cell("", "events", column, obj) for column in ("Last Seen", "First Seen", "Count", "Source")]
    assert shown == ["59s", "60m", 4, "example.com/scheduler, s-1"]


def test_an_event_that_happened_once_counts_as_one():
    obj = {"eventTime": "2026-05-04T11:59:00.000000Z", "source": {"component": "kubelet"}}
    shown = [cell("", "events", column, obj) for column in ("Last Seen", "First Seen", "Count", "Source")]
    assert shown == ["60s", "60s", 1, "kubelet"]


def test_an_event_about_nothing_named_shows_the_kind():
    assert cell("", "events", "Object", {"involvedObject": {"kind": "Node"}}) == "node"
    assert cell("", "events", "Last Seen", {}) == "<unknown>"


def test_a_component_without_a_health_condition_is_unknown():
    assert cell("", "componentstatuses", "Status", {"conditions": []}) == "Unknown"
    healthy = {"conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]}
    assert cell("", "componentstatuses", "Status", healthy) == "Healthy"


# -- storage ----------------------------------------------------------------------------------------------------------


def test_volumes_and_claims_that_are_deleted_are_terminating():
    for resource in ("persistentvolumes", "persistentvolumeclaims"):
        assert cell("", resource, "Status", {"metadata": DELETED, "status": {"phase": "Bound"}}) == "Terminating"


def test_a_claim_without_a_volume_shows_no_capacity():
    obj = {"spec": {"resources": {"requests": {"storage": "5Gi"}}, "accessModes": ["ReadWriteOnce"]}}
    obj["status"] = {"phase": "Pending"}
    row = table_for("", "persistentvolumeclaims").cells({"metadata": {"name": "x"}, **obj}, NOW)
    assert row == ["x", "Pending", "", "", "", "", "<unset>", "<unknown>", "<unset>"]


def test_a_volume_without_capacity_holds_zero():
    assert cell("", "persistentvolumes", "Capacity", {"spec": {}}) == "0"
    assert cell("", "persistentvolumes", "Claim", {"spec": {}}) == ""


@pytest.mark.parametrize("resource", ["persistentvolumes", "persistentvolumeclaims"])
def test_the_old_annotation_for_the_storage_class_wins(resource):
    metadata = {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": ""}}
    assert cell("", resource, "StorageClass", {"metadata": metadata, "spec": {"storageClassName": "fast"}}) == ""


def test_a_storage_class_shows_its_defaults():
    row = table_for("storage.k8s.io", "storageclasses").cells({"metadata": {"name": "x"}, "provisioner": "p"}, NOW)
    assert row == ["x", "p", "Delete", "Immediate", False, "<unknown>"]


def test_the_old_annotation_marks_the_default_storage_class_too():
    metadata = {"name": "x", "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}
    assert cell("storage.k8s.io", "storageclasses", "Name", {"metadata": metadata}) == "x (default)"
    metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "false"}
    assert cell("storage.k8s.io", "storageclasses", "Name", {"metadata": metadata}) == "x"


# -- access, extension, devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "certificate", "shown"),
    [
        ([], "", "Pending"),
        (["Approved"], "", "Approved"),
        (["Approved", "Denied"], "", "Denied"),
        (["Approved", "Failed"], "", "Approved,Failed"),
        (["Failed"], "LS0t", "Pending,Failed,Issued"),
    ],
)
def test_the_condition_of_a_certificate_signing_request(conditions, certificate, shown):
    status = {"conditions": [{"type": each} for each in conditions], "certificate": certificate}
    obj = {"status": status}
    assert cell("certificates.k8s.io", "certificatesigningrequests", "Condition", obj) == shown


def test_a_signing_request_without_signer_or_lifetime_shows_none():
    kind = ("certificates.k8s.io", "certificatesigningrequests")
    assert cell(*kind, "SignerName", {}) == "<none>"
    assert cell(*kind, "RequestedDuration", {}) == "<none>"


@pytest.mark.parametrize("resource", ["validatingadmissionpolicybindings", "mutatingadmissionpolicybindings"])
def test_the_parameters_of_a_policy_binding(resource):
    def shown(reference):
        return cell("admissionregistration.k8s.io", resource, "ParamRef", {"spec": {"paramRef": reference}})

    assert shown({"name": "p"}) == "*/p"
    assert shown({"name": "p", "namespace": "ns", "selector": {}}) == "ns/p"
    assert shown({}) == "<unset>"
    empty = "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert shown({"selector": {}}) == empty


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        (None, "Unknown"),
        ({"status": "True", "reason": "Local"}, "True"),
        ({"status": "False"}, "False"),
        ({"status": "Unknown", "reason": "Waiting"}, "Unknown (Waiting)"),
    ],
)
def test_the_availability_of_an_api_service(condition, shown):
    conditions = [{"type": "Available", **condition}] if condition else []
    obj = {"status": {"conditions": conditions}}
    assert cell("apiregistration.k8s.io", "apiservices", "Available", obj) == shown
    assert cell("apiregistration.k8s.io", "apiservices", "Service", obj) == "Local"


def test_a_flow_schema_without_conditions_shows_a_question_mark():
    assert cell("flowcontrol.apiserver.k8s.io", "flowschemas", "MissingPL", {}) == "?"
    assert cell("flowcontrol.apiserver.k8s.io", "flowschemas", "DistinguisherMethod", {"spec": {}}) == "<none>"


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"type": "Exempt", "exempt": {}}, ["Exempt", "<none>", "<none>", "<none>", "<none>"]),
        (
            {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}},
            ["Limited", 5, "<none>", "<none>", "<none>"],
        ),
        ({"type": "Limited", "limited": {}}, ["Limited", 0, "<none>", "<none>", "<none>"]),
    ],
)
def test_a_priority_level_without_queues_shows_none(spec, shown):
    table = table_for("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
    assert table.cells({"metadata": {"name": "x"}, "spec": spec}, NOW)[1:-1] == shown


@pytest.mark.parametrize(
    ("metadata", "status", "shown"),
    [
        ({}, {}, "pending"),
        ({}, {"allocation": {}, "reservedFor": [{"name": "p"}]}, "allocated,reserved"),
        (DELETED, {}, "deleted"),
        (DELETED, {"allocation": {}}, "deleted,allocated"),
    ],
)
def test_the_state_of_a_resource_claim(metadata, status, shown):
    assert cell("resource.k8s.io", "resourceclaims", "State", {"metadata": metadata, "status": status}) == shown


def test_a_quantity_that_cannot_be_read_is_shown_as_written():
    assert cell("", "persistentvolumes", "Capacity", {"spec": {"capacity": {"storage": "many"}}}) == "many"
    assert cell("", "persistentvolumes", "Capacity", {"spec": {"capacity": {"storage": 1024}}}) == "1024"
