from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kapi.storage.etcd.latest import SharedRead
from kapi.storage.interface import StorageFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Reader:
    """A read that ends when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[int | Exception], None]] = []

    def __call__(self, done: Callable[[int | Exception], None]) -> None:
        self.calls.append(done)


def run(scenario: Callable[[Reader, SharedRead], Awaitable[None]]) -> None:
    async def scene() -> None:
        reader = Reader()
        await scenario(reader, SharedRead(reader))

    asyncio.run(scene())


def test_readers_that_ask_during_a_call_share_the_next_one() -> None:
    async def scenario(reader: Reader, shared: SharedRead) -> None:
        first = shared.get()
        others = [shared.get() for _ in range(50)]
        assert len(reader.calls) == 1
        reader.calls[0](1)
        assert len(reader.calls) == 2
        assert not any(other.done() for other in others)
        reader.calls[1](2)
        assert await first == 1
        assert await asyncio.gather(*others) == [2] * 50
        assert shared.calls == 2
        assert len(reader.calls) == 2
        last = shared.get()
        reader.calls[2](3)
        assert await last == 3

    run(scenario)


def test_a_failed_call_fails_its_readers_and_no_others() -> None:
    async def scenario(reader: Reader, shared: SharedRead) -> None:
        first, second = shared.get(), shared.get()
        reader.calls[0](ValueError("down"))
        with pytest.raises(ValueError, match="down"):
            await first
        reader.calls[1](5)
        assert await second == 5

    run(scenario)


def test_a_reader_that_gives_up_does_not_disturb_the_others() -> None:
    async def scenario(reader: Reader, shared: SharedRead) -> None:
        first, one, two = shared.get(), shared.get(), shared.get()
        first.cancel()
        one.cancel()
        reader.calls[0](4)
        reader.calls[1](5)
        assert await two == 5

    run(scenario)


def test_closing_refuses_those_who_wait_and_those_who_come_later() -> None:
    async def scenario(reader: Reader, shared: SharedRead) -> None:
        waiting = [shared.get(), shared.get()]
        shared.close()
        waiting.append(shared.get())
        for one in waiting:
            with pytest.raises(StorageFailed):
                await one
        reader.calls[0](1)
        assert len(reader.calls) == 1

    run(scenario)
