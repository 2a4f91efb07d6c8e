"""A server that was cut off from etcd for longer than history is kept: what it missed has been compacted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from live_server import Line, metric, until
from shared_site import OPEN, REFUSED, Proxy, Site
from storage_backends import Recorder, value

from etcd_cluster import PROGRAM, EtcdCluster
from kapi.base.failpoint import armed
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.cluster import EtcdError
from kapi.storage.etcd.storage import EtcdStorage
from kapi.storage.etcd.streams import Code
from kapi.storage.interface import Compacted, OutcomeUnknown, StorageFailed
from peers import peer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
_numbers = itertools.count()


class Cut:
    """A store behind a proxy, and another one on the same keys that is not."""

    def __init__(self, store: EtcdStorage, other: EtcdStorage, proxy: Proxy) -> None:
        self.store = store
        self.other = other
        self.proxy = proxy

    async def outlast_history(self) -> int:
        """Cut the store off, write, and compact what was written; returns the revision of the last write."""
        self.proxy.set(REFUSED)
        first = await self.other.put("/a", value("one"), 0)
        second = await self.other.put("/a", value("two"), first)
        last = await self.other.put("/b", value("one"), 0)
        await self.other.delete("/b", last)
        await self.other.compact(last)
        return second


@contextlib.asynccontextmanager
async def cut(cluster: EtcdCluster) -> AsyncIterator[Cut]:
    prefix = f"/gap/{next(_numbers)}"
    proxy = Proxy(cluster.members[0])
    await proxy.start()
    other = await EtcdStorage.open(parse_address(f"etcd://{cluster.endpoints}{prefix}"))
    store = await EtcdStorage.open(parse_address(f"etcd://127.0.0.1:{proxy.port}{prefix}?timeout=60"))
    try:
        yield Cut(store, other, proxy)
    finally:
        await store.close()
        await other.close()
        await proxy.close()


def run(etcd: EtcdCluster, scenario: Callable[[Cut], Awaitable[None]]) -> None:
    async def scene() -> None:
        async with asyncio.timeout(120), cut(etcd) as parts:
            await scenario(parts)

    asyncio.run(scene())


async def reached(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.01)


def test_a_store_without_an_owner_that_reads_it_anew_fails_and_says_so(etcd: EtcdCluster) -> None:
    async def scenario(parts: Cut) -> None:
        failures: list[BaseException] = []
        parts.store.on_failure = failures.append
        await parts.outlast_history()
        parts.proxy.set(OPEN)
        await reached(lambda: failures)
        with pytest.raises(StorageFailed, match="have been compacted"):
            await parts.store.put("/c", value(), 0)

    run(etcd, scenario)


def test_the_feed_goes_on_after_the_revision_at_which_the_store_was_read_anew(etcd: EtcdCluster) -> None:
    async def scenario(parts: Cut) -> None:
        recorder = Recorder()
        read: list[int] = []
        attempts = 0

        async def read_anew(revision: int) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise Compacted(revision, revision + 1)  # As when reading takes longer than history is kept.
            page = await parts.store.range("/", revision=revision)
            read.extend(entry.revision for entry in page.entries)
            assert parts.store.revision < revision

        parts.store.on_gap = read_anew
        await parts.store.follow(parts.store.revision, recorder)
        last = await parts.outlast_history()
        parts.proxy.set(OPEN)
        own = await parts.store.put("/c", value(), 0)
        await reached(lambda: recorder.reached >= own)
        # Its own write came before, in or after the gap; what others wrote in the gap is not in the feed.
        assert last in read
        assert (own in read) != (own in recorder.revisions)
        assert set(recorder.revisions) <= {own}
        assert (parts.store.gaps, attempts) == (1, 2)
        later = await parts.other.put("/d", value(), 0)
        await reached(lambda: recorder.reached >= later)
        assert recorder.revisions[-1] == later
        assert not parts.store.live.interruption

    run(etcd, scenario)


def test_reads_and_commits_return_after_the_store_has_been_read_anew(etcd: EtcdCluster) -> None:
    async def scenario(parts: Cut) -> None:
        begun, finish = asyncio.Event(), asyncio.Event()

        async def read_anew(_revision: int) -> None:
            begun.set()
            await finish.wait()

        parts.store.on_gap = read_anew
        await parts.outlast_history()
        parts.proxy.set(OPEN)
        await begun.wait()
        latest = asyncio.ensure_future(parts.store.latest())
        commit = asyncio.ensure_future(parts.store.put("/c", value(), 0))
        while await parts.other.get("/c") is None:  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)
        # Other answers have come meanwhile, on the same connection: that of the latest revision is held back.
        await parts.store.get("/a")
        assert not latest.done()
        assert not commit.done()
        assert "read anew" in parts.store.live.interruption
        finish.set()
        # etcd may have read the revision after the commit, which it was sent at the same time.
        revision = await latest
        assert await commit <= parts.store.revision
        assert revision <= parts.store.revision

    run(etcd, scenario)


def test_a_commit_that_may_have_been_made_in_the_gap_is_not_guessed(etcd: EtcdCluster) -> None:
    async def scenario(parts: Cut) -> None:
        lost = asyncio.Event()

        async def read_anew(_revision: int) -> None:
            return

        def lose_the_answer() -> None:
            """The transaction has been carried out; its answer and its event do not arrive."""
            if not lost.is_set():
                lost.set()
                parts.proxy.set(REFUSED)
                raise EtcdError(Code.UNAVAILABLE, "the answer is lost", parts.store.cluster.member.endpoint)

        parts.store.on_gap = read_anew
        parts.store.live._publish = lambda _revision, _events: None
        expected = await parts.other.put("/a", value("one"), 0)
        with armed("etcd.after_commit", lose_the_answer):
            write = asyncio.ensure_future(parts.store.put("/a", value("two"), expected))
            await lost.wait()
            entry = await parts.other.get("/a")
            assert entry is not None
            assert entry.revision > expected
            # Written over, so that the present does not show it either.
            last = await parts.other.put("/a", value("three"), entry.revision)
            await parts.other.compact(last)
            parts.proxy.set(OPEN)
            with pytest.raises(OutcomeUnknown):
                await write
        assert parts.store.gaps == 1

    run(etcd, scenario)


# -- whole servers


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


async def written(line: Line, method: str, path: str, body: Any = None) -> dict[str, Any]:
    reply = await line.request(method, path, body)
    assert reply.status in (200, 201), reply
    obj: dict[str, Any] = reply.json
    return obj


async def compact(site: Site) -> None:
    """Compact etcd to what it has, as another server does later."""
    storage = await EtcdStorage.open(parse_address(f"etcd://{site.etcd.endpoints}"))
    try:
        await storage.compact(await storage.latest())
    finally:
        await storage.close()


async def watched(line: Line, path: str, events: list[dict[str, Any]]) -> None:
    async for event in line.watch(path):
        events.append(event)  # noqa: PERF401 (they are looked at while more arrive)


def test_a_server_reads_the_store_anew_and_goes_on(tmp_path: Path) -> None:
    peer(PROGRAM, "etcd")

    async def scenario() -> None:
        async with Site(tmp_path, servers=2, members=1) as site:
            first, second = site.servers
            one, two, other = await Line.open(first), await Line.open(second), await Line.open(second)
            await written(one, "POST", CONFIG_MAPS, config_map("deleted"))
            kept = await written(one, "POST", CONFIG_MAPS, config_map("kept"))
            revision = kept["metadata"]["resourceVersion"]
            assert (await two.request("GET", f"{CONFIG_MAPS}/kept")).status == 200
            events: list[dict[str, Any]] = []
            path = f"{CONFIG_MAPS}?watch=true&resourceVersion={revision}"
            watching = asyncio.ensure_future(watched(other, path, events))
            await written(one, "POST", CONFIG_MAPS, config_map("seen"))
            await until(lambda: _is(lambda: len(events) == 1))

            for proxy in site.proxies[1]:
                proxy.set(REFUSED)
            await written(one, "DELETE", f"{CONFIG_MAPS}/deleted")
            await written(one, "PUT", f"{CONFIG_MAPS}/kept", {**kept, "data": {"a": "b"}})
            await written(one, "POST", CRDS, definition())
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
            await written(one, "POST", WIDGETS, widget)
            await compact(site)
            process = second.process
            for proxy in site.proxies[1]:
                proxy.set(OPEN)

            # The watch has ended with 410, and nothing of the difference was sent as an event.
            async with asyncio.timeout(60):
                await watching
            assert [event["type"] for event in events] == ["ADDED", "ERROR"]
            assert events[-1]["object"]["code"] == 410, json.dumps(events[-1])
            assert await metric(two, "kapi_etcd_watch_gaps_total") == 1
            listed = (await two.request("GET", CONFIG_MAPS)).json
            names = [item["metadata"]["name"] for item in listed["items"]]
            assert [name for name in names if name in ("deleted", "kept", "seen")] == ["kept", "seen"]
            assert (await two.request("GET", f"{CONFIG_MAPS}/kept?resourceVersion=0")).json["data"] == {"a": "b"}
            assert (await two.request("GET", f"{WIDGETS}/w")).status == 200

            # A watch from there goes on, and writes are accepted; it is the same process.
            again = await Line.open(second)
            path = f"{CONFIG_MAPS}?watch=true&resourceVersion={listed['metadata']['resourceVersion']}"
            later: list[dict[str, Any]] = []
            watching = asyncio.ensure_future(watched(again, path, later))
            await written(two, "POST", CONFIG_MAPS, config_map("own"))
            await written(one, "POST", CONFIG_MAPS, config_map("others"))
            await until(lambda: _is(lambda: len(later) == 2))
            assert [event["object"]["metadata"]["name"] for event in later] == ["own", "others"]
            assert (await two.request("GET", "/readyz")).status == 200
            assert second.process is process
            assert second.is_running
            watching.cancel()
            for line in (one, two, other, again):
                line.close()

    asyncio.run(scenario())


async def _is(condition: Callable[[], bool]) -> bool:
    return condition()
