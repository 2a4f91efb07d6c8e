"""Requests for the group versions of other API servers are passed on to them, and their responses back."""

import asyncio

from extension_server import APISERVICES, FLUNDERS, NAME, ROOT, aggregated, decoded, response, until


def test_request_and_response_are_passed_on(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            writer.write(response(201, {"made": True}, "X-Custom: yes", "Warning: 299 - careful"))

        server.script = script
        reply = await plane.control.transport.request(
            "POST", f"{FLUNDERS}?dryRun=All&x=%20", {"content-type": "application/json", "accept": "a/b"}, b'{"a":1}'
        )
        assert reply.status == 201
        assert decoded(await reply.read()) == {"made": True}
        assert ("X-Custom", "yes") in reply.headers
        assert ("Warning", "299 - careful") in reply.headers
        call = await server.called()
        assert (call.method, call.target, call.body) == ("POST", f"{FLUNDERS}?dryRun=All&x=%20", b'{"a":1}')
        assert call.values("accept") == ["a/b"]
        assert call.values("host") == ["api.wardle.svc"]

    aggregated(tmp_path, check)


def test_server_learns_the_user_from_headers(tmp_path):
    async def check(plane, server):
        transport = plane.control.transport.acting_as("alice", ("system:masters", "a, b"))
        await (await transport.request("GET", FLUNDERS)).read()
        call = await server.called()
        assert call.values("x-remote-user") == ["alice"]
        assert call.values("x-remote-group") == ["system:masters", "a, b", "system:authenticated"]
        scope = {"impersonate-extra-acme.com%2fscope": "view"}
        await plane.request("GET", FLUNDERS, impersonate_user="bob", impersonate_group="system:masters", **scope)
        call = await server.called(2)
        assert call.values("x-remote-user") == ["bob"]
        assert call.values("x-remote-extra-acme.com%2Fscope") == ["view"]

    aggregated(tmp_path, check)


def test_request_is_authorized_here_first(tmp_path):
    async def check(plane, server):
        transport = plane.control.transport.acting_as("alice")
        reply = await transport.request("GET", FLUNDERS)
        assert reply.status == 403
        assert server.calls == []

    aggregated(tmp_path, check)


def test_connection_is_used_again(tmp_path):
    async def check(plane, server):
        for _ in range(20):
            assert (await plane.request("GET", FLUNDERS))[0] == 200
        # This server reads documents of the other one at the same time, on connections of the same pool.
        assert len({call.connection for call in server.calls}) < 10

    aggregated(tmp_path, check)


def test_read_is_repeated_on_another_connection_if_the_kept_one_was_closed(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            if len(server.calls) == 2:
                writer.transport.abort()
            else:
                writer.write(response())

        server.script = script
        assert (await plane.request("GET", FLUNDERS))[0] == 200
        assert (await plane.request("GET", FLUNDERS))[0] == 200
        assert len(server.calls) == 3

    aggregated(tmp_path, check)


def test_write_is_never_repeated(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            if call.method == "POST":
                writer.transport.abort()
            else:
                writer.write(response())

        server.script = script
        assert (await plane.request("GET", FLUNDERS))[0] == 200
        status, text = await plane.request("POST", FLUNDERS, {})
        assert status == 503
        assert text.startswith("error trying to reach service: ")
        assert [call.method for call in server.calls] == ["GET", "POST"]

    aggregated(tmp_path, check)


def test_response_of_any_length_is_sent_while_it_arrives(tmp_path):
    async def check(plane, server):
        piece = b"x" * 65536
        count = 1000
        sent = 0

        async def script(call, writer):
            nonlocal sent
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(piece) * count}\r\n\r\n".encode())
            for _ in range(count):
                writer.write(piece)
                await writer.drain()
                sent += len(piece)

        server.script = script
        reader, writer = await plane.send(f"GET {FLUNDERS}")
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"Content-Length: {len(piece) * count}".encode() in head
        # The client does not read on, so the other server has to wait: what is on the way is bounded.
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < len(piece) * count
        assert len(await reader.readexactly(len(piece) * count)) == sent == len(piece) * count
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_events_of_a_watch_arrive_one_by_one(tmp_path):
    async def check(plane, server):
        more = asyncio.Queue()

        async def script(call, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n")
            while event := await more.get():
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(b"0\r\n\r\n")

        server.script = script
        reader, writer = await plane.send(f"GET {FLUNDERS}?watch=true")
        await reader.readuntil(b"\r\n\r\n")
        for event in (b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n'):
            more.put_nowait(event)
            assert await reader.readuntil(event + b"\r\n") == b"%x\r\n%b\r\n" % (len(event), event)
        more.put_nowait(b"")
        assert await reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_client_that_disconnects_ends_its_request_to_the_other_server(tmp_path):
    async def check(plane, server):
        began, ended = asyncio.Event(), asyncio.Event()

        async def script(call, writer):
            if "watch" in call.target:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            elif "slow" in call.target:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
            await writer.drain()
            began.set()
            await call.abandoned()
            ended.set()

        server.script = script
        for path in (f"{FLUNDERS}?watch=true", f"{FLUNDERS}?slow", FLUNDERS):
            began.clear()
            ended.clear()
            reader, writer = await plane.send(f"GET {path}")
            await began.wait()
            if path != FLUNDERS:
                await reader.readuntil(b"\r\n\r\n")
            assert not ended.is_set()
            writer.transport.abort()
            await ended.wait()

    aggregated(tmp_path, check, listen=True)


def test_response_that_breaks_off_there_breaks_off_here(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            head = b"Content-Length: 10" if "length" in call.target else b"Transfer-Encoding: chunked"
            writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n5\r\nx")
            await writer.drain()
            writer.close()

        server.script = script
        for query in ("length", "chunked", "watch=true"):
            reader, writer = await plane.send(f"GET {FLUNDERS}?{query}")
            await reader.readuntil(b"\r\n\r\n")
            # No last chunk, and fewer bytes than were announced.
            assert b"0\r\n\r\n" not in await reader.read()
            writer.close()

    aggregated(tmp_path, check, listen=True)


def test_head_has_the_length_and_no_body(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")

        server.script = script
        reader, writer = await plane.send(f"HEAD {FLUNDERS}", "Connection: close")
        answer = await reader.read()
        assert b"Content-Length: 1234\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_server_that_does_not_answer_in_time_costs_a_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr("kapi.server.aggregation.proxy.SECONDS", 0.05)

    async def check(plane, server):
        async def script(call, writer):
            await asyncio.Event().wait()

        server.script = script
        status, answer = await plane.request("GET", FLUNDERS)
        assert (status, answer["reason"]) == (504, "Timeout")

    aggregated(tmp_path, check)


def test_server_that_is_gone_costs_its_own_group_only(tmp_path):
    async def check(plane, server):
        await server.stop()
        status, text = await plane.request("GET", FLUNDERS)
        refused = f"dial tcp 127.0.0.1:{server.port}: connect: connection refused"
        # A check that was under way may have found out first.
        assert status == 503
        assert text in (f"error trying to reach service: {refused}\n", "service unavailable\n")
        # The failure has the server checked at once.
        await plane.until_available("False")
        url = f"https://127.0.0.1:{server.port}{ROOT}"

        async def is_refused():
            return await plane.condition() == {
                "type": "Available",
                "status": "False",
                "reason": "FailedDiscoveryCheck",
                "message": f'failing or missing response from {url}: Get "{url}": {refused}',
            }

        await until(is_refused)
        assert await plane.request("GET", FLUNDERS) == (503, "service unavailable\n")
        assert await plane.request("GET", ROOT) == (503, "service unavailable\n")
        assert (await plane.request("GET", "/api/v1/namespaces"))[0] == 200
        assert (await plane.request("GET", "/apis"))[0] == 200
        await server.start()
        await plane.until_available()
        assert (await plane.request("GET", FLUNDERS))[0] == 200

    aggregated(tmp_path, check)


def test_group_is_not_served_any_more_once_its_api_service_is_deleted(tmp_path):
    async def check(plane, server):
        assert (await plane.request("DELETE", f"{APISERVICES}/{NAME}"))[0] == 200
        assert await plane.request("GET", FLUNDERS) == (404, "404 page not found\n")

    aggregated(tmp_path, check)
