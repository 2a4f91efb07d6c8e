"""Turns at the event loop: long work is cut up, in order, and other work goes on between its turns."""

import asyncio
import time

import pytest

from kapi.server.turns import PIECE, TURN, Turns


def spin(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_selection_keeps_the_order_and_stops_at_the_limit():
    async def main():
        seen = []

        def even(number):
            seen.append(number)
            return number % 2 == 0

        turns = Turns()
        assert await turns.select(even, range(10_000)) == list(range(0, 10_000, 2))
        seen.clear()
        assert await turns.select(even, range(10_000), 3) == [0, 2, 4]
        assert len(seen) < 100
        assert await turns.map(str, range(5)) == ["0", "1", "2", "3", "4"]

    asyncio.run(main())


def test_other_work_runs_between_the_turns():
    async def main():
        turns, progress = Turns(), []

        async def tick():
            while True:
                progress.append(len(done))
                await asyncio.sleep(0)

        done = []
        ticker = asyncio.ensure_future(tick())
        await turns.map(lambda number: (spin(TURN), done.append(number)), range(20))
        ticker.cancel()
        # Every step took a whole turn, so the ticker ran after each of them.
        assert set(range(1, 20)) <= set(progress)

    asyncio.run(main())


def test_two_long_works_take_turns():
    async def main():
        turns, order = Turns(), []
        work = [turns.map(lambda _item, who=who: (spin(TURN), order.append(who)), range(10)) for who in "ab"]
        await asyncio.gather(*work)
        assert "".join(order) == "ab" * 10

    asyncio.run(main())


def test_steps_become_pieces_of_some_size():
    async def main():
        steps = [b"x" * 1000] * 1000 + [b""]
        pieces = [piece async for piece in Turns().pieces(steps)]
        assert b"".join(pieces) == b"x" * 1_000_000
        assert {len(piece) // 1000 for piece in pieces[:-1]} == {PIECE // 1000 + 1}

    asyncio.run(main())


def test_failure_gives_the_turn_to_the_next():
    async def main():
        turns = Turns()
        with pytest.raises(ZeroDivisionError):
            await turns.map(lambda number: 1 // number, range(5))
        assert await turns.map(str, [1]) == ["1"]

    asyncio.run(main())
