"""Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, ControllerRevision."""

from __future__ import annotations

import copy
import datetime as dt
from typing import TYPE_CHECKING, Any

import kind_support
import pytest

from kapi.registry.kinds.apps.daemonsets import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from kapi.registry.strategy import Strategy

KINDS: dict[str, Strategy] = {
    kind: strategy
    for (group, kind), strategy in kind_support.all_strategies().items()
    if group == "apps" or kind == "ReplicationController"
}
APPS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]
MISMATCH = "`selector` does not match template `labels`"
DEFAULT_POD_SPEC = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


def a_write():
    return kind_support.a_write(lookup=None, now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector: dict[str, Any] = {"a": "b"} if kind == "ReplicationController" else {"matchLabels": {"a": "b"}}
    return {
        "metadata": {"name": "d", "namespace": "n", "generation": 1},
        "spec": {"selector": selector, "template": template, **spec},
    }


def create(kind: str, obj: dict[str, Any]) -> list[str]:
    strategy = KINDS[kind]
    strategy.default(obj)
    strategy.prepare_create(a_write(), obj)
    return [str(error) for error in strategy.validate_create(a_write(), obj)]


def update(kind: str, new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    strategy = KINDS[kind]
    strategy.default(new)
    strategy.prepare_update(a_write(), new, old)
    return [str(error) for error in strategy.validate_update(a_write(), new, old)]


def stored(kind: str, **spec: Any) -> dict[str, Any]:
    obj = workload(kind, **spec)
    assert create(kind, obj) == []
    return obj


# -- defaults ---------------------------------------------------------------------------------------------------------


def test_a_minimal_deployment_reads_back_with_the_known_defaults():
    obj = stored("Deployment")
    assert obj["spec"] == {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": DEFAULT_POD_SPEC},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    assert obj["status"] == {}


def test_a_minimal_stateful_set_reads_back_with_the_known_defaults():
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = stored("StatefulSet", volumeClaimTemplates=[claim])["spec"]
    assert {key: spec[key] for key in spec.keys() - {"template", "selector"}} == {
        "replicas": 1,
        "serviceName": "",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [
            {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            }
        ],
    }


def test_a_minimal_daemon_set_reads_back_with_the_known_defaults():
    obj = stored("DaemonSet")
    assert obj["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    assert obj["spec"]["revisionHistoryLimit"] == 10
    assert obj["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1"}
    assert obj["status"] == {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }


def test_a_replication_controller_takes_selector_and_labels_from_its_template():
    obj = workload("ReplicationController")
    del obj["spec"]["selector"]
    assert create("ReplicationController", obj) == []
    assert obj["spec"]["selector"] == obj["metadata"]["labels"] == {"a": "b"}
    assert obj["spec"]["replicas"] == 1
    assert obj["status"] == {"replicas": 0}


@pytest.mark.parametrize("kind", [*APPS, "ReplicationController"])
def test_defaulting_and_preparing_twice_changes_nothing(kind: str):
    obj = stored(kind)
    again = copy.deepcopy(obj)
    assert create(kind, again) == []
    assert again == obj


def test_a_recreate_strategy_gets_no_rolling_update():
    assert stored("Deployment", strategy={"type": "Recreate"})["spec"]["strategy"] == {"type": "Recreate"}


# -- flags ------------------------------------------------------------------------------------------------------------


def test_flags_that_differ():
    assert {kind for kind, strategy in KINDS.items() if strategy.default_propagation == "Orphan"} == {
        "ReplicationController"
    }
    assert {kind for kind, strategy in KINDS.items() if strategy.resets_labels_on_status} == {"Deployment"}
    assert {kind for kind, strategy in KINDS.items() if not strategy.tracks_generation} == {"ControllerRevision"}
    assert not any(strategy.allow_create_on_update or strategy.returns_deleted_object for strategy in KINDS.values())
    assert all(strategy.allow_unconditional_update for strategy in KINDS.values())


def test_a_replication_controller_is_selectable_by_its_replicas():
    strategy = KINDS["ReplicationController"]
    assert strategy.selectable({"status": {"replicas": 3}}) == {"status.replicas": "3"}
    assert strategy.selectable_fields == ("status.replicas",)
    assert KINDS["ReplicaSet"].selectable_fields == ()


def test_names_of_stateful_sets_are_labels():
    assert KINDS["StatefulSet"].validate_name("a.b") == ["must not contain dots"]
    assert KINDS["Deployment"].validate_name("a.b") == []


# -- rules of all -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Deployment", "deployment"),
        ("ReplicaSet", "deployment"),
        ("StatefulSet", "statefulset"),
        ("DaemonSet", "daemonset"),
    ],
)
def test_a_selector_may_not_be_empty(kind: str, name: str):
    texts = create(kind, workload(kind, selector={}))
    assert texts == [f"spec.selector: Invalid value: {{}}: empty selector is invalid for {name}"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_missing_selector_is_required_and_matches_nothing(kind: str):
    obj = workload(kind)
    del obj["spec"]["selector"]
    assert create(kind, obj) == [
        "spec.selector: Required value",
        f'spec.template.metadata.labels: Invalid value: {{"a":"b"}}: {MISMATCH}',
    ]


@pytest.mark.parametrize("kind", [*APPS, "ReplicationController"])
def test_the_selector_must_select_the_template(kind: str):
    obj = workload(kind)
    obj["spec"]["template"]["metadata"]["labels"] = {"a": "c"}
    assert create(kind, obj) == [f'spec.template.metadata.labels: Invalid value: {{"a":"c"}}: {MISMATCH}']


@pytest.mark.parametrize("kind", APPS)
def test_selectors_of_the_apps_group_are_immutable(kind: str):
    old = stored(kind)
    new = copy.deepcopy(old)
    new["spec"]["selector"] = {"matchLabels": {"x": "y"}}
    new["spec"]["template"]["metadata"]["labels"] = {"a": "b", "x": "y"}
    texts = update(kind, new, old)
    if kind == "StatefulSet":
        assert texts == [
            (
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                "forbidden"
            )
        ]
    else:
        assert texts == ['spec.selector: Invalid value: {"matchLabels":{"x":"y"}}: field is immutable']


def test_the_selector_of_a_replication_controller_may_change():
    old = stored("ReplicationController")
    new = copy.deepcopy(old)
    new["spec"]["selector"] = {"x": "y"}
    new["spec"]["template"]["metadata"]["labels"] = {"x": "y"}
    assert update("ReplicationController", new, old) == []


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("Deployment", "ReplicaSet"),
        ("ReplicaSet", "ReplicaSet"),
        ("StatefulSet", "StatefulSet"),
        ("DaemonSet", "DaemonSet"),
        ("ReplicationController", "ReplicationController"),
    ],
)
def test_pods_of_long_running_workloads_restart_always(kind: str, named: str):
    obj = workload(kind)
    obj["spec"]["template"]["spec"] |= {"restartPolicy": "Never", "activeDeadlineSeconds": 5}
    assert create(kind, obj) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {named} is not Supported",
    ]


@pytest.mark.parametrize("kind", [*APPS, "ReplicationController"])
def test_the_template_is_validated_like_a_pod(kind: str):
    obj = workload(kind)
    obj["spec"]["template"]["spec"]["containers"] = []
    assert create(kind, obj) == ["spec.template.spec.containers: Required value"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_replicas_may_not_be_negative(kind: str):
    assert create(kind, workload(kind, replicas=-1)) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]


@pytest.mark.parametrize("kind", [*APPS, "ReplicationController"])
def test_generation_grows_with_the_spec(kind: str):
    old = stored(kind)
    new = copy.deepcopy(old)
    assert not KINDS[kind].generation_changed(new, old)
    new["spec"]["minReadySeconds"] = 5
    assert KINDS[kind].generation_changed(new, old)


# -- Deployment -------------------------------------------------------------------------------------------------------


def test_annotations_of_a_deployment_count_as_desired_state():
    old = stored("Deployment")
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"note": "x"}
    assert KINDS["Deployment"].generation_changed(new, old)
    rs = stored("ReplicaSet")
    assert not KINDS["ReplicaSet"].generation_changed({**rs, "metadata": new["metadata"]}, rs)


def rolling(unavailable: Any, surge: Any) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            {"strategy": {"type": "Foo"}},
            [
                (
                    'spec.strategy: Unsupported value: {"Type":"Foo","RollingUpdate":null}: supported values: "Recreate", '
                    '"RollingUpdate"'
                )
            ],
        ),
        (
            rolling(0, "0%"),
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
        (
            rolling("101%", 0),
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
        ),
        (
            rolling(1, "lots"),
            [
                (
                    'spec.strategy.rollingUpdate.maxSurge: Invalid value: "lots": a valid percent string must be a numeric '
                    "string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
                )
            ],
        ),
        (
            rolling(-1, 1),
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (rolling(1, "200%"), []),
        (
            {"minReadySeconds": 600},
            ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        ),
        (
            {"revisionHistoryLimit": -1},
            ["spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            [
                'spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
                'spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Near"}]}: invalid label selector',
            ],
        ),
    ],
)
def test_deployments(spec: dict[str, Any], texts: list[str]):
    assert create("Deployment", workload("Deployment", **spec)) == texts


# -- StatefulSet ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {"podManagementPolicy": "Random"},
            ["spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            [
                (
                    'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for '
                    "updateStrategy 'RollingUpdate'"
                )
            ],
        ),
        (
            {"updateStrategy": {"type": "Foo"}},
            [
                (
                    'spec.updateStrategy: Invalid value: {"Type":"Foo","RollingUpdate":null}: must be \'RollingUpdate\' or '
                    "'OnDelete'"
                )
            ],
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            [
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Burn"}},
            [
                (
                    'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn": supported values: '
                    '"Retain", "Delete"'
                )
            ],
        ),
        ({"ordinals": {"start": -1}}, ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
        ({"serviceName": "a.b"}, ['spec.serviceName: Invalid value: "a.b": must not contain dots']),
        (
            {"volumeClaimTemplates": [{"metadata": {"name": "v"}}]},
            [
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ],
        ),
    ],
)
def test_stateful_sets(spec: dict[str, Any], texts: list[str]):
    assert create("StatefulSet", workload("StatefulSet", **spec)) == texts


def test_claims_of_a_stateful_set_are_volumes_of_its_pods():
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    obj = workload("StatefulSet", volumeClaimTemplates=[claim])
    obj["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    assert create("StatefulSet", obj) == []
    del obj["spec"]["volumeClaimTemplates"]
    assert create("StatefulSet", obj) == ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"']


def test_a_stateful_set_may_change_replicas_and_template_but_not_the_service_name():
    old = stored("StatefulSet", serviceName="svc")
    new = copy.deepcopy(old)
    new["spec"] |= {"replicas": 5, "minReadySeconds": 3, "ordinals": {"start": 2}, "revisionHistoryLimit": 1}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "j"
    assert update("StatefulSet", new, old) == []
    new["spec"]["serviceName"] = "other"
    assert len(update("StatefulSet", new, old)) == 1


def test_a_bad_template_that_was_stored_does_not_block_updates():
    old = stored("StatefulSet")
    old["spec"]["template"]["spec"]["containers"][0]["name"] = "BAD"
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 2
    assert update("StatefulSet", new, old) == []
    good = stored("StatefulSet")
    assert update("StatefulSet", new, good) != []


def test_max_unavailable_of_a_stateful_set_is_dropped_until_the_feature_is_on():
    spec = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}}
    assert stored("StatefulSet", **spec)["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


# -- DaemonSet --------------------------------------------------------------------------------------------------------


def test_the_template_generation_of_a_daemon_set_counts_template_changes():
    old = stored("DaemonSet")
    same_template = copy.deepcopy(old)
    same_template["metadata"]["annotations"] = {TEMPLATE_GENERATION: "99", "mine": "x"}
    same_template["spec"]["minReadySeconds"] = 1
    assert update("DaemonSet", same_template, old) == []
    assert same_template["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1", "mine": "x"}
    changed = copy.deepcopy(old)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "j"
    assert update("DaemonSet", changed, old) == []
    assert changed["metadata"]["annotations"][TEMPLATE_GENERATION] == "2"


@pytest.mark.parametrize(
    ("strategy", "texts"),
    [
        ({"type": "OnDelete"}, []),
        (
            {"type": "Foo"},
            [
                (
                    'spec.updateStrategy: Unsupported value: {"Type":"Foo","RollingUpdate":null}: supported values: '
                    '"RollingUpdate", "OnDelete"'
                )
            ],
        ),
        (
            {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
            [
                (
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
                    "non-zero"
                )
            ],
        ),
        (
            {"rollingUpdate": {"maxUnavailable": 0}},
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        ),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}}, []),
    ],
)
def test_daemon_sets(strategy: dict[str, Any], texts: list[str]):
    assert create("DaemonSet", workload("DaemonSet", updateStrategy=strategy)) == texts


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_a_replication_controller_needs_selector_and_template():
    obj = {"metadata": {"name": "r"}, "spec": {}}
    assert create("ReplicationController", obj) == ["spec.selector: Required value", "spec.template: Required value"]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ({"data": {"a": 1}}, []),
        ({}, ["data: Required value: data is mandatory"]),
        ({"data": [1]}, ["data: Required value: data must be a valid JSON object"]),
        ({"data": {}, "revision": -1}, ["revision: Invalid value: -1: must be greater than or equal to 0"]),
    ],
)
def test_controller_revisions(data: dict[str, Any], texts: list[str]):
    strategy = KINDS["ControllerRevision"]
    assert [str(error) for error in strategy.validate_create(a_write(), {"metadata": {}, **data})] == texts


def test_the_data_of_a_controller_revision_is_immutable():
    strategy = KINDS["ControllerRevision"]
    old = {"metadata": {}, "data": {"a": 1}, "revision": 1}
    assert strategy.validate_update(a_write(), {**old, "revision": 2}, old) == []
    texts = [str(error) for error in strategy.validate_update(a_write(), {**old, "data": {"a": 2}}, old)]
    assert texts == ['data: Invalid value: {"a":2}: field is immutable']


@pytest.mark.parametrize(
    ("kind", "status", "old", "texts"),
    [
        ("Deployment", {"replicas": 1, "readyReplicas": 1}, {}, []),
        (
            "Deployment",
            {"replicas": 1, "updatedReplicas": 2},
            {},
            ["status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "ReplicaSet",
            {"replicas": 2, "availableReplicas": 2, "readyReplicas": 1},
            {},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
        ),
        (
            "StatefulSet",
            {"replicas": 2, "availableReplicas": 2, "readyReplicas": 1},
            {},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas"],
        ),
        (
            "Deployment",
            {"replicas": 0},
            {"collisionCount": 1},
            ["status.collisionCount: Invalid value: 0: cannot be decremented"],
        ),
        (
            "DaemonSet",
            {"numberReady": -1},
            {},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "ReplicationController",
            {"replicas": -1},
            {},
            [
                "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
            ],
        ),
    ],
)
def test_counts_in_status_must_add_up(kind: str, status: dict[str, Any], old: dict[str, Any], texts: list[str]):
    before = {**workload(kind), "status": old}
    new = {**workload(kind), "status": status}
    KINDS[kind].prepare_status(a_write(), new, before)
    found = [str(error) for error in KINDS[kind].validate_status(a_write(), new, before)]
    assert found[:2] == texts


def test_new_or_changed_templates_get_warnings_with_their_path():
    obj = stored("Deployment")
    obj["spec"]["template"]["spec"]["nodeSelector"] = {"beta.kubernetes.io/arch": "x"}
    advice = [
        'spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead'
    ]
    strategy = KINDS["Deployment"]
    assert strategy.warnings(obj, None) == advice
    assert strategy.warnings(obj, obj) == []
    assert strategy.warnings(obj, stored("Deployment")) == advice
    obj["metadata"]["name"] = "a.b"
    assert strategy.warnings(obj, None)[0].startswith("metadata.name: this is used in Pod names and hostnames, ")
    assert KINDS["DaemonSet"].warnings(obj, None) == advice
