"""The webhook authorizer: another server decides, by answering a SubjectAccessReview.

Answers are remembered for a while. A webhook that cannot be reached leaves the decision to the other authorizers, or
denies the request, by its failure policy, with an error: such a request is then answered with 500, not with 403.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from kapi.api.selectors import EQUALS
from kapi.base.clock import SystemClock
from kapi.base.http import Outbound, OutboundError
from kapi.codec import json
from kapi.server.authz.authorizer import NO_OPINION, AccessRules, Decision, Verdict
from kapi.server.authz.matchconditions import ConditionError, all_match
from kapi.server.webhooks.answer import Refused, document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.selectors import Requirement
    from kapi.api.user import User
    from kapi.base.clock import Clock
    from kapi.base.http import Endpoint
    from kapi.base.httpconnection import Answer
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.matchconditions import MatchCondition

API_VERSION: Final = "authorization.k8s.io/v1"
AUTHORIZED_SECONDS: Final = 300.0
UNAUTHORIZED_SECONDS: Final = 30.0
CALL_SECONDS: Final = 30.0
ANSWER_BYTES: Final = 1024 * 1024
ATTEMPTS: Final = 5
FIRST_BACKOFF: Final = 0.5
BACKOFF_FACTOR: Final = 1.5
MAX_REMEMBERED: Final = 8192
MAX_REMEMBERED_LENGTH: Final = 10_000
"""Answers about requests that are longer than this are not remembered: any client may send them."""

_OPERATORS: Final = {"=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn"}
_EXISTENCE: Final = {"exists": "Exists", "!": "DoesNotExist"}
_RETRIED: Final = frozenset({429, 500, 502, 503, 504})
_BOTH: Final = "webhook subject access review returned both allow and deny response"

_log = structlog.get_logger("kapi.authorization")


class _Remembered(NamedTuple):
    decision: Decision
    expires: float


class WebhookAuthorizer:
    """Asks a webhook. Close it when the server stops."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        authorized_seconds: float = AUTHORIZED_SECONDS,
        unauthorized_seconds: float = UNAUTHORIZED_SECONDS,
        call_seconds: float = CALL_SECONDS,
        fails_closed: bool = False,
        conditions: Sequence[MatchCondition] = (),
        first_backoff: float = FIRST_BACKOFF,
        clock: Clock | None = None,
        outbound: Outbound | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._authorized_seconds = authorized_seconds
        self._unauthorized_seconds = unauthorized_seconds
        self._call_seconds = call_seconds
        self._on_error = Verdict.DENY if fails_closed else Verdict.NO_OPINION
        self._conditions = conditions
        self._first_backoff = first_backoff
        self._clock = clock or SystemClock()
        self._outbound = outbound or Outbound()
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    async def close(self) -> None:
        """Close the connections."""
        await self._outbound.close()

    async def authorize(self, attributes: Attributes) -> Decision:
        """Return the decision of the webhook; that of its failure policy and an error when it cannot be had."""
        spec = review_spec(attributes)
        try:
            if not all_match(self._conditions, spec):
                return NO_OPINION
        except ConditionError as error:
            return Decision(self._on_error, error=str(error))
        key = json.encode(spec)
        known = self._remembered.get(key)
        if known is not None and known.expires > self._clock.monotonic():
            self._remembered.move_to_end(key)
            return known.decision
        try:
            status = await self._ask(spec)
        except (OutboundError, Refused) as error:
            _log.warning("authorization webhook failed", url=self._endpoint.url, error=str(error))
            return Decision(self._on_error, error=str(error))
        decision = _decision(status)
        if len(key) < MAX_REMEMBERED_LENGTH:
            self._remember(key, decision)
        return decision

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return nothing: a webhook cannot list what it would allow."""
        error = "webhook authorizer does not support user rule resolution"
        return AccessRules([], [], incomplete=True, error=error)

    def _remember(self, key: bytes, decision: Decision) -> None:
        seconds = self._authorized_seconds if decision.allowed else self._unauthorized_seconds
        if seconds <= 0:
            return
        self._remembered[key] = _Remembered(decision, self._clock.monotonic() + seconds)
        self._remembered.move_to_end(key)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    async def _ask(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the status of the webhook's answer; failures that may pass are retried."""
        review = {"kind": "SubjectAccessReview", "apiVersion": API_VERSION, "metadata": {}, "spec": spec}
        body = json.encode({**review, "status": {"allowed": False}})
        backoff = self._first_backoff
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._outbound.post(self._endpoint, body, seconds=self._call_seconds, limit=ANSWER_BYTES)
            except OutboundError:
                if attempt == ATTEMPTS:
                    raise
            else:
                if answer.status not in _RETRIED or attempt == ATTEMPTS:
                    return _status(answer)
            await asyncio.sleep(backoff)
            backoff *= BACKOFF_FACTOR
        raise AssertionError("unreachable")


def _status(answer: Answer) -> dict[str, Any]:
    review = document(answer)
    if (review.get("kind"), review.get("apiVersion")) != ("SubjectAccessReview", API_VERSION):
        raise Refused(f"expected a SubjectAccessReview of {API_VERSION} from the webhook")
    status = review.get("status") or {}
    flags = [status.get(field, False) for field in ("allowed", "denied")] if isinstance(status, dict) else [None]
    if not all(isinstance(flag, bool) for flag in flags) or not isinstance(status.get("reason", ""), str):
        raise Refused("the status of the SubjectAccessReview from the webhook cannot be read")
    return dict(status)


def _decision(status: dict[str, Any]) -> Decision:
    reason = status.get("reason", "")
    if status.get("denied"):
        return Decision(Verdict.DENY, reason, _BOTH if status.get("allowed") else "")
    return Decision(Verdict.ALLOW if status.get("allowed") else Verdict.NO_OPINION, reason)


def review_spec(attributes: Attributes) -> dict[str, Any]:
    """Return the spec of the SubjectAccessReview that asks about a request."""
    a, user = attributes, attributes.user
    if a.is_resource:
        fields = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
        about: dict[str, Any] = {field: value for field in fields if (value := getattr(a, field))}
        if a.field_requirements:
            requirements = [
                {"key": one.field, "operator": "In" if one.operator == EQUALS else "NotIn", "values": [one.value]}
                for one in a.field_requirements
            ]
            about["fieldSelector"] = {"requirements": requirements}
        if labels := [found for one in a.label_requirements if (found := _label_requirement(one))]:
            about["labelSelector"] = {"requirements": labels}
        spec: dict[str, Any] = {"resourceAttributes": about}
    else:
        spec = {"nonResourceAttributes": {"path": a.path, "verb": a.verb}}
    spec |= {"user": user.name, "groups": list(user.groups), "extra": user.extra, "uid": user.uid}
    return {key: value for key, value in spec.items() if value}


def _label_requirement(requirement: Requirement) -> dict[str, Any] | None:
    """Return a requirement in the form of the API; None for an operator that it does not have."""
    key, operator, values = requirement
    if operator in _EXISTENCE:
        return {"key": key, "operator": _EXISTENCE[operator]}
    return {"key": key, "operator": _OPERATORS[operator], "values": list(values)} if operator in _OPERATORS else None
