"""Spans of reconciles and of what they ask, with OpenTelemetry's own SDK."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from controller_rig import A, Rig
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import kapi
from kapi.client import Client, ClientConfig, RESTClient
from kapi.client.errors import ConnectionLost
from kapi.client.transport.observer import Outgoing
from kapi.controller.controller import reconcile_id
from kapi.controller.manager import Manager
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controller.source import Trigger
from kapi.controller.tracing import Asked, Tracing, asked_of
from virtual_time import run


class Traces:
    """A tracer and the spans it made."""

    def __init__(self, **options):
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False, **options)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")
        self.tracing = Tracing(self.tracer)

    @property
    def spans(self):
        return self._exporter.get_finished_spans()


class Reply:
    """A response without a server."""

    content_type = "application/json"

    def __init__(self, status, content=b"{}"):
        self.status = status
        self.headers = {}
        self.content = content

    def all_of(self, header):
        return []


class FakeTransport:
    """Answers with the next of `answers`, or raises it, and notes the headers it was given."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.headers = []

    async def send(self, method, url, headers, data, *, tls, whole):
        self.headers.append({name.lower(): value for name, value in headers})
        answer = self.answers.pop(0) if self.answers else Reply(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self):
        """Nothing to let go of."""


def rest_of(transport, traces):
    rest = RESTClient(ClientConfig("https://server.example:6443", token="hush"), transport=transport)
    rest.observers = (traces.tracing,)
    return rest


def sampled(headers):
    """The ids in a traceparent, and whether it says that the trace is sampled."""
    ids, _, flags = headers["traceparent"].rpartition("-")
    return ids, bool(int(flags, 16) & 1)


def reconciled(reconcile, **options):
    """Let a controller reconcile one key for half a second; the spans."""
    traces = Traces()

    async def main():
        rig = Rig(reconcile, **options)
        rig.controller.tracing = traces.tracing
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(0.5)

    run(main())
    return traces.spans


# -- reconciles ---------------------------------------------------------------------------------------------------------


def test_a_reconcile_is_a_span_that_says_what_it_was_of():
    seen = []

    async def reconcile(request):
        seen.append(reconcile_id())

    [span] = reconciled(reconcile)
    assert span.name == "reconcile networks"
    assert span.kind is SpanKind.INTERNAL
    assert span.parent is None
    assert dict(span.attributes) == {
        "controller": "networks",
        "k8s.namespace.name": "default",
        "k8s.object.name": "a",
        "reconcile.id": seen[0],
        "reconcile.result": "success",
    }
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Result(), "success"),
        (Result(requeue=True), "requeue"),
        (Result(requeue_after=60), "requeue_after"),
        (RuntimeError("broken"), "error"),
        (TerminalError("for good"), "error"),
    ],
    ids=["success", "requeue", "requeue after", "error", "terminal error"],
)
def test_a_span_says_how_the_reconcile_ended(outcome, result):
    async def reconcile(request):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    [span] = reconciled(reconcile)
    assert span.attributes["reconcile.result"] == result


def test_what_a_reconciler_raises_is_recorded_without_the_values_of_variables():
    async def reconcile(request):
        password = "hunter2"  # noqa: F841
        raise RuntimeError("the login failed")

    [span] = reconciled(reconcile)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "the login failed"
    [event] = span.events
    assert event.attributes["exception.type"] == "RuntimeError"
    assert "in reconcile" in event.attributes["exception.stacktrace"]
    assert "hunter2" not in span.to_json()


def test_a_reconcile_that_is_cancelled_has_an_end():
    traces = Traces()

    async def main():
        rig = Rig(lambda request: asyncio.sleep(1000))
        rig.controller.tracing = traces.tracing
        task = asyncio.create_task(rig.controller.run())
        rig.trigger.fire(A)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())
    [span] = traces.spans
    assert span.attributes["reconcile.result"] == "cancelled"


def test_reconciles_are_traces_of_their_own_wherever_the_controller_was_started():
    traces = Traces()

    async def reconcile(request):
        await asyncio.sleep(0)

    async def main():
        with traces.tracer.start_as_current_span("the program"):
            rig = Rig(reconcile, workers=2)
            rig.controller.tracing = traces.tracing
            async with rig.running():
                for number in range(5):
                    rig.trigger.fire(Request("default", str(number)))
                await asyncio.sleep(1)

    run(main())
    *reconciles, program = traces.spans
    assert program.name == "the program"
    assert len({span.context.trace_id for span in reconciles} | {program.context.trace_id}) == 6


# -- requests -----------------------------------------------------------------------------------------------------------


def test_requests_of_a_reconcile_are_child_spans_and_carry_traceparent():
    traces, transport = Traces(), FakeTransport()
    rest = rest_of(transport, traces)

    async def reconcile(request):
        await rest.request("GET", "/apis/apps/v1/namespaces/default/deployments/web")

    async def main():
        rig = Rig(reconcile)
        rig.controller.tracing = traces.tracing
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(1)

    run(main())
    request, parent = traces.spans
    assert request.parent.span_id == parent.context.span_id
    assert request.kind is SpanKind.CLIENT
    assert request.name == "GET /apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    assert dict(request.attributes) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "k8s.namespace.name": "default",
        "k8s.resource": "deployments.apps",
        "k8s.verb": "get",
        "server.address": "server.example",
        "server.port": 6443,
        "url.template": "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
    }
    ids = request.context
    told, is_sampled = sampled(transport.headers[0])
    assert told == f"00-{ids.trace_id:032x}-{ids.span_id:016x}"
    assert is_sampled


def test_nothing_secret_is_in_a_span_and_no_baggage_is_sent():
    traces, transport = Traces(), FakeTransport(Reply(201))
    rest = rest_of(transport, traces)

    async def main():
        token = context.attach(baggage.set_baggage("customer", "hush"))
        with traces.tracer.start_as_current_span("work"):
            await rest.request(
                "POST",
                "/api/v1/namespaces/default/serviceaccounts/hush-robot/token",
                query={"fieldManager": "hush"},
                body={"data": "hush"},
            )
        context.detach(token)

    asyncio.run(main())
    assert "hush" not in traces.spans[0].to_json()
    assert traces.spans[0].name == "POST /api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    assert transport.headers[0]["authorization"] == "Bearer hush"
    assert "baggage" not in transport.headers[0]


def test_requests_that_fail_say_so():
    traces = Traces()
    rest = rest_of(FakeTransport(Reply(404), ConnectionLost("reset")), traces)

    async def main():
        with traces.tracer.start_as_current_span("work"):
            for method in ("GET", "POST"):
                with pytest.raises(Exception, match=r"."):
                    await rest.request(method, "/api/v1/pods")

    asyncio.run(main())
    missing, broken, _ = traces.spans
    assert missing.status.status_code is StatusCode.ERROR
    assert missing.attributes["error.type"] == "404"
    assert broken.status.status_code is StatusCode.ERROR
    assert broken.attributes["error.type"] == "ConnectionLost"
    assert "http.response.status_code" not in broken.attributes


def test_each_try_of_a_request_is_a_span():
    traces = Traces()
    again = Reply(429)
    again.headers = {"Retry-After": "0"}

    async def main():
        with traces.tracer.start_as_current_span("work"):
            await rest_of(FakeTransport(again), traces).request("GET", "/api/v1/pods")

    asyncio.run(main())
    assert [span.attributes.get("http.response.status_code") for span in traces.spans] == [429, 200, None]


def test_requests_outside_of_any_span_are_not_traced():
    traces, transport = Traces(), FakeTransport()

    asyncio.run(rest_of(transport, traces).request("GET", "/api/v1/pods"))
    assert traces.spans == ()
    assert "traceparent" not in transport.headers[0]


def test_a_task_that_outlives_its_reconcile_is_not_part_of_it():
    traces, transport = Traces(), FakeTransport()
    rest = rest_of(transport, traces)

    async def main():
        with traces.tracer.start_as_current_span("work"):
            go = asyncio.Event()

            async def later():
                await go.wait()
                await rest.request("GET", "/api/v1/pods")

            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        go.set()
        await task

    asyncio.run(main())
    assert [span.name for span in traces.spans] == ["work"]
    assert "traceparent" not in transport.headers[0]


def test_traceparent_says_that_a_trace_is_not_sampled():
    traces, transport = Traces(sampler=ALWAYS_OFF), FakeTransport()
    rest = rest_of(transport, traces)

    async def main():
        with traces.tracer.start_as_current_span("work"):
            await rest.request("GET", "/api/v1/pods")

    asyncio.run(main())
    assert traces.spans == ()
    assert not sampled(transport.headers[0])[1]


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/api/v1/pods", Asked("/api/v1/pods", "list", "pods")),
        ("GET", "/api/v1/nodes/n", Asked("/api/v1/nodes/{name}", "get", "nodes")),
        ("DELETE", "/api/v1/nodes", Asked("/api/v1/nodes", "deletecollection", "nodes")),
        ("DELETE", "/api/v1/nodes/n", Asked("/api/v1/nodes/{name}", "delete", "nodes")),
        ("GET", "/api/v1/namespaces/x", Asked("/api/v1/namespaces/{name}", "get", "namespaces")),
        ("PUT", "/api/v1/namespaces/x/finalize", Asked("/api/v1/namespaces/{name}/finalize", "update", "namespaces/finalize")),
        (
            "PATCH",
            "/apis/a.b/v1/namespaces/x/things/t/status",
            Asked("/apis/a.b/v1/namespaces/{namespace}/things/{name}/status", "patch", "things.a.b/status", "x"),
        ),
        (
            "POST",
            "/api/v1/namespaces/x/pods/p/proxy/secret/path",
            Asked("/api/v1/namespaces/{namespace}/pods/{name}/proxy", "create", "pods/proxy", "x"),
        ),
        ("GET", "/apis", Asked("/apis")),
        ("GET", "/apis/apps/v1", Asked("/apis/apps/v1")),
        ("GET", "/openapi/v3/apis/apps/v1", Asked("/openapi/v3/apis/apps/v1")),
        ("GET", "/", Asked("/")),
    ],
)  # fmt: skip
def test_the_template_of_a_path_has_no_names_in_it(method, path, asked):
    assert asked_of(Outgoing(method, "x", path)) == asked


def test_a_watch_is_distinguished_from_a_list():
    assert asked_of(Outgoing("GET", "x", "/api/v1/pods", is_watch=True)).verb == "watch"


# -- the manager --------------------------------------------------------------------------------------------------------


def test_a_manager_with_a_tracer_traces_what_runs_in_it_and_leaves_the_client_as_it_was():
    async def main():
        traces, transport = Traces(), FakeTransport()
        rest = RESTClient(ClientConfig("https://server.example"), transport=transport)
        manager = Manager(Client(rest=rest), tracer=traces.tracer)
        trigger = Trigger()

        async def reconcile(request):
            await rest.request("GET", "/api/v1/nodes")
            manager.stop()

        manager.builder().named("nodes").watches_source(trigger).complete(reconcile)
        trigger.fire(A)
        await manager.run(signals=False)
        assert [span.name for span in traces.spans] == ["GET /api/v1/nodes", "reconcile nodes"]
        assert rest.observers == ()

    asyncio.run(main())


def test_without_a_tracer_nothing_of_opentelemetry_is_even_imported():
    program = "import sys, kapi.controller.manager; print([n for n in sys.modules if n.startswith('opentelemetry')])"
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
