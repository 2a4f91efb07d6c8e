"""The supervisor: what fails is reported and restarted, and every task of a control plane is in its hands."""

import asyncio
import contextlib
import os
import resource

import pytest
from prometheus_client import CollectorRegistry

from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.options import AuditOptions, Options
from kapi.server.pages.health import Health
from kapi.server.supervisor import FIRST_BACKOFF, MAX_BACKOFF, STABLE_SECONDS, Supervisor
from virtual_time import LoopClock, run


class Supervised:
    """A supervisor in virtual time, and what its checks and metrics say."""

    def __init__(self):
        self.health = Health()
        self.registry = CollectorRegistry()
        self.supervisor = Supervisor(LoopClock(), self.health, self.registry)
        self.starts = []

    def run(self, *outcomes):
        """Run a task that does each of these in turn, and then runs until it is cancelled."""
        left = list(outcomes)

        async def work():
            self.starts.append(asyncio.get_running_loop().time())
            if left:
                await left.pop(0)()
            else:
                await asyncio.Event().wait()

        self.supervisor.run("work", work)

    @property
    def gaps(self):
        return [later - sooner for sooner, later in zip(self.starts, self.starts[1:], strict=False)]

    @property
    def reason(self):
        answer = self.health.answer("/readyz/task/work", "")
        return None if answer.status == 200 else answer.body.decode()

    def metric(self, name):
        return self.registry.get_sample_value(name, {"task": "work"})


async def fails():
    raise ValueError("no luck")


async def returns():
    pass


async def runs_long():
    await asyncio.sleep(MAX_BACKOFF + 1)
    raise ValueError("no luck")


def supervised(test):
    def runner():
        async def main():
            given = Supervised()
            await test(given)
            await given.supervisor.stop()

        run(main())

    runner.__name__, runner.__doc__ = test.__name__, test.__doc__
    return runner


@supervised
async def test_a_task_that_fails_is_reported_until_its_restart_has_lasted(given):
    given.run(fails)
    assert given.health.ready
    assert given.metric("kapi_task_up") == 1
    await asyncio.sleep(0.5)
    assert not given.health.ready
    assert given.reason == (
        "internal server error: task work failed: ValueError: no luck; it is restarted at 2026-01-01T00:00:01Z\n"
    )
    assert (given.metric("kapi_task_up"), given.metric("kapi_task_restarts_total")) == (0, 0)
    await asyncio.sleep(FIRST_BACKOFF)
    assert given.reason == (
        "internal server error: task work has just been restarted after it failed: ValueError: no luck\n"
    )
    await asyncio.sleep(STABLE_SECONDS)
    assert given.health.ready
    assert (given.metric("kapi_task_up"), given.metric("kapi_task_restarts_total")) == (1, 1)


@supervised
async def test_a_task_that_returns_has_failed(given):
    given.run(returns)
    await asyncio.sleep(0)
    await asyncio.sleep(0.5)
    assert "it returned without being asked to stop" in given.reason
    await asyncio.sleep(FIRST_BACKOFF + STABLE_SECONDS)
    assert given.health.ready


@supervised
async def test_the_back_off_doubles_up_to_its_bound_and_starts_over_after_a_long_run(given):
    given.run(*[fails] * 8, runs_long)
    await asyncio.sleep(600)
    assert given.gaps == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, MAX_BACKOFF + 1 + FIRST_BACKOFF])


@supervised
async def test_a_stopped_supervisor_restarts_nothing_and_waits_for_its_tasks(given):
    ended = []

    async def ends_slowly():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3)
            ended.append(asyncio.get_running_loop().time())

    given.run(fails)
    given.supervisor.run("slow", ends_slowly)
    await asyncio.sleep(0.5)
    before = asyncio.get_running_loop().time()
    await given.supervisor.stop()
    assert ended == [before + 3]
    await asyncio.sleep(600)
    assert len(given.starts) == 1


# -- the tasks of a control plane -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running_plane(path):
    plane = ControlPlane(Options(data_dir=path, port=0, storage="memory"), clock=LoopClock())
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


async def ask(plane, path, method="GET", body=b""):
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, body)
    return reply.status, (await reply.read()).decode()


async def restarted():
    """Wait until a task that has failed is restarted and has run for long enough."""
    await asyncio.sleep(FIRST_BACKOFF + STABLE_SECONDS + 0.1)  # More, because the loop's time is a sum of fractions.


def report_at_end(supervised):
    """The reports of a task at its end, in a list: it is restarted soon, and a busy machine may be slower than that."""
    reports = []
    # Called after the supervisor's own, which was added before.
    supervised.task.add_done_callback(lambda _: reports.append(supervised.check() or ""))
    return reports


async def kill(plane, name):
    """End the current run of a task, as a failure does."""
    task = plane.supervisor.tasks[name].task
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    return task


def test_every_task_of_a_control_plane_is_restarted_and_reported_when_it_dies(tmp_path):
    async def main():
        async with running_plane(tmp_path) as plane:
            names = list(plane.supervisor.tasks)
            assert names, "nothing is supervised"
            for name in names:
                assert (await ask(plane, "/readyz")) == (200, "ok")
                ended = await kill(plane, name)
                status, text = await ask(plane, f"/readyz/task/{name}")
                assert (status, name in text, "restarted at" in text) == (500, True, True), text
                status, text = await ask(plane, "/readyz")
                assert status == 500
                assert f"[-]task/{name} failed" in text
                assert (await ask(plane, "/livez"))[0] == 200
                await restarted()
                assert plane.supervisor.tasks[name].task is not ended
                assert not plane.supervisor.tasks[name].task.done()
                page = (await ask(plane, "/metrics"))[1]
                assert f'kapi_task_restarts_total{{task="{name}"}} 1.0' in page
                assert f'kapi_task_up{{task="{name}"}} 1.0' in page

    run(main())


def test_a_control_plane_has_no_task_that_is_not_supervised(tmp_path):
    async def main():
        before = asyncio.all_tasks()
        async with running_plane(tmp_path) as plane:
            supervised_tasks = {task.task for task in plane.supervisor.tasks.values()}
            await plane.supervisor.stop()
            # What a supervised task has started ends with it; an idle server has nothing else.
            assert asyncio.all_tasks() - before - supervised_tasks == set()

    run(main())


@contextlib.contextmanager
def no_descriptor_left():
    """Let every further open file or socket of this process fail with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


async def check_namespace_deletion(plane, name):
    await ask(plane, "/api/v1/namespaces", "POST", f'{{"metadata":{{"name":"{name}"}}}}'.encode())
    await ask(plane, f"/api/v1/namespaces/{name}", "DELETE")

    await asyncio.sleep(10)
    assert (await ask(plane, f"/api/v1/namespaces/{name}"))[0] == 404


def test_controllers_that_find_no_file_descriptor_are_restarted_when_there_is_one(tmp_path):
    async def main():
        async with running_plane(tmp_path) as plane:
            await check_namespace_deletion(plane, "before")
            with no_descriptor_left():
                await kill(plane, "controllers")
                await restarted()
                status, text = await ask(plane, "/readyz/task/controllers")
                assert (status, "OSError: [Errno 24] Too many open files" in text) == (500, True), text
                assert (await ask(plane, "/readyz"))[0] == 500
            await restarted()
            await restarted()
            assert (await ask(plane, "/readyz")) == (200, "ok")
            await check_namespace_deletion(plane, "after")

    run(main())


def test_controllers_that_miss_the_certificate_authority_are_restarted_when_it_is_back(tmp_path):
    async def main():
        async with running_plane(tmp_path) as plane:
            authority = tmp_path / "pki" / "ca.crt"
            authority.rename(tmp_path / "elsewhere")
            await kill(plane, "controllers")
            await restarted()
            status, text = await ask(plane, "/readyz/task/controllers")
            assert (status, "FileNotFoundError" in text, "ca.crt" in text) == (500, True, True), text
            assert (await ask(plane, "/readyz"))[0] == 500
            (tmp_path / "elsewhere").rename(authority)
            await restarted()
            await restarted()
            assert (await ask(plane, "/readyz")) == (200, "ok")
            await check_namespace_deletion(plane, "after")

    run(main())


# -- with everything that options can add

EVERY_TASK = {
    "aggregator-connections",
    "aggregator-discovery",
    "aggregator-openapi",
    "apiservice-availability",
    "apiservice-registration",
    "audit-webhook",
    "cluster-authentication-info",
    "compaction",
    "controllers",
    "custom-resource-definitions",
    "event-loop-lag",
    "file-watch",
    "flow-schema-status",
    "identity-lease",
    "memory",
    "service-repair",
    "store-integrity",
    "watch-history",
}
"""The tasks of a server on SQLite with an audit webhook and encryption. One on etcd has `etcd-monitor` besides."""

WEBHOOK = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:9/"}}]
contexts: [{name: a, context: {cluster: a, user: ""}}]
current-context: a
"""
ENCRYPTION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
"""


def test_every_task_of_a_server_with_all_options_is_restarted_when_it_dies(tmp_path, monkeypatch):
    # On a real store and in real time: a commit on disk takes some, and virtual time would run ahead of it.
    monkeypatch.setattr("kapi.server.supervisor.FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("kapi.server.supervisor.STABLE_SECONDS", 0.0)
    (tmp_path / "webhook").write_text(WEBHOOK)
    (tmp_path / "encryption").write_text(ENCRYPTION)
    options = Options(
        data_dir=tmp_path / "data",
        port=0,
        audit=AuditOptions(log=tmp_path / "audit.log", webhook_config_file=tmp_path / "webhook"),
        encryption_config=tmp_path / "encryption",
    )

    async def main():
        plane = ControlPlane(options)
        try:
            await plane.start()
            assert set(plane.supervisor.tasks) == EVERY_TASK
            for name in EVERY_TASK:
                reports = report_at_end(plane.supervisor.tasks[name])
                ended = await kill(plane, name)
                assert f"task {name} failed" in reports[0]
                while plane.supervisor.tasks[name].task is ended or (await ask(plane, "/readyz"))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await ask(plane, "/api/v1/namespaces/default"))[0] == 200
        finally:
            await plane.stop()

    asyncio.run(main())
