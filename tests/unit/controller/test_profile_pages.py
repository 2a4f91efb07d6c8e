"""The profile pages of a manager: CPU time, tasks, threads and memory of the process, for its operators only."""

import asyncio
import gc
import threading
import time
import tracemalloc

import pytest

from kapi.api.builtin.core_v1 import ConfigMap
from kapi.base.webhandler import Request
from kapi.controller import Manager
from kapi.controller.fence import Fenced
from kapi.controller.manager import profile
from kapi.controller.manager.profilepages import ProfilePages, checked_address
from kapi.testing import Environment


def burn_cpu_here(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def charged(text, function):
    """The microseconds of stacks with a function, and of all."""
    lines = [line.rpartition(" ") for line in text.splitlines()]
    return sum(int(count) for stack, _, count in lines if function in stack), sum(int(count) for _, _, count in lines)


def test_a_cpu_profile_charges_the_functions_that_use_the_cpu():
    sampled = profile.CPUProfile()
    sampled.start()
    burn_cpu_here(0.5)
    sampled.stop()
    found, total = charged(sampled.text(), "burn_cpu_here (controller/test_profile_pages.py)")
    assert total > 100_000  # microseconds
    assert found > total / 2
    stack = next(line for line in sampled.text().splitlines() if "burn_cpu_here" in line)
    assert stack.startswith("MainThread;")
    assert stack.index("test_a_cpu_profile") < stack.index("burn_cpu_here")


@pytest.mark.skipif(
    profile._cpu_nanoseconds(threading.get_native_id()) is None, reason="this kernel counts no CPU time of threads"
)
def test_a_thread_that_waits_is_not_charged():
    release = threading.Event()

    def wait_for_the_end():
        release.wait()

    waiting = threading.Thread(target=wait_for_the_end, name="waits")
    waiting.start()
    try:
        sampled = profile.CPUProfile()
        sampled.start()
        burn_cpu_here(0.3)
        sampled.stop()
    finally:
        release.set()
        waiting.join()
    found, total = charged(sampled.text(), "wait_for_the_end")
    assert found < total / 10


def test_distinct_stacks_are_bounded(monkeypatch):
    monkeypatch.setattr(profile, "MAX_STACKS", 0)
    sampled = profile.CPUProfile()
    sampled.start()
    burn_cpu_here(0.2)
    sampled.stop()
    assert sampled.text().startswith("(other stacks) ")
    assert len(sampled.text().splitlines()) == 1


async def outer(event):
    password = "hunter2"
    await inner(event)
    return password


async def inner(event):
    await event.wait()


def test_tasks_are_shown_with_all_that_they_await_and_without_values():
    async def main():
        event = asyncio.Event()
        tasks = [asyncio.create_task(outer(event), name=f"waiter {number}") for number in range(7)]
        fenced = asyncio.create_task(reconciling(event), name="fenced")
        await asyncio.sleep(0)
        text = profile.tasks()
        event.set()
        await asyncio.gather(fenced, *tasks)
        return text

    async def reconciling(event):
        await Fenced(inner(event), lambda: True)

    text = asyncio.run(main())
    assert text.startswith("9 tasks\n")
    groups = {group.splitlines()[0]: group for group in text.split("\n\n")[1:]}
    waiters = groups["7 @ waiter 0, waiter 1, waiter 2, waiter 3, waiter 4 and 2 more"]
    assert [line.split()[0] for line in waiters.splitlines()[1:]] == ["outer", "inner", "Event.wait", "waits"]
    assert "test_profile_pages.py" in waiters
    assert "hunter2" not in waiters.replace('password = "hunter2"', "")
    # What a fence lets continue is shown, too.
    assert "    inner (" in groups["1 @ fenced"]


def test_threads_are_shown_with_their_stacks():
    release = threading.Event()

    def stand_still():
        release.wait()

    thread = threading.Thread(target=stand_still, name="still", daemon=True)
    thread.start()
    try:
        text = profile.threads()
    finally:
        release.set()
        thread.join()
    still = text[text.index("\nstill (daemon)\n") :]
    assert "stand_still" in still.split("\n\n")[0]


def test_memory_is_shown_by_type_and_by_allocation_if_that_is_traced():
    class Peculiar:
        def __init__(self):
            self.cycle = self

    kept = [Peculiar() for _ in range(50_000)]
    gc.collect()
    text = profile.memory()
    assert "50,000  test_profile_pages.test_memory_is_shown_by_type" in text
    assert "PYTHONTRACEMALLOC=1" in text
    assert text.startswith("resident: ")
    del kept
    tracemalloc.start()
    try:
        allocated = [bytes(1000) for _ in range(2000)]
        assert "controller/test_profile_pages.py:" in profile.memory()
        del allocated
    finally:
        tracemalloc.stop()


def asked(path, method="GET", **query):
    return Request(method, path, {}, b"", query)


def test_one_profile_is_made_at_a_time_and_its_length_is_bounded():
    async def main():
        pages = ProfilePages()
        first = asyncio.ensure_future(pages.all(asked("/debug/profile", seconds="60")))
        await asyncio.sleep(0)
        statuses = [
            (await pages.all(one)).status
            for one in (
                asked("/debug/profile", seconds="1"),
                asked("/debug/memory"),
                asked("/debug/profile", seconds="61"),
                asked("/debug/profile", seconds="nan"),
                asked("/debug/profile", seconds="-1"),
                asked("/debug/profile", seconds="long"),
                asked("/debug/profile", method="POST"),
                asked("/debug/elsewhere"),
                asked("/debug/tasks"),
            )
        ]
        assert statuses == [409, 409, 400, 400, 400, 400, 405, 404, 200]
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert "kapi profile" not in [thread.name for thread in threading.enumerate()]
        assert (await pages.all(asked("/debug/profile", seconds="0.1"))).status == 200

    asyncio.run(main())


async def page(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body.decode()


def test_a_manager_serves_profiles_if_it_is_told_to_and_at_no_other_page():
    async def main():
        async with Environment(controllers=()) as env:
            manager = env.manager(profile=("127.0.0.1", 0), pages=("127.0.0.1", 0))
            manager.builder().for_(ConfigMap).complete(_nothing)
            async with env.run(manager):
                port = manager.ports["profile"]
                assert (await page(port, "/debug/"))[1].count("/debug/") == 4
                status, tasks = await page(port, "/debug/tasks")
                assert (status, "Controller._work" in tasks) == (200, True)
                assert (await page(port, "/debug/profile?seconds=0.2"))[0] == 200
                assert (await page(port, "/debug/profile?seconds=1000"))[0] == 400
                assert (await page(port, "/metrics"))[0] == 404
                assert (await page(manager.pages_port, "/debug/tasks"))[0] == 404

    asyncio.run(main())


async def _nothing(request):
    return None


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com", ""])
def test_an_address_that_other_machines_reach_is_refused(host):
    with pytest.raises(ValueError, match="expected a loopback address"):
        checked_address((host, 6060))


def test_loopback_addresses_are_accepted():
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert checked_address((host, 6060)) == (host, 6060)
    assert checked_address(None) is None


def test_a_manager_refuses_profiles_at_an_address_that_other_machines_reach():
    async def main():
        async with Environment(controllers=()) as env:
            with pytest.raises(ValueError, match=r"profile pages at '0\.0\.0\.0'"):
                Manager(env.client, profile=("0.0.0.0", 6060))

    asyncio.run(main())
