"""The parts of a server that stages and handlers use: catalog, authentication, authorization, admission, clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kapi.server.largerequests import LargeRequests
from kapi.server.transport.memory import MemoryAccount
from kapi.server.turns import Turns

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.registry.catalog import Catalog
    from kapi.server.admission.chain import Admission
    from kapi.server.aggregation.aggregator import Aggregator
    from kapi.server.audit.auditor import Auditor
    from kapi.server.authn.authenticator import Authenticator
    from kapi.server.authn.tokenissuer import TokenIssuer
    from kapi.server.authz.authorizer import Authorizer
    from kapi.server.flowcontrol.control import FlowControl
    from kapi.server.pages.health import Health
    from kapi.server.pages.metrics import Metrics


@dataclass(slots=True)
class Services:
    """The parts of one server, assembled once by the control plane."""

    catalog: Catalog
    clock: Clock
    authenticator: Authenticator
    authorizer: Authorizer
    admission: Admission
    health: Health
    metrics: Metrics
    memory: MemoryAccount = field(default_factory=MemoryAccount)
    """The bytes held for peers; the same account as that of the transport."""
    large: LargeRequests = field(default_factory=LargeRequests)
    """The requests with large bodies."""
    flowcontrol: FlowControl | None = None
    """Flow control; None if every request runs at once."""
    auditor: Auditor | None = None
    """The audit stage; None if nothing is recorded."""
    token_issuer: TokenIssuer | None = None
    """The issuer of service account tokens; None if none are issued."""
    turns: Turns = field(default_factory=Turns)
    """Turns at the event loop, for long work."""
    aggregator: Aggregator | None = None
    """The way to other API servers; None if there is none, and this server serves everything itself."""
    address: str = ""
    """The host:port at which clients reach this server, as discovery reports it."""
