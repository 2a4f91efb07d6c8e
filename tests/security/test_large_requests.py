"""Many large bodies at once: few are handled at a time, and other clients are served between them."""

import asyncio
import importlib
import json
import threading
from functools import partial

import pytest

from api_client import CM, cm, serving
from kapi.api.limits import LARGE_BODY_BYTES, LARGE_REQUESTS
from kapi.server.admission.chain import Admission
from loop_turns import loop_turns

LARGE = {"a": "x" * LARGE_BODY_BYTES}


class Gate:
    """An admission plug-in that holds writes, and counts them."""

    def __init__(self):
        self.inside = 0
        self.most = 0
        self.opened = asyncio.Event()

    def handles(self, write):
        return write.name.startswith("held")

    async def mutate(self, _write, _obj, _old):
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.opened.wait()
        self.inside -= 1


def test_few_large_requests_are_handled_at_a_time_and_small_ones_do_not_wait():
    async def main():
        gate = Gate()
        async with serving(admission=Admission([gate], [])) as api:
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
