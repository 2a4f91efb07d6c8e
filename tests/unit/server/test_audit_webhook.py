"""The audit webhook: events arrive in order and in batches, and a webhook that fails costs no request anything."""

import asyncio
import json

import pytest

from kapi.base.http import Endpoint
from kapi.server.audit import webhook as module
from kapi.server.audit.logfile import error_counter
from kapi.server.audit.webhook import AuditWebhook
from webhook_server import Certificates, Reply, Webhook

OK = Reply(b"{}")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def sending(certificates, test, script=lambda call: OK, **settings):
    """Run `test(receiver, sender, errors)` with a real server that receives and a task that sends."""

    async def main():
        errors = error_counter(None)
        async with asyncio.timeout(60), Webhook(certificates, script=script) as receiver:
            settings.setdefault("batch_seconds", 0.01)
            endpoint = Endpoint(receiver.url, certificates.pem, token="t")
            sender = AuditWebhook(endpoint, errors, first_backoff=0.01, **settings)
            task = asyncio.ensure_future(sender.run())
            try:
                await test(receiver, sender, errors.labels("webhook")._value)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await sender.close()

    asyncio.run(main())


def numbers(receiver):
    return [item["n"] for call in receiver.calls for item in json.loads(call.body)["items"]]


async def until(condition):
    while not condition():  # noqa: ASYNC110 (nothing announces it)
        await asyncio.sleep(0.005)


def test_events_arrive_in_order_as_event_lists(certificates):
    async def test(receiver, sender, lost):
        for n in range(1000):
            sender.write([b'{"n":%d}' % n])
        await until(lambda: len(numbers(receiver)) == 1000)
        assert numbers(receiver) == list(range(1000))
        bodies = [json.loads(call.body) for call in receiver.calls]
        assert {(body["kind"], body["apiVersion"]) for body in bodies} == {("EventList", "audit.k8s.io/v1")}
        assert max(len(body["items"]) for body in bodies) <= module.BATCH_EVENTS
        assert receiver.calls[0].headers["authorization"] == "Bearer t"
        assert lost.get() == 0

    sending(certificates, test)


def test_a_full_batch_does_not_wait(certificates):
    async def test(receiver, sender, lost):
        for n in range(module.BATCH_EVENTS):
            sender.write([b'{"n":%d}' % n])
        await until(lambda: len(numbers(receiver)) == module.BATCH_EVENTS)

    sending(certificates, test, batch_seconds=3600)


def test_a_batch_is_tried_again_and_lost_in_the_end(certificates):
    answers = [Reply(b"", 500)] * 3

    def script(call):
        return answers.pop() if answers else OK

    async def test(receiver, sender, lost):
        sender.write([b'{"n":1}'])
        await until(lambda: len(receiver.calls) == 4)
        assert lost.get() == 0
        answers.extend([Reply(b"", 503)] * 5)
        sender.write([b'{"n":2}'])
        await until(lambda: lost.get() == 1)
        sender.write([b'{"n":3}'])
        await until(lambda: numbers(receiver)[-1] == 3)

    sending(certificates, test, script)


def test_the_queue_is_bounded(certificates):
    async def test(receiver, sender, lost):
        for n in range(module.QUEUED_EVENTS + 7):
            sender.write([b'{"n":%d}' % n])
        assert lost.get() == 7

    sending(certificates, test, batch_seconds=3600)


def test_what_is_queued_is_sent_when_the_server_stops(certificates):
    async def main():
        async with Webhook(certificates, script=lambda call: OK) as receiver:
            sender = AuditWebhook(Endpoint(receiver.url, certificates.pem), error_counter(None))
            for n in range(500):
                sender.write([b'{"n":%d}' % n])
            await sender.close()
            assert numbers(receiver) == list(range(500))

    asyncio.run(main())
