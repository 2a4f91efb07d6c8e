"""One object is updated without end: the store does not grow, and a client that needs compacted history is told.

Time stands still for the compactor, so that nothing is ever old enough to be forgotten: what keeps the store flat is its
bound in bytes. The bound is a small one, passed dozens of times. A watch that is open sees every update; a list that was
begun before gets 410 and a token to go on with; a watch of another resource, which comes back, has lost nothing.
"""

import asyncio

import pytest

from api_client import CM, cm, serving
from kapi.base.clock import ManualClock
from kapi.storage.compact import Compactor
from kapi.storage.memory import MemoryStorage
from kapi.storage.sqlite.storage import SqliteStorage

BOUND = 1 << 20
TURNS = 9
UPDATES = 60
PADDING = 40_000
SECRETS = "/api/v1/namespaces/default/secrets"


def held_on_disk(storage, path):
    return sum(file.stat().st_size for file in path.iterdir() if not file.name.endswith("-shm"))


def held_in_memory(storage, path):
    return sum(len(version.value or b"") for versions in storage._versions.values() for version in versions)


async def open_memory(path, **options):
    return MemoryStorage(**options)


async def _run(api, path, held):
    compactor = Compactor(api.storage, ManualClock(), retention=300)
    for name in "abcd":
        await api.made(CM, cm(name))
    secret = await api.made(SECRETS, {"metadata": {"name": "quiet"}})
    page = await api.get(CM, limit=2)
    watch = await api.watch(CM, resourceVersion=page.version)
    sizes = []
    for turn in range(TURNS):
        for number in range(UPDATES):
            answer = await api.put(f"{CM}/a", cm(data={"n": f"{turn}/{number}", "padding": "x" * PADDING}))
            assert answer.status == 200, answer
            seen = await watch.next()
            assert (seen["type"], seen["object"]["metadata"]["resourceVersion"]) == ("MODIFIED", answer.version)
        await compactor.step()
        sizes.append(held(api.storage, path))
    await watch.close()
    return page, secret, sizes


@pytest.mark.parametrize(
    ("open_", "held"), [(SqliteStorage.open, held_on_disk), (open_memory, held_in_memory)], ids=["sqlite", "memory"]
)
def test_the_size_of_the_store_is_bounded_under_continuous_updates(tmp_path, open_, held):
    async def main():
        storage = await open_(tmp_path / "data", history_bytes=BOUND)
        try:
            async with serving(storage) as api:
                page, secret, sizes = await _run(api, tmp_path / "data", held)
                print("\nbytes after each part:", sizes)
                assert TURNS * UPDATES * PADDING > 20 * BOUND
                assert max(sizes) <= 1.3 * sizes[TURNS // 3 - 1]
                late = await api.get(CM, limit=2, continue_=page.metadata["continue"])
                assert late.error[:2] == (410, "Expired")
                rest = await api.get(CM, limit=2, continue_=late.metadata["continue"])
                assert rest.names == ["c", "d"]
                # The cache has a window for each resource: that of a quiet one is not touched by a busy one.
                returned = await api.watch(SECRETS, resourceVersion=secret["metadata"]["resourceVersion"])
                await api.made(SECRETS, {"metadata": {"name": "next"}})
                assert await returned.brief(1) == [("ADDED", "next")]
                await returned.close()
        finally:
            await storage.close()

    asyncio.run(main())
