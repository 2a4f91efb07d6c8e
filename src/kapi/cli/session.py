"""The session of a command: from options to a connection, from names to resources, from errors to an exit code.

Commands are coroutines that take a `Session`; `run` opens it, runs them and returns the exit code. Errors of one object
of several are added to `failures` and the command continues; errors that concern all of them are raised.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.errors import ApiError, NotFound
from kapi.api.meta import GroupVersionResource
from kapi.cli.printer import CommandError, complain, error_text
from kapi.client import ClientConfig, ClientError, DiscoveryClient, DynamicClient, RESTClient, RESTMapper
from kapi.client.config import default_paths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.api.meta import Object
    from kapi.cli.manifests import Manifest
    from kapi.client import APIResource, ResourceClient

LOCAL_KUBECONFIG: Final = Path(".kapi") / "admin.kubeconfig"
"""The kubeconfig that `kapi up` writes by default: used when no other is configured."""

FAILED: Final = 1
INTERRUPTED: Final = 130
_NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


@dataclass(frozen=True, slots=True)
class Connection:
    """The options all commands share; those that are None were not given."""

    namespace: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    token: str | None = None
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None

    def config(self) -> ClientConfig:
        """Return the client configuration of these options and the files they name."""
        kubeconfig = self.kubeconfig
        if kubeconfig is None and self.server is None and not self._is_configured():
            if not LOCAL_KUBECONFIG.is_file():
                raise CommandError(
                    "no cluster is configured; start one with `kapi up`, or name one with $KUBECONFIG, --kubeconfig or "
                    "--server"
                )
            kubeconfig = str(LOCAL_KUBECONFIG)
        return ClientConfig.load(
            kubeconfig=kubeconfig, context=self.context or "", server=self.server or "", **self._overrides()
        )

    @staticmethod
    def _is_configured() -> bool:
        return any(path.is_file() for path in default_paths()) or bool(os.environ.get("KUBERNETES_SERVICE_HOST"))

    def _overrides(self) -> dict[str, Any]:
        values = {
            "token": self.token,
            "ca_file": Path(self.certificate_authority) if self.certificate_authority else None,
            "cert_file": Path(self.client_certificate) if self.client_certificate else None,
            "key_file": Path(self.client_key) if self.client_key else None,
            "insecure": self.insecure,
            "tls_server_name": self.tls_server_name,
            "impersonate_user": self.as_user,
            "impersonate_groups": self.as_groups,
            "timeout": self.request_timeout,
            "namespace": self.namespace,
        }
        return {key: value for key, value in values.items() if value}


class Target(NamedTuple):
    """A resource, and one object of it when a name was given."""

    resource: APIResource
    name: str


@dataclass(slots=True)
class Session:
    """A connected client and the namespace. `namespace_given` is true if the user chose the namespace by an option."""

    rest: RESTClient
    namespace: str
    namespace_given: bool = False
    failures: list[Exception] = field(default_factory=list)
    mapper: RESTMapper = field(init=False)
    dynamic: DynamicClient = field(init=False)

    def __post_init__(self) -> None:
        self.mapper = RESTMapper(DiscoveryClient(self.rest))
        self.dynamic = DynamicClient(self.rest)

    def client(self, resource: APIResource, namespace: str | None = None) -> ResourceClient:
        """The client of a resource in a namespace, which is the session's unless given."""
        inside = self.namespace if namespace is None else namespace
        return self.dynamic.resource(resource.gvr, inside if resource.namespaced else "")

    async def get(self, resource: APIResource, name: str, **options: Any) -> Object:
        """One object; when it is missing because its namespace is, the error says so."""
        client = self.client(resource)
        try:
            return await client.get(name, **options)
        except NotFound:
            if client.namespace not in ("", "default"):
                await self.dynamic.resource(_NAMESPACES).get(client.namespace)
            raise

    async def targets(self, arguments: Sequence[str]) -> list[Target]:
        """Return the targets of arguments such as `pods`, `pods,services`, `pod a b`, `pod/a deploy/b` or `all`."""
        if not arguments:
            raise CommandError("You must specify the type of resource, for example: pods")
        slashes = sum("/" in argument for argument in arguments)
        if slashes == len(arguments):
            return [await self._pair(argument) for argument in arguments]
        if slashes:
            raise CommandError("a resource and TYPE/NAME arguments cannot be mixed; write every one as TYPE/NAME")
        resources: list[APIResource] = []
        for part in filter(None, arguments[0].split(",")):
            resources += await self.mapper.by_category(part) or [await self.mapper.by_name(part)]
        names = arguments[1:] or [""]
        return [Target(resource, name) for resource in dict.fromkeys(resources) for name in names]

    async def _pair(self, argument: str) -> Target:
        kind, _, name = argument.partition("/")
        if not kind or not name or "/" in name or "," in kind:
            raise CommandError(f'"{argument}": expected one resource and one name, as in pod/a')
        return Target(await self.mapper.by_name(kind), name)

    async def locate(self, manifest: Manifest) -> tuple[APIResource, str]:
        """Return the resource and the namespace of a manifest; its metadata.namespace is set to that."""
        try:
            resource = await self.mapper.by_kind(manifest.gvk)
        except ClientError as error:
            raise CommandError(
                f'resource mapping not found for name: "{manifest.name}" namespace: "{manifest.namespace}" '
                f'from "{manifest.source}": {error}\nensure CRDs are installed first'
            ) from None
        metadata = manifest.obj["metadata"]
        if not resource.namespaced:
            metadata.pop("namespace", None)
            return resource, ""
        if self.namespace_given and manifest.namespace not in ("", self.namespace):
            raise CommandError(
                f'the namespace from the provided object "{manifest.namespace}" does not match the namespace '
                f"\"{self.namespace}\". You must pass '--namespace={manifest.namespace}' to perform this operation."
            )
        metadata["namespace"] = manifest.namespace or self.namespace
        return resource, metadata["namespace"]


def run(connection: Connection, command: Callable[[Session], Awaitable[None]]) -> int:
    """Run a command against the server the options name; the exit code."""
    try:
        failures = asyncio.run(_run(connection, command))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has exited. Python would fail once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ApiError, ClientError, CommandError) as error:
        failures = [error]
    if failures:
        complain(error_text(failures))
    return FAILED if failures else 0


async def _run(connection: Connection, command: Callable[[Session], Awaitable[None]]) -> list[Exception]:
    config = connection.config()
    seen: set[str] = set()

    def warn(text: str) -> None:
        if text not in seen:
            seen.add(text)
            complain(f"Warning: {text}")

    async with RESTClient(config, on_warning=warn) as rest:
        session = Session(rest, config.namespace, namespace_given=connection.namespace is not None)
        try:
            await command(session)
        except (ApiError, ClientError, CommandError) as error:
            session.failures.append(error)
        return session.failures
