"""What may change in a pod once it exists, at the main endpoint and at /status; deletion, selection, advice."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import kind_support
import pytest

from kapi.registry.kinds.core.pod.pods import PodStrategy, PodTemplateStrategy
from kapi.registry.kinds.sameness import difference, same

STRATEGY = PodStrategy()
MAY_CHANGE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)


def a_write():
    return kind_support.a_write(lookup=None, now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def stored(**spec: Any) -> dict[str, Any]:
    pod = {
        "metadata": {"name": "p", "namespace": "n", "generation": 1},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }
    STRATEGY.default(pod)
    STRATEGY.prepare_create(a_write(), pod)
    return pod


def update(old: dict[str, Any], **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    for field, value in spec.items():
        if value is None:
            new["spec"].pop(field, None)
        else:
            new["spec"][field] = value
    STRATEGY.default(new)
    STRATEGY.prepare_update(a_write(), new, old)
    return [str(error) for error in STRATEGY.validate_update(a_write(), new, old)]


def changed_container(old: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{**old["spec"]["containers"][0], **fields}]


# -- spec -------------------------------------------------------------------------------------------------------------


def test_an_unchanged_pod_is_accepted_also_with_zero_values_spelt_out():
    old = stored()
    assert update(old, hostNetwork=False, volumes=[], nodeName="") == []


def test_images_may_change():
    old = stored()
    assert update(old, containers=changed_container(old, image="i:2")) == []


def test_tolerations_may_be_added_but_not_changed():
    old = stored(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])
    kept = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
    assert update(old, tolerations=[kept, {"key": "b", "operator": "Exists"}]) == []
    refusal = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert update(old, tolerations=[{"key": "b", "operator": "Exists"}]) == [refusal]


def test_a_deadline_may_be_set_and_shortened():
    old = stored()
    assert update(old, activeDeadlineSeconds=10) == []
    with_deadline = stored(activeDeadlineSeconds=10)
    path = "spec.activeDeadlineSeconds"
    assert update(with_deadline, activeDeadlineSeconds=5) == []
    assert update(with_deadline, activeDeadlineSeconds=11) == [
        f"{path}: Invalid value: 11: must be less than or equal to previous value"
    ]
    assert update(with_deadline, activeDeadlineSeconds=None) == [
        f"{path}: Invalid value: null: must not update from a positive integer to nil value"
    ]


def test_anything_else_is_refused_with_a_diff():
    errors = update(stored(), nodeName="n1")
    assert len(errors) == 1
    assert errors[0].startswith(MAY_CHANGE)
    assert '+ "nodeName": "n1",\n' in errors[0]
    assert errors[0].removeprefix(MAY_CHANGE).startswith("@@ ")


def test_containers_may_not_be_added_or_removed():
    old = stored()
    more = [*old["spec"]["containers"], {"name": "d", "image": "i"}]
    refusal = "spec.containers: Forbidden: pod updates may not add or remove containers"
    assert update(old, containers=more) == [refusal]


def test_a_once_negative_grace_period_may_become_one():
    old = stored()
    old["spec"]["terminationGracePeriodSeconds"] = -1
    assert update(old, terminationGracePeriodSeconds=1) == []
    assert update(stored(), terminationGracePeriodSeconds=1) != []


def test_gates_may_only_be_removed():
    old = stored(schedulingGates=[{"name": "a"}, {"name": "b"}])
    assert update(old, schedulingGates=[{"name": "b"}]) == []
    assert update(old, schedulingGates=None) == []
    refusal = "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"
    assert update(old, schedulingGates=[{"name": "a"}, {"name": "c"}]) == [refusal]


def test_a_gated_pod_may_narrow_its_choice_of_nodes():
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    narrower = {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}

    def affinity(*terms: Any) -> dict[str, Any]:
        required = {"nodeSelectorTerms": list(terms)}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    old = stored(schedulingGates=[{"name": "g"}], nodeSelector={"x": "1"}, affinity=affinity(term))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    assert update(old, nodeSelector={"x": "1", "y": "2"}, affinity=affinity(narrower)) == []
    assert update(old, nodeSelector={"y": "2"}) == [
        (
            'spec.nodeSelector: Invalid value: {"y":"2"}: only additions to spec.nodeSelector are allowed (no mutations or '
            "deletions)"
        )
    ]
    assert update(old, affinity=affinity(term, term))[0].startswith(f"{path}: Invalid value: ")
    assert update(old, affinity=affinity({"matchExpressions": []}))[0].endswith(
        "only additions are allowed (no mutations or deletions)"
    )
    free = stored(nodeSelector={"x": "1"})
    assert update(free, nodeSelector={"x": "1", "y": "2"})[0].startswith(MAY_CHANGE)


def test_the_mirror_annotation_stays():
    key = "kubernetes.io/config.mirror"
    old, new = stored(nodeName="n"), stored(nodeName="n")
    new["metadata"]["annotations"] = {key: "x"}
    texts = [str(error) for error in STRATEGY.validate_update(a_write(), new, old)]
    assert texts == [f"metadata.annotations[{key}]: Forbidden: may not add mirror pod annotation"]
    texts = [str(error) for error in STRATEGY.validate_update(a_write(), old, new)]
    assert texts == [f"metadata.annotations[{key}]: Forbidden: may not remove or update mirror pod annotation"]


def test_generation_follows_the_meaning_of_the_spec():
    old = stored()
    new = copy.deepcopy(old)
    new["spec"]["hostPID"] = False
    assert not STRATEGY.generation_changed(new, old)
    new["spec"]["containers"][0]["image"] = "other"
    assert STRATEGY.generation_changed(new, old)


def test_a_pod_template_counts_changes_of_its_template():
    old = {"metadata": {"name": "t"}, "template": {"spec": {"containers": []}}}
    assert not PodTemplateStrategy().generation_changed({**old, "metadata": {"name": "t", "labels": {"a": "b"}}}, old)
    assert PodTemplateStrategy().generation_changed({**old, "template": {"spec": {"hostname": "h"}}}, old)


# -- status -----------------------------------------------------------------------------------------------------------


def report(old: dict[str, Any], **status: Any) -> tuple[dict[str, Any], list[str]]:
    new = copy.deepcopy(old)
    new["status"] = status
    STRATEGY.prepare_status(a_write(), new, old)
    return new, [str(error) for error in STRATEGY.validate_status(a_write(), new, old)]


def test_a_status_update_keeps_metadata_and_observed_generation():
    old = stored()
    old["metadata"]["ownerReferences"] = [{"uid": "u"}]
    old["status"] |= {
        "observedGeneration": 3,
        "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}],
    }
    new = copy.deepcopy(old)
    new["metadata"] |= {"ownerReferences": [], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    new["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"}
    STRATEGY.prepare_status(a_write(), new, old)
    assert new["metadata"]["ownerReferences"] == [{"uid": "u"}]
    assert "deletionTimestamp" not in new["metadata"]
    assert new["status"] == {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "qosClass": "BestEffort",
        "observedGeneration": 3,
    }


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"qosClass": "Burstable"}, ['status.qosClass: Invalid value: "Burstable": field is immutable']),
        (
            {"podIPs": [{"ip": "x"}]},
            [
                'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ],
        ),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
            [
                (
                    'status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: may specify no more than one IP for '
                    "each IP family"
                )
            ],
        ),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        (
            {"hostIPs": [{"ip": "10.0.0.1"}]},
            ['status.hostIPs[0].ip: Invalid value: "10.0.0.1": must be equal to `hostIP`'],
        ),
        (
            {"observedGeneration": -1},
            ["status.observedGeneration: Invalid value: -1: must be a non-negative integer"],
        ),
        (
            {"nominatedNodeName": "n1"},
            [
                "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
            ],
        ),
    ],
)
def test_an_invalid_status_is_refused(status: dict[str, Any], texts: list[str]):
    assert report(stored(nodeName="n0"), **status)[1] == texts


@pytest.mark.parametrize(
    ("policy", "exit_code", "is_fine"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_a_terminated_container_cannot_restart(policy: str, exit_code: int, is_fine: bool):
    old = stored(restartPolicy=policy)
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]
    errors = report(old, containerStatuses=[{"name": "c", "state": {"running": {}}}])[1]
    refusal = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert errors == ([] if is_fine else [refusal])


# -- deletion, selection, advice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "phase", "requested", "seconds"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({}, "Pending", None, 0),
        ({}, "Pending", 60, 0),
        ({"nodeName": "n"}, "Succeeded", 60, 0),
        ({"nodeName": "n"}, "Failed", None, 0),
    ],
)
def test_grace_period(spec: dict[str, Any], phase: str, requested: int | None, seconds: int):
    pod = stored(**spec)
    pod["status"]["phase"] = phase
    assert STRATEGY.grace_period(pod, requested) == seconds


def test_selectable_fields_are_the_declared_ones():
    pod = stored(nodeName="n", hostNetwork=True)
    pod["status"]["podIPs"] = [{"ip": "10.0.0.1"}]
    fields = STRATEGY.selectable(pod)
    assert set(fields) == set(STRATEGY.selectable_fields)
    assert fields["spec.nodeName"] == "n"
    assert fields["spec.hostNetwork"] == "true"
    assert fields["status.podIP"] == "10.0.0.1"
    assert fields["status.phase"] == "Pending"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, []),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
                ]
            },
            [
                'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
            ],
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}
                ]
            },
            [],
        ),
        (
            {
                "containers": [
                    {"name": "a", "image": "i", "ports": [{"containerPort": 80}]},
                    {"name": "b", "image": "i", "ports": [{"containerPort": 80}]},
                ]
            },
            ["spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]"],
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
            ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            ['spec.imagePullSecrets[1].name: duplicate name "a"'],
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "100m"}}}]},
            [
                'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
            ],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
        ),
    ],
)
def test_warnings_of_a_pod(spec: dict[str, Any], texts: list[str]):
    assert STRATEGY.warnings(stored(**spec), None) == texts


def test_a_dotted_name_is_warned_about_on_create_only():
    pod = stored()
    pod["metadata"]["name"] = "a.b"
    assert STRATEGY.warnings(pod, None) == [
        (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
            "recommended: [must not contain dots]"
        )
    ]
    assert STRATEGY.warnings(pod, pod) == []


# -- sameness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"a": False}, {}, True),
        ({"a": []}, {"a": None}, True),
        ({"a": {"b": ""}}, {"a": {}}, True),
        ({"a": {"b": 0}}, {}, False),
        ({"labels": {"a": ""}}, {"labels": {}}, False),
        ({"labels": {}}, {}, True),
        ({"a": 1}, {"a": 2}, False),
        ([{"a": ""}], [{}], True),
        ([1], [1, 0], False),
        ({"a": "x"}, {}, False),
    ],
)
def test_sameness_ignores_zero_values_of_fields_but_not_of_maps(left: Any, right: Any, equal: bool):
    assert same(left, right) is equal
    assert same(right, left) is equal


def test_a_difference_shows_the_changed_lines():
    assert difference({"a": 1, "b": 2}, {"a": 1, "b": 3}) == '@@ -1,4 +1,4 @@\n {\n  "a": 1,\n- "b": 2\n+ "b": 3\n }\n'
