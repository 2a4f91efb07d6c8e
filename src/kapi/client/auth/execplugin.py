"""Credentials from a program: the exec plugins of kubeconfigs, by the protocol of `client.authentication.k8s.io`.

The program is started directly, never through a shell, and is told about the request in `KUBERNETES_EXEC_INFO`. What it
prints on standard output is an ExecCredential and is never logged; what it prints on standard error goes to ours.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kapi.api.meta import parse_time
from kapi.base.clock import SystemClock
from kapi.client.errors import ConfigError
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from kapi.base.clock import Clock

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
CLUSTER_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a kubeconfig's cluster that is handed to plugins which ask for it."""

_INFO: Final = "KUBERNETES_EXEC_INFO"
_MAX_OUTPUT: Final = 1024 * 1024
_MODES: Final = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """A plugin as a kubeconfig describes it. Arguments and environment may hold secrets and are not printed."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"
    cluster_config: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.command:
            raise ConfigError("an exec plugin needs a command")
        if self.api_version not in API_VERSIONS:
            raise ConfigError(
                f"exec plugin {self.command}: apiVersion {self.api_version!r} is not known; use {API_VERSIONS[0]}"
            )
        if self.interactive_mode not in _MODES:
            raise ConfigError(f"exec plugin {self.command}: interactiveMode must be one of {', '.join(_MODES)}")


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster that an exec plugin is told about."""

    server: str
    tls_server_name: str = ""
    insecure: bool = False
    ca_data: bytes = b""
    proxy: str = field(default="", repr=False)

    def document(self, config: Any) -> dict[str, Any]:
        """In the form of an ExecCredential's `spec.cluster`."""
        fields = {
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": self.insecure,
            "certificate-authority-data": base64.b64encode(self.ca_data).decode(),
            "proxy-url": self.proxy,
            "config": config,
        }
        return {"server": self.server, **{key: value for key, value in fields.items() if value}}


@dataclass(frozen=True, slots=True, eq=False)
class PluginCredentials:
    """The credentials a plugin printed: a token, a certificate with its key, or both. Compared by identity."""

    token: str = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    expires: dt.datetime | None


class ExecPlugin:
    """A plugin and what it last gave.

    It runs when credentials are first needed, when they have expired, and when they were `reject`ed. Callers at the
    same time share one run, and one that gives up waiting does not stop it: a person may be in the middle of signing
    in.
    """

    def __init__(
        self,
        config: ExecConfig,
        cluster: Callable[[], ClusterInfo],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._given: PluginCredentials | None = None
        self._running: asyncio.Task[PluginCredentials] | None = None

    async def credentials(self) -> PluginCredentials:
        """Credentials that have not expired; `ConfigError` when the plugin fails."""
        given = self._given
        if given is not None and (given.expires is None or self._clock.now() < given.expires):
            return given
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name=f"exec plugin {self._config.command}")
            self._running.add_done_callback(self._finished)
        return await asyncio.shield(self._running)

    def reject(self, credentials: PluginCredentials) -> None:
        """The server did not accept these; if they are still the newest, the next ones come from a new run."""
        if self._given is credentials:
            self._given = None

    async def close(self) -> None:
        """Stop a run that is under way."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConfigError):
                await self._running

    def _finished(self, task: asyncio.Task[PluginCredentials]) -> None:
        self._running = None
        # Reading the exception marks it as retrieved, in case no caller waits any more.
        if not task.cancelled() and task.exception() is None:
            self._given = task.result()

    async def _run(self) -> PluginCredentials:
        config = self._config
        program = shutil.which(config.command)
        if program is None:
            hint = f"; {config.install_hint}" if config.install_hint else ""
            raise self._failure(f"executable {config.command} not found{hint}")
        interactive = self._is_interactive()
        environment = {**os.environ, **dict(config.env), _INFO: self._info(interactive=interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *config.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failure(f"executable {config.command}: {error.strerror or error}") from None
        output = await self._output(process)
        if process.returncode:
            raise self._failure(f"executable {config.command} failed with exit code {process.returncode}")
        return self._read(output)

    async def _output(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        try:
            output = bytearray()
            while chunk := await process.stdout.read(_MAX_OUTPUT):
                output += chunk
                if len(output) > _MAX_OUTPUT:
                    raise self._failure(f"executable {self._config.command} printed more than {_MAX_OUTPUT} bytes")
            await process.wait()
            return bytes(output)
        finally:
            if process.returncode is None:
                process.kill()
                # wait() returns when the pipe is closed too. A pipe whose buffer is full is not read any more, so that
                # its end would never be seen.
                while await process.stdout.read(_MAX_OUTPUT):
                    pass
                await process.wait()

    def _is_interactive(self) -> bool:
        mode = self._config.interactive_mode
        if mode == "Never":
            return False
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if mode == "Always" and not has_terminal:
            raise self._failure(f"{self._config.command} is interactive, and standard input is not a terminal")
        return has_terminal

    def _info(self, *, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._config.provide_cluster_info:
            spec["cluster"] = self._cluster().document(self._config.cluster_config)
        return json.encode({"kind": "ExecCredential", "apiVersion": self._config.api_version, "spec": spec}).decode()

    def _read(self, output: bytes) -> PluginCredentials:
        # Nothing of the output may get into an error: a part of it is the secret.
        name = self._config.command
        try:
            document = json.decode(output)
        except DecodeError:
            document = None
        if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
            raise self._failure(f"{name} did not print an ExecCredential in JSON")
        if document.get("apiVersion") != self._config.api_version:
            raise self._failure(f"{name} is configured to speak {self._config.api_version} and printed another version")
        status = document.get("status")
        if not isinstance(status, dict):
            raise self._failure(f"{name} did not print a status")
        token, certificate, key = (
            _text(status.get(key)) for key in ("token", "clientCertificateData", "clientKeyData")
        )
        if bool(certificate) != bool(key):
            raise self._failure(f"{name} gave a certificate or a key, not both")
        if not token and not certificate:
            raise self._failure(f"{name} gave neither a token nor a certificate")
        expires = _text(status.get("expirationTimestamp"))
        moment = parse_time(expires) if expires else None
        if expires and moment is None:
            raise self._failure(f"{name} gave an expirationTimestamp that is no time")
        return PluginCredentials(token, certificate.encode(), key.encode(), moment)

    def _failure(self, why: str) -> ConfigError:
        return ConfigError(f"getting credentials: exec: {why}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
