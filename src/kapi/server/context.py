"""The state of one request in the pipeline.

Stages fill it in, handlers read it. It lives as long as its request; that of a watch as long as its stream.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kapi.api.user import ANONYMOUS
from kapi.server.requestinfo import RequestInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.codec.negotiate import Accepted
    from kapi.registry.resource import Resource
    from kapi.server.audit.record import Record
    from kapi.server.flowcontrol.classify import Flow
    from kapi.server.flowcontrol.control import ExemptTicket, Ticket
    from kapi.server.services import Services
    from kapi.server.transport.message import Request


DECISION: Final = "authorization.k8s.io/decision"
REASON: Final = "authorization.k8s.io/reason"
"""The audit annotations of the decision whether a request is allowed."""


_NO_INFO: Final = RequestInfo("", "")
_NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


class Context:
    """A request, and what the stages of the pipeline have found out about it."""

    __slots__ = (
        "accepted",
        "audit",
        "audit_annotations",
        "audit_id",
        "flow",
        "info",
        "query",
        "request",
        "resource",
        "services",
        "ticket",
        "user",
        "warnings",
    )

    def __init__(self, request: Request, services: Services, audit_id: str) -> None:
        self.request = request
        self.services = services
        self.audit_id = audit_id
        self.info = _NO_INFO
        self.query = _NO_QUERY
        self.user = ANONYMOUS
        """The user that the request is made as: another than was authenticated, if the request is impersonated."""
        self.ticket: Ticket | ExemptTicket | None = None
        """The seats that the request holds while it is handled."""
        self.flow: Flow | None = None
        """The flow that the request belongs to; None before flow control, and where there is none."""
        self.resource: Resource | None = None
        self.accepted: Accepted | None = None
        self.warnings: list[str] = []
        """Texts for `Warning` headers."""
        self.audit: Record | None = None
        """The audit record of this request; None if it is not recorded."""
        self.audit_annotations: dict[str, str] = {}
        """Annotations for the audit event of this request, by key (`authorization.k8s.io/decision`)."""

    @property
    def served(self) -> Resource:
        """The resource this request is about, once the router has found it."""
        assert self.resource is not None
        return self.resource
