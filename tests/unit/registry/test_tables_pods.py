"""The row of a pod: the word for its state, the containers that count, the restarts."""

from __future__ import annotations

import datetime as dt

import pytest

from kapi.registry.tables import table_for

NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
TABLE = table_for("", "pods")
RUNNING = {"running": {}}
COMPLETED = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def container(name="c", state=None, *, ready=False, restarts=0, last=None, **more):
    status = {"name": name, "state": state or {}, "ready": ready, "restartCount": restarts, **more}
    if last:
        status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": last}}
    return status


def running(name="c", **more):
    return container(name, RUNNING, ready=True, **more)


def pod(*statuses, inits=(), spec=None, metadata=None, containers=1, **status):
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-05-04T11:55:00Z", **(metadata or {})},
        "spec": {"containers": [{"name": f"c{index}"} for index in range(containers)], **(spec or {})},
        "status": {
            "phase": "Running",
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(inits),
            **status,
        },
    }


def cells(obj):
    return dict(zip((column.name for column in TABLE.columns), TABLE.cells(obj, NOW), strict=True))


def status(obj):
    return cells(obj)["Status"]


def condition(kind, value="True", **more):
    return {"type": kind, "status": value, **more}


def test_a_new_pod_has_nothing_yet():
    new = {"metadata": {"name": "c", "creationTimestamp": "2026-05-04T11:32:00Z"}, "spec": {"containers": [{}]}}
    new["status"] = {"phase": "Pending"}
    assert TABLE.cells(new, NOW) == ["c", "0/1", "Pending", "0", "28m", "<none>", "<none>", "<none>", "<none>"]


def test_a_running_pod_has_an_address_and_a_node():
    obj = pod(running(), spec={"nodeName": "n1"}, podIP="10.1.0.5", podIPs=[{"ip": "10.1.0.5"}, {"ip": "fd00::5"}])
    assert TABLE.cells(obj, NOW) == ["p", "1/1", "Running", "0", "5m", "10.1.0.5", "n1", "<none>", "<none>"]


def test_the_address_comes_from_the_list_when_the_single_field_is_missing():
    assert cells(pod(podIPs=[{"ip": "fd00::5"}]))["IP"] == "fd00::5"


def test_the_nominated_node_is_shown():
    assert cells(pod(nominatedNodeName="n2"))["Nominated Node"] == "n2"


def test_a_reason_on_the_pod_outweighs_its_phase():
    assert status(pod(phase="Failed", reason="Evicted")) == "Evicted"


def test_a_gated_pod_shows_scheduling_gated():
    gated = condition("PodScheduled", "False", reason="SchedulingGated")
    assert status(pod(phase="Pending", conditions=[gated])) == "SchedulingGated"


# -- containers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"waiting": {"reason": "ContainerCreating"}}, "ContainerCreating"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"waiting": {}}, "Running"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Error"),
        ({"terminated": {"exitCode": 137, "signal": 9}}, "Signal:9"),
        ({"terminated": {"exitCode": 3}}, "ExitCode:3"),
        ({"terminated": {"exitCode": 0}}, "ExitCode:0"),
        (COMPLETED, "Completed"),
    ],
)
def test_the_state_of_a_container_names_the_pod(state, word):
    assert status(pod(container(state=state))) == word


def test_the_first_containers_reason_wins():
    first = container("a", {"waiting": {"reason": "ImagePullBackOff"}})
    second = container("b", {"waiting": {"reason": "CrashLoopBackOff"}})
    assert status(pod(first, second)) == "ImagePullBackOff"


def test_a_container_counts_as_ready_only_while_it_runs():
    ended = container("b", COMPLETED, ready=True)
    assert cells(pod(running("a"), ended, containers=2))["Ready"] == "1/2"
    assert cells(pod(container(state=RUNNING)))["Ready"] == "0/1"


def test_a_pod_whose_first_container_completed_is_running_while_it_is_ready():
    obj = pod(container("a", COMPLETED), running("b"), containers=2, conditions=[condition("Ready")])
    assert status(obj) == "Running"


def test_a_pod_whose_first_container_completed_is_not_ready_without_a_ready_condition():
    obj = pod(container("a", COMPLETED), running("b"), containers=2, conditions=[condition("Ready", "False")])
    assert status(obj) == "NotReady"


def test_a_failure_behind_a_completed_container_is_shown():
    failed = container("b", {"terminated": {"exitCode": 2, "reason": "Error"}})
    assert status(pod(container("a", COMPLETED), failed, running("c"), containers=3)) == "Error"


# -- init containers --------------------------------------------------------------------------------------------------

INITS = {"initContainers": [{"name": "i0"}, {"name": "i1"}]}


@pytest.mark.parametrize(
    ("inits", "word"),
    [
        ([container("i0", RUNNING)], "Init:0/2"),
        ([container("i0", COMPLETED), container("i1", RUNNING)], "Init:1/2"),
        ([container("i0", {"waiting": {"reason": "PodInitializing"}})], "Init:0/2"),
        ([container("i0", {"waiting": {"reason": "CrashLoopBackOff"}})], "Init:CrashLoopBackOff"),
        ([container("i0", {"terminated": {"exitCode": 1, "reason": "Error"}})], "Init:Error"),
        ([container("i0", {"terminated": {"exitCode": 137, "signal": 9}})], "Init:Signal:9"),
        ([container("i0", {"terminated": {"exitCode": 7}})], "Init:ExitCode:7"),
    ],
)
def test_the_first_init_container_that_is_not_done_names_the_pod(inits, word):
    waiting = container(state={"waiting": {"reason": "PodInitializing"}})
    assert status(pod(waiting, inits=inits, spec=INITS, phase="Pending")) == word


def test_after_the_init_containers_the_containers_name_the_pod():
    done = [container("i0", COMPLETED, restarts=4), container("i1", COMPLETED)]
    obj = cells(pod(container(state={"waiting": {"reason": "PodInitializing"}}, restarts=1), inits=done, spec=INITS))
    assert (obj["Status"], obj["Restarts"]) == ("PodInitializing", "1")


def test_an_initialized_pod_is_named_by_its_containers_even_when_an_init_container_is_not_done():
    inits = [container("i0", {"terminated": {"exitCode": 1, "reason": "Error"}})]
    crashed = container(state={"waiting": {"reason": "CrashLoopBackOff"}})
    obj = pod(crashed, inits=inits, spec=INITS, conditions=[condition("Initialized")])
    assert status(obj) == "CrashLoopBackOff"


def test_a_sidecar_counts_as_a_container():
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "i1"}]}
    side = container("side", RUNNING, ready=True, started=True)
    done = cells(pod(running(), inits=[side, container("i1", COMPLETED)], spec=spec))
    assert (done["Ready"], done["Status"]) == ("2/2", "Running")
    waiting = cells(pod(inits=[side, container("i1", RUNNING)], spec=spec, phase="Pending"))
    assert (waiting["Ready"], waiting["Status"]) == ("1/2", "Init:1/2")


def test_a_sidecar_that_has_not_started_holds_the_pod_back():
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}
    assert status(pod(inits=[container("side", RUNNING, ready=True)], spec=spec, phase="Pending")) == "Init:0/1"


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_restarts_show_the_time_of_the_last_one():
    first = running("a", restarts=2, last="2026-05-04T11:00:00Z")
    second = running("b", restarts=1, last="2026-05-04T11:55:00Z")
    assert cells(pod(first, second))["Restarts"] == "3 (5m ago)"
    assert cells(pod(second, first))["Restarts"] == "3 (5m ago)"


def test_restarts_without_a_known_time_are_a_number():
    assert cells(pod(running(restarts=3)))["Restarts"] == "3"
    assert cells(pod(running(restarts=0, last="2026-05-04T11:55:00Z")))["Restarts"] == "0"


def test_while_initializing_the_restarts_of_init_containers_count():
    inits = [container("i0", RUNNING, restarts=2, last="2026-05-04T11:58:30Z")]
    obj = pod(container(restarts=9), inits=inits, spec=INITS)
    assert cells(obj)["Restarts"] == "2 (90s ago)"


def test_once_running_only_the_restarts_of_sidecars_and_containers_count():
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "i1"}]}
    side = container("side", RUNNING, restarts=2, started=True, last="2026-05-04T11:50:00Z")
    inits = [side, container("i1", COMPLETED, restarts=5, last="2026-05-04T11:59:00Z")]
    assert cells(pod(running(restarts=1), inits=inits, spec=spec))["Restarts"] == "3 (10m ago)"


# -- deletion, gates, conditions --------------------------------------------------------------------------------------

DELETED = {"deletionTimestamp": "2026-05-04T11:59:00Z"}


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed"}, "Failed"),
    ],
)
def test_a_deleted_pod_is_terminating_unless_it_has_ended_or_its_node_is_lost(fields, word):
    assert status(pod(metadata=DELETED, **fields)) == word


def test_a_lost_node_alone_does_not_hide_the_reason():
    assert status(pod(reason="NodeLost")) == "NodeLost"


def test_readiness_gates_count_the_conditions_that_are_true():
    spec = {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]}
    conditions = [condition("a"), condition("b", "False"), condition("b")]
    assert cells(pod(spec=spec, conditions=conditions))["Readiness Gates"] == "1/3"


def test_rows_of_ended_pods_are_marked():
    succeeded = {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    }
    failed = {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    assert TABLE.conditions(pod(phase="Succeeded")) == [succeeded]
    assert TABLE.conditions(pod(phase="Failed")) == [failed]
    assert TABLE.conditions(pod()) == []
    assert TABLE.conditions({"metadata": {"name": "p"}}) == []
