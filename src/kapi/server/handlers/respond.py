"""From results to responses: form, media type, pretty printing, compression, and errors as Status.

The form of the response is negotiated before the work is done (`view_for`), so that a request that cannot be answered
in the wanted form is refused before it changes anything.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

from kapi.api.errors import ApiError, InternalServerError, NotAcceptable, Overloaded, PageNotFound
from kapi.cache.snapshot import Snapshot
from kapi.codec import json, negotiate, yaml
from kapi.server.handlers.listing import (
    QUICK,
    SHORT_STORED,
    CompressedBody,
    ComputedBody,
    StoredList,
    form_of,
    joined,
    list_steps,
    object_steps,
)
from kapi.server.handlers.views import PartialView, PlainView, TableView
from kapi.server.transport.message import Body, Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.registry.resource import Resource
    from kapi.registry.store import ReadyItem
    from kapi.server.context import Context
    from kapi.server.handlers.listing import Form, Steps
    from kapi.server.handlers.views import ListMeta, View

GZIP_THRESHOLD = 128 * 1024
"""Bodies beyond this are compressed when the client asks; smaller ones are not worth the time."""
WARNING_BUDGET = 4096
WARNING_CUT = 256

_JSON = ("Content-Type", "application/json")
_YAML = ("Content-Type", negotiate.YAML)
_GZIPPED = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
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
        if len(body) < GZIP_THRESHOLD:
            return response
        response.user = context.user
        return await maybe_gzip(context, response)
    return await _computed(context, code, object_steps(body, _form(context)))


async def list_response(context: Context, view: View, items: Sequence[ReadyItem], meta: ListMeta) -> Response:
    """A list; a long one is made while it is sent."""
    bodies = [item.body for item in items]
    size = sum(map(len, bodies))
    store = context.served.store
    cache = None if store is None else store.cache
    if not _is_plain_json(context) or (size > QUICK and not view.is_stored):
        return await _computed(context, 200, list_steps(view, cache, items, meta, _form(context)))
    if not view.is_stored:
        bodies = [view.entry(item) for item in view.arrange(items)]
    elif context.served.custom is not None:
        bodies = await context.services.turns.map(view.entry, items)
        size = sum(map(len, bodies))
    frame = view.list_frame(meta)
    if size > SHORT_STORED:
        return _long(context, 200, StoredList(frame, Snapshot(cache, items, meta.revision), bodies, size))
    response = Response(200, [_JSON], joined(frame, bodies), context.user)
    return await maybe_gzip(context, response) if size > GZIP_THRESHOLD else response


async def _computed(context: Context, code: int, steps: Steps) -> Response:
    """A body that is made in turns of the event loop; a short one is sent with its length."""
    body = ComputedBody(context.services.turns, steps)
    whole = await body.whole()
    if whole is None:
        return _long(context, code, body)
    return await maybe_gzip(context, Response(code, [_content_type(context)], whole))


def _long(context: Context, code: int, body: Body) -> Response:
    headers = [_content_type(context)]
    if context.request.method == "GET" and _accepts_gzip(context):
        headers += _GZIPPED
        body = CompressedBody(body)
    return Response(code, headers, body, context.user)


def json_response(context: Context, code: int, obj: Object) -> Response:
    """A small object, not encoded yet."""
    return _rendered(context, code, obj)


def status_response(context: Context, status: Object, code: int = 200) -> Response:
    """A Status that reports success."""
    return _rendered(context, code, status)


async def maybe_gzip(context: Context, response: Response) -> Response:
    """Compress a large body when the client asks for it; off the loop, because it takes a while."""
    body = response.body
    if isinstance(body, Body):
        return response
    size = len(body) if isinstance(body, bytes) else sum(map(len, body))
    if size <= GZIP_THRESHOLD or context.request.method != "GET" or not _accepts_gzip(context):
        return response
    whole = body if isinstance(body, bytes) else b"".join(body)
    response.body = await asyncio.to_thread(gzip.compress, whole, 1)
    response.headers += [header for header in _GZIPPED if header not in response.headers]
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


def _is_yaml(context: Context) -> bool:
    accepted = context.accepted
    return accepted is not None and accepted.media_type == negotiate.YAML


def _content_type(context: Context) -> tuple[str, str]:
    return _YAML if _is_yaml(context) else _JSON


def _form(context: Context) -> Form:
    return form_of(is_yaml=_is_yaml(context), is_pretty=_pretty(context))


def _rendered(context: Context, code: int, obj: Any) -> Response:
    if _is_yaml(context):
        return Response(code, [_YAML], yaml.encode(obj))
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
