"""Failure scenarios: eleven ways in which a watch ends, stalls, expires or is refused.

A story begins with `a` and `b` on the server, does something to it or to a watch, and is over when it returns; a client has
recovered when it then comes to know exactly what the server has. `python scenarios.py S5` serves one in real time, for clients
in other processes: it prints its address, and on SIGTERM the requests it received.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from scripted_server import ScriptedServer


class Scenario(NamedTuple):
    """A story. `prepare` is done before any client comes, `happen` while one is there."""

    sentence: str
    prepare: Callable[[ScriptedServer], None]
    happen: Callable[[ScriptedServer], Awaitable[None]]


def two(server):
    server.put("a")
    server.put("b")


async def nothing(server):
    await server.next_watch()


async def clean_close(server):
    watch = await server.next_watch()
    server.put("c")
    watch.end()
    server.put("d")


def miss(server):
    """What a client that is not watching does not hear, and cannot ask for later."""
    server.delete("a")
    server.put("c")
    server.compact()


async def expired_in_stream(server):
    watch = await server.next_watch()
    watch.end()
    miss(server)


async def expired_as_status(server):
    server.expires_with_status = True
    await expired_in_stream(server)


async def tcp_reset(server):
    watch = await server.next_watch()
    server.put("c")
    watch.reset()
    server.delete("a")


async def silent_stall(server):
    watch = await server.next_watch()
    watch.fall_silent()
    server.delete("a")
    server.put("c")


async def three_errors(server):
    watch = await server.next_watch()
    server.refuse(*[(500, {})] * 3)
    watch.end()
    server.put("c")


def many(server):
    for number in range(1200):
        server.put(f"n{number}")


async def large_object(server):
    await server.next_watch()
    server.put("large", text="x" * 400_000)


def too_many_requests(server):
    two(server)
    server.refuse((429, {"Retry-After": "3"}))


async def expired_midway(server):
    watch = await server.next_watch()
    server.put("d")
    watch.fall_silent()
    miss(server)
    watch.find_words()
    watch.expire()


def broken(server):
    server.is_broken = True


async def broken_for_ever(server):
    await asyncio.Event().wait()


SCENARIOS = {
    "S1": Scenario("the server ends a watch in good order", two, clean_close),
    "S2": Scenario(
        "a watch is resumed too late: 410 in the stream, and an object was deleted meanwhile", two, expired_in_stream
    ),
    "S3": Scenario("the same, but 410 is the status of the answer", two, expired_as_status),
    "S4": Scenario("the connection is reset", two, tcp_reset),
    "S5": Scenario("the server falls silent and leaves the connection open", two, silent_stall),
    "S6": Scenario("the server answers 500 three times", two, three_errors),
    "S7": Scenario("there are 1,200 objects", many, nothing),
    "S8": Scenario("an object of 400 KB comes along", two, large_object),
    "S9": Scenario("the first request is answered 429 with Retry-After", too_many_requests, nothing),
    "S10": Scenario("410 comes in the middle of a stream that had missed a deletion", two, expired_midway),
    "S11": Scenario("the server answers 500 for ever", broken, broken_for_ever),
}


async def serve(name, *, streams):
    scenario, server, stop = SCENARIOS[name], ScriptedServer(streams=streams), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    scenario.prepare(server)
    async with server.serving() as url:
        print(url, flush=True)
        story = asyncio.create_task(scenario.happen(server))
        await stop.wait()
        story.cancel()
    asked = [[round(request.at, 3), request.verb, request.query] for request in server.requests]
    print(json.dumps({"scenario": name, "objects": sorted(server.objects), "requests": asked}))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], streams="--streams" in sys.argv))
