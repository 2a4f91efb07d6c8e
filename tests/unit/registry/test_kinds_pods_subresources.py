"""Ephemeral containers, resize, binding and eviction."""

from __future__ import annotations

import copy
import datetime as dt
from typing import TYPE_CHECKING, Any

import kind_support
import pytest

from kapi.api.errors import BadRequest, Conflict, PlainError
from kapi.registry.kinds.core.pod.pods import PodStrategy
from kapi.registry.kinds.core.pod.subresources import (
    EphemeralContainersStrategy,
    ResizeStrategy,
    bind,
    check_binding,
    evaluate_eviction,
    mark_evicted,
    validate_binding,
)

if TYPE_CHECKING:
    from kapi.registry.strategy import Strategy

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
STAMP = "2026-01-02T03:04:05Z"


def a_write():
    return kind_support.a_write(lookup=None, now=NOW)


def stored(**spec: Any) -> dict[str, Any]:
    pod = {
        "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }
    strategy = PodStrategy()
    strategy.default(pod)
    strategy.prepare_create(a_write(), pod)
    return pod


def update(strategy: Strategy, new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    strategy.default(new)
    strategy.prepare_update(a_write(), new, old)
    return [str(error) for error in strategy.validate_update(a_write(), new, old)]


# -- ephemeral containers ---------------------------------------------------------------------------------------------


def debug(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", **fields}


def with_debuggers(old: dict[str, Any], *containers: dict[str, Any]) -> dict[str, Any]:
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [copy.deepcopy(container) for container in containers]
    return new


def test_a_debug_container_may_be_added_and_nothing_else_changes():
    old = stored()
    new = with_debuggers(old, debug("d", targetContainerName="c"))
    new["spec"]["nodeName"] = "elsewhere"
    new["metadata"]["labels"] = {"changed": "yes"}
    assert update(EphemeralContainersStrategy(), new, old) == []
    assert new["spec"].get("nodeName") is None
    assert new["metadata"]["labels"] == {"app": "web"}
    assert new["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_existing_debug_containers_stay_as_they_are():
    old = with_debuggers(stored(), debug("d"))
    PodStrategy().default(old)
    path = "spec.ephemeralContainers: Forbidden: existing ephemeral containers"
    assert update(EphemeralContainersStrategy(), with_debuggers(old), old) == [f'{path} "d" may not be removed\n']
    changed = update(EphemeralContainersStrategy(), with_debuggers(old, debug("d", image="x:1")), old)
    assert len(changed) == 1
    assert changed[0].startswith(f'{path} "d" may not be changed\n@@ ')
    assert update(EphemeralContainersStrategy(), with_debuggers(old, debug("e"), debug("d")), old) == []


@pytest.mark.parametrize(
    ("container", "text"),
    [
        (debug("c"), 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
        (debug("d", targetContainerName="x"), 'spec.ephemeralContainers[0].targetContainerName: Not found: "x"'),
        (
            debug("d", ports=[{"containerPort": 1}]),
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (
            debug("d", resources={"limits": {"cpu": "1"}}),
            "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (
            debug("d", livenessProbe={"tcpSocket": {"port": 1}}),
            "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
        ),
    ],
)
def test_debug_containers_have_fewer_fields(container: dict[str, Any], text: str):
    old = stored()
    assert update(EphemeralContainersStrategy(), with_debuggers(old, container), old) == [text]


def test_static_pods_have_no_debug_containers_and_no_resize():
    old = stored(nodeName="n")
    old["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    texts = update(EphemeralContainersStrategy(), with_debuggers(old, debug("d")), old)
    assert texts == [": Forbidden: static pods do not support ephemeral containers"]
    assert update(ResizeStrategy(), copy.deepcopy(old), old) == [": Forbidden: static pods cannot be resized"]


# -- resize -----------------------------------------------------------------------------------------------------------


def sized(**requests: str) -> dict[str, Any]:
    return stored(containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def resized(old: dict[str, Any], **resources: Any) -> dict[str, Any]:
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"] = resources
    return new


def test_cpu_and_memory_may_change():
    old = sized(cpu="1", memory="1Gi")
    new = resized(old, requests={"cpu": "2", "memory": "2Gi"})
    new["spec"]["hostname"] = "ignored"
    assert update(ResizeStrategy(), new, old) == []
    assert new["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "2Gi"}
    assert "hostname" not in new["spec"]


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        (
            {"requests": {"cpu": "2"}},
            [
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ],
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
        ),
    ],
)
def test_a_resize_has_limits(resources: dict[str, Any], texts: list[str]):
    old = sized(cpu="1", memory="1Gi")
    assert update(ResizeStrategy(), resized(old, **resources), old) == texts


def test_containers_may_not_be_added_or_moved_on_resize():
    pair = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    old = stored(containers=pair)
    fewer = copy.deepcopy(old)
    fewer["spec"]["containers"].pop()
    refusal = "spec.containers: Forbidden: containers may not be added or removed on resize"
    assert update(ResizeStrategy(), fewer, old) == [refusal]
    swapped = copy.deepcopy(old)
    swapped["spec"]["containers"].reverse()
    assert update(ResizeStrategy(), swapped, old) == [
        f"spec.containers[{index}].name: Forbidden: containers may not be renamed or reordered on resize"
        for index in (0, 1)
    ]


def test_a_resize_on_a_node_without_support_is_refused():
    old = sized(cpu="1")
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    texts = update(ResizeStrategy(), resized(old, requests={"cpu": "2"}), old)
    assert texts == ["spec: Forbidden: Pod running on node without support for resize"]


def test_pod_level_resources_may_change_but_not_be_removed():
    old = stored(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})
    grown = copy.deepcopy(old)
    grown["spec"]["resources"] = {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}
    assert update(ResizeStrategy(), grown, old) == []
    gone = copy.deepcopy(old)
    gone["spec"]["resources"] = {"requests": {"cpu": "1"}}
    assert "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed" in update(
        ResizeStrategy(), gone, old
    )


# -- binding ----------------------------------------------------------------------------------------------------------


def binding(target: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **metadata}, "target": target}


def test_binding_assigns_the_node_and_copies_metadata():
    pod = stored()
    pod["status"]["nominatedNodeName"] = "other"
    before = copy.deepcopy(pod)
    bound = bind(pod, binding({"kind": "Node", "name": "n1"}, annotations={"a": "b"}, labels={"zone": "z"}), NOW)
    assert pod == before
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["metadata"]["labels"] == {"app": "web", "zone": "z"}
    assert "nominatedNodeName" not in bound["status"]
    assert bound["status"]["conditions"] == [{"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP}]


@pytest.mark.parametrize(
    ("spec", "metadata", "why"),
    [
        ({"nodeName": "n0"}, {}, 'pod p is already assigned to node "n0"'),
        ({"schedulingGates": [{"name": "g"}]}, {}, "pod p has non-empty .spec.schedulingGates"),
        ({}, {"deletionTimestamp": STAMP}, "pod p is being deleted, cannot be assigned to a host"),
    ],
)
def test_binding_conflicts(spec: dict[str, Any], metadata: dict[str, Any], why: str):
    pod = stored(**spec)
    pod["metadata"] |= metadata
    with pytest.raises(Conflict) as caught:
        bind(pod, binding({"name": "n1"}), NOW)
    assert caught.value.message == f'Operation cannot be fulfilled on pods/binding "p": {why}'
    assert caught.value.details == {"name": "p", "kind": "pods/binding"}


def test_an_invalid_binding_is_refused():
    assert [str(error) for error in validate_binding(binding({"kind": "Rack"}))] == [
        'target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]
    with pytest.raises(PlainError, match=r"^target\.name: Required value$"):
        check_binding("p", binding({}))
    with pytest.raises(BadRequest, match="name in URL does not match name in Binding object"):
        check_binding("q", binding({"name": "n"}))
    check_binding("p", binding({"name": "n"}))


# -- eviction ---------------------------------------------------------------------------------------------------------

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def running(*, ready: bool = True, **metadata: Any) -> dict[str, Any]:
    pod = stored(nodeName="n")
    pod["metadata"] |= metadata
    pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return pod


def budget(name: str = "b", spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **(spec or {})},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, **status},
    }


def test_without_a_disruption_budget_eviction_is_allowed():
    decision = evaluate_eviction(running(), [], NOW)
    assert decision.refusal is None
    assert decision.budget is None
    elsewhere = budget()
    elsewhere["metadata"]["namespace"] = "other"
    unrelated = budget(spec={"selector": {"matchLabels": {"app": "db"}}})
    assert evaluate_eviction(running(), [elsewhere, unrelated], NOW).budget is None


@pytest.mark.parametrize(
    ("phase", "deleting", "pinned"),
    [("Succeeded", False, False), ("Failed", False, False), ("Running", True, False), ("Pending", False, True)],
)
def test_finished_or_terminating_pods_skip_the_disruption_budget(phase: str, deleting: bool, pinned: bool):
    pod = running(**({"deletionTimestamp": STAMP} if deleting else {}))
    pod["status"]["phase"] = phase
    decision = evaluate_eviction(pod, [budget(disruptionsAllowed=0)], NOW)
    assert decision.refusal is None
    assert decision.budget is None
    assert decision.pin_resource_version is pinned


def test_an_allowed_eviction_is_counted():
    original = budget(disruptionsAllowed=2)
    decision = evaluate_eviction(running(), [original], NOW)
    assert decision.budget is not None
    assert decision.budget["status"]["disruptionsAllowed"] == 1
    assert decision.budget["status"]["disruptedPods"] == {"p": STAMP}
    assert "conditions" not in decision.budget["status"]
    assert original == budget(disruptionsAllowed=2)


def test_the_last_allowed_eviction_flips_the_condition():
    condition = {
        "type": "DisruptionAllowed",
        "status": "True",
        "reason": "SufficientPods",
        "lastTransitionTime": "then",
    }
    decision = evaluate_eviction(running(), [budget(conditions=[condition])], NOW)
    assert decision.budget is not None
    assert decision.budget["status"]["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": 1,
            "reason": "InsufficientPods",
            "message": "",
            "lastTransitionTime": STAMP,
        }
    ]


def test_eviction_with_two_disruption_budgets_is_an_error():
    refusal = evaluate_eviction(running(), [budget("a"), budget("b")], NOW).refusal
    assert refusal is not None
    assert refusal.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    }


def test_an_unobserved_disruption_budget_is_too_many_requests():
    refusal = evaluate_eviction(running(), [budget(observedGeneration=0)], NOW).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message, refusal.retry_after) == (429, VIOLATES, 10)
    assert refusal.details is not None
    assert refusal.details["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b is still being processed by the server.",
        }
    ]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"desiredHealthy": 3, "currentHealthy": 3}, "needs 3 healthy pods and has 3 currently"),
        ({"desiredHealthy": 1, "currentHealthy": 3}, "does not allow evicting pods currently"),
        (
            {
                "conditions": [
                    {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "broken"}
                ]
            },
            "does not allow evicting pods currently because it failed sync: broken",
        ),
        (
            {
                "desiredHealthy": 1,
                "currentHealthy": 3,
                "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "Other", "message": "later"}],
            },
            "does not allow evicting pods currently (Other): later",
        ),
    ],
)
def test_an_exhausted_disruption_budget_is_explained(status: dict[str, Any], message: str):
    refusal = evaluate_eviction(running(), [budget(disruptionsAllowed=0, **status)], NOW).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == (429, VIOLATES)
    assert refusal.details == {
        "causes": [{"reason": "DisruptionBudget", "message": f"The disruption budget b {message}"}]
    }


def test_unready_pods_are_evicted_if_the_rest_is_healthy_or_by_policy():
    pod = running(ready=False)
    healthy = budget(disruptionsAllowed=0, desiredHealthy=2, currentHealthy=2)
    decision = evaluate_eviction(pod, [healthy], NOW)
    assert decision.refusal is None
    assert decision.pin_resource_version
    assert decision.budget is None
    sick = budget(disruptionsAllowed=0, desiredHealthy=2, currentHealthy=1)
    assert evaluate_eviction(pod, [sick], NOW).refusal is not None
    lenient = {**sick, "spec": {**sick["spec"], "unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    assert evaluate_eviction(pod, [lenient], NOW).refusal is None
    assert evaluate_eviction(running(), [lenient], NOW).refusal is not None


def test_invalid_disruption_budgets_forbid_eviction():
    negative = evaluate_eviction(running(), [budget(disruptionsAllowed=-1)], NOW).refusal
    assert negative is not None
    assert negative.message == 'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative'
    crowded = budget(disruptedPods={str(number): STAMP for number in range(2001)})
    full = evaluate_eviction(running(), [crowded], NOW).refusal
    assert full is not None
    assert full.code == 403


def test_an_evicted_pod_has_a_disruption_condition():
    marked = mark_evicted(running(), NOW)
    assert marked["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": STAMP,
    }
