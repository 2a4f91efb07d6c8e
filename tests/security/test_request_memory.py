"""Bodies that are sent slowly, by many, or by clients that may not send them: what the server holds of them is bounded."""

import asyncio
import contextlib
import gc
import json
import weakref

import pytest
import uvloop

from api_client import CM, Api
from kapi.api.errors import ApiError
from kapi.api.user import User
from kapi.server.transport.limits import KIB, Limits
from kapi.server.transport.memory import OVER_PEER_BUDGET, OVER_TOTAL_BUDGET, REQUEST, MemoryAccount
from kapi.server.transport.message import Response
from kapi.server.transport.serve import Server

MIB = 1 << 20
MASTERS = ("system:masters",)
USERS = {name: User(name, MASTERS) for name in ("alice", "bob", "carol")} | {"nothing": User("nothing")}
LENGTH = 3_000_000


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def runner(main):
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(asyncio.wait_for(main, 30))

    return runner


@contextlib.asynccontextmanager
async def serving(**limits):
    """A whole server on a plain socket; gives its Server."""
    api = Api(tokens=USERS)
    api.services.memory = MemoryAccount(Limits(**limits))
    await api.start()
    server = Server(api.pipeline, host="127.0.0.1", limits=Limits(**limits), memory=api.services.memory)
    await server.start()
    try:
        yield server
    finally:
        await server.close()
        await api.stop()


class Sender:
    """A client that sends exactly what it is told to."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self, user="", length=LENGTH, headers=b"", path=CM):
        token = b"Authorization: Bearer %s\r\n" % user.encode() if user else b""
        head = b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n%s%sContent-Length: %d\r\n\r\n"
        await self.send(head % (path.encode(), token, headers, length))

    async def answer(self):
        """The status, headers and body of one response."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:-2])
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split(" ")[1]), headers, json.loads(body) if body else None

    def close(self):
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def senders(server, count=1):
    clients = [Sender(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def config_map(name, size):
    """A body of exactly this many bytes."""
    body = json.dumps({"metadata": {"name": name}, "data": {"a": ""}}).encode()
    return body.replace(b'"a": ""', b'"a": "' + b"x" * (size - len(body)) + b'"')


async def until(condition):
    """Wait for something that the server does after it has read what was sent."""
    while not condition():  # noqa: ASYNC110 (the account has no event to wait for)
        await asyncio.sleep(0.001)


# -- authentication and authorization come before the body


@pytest.mark.parametrize(("user", "code"), [("", 403), ("nothing", 403), ("unknown", 401)])
def test_client_that_may_not_write_is_answered_before_its_body(run, user, code):
    async def main():
        async with serving() as server, senders(server) as [client]:
            await client.begin(user)
            status, headers, body = await client.answer()
            assert (status, headers["connection"], body["kind"]) == (code, "close", "Status")
            await until(lambda: not server.connections)
            assert server.memory.used == 0

    run(main())


def test_path_that_is_not_served_is_answered_before_the_body(run):
    async def main():
        async with serving() as server, senders(server) as [client]:
            await client.begin("alice", path="/api/v1/namespaces/default/nothing")
            assert (await client.answer())[0] == 404

    run(main())


def test_expect_continue_is_answered_after_authorization(run):
    async def main():
        async with serving() as server, senders(server, 2) as [stranger, alice]:
            await stranger.begin("nothing", 40, b"Expect: 100-continue\r\n")
            assert (await stranger.answer())[0] == 403
            body = config_map("a", 80)
            await alice.begin("alice", 80, b"Expect: 100-continue\r\n")
            assert (await alice.answer())[0] == 100
            await alice.send(body)
            assert (await alice.answer())[0] == 201

    run(main())


def test_connection_is_kept_after_a_small_body_that_was_refused(run):
    async def main():
        async with serving() as server, senders(server) as [client]:
            for _ in range(2):
                await client.begin("nothing", 80)
                await client.send(config_map("a", 80))
                status, headers, _ = await client.answer()
                assert (status, "connection" in headers) == (403, False)

    run(main())


def test_long_bodies_are_stored_one_after_the_other_on_one_connection(run):
    async def main():
        async with serving() as server, senders(server) as [client]:
            for name in ("a", "b"):
                await client.begin("alice", 900_000)
                await client.send(config_map(name, 900_000))
                assert (await client.answer())[0] == 201
            assert server.memory.used == 0

    run(main())


def test_chunked_body_that_breaks_off_in_the_middle_is_refused(run):
    async def main():
        async with serving() as server, senders(server) as [client]:
            head = b"POST %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer alice\r\nTransfer-Encoding: chunked\r\n\r\n"
            await client.send(head % CM.encode() + b"2\r\n{}\r\n")
            await until(lambda: server.connections)
            await client.send(b"zz\r\n")
            status, headers, body = await client.answer()
            assert (status, headers["connection"], body["reason"]) == (400, "close", "BadRequest")

    run(main())


class Waiting:
    """A handler that waits for `go` before it wants the body, and counts what it was given."""

    def __init__(self):
        self.go = asyncio.Event()
        self.finish = asyncio.Event()
        self.handed = []
        self.whole = []

    async def __call__(self, request):
        self.handed.append(request.path)
        await self.go.wait()
        if request.arrival is not None:
            try:
                await request.arrival.wait(USERS["alice"])
            except ApiError as error:
                return Response(error.code, [("Retry-After", str(error.retry_after))], b"")
        self.whole.append(len(request.body))
        await self.finish.wait()
        return Response(200)


@contextlib.asynccontextmanager
async def waiting(**limits):
    handler = Waiting()
    server = Server(handler, host="127.0.0.1", limits=Limits(**limits))
    await server.start()
    try:
        yield handler, server
    finally:
        handler.go.set()
        handler.finish.set()
        await server.close()


def test_body_is_not_read_before_the_handler_wants_it(run):
    async def main():
        async with waiting() as (handler, server), senders(server) as [client]:
            await client.begin()
            sending = asyncio.ensure_future(client.send(b"x" * LENGTH))
            await until(lambda: handler.handed)
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert server.memory.used == server.memory.pinned <= 256 * KIB
            handler.go.set()
            await sending
            await until(lambda: handler.whole)
            assert handler.whole == [LENGTH]
            assert server.memory.used == server.memory.pinned == LENGTH
            handler.finish.set()
            assert (await client.answer())[0] == 200
            assert server.memory.used == 0

    run(main())


class Local:
    """A local variable of a handler."""


def test_a_body_that_breaks_off_leaves_no_cycle_that_keeps_the_request(run):
    """The garbage collector runs rarely, and a request may hold megabytes."""
    failed = []

    async def handle(request):
        local = Local()
        failed.append(weakref.ref(local))
        with contextlib.suppress(ApiError):
            await request.arrival.wait(USERS["alice"])
        return Response(400)

    async def main():
        server = Server(handle, host="127.0.0.1")
        await server.start()
        gc.disable()
        try:
            async with senders(server) as [client]:
                await client.begin()
            await until(lambda: failed)
            await until(lambda: not server.connections)
            await until(lambda: failed[0]() is None)
        finally:
            gc.enable()
            await server.close()

    run(main())


def test_body_behind_another_request_is_not_read_before_its_turn(run):
    async def main():
        async with waiting() as (handler, server), senders(server) as [client]:
            await client.send(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
            await client.begin(path="/second")
            sending = asyncio.ensure_future(client.send(b"x" * LENGTH))
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert handler.handed == ["/first"]
            assert server.memory.used == server.memory.pinned <= 256 * KIB
            handler.go.set()
            handler.finish.set()
            await sending
            assert [(await client.answer())[0] for _ in range(2)] == [200, 200]
            assert handler.whole == [0, LENGTH]

    run(main())


def test_request_is_answered_429_while_handled_requests_fill_the_budget(run):
    async def main():
        async with waiting(held=8 * MIB, held_per_peer=4 * MIB) as (handler, server), senders(server, 2) as clients:
            handler.go.set()
            await clients[0].begin()
            await clients[0].send(b"x" * LENGTH)
            await until(lambda: handler.whole)
            await clients[1].begin()
            status, headers, _ = await clients[1].answer()
            assert (status, headers["retry-after"], headers["connection"]) == (429, "1", "close")
            handler.finish.set()
            assert (await clients[0].answer())[0] == 200

    run(main())


# -- budgets


def test_half_sent_bodies_stay_within_the_total_and_the_slowest_are_refused(run):
    async def main():
        limits = {"held": 4 * MIB + KIB, "held_per_peer": 4 * MIB + KIB}
        async with serving(**limits) as server, senders(server, 20) as clients:
            for number, client in enumerate(clients):
                await client.begin("alice" if number % 2 else "bob")
                await client.send(b"{" + b" " * MIB)
                assert server.memory.used <= 4 * MIB + KIB
            answers = [asyncio.ensure_future(client.answer()) for client in clients]
            await until(lambda: sum(answer.done() for answer in answers) >= 15)
            assert server.memory.used <= 4 * MIB + KIB
            refused = [answer.result() for answer in answers if answer.done()]
            # A body that comes while others are being authenticated may be refused before it is read.
            assert {status for status, _, _ in refused} <= {408, 429}
            assert sum(server.memory.closures.values()) + server.memory.refusals >= 15
            for client in clients:
                client.close()
            await asyncio.gather(*answers, return_exceptions=True)
            await until(lambda: not server.connections)
            assert (server.memory.used, server.memory.peers) == (0, 0)

    run(main())


def test_client_that_sends_on_is_served_among_clients_that_hold(run):
    async def main():
        async with serving(held=6 * MIB, held_per_peer=3 * MIB) as server, senders(server, 13) as clients:
            alice, holders = clients[0], clients[1:]
            body = config_map("a", 1_000_000)
            await alice.begin("alice", len(body))
            for number, holder in enumerate(holders):
                await holder.begin("bob")
                await holder.send(b"{" + b" " * MIB)
                await until(lambda number=number: server.memory.used > min(number, 2) * MIB)
                await alice.send(body[number * 80_000 : (number + 1) * 80_000])
            await alice.send(body[len(holders) * 80_000 :])
            assert (await alice.answer())[0] == 201
            assert server.memory.closures[REQUEST, OVER_TOTAL_BUDGET] == 0

    run(main())


def test_user_over_the_budget_of_one_loses_the_slowest_body_and_no_other_user_does(run):
    async def main():
        async with serving(held=16 * MIB, held_per_peer=3 * MIB) as server, senders(server, 5) as clients:
            carol, *others = clients
            await carol.begin("carol")
            await carol.send(b"{" + b" " * MIB)
            for client in others:
                await client.begin("alice")
                await client.send(b"{" + b" " * MIB)
            assert (await others[0].answer())[0] == 408
            assert server.memory.closures[REQUEST, OVER_PEER_BUDGET] >= 1
            assert server.memory.closures[REQUEST, OVER_TOTAL_BUDGET] == 0
            await carol.send(b" " * (LENGTH - MIB - 1))
            assert (await carol.answer())[0] == 400

    run(main())


def test_unfinished_heads_of_one_address_stay_within_its_budget(run):
    async def main():
        async with serving(held=4 * MIB, held_per_peer=MIB) as server, senders(server, 10) as clients:
            for client in clients:
                await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: " + b"y" * 200_000)
            assert (await clients[0].answer())[0] == 408
            await until(lambda: server.memory.closures[REQUEST, OVER_PEER_BUDGET] >= 5)
            assert server.memory.used <= MIB

    run(main())


def test_body_of_which_nothing_more_comes_is_refused(run):
    async def main():
        async with serving(body_stall=0.05) as server, senders(server) as [client]:
            await client.begin("alice")
            await client.send(b"{" * 100_000)
            status, _, body = await client.answer()
            assert (status, body["message"]) == (408, "the request did not arrive in time")

    run(main())
