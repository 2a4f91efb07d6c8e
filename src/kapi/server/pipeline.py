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
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from kapi.api.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    InternalError,
    NotFound,
    PageNotFound,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
)
from kapi.api.go.durations import SECOND, parse_duration
from kapi.api.limits import AUDIT_ID_LENGTH, LARGE_BODY_BYTES
from kapi.registry.store import CATCH_UP_SECONDS
from kapi.server.authz.attributes import attributes_of
from kapi.server.authz.authorizer import Verdict, require
from kapi.server.authz.impersonation import Impersonator, is_impersonated, wanted_user
from kapi.server.context import Context
from kapi.server.handlers.respond import error_response, warning_headers
from kapi.server.requestdeadlines import RequestDeadlines
from kapi.server.requestinfo import RequestInfo, parse_query, request_info
from kapi.storage.interface import OutcomeUnknown, StorageBusy, StorageFailed, StorageUnreachable, ValueTooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.server.router import Endpoint, Router
    from kapi.server.services import Services
    from kapi.server.transport.message import Request, Response, StreamResponse

DEFAULT_DEADLINE = 60.0

_ALLOW = Verdict.ALLOW
_T = TypeVar("_T")

_log = structlog.get_logger("kapi.server")


class Pipeline:
    """Answers requests. It never raises: a failure inside is logged with the request's id and answered with 500."""

    def __init__(self, services: Services, router: Router) -> None:
        self._services = services
        self._router = router
        self._impersonator = Impersonator()
        self._authentication_may_wait = services.authenticator.may_wait
        self._deadlines = RequestDeadlines(DEFAULT_DEADLINE)

    async def __call__(self, request: Request) -> Response | StreamResponse:
        """Answer one request."""
        started = time.perf_counter()
        given = request.headers.get("audit-id")
        audit_id = given[:AUDIT_ID_LENGTH] if given else _new_id()
        context = Context(request, self._services, audit_id)
        metrics = self._services.metrics.requests
        mutating = metrics.begin(request.method)
        # None in `finally` only if there is an exception; mypyc would take the type of that, so this one has none.
        answered: Any = None
        try:
            response = answered = await self._recover(context)
        finally:
            if context.ticket is not None:
                context.ticket.finish()
            elapsed = time.perf_counter() - started
            if context.audit is not None and self._services.auditor is not None:
                self._services.auditor.answered(context, answered, elapsed)
            code = answered.status if answered is not None else 499
            metrics.end(context.info.verb, context.resource, context.info.subresource, code, elapsed, mutating=mutating)
        headers = response.headers
        headers.append(("Audit-Id", audit_id))
        for name, _ in headers:
            if name == "Cache-Control":
                break
        else:
            headers.append(("Cache-Control", "no-cache, private"))
        if context.flow is not None:
            headers += context.flow.headers
        if context.warnings:
            headers += warning_headers(context.warnings)
        return response

    async def _recover(self, context: Context) -> Response | StreamResponse:
        """Answer one request; an exception raised below becomes an error response."""
        try:
            seconds = self._read_request(context)
            if seconds is None:
                return await self._answer(context, has_deadline=False)
            if seconds == DEFAULT_DEADLINE:
                with self._deadlines.begin():
                    return await self._answer(context, has_deadline=True)
            async with asyncio.timeout(seconds):
                return await self._answer(context, has_deadline=True)
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
        except StorageUnreachable as error:
            # Without Retry-After: the store was tried for as long as it may take, and clients would try ten times more.
            return error_response(context, ServiceUnavailable(str(error)))
        except OutcomeUnknown as error:
            return error_response(context, Timeout(f"Timeout: {error}", details={}))
        except ValueTooLarge as error:
            return error_response(context, RequestEntityTooLarge(str(error)))
        except Exception as error:
            if context.audit is not None:
                context.audit.has_failed = True
            _log.exception(
                "request failed", audit_id=context.audit_id, method=context.request.method, path=context.request.path
            )
            return error_response(
                context, InternalError.of(f"{type(error).__name__}, see the log for {context.audit_id}")
            )

    def _read_request(self, context: Context) -> float | None:
        """Find out what is asked for (verb, group, version, resource, name); returns the seconds it may take."""
        request = context.request
        try:
            context.query = parse_query(request.query)
            context.info = request_info(request.method, request.path, context.query)
        except ApiError:
            context.info = RequestInfo(request.path, request.method.lower())
            raise
        # A minute, or less if the client says so; watches have their own.
        return self._deadline(context)

    async def _answer(self, context: Context, *, has_deadline: bool) -> Response | StreamResponse:
        request, services = context.request, self._services
        await self._authenticate(context)
        # Audit.
        if services.auditor is not None:
            services.auditor.received(context)
        attributes = attributes_of(context.user, context.info)
        # Impersonation: the request is made as another user, if its sender may act as that user.
        if is_impersonated(request.headers) and (wanted := wanted_user(request.headers)) is not None:
            acting = await self._decided(
                lambda: self._impersonator.impersonate(services.authorizer, attributes, wanted)
            )
            context.user = acting.user
            if context.audit is not None:
                context.audit.impersonation_constraint = acting.constraint
            attributes = attributes._replace(user=context.user)
        # Authorization.
        decision = services.authorizer.decide(attributes)
        if decision is None or decision.verdict is not _ALLOW:
            await self._decided(
                lambda: require(services.authorizer, attributes, request.path, context.audit_annotations)
            )
        elif context.audit is not None:
            context.audit.allowed_by = decision.reason
        # Routing, and the rest of the body.
        endpoint = await self._route(context)
        if request.arrival is not None:
            await request.arrival.wait(context.user)
        # Flow control.
        control = services.flowcontrol
        if control is not None:
            context.ticket = control.begin(context) or await control.wait(context)
        # Handling.
        waits_for_webhook = context.resource is not None and context.resource.needs_webhook
        if waits_for_webhook and not has_deadline:
            async with asyncio.timeout(DEFAULT_DEADLINE):
                return await endpoint(context)
        # What another server is asked is not decoded here, and must not hold a slot while that server takes its time.
        if len(request.body) < LARGE_BODY_BYTES or endpoint is self._router.proxy:
            return await endpoint(context)
        async with services.large.slots(waits_for_webhook=waits_for_webhook).hold(context.user.name):
            return await endpoint(context)

    # -- what another server may have changed a moment ago ------------------------------------------------------------

    async def _has_caught_up(self) -> bool:
        """Wait for the writes of other servers; True if there were some that this server had not heard of.

        A refusal is decided again then: a definition, a binding or an account that another server has acknowledged is
        known to all. A server that does not share its store has heard of everything.

        Those who call it do so after `except`, not in it: a coroutine that is compiled must not wait there.
        """
        hub = self._services.catalog.hub
        before = hub.revision
        revision = await hub.storage.latest()
        return revision > before and await hub.wait_for(revision, seconds=CATCH_UP_SECONDS)

    async def _authenticate(self, context: Context) -> None:
        authenticator, auditor, request = self._services.authenticator, self._services.auditor, context.request
        try:
            context.user = authenticator.identify(request) or await authenticator.authenticate(request)
        except Unauthorized as error:
            refusal = error
        else:
            return
        try:
            if not await self._has_caught_up():
                raise refusal
            context.user = authenticator.identify(request) or await authenticator.authenticate(request)
        except Unauthorized:
            if auditor is not None:
                auditor.failed_authentication(context)
            raise
        finally:
            del refusal  # its traceback refers to this frame

    async def _route(self, context: Context) -> Endpoint:
        try:
            return self._router.route(context)
        except (NotFound, PageNotFound) as error:
            refusal = error
        try:
            if not await self._has_caught_up():
                raise refusal
        finally:
            del refusal
        return self._router.route(context)

    async def _decided(self, decide: Callable[[], Awaitable[_T]]) -> _T:
        """The outcome of a decision about access, which is made a second time if it is a refusal that is outdated."""
        try:
            return await decide()
        except Forbidden as error:
            refusal = error
        try:
            if not await self._has_caught_up():
                raise refusal
        finally:
            del refusal
        return await decide()

    def _deadline(self, context: Context) -> float | None:
        """Return the seconds a request may take; None for watches, and for reads that nothing can delay.

        A get or list without a query is answered from memory, without a wait that could be cut short: a timer would
        cost a tenth of the answer. Where the router finds that a conversion webhook may be asked, it gets one there.
        """
        verb = context.info.verb
        if verb == "watch":
            return None
        identity_may_wait = self._authentication_may_wait or self._services.authorizer.may_wait
        if verb in ("get", "list") and not context.request.query and not identity_may_wait:
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
