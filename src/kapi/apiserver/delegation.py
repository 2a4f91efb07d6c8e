"""Delegated authentication and authorization: the cluster says who a client is, and what it may do.

A request comes through the cluster's aggregator, which has authenticated its user and names it in headers. The headers
count with the certificate of the aggregator alone; its authority, and the names of the headers, are in the ConfigMap
`extension-apiserver-authentication`, which is followed. A client that connects directly shows a certificate of the
cluster, or a token, about which the cluster is asked with a TokenReview. What the user may do is asked with a
SubjectAccessReview. Answers are remembered for ten seconds, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from kapi.api.errors import ApiError
from kapi.base.http import Endpoint, Outbound, OutboundError
from kapi.base.httpconnection import Answer
from kapi.base.trust import Authorities
from kapi.client.errors import ClientError
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.frontproxy import FrontProxy, ProxyHeaders
from kapi.server.authn.tokens import TokenSources
from kapi.server.authn.tokenwebhook import TokenWebhook
from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules, Authorizer
from kapi.server.authz.superuser import PrivilegedGroup
from kapi.server.authz.webhook import WebhookAuthorizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.user import User
    from kapi.base.clock import Clock
    from kapi.client.rest import RESTClient
    from kapi.server.authn.authenticator import LocalAuthenticator
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.authorizer import Decision
    from kapi.server.transport.message import Request

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (a path)
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REMEMBERED_SECONDS: Final = 10.0
ALWAYS_ALLOWED: Final = ("/healthz", "/livez", "/readyz")
RETRY_SECONDS: Final = 5.0

_log = structlog.get_logger("kapi.apiserver")


class ClusterCalls(Outbound):
    """Calls of the cluster's API server, with the credentials of a client; the URL of an endpoint is a path."""

    def __init__(self, rest: RESTClient) -> None:
        super().__init__()
        self._rest = rest

    async def post(
        self, endpoint: Endpoint, body: bytes, *, seconds: float, limit: int, once: bool = False, timed_out: str = ""
    ) -> Answer:
        """POST JSON and wait for the answer. Raises `OutboundError`."""
        try:
            answer = await self._rest.send("POST", endpoint.url, body=body, timeout=seconds)
        except ApiError as error:
            return Answer(error.code, "application/json", msgspec.json.encode(error.status()))
        except (ClientError, OSError) as error:
            raise OutboundError(str(error)) from None
        return Answer(answer.status, "application/json", answer.json_body())


class _Current:
    """A `LocalAuthenticator` that is replaced while requests are served; without one it recognizes nothing."""

    def __init__(self) -> None:
        self.member: LocalAuthenticator | None = None

    def identify(self, request: Request) -> User | None:
        """Ask the authenticator that is in use now."""
        return None if self.member is None else self.member.identify(request)


class ClusterAuthentication:
    """The authenticators that are made of what the cluster publishes: of its aggregator, and of its certificates.

    `changed` is called with the authorities that clients' certificates may have, in PEM, whenever they change.
    """

    def __init__(self, clock: Clock, changed: Callable[[bytes], None]) -> None:
        self._clock = clock
        self._changed = changed
        self.proxy, self.clients = _Current(), _Current()
        self._data: Mapping[str, str] = {}

    def configure(self, data: Mapping[str, str]) -> None:
        """Use what the ConfigMap says from now on; ValueError if it cannot be read, and what was known stays."""
        if data == self._data:
            return
        proxies, clients = (data.get(key, "") for key in ("requestheader-client-ca-file", "client-ca-file"))
        proxy = None
        if proxies:
            headers = ProxyHeaders(
                username=_names(data, "requestheader-username-headers"),
                uid=_names(data, "requestheader-uid-headers"),
                group=_names(data, "requestheader-group-headers"),
                extra_prefix=_names(data, "requestheader-extra-headers-prefix"),
                allowed_names=_names(data, "requestheader-allowed-names"),
            )
            proxy = FrontProxy(Authorities(proxies.encode()), headers, self._clock)
        certificates = ClientCertificates(Authorities(clients.encode()), self._clock) if clients else None
        self.proxy.member, self.clients.member, self._data = proxy, certificates, dict(data)
        if proxies or clients:
            self._changed("\n".join(dict.fromkeys(one for one in (proxies, clients) if one)).encode())


def _names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(data.get(key) or "[]", type=list[str]))


class AllowedPaths:
    """The authorizer of the paths that every client may read: health checks."""

    def decide(self, attributes: Attributes) -> Decision:
        """Allow these paths; no opinion on others."""
        first = attributes.path.split("/", 2)[1:2]
        is_allowed = not attributes.is_resource and first and f"/{first[0]}" in ALWAYS_ALLOWED
        return ALLOW if is_allowed and attributes.verb in ("get", "head") else NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return the paths."""
        return AccessRules([], [{"verbs": ["get"], "nonResourceURLs": list(ALWAYS_ALLOWED)}])


class Delegation:
    """The authenticator and the authorizer of a server that belongs to a cluster."""

    def __init__(self, rest: RESTClient, clock: Clock, changed: Callable[[bytes], None]) -> None:
        self._rest = rest
        calls = ClusterCalls(rest)
        tokens = TokenWebhook(Endpoint(TOKEN_REVIEWS), calls, (), clock, version="v1", ttl=REMEMBERED_SECONDS)
        self._cluster = ClusterAuthentication(clock, changed)
        self.authenticator = Authenticator(TokenSources((), tokens), self._cluster.proxy, self._cluster.clients)
        reviews = WebhookAuthorizer(
            Endpoint(ACCESS_REVIEWS),
            authorized_seconds=REMEMBERED_SECONDS,
            unauthorized_seconds=REMEMBERED_SECONDS,
            clock=clock,
            outbound=calls,
        )
        self.authorizer = Authorizer(PrivilegedGroup(), AllowedPaths(), reviews)

    async def read(self) -> str:
        """Read the ConfigMap; returns its resourceVersion. Raises `ApiError`, `ClientError`, ValueError."""
        found: Any = await self._rest.request("GET", f"{CONFIG_MAPS}/{CONFIG_MAP}")
        self._cluster.configure(found.get("data") or {})
        version: str = found["metadata"]["resourceVersion"]
        return version

    async def follow(self) -> None:
        """Keep what the ConfigMap says current, until cancelled."""
        while True:
            try:
                await self._watch(await self.read())
            except (ApiError, ClientError, ValueError) as error:
                _log.warning("the ConfigMap of the cluster's authentication cannot be read", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, version: str) -> None:
        query = {"watch": "true", "fieldSelector": f"metadata.name={CONFIG_MAP}", "resourceVersion": version}
        async with self._rest.stream(CONFIG_MAPS, query=query) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] != "DELETED":
                    self._cluster.configure(event["object"].get("data") or {})
