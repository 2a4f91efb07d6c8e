"""What webhooks tell Prometheus, over HTTPS."""

import asyncio

from prometheus_client import CollectorRegistry
from webhook_rig import Network, admission, called, network

from kapi.controller.host import Measured
from kapi.controller.webhook import Denied, WebhookServer


def served(test, register):
    registry = CollectorRegistry()

    def read(metric, **labels):
        return registry.get_sample_value(f"controller_runtime_webhook_{metric}", labels)

    def measured(server):
        server.measure(registry)
        register(server)

    called(measured, lambda caller: test(caller, read))


def test_calls_are_counted_by_path_and_by_how_they_were_answered():
    def register(server):
        @server.validating("/v", Network)
        def validate(request):
            raise Denied("no")

    async def test(caller, read):
        assert read("requests_total", webhook="/v", code="200") == 0
        await caller.respond("/v", admission(network()))
        assert await caller.post("/v", b"{") == (400, (await caller.post("/v", b"{"))[1])
        await caller.post("/v", b"", headers={"Content-Type": "text/plain"})
        assert (await caller.post("/elsewhere", {}))[0] == 404
        assert read("requests_total", webhook="/v", code="200") == 1
        assert read("requests_total", webhook="/v", code="400") == 2
        assert read("requests_total", webhook="/v", code="415") == 1
        assert read("requests_total", webhook="/v", code="500") == 0
        assert read("requests_total", webhook="/elsewhere", code="404") is None
        assert read("latency_seconds_count", webhook="/v") == 4
        assert 0 < read("latency_seconds_sum", webhook="/v") < 60
        assert read("requests_in_flight", webhook="/v") == 0

    served(test, register)


def test_calls_under_way_are_counted():
    begun, go = asyncio.Event(), asyncio.Event()

    def register(server):
        @server.validating("/v", Network)
        async def validate(request):
            begun.set()
            await go.wait()

    async def test(caller, read):
        call = asyncio.ensure_future(caller.respond("/v", admission(network())))
        await begun.wait()
        assert read("requests_in_flight", webhook="/v") == 1
        go.set()
        await call
        assert read("requests_in_flight", webhook="/v") == 0

    served(test, register)


def test_several_servers_share_a_registry_and_paths_that_were_there_before_count_too():
    registry = CollectorRegistry()
    servers = [WebhookServer(), WebhookServer()]
    servers[0].conversion("/convert", lambda obj, version: obj)
    for server in servers:
        assert isinstance(server, Measured)
        server.measure(registry)
    labels = {"webhook": "/convert", "code": "200"}
    assert registry.get_sample_value("controller_runtime_webhook_requests_total", labels) == 0
