"""Flow control in a server: seats, queues, refusals, borrowing, and the objects that configure it."""

import asyncio

import pytest

from api_client import CM, TOKEN, cm, serving
from kapi.controlplane.flowcontrol import LEVELS, SCHEMAS, FlowSchemaStatus, ensure_flow_control
from kapi.server.flowcontrol.control import LONGER_REFUSAL, MAX_REFUSAL_SECONDS, REFUSAL_SECONDS, FlowControl
from kapi.server.flowcontrol.report import FlowControlMetrics
from kapi.storage.interface import Draft
from virtual_time import run

PATH = "/apis/flowcontrol.apiserver.k8s.io/v1"
ALICE = {"authorization": f"Bearer {TOKEN}"}
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def controlled(seats=60):
    """Run `test(api)` against a server with flow control, on which every user may do everything."""

    def decorate(test):
        def runner():
            async def main():
                async with serving() as api:
                    api.services.flowcontrol = control = FlowControl(api.catalog, seats)
                    control.start()
                    await ensure_flow_control(api.transport)
                    subjects = [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}]
                    reference = {"kind": "ClusterRole", "name": "all", "apiGroup": "rbac.authorization.k8s.io"}
                    rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
                    rules += [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
                    await api.made(ROLE.replace("bindings", "s"), {"metadata": {"name": "all"}, "rules": rules})
                    await api.made(ROLE, {"metadata": {"name": "b"}, "subjects": subjects, "roleRef": reference})
                    await asyncio.sleep(0)
                    await test(api, control)
                    await asyncio.sleep(1)
                    assert control.running == set(), "a seat was not given back"
                    assert {level.seats_in_use for level in control.levels.values()} == {0}

            run(main())

        runner.__name__ = test.__name__
        return runner

    return decorate


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def blocking(api):
    """Have gets of ConfigMaps wait; returns the gate, and the list of users whose requests run."""
    gate, running = asyncio.Event(), []
    original = api.pipeline._router._verbs["get"]

    async def get(context):
        running.append(context.user.name)
        await gate.wait()
        return await original(context)

    api.pipeline._router._verbs["get"] = get
    return gate, running


def requests(api, user, number):
    transport = api.user(user, "devs")
    return [
        asyncio.ensure_future(api.request("GET", f"{CM}/kube-root-ca.crt", transport=transport)) for _ in range(number)
    ]


@controlled()
async def test_a_response_tells_which_objects_decided(api, control):
    answer = await api.as_peer("GET", CM, headers=ALICE)
    schema = (await api.get(f"{PATH}/flowschemas/global-default")).json
    level = (await api.get(f"{PATH}/prioritylevelconfigurations/global-default")).json
    assert answer.header("X-Kubernetes-PF-FlowSchema-UID") == schema["metadata"]["uid"]
    assert answer.header("X-Kubernetes-PF-PriorityLevel-UID") == level["metadata"]["uid"]


@controlled(seats=245)
async def test_seats_are_shared_by_shares(api, control):
    nominal = {name: level.nominal for name, level in control.levels.items()}
    assert nominal == {
        "exempt": 0,
        "catch-all": 5,
        "system": 30,
        "node-high": 40,
        "leader-election": 10,
        "workload-high": 40,
        "workload-low": 100,
        "global-default": 20,
    }
    assert (control.levels["workload-low"].minimum, control.levels["workload-low"].maximum) == (10, 245)
    assert (control.levels["leader-election"].minimum, control.levels["catch-all"].minimum) == (10, 5)


@controlled(seats=245)
async def test_a_level_borrows_what_others_lend_and_the_rest_waits(api, control):
    gate, running = blocking(api)
    level = control.levels["global-default"]
    tasks = [task for n in range(50) for task in requests(api, f"user-{n}", 10)]
    await settle()
    lendable = sum(other.nominal - other.minimum for other in control.levels.values() if other is not level)
    assert level.executing == level.nominal + lendable == len(running)
    assert level.waiting == 500 - level.executing
    # What is not lent is there for its owner at once.
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    scheduler = api.user("system:kube-scheduler", "devs")
    answer = await api.request("POST", lease, {"metadata": {"name": "x"}}, transport=scheduler)
    assert answer.status == 201
    gate.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {404}


@controlled(seats=20)
async def test_a_flood_of_one_user_does_not_keep_others_waiting(api, control):
    gate, running = blocking(api)
    flood = requests(api, "flood", 400)
    await settle()
    before = len(running)
    others = [task for n in range(20) for task in requests(api, f"user-{n}", 1)]
    await settle()
    assert len(running) == before
    gate.set()
    await asyncio.gather(*others)
    # The flood had all seats and some 300 requests waiting: all others were served before most of it.
    assert sum(user == "flood" for user in running) < 200
    answers = await asyncio.gather(*flood)
    assert {answer.status for answer in answers} == {404, 429}


@controlled(seats=10)
async def test_a_full_queue_is_answered_429_as_text(api, control):
    gate, _ = blocking(api)
    tasks = requests(api, "flood", 400)
    await asyncio.sleep(5)
    refused = [task.result() for task in tasks if task.done()]
    level = control.levels["global-default"]
    assert len(refused) == 400 - 6 * 50 - level.executing == level.rejected["global-default", "queue-full"]
    assert {(answer.status, answer.raw) for answer in refused} == {
        (429, b"Too many requests, please try again later.\n")
    }
    assert {answer.header("Retry-After") for answer in refused} == {"1"}
    gate.set()
    await asyncio.gather(*tasks)


@controlled(seats=10)
async def test_a_level_without_queues_refuses(api, control):
    gate, running = blocking(api)
    limited = {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Reject"}, "borrowingLimitPercent": 0}
    await api.put(
        f"{PATH}/prioritylevelconfigurations/global-default",
        {"metadata": {"name": "global-default"}, "spec": {"type": "Limited", "limited": limited}},
    )
    tasks = requests(api, "a", 10)
    await asyncio.sleep(1)
    level = control.levels["global-default"]
    assert len(running) == level.nominal < 10
    assert level.rejections("concurrency-limit") == 10 - level.nominal
    gate.set()
    await asyncio.gather(*tasks)


@controlled(seats=10)
async def test_a_request_that_waits_too_long_is_refused(api, control):
    gate, running = blocking(api)
    tasks = requests(api, "a", 20)
    await asyncio.sleep(14)
    assert not any(task.done() for task in tasks)
    await asyncio.sleep(2)
    late = [task.result().status for task in tasks if task.done()]
    assert late == [429] * (20 - len(running))
    assert control.levels["global-default"].rejections("time-out") == len(late)
    gate.set()
    await asyncio.gather(*tasks)


@controlled(seats=10)
async def test_a_client_that_disconnects_waits_no_longer(api, control):
    gate, _ = blocking(api)
    tasks = requests(api, "a", 30)
    await settle()
    level = control.levels["global-default"]
    waiting = level.waiting
    assert waiting
    for task in tasks[-5:]:
        task.cancel()
    await settle()
    assert level.waiting == waiting - 5
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert level.rejections("cancelled") == 5


@controlled(seats=10)
async def test_a_request_cancelled_in_its_turn_gives_its_seat_back(api, control):
    gate, _ = blocking(api)
    tasks = requests(api, "a", 30)
    await settle()
    gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
        for task in tasks[10:20]:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@controlled(seats=10)
async def test_masters_and_probes_are_exempt(api, control):
    gate, _ = blocking(api)
    tasks = requests(api, "a", 50)
    await settle()
    assert (await api.get(CM)).status == 200
    assert (await api.as_peer("GET", "/livez", headers=ALICE)).status == 200
    gate.set()
    await asyncio.gather(*tasks)


@controlled(seats=600)
async def test_a_list_takes_seats_by_the_number_of_objects(api, control):
    for n in range(250):
        await api.made(CM, cm(f"c{n:03}"))
    seats = []
    original = control._run

    def spy(level, flow, number, context, request, *, counted=False):
        seats.append(number)
        return original(level, flow, number, context, request, counted=counted)

    control._run = spy
    alice = api.user("alice", "devs")
    for path in (
        CM,
        f"{CM}?limit=50",
        f"{CM}?limit=50&labelSelector=x",
        f"{CM}/c000",
        f"{CM}?fieldSelector=metadata.name=c000",
    ):
        await api.request("GET", path, transport=alice)
    assert seats == [3, 1, 3, 1, 1]


@controlled()
async def test_requests_without_a_wait_count_until_the_loop_has_turned(api, control):
    order = []

    async def ask(user):
        answer = await api.request("GET", CM, transport=api.user(user, "devs"))
        order.append((user, answer.status))

    tasks = [asyncio.ensure_future(ask("flood")) for _ in range(200)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    level = control.levels["global-default"]
    # None of these requests waits for anything, and yet only as many have run as there are seats.
    assert level.waiting > 100
    await asyncio.gather(*tasks)


@controlled()
async def test_an_object_that_cannot_be_used_stops_neither_changes_nor_a_start(api, control):
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Queue", "queuing": {"queues": 10_000_000}}}
    limited["limitResponse"]["queuing"] |= {"handSize": 2, "queueLengthLimit": 50}
    huge = {"metadata": {"name": "huge"}, "spec": {"type": "Limited", "limited": limited}}
    await api.made(f"{PATH}/prioritylevelconfigurations", huge)
    assert control.levels["huge"].queues.queues == {}
    broken = b'{"kind":"FlowSchema","apiVersion":"flowcontrol.apiserver.k8s.io/v1","metadata":{"name":"b","resourceVersion":"'
    key = "/registry/flowcontrol.apiserver.k8s.io/flowschemas/b"
    await api.storage.put(key, Draft(broken, b'"},"spec":{"rules":7}}'), 0)
    assert (await api.as_peer("GET", CM, headers=ALICE)).status == 200
    assert "flow control" in api.catalog.hub.invalid.check()
    FlowControl(api.catalog, 60).start()


# -- objects ----------------------------------------------------------------------------------------------------------


@controlled()
async def test_a_changed_object_is_in_force_when_its_write_is_answered(api, control):
    rules = [
        {
            "subjects": [{"kind": "User", "user": {"name": "alice"}}],
            "resourceRules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
            ],
        }
    ]
    spec = {"matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "mine"}, "rules": rules}
    made = await api.made(f"{PATH}/flowschemas", {"metadata": {"name": "mine"}, "spec": spec})
    default = (await api.get(f"{PATH}/flowschemas/global-default")).json["metadata"]["uid"]
    header = "X-Kubernetes-PF-FlowSchema-UID"
    # Its level does not exist yet, so it is not used.
    assert (await api.as_peer("GET", CM, headers=ALICE)).header(header) == default
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}
    await api.made(
        f"{PATH}/prioritylevelconfigurations",
        {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}},
    )
    assert (await api.as_peer("GET", CM, headers=ALICE)).header(header) == made["metadata"]["uid"]
    await api.delete(f"{PATH}/prioritylevelconfigurations/mine")
    assert (await api.as_peer("GET", CM, headers=ALICE)).header(header) == default
    await asyncio.sleep(1)
    assert "mine" not in control.levels


@controlled()
async def test_mandatory_objects_are_restored_and_suggested_ones_only_if_they_may_be(api, control):
    async def spoil(name, **annotations):
        path = f"{PATH}/prioritylevelconfigurations/{name}"
        change = {"metadata": {"annotations": annotations}, "spec": {"limited": {"nominalConcurrencyShares": 77}}}
        assert (await api.patch(path, change)).status == 200

    key = "apf.kubernetes.io/autoupdate-spec"
    await spoil("system", **{key: "false"})
    await spoil("workload-low", **{key: "true"})
    await api.delete(f"{PATH}/flowschemas/probes")
    await ensure_flow_control(api.transport)
    levels = {
        item["metadata"]["name"]: item["spec"]
        for item in (await api.get(f"{PATH}/prioritylevelconfigurations")).json["items"]
    }
    assert levels["system"]["limited"]["nominalConcurrencyShares"] == 77
    assert levels["workload-low"] == LEVELS["workload-low"]
    assert {name: spec for name, spec in levels.items() if name != "system"} == {
        name: spec for name, spec in LEVELS.items() if name != "system"
    }
    schemas = {item["metadata"]["name"]: item["spec"] for item in (await api.get(f"{PATH}/flowschemas")).json["items"]}
    assert schemas == SCHEMAS


@controlled()
async def test_a_flow_schema_without_its_level_is_dangling(api, control):
    status = FlowSchemaStatus(api.transport, api.catalog, api.clock)
    task = asyncio.ensure_future(status.run())
    spec = {"matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "mine"}, "rules": []}
    await api.made(f"{PATH}/flowschemas", {"metadata": {"name": "mine"}, "spec": spec})

    async def condition(name):
        await asyncio.sleep(1)
        (found,) = (await api.get(f"{PATH}/flowschemas/{name}")).json["status"]["conditions"]
        return found["type"], found["status"], found["reason"], found["message"]

    words = "This FlowSchema references the PriorityLevelConfiguration object named"
    assert await condition("mine") == ("Dangling", "True", "NotFound", f'{words} "mine" but there is no such object')
    assert await condition("exempt") == ("Dangling", "False", "Found", f'{words} "exempt" and it exists')
    revision = api.revision
    await asyncio.sleep(100)
    assert api.revision == revision
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@controlled()
async def test_pages_and_metrics(api, control):
    levels = (await api.get("/debug/api_priority_and_fairness/dump_priority_levels")).raw.decode().splitlines()
    assert levels[0].startswith("PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ")
    assert [line.partition(",")[0] for line in levels[1:]] == sorted(LEVELS)
    queues = (await api.get("/debug/api_priority_and_fairness/dump_queues")).raw.decode().splitlines()
    assert queues[0].startswith("PriorityLevelName, Index, PendingRequests, ExecutingRequests, SeatsInUse, ")
    path = "/debug/api_priority_and_fairness/dump_requests"
    answer = await api.request("GET", path, transport=api.user("alice", "devs"), includeRequestDetails="1")
    running = answer.raw.decode().splitlines()
    assert running[1].startswith("global-default, ")
    assert "/debug/api_priority_and_fairness/dump_requests" in running[1]
    assert (await api.get("/debug/api_priority_and_fairness/nonsense")).status == 404
    assert (await api.as_peer("GET", "/debug/api_priority_and_fairness/dump_queues")).status == 403
    families = {family.name: family for family in FlowControlMetrics(control).collect()}
    seats = {
        sample.labels["priority_level"]: sample.value
        for sample in families["apiserver_flowcontrol_nominal_limit_seats"].samples
    }
    assert seats["workload-low"] == control.levels["workload-low"].nominal


@pytest.mark.parametrize("number", [1, 2, 7, 600])
def test_nominal_seats_are_at_least_one_for_every_level_with_shares(number):
    @controlled(seats=number)
    async def check(api, control):
        assert all(level.nominal >= 1 for level in control.levels.values() if level.shares)
        assert (await api.as_peer("GET", CM, headers=ALICE)).status == 200

    check()


@controlled(seats=10)
async def test_the_more_requests_are_refused_the_later_their_answers_are_sent(api, control):
    gate, _ = blocking(api)
    level = control.levels["global-default"]
    first = requests(api, "flood", 300 + level.nominal + 50)
    await asyncio.sleep(0.001)
    held = control._held
    await asyncio.sleep(REFUSAL_SECONDS + held * LONGER_REFUSAL / 2)
    assert 0 < control._held < held
    await asyncio.sleep(MAX_REFUSAL_SECONDS - REFUSAL_SECONDS)
    assert {task.result().status for task in first if task.done()} == {429}
    assert control._held == 0
    gate.set()
    await asyncio.gather(*first)
