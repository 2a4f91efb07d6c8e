"""Which table a kind has: the columns clients see, the plain table of the rest, and the order of rows."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.cache.watchcache import Item, Selection
from kapi.registry.tables import Column, Table, table_for

NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
PLAIN = "Name:string/name; Created At:date"
POD_CONTROLLER = "Containers:string p1; Images:string p1; Selector:string p1"
REPLICAS = f"Name:string/name; Desired:integer; Current:integer; Ready:integer; Age:string; {POD_CONTROLLER}"
EVENTS = (
    "Last Seen:string; Type:string; Reason:string; Object:string; Subobject:string p1; Source:string p1; Message:string; "
    "First Seen:string p1; Count:string p1; Name:string/name p1"
)
SUBJECTS = "Name:string/name; Role:string; Age:string; Users:string p1; Groups:string p1; ServiceAccounts:string p1"
POLICY_BINDING = "Name:string/name; PolicyName:string; ParamRef:string; Age:string"

COLUMNS = {
    "pods": "Name:string/name; Ready:string; Status:string; Restarts:string; Age:string; IP:string p1; Node:string p1; "
    "Nominated Node:string p1; Readiness Gates:string p1",
    "services": "Name:string/name; Type:string; Cluster-IP:string; External-IP:string; Port(s):string; Age:string; "
    "Selector:string p1",
    "nodes": "Name:string/name; Status:string; Roles:string; Age:string; Version:string; Internal-IP:string p1; "
    "External-IP:string p1; OS-Image:string p1; Kernel-Version:string p1; Container-Runtime:string p1",
    "namespaces": "Name:string/name; Status:string; Age:string",
    "configmaps": "Name:string/name; Data:string; Age:string",
    "secrets": "Name:string/name; Type:string; Data:string; Age:string",
    "serviceaccounts": "Name:string/name; Age:string",
    "events": EVENTS,
    "events.k8s.io/events": EVENTS,
    "endpoints": "Name:string/name; Endpoints:string; Age:string",
    "persistentvolumes": "Name:string/name; Capacity:string; Access Modes:string; Reclaim Policy:string; Status:string; "
    "Claim:string; StorageClass:string; VolumeAttributesClass:string; Reason:string; Age:string; VolumeMode:string p1",
    "persistentvolumeclaims": "Name:string/name; Status:string; Volume:string; Capacity:string; Access Modes:string; "
    "StorageClass:string; VolumeAttributesClass:string; Age:string; VolumeMode:string p1",
    "replicationcontrollers": REPLICAS,
    "resourcequotas": "Name:string/name; Request:string; Limit:string; Age:string",
    "limitranges": PLAIN,
    "componentstatuses": "Name:string/name; Status:string; Message:string; Error:string",
    "podtemplates": "Name:string/name; Containers:string; Images:string; Pod Labels:string",
    "apps/deployments": "Name:string/name; Ready:string; Up-to-date:string; Available:string; Age:string; "
    + POD_CONTROLLER,
    "apps/replicasets": REPLICAS,
    "apps/statefulsets": "Name:string/name; Ready:string; Age:string; Containers:string p1; Images:string p1",
    "apps/daemonsets": "Name:string/name; Desired:integer; Current:integer; Ready:integer; Up-to-date:integer; "
    "Available:integer; Node Selector:string; Age:string; " + POD_CONTROLLER,
    "apps/controllerrevisions": "Name:string/name; Controller:string; Revision:string; Age:string",
    "batch/jobs": "Name:string/name; Status:string; Completions:string; Duration:string; Age:string; " + POD_CONTROLLER,
    "batch/cronjobs": "Name:string/name; Schedule:string; Timezone:string; Suspend:boolean; Active:integer; "
    "Last Schedule:string; Age:string; " + POD_CONTROLLER,
    "autoscaling/horizontalpodautoscalers": "Name:string/name; Reference:string; Targets:string; MinPods:string; "
    "MaxPods:string; Replicas:string; Age:string",
    "networking.k8s.io/ingresses": "Name:string/name; Class:string; Hosts:string; Address:string; Ports:string; Age:string",
    "networking.k8s.io/ingressclasses": "Name:string/name; Controller:string; Parameters:string; Age:string",
    "networking.k8s.io/networkpolicies": "Name:string/name; Pod-Selector:string; Age:string",
    "networking.k8s.io/servicecidrs": "Name:string/name; CIDRs:string; Age:string",
    "networking.k8s.io/ipaddresses": "Name:string/name; ParentRef:string",
    "policy/poddisruptionbudgets": "Name:string/name; Min Available:string; Max Unavailable:string; "
    "Allowed Disruptions:integer; Age:string",
    "rbac.authorization.k8s.io/roles": PLAIN,
    "rbac.authorization.k8s.io/clusterroles": PLAIN,
    "rbac.authorization.k8s.io/rolebindings": SUBJECTS,
    "rbac.authorization.k8s.io/clusterrolebindings": SUBJECTS,
    "storage.k8s.io/storageclasses": "Name:string/name; Provisioner:string; ReclaimPolicy:string; "
    "VolumeBindingMode:string; AllowVolumeExpansion:string; Age:string",
    "storage.k8s.io/volumeattachments": "Name:string/name; Attacher:string/name; PV:string; Node:string; "
    "Attached:boolean; Age:string",
    "storage.k8s.io/csidrivers": "Name:string/name; AttachRequired:boolean; PodInfoOnMount:boolean; "
    "StorageCapacity:boolean; TokenRequests:string; RequiresRepublish:boolean; Modes:string; Age:string",
    "storage.k8s.io/csinodes": "Name:string/name; Drivers:integer; Age:string",
    "storage.k8s.io/csistoragecapacities": PLAIN,
    "storage.k8s.io/volumeattributesclasses": "Name:string/name; DriverName:string; Age:string",
    "scheduling.k8s.io/priorityclasses": "Name:string/name; Value:integer; Global-Default:boolean; Age:string; "
    "PreemptionPolicy:string",
    "coordination.k8s.io/leases": "Name:string/name; Holder:string; Age:string",
    "node.k8s.io/runtimeclasses": "Name:string/name; Handler:string; Age:string",
    "discovery.k8s.io/endpointslices": "Name:string/name; AddressType:string; Ports:string; Endpoints:string; Age:string",
    "certificates.k8s.io/certificatesigningrequests": "Name:string/name; Age:string; SignerName:string; "
    "Requestor:string; RequestedDuration:string; Condition:string",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": "Name:string/name; Webhooks:integer; Age:string",
    "admissionregistration.k8s.io/validatingwebhookconfigurations": "Name:string/name; Webhooks:integer; Age:string",
    "admissionregistration.k8s.io/validatingadmissionpolicies": "Name:string/name; Validations:integer; "
    "ParamKind:string; Age:string",
    "admissionregistration.k8s.io/mutatingadmissionpolicies": "Name:string/name; Mutations:integer; "
    "ParamKind:string; Age:string",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": POLICY_BINDING,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": POLICY_BINDING,
    "apiextensions.k8s.io/customresourcedefinitions": PLAIN,
    "apiregistration.k8s.io/apiservices": "Name:string/name; Service:string; Available:string; Age:string",
    "flowcontrol.apiserver.k8s.io/flowschemas": "Name:string/name; PriorityLevel:string; MatchingPrecedence:string; "
    "DistinguisherMethod:string; Age:string; MissingPL:string",
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": "Name:string/name; Type:string; "
    "NominalConcurrencyShares:string; Queues:string; HandSize:string; QueueLengthLimit:string; Age:string",
    "resource.k8s.io/resourceclaims": "Name:string/name; State:string; Age:string",
    "resource.k8s.io/resourceslices": "Name:string/name; Node:string; Driver:string; Pool:string; Age:string",
    "resource.k8s.io/deviceclasses": "Name:string/name; Age:string",
    "resource.k8s.io/resourceclaimtemplates": "Name:string/name; Age:string",
}


def find(kind: str) -> Table:
    group, _, resource = kind.rpartition("/")
    return table_for(group, resource)


def shown(column: Column) -> str:
    form = f"/{column.format}" if column.format else ""
    priority = f" p{column.priority}" if column.priority else ""
    return f"{column.name}:{column.type}{form}{priority}"


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_has_the_columns_of_kube_apiserver(kind):
    assert "; ".join(shown(column) for column in find(kind).columns) == COLUMNS[kind]


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_column_has_a_description(kind):
    for column in find(kind).columns:
        assert column.description.endswith("."), column


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_row_has_a_cell_for_every_column(kind):
    table = find(kind)
    # Addresses carry their age beyond the last column, as they do in kube-apiserver.
    extra = 1 if kind.endswith("/ipaddresses") else 0
    assert len(table.cells({"metadata": {"name": "x"}}, NOW)) == len(table.columns) + extra


def test_an_unknown_kind_shows_its_name_and_when_it_was_created():
    table = table_for("example.com", "widgets")
    created = {"metadata": {"name": "w", "creationTimestamp": "2026-05-01T00:00:00Z"}}
    assert table.cells(created, NOW) == ["w", "2026-05-01T00:00:00Z"]
    assert table.cells({"metadata": {"name": "w"}}, NOW) == ["w", "0001-01-01T00:00:00Z"]


def test_a_kind_is_found_by_its_group():
    assert table_for("example.com", "pods") is table_for("example.com", "widgets")
    assert table_for("", "pods") is not table_for("example.com", "pods")


def test_a_table_can_be_made_from_columns_and_a_row():
    table = Table([Column("Name", "string"), Column("Size", "integer")], lambda obj, _now: [obj["name"], obj["size"]])
    assert [column.name for column in table.columns] == ["Name", "Size"]
    assert table.cells({"name": "a", "size": 3}, NOW) == ["a", 3]
    assert table.conditions({}) == []


# -- order ------------------------------------------------------------------------------------------------------------


def item(name: str, precedence: int | None) -> Item:
    spec = {} if precedence is None else {"matchingPrecedence": precedence}
    body = msgspec.json.encode({"metadata": {"name": name}, "spec": spec})[1:]
    return Item(f"/registry/flowschemas/{name}", "", name, 1, body, Selection(None, None))


def test_flow_schemas_are_shown_in_the_order_they_are_matched():
    items = [item("catch-all", 10000), item("b", 100), item("exempt", 1), item("a", 100), item("none", None)]
    arranged = table_for("flowcontrol.apiserver.k8s.io", "flowschemas").arrange(items)
    assert [each.name for each in arranged] == ["none", "exempt", "a", "b", "catch-all"]


@given(st.lists(st.tuples(st.text(alphabet="abc", max_size=3), st.integers(0, 3)), max_size=8))
def test_sorting_keeps_every_item_once(pairs):
    items = [item(name, precedence) for name, precedence in pairs]
    arranged = table_for("flowcontrol.apiserver.k8s.io", "flowschemas").arrange(items)
    assert sorted(map(id, arranged)) == sorted(map(id, items))


def test_other_kinds_keep_the_order_of_the_list():
    items = [item("b", 2), item("a", 1)]
    for kind in COLUMNS:
        if not kind.endswith("/flowschemas"):
            assert list(find(kind).arrange(items)) == items
