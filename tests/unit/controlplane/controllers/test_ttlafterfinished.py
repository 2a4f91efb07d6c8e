"""The ttl-after-finished controller: finished Jobs are deleted after their TTL."""

import pytest

from controller_api import running_controllers, with_controllers
from kapi.api.meta import parse_time
from kapi.controller.reconcile import TerminalError
from kapi.controlplane.controllers.ttlafterfinished import add_ttl_after_finished_controller, expiry_of
from kapi.storage.memory import MemoryStorage
from virtual_time import run

JOBS = "/apis/batch/v1/namespaces/default/jobs"
START = "2026-01-01T00:00:00Z"


def job(name="j", ttl=None):
    containers = [{"name": "c", "image": "i"}]
    spec = {"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}
    return {"metadata": {"name": name}, "spec": spec | ({} if ttl is None else {"ttlSecondsAfterFinished": ttl})}


def ended(at=START, kind="Complete"):
    before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    conditions = [{"type": one, "status": "True", "lastTransitionTime": at} for one in (before, kind)]
    status = {"startTime": START, "conditions": conditions, "uncountedTerminatedPods": {}}
    return {"status": status | ({"completionTime": at} if kind == "Complete" else {})}


def deleting(api, name="j"):
    found = api.find("jobs.batch", "default", name)
    return found is None or "deletionTimestamp" in found["metadata"]


async def finish(api, name="j", **how):
    answer = await api.patch(f"{JOBS}/{name}/status", ended(**how))
    assert answer.status == 200, answer


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_job_is_deleted_its_ttl_after_it_finished(kind):
    @with_controllers(add_ttl_after_finished_controller)
    async def check(api):
        await api.made(JOBS, job(ttl=1000))
        await api.run_until_idle(500)
        await finish(api, at="2026-01-01T00:08:00Z", kind=kind)
        await api.run_until_idle(970)
        assert not deleting(api)
        await api.run_until_idle(20)
        assert deleting(api)
        # Foreground: its dependents are deleted first.
        assert api.find("jobs.batch", "default", "j")["metadata"]["finalizers"] == ["foregroundDeletion"]

    check()


@with_controllers(add_ttl_after_finished_controller)
async def test_a_ttl_of_zero_deletes_at_once(api):
    await api.made(JOBS, job(ttl=0))
    await finish(api)
    await api.run_until_idle(1)
    assert deleting(api)


@with_controllers(add_ttl_after_finished_controller)
async def test_running_jobs_and_jobs_without_ttl_are_kept(api):
    await api.made(JOBS, job("runs", ttl=1))
    await api.made(JOBS, job("stays"))
    await finish(api, "stays")
    await api.run_until_idle(100_000)
    assert not deleting(api, "runs")
    assert not deleting(api, "stays")


@with_controllers(add_ttl_after_finished_controller)
async def test_the_ttl_may_be_changed_after_the_job_finished(api):
    for name in ("longer", "shorter", "never"):
        await api.made(JOBS, job(name, ttl=1000))
        await finish(api, name)
    await api.run_until_idle(10)
    for name, ttl in (("longer", 5000), ("shorter", 100), ("never", None)):
        assert (await api.patch(f"{JOBS}/{name}", {"spec": {"ttlSecondsAfterFinished": ttl}})).status == 200
    await api.run_until_idle(110)
    assert [deleting(api, name) for name in ("longer", "shorter", "never")] == [False, True, False]
    await api.run_until_idle(4000)
    assert not deleting(api, "longer")
    await api.run_until_idle(1000)
    assert deleting(api, "longer")
    assert not deleting(api, "never")


@with_controllers(add_ttl_after_finished_controller)
async def test_a_finish_time_in_the_future_is_waited_for(api):
    await api.made(JOBS, job(ttl=10))
    await finish(api, at="2026-01-01T01:00:00Z")
    await api.run_until_idle(3600)
    assert not deleting(api)
    await api.run_until_idle(20)
    assert deleting(api)


def test_the_ttl_continues_while_the_server_is_stopped():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_ttl_after_finished_controller, storage=storage) as api:
            await api.made(JOBS, job(ttl=1000))
            await finish(api)
        async with running_controllers(storage=storage) as api:
            await api.run_until_idle(2000)
        async with running_controllers(add_ttl_after_finished_controller, storage=storage) as api:
            assert deleting(api)

    run(main())


def test_the_expiry_of_a_job():
    finished = {"metadata": {"namespace": "n", "name": "j"}, "spec": {"ttlSecondsAfterFinished": 60}, **ended()}
    assert expiry_of(finished) == parse_time("2026-01-01T00:01:00Z")
    assert expiry_of({**finished, "spec": {}}) is None
    assert expiry_of({**finished, "metadata": {"deletionTimestamp": START}}) is None
    untimed = {"conditions": [{"type": "Failed", "status": "True"}]}
    with pytest.raises(TerminalError, match="unable to find the time when the Job n/j finished"):
        expiry_of({**finished, "status": untimed})
    assert expiry_of({**finished, "status": {"conditions": [{"type": "Failed", "status": "False"}]}}) is None
