"""A user floods the server: excess requests get 429, and others, such as the renewal of a Lease, do not wait behind them.

How long a renewal waits is counted in answers to the flood while it is under way, not in seconds, so that the speed of
the machine does not matter. Without flow control it waits behind a good part of the connections.
"""

import asyncio

import pytest
from live_server import Line, LiveServer

pytestmark = pytest.mark.slow

CONNECTIONS = 400
SEATS = 40
RENEWALS = 8
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FLOOD, LEADER = ("default", "flood"), ("kube-system", "leader")


async def _token(line, namespace, name):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert (await line.request("POST", accounts, {"metadata": {"name": name}})).status == 201
    return (await line.request("POST", f"{accounts}/{name}/token", {"spec": {}})).json["status"]["token"]


async def _prepare(server):
    """Make the two service accounts, which may do everything, and the Lease; returns their tokens."""
    line = await Line.open(server)
    tokens = [await _token(line, *account) for account in (FLOOD, LEADER)]
    subjects = [{"kind": "ServiceAccount", "namespace": namespace, "name": name} for namespace, name in (FLOOD, LEADER)]
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "both"}, "subjects": subjects, "roleRef": role}
    assert (await line.request("POST", BINDINGS, binding)).status == 201
    assert (await line.request("POST", LEASES, {"metadata": {"name": "l"}, "spec": {}})).status == 201
    line.close()
    return tokens


class Flood:
    """Connections that create objects as fast as they are answered."""

    def __init__(self):
        self.statuses = []
        self.is_over = False

    async def run(self, line):
        while not self.is_over:
            body = {"metadata": {"generateName": "c-"}, "data": {"k": "v"}}
            answer = await line.request("POST", "/api/v1/namespaces/default/configmaps", body)
            self.statuses.append(answer.status)
        line.close()

    async def until(self, number):
        """Wait for so many more answers."""
        wanted = len(self.statuses) + number
        while len(self.statuses) < wanted:  # noqa: ASYNC110 (the requests are what makes time pass)
            await asyncio.sleep(0.01)


async def _overload(server):
    """The mean number of answers to the flood during a renewal, and the statuses of the flood."""
    flooding, leading = await _prepare(server)
    flood = Flood()
    lines = [await Line.open(server, flooding) for _ in range(CONNECTIONS)]
    leader = await Line.open(server, leading)
    lease = (await leader.request("GET", f"{LEASES}/l")).json
    waits = []
    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(flood.run(line))
        for _ in range(RENEWALS):
            await flood.until(CONNECTIONS)
            before = len(flood.statuses)
            answer = await leader.request("PUT", f"{LEASES}/l", lease)
            waits.append(len(flood.statuses) - before)
            assert answer.status == 200, answer
            lease = answer.json
        flood.is_over = True
    leader.close()
    return sum(waits) / RENEWALS, flood.statuses


def _measure(directory, *options):
    with LiveServer(directory, *options) as server:
        wait, statuses = asyncio.run(_overload(server))
    print(f"\nanswers to the flood during a renewal: {wait:.0f}; {len(statuses)} in all, {statuses.count(429)} refused")
    return wait, set(statuses)


def test_a_flood_is_refused_in_part_and_delays_no_renewal_of_a_lease(tmp_path):
    seats = ["--max-requests-inflight", str(SEATS // 2), "--max-mutating-requests-inflight", str(SEATS // 2)]
    wait, statuses = _measure(tmp_path / "controlled", *seats)
    assert statuses == {201, 429}
    # The control: the same flood without flow control.
    uncontrolled_wait, statuses = _measure(tmp_path / "uncontrolled", "--enable-priority-and-fairness=false")
    assert statuses == {201}
    assert uncontrolled_wait > 2 * wait + 10
