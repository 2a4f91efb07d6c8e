"""Leader election of controller sets: of several servers, the controllers of one act."""

import asyncio
import contextlib

import pytest

from api_client import CM, NS, cm
from controller_api import running, running_controllers
from kapi.controller.manager.cachedclient import NotLeading
from kapi.controller.manager.leaderelection import JITTER, LEASE_SECONDS, RETRY_SECONDS
from kapi.controller.manager.manager import Leadership
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.context import enqueue_object
from virtual_time import run

LEASES = "leases.coordination.k8s.io"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"


def as_server(identity):
    return Leadership("kube-controller-manager", "kube-system", identity)


def recording(seen, *, needs_leader_election=True):
    """A controller that records the requests for ConfigMaps."""

    def add(context):
        async def reconcile(request):
            seen.append(request)

        context.add(
            "recording",
            reconcile,
            enqueue={"configmaps": enqueue_object},
            initial=context.all_of("configmaps"),
            needs_leader_election=needs_leader_election,
        )

    return add


def holder(api):
    return api.find(LEASES, "kube-system", "kube-controller-manager")["spec"]["holderIdentity"]


def test_the_controllers_of_the_leader_run_and_those_of_another_server_take_over():
    first, second = [], []

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            api = await stack.enter_async_context(running_controllers())
            leader = contextlib.AsyncExitStack()
            await leader.enter_async_context(running(api.controller_set(recording(first), leadership=as_server("a"))))
            await stack.enter_async_context(running(api.controller_set(recording(second), leadership=as_server("b"))))
            await api.made(CM, cm("one"))
            await api.run_until_idle()
            assert (holder(api), first, second) == ("a", [Request("default", "one")], [])
            await leader.aclose()
            await api.made(CM, cm("two"))
            await api.run_until_idle()
            assert (holder(api), len(first)) == ("b", 1)
            assert set(second) == {Request("default", "one"), Request("default", "two")}

    run(main())


class Killed:
    """The API as a server reaches it until it is killed; then it sends nothing any more, and releases nothing."""

    def __init__(self, handler):
        self._handler = handler
        self.is_dead = False

    async def __call__(self, request):
        if self.is_dead:
            await asyncio.Event().wait()
        return await self._handler(request)


@pytest.mark.parametrize("seconds_before", [0.1, 1.0, 1.9])
def test_controllers_of_another_server_act_within_the_lease_after_the_leader_was_killed(seconds_before):
    """A candidate looks every `RETRY_SECONDS`, a little more by chance: so late it sees the last renewal, and its age."""
    first, second = [], []
    latest = LEASE_SECONDS + 2 * RETRY_SECONDS * JITTER

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            api = await stack.enter_async_context(running_controllers())
            leader = api.controller_set(recording(first), leadership=as_server("a"))
            leader._handler = killed = Killed(api.pipeline)
            task = asyncio.ensure_future(leader.run())
            await asyncio.sleep(1)
            await stack.enter_async_context(running(api.controller_set(recording(second), leadership=as_server("b"))))
            await api.run_until_idle(30 + seconds_before)
            assert holder(api) == "a"
            loop = asyncio.get_running_loop()
            killed.is_dead, began = True, loop.time()
            task.cancel()
            await asyncio.wait([task])
            await api.made(CM, cm("work"))
            # The Lease is still valid: the leader might only be slow.
            await asyncio.sleep(began + LEASE_SECONDS - RETRY_SECONDS - loop.time())
            assert (holder(api), second) == ("a", [])
            await asyncio.sleep(began + latest + 0.1 - loop.time())
            assert (holder(api), first, second) == ("b", [], [Request("default", "work")])

    run(main())


def test_controllers_that_every_server_runs_do_not_wait_for_the_lease():
    seen = []

    async def main():
        async with running_controllers() as api:
            everywhere = recording(seen, needs_leader_election=False)
            async with (
                running(api.controller_set(leadership=as_server("a"))),
                running(api.controller_set(everywhere, leadership=as_server("b"))),
            ):
                await api.made(CM, cm("one"))
                await api.run_until_idle()
                assert (holder(api), seen) == ("a", [Request("default", "one")])

    run(main())


@pytest.mark.parametrize("is_lost", [True, False])
def test_no_request_is_sent_once_the_lease_is_lost(is_lost):
    proceed, errors = asyncio.Event(), []

    def add(context):
        async def reconcile(request):
            try:
                await proceed.wait()
            finally:
                # A reconcile is cancelled when the lease is lost; what it sends nevertheless is refused.
                try:
                    await context.writer.create(
                        cm("written") | {"metadata": {"name": "written", "namespace": "default"}}
                    )
                except NotLeading as error:
                    errors.append(error)

        context.add("writing", reconcile, enqueue={"configmaps": enqueue_object}, initial=lambda: ())

    async def main():
        async with running_controllers() as api, running(api.controller_set(add, leadership=as_server("a"))):
            await api.made(CM, cm("one"))
            await api.run_until_idle(1)
            if is_lost:
                await api.patch(LEASE, {"spec": {"holderIdentity": "b"}})
                await api.run_until_idle(10)
            proceed.set()
            await api.run_until_idle(1)
            assert (("default", "written") in api.there("configmaps")) == (not is_lost)
            assert bool(errors) == is_lost

    run(main())


def test_controllers_start_again_when_the_lease_is_acquired_again():
    seen = []

    async def main():
        async with (
            running_controllers() as api,
            running(api.controller_set(recording(seen), leadership=as_server("a"))),
        ):
            await api.patch(LEASE, {"spec": {"holderIdentity": "b"}})
            await api.run_until_idle(10)
            await api.made(CM, cm("one"))
            await api.run_until_idle(1)
            assert seen == []
            await api.run_until_idle()
            assert (holder(api), seen) == ("a", [Request("default", "one")])

    run(main())


def test_without_leadership_no_lease_is_written():
    seen = []

    async def main():
        async with running_controllers(recording(seen)) as api:
            await api.made(CM, cm("one"))
            before = api.revision
            await api.run_until_idle(24 * 3600)
            assert seen == [Request("default", "one")]
            assert api.revision == before
            assert (await api.get(LEASE)).status == 404
            assert (await api.get(f"{NS}/kube-system")).status == 200

    run(main())
