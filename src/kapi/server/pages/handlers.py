"""The paths that are not resources: discovery, OpenAPI, health, version, metrics, and the index at /."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING

from kapi.api.errors import MethodNotAllowed, NotFound, PageNotFound
from kapi.base.version import VERSION, compiler
from kapi.codec import json
from kapi.registry.store import CATCH_UP_SECONDS
from kapi.server.aggregation.proxy import DISCOVERY_SECONDS
from kapi.server.authn.tokenissuer import DISCOVERY_PATH, KEYS_PATH
from kapi.server.flowcontrol import report
from kapi.server.handlers.respond import json_response, maybe_gzip, plain_only, wants_aggregated
from kapi.server.pages import metrics as metrics_module
from kapi.server.pages.discovery import AGGREGATED, Discovery
from kapi.server.pages.openapi import OpenAPI
from kapi.server.router import is_custom
from kapi.server.transport.message import Response
from kapi.storage.interface import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.services import Services
    from kapi.server.transport.message import StreamResponse

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2"
COMPATIBLE_MINOR = "36"
YEAR = 365 * 24 * 3600

_OF_RESOURCES = frozenset({"api", "apis", "openapi"})
_PUBLIC = ("Cache-Control", "public, max-age=3600")
"""What is served to verify tokens is no secret, and keys are announced before they are used."""


class Pages:
    """The pages of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.discovery = Discovery(services.catalog, services.aggregator)
        aggregator = services.aggregator
        self.openapi = OpenAPI(services.catalog, None if aggregator is None else aggregator.openapi)
        self._exact: dict[str, Callable[[Context], Awaitable[Response]]] = {
            "/": self._index,
            "/version": self._version,
            "/metrics": self._metrics,
            "/metrics/slis": self._slis,
            "/apis": self._apis,
            "/openapi/v2": self._openapi_v2,
            "/openapi/v3": self._openapi_v3_index,
        }
        if "" in services.catalog.groups:
            self._exact["/api"] = self._api
        if services.token_issuer is not None and services.token_issuer.discovery("") is not None:
            self._exact |= {DISCOVERY_PATH: self._openid_configuration, KEYS_PATH: self._openid_keys}

    async def __call__(self, context: Context) -> Response | StreamResponse:
        """Answer a request that is not about a resource."""
        path = context.info.path
        first = path.split("/", 2)[1]
        if first in ("healthz", "livez", "readyz"):
            return self._services.health.answer(path, context.request.query)
        if first in _OF_RESOURCES:
            await self._catch_up()
        path = path.rstrip("/") or "/"
        if (remote := self._remote(path)) is not None:
            return await remote(context)
        page = self._exact.get(path)
        if page is None:
            page = self._below(path)
        method = context.request.method
        if method != "GET" and not (method == "HEAD" and path.startswith(("/openapi/", "/metrics"))):
            raise MethodNotAllowed
        return await page(context)

    async def _catch_up(self) -> None:
        """Wait for definitions that other servers have acknowledged; discovery is served without them if it takes long.

        kubectl reads discovery before anything else, also while the store does not answer.
        """
        hub = self._services.catalog.hub
        with contextlib.suppress(TimeoutError, StorageError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                revision = await hub.storage.latest()
                if revision > hub.revision:
                    await hub.wait_for(revision, seconds=CATCH_UP_SECONDS)

    def _remote(self, path: str) -> Callable[[Context], Awaitable[Response | StreamResponse]] | None:
        """Return the way to the server of a group version; None if the path is not that of one, or is served here."""
        aggregator = self._services.aggregator
        if aggregator is None or not aggregator.services.remote:
            return None
        parts = path.strip("/").split("/")
        key = (parts[1], parts[2]) if parts[0] == "apis" and len(parts) == 3 else ("", parts[-1])
        if parts[0] not in ("api", "apis") or len(parts) != (3 if parts[0] == "apis" else 2):
            return None
        api = aggregator.services.remote.get(key)
        return None if api is None else partial(aggregator.proxy.forward, api=api, seconds=DISCOVERY_SECONDS)

    def _below(self, path: str) -> Callable[[Context], Awaitable[Response]]:
        if path.startswith("/openapi/v3/"):
            return self._openapi_v3
        if path.startswith(report.PREFIX):
            return self._flow_control
        if path.startswith(("/api/", "/apis/")):
            return self._group
        raise PageNotFound

    async def _index(self, context: Context) -> Response:
        paths = {*self._exact, *self._services.health.paths()} - {"/"}
        for group, versions in self.discovery.group_versions().items():
            root = f"/apis/{group}" if group else "/api"
            paths |= {root, *(f"{root}/{version}" for version in versions)}
        return json_response(context, 200, {"paths": sorted(paths)})

    async def _version(self, context: Context) -> Response:
        return Response(200, [("Content-Type", "application/json")], json.encode_pretty(version_info()))

    async def _metrics(self, context: Context) -> Response:
        return Response(200, [("Content-Type", metrics_module.CONTENT_TYPE)], await self._services.metrics.page())

    async def _slis(self, context: Context) -> Response:
        return Response(200, [("Content-Type", metrics_module.CONTENT_TYPE)], self._services.metrics.render_slis())

    async def _flow_control(self, context: Context) -> Response:
        control = self._services.flowcontrol
        if control is None:
            raise PageNotFound
        details = context.query.get("includeRequestDetails", "") in ("1", "true")
        text = report.page(control, context.info.path, details=details)
        if text is None:
            raise PageNotFound
        return Response(200, [("Content-Type", "text/plain; charset=utf-8")], text.encode())

    # -- service account tokens -------------------------------------------------------------------------------------

    async def _openid_configuration(self, context: Context) -> Response:
        assert self._services.token_issuer is not None
        body = self._services.token_issuer.discovery(self._services.address) or b""
        return Response(200, [("Content-Type", "application/json"), _PUBLIC], body)

    async def _openid_keys(self, context: Context) -> Response:
        assert self._services.token_issuer is not None
        return Response(
            200, [("Content-Type", "application/jwk-set+json"), _PUBLIC], self._services.token_issuer.key_set()
        )

    # -- discovery --------------------------------------------------------------------------------------------------

    async def _api(self, context: Context) -> Response:
        if wants_aggregated(context):
            return self._aggregated(context, core=True)
        return json_response(context, 200, self.discovery.api_versions(self._services.address))

    async def _apis(self, context: Context) -> Response:
        if wants_aggregated(context):
            return self._aggregated(context, core=False)
        return json_response(context, 200, self.discovery.group_list())

    def _aggregated(self, context: Context, *, core: bool) -> Response:
        body, etag = self.discovery.aggregated(core=core)
        headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
        if context.request.headers.get("if-none-match") == etag:
            return Response(304, headers)
        return Response(200, [("Content-Type", AGGREGATED), *headers], body)

    async def _group(self, context: Context) -> Response:
        plain_only(context)
        parts = context.info.path.strip("/").split("/")
        document: Object | None
        if parts[0] == "api":
            document = self.discovery.resource_list("", parts[1]) if len(parts) == 2 else None
        elif len(parts) == 2:
            document = self.discovery.group(parts[1])
            if document is None:
                raise PageNotFound
        elif parts[1] not in self._services.catalog.groups:
            raise PageNotFound
        else:
            document = self.discovery.resource_list(parts[1], parts[2]) if len(parts) == 3 else None
        if document is None:
            is_defined = parts[0] == "apis" and is_custom(self._services.catalog.groups[parts[1]])
            raise PageNotFound if is_defined else NotFound.route()
        return json_response(context, 200, document)

    # -- OpenAPI ----------------------------------------------------------------------------------------------------

    async def _openapi_v2(self, context: Context) -> Response:
        accept = context.request.headers.get("accept", "")
        protobuf = V2_PROTOBUF in accept
        if not protobuf and accept and "application/json" not in accept and "*/*" not in accept:
            return Response(406, [("Content-Type", "text/plain; charset=utf-8")])
        etag = f'"{self.openapi.v2_hash}"'
        headers = [("ETag", etag), ("Vary", "Accept-Encoding"), ("Vary", "Accept")]
        if context.request.headers.get("if-none-match") == etag:
            return Response(304, headers)
        body = await self.openapi.v2_document(protobuf=protobuf)
        media = f"{V2_PROTOBUF}.v1.0+protobuf" if protobuf else "application/json"
        return await maybe_gzip(context, Response(200, [("Content-Type", media), *headers], body))

    async def _openapi_v3_index(self, context: Context) -> Response:
        return json_response(context, 200, self.openapi.index())

    async def _openapi_v3(self, context: Context) -> Response:
        key = context.info.path.removeprefix("/openapi/v3/").rstrip("/")
        known = self.openapi.hashes.get(key)
        if known is None:
            return Response(404, [("Content-Type", "text/plain; charset=utf-8")])
        asked = context.query.get("hash")
        if asked and asked != known:
            return Response(301, [("Location", f"/openapi/v3/{key}?hash={known}")])
        etag = f'"{known}"'
        headers = [("ETag", etag), ("Vary", "Accept")]
        if asked:
            expires = formatdate(self._services.clock.now().timestamp() + YEAR, usegmt=True)
            headers += [("Cache-Control", "public, immutable"), ("Expires", expires)]
        if context.request.headers.get("if-none-match") == etag:
            return Response(304, headers)
        body = await self.openapi.v3_document(key)
        return await maybe_gzip(context, Response(200, [("Content-Type", "application/json"), *headers], body))


def version_info() -> dict[str, str]:
    """GET /version: the Kubernetes version we are compatible with, and ours.

    `compiler` is `gc` where Go made the server; here it is `mypyc`, or `cpython` for plain Python.
    """
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": COMPATIBLE_MINOR,
        "emulationMajor": "1",
        "emulationMinor": COMPATIBLE_MINOR,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(int(COMPATIBLE_MINOR) - 1),
        "gitVersion": f"v1.{COMPATIBLE_MINOR}.0+kapi-{VERSION}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": compiler(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
