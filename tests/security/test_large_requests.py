"""Many large bodies at once: few are handled at a time, and other clients are served between them."""

import asyncio
import gc
import json
import time

from api_client import CM, Api, cm, serving
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


def test_many_large_bodies_at_once_leave_turns_of_the_loop_to_others():
    async def main():
        api = Api()
        await api.start()
        body = json.dumps({"metadata": {"name": "a"}, "x": [{"a": 1}] * 180_000}, separators=(",", ":")).encode()
        target = f"{CM}?dryRun=All"
        gc.disable()
        try:
            started = time.process_time()
            async with loop_turns() as turns:
                request = api.transport.request
                replies = await asyncio.gather(
                    *[request("POST", target, {"content-type": "application/json"}, body) for _ in range(12)]
                )
            total = time.process_time() - started
        finally:
            gc.enable()
        assert {reply.status for reply in replies} == {201}
        assert turns.longest < total / 4, (turns.longest, total)
        await api.stop()

    asyncio.run(main())


def test_large_options_of_a_deletion_are_decoded_off_the_loop():
    async def main():
        api = Api()
        await api.start()
        await api.made(CM, cm("a"))
        body = b"kind: DeleteOptions\napiVersion: v1\n" + b"".join(b"k%d: v\n" % number for number in range(40_000))
        gc.disable()
        try:
            started = time.process_time()
            async with loop_turns() as turns:
                headers = {"content-type": "application/yaml"}
                reply = await api.transport.request("DELETE", f"{CM}/a", headers, body)
            total = time.process_time() - started
        finally:
            gc.enable()
        assert reply.status == 200
        assert turns.longest < total / 3, (turns.longest, total)
        await api.stop()

    asyncio.run(main())
