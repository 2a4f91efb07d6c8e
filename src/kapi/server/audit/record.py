"""The audit record of one request: the events that are made of it, stage by stage.

Most events differ from others of the same client and resource in the name and in the times alone. What they have in
common is encoded once, as a `Template`: encoding all of it each time would cost a quarter of a GET.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError
from kapi.server.audit.policy import API_VERSION, LEVEL_NAMES, MAX_REMEMBERED_LENGTH, RESPONSE_COMPLETE, Level
from kapi.server.context import DECISION, REASON
from kapi.server.transport.message import Body, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import Object
    from kapi.server.audit.policy import AuditConfig
    from kapi.server.context import Context
    from kapi.server.requestinfo import RequestInfo
    from kapi.server.transport.message import StreamResponse

MAX_BODY_BYTES: Final = 100 * 1024
"""The largest body that is recorded. Without a larger one its event says `audit.k8s.io/truncated`."""
MAX_STATUS_BYTES: Final = 64 * 1024
"""The largest response in which a Status is looked for."""
MAX_ADDRESS_LENGTH: Final = 64
"""An IPv6 address has at most 45 characters, and may be followed by the name of a network interface."""
MAX_USER_AGENT: Final = 1024
MAX_ADDRESSES: Final = 32
"""Addresses that are read from X-Forwarded-For."""
REMEMBERED: Final = 1024
"""Templates, and addresses, that are remembered."""
PATCH_ANNOTATION: Final = "patch.webhook.admission.k8s.io/"
"""The prefix of annotations that hold what a mutating webhook has changed."""

_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_IDENTITY = ("namespace", "name", "uid", "resourceVersion")
_DELETES = frozenset({"delete", "deletecollection"})
_REQUEST = Level.REQUEST
_REQUEST_RESPONSE = Level.REQUEST_RESPONSE
_encode = msgspec.json.Encoder().encode

Template = list[bytes]
"""An encoded event, cut where the audit id, the URI, the name of the object (if any) and the two times go."""
PlainEvent = tuple[Template, str, str, str, "dt.datetime", float]
"""A template, an audit id, a URI, a name or nothing, when the request was answered and the seconds that took."""

_GAP: Final = msgspec.Raw(b"\0")
"""What is cut out to make a template. No encoded text has this byte in it."""
_templates: dict[tuple[object, ...], Template] = {}


def encoded(event: PlainEvent) -> bytes:
    """Return an event as JSON."""
    template, audit_id, uri, name, answered, seconds = event
    received = answered - dt.timedelta(seconds=seconds)
    if name:
        start, uri_follows, name_follows, received_follows, answered_follows, end = template
        named: tuple[bytes, ...] = (name_follows, _encode(name))
    else:
        start, uri_follows, received_follows, answered_follows, end = template
        named = ()
    times = (received_follows, _encode(_timestamp(received)), answered_follows, _encode(_timestamp(answered)))
    return b"".join((start, _encode(audit_id), uri_follows, _encode(uri), *named, *times, end))


class Record:
    """What is recorded of one request; events are made of it as the request goes through its stages."""

    # Attributes of the class, not of each instance: of most requests nothing but a decision and a code is recorded.
    has_failed = False
    """True if the server failed to handle the request: its last stage is then Panic."""
    impersonation_constraint = ""
    """The verb that allowed impersonation, if that was constrained."""
    is_unauthenticated = False
    """True if the credentials were not valid, so that the user is not known."""
    allowed_by: str | None = None
    """The reason why the request was allowed; None if it was not, or not yet."""
    received: dt.datetime | None = None
    """When the request was received; None before that matters."""
    code = 0
    """The status code of the response; 0 before there is one."""
    _identity: Mapping[str, str] = MappingProxyType({})
    """The fields that the body of the request adds to the reference to the object."""
    _annotations: Mapping[str, str] = MappingProxyType({})
    _bodies: Mapping[str, msgspec.Raw] = MappingProxyType({})
    _is_plain = True
    """False if the body of the request says more of the object than templates have a place for."""
    _status: dict[str, Any] | None = None
    """The status of the response, if there is more to it than the code."""

    def __init__(self, context: Context, config: AuditConfig) -> None:
        self.context = context
        self.config = config
        self._user = context.user

    def plain_event(self, response: Response, answered: dt.datetime, seconds: float) -> PlainEvent | None:
        """Return the only event of a request that was answered in so many seconds, to be encoded later.

        None if there is more to record than templates have a place for.
        """
        context = self.context
        request = context.request
        headers = request.headers
        agent = headers.get("user-agent", "")
        if (
            not self._is_plain
            or context.user is not self._user
            or context.audit_annotations
            or "x-forwarded-for" in headers
            or "x-real-ip" in headers
            or len(agent) > MAX_REMEMBERED_LENGTH
        ):
            return None
        name = context.info.name or self._identity.get("name", "")
        # The configuration is that of a user, a verb and a resource, and is one object for all requests of these.
        key = (self.config, agent, request.peer.address, response.status, self.allowed_by, not name)
        template = _templates.get(key)
        if template is None:
            self.code = response.status
            gaps = self._fields(RESPONSE_COMPLETE, _GAP, _GAP, _GAP if name else "", _GAP, _GAP)
            template = _encode(gaps).split(b"\0")
            if len(_templates) >= REMEMBERED:
                _templates.clear()
            _templates[key] = template
        uri = f"{request.path}?{request.query}" if request.query else request.path
        return template, context.audit_id, uri, name, answered, seconds

    def event(self, stage: str, now: dt.datetime) -> bytes:
        """Return the event of a stage, encoded."""
        context = self.context
        request = context.request
        uri = f"{request.path}?{request.query}" if request.query else request.path
        name = context.info.name or self._identity.get("name", "")
        received = _timestamp(self.received or now)
        return _encode(self._fields(stage, context.audit_id, uri, name, received, _timestamp(now)))

    def _fields(self, stage: str, audit_id: Any, uri: Any, name: Any, received: Any, now: Any) -> dict[str, Any]:
        """Return the fields of an event, in the order of kube-apiserver's."""
        context = self.context
        fields: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": API_VERSION,
            "level": LEVEL_NAMES[self.config.level],
            "auditID": audit_id,
            "stage": stage,
            "requestURI": uri,
            "verb": context.info.verb,
            "user": {} if self.is_unauthenticated else self._user.info(),
        }
        if context.user is not self._user:
            fields["impersonatedUser"] = context.user.info()
        if self.impersonation_constraint:
            fields["authenticationMetadata"] = {"impersonationConstraint": self.impersonation_constraint}
        if addresses := _source_addresses(context):
            fields["sourceIPs"] = addresses
        if agent := context.request.headers.get("user-agent", ""):
            fields["userAgent"] = agent if len(agent) <= MAX_USER_AGENT else f"{agent[:MAX_USER_AGENT]}...TRUNCATED"
        if context.info.is_resource:
            fields["objectRef"] = self._reference(context.info, name)
        if self.code:
            fields["responseStatus"] = self._status or {"metadata": {}, "code": self.code}
        fields |= self._bodies
        fields |= {"requestReceivedTimestamp": received, "stageTimestamp": now}
        annotations = {**self._annotations, **context.audit_annotations}
        if self.config.level < Level.REQUEST:
            # What a webhook has changed is a part of the object.
            annotations = {key: value for key, value in annotations.items() if not key.startswith(PATCH_ANNOTATION)}
        if self.allowed_by is not None:
            annotations |= {DECISION: "allow", REASON: self.allowed_by}
        if annotations:
            fields["annotations"] = annotations
        return fields

    def _reference(self, info: RequestInfo, name: Any) -> dict[str, Any]:
        body = self._identity
        reference = {
            "resource": info.resource,
            "namespace": info.namespace or body.get("namespace"),
            "name": name,
            "uid": body.get("uid"),
            "apiGroup": info.group,
            "apiVersion": info.version,
            "resourceVersion": body.get("resourceVersion"),
            "subresource": info.subresource,
        }
        return {key: value for key, value in reference.items() if value}

    # -- bodies -----------------------------------------------------------------------------------------------------

    def request_object(self, obj: Object) -> None:
        """Record the object that was sent: what identifies it, and from level Request on all of it."""
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            self._identity = {key: value for key in _IDENTITY if isinstance(value := metadata.get(key), str) and value}
            # In a template, the namespace is that of the request.
            if "uid" in self._identity or "resourceVersion" in self._identity or not self.context.info.namespace:
                self._is_plain = False
        if self.config.level >= _REQUEST and self._fits():
            self._add_body("requestObject", _encode(self._without_managed_fields(obj)))

    def request_patch(self, patch: Any) -> None:
        """Record the patch that was sent."""
        if self.config.level >= _REQUEST and self._fits():
            self._add_body("requestObject", _encode(patch))

    def forget_user(self) -> None:
        """Record that the user is not known: the credentials were not valid."""
        self.is_unauthenticated = True

    def response(self, response: Response | StreamResponse | None) -> None:
        """Record what was answered; None if the client did not wait for it."""
        if response is None:
            message = "the client closed the connection"
            self.code = 499
            self._status = {"metadata": {}, "status": "Failure", "message": message, "code": 499}
            return
        self.code = response.status
        if not isinstance(response, Response):
            return
        wants_body = self.config.level >= _REQUEST_RESPONSE and self.context.info.is_resource
        may_be_status = response.status >= 400 or self.context.info.verb in _DELETES
        if not wants_body and not may_be_status:
            return
        if isinstance(response.body, Body):
            # Longer than what is recorded, and made while it is sent.
            if wants_body:
                self._truncate()
            return
        body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        if len(body) > (MAX_BODY_BYTES if wants_body else MAX_STATUS_BYTES):
            if wants_body:
                self._truncate()
            return
        obj = _decoded(body)
        if obj is None:
            return
        if obj.get("kind") == "Status":
            self._status = {"metadata": {}, "code": response.status}
            self._status.update((field, obj[field]) for field in _STATUS_FIELDS if obj.get(field))
        if wants_body:
            self._add_body("responseObject", _encode(self._without_managed_fields(obj)))

    def _fits(self) -> bool:
        """Return True if the body that was sent is small enough; one that is not is not encoded for nothing."""
        if len(self.context.request.body) <= MAX_BODY_BYTES:
            return True
        self._truncate()
        return False

    def _add_body(self, field: str, body: bytes) -> None:
        if len(body) > MAX_BODY_BYTES:
            self._truncate()
        else:
            self._bodies = {**self._bodies, field: msgspec.Raw(body)}

    def _truncate(self) -> None:
        self._annotations = {"audit.k8s.io/truncated": "true"}

    def _without_managed_fields(self, obj: Object) -> Object:
        if not self.config.omit_managed_fields:
            return obj
        obj = _without(obj)
        if isinstance(obj.get("items"), list):
            obj["items"] = [_without(item) for item in obj["items"]]
        if isinstance(obj.get("rows"), list):
            obj["rows"] = [{**row, "object": _without(row["object"])} for row in obj["rows"] if row.get("object")]
        return obj


def _without(obj: Any) -> Any:
    """Return a copy of an object without its managed fields."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return dict(obj) if isinstance(obj, dict) else obj
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _decoded(body: bytes) -> Object | None:
    try:
        obj = json.decode(body) if body.startswith(b"{") else yaml.decode(body)
    except DecodeError:
        return None
    return obj if isinstance(obj, dict) else None


def _timestamp(now: dt.datetime) -> dt.datetime:
    """Return a time that is encoded with microseconds, as readers of a MicroTime expect; a whole second is not."""
    return now if now.microsecond else now.replace(microsecond=1)


def _source_addresses(context: Context) -> list[str]:
    """Return the addresses that proxies report in headers, and last that of the connection, which cannot be forged."""
    headers, own = context.request.headers, context.request.peer.address
    reported = headers.get("x-forwarded-for", "")
    real = headers.get("x-real-ip", "")
    if not reported and not real:
        return [own] if _is_address(own) else []
    found = [part.strip() for part in reported.split(",")[:MAX_ADDRESSES]]
    if real.strip() not in found:
        found.append(real.strip())
    # A longer text is no address, and must not be remembered.
    found = [address for address in found if len(address) <= MAX_ADDRESS_LENGTH and _is_address(address)]
    return [*found, own] if _is_address(own) and found[-1:] != [own] else found


@lru_cache(maxsize=REMEMBERED)
def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
