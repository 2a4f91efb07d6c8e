"""The stages of a request, top to bottom. Read this first.

    recover → request info → deadline → authentication → audit → impersonation → authorization → router → body
    → flow control → handler

A long body is read only after the client was authorized to send it; the others are whole when they come here. Flow
control comes after the body, not before authorization as in kube-apiserver: a client that sends slowly holds no seat.

Stages do not know each other; only this file orders them. Everything below raises `ApiError`; only here do errors
become responses.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import structlog

from kapi.api.errors import (
    ApiError,
    BadRequest,
    InternalError,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
)
from kapi.api.go.durations import SECOND, parse_duration
from kapi.api.limits import AUDIT_ID_LENGTH, LARGE_BODY_BYTES
from kapi.server.authz.attributes import attributes_of
from kapi.server.authz.authorizer import Verdict, annotate, require
from kapi.server.authz.impersonation import Impersonator, is_impersonated, wanted_user
from kapi.server.context import Context
from kapi.server.handlers.respond import error_response, warning_headers
from kapi.server.requestinfo import parse_query, request_info
from kapi.server.transport.message import Response
from kapi.server.unenforced import unenforced_warning
from kapi.storage.interface import StorageBusy, StorageFailed

if TYPE_CHECKING:
    from kapi.server.router import Router
    from kapi.server.services import Services
    from kapi.server.transport.message import Request, StreamResponse

DEFAULT_DEADLINE = 60.0

_ALLOW = Verdict.ALLOW

_log = structlog.get_logger("kapi.server")


class Pipeline:
    """Answers requests. It never raises: a failure inside is logged with the request's id and answered with 500."""

    def __init__(self, services: Services, router: Router) -> None:
        self._services = services
        self._router = router
        self._impersonator = Impersonator()
        self._identity_may_wait = services.authenticator.may_wait or services.authorizer.may_wait

    async def __call__(self, request: Request) -> Response | StreamResponse:
        """Answer one request."""
        started = time.perf_counter()
        given = request.headers.get("audit-id")
        audit_id = given[:AUDIT_ID_LENGTH] if given else _new_id()
        context = Context(request, self._services, audit_id)
        metrics = self._services.metrics
        mutating = metrics.begin(request.method)
        response: Response | StreamResponse | None = None
        try:
            response = await self._recover(context)
        finally:
            if context.ticket is not None:
                context.ticket.finish()
            if context.audit is not None and self._services.auditor is not None:
                self._services.auditor.answered(context, response)
            code = response.status if response is not None else 499
            elapsed = time.perf_counter() - started
            metrics.end(context.info.verb, context.resource, context.info.subresource, code, elapsed, mutating=mutating)
        headers = response.headers
        headers.append(("Audit-Id", audit_id))
        for name, _ in headers:
            if name == "Cache-Control":
                break
        else:
            headers.append(("Cache-Control", "no-cache, private"))
        if mutating and context.resource is not None and isinstance(response, Response):
            info = context.info
            if warning := unenforced_warning(info.verb, info.subresource, context.resource, response):
                context.warnings.append(warning)
        if context.flow is not None:
            headers += context.flow.headers
        if context.warnings:
            headers += warning_headers(context.warnings)
        return response

    async def _recover(self, context: Context) -> Response | StreamResponse:
        """Answer one request; an exception raised below becomes an error response."""
        try:
            return await self._answer(context)
        except ApiError as error:
            return error_response(context, error)
        except TimeoutError:
            return error_response(
                context, Timeout("Timeout: request did not complete within the allotted timeout", details={})
            )
        except StorageBusy:
            busy = TooManyRequests("too many writes are waiting; try again", details={"retryAfterSeconds": 1})
            return error_response(context, busy)
        except StorageFailed:
            return error_response(context, ServiceUnavailable("the storage has failed; the server is shutting down"))
        except Exception as error:
            if context.audit is not None:
                context.audit.has_failed = True
            _log.exception(
                "request failed", audit_id=context.audit_id, method=context.request.method, path=context.request.path
            )
            return error_response(
                context, InternalError.of(f"{type(error).__name__}, see the log for {context.audit_id}")
            )

    async def _answer(self, context: Context) -> Response | StreamResponse:
        request, services = context.request, self._services
        # Request info: verb, group, version, resource, name.
        context.query = parse_query(request.query)
        context.info = request_info(request.method, request.path, context.query)
        # Deadline: a minute, or less if the client says so; watches have their own.
        seconds = self._deadline(context)
        async with asyncio.timeout(seconds) as deadline:
            # Authentication.
            authenticator = services.authenticator
            try:
                context.user = authenticator.identify(request) or await authenticator.authenticate(request)
            except Unauthorized:
                if services.auditor is not None:
                    services.auditor.failed_authentication(context)
                raise
            # Audit.
            if services.auditor is not None:
                services.auditor.received(context)
            attributes = attributes_of(context.user, context.info)
            # Impersonation: the request is made as another user, if its sender may act as that user.
            if is_impersonated(request.headers) and (wanted := wanted_user(request.headers)) is not None:
                acting = await self._impersonator.impersonate(services.authorizer, attributes, wanted)
                context.user = acting.user
                if context.audit is not None:
                    context.audit.impersonation_constraint = acting.constraint
                attributes = attributes._replace(user=context.user)
            # Authorization.
            decision = services.authorizer.decide(attributes)
            if decision is None or decision.verdict is not _ALLOW:
                await require(services.authorizer, attributes, request.path, context.audit_annotations)
            elif context.audit is not None:
                annotate(decision, context.audit_annotations)
            # Routing, and the rest of the body.
            endpoint = self._router.route(context)
            if request.arrival is not None:
                await request.arrival.wait(context.user)
            # Flow control.
            control = services.flowcontrol
            if control is not None:
                context.ticket = control.begin(context) or await control.wait(context)
            # Handling.
            if seconds is None and context.resource is not None and context.resource.needs_webhook:
                deadline.reschedule(asyncio.get_running_loop().time() + DEFAULT_DEADLINE)
            if len(request.body) < LARGE_BODY_BYTES:
                return await endpoint(context)
            waits = context.resource is not None and context.resource.needs_webhook
            async with services.large.slot(waits_for_webhook=waits):
                return await endpoint(context)

    def _deadline(self, context: Context) -> float | None:
        """Return the seconds a request may take; None for watches, and for reads that nothing can delay.

        A get or list without a query is answered from memory, without a wait that could be cut short: a timer would
        cost a tenth of the answer. Where the router finds that a conversion webhook may be asked, it gets one there.
        """
        if context.info.verb == "watch":
            return None
        if context.info.verb in ("get", "list") and not context.request.query and not self._identity_may_wait:
            return None
        text = context.query.get("timeout")
        if not text:
            return DEFAULT_DEADLINE
        try:
            seconds = parse_duration(text) / SECOND
        except ValueError as error:
            raise BadRequest(f"invalid timeout specified in the request URL - {error}") from None
        return seconds if 0 < seconds < DEFAULT_DEADLINE else DEFAULT_DEADLINE


def _new_id() -> str:
    """Return an id in the form of a UUID. It must be unique, not secret, so it need not cost a system call."""
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
