"""The audit record of one request: the events that are made of it, stage by stage."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError
from kapi.server.audit.policy import API_VERSION, LEVEL_NAMES, Level
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object
    from kapi.server.audit.policy import AuditConfig
    from kapi.server.context import Context
    from kapi.server.transport.message import StreamResponse

MAX_BODY_BYTES: Final = 100 * 1024
"""The largest body that is recorded. Without a larger one its event says `audit.k8s.io/truncated`."""
MAX_STATUS_BYTES: Final = 64 * 1024
"""The largest response in which a Status is looked for."""
MAX_USER_AGENT: Final = 1024
MAX_ADDRESSES: Final = 32
"""Addresses that are read from X-Forwarded-For."""

_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_DELETES = frozenset({"delete", "deletecollection"})
_encode = msgspec.json.Encoder().encode


class Record:
    """What is recorded of one request; events are made of it as the request goes through its stages."""

    __slots__ = ("_event", "_user", "config", "context", "has_failed", "is_unauthenticated")

    def __init__(self, context: Context, config: AuditConfig, received: dt.datetime) -> None:
        self.context = context
        self.config = config
        self.has_failed = False
        """True if the server failed to handle the request: its last stage is then Panic."""
        self.is_unauthenticated = False
        self._user = context.user
        request, info = context.request, context.info
        self._event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": API_VERSION,
            "level": LEVEL_NAMES[config.level],
            "auditID": context.audit_id,
            "stage": "",
            "requestURI": f"{request.path}?{request.query}" if request.query else request.path,
            "verb": info.verb,
            "user": context.user.info(),
        }
        if addresses := _source_addresses(context):
            self._event["sourceIPs"] = addresses
        if agent := request.headers.get("user-agent", ""):
            self._event["userAgent"] = (
                agent if len(agent) <= MAX_USER_AGENT else f"{agent[:MAX_USER_AGENT]}...TRUNCATED"
            )
        if info.is_resource:
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            self._event["objectRef"] = {key: value for key, value in reference.items() if value}
        self._event["requestReceivedTimestamp"] = _timestamp(received)

    def event(self, stage: str, now: dt.datetime) -> bytes:
        """Return the event of a stage, encoded."""
        event = self._event
        event["stage"] = stage
        event["stageTimestamp"] = _timestamp(now)
        if self.context.user is not self._user:
            event["impersonatedUser"] = self.context.user.info()
        if annotations := self.context.audit_annotations:
            event["annotations"] = event.get("annotations", {}) | annotations
        return _encode(event)

    # -- bodies -----------------------------------------------------------------------------------------------------

    def request_object(self, obj: Object) -> None:
        """Record the object that was sent: what identifies it, and from level Request on all of it."""
        reference = self._event.setdefault("objectRef", {})
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            for key in ("namespace", "name", "uid", "resourceVersion"):
                value = metadata.get(key)
                if value and key not in reference:
                    reference[key] = value
        if self.config.level >= Level.REQUEST:
            self._add_body("requestObject", _encode(self._without_managed_fields(obj)))

    def request_patch(self, patch: Any) -> None:
        """Record the patch that was sent."""
        if self.config.level >= Level.REQUEST:
            self._add_body("requestObject", _encode(patch))

    def forget_user(self) -> None:
        """Record that the user is not known: the credentials were not valid."""
        self.is_unauthenticated = True
        self._event["user"] = {}

    def response(self, response: Response | StreamResponse | None) -> None:
        """Record what was answered; None if the client did not wait for it."""
        if response is None:
            status: dict[str, Any] = {"status": "Failure", "message": "the client closed the connection", "code": 499}
            self._event["responseStatus"] = {"metadata": {}, **status}
            return
        self._event["responseStatus"] = status = {"metadata": {}, "code": response.status}
        if not isinstance(response, Response):
            return
        wants_body = self.config.level >= Level.REQUEST_RESPONSE and self.context.info.is_resource
        may_be_status = response.status >= 400 or self.context.info.verb in _DELETES
        if not wants_body and not may_be_status:
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

    def _add_body(self, field: str, body: bytes) -> None:
        if len(body) > MAX_BODY_BYTES:
            self._truncate()
        else:
            self._event[field] = msgspec.Raw(body)

    def _truncate(self) -> None:
        self._event.setdefault("annotations", {})["audit.k8s.io/truncated"] = "true"

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


def _timestamp(now: dt.datetime) -> str:
    return f"{now.isoformat(timespec='microseconds')[:26]}Z"


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
    found = [address for address in found if _is_address(address)]
    return [*found, own] if _is_address(own) and found[-1:] != [own] else found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
