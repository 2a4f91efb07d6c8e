from __future__ import annotations

import asyncio

import pytest

from kapi.storage.etcd.latest import SharedRead
from kapi.storage.interface import StorageFailed


class Reader:
    """A read that ends when it is told to, with the number of the call."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Future[int]] = []

    async def __call__(self) -> int:
        self.gates.append(asyncio.get_running_loop().create_future())
        return await self.gates[-1]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_readers_that_ask_during_a_call_share_the_next_one() -> None:
    async def scenario() -> None:
        reader = Reader()
        shared = SharedRead(reader)
        first = asyncio.ensure_future(shared.get())
        await settle()
        others = [asyncio.ensure_future(shared.get()) for _ in range(50)]
        await settle()
        assert len(reader.gates) == 1
        reader.gates[0].set_result(1)
        await settle()
        assert len(reader.gates) == 2
        reader.gates[1].set_result(2)
        assert await first == 1
        assert await asyncio.gather(*others) == [2] * 50
        assert shared.calls == 2

    asyncio.run(scenario())


def test_a_failed_call_fails_its_readers_and_no_others() -> None:
    async def scenario() -> None:
        reader = Reader()
        shared = SharedRead(reader)
        first = asyncio.ensure_future(shared.get())
        await settle()
        second = asyncio.ensure_future(shared.get())
        await settle()
        reader.gates[0].set_exception(ValueError("down"))
        with pytest.raises(ValueError, match="down"):
            await first
        reader.gates[1].set_result(5)
        assert await second == 5

    asyncio.run(scenario())


def test_a_reader_that_gives_up_does_not_disturb_the_others() -> None:
    async def scenario() -> None:
        reader = Reader()
        shared = SharedRead(reader)
        one, two = asyncio.ensure_future(shared.get()), asyncio.ensure_future(shared.get())
        await settle()
        one.cancel()
        await settle()
        reader.gates[0].set_result(5)
        assert await two == 5

    asyncio.run(scenario())


def test_closing_refuses_those_who_wait() -> None:
    async def scenario() -> None:
        reader = Reader()
        shared = SharedRead(reader)
        first = asyncio.ensure_future(shared.get())
        await settle()
        second = asyncio.ensure_future(shared.get())
        await settle()
        await shared.close()
        for waiting in (first, second):
            with pytest.raises(StorageFailed):
                await waiting

    asyncio.run(scenario())
