"""Registration: the webhook configurations of a server, derived from its functions and kept current.

    registration = Registration(client, "networks", service="default/networks")
    server = WebhookServer(certificates=certificates, registration=registration)

    @server.validating(Network)
    async def validate(request: AdmissionRequest[Network]) -> None: ...

The server writes a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration of that name when it listens, by
server-side apply, and again when its authority changes. Paths, names and rules come from the classes. What others set
in the same objects, such as another webhook, stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kapi.api.errors import NotFound
from kapi.controller.webhook.injection import inject_ca

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.client.client import Client
    from kapi.controller.webhook.admission import Operation

API_VERSION: Final = "admissionregistration.k8s.io/v1"
KINDS: Final = {"validate": "ValidatingWebhookConfiguration", "mutate": "MutatingWebhookConfiguration"}
FIELD_MANAGER: Final = "kapi-webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The requests that a webhook is called for, besides its kind, and how. The defaults are those of Kubernetes."""

    operations: Sequence[Operation] = ("CREATE", "UPDATE")
    subresource: str = ""
    """`status`, `scale`, … for requests to that sub-resource instead of the object itself."""
    scope: Literal["*", "Cluster", "Namespaced"] = "*"
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What happens when the webhook cannot be called."""
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_seconds: int = 10
    namespace_selector: Mapping[str, Any] | None = None
    object_selector: Mapping[str, Any] | None = None
    conditions: Mapping[str, str] | None = None
    """CEL expressions by name, all of which must be true."""
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    """For mutating webhooks: IfNeeded, to be called again when a later one has changed the object."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a server."""

    action: Literal["validate", "mutate"]
    gvk: GroupVersionKind
    path: str
    match: Match

    @property
    def name(self) -> str:
        """The name in the configuration, unique in it and of at least three segments."""
        where = f"{self.match.subresource}." if self.match.subresource else ""
        return f"{self.action}.{self.gvk.version}.{where}{self.gvk.kind.lower()}.{self.gvk.group or 'core'}"


def path_for(action: str, gvk: GroupVersionKind, subresource: str = "") -> str:
    """Return the path of a webhook, in the form that controller-runtime gives it: /validate-apps-v1-deployment."""
    group = gvk.group.replace(".", "-")
    return "/" + "-".join(one for one in (action, group, gvk.version, gvk.kind.lower(), subresource) if one)


def webhook_object(hook: Hook, resource: str) -> Object:
    """Return a webhook as a configuration has it, but for its address."""
    match = hook.match
    named = f"{resource}/{match.subresource}" if match.subresource else resource
    webhook: Object = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "rules": [
            {
                "apiGroups": [hook.gvk.group],
                "apiVersions": [hook.gvk.version],
                "resources": [named],
                "operations": list(match.operations),
                "scope": match.scope,
            }
        ],
        "failurePolicy": match.failure_policy,
        "matchPolicy": match.match_policy,
        "sideEffects": match.side_effects,
        "timeoutSeconds": match.timeout_seconds,
        # Empty selectors select everything; without one, nothing is selected.
        "namespaceSelector": dict(match.namespace_selector or {}),
        "objectSelector": dict(match.object_selector or {}),
    }
    if hook.action == "mutate":
        webhook["reinvocationPolicy"] = match.reinvocation_policy
    if match.conditions:
        webhook["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in match.conditions.items()
        ]
    return webhook


class Registration:
    """The configurations of one server.

    `client` needs the rights to get, create and patch them. The API server calls `service` (`NAMESPACE/NAME`, with
    `:PORT` unless it is 443), or `url`, to which paths are appended: `https://127.0.0.1:9443` for development. With
    `removes`, the configurations are deleted when the server stops; without, requests fail or pass, as the failure
    policies say, until it is back. `definitions` are the names of those whose objects this server converts: the
    authority is put into them, which takes the rights to get and update them.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        service: str = "",
        url: str = "",
        removes: bool = False,
        definitions: Iterable[str] = (),
    ) -> None:
        if bool(service) == bool(url):
            raise ValueError("a registration has a service or a URL")
        if service and service.count("/") != 1:
            raise ValueError(f"service {service!r}: expected NAMESPACE/NAME or NAMESPACE/NAME:PORT")
        if url and not url.startswith("https://"):
            raise ValueError(f"url {url!r}: API servers call https:// only")
        self.name = name
        self._client = client
        self._service = service
        self._url = url.rstrip("/")
        self._removes = removes
        self._definitions = tuple(definitions)
        self._injected = ""
        self._written: dict[str, Object] = {}

    async def apply(self, hooks: Sequence[Hook], ca_bundle: str, port: int) -> None:
        """Write the configurations, where they differ from what was written before."""
        for action, kind in KINDS.items():
            mine = [hook for hook in hooks if hook.action == action]
            if not mine:
                continue
            webhooks = await asyncio.gather(*(self._webhook(hook, ca_bundle, port) for hook in mine))
            configuration = {
                "apiVersion": API_VERSION,
                "kind": kind,
                "metadata": {"name": self.name},
                "webhooks": webhooks,
            }
            if self._written.get(kind) != configuration:
                await self._client.apply(configuration, field_manager=FIELD_MANAGER, force=True)
                self._written[kind] = configuration
        if self._definitions and self._injected != ca_bundle:
            await inject_ca(self._client, ca_bundle, definitions=self._definitions)
            self._injected = ca_bundle

    async def remove(self) -> None:
        """Delete the configurations, where that was asked for."""
        if not self._removes:
            return
        for kind in list(self._written):
            with contextlib.suppress(NotFound):
                await self._client.delete((API_VERSION, kind), self.name)
            del self._written[kind]

    async def _webhook(self, hook: Hook, ca_bundle: str, port: int) -> Object:
        resource = await self._client.mapper.by_kind(hook.gvk)
        webhook = webhook_object(hook, resource.resource)
        return {**webhook, "clientConfig": {**self._address(hook.path, port), "caBundle": ca_bundle}}

    def _address(self, path: str, port: int) -> Object:
        if self._url:
            # A port that was chosen at the start is not known when the registration is made.
            return {"url": f"{self._url.replace(':0', f':{port}') if self._url.endswith(':0') else self._url}{path}"}
        namespace, _, name = self._service.partition("/")
        name, _, number = name.partition(":")
        return {"service": {"namespace": namespace, "name": name, "port": int(number or 443), "path": path}}
