"""OpenTelemetry tracing: a reconcile is a trace, and its requests are spans of it.

    from opentelemetry import trace

    manager = Manager(client, tracer=trace.get_tracer("networks"))      # pip install 'kapi[tracing]'

Off unless a tracer is given, and then nothing of this is imported. Each reconcile begins a trace of its own: what set
it off may have been many things. Requests get spans within a reconcile or within a span that the program has begun
itself; the watches, lists and leases that go on all the time do not. The server gets the trace in the `traceparent`
header of W3C Trace Context, and of nothing else: baggage is not sent along. Spans never hold bodies, queries, headers
or names of objects other than the one that is reconciled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from kapi.api.keys import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from kapi.client.transport.observer import Ended, Outgoing
    from kapi.controller.reconcile import Result

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


class ReconcileEnd(Protocol):
    """Is told how a reconcile ended: `succeeded` or `failed`, unless it was cancelled, then `end`."""

    def succeeded(self, result: Result, /) -> None:
        """The reconciler returned."""
        ...

    def failed(self, error: Exception, /) -> None:
        """The reconciler raised."""
        ...

    def end(self) -> None:
        """The reconcile is over; in the task that began it."""
        ...


class ReconcileTracer(Protocol):
    """Is told of every reconcile of a controller: `Tracing`, or a recorder of tests."""

    def reconcile(self, controller: str, request: Hashable, identity: str, /) -> ReconcileEnd:
        """A reconcile begins."""
        ...


class Tracing:
    """Makes spans with one tracer: for reconciles, and as an `Observer` for requests."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._inject = TraceContextTextMapPropagator().inject

    def reconcile(self, controller: str, request: Hashable, identity: str) -> ReconcileSpan:
        """A reconcile begins; until the span's end, what is asked in this task is part of it."""
        from opentelemetry import context, trace

        attributes = {"controller": controller, "reconcile.id": identity, **_request_attributes(request)}
        span = self._tracer.start_span(f"reconcile {controller}", context=context.Context(), attributes=attributes)
        return ReconcileSpan(span, context.attach(trace.set_span_in_context(span)))

    def begin(self, outgoing: Outgoing, headers: list[tuple[str, str]], /) -> Ended:
        """Start a span for a request inside of another span, and add the traceparent header."""
        from opentelemetry import trace

        parent = trace.get_current_span()
        if not parent.is_recording():
            # Sent even if not sampled, so that the server does not sample on its own. A span that has ended is not
            # sent: a task that outlives the reconcile that started it is not part of it.
            context = parent.get_span_context()
            if context.is_valid and not context.trace_flags.sampled:
                headers.extend(self._headers(parent))
            return _not_followed
        asked = asked_of(outgoing)
        span = self._tracer.start_span(
            f"{outgoing.method} {asked.template}",
            kind=trace.SpanKind.CLIENT,
            attributes=_attributes(outgoing, asked),
        )
        headers.extend(self._headers(span))
        return lambda status, failure: _end_request(span, status, failure)

    def _headers(self, span: Span) -> Iterable[tuple[str, str]]:
        from opentelemetry import trace

        carrier: dict[str, str] = {}
        self._inject(carrier, trace.set_span_in_context(span))
        return carrier.items()


class ReconcileSpan:
    """The span of a reconcile that is going on. It says how it ended, then `end`."""

    def __init__(self, span: Span, token: Token[Context]) -> None:
        self._span = span
        self._token = token
        self._result = "cancelled"

    def succeeded(self, result: Result) -> None:
        """The reconciler returned."""
        self._result = "requeue_after" if result.requeue_after > 0 else "requeue" if result.requeue else "success"

    def failed(self, error: Exception) -> None:
        """The reconciler raised."""
        from opentelemetry.trace import Status, StatusCode

        self._result = "error"
        self._span.record_exception(error)
        self._span.set_status(Status(StatusCode.ERROR, str(error)))

    def end(self) -> None:
        """The reconcile is over; in the task that began it."""
        from opentelemetry import context

        self._span.set_attribute("reconcile.result", self._result)
        self._span.end()
        context.detach(self._token)


class Asked(NamedTuple):
    """The parts of a path of the Kubernetes API. `template` is the path without names."""

    template: str
    verb: str = ""
    resource: str = ""
    namespace: str = ""


def asked_of(outgoing: Outgoing) -> Asked:
    """Return the parts of a request's path; of a path that is not a resource's, the path itself."""
    head, rest = _split(outgoing.path)
    if not rest:
        return Asked(outgoing.path)
    group = head[1] if head[0] == "apis" else ""
    namespace, prefix = "", [*head]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
        namespace, rest = rest[1], rest[2:]
        prefix += ["namespaces", "{namespace}"]
    # What follows a part of an object is that part's own path, as for `proxy`.
    template = "/" + "/".join([*prefix, rest[0], *(["{name}"] if len(rest) > 1 else []), *rest[2:3]])
    resource = ".".join(filter(None, (rest[0], group))) + "".join(f"/{part}" for part in rest[2:3])
    return Asked(template, _verb(outgoing, is_named=len(rest) > 1), resource, namespace)


def _split(path: str) -> tuple[list[str], list[str]]:
    """The part that names a group and a version, and what follows."""
    parts = path.strip("/").split("/")
    length = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    return parts[:length], parts[length:]


def _verb(outgoing: Outgoing, *, is_named: bool) -> str:
    if outgoing.method in _VERBS:
        return _VERBS[outgoing.method]
    if outgoing.method == "DELETE":
        return "delete" if is_named else "deletecollection"
    return "watch" if outgoing.is_watch else "get" if is_named else "list"


def _request_attributes(request: Hashable) -> dict[str, str]:
    if not isinstance(request, ObjectKey):
        return {"reconcile.request": str(request)}
    attributes = {"k8s.object.name": request.name, "k8s.namespace.name": request.namespace}
    return {name: value for name, value in attributes.items() if value}


def _attributes(outgoing: Outgoing, asked: Asked) -> dict[str, str | int]:
    server = urlsplit(f"//{outgoing.host}")
    attributes: dict[str, str | int | None] = {
        "http.request.method": outgoing.method,
        "url.template": asked.template,
        "server.address": server.hostname,
        "server.port": server.port,
        "k8s.verb": asked.verb,
        "k8s.resource": asked.resource,
        "k8s.namespace.name": asked.namespace,
    }
    return {name: value for name, value in attributes.items() if value}


def _end_request(span: Span, status: int, failure: BaseException | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    if status:
        span.set_attribute("http.response.status_code", status)
    wrong = type(failure).__name__ if failure is not None else str(status) if status >= 400 else ""
    if wrong:
        span.set_attribute("error.type", wrong)
        span.set_status(Status(StatusCode.ERROR, str(failure) if failure is not None else None))
    span.end()


def _not_followed(status: int, failure: BaseException | None) -> None:
    """There is no span to end."""
