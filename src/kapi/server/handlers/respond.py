"""From results to responses: form, media type, pretty printing, compression, and errors as Status.

The form of the response is negotiated before the work is done (`view_for`), so that a request that cannot be answered
in the wanted form is refused before it changes anything.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

from kapi.api.errors import ApiError, NotAcceptable, Overloaded, PageNotFound
from kapi.codec import json, negotiate, yaml
from kapi.server.handlers.views import PartialView, PlainView, TableView
from kapi.server.requestinfo import InternalServerError
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.registry.resource import Resource
    from kapi.server.context import Context
    from kapi.server.handlers.views import View

GZIP_THRESHOLD = 128 * 1024
"""Bodies beyond this are compressed when the client asks; smaller ones are not worth the time."""
WARNING_BUDGET = 4096
WARNING_CUT = 256

_JSON = ("Content-Type", "application/json")
_TEXT = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]


# -- what is asked for ----------------------------------------------------------------------------------------------


def view_for(context: Context, *, listing: bool, shown: Resource | None = None) -> View:
    """The form a get, list or write is answered in; `shown` when that is not the resource asked about."""
    offer = negotiate.COLLECTION if listing else negotiate.OBJECTS
    accepted = context.accepted = negotiate.accept(context.request.headers.get("accept"), offer)
    if accepted.as_kind.startswith("Partial") and accepted.as_kind.endswith("List") is not listing:
        kind = context.served.kind
        raise negotiate.wrong_form(accepted, f"{kind}List" if listing else kind)
    return _view(context, accepted, shown or context.served)


def watch_view_for(context: Context) -> View:
    """The form a watch is answered in; streams are JSON only."""
    accepted = negotiate.accept_stream(context.request.headers.get("accept"))
    if accepted.as_kind == "PartialObjectMetadataList":
        raise negotiate.wrong_form(accepted, context.served.kind)
    return _view(context, accepted, context.served)


def _view(context: Context, accepted: negotiate.Accepted, resource: Resource) -> View:
    if not accepted.as_kind:
        return PlainView(resource)
    if accepted.as_kind == "Table":
        include = context.query.get("includeObject", "")
        return TableView(resource, accepted.as_version, include, context.services.clock.now)
    return PartialView(resource, accepted.as_version)


def plain_only(context: Context) -> None:
    """For answers that come in one form only."""
    context.accepted = negotiate.accept(context.request.headers.get("accept"), negotiate.PLAIN)


_DISCOVERY = negotiate.Offer(forms=frozenset({("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")}))


def wants_aggregated(context: Context) -> bool:
    """Return True if the client asks for aggregated discovery."""
    context.accepted = negotiate.accept(context.request.headers.get("accept"), _DISCOVERY)
    return bool(context.accepted.as_kind)


# -- answers --------------------------------------------------------------------------------------------------------


async def object_response(context: Context, code: int, body: bytes) -> Response:
    """One object, encoded."""
    if _is_plain_json(context):
        response = Response(code, [_JSON], (body, b"\n"))
        return response if len(body) < GZIP_THRESHOLD else await maybe_gzip(context, response)
    return await asyncio.to_thread(_rendered, context, code, json.decode(body))


async def list_response(context: Context, parts: Sequence[bytes]) -> Response:
    """A list, encoded in parts."""
    if not _is_plain_json(context):
        return await asyncio.to_thread(_rendered, context, 200, json.decode(b"".join(parts)))
    return await maybe_gzip(context, Response(200, [_JSON], parts))


def json_response(context: Context, code: int, obj: Object) -> Response:
    """A small object, not encoded yet."""
    return _rendered(context, code, obj)


def status_response(context: Context, status: Object, code: int = 200) -> Response:
    """A Status that reports success."""
    return _rendered(context, code, status)


async def maybe_gzip(context: Context, response: Response) -> Response:
    """Compress a large body when the client asks for it; off the loop, because it takes a while."""
    body = response.body
    size = len(body) if isinstance(body, bytes) else sum(len(part) for part in body)
    if size <= GZIP_THRESHOLD or context.request.method != "GET" or not _accepts_gzip(context):
        return response
    whole = body if isinstance(body, bytes) else b"".join(body)
    response.body = await asyncio.to_thread(gzip.compress, whole, 1)
    response.headers.append(("Content-Encoding", "gzip"))
    if ("Vary", "Accept-Encoding") not in response.headers:
        response.headers.append(("Vary", "Accept-Encoding"))
    return response


def _accepts_gzip(context: Context) -> bool:
    for choice in context.request.headers.get("accept-encoding", "").split(","):
        coding, _, parameters = choice.partition(";")
        if coding.strip().lower() == "gzip":
            return parameters.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_plain_json(context: Context) -> bool:
    accepted = context.accepted
    return accepted is None or (accepted.media_type == negotiate.JSON and not _pretty(context))


def _pretty(context: Context) -> bool:
    headers = context.request.headers
    accepted = context.accepted
    if accepted is not None and accepted.pretty:
        return True
    return negotiate.is_pretty(context.request.query, headers.get("user-agent", ""))


def _rendered(context: Context, code: int, obj: Any) -> Response:
    accepted = context.accepted
    if accepted is not None and accepted.media_type == negotiate.YAML:
        return Response(code, [("Content-Type", negotiate.YAML)], yaml.encode(obj))
    if _pretty(context):
        return Response(code, [_JSON], json.encode_pretty(obj))
    return Response(code, [_JSON], json.encode(obj) + b"\n")


# -- errors ---------------------------------------------------------------------------------------------------------


def error_response(context: Context, error: ApiError) -> Response:
    """An error as the client can read it: a Status in the form asked for, or text where kube-apiserver sends text."""
    if isinstance(error, PageNotFound | InternalServerError | Overloaded):
        response = Response(error.code, list(_TEXT), f"{error.message}\n".encode())
        if error.retry_after:
            response.headers.append(("Retry-After", str(error.retry_after)))
        return response
    try:
        context.accepted = negotiate.accept(context.request.headers.get("accept"), negotiate.PLAIN)
        response = _rendered(context, error.code, error.status())
    except NotAcceptable:
        # The wanted form is the problem, so the error is in the form that every client reads.
        response = Response(error.code, [_JSON], json.encode_pretty(error.status()))
    if error.code == 403:
        response.headers.append(("X-Content-Type-Options", "nosniff"))
    if error.retry_after:
        response.headers.append(("Retry-After", str(error.retry_after)))
    return response


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """One `Warning` header per text, each once; cut short when they are too long together."""
    texts = list(dict.fromkeys(warnings))
    if sum(len(text) for text in texts) > WARNING_BUDGET:
        texts = [text[:WARNING_CUT] for text in texts][: WARNING_BUDGET // WARNING_CUT]
    return [("Warning", f'299 - "{_quoted(text)}"') for text in texts]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(character if " " <= character != "\x7f" else " " for character in escaped)
