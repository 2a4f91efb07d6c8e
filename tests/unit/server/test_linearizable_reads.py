"""Reads of a server that shares its store with another: without a resourceVersion they see what the other wrote."""

import asyncio
import contextlib

import pytest

from api_client import CM, cm, serving
from shared_cluster import Cluster, released
from virtual_time import run


@contextlib.asynccontextmanager
async def two_servers():
    cluster = Cluster()
    one, two = await cluster.connect(), await cluster.connect()
    async with serving(one) as first:
        await two.delivered(await two.latest())
        async with serving(two) as second:
            yield first, second


def scenario(test):
    """Run `test(first, second)`: two servers on one store, the second of which has not heard of the last write."""

    def runner():
        async def main():
            async with two_servers() as (first, second):
                second.storage.hold()
                await first.made(CM, cm("a"))
                await test(first, second)

        run(main())

    runner.__name__ = test.__name__
    return runner


@scenario
async def test_a_get_waits_for_the_latest_revision(first, second):
    answer = await released(second, second.get(f"{CM}/a"))
    assert answer.status == 200


@scenario
async def test_a_list_waits_for_the_latest_revision(first, second):
    answer = await released(second, second.get(CM, limit=5))
    assert answer.names == ["a"]
    assert answer.version == str(first.revision)


@scenario
async def test_any_revision_is_answered_from_the_cache_as_it_is(first, second):
    assert (await second.get(f"{CM}/a", resourceVersion="0")).status == 404
    assert (await second.get(CM, resourceVersion="0")).names == []


@scenario
async def test_a_watch_without_a_revision_begins_with_what_the_other_server_wrote(first, second):
    watch = await second.watch(CM)
    await asyncio.sleep(1)
    second.storage.release()
    assert await watch.brief(1) == [("ADDED", "a")]
    await watch.close()


@scenario
async def test_a_watch_for_new_events_only_begins_after_what_the_other_server_wrote(first, second):
    watch = await second.watch(CM, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    await asyncio.sleep(1)
    second.storage.release()
    await asyncio.sleep(1)
    await first.made(CM, cm("b"))
    assert await watch.brief(1) == [("ADDED", "b")]
    await watch.close()


@pytest.mark.parametrize(("query", "seconds"), [({}, 60), ({"timeout": "5s"}, 5)], ids=["default", "of the client"])
def test_a_read_that_cannot_be_linearizable_is_a_timeout(query, seconds):
    async def main():
        async with two_servers() as (first, second):
            second.storage.hold()
            await first.made(CM, cm("a"))
            before = asyncio.get_running_loop().time()
            answer = await second.get(f"{CM}/a", **query)
            assert answer.error[:2] == (504, "Timeout")
            assert asyncio.get_running_loop().time() - before == pytest.approx(seconds, abs=0.1)
            second.storage.release()

    run(main())


def test_progress_without_changes_moves_lists_and_bookmarks():
    async def main():
        cluster = Cluster()
        async with serving(await cluster.connect()) as api:
            watch = await api.watch(CM, allowWatchBookmarks="true", resourceVersion=str(api.revision))
            revision = await cluster.write_elsewhere()
            assert (await api.get(CM)).version == str(revision)
            bookmark = await watch.next(within=120)
            assert (bookmark["type"], bookmark["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", str(revision))
            await watch.close()

    run(main())
