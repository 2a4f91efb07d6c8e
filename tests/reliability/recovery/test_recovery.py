"""An informer on a failing server: its store always converges to the state of the server, with bounded retries.

Everything is real but time: sockets on loopback, and a loop whose clock moves when nothing is left to do.
"""

import asyncio
import contextlib
import socket

import pytest
from scenarios import SCENARIOS, two
from scripted_server import ScriptedServer

import virtual_time
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.base.tls import Authority, KeyPair, server_context
from kapi.client.config import ClientConfig
from kapi.client.rest import RESTClient
from kapi.informer import Handlers, SharedInformerFactory

PATIENCE = 180.0


class Client:
    """An informer of ConfigMaps, and what its handler heard."""

    def __init__(self, informer, server):
        self.informer = informer
        self.server = server
        self.heard = []
        informer.add_handler(
            Handlers(
                on_add=lambda obj: self.heard.append(("add", obj.metadata.name)),
                on_update=lambda _, obj: self.heard.append(("update", obj.metadata.name)),
                on_delete=lambda obj: self.heard.append(("delete", obj.metadata.name)),
            )
        )

    def is_equal(self):
        cached = {obj.key.name: obj.resource_version for obj in self.informer.lister.cached.list()}
        return cached == {name: obj["metadata"]["resourceVersion"] for name, obj in self.server.objects.items()}

    async def recovered(self, within=PATIENCE):
        """Wait until the cache is equal and stays so; the seconds it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not (self.informer.has_synced and self.is_equal()):
            assert loop.time() - began < within, f"has {sorted(self.informer.indexer.keys())} after {within} s"
            await asyncio.sleep(0.05)
        took = loop.time() - began
        await asyncio.sleep(1)
        assert self.is_equal()
        return took


@contextlib.asynccontextmanager
async def client_of(server, config):
    async with RESTClient(config) as rest:
        factory = SharedInformerFactory(rest, clock=virtual_time.LoopClock())
        client = Client(factory.informer(ConfigMap, namespace="default"), server)
        async with factory:
            yield client


def play(name, *, streams, check=None):
    """Run a scenario; `check` is given the client, and how long it took to recover."""

    async def main():
        scenario, server = SCENARIOS[name], ScriptedServer(streams=streams)
        scenario.prepare(server)
        async with server.serving() as url, client_of(server, ClientConfig(url)) as client:
            await asyncio.wait_for(scenario.happen(server), PATIENCE)
            took = await client.recovered()
            names = set(server.objects)
            # A handler that believes what it hears knows as much as the cache.
            known = set()
            for what, obj in client.heard:
                if what == "delete":
                    known.remove(obj)
                else:
                    assert (obj in known) is (what == "update")
                    known.add(obj)
            assert known == names
            if check:
                check(client, took)

    virtual_time.run(main())


either = pytest.mark.parametrize("streams", [True, False], ids=["streaming", "listing"])


@either
def test_s1_a_watch_that_ends_is_resumed_and_no_event_is_delivered_twice(streams):
    def check(client, took):
        assert sorted(client.heard) == [("add", name) for name in "abcd"]
        assert took < 1
        assert len(client.server.asked("list", "stream")) == (1 if streams else 2)

    play("S1", streams=streams, check=check)


@either
@pytest.mark.parametrize("name", ["S2", "S3", "S10"])
def test_s2_s3_s10_an_expired_watch_is_followed_by_a_list_and_the_deletion_is_delivered(name, streams):
    def check(client, took):
        assert ("delete", "a") in client.heard
        assert took < 5

    play(name, streams=streams, check=check)


@either
def test_s4_a_reset_connection_is_resumed(streams):
    def check(client, took):
        assert ("delete", "a") in client.heard
        assert took < 5

    play("S4", streams=streams, check=check)


@either
def test_s5_a_stalled_watch_is_restarted_within_a_minute_without_a_relist(streams):
    def check(client, took):
        assert took <= 60
        assert ("delete", "a") in client.heard
        assert client.server.requests[-1].verb == "watch"
        assert len(client.server.asked("list", "stream")) == (1 if streams else 2)

    play("S5", streams=streams, check=check)


@either
def test_s6_errors_are_retried_with_backoff(streams):
    def check(client, took):
        requests, refused = client.server.requests, client.server.refused
        assert len(refused) == 3
        assert all(requests[requests.index(one) + 1].at - one.at >= 0.8 for one in refused)
        assert took < 20

    play("S6", streams=streams, check=check)


@either
def test_s7_all_of_many_objects_arrive(streams):
    def check(client, took):
        assert len(client.informer.lister) == 1200
        assert [request.query.get("limit") for request in client.server.asked("list")] == (
            [] if streams else ["500"] * 3
        )

    play("S7", streams=streams, check=check)


@either
def test_s8_a_large_object_arrives_whole(streams):
    def check(client, took):
        assert len(client.informer.lister.get("large", "default").data["text"]) == 400_000

    play("S8", streams=streams, check=check)


@either
def test_s9_retry_after_is_honoured(streams):
    def check(client, took):
        first, second = client.server.asked("list", "stream")[:2]
        assert second.at - first.at >= 3

    play("S9", streams=streams, check=check)


@either
def test_s11_a_failing_server_is_retried_with_backoff_until_it_works(streams):
    async def main():
        scenario, server = SCENARIOS["S11"], ScriptedServer(streams=streams)
        scenario.prepare(server)
        async with server.serving() as url, client_of(server, ClientConfig(url)) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.sleep(1800)
            asked = [request.at - began for request in server.requests]
            assert len([at for at in asked if at < 6]) <= 8
            for minute in range(2, 30):
                assert len([at for at in asked if 60 * minute <= at < 60 * (minute + 1)]) <= 10
            server.is_broken = False
            two(server)
            assert await client.recovered() <= 61

    virtual_time.run(main())


def test_a_renewed_token_is_used(tmp_path):
    async def main():
        authority, pair = _certificate(tmp_path, "one")
        server = ScriptedServer(tls=server_context(pair))
        two(server)
        server.token = "first"
        (tmp_path / "token").write_text("first")
        async with server.serving() as url:
            config = ClientConfig(url, ca_file=authority, token_file=tmp_path / "token")
            async with client_of(server, config) as client:
                watch = await server.next_watch()
                await client.recovered()
                server.token = "second"
                watch.end()
                await asyncio.sleep(20)
                assert server.requests[-1].headers["authorization"] == "Bearer first"
                (tmp_path / "token").write_text("second")
                server.put("c")
                await client.recovered()
                assert client.heard.count(("add", "a")) == 1

    virtual_time.run(main())


def test_a_replaced_certificate_authority_is_trusted_once_its_file_changes(tmp_path):
    async def main():
        authority, pair = _certificate(tmp_path, "one")
        trusted = tmp_path / "trusted.crt"
        trusted.write_bytes(authority.read_bytes())
        server = ScriptedServer(tls=server_context(pair))
        two(server)
        with _free_port() as port:
            pass
        async with contextlib.AsyncExitStack() as stack:
            async with server.serving(port) as url:
                client = await stack.enter_async_context(client_of(server, ClientConfig(url, ca_file=trusted)))
                await server.next_watch()
                await client.recovered()
            authority, pair = _certificate(tmp_path, "two")
            server.tls = server_context(pair)
            await stack.enter_async_context(server.serving(port))
            server.delete("a")
            await asyncio.sleep(100)
            assert not client.is_equal()
            assert "could not be trusted" in str(client.informer.reflector.last_error)
            trusted.write_bytes(authority.read_bytes())
            await client.recovered()

    virtual_time.run(main())


def test_failed_discovery_is_retried():
    async def main():
        server = ScriptedServer()
        two(server)
        server.is_broken = True
        async with server.serving() as url, client_of(server, ClientConfig(url)) as client:
            await asyncio.sleep(30)
            assert server.asked("list", "watch", "stream") == []
            assert len(server.requests) < 20
            server.is_broken = False
            await client.recovered()

    virtual_time.run(main())


def _certificate(folder, name):
    """A new authority's certificate, and a server certificate of it."""
    authority = Authority.ensure(KeyPair(folder / f"{name}-ca.crt", folder / f"{name}-ca.key"), name)
    pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
    authority.ensure_server(pair, ["127.0.0.1"])
    return authority.files.certificate, pair


@contextlib.contextmanager
def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]
