"""The condition Available of APIServices, with the reasons and texts of kube-aggregator.

A remote one is available if its Service has an endpoint and the server there answers for the group version. That is
checked after every change of the APIService, the Service or its endpoints, and every 30 seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kapi.api.go.text import quote
from kapi.api.meta import format_time
from kapi.controlplane.bootstrap import BootstrapError, send
from kapi.server.aggregation.apiservices import APISERVICES
from kapi.server.aggregation.documents import DISCOVERY_USER
from kapi.server.aggregation.followers import Followers, Pace
from kapi.server.aggregation.upstream import UpstreamError
from kapi.server.serviceaddress import SERVICE_LABEL, SLICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry, Metric

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.registry.catalog import Catalog
    from kapi.server.aggregation.aggregator import Aggregator
    from kapi.server.aggregation.apiservices import GroupVersionKey, RemoteAPIService
    from kapi.server.transport.inprocess import InProcessTransport

PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
PACE: Final = Pace(interval=30.0, first_backoff=0.005, max_backoff=30.0)
CHECK_SECONDS: Final = 5.0
ATTEMPTS: Final = 5
"""Endpoints of a Service that are tried; one that answers is enough."""

_log = structlog.get_logger("kapi.aggregation")


class Availability(NamedTuple):
    """The state of an APIService."""

    status: str
    reason: str
    message: str


LOCAL: Final = Availability("True", "Local", "Local APIServices are always available")
PASSED: Final = Availability("True", "Passed", "all checks passed")


class ApiServiceAvailability(Collector):
    """Keeps the condition Available of remote APIServices current."""

    def __init__(
        self,
        transport: InProcessTransport,
        catalog: Catalog,
        aggregator: Aggregator,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._transport = transport
        self._catalog = catalog
        self._aggregator = aggregator
        self._clock = clock
        self._followers = Followers(aggregator.services, self._check, self._forget, PACE)
        self._followers.start()
        self._states: dict[str, bool] = {}
        self._failures: dict[tuple[str, str], int] = {}
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, for Prometheus."""
        state = GaugeMetricFamily(
            "aggregator_unavailable_apiservice", "APIServices that are not available.", labels=("name",)
        )
        for name, is_available in self._states.items():
            state.add_metric((name,), 0 if is_available else 1)
        yield state
        failures = CounterMetricFamily(
            "aggregator_unavailable_apiservice", "APIServices found not available.", labels=("name", "reason")
        )
        for labels, count in self._failures.items():
            failures.add_metric(labels, count)
        yield failures

    def describe(self) -> list[Metric]:
        """Return nothing: the two metrics have names that the client library takes for one."""
        return []

    async def run(self) -> None:
        """Check until cancelled."""
        await self._followers.run()

    def _forget(self, key: GroupVersionKey) -> None:
        self._states.pop(f"{key[1]}.{key[0]}", None)

    async def _check(self, api: RemoteAPIService) -> None:
        """Check one APIService and write its condition; UpstreamError if its server does not answer."""
        found = self._of_service(api) or await self._of_server(api)
        self._states[api.name] = found.status == "True"
        if await set_availability(self._transport, self._catalog, self._clock, api.name, found):
            _log.info("availability of an APIService", name=api.name, status=found.status, message=found.message)
            if found.status != "True":
                labels = (api.name, found.reason)
                self._failures[labels] = self._failures.get(labels, 0) + 1
        if found.reason == "FailedDiscoveryCheck":
            raise UpstreamError(found.message)

    def _of_service(self, api: RemoteAPIService) -> Availability | None:
        """Return why a Service cannot be used; None if it can."""
        namespace, name, port = api.service
        if self._aggregator.services.is_overridden(api.service):
            return None
        where = f"service/{name} in {quote(namespace)}"
        service = self._catalog.get("services", namespace, name)
        if service is None:
            return Availability("False", "ServiceNotFound", f"{where} is not present")
        spec = service["spec"]
        if spec.get("type", "ClusterIP") != "ClusterIP":
            return None
        wanted = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if wanted is None:
            return Availability("False", "ServicePortError", f"{where} is not listening on port {port}")
        slices = [
            one
            for one in self._catalog.list(SLICES, namespace)
            if (one["metadata"].get("labels") or {}).get(SERVICE_LABEL) == name
        ]
        if not slices:
            return Availability("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
        if not any(_has_endpoint(one, wanted.get("name", "")) for one in slices):
            text = f"endpointslices for {where} have no addresses with port name {quote(wanted.get('name', ''))}"
            return Availability("False", "MissingEndpoints", text)
        return None

    async def _of_server(self, api: RemoteAPIService) -> Availability:
        """Ask the server at each of the endpoints; one that answers is enough."""
        try:
            addresses = self._aggregator.services.addresses(api.service)[:ATTEMPTS]
        except LookupError as error:
            return Availability("False", "FailedDiscoveryCheck", str(error.args[0]))
        problems = await asyncio.gather(*(self._problem(api, address) for address in addresses))
        return PASSED if None in problems else Availability("False", "FailedDiscoveryCheck", str(problems[-1]))

    async def _problem(self, api: RemoteAPIService, address: tuple[str, int]) -> str | None:
        """Return why the server at an address does not answer for the group version; None if it does."""
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        url = f"https://{host}:{address[1]}{api.path}"
        aggregator = self._aggregator
        try:
            upstream = aggregator.upstreams.at(api, address)
            document = await aggregator.documents.get_from(
                upstream, api, api.path, DISCOVERY_USER, accept="application/json", seconds=CHECK_SECONDS
            )
        except UpstreamError as error:
            return f"failing or missing response from {url}: Get {quote(url)}: {error}"
        except (OSError, ValueError) as error:
            return f"failing or missing response from {url}: {error}"
        if 200 <= document.status < 300:
            return None
        return f"failing or missing response from {url}: bad status from {url}: {document.status}"


async def set_availability(
    transport: InProcessTransport, catalog: Catalog, clock: Clock, name: str, found: Availability
) -> bool:
    """Write the condition Available of an APIService; returns False if it was so already, or the object is gone."""
    obj = catalog.get(APISERVICES, "", name)
    if obj is None:
        return False
    conditions: list[dict[str, Any]] = (obj.get("status") or {}).get("conditions") or []
    current = next((one for one in conditions if one.get("type") == "Available"), None)
    changed = {"type": "Available", "status": found.status, "reason": found.reason, "message": found.message}
    if current is not None and changed.items() <= current.items():
        return False
    since = format_time(clock.now())
    if current is not None and current.get("status") == found.status:
        since = current.get("lastTransitionTime", since)
    others = [one for one in conditions if one is not current]
    obj["status"] = {"conditions": [*others, {**changed, "lastTransitionTime": since}]}
    try:
        await send(transport, "PUT", f"{PATH}/{name}/status", obj)
    except BootstrapError:
        if catalog.get(APISERVICES, "", name) is not None:
            raise
    return True


def _has_endpoint(found: Object, port: str) -> bool:
    """Return True if a slice has a ready endpoint, and the port of this name."""
    ready = any((one.get("conditions") or {}).get("ready", True) is not False for one in found.get("endpoints") or ())
    return ready and any(one.get("name", "") == port and one.get("port") for one in found.get("ports") or ())
