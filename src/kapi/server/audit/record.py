"""The audit record of one request: the events that are made of it, stage by stage."""

from __future__ import annotations

import datetime as dt  # noqa: TC003 (msgspec reads annotations at run time)
import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError
from kapi.server.audit.policy import API_VERSION, LEVEL_NAMES, Level
from kapi.server.transport.message import Body, Response

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.server.audit.policy import AuditConfig
    from kapi.server.context import Context
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
"""Users and addresses whose form in an event is remembered."""

_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_IDENTITY = ("namespace", "name", "uid", "resourceVersion")
_DELETES = frozenset({"delete", "deletecollection"})
_NO_USER = msgspec.Raw(b"{}")
_encode = msgspec.json.Encoder().encode


_NAMES = {
    "api_version": "apiVersion",
    "audit_id": "auditID",
    "request_uri": "requestURI",
    "impersonated_user": "impersonatedUser",
    "authentication_metadata": "authenticationMetadata",
    "source_addresses": "sourceIPs",
    "user_agent": "userAgent",
    "object_reference": "objectRef",
    "response_status": "responseStatus",
    "request_object": "requestObject",
    "response_object": "responseObject",
    "received": "requestReceivedTimestamp",
    "stage_time": "stageTimestamp",
}


class _Event(msgspec.Struct, kw_only=True, omit_defaults=True, rename=_NAMES):
    """An Event of audit.k8s.io/v1, its fields in the order of kube-apiserver's; what is empty is left out."""

    kind: str
    api_version: str
    level: str
    audit_id: str
    stage: str
    request_uri: str
    verb: str
    user: msgspec.Raw
    impersonated_user: msgspec.Raw | None = None
    authentication_metadata: dict[str, str] | None = None
    source_addresses: list[str] = []
    user_agent: str = ""
    object_reference: dict[str, str] | None = None
    response_status: dict[str, Any] | None = None
    request_object: msgspec.Raw | None = None
    response_object: msgspec.Raw | None = None
    received: dt.datetime
    stage_time: dt.datetime
    annotations: dict[str, str] = {}


class Record:
    """What is recorded of one request; events are made of it as the request goes through its stages."""

    __slots__ = (
        "_annotations",
        "_bodies",
        "_identity",
        "_received",
        "_status",
        "_user",
        "config",
        "context",
        "has_failed",
        "impersonation_constraint",
        "is_unauthenticated",
    )

    def __init__(self, context: Context, config: AuditConfig, received: dt.datetime) -> None:
        self.context = context
        self.config = config
        self.has_failed = False
        """True if the server failed to handle the request: its last stage is then Panic."""
        self.impersonation_constraint = ""
        """The verb that allowed impersonation, if that was constrained."""
        self.is_unauthenticated = False
        self._received = received
        self._user = context.user
        self._identity: dict[str, str] = {}
        """The fields that the body of the request adds to the reference to the object."""
        self._annotations: dict[str, str] = {}
        self._bodies: dict[str, msgspec.Raw] = {}
        self._status: dict[str, Any] | None = None

    def event(self, stage: str, now: dt.datetime) -> bytes:
        """Return the event of a stage, encoded."""
        context = self.context
        request, info = context.request, context.info
        agent = request.headers.get("user-agent", "")
        if len(agent) > MAX_USER_AGENT:
            agent = f"{agent[:MAX_USER_AGENT]}...TRUNCATED"
        annotations = context.audit_annotations
        return _encode(
            _Event(
                kind="Event",
                api_version=API_VERSION,
                level=LEVEL_NAMES[self.config.level],
                audit_id=context.audit_id,
                stage=stage,
                request_uri=f"{request.path}?{request.query}" if request.query else request.path,
                verb=info.verb,
                user=_NO_USER if self.is_unauthenticated else _encoded_user(self._user),
                impersonated_user=None if context.user is self._user else _encoded_user(context.user),
                authentication_metadata={"impersonationConstraint": self.impersonation_constraint}
                if self.impersonation_constraint
                else None,
                source_addresses=_source_addresses(context),
                user_agent=agent,
                object_reference=self._reference() if info.is_resource else None,
                response_status=self._status,
                request_object=self._bodies.get("requestObject"),
                response_object=self._bodies.get("responseObject"),
                received=_timestamp(self._received),
                stage_time=_timestamp(now),
                annotations=self._annotations | annotations if self._annotations else annotations,
            )
        )

    def _reference(self) -> dict[str, str]:
        info = self.context.info
        reference = {"resource": info.resource}
        if info.namespace:
            reference["namespace"] = info.namespace
        if info.name:
            reference["name"] = info.name
        if info.group:
            reference["apiGroup"] = info.group
        reference["apiVersion"] = info.version
        if info.subresource:
            reference["subresource"] = info.subresource
        return self._identity | reference if self._identity else reference

    # -- bodies -----------------------------------------------------------------------------------------------------

    def request_object(self, obj: Object) -> None:
        """Record the object that was sent: what identifies it, and from level Request on all of it."""
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            self._identity = {key: value for key in _IDENTITY if isinstance(value := metadata.get(key), str) and value}
        if self.config.level >= Level.REQUEST and self._fits():
            self._add_body("requestObject", _encode(self._without_managed_fields(obj)))

    def request_patch(self, patch: Any) -> None:
        """Record the patch that was sent."""
        if self.config.level >= Level.REQUEST and self._fits():
            self._add_body("requestObject", _encode(patch))

    def forget_user(self) -> None:
        """Record that the user is not known: the credentials were not valid."""
        self.is_unauthenticated = True

    def response(self, response: Response | StreamResponse | None) -> None:
        """Record what was answered; None if the client did not wait for it."""
        if response is None:
            message = "the client closed the connection"
            self._status = {"metadata": {}, "status": "Failure", "message": message, "code": 499}
            return
        self._status = status = {"metadata": {}, "code": response.status}
        if not isinstance(response, Response):
            return
        wants_body = self.config.level >= Level.REQUEST_RESPONSE and self.context.info.is_resource
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
            status.update((field, obj[field]) for field in _STATUS_FIELDS if obj.get(field))
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
            self._bodies[field] = msgspec.Raw(body)

    def _truncate(self) -> None:
        self._annotations["audit.k8s.io/truncated"] = "true"

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


@lru_cache(maxsize=REMEMBERED)
def _encoded_user(user: User) -> msgspec.Raw:
    """Return the UserInfo of a user. The user of a connection is one object, so it is encoded once."""
    return msgspec.Raw(_encode(user.info()))


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
