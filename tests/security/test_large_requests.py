"""Many large bodies at once: few are handled at a time, and other clients are served between them."""

import asyncio
import gc
import importlib
import json
import threading
from functools import partial

import pytest

from api_client import CM, cm, serving
from kapi.api.limits import LARGE_BODY_BYTES, LARGE_REQUESTS
from kapi.cli.up import _collect_rarely
from kapi.server.admission.chain import Admission
from kapi.server.largerequests import FairSlots
from loop_turns import loop_turns

LARGE = {"a": "x" * LARGE_BODY_BYTES}


class Gate:
    """An admission plug-in that holds writes, and counts them."""

    def __init__(self):
        self.inside = 0
        self.most = 0
        self.opened = asyncio.Event()

    def handles(self, _operation, _resource, _subresource):
        return True

    async def mutate(self, write, _obj, _old):
        if not write.name.startswith("held"):
            return
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.opened.wait()
        self.inside -= 1


def test_few_large_requests_are_handled_at_a_time_and_small_ones_do_not_wait():
    async def main():
        gate = Gate()
        async with serving(admission=Admission({"Gate": gate})) as api:
            large = [
                asyncio.ensure_future(api.post(CM, cm(f"held-{number}", data=LARGE)))
                for number in range(3 * LARGE_REQUESTS)
            ]
            while gate.inside < LARGE_REQUESTS:  # noqa: ASYNC110 (the plug-in has no event)
                await asyncio.sleep(0)
            assert (await api.post(CM, cm("small"))).status == 201
            assert (await api.get(f"{CM}/small")).status == 200
            gate.opened.set()
            assert {answer.status for answer in await asyncio.gather(*large)} == {201}
            assert gate.most == LARGE_REQUESTS

    asyncio.run(main())


class Decoder:
    """Takes the place of a decoder, and records where and when it was called."""

    def __init__(self, decode):
        self._decode = decode
        self._active = 0
        self.most = 0
        self.threads = set()
        self.turns = []
        """The number of turns that the loop had made when each call began."""
        self.count = lambda: 0

    def __call__(self, body):
        self._active += 1
        self.most = max(self.most, self._active)
        self.threads.add(threading.current_thread())
        self.turns.append(self.count())
        try:
            return self._decode(body)
        finally:
            self._active -= 1


BODY = json.dumps({"metadata": {"name": "a"}, "x": [{"a": 1}] * 20_000}).encode()
CASES = {
    "a JSON body": ("POST", f"{CM}?dryRun=All", "application/json", "json.decode_with_duplicates"),
    "a YAML body": ("POST", f"{CM}?dryRun=All", "application/yaml", "yaml.decode_with_duplicates"),
    "a merge patch": ("PATCH", f"{CM}/b", "application/merge-patch+json", "json.decode_with_duplicates"),
    "a configuration": (
        "PATCH",
        f"{CM}/b?fieldManager=m",
        "application/apply-patch+yaml",
        "yaml.decode_with_duplicates",
    ),
    "the options of a deletion": ("DELETE", f"{CM}/b", "application/yaml", "yaml.decode"),
}


@pytest.mark.parametrize(("method", "path", "media", "name"), CASES.values(), ids=CASES)
def test_large_bodies_are_decoded_one_at_a_time_in_a_thread(monkeypatch, method, path, media, name):
    module, function = name.split(".")
    module = importlib.import_module(f"kapi.codec.{module}")
    decoder = Decoder(getattr(module, function))

    async def main():
        async with serving() as api:
            await api.made(CM, cm("b"))
            monkeypatch.setattr(module, function, decoder)
            request = partial(api.transport.request, method, path, {"content-type": media}, BODY)
            async with loop_turns() as turns:
                decoder.count = lambda: turns.count
                replies = await asyncio.gather(*[request() for _ in range(8)])
            return {reply.status for reply in replies}

    statuses = asyncio.run(main())
    assert decoder.most == 1
    assert threading.main_thread() not in decoder.threads
    assert len(set(decoder.turns)) == len(decoder.turns) == 8, "two bodies were decoded in one turn of the loop"
    assert max(statuses) < 500


def test_users_take_turns_with_their_large_requests():
    """One user has many waiting, another comes later with one: it is served next."""

    async def main():
        slots, order, gate = FairSlots(1), [], asyncio.Event()

        async def request(user, number):
            async with slots.hold(user):
                order.append((user, number))
                await gate.wait()

        async def begun(user, number):
            task = asyncio.ensure_future(request(user, number))
            await asyncio.sleep(0)
            return task

        tasks = [await begun("many", number) for number in range(5)]
        tasks += [await begun("one", 0), await begun("two", 0), await begun("two", 1)]
        gate.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == [
        *[("many", 0), ("many", 1), ("one", 0), ("two", 0)],
        *[("many", 2), ("two", 1), ("many", 3), ("many", 4)],
    ]


def test_a_large_request_that_is_abandoned_while_it_waits_leaves_its_slot_to_others():
    async def main():
        slots = FairSlots(1)

        async def request():
            async with slots.hold("u"):
                pass

        async with slots.hold("v"):
            first, second, third = (asyncio.ensure_future(request()) for _ in range(3))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        second.cancel()  # It has been given the slot, and has not run yet.
        await asyncio.wait([second, third])
        assert (first.cancelled(), second.cancelled(), third.cancelled()) == (True, True, False)
        async with slots.hold("v"):
            pass

    asyncio.run(main())


def test_a_pass_over_young_objects_is_bounded():
    """The garbage collector looks at 250,000 at most: decoding one body can make a million, and all were 150 ms."""
    before = gc.get_threshold()
    try:
        _collect_rarely()
        young, middle, _ = gc.get_threshold()
        assert young * middle <= 250_000
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
