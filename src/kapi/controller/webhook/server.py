"""The server of an operator's webhooks: paths, and the functions that answer there.

    server = WebhookServer("0.0.0.0", 9443, certificates=SelfSigned.for_service("networks", "default"))

    @server.validating(Network)
    async def validate(request: AdmissionRequest[Network]) -> None:
        if not request.subject.spec.cidr:
            raise Denied("a network needs a cidr")

    @server.mutating(Network)
    def fill_in(network: Network, request: AdmissionRequest[Network]) -> None:
        network.spec.gateway = network.spec.gateway or "10.0.0.1"

    manager.add(server)

Functions may be `async` or not; one that is not must be quick, since everything else waits for it. It runs in every
process, leader or not: the API server picks any. A renewed certificate is taken up without a restart. With a
`Registration` the server writes its own webhook configurations.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import structlog

from kapi.api.errors import ApiError
from kapi.base.log import ensure_configured
from kapi.base.tls import server_context
from kapi.base.webhandler import Response
from kapi.client.errors import ClientError
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.controller.webhook.certificates import SelfSigned
from kapi.controller.webhook.conversion import conversion, through_hub
from kapi.controller.webhook.functions import WebhookFunctions
from kapi.controller.webhook.metrics import WebhookMeter
from kapi.controller.webhook.review import MalformedReview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

    from kapi.base.webhandler import Limits, Request
    from kapi.controller.webhook.admission import Review
    from kapi.controller.webhook.certificates import Certificates
    from kapi.controller.webhook.conversion import Converter, Spoke
    from kapi.controller.webhook.registration import Registration

T = TypeVar("T")
H = TypeVar("H")

REFRESH_SECONDS: Final = 60.0
"""The seconds between two checks of the certificates."""
REGISTRATION_SECONDS: Final = 2.0
"""The seconds until a registration that failed is tried again."""
STOP_SECONDS: Final = 10.0
"""The graceful shutdown period, in seconds."""

_log = structlog.get_logger("kapi.controller")


class WebhookServer(WebhookFunctions):
    """Serves webhooks over HTTPS until stopped; a `Runnable` of a manager.

    `port` is the real one once `wait_started` returns. A malformed review is a 400, everything that is a review gets
    one back.
    """

    name = "webhooks"
    needs_leader_election = False

    def __init__(
        self,
        host: str = "0.0.0.0",  # noqa: S104 - API servers call from elsewhere
        port: int = 9443,
        *,
        certificates: Certificates | None = None,
        registration: Registration | None = None,
        limits: Limits | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self.certificates = certificates or SelfSigned()
        self.port = port
        self._host = host
        self._limits = limits
        self._refresh_seconds = refresh_seconds
        self._registration = registration
        super().__init__()
        self._meter: WebhookMeter | None = None
        self._started = asyncio.Event()
        self._registered = asyncio.Event()
        self._stopping = asyncio.Event()

    # -- paths ------------------------------------------------------------------------------------------------------

    @overload
    def conversion(self, path: str, convert: Converter, /) -> None: ...
    @overload
    def conversion(self, path: str, /, *, hub: type[H], spokes: Sequence[Spoke[Any, H]]) -> None: ...
    def conversion(
        self, path: str, convert: Converter | None = None, /, *, hub: Any = None, spokes: Sequence[Spoke[Any, Any]] = ()
    ) -> None:
        """Convert objects between versions: by one function, or through a hub."""
        if (convert is None) == (hub is None):
            raise TypeError("a conversion is one function, or a hub and its spokes")
        self._add(path, conversion(convert if convert is not None else through_hub(hub, spokes)))

    def _add(self, path: str, review: Review) -> None:
        super()._add(path, review)
        if self._meter is not None:
            self._meter.expect(path)

    def measure(self, registry: CollectorRegistry, /) -> None:
        """Count calls in a registry; a manager that the server is added to sees to it."""
        self._meter = WebhookMeter(registry)
        for path in self._reviews:
            self._meter.expect(path)

    # -- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until stopped. `OSError` when the port or the certificate cannot be had."""
        if self._stopping.is_set():
            return
        from kapi.base.webserver import WebServer

        ensure_configured()
        await asyncio.to_thread(self.certificates.ensure)
        context = server_context(self.certificates.files)
        shown = await asyncio.to_thread(self._certificate)
        async with WebServer(
            self._answer, host=self._host, port=self.port, context=context, limits=self._limits, grace=STOP_SECONDS
        ) as server:
            self.port = server.port
            self._started.set()
            _log.info("serving webhooks", host=self._host, port=self.port, paths=sorted(self._reviews))
            await self._register()
            while not await self._stopped_within(self._refresh_after):
                try:
                    latest = await asyncio.to_thread(self._renewed)
                    if latest != shown:
                        context.load_cert_chain(self.certificates.files.certificate, self.certificates.files.key)
                        shown = latest
                        _log.info("took up a renewed certificate")
                except Exception:
                    _log.exception("the certificate could not be renewed; the old one stays")
                else:
                    await self._register()
            if self._registration is not None:
                await self._registration.remove()

    @property
    def _refresh_after(self) -> float:
        if self._registration is None or self._registered.is_set():
            return self._refresh_seconds
        return min(self._refresh_seconds, REGISTRATION_SECONDS)

    async def _register(self) -> None:
        """Write the configurations; a failure is logged, and it is tried again."""
        if self._registration is None:
            return
        try:
            bundle = await asyncio.to_thread(self.ca_bundle)
            await self._registration.apply(self._hooks, bundle, self.port)
        except (ApiError, ClientError, ValueError) as error:  # ValueError: a definition without a conversion webhook
            self._registered.clear()
            _log.warning("webhook configurations could not be written", name=self._registration.name, error=str(error))
        else:
            self._registered.set()

    async def wait_registered(self) -> None:
        """Until the API server has the webhook configurations."""
        await self._registered.wait()

    def stop(self) -> None:
        """Stop gracefully: calls in progress are answered, then `run` returns."""
        self._stopping.set()

    async def wait_started(self) -> None:
        """Until the server listens."""
        await self._started.wait()

    def ca_bundle(self) -> str:
        """Return the CA bundle of this server."""
        return self.certificates.ca_bundle()

    def _certificate(self) -> bytes:
        return self.certificates.files.certificate.read_bytes()

    def _renewed(self) -> bytes:
        """The certificate as it is now, after a look at whether it can be used at all."""
        self.certificates.ensure()
        # A certificate without its key, half of a change, would spoil the context that is in use.
        server_context(self.certificates.files)
        return self._certificate()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _answer(self, request: Request) -> Response:
        review = self._reviews.get(request.path)
        if review is None:
            return Response(404, b"there is no webhook at this path\n")
        if self._meter is None:
            return await self._reviewed(review, request)
        with self._meter.call(request.path) as call:
            response = await self._reviewed(review, request)
            call.status = response.status
            return response

    async def _reviewed(self, review: Review, request: Request) -> Response:
        if request.method != "POST":
            return Response(405, b"reviews are sent by POST\n")
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            return Response(415, b"reviews are sent as application/json\n")
        try:
            answer = await review(json.decode(request.body))
        except (DecodeError, MalformedReview) as error:
            return Response(400, f"{error}\n".encode())
        return Response(200, json.encode(answer), "application/json")
