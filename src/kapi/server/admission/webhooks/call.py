"""One call of one webhook: the review is sent, the answer read.

This module imports the HTTP client, so it is imported when the first webhook is called.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from kapi.api.errors import BadRequest, InternalError
from kapi.api.go.text import quote
from kapi.api.limits import MIB, OFF_LOOP_BYTES
from kapi.base.http import OutboundError
from kapi.codec import json
from kapi.registry.uid import new_uid
from kapi.server.admission.request import encode_request
from kapi.server.admission.webhooks.configurations import NO_SIDE_EFFECTS
from kapi.server.admission.webhooks.errors import UNAVAILABLE, CallFailed, InvalidResponse
from kapi.server.admission.webhooks.review import encode_review, read_plain_response, read_response
from kapi.server.webhooks.answer import Refused, document
from kapi.server.webhooks.destination import destination

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kapi.base.http import Outbound
    from kapi.registry.request import Write
    from kapi.registry.strategy import Lookup
    from kapi.server.admission.webhooks.configurations import Candidate, Webhook
    from kapi.server.admission.webhooks.functions import Function
    from kapi.server.admission.webhooks.objects import Versioned
    from kapi.server.admission.webhooks.review import AdmissionResponse
    from kapi.server.serviceaddress import ServiceOverrides

ANSWER_BYTES: Final = 8 * MIB
"""Enough for a patch that replaces the largest object, in base64."""
OK: Final = 200
DEADLINE: Final = "context deadline exceeded"
NO_AUTHORITY: Final = "unable to load root certificates"
"""The beginning of what is said of a caBundle that cannot be used."""

_log = structlog.get_logger("kapi.admission")


class Caller:
    """Calls webhooks for one server."""

    def __init__(self, outbound: Outbound, lookup: Lookup, overrides: ServiceOverrides) -> None:
        self._outbound = outbound
        self._lookup = lookup
        self._overrides = overrides

    def call(
        self, candidate: Candidate, write: Write, objects: Versioned, *, mutating: bool
    ) -> Coroutine[Any, Any, AdmissionResponse]:
        """Return the answer of a webhook, to be awaited at once.

        Raises, before or while it is awaited:
            CallFailed: it gave no answer, or no valid one.
            BadRequest: the request is a dry run, and the webhook has side effects.
        """
        webhook, match = candidate.webhook, candidate.match
        _check_dry_run(webhook, write)
        version = webhook.review_version
        if not version:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(webhook, f"could not create admission objects: {why}", BadRequest.code)
        uid = new_uid()
        request = encode_request(write, objects.obj, match.resource, match.kind)
        review = encode_review(version, uid, request, objects.encoded, objects.encoded_old)
        return self._response(webhook, review, version, uid, mutating=mutating)

    async def _response(
        self, webhook: Webhook, review: bytes, version: str, uid: str, *, mutating: bool
    ) -> AdmissionResponse:
        if webhook.function is not None:
            return await self._of_function(webhook, webhook.function, review, version, uid, mutating=mutating)
        code = UNAVAILABLE
        try:
            endpoint = destination(
                webhook.client_config, self._lookup, seconds=webhook.seconds, overrides=self._overrides
            )
            answer = await self._outbound.post(
                endpoint, review, seconds=webhook.seconds, limit=ANSWER_BYTES, once=True, timed_out=DEADLINE
            )
            code = answer.status if answer.status >= 300 else UNAVAILABLE
            if len(answer.body) < OFF_LOOP_BYTES:
                if answer.status == OK:
                    response = read_plain_response(answer.body, version, uid, mutating=mutating)
                    if response is not None:
                        return response
                return read_response(document(answer), version, uid, mutating=mutating)
            found = await asyncio.to_thread(document, answer)
            return await asyncio.to_thread(read_response, found, version, uid, mutating=mutating)
        except OutboundError as error:
            _log.warning(
                "an admission webhook could not be called",
                webhook=webhook.name,
                configuration=webhook.configuration,
                error=str(error),
            )
            if str(error).startswith(NO_AUTHORITY):
                raise CallFailed(webhook, f"could not get REST client: {error}", InternalError.code) from None
            raise CallFailed(webhook, f"failed to call webhook: {error}", code) from None
        # What a webhook answers is not logged: it may repeat the object.
        except Refused as refused:
            raise CallFailed(webhook, f"failed to call webhook: {refused}", code) from None
        except InvalidResponse as invalid:
            raise CallFailed(webhook, f"received invalid webhook response: {invalid}", code) from None

    async def _of_function(
        self, webhook: Webhook, function: Function, review: bytes, version: str, uid: str, *, mutating: bool
    ) -> AdmissionResponse:
        try:
            async with asyncio.timeout(webhook.seconds):
                answer = await function.review(json.decode(review))
            return read_response(answer, version, uid, mutating=mutating)
        except TimeoutError:
            raise CallFailed(webhook, f"failed to call webhook: {DEADLINE}") from None
        except Refused as refused:
            raise CallFailed(webhook, f"failed to call webhook: {refused}") from None
        except InvalidResponse as invalid:
            raise CallFailed(webhook, f"received invalid webhook response: {invalid}") from None


def _check_dry_run(webhook: Webhook, write: Write) -> None:
    if not write.dry_run or webhook.side_effects in NO_SIDE_EFFECTS:
        return
    if webhook.side_effects is None:
        raise CallFailed(webhook, "Webhook SideEffects is nil", BadRequest.code)
    raise BadRequest(f"admission webhook {quote(webhook.name)} does not support dry run")
