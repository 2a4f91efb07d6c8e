"""The servers an environment can use: one in this process, one in a child process, or an existing cluster."""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kapi.base.clock import SystemClock
from kapi.client.config import ClientConfig
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.controllers.names import NAMES, SERVICEACCOUNT
from kapi.controlplane.loopback import SERVER, Loopback
from kapi.controlplane.options import Options
from kapi.storage.memory import MemoryStorage
from kapi.testing.threads import import_before_threads

if TYPE_CHECKING:
    from collections.abc import Collection

    from kapi.base.clock import Clock
    from kapi.client.transport.interface import Transport
    from kapi.controller.webhook import WebhookFunctions
    from kapi.storage.memory import Snapshot

KUBECONFIG_VARIABLE: Final = "KAPI_TEST_KUBECONFIG"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
MASTERS: Final = "system:masters"
_QUIET_TURNS: Final = 25
_MAX_TURNS: Final = 5000


class User(NamedTuple):
    """A user of the API: a name and groups. What it may do is up to RBAC."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN: Final = User("kubernetes-admin", (MASTERS,))


class Unsupported(RuntimeError):
    """The environment cannot do this with its server: it needs a control plane in this process."""


class Server(Protocol):
    """A running API server."""

    @property
    def clock(self) -> Clock:
        """The time of the server, as far as it is known."""
        ...

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        ...

    async def stop(self) -> None:
        """Stop it."""
        ...

    def config(self, user: User) -> ClientConfig:
        """The configuration of a user's client."""
        ...

    def transport(self, user: User, config: ClientConfig) -> Transport:
        """The transport of a user's client."""
        ...

    async def kubeconfig(self) -> Path:
        """The path of a kubeconfig of the admin."""
        ...


class InProcessServer:
    """A control plane on the running event loop, with its objects in memory and no port until one is asked for.

    The first one in a process creates the objects that every cluster has; later ones begin with a copy of them.
    """

    def __init__(
        self,
        controllers: frozenset[str],
        clock: Clock,
        *,
        listen: bool = False,
        snapshot: Snapshot | None = None,
        webhooks: WebhookFunctions | None = None,
    ) -> None:
        self._webhooks = webhooks
        self._controllers = controllers
        self.clock = clock
        self._listen = listen
        self._snapshot = snapshot
        self.plane: ControlPlane
        self.storage: MemoryStorage

    async def start(self) -> None:
        """Start the control plane."""
        import_before_threads()
        # Before anything that can fail: `stop` deletes it.
        self._folder = Path(tempfile.mkdtemp(prefix="env-", dir=_scratch()))
        # What is created at the first start has the time of that start in it.
        key = (self._controllers, type(self.clock))
        snapshot = self._snapshot or _seeds.get(key)
        self.storage = MemoryStorage() if snapshot is None else MemoryStorage.from_snapshot(snapshot)
        options = Options(
            data_dir=_scratch(),
            port=0,
            storage="memory",
            listen=self._listen,
            kubeconfig=self._folder / "kubeconfig",
            controllers=self._controllers,
            admission=AdmissionOptions(disabled=_disabled_plugins(self._controllers)),
        )
        is_populated = snapshot is not None
        self.plane = ControlPlane(
            options, clock=self.clock, storage=self.storage, is_populated=is_populated, webhooks=self._webhooks
        )
        await self.plane.start()
        if not is_populated:
            await self._until_quiet()
            _seeds[key] = self.storage.snapshot()

    async def _until_quiet(self) -> None:
        """Wait until the control plane writes nothing more by itself, such as the status of what it has created."""
        quiet, revision = 0, self.storage.revision
        for _ in range(_MAX_TURNS):
            await asyncio.sleep(0)
            quiet = quiet + 1 if revision == self.storage.revision else 0
            revision = self.storage.revision
            if quiet >= _QUIET_TURNS:
                return

    async def stop(self) -> None:
        """Stop the control plane, or what has been started of it."""
        if hasattr(self, "plane"):
            await self.plane.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def config(self, user: User) -> ClientConfig:
        """The configuration of a client that sends nothing over the network."""
        return ClientConfig(SERVER)

    def transport(self, user: User, config: ClientConfig) -> Transport:
        """A transport that calls the control plane as the user."""
        return Loopback(self.plane.transport.acting_as(user.name, user.groups), config.user_agent)

    async def listen(self) -> str:
        """Listen on a port of the loopback interface, and return the address."""
        await self.plane.listen()
        return self.plane.url

    async def kubeconfig(self) -> Path:
        """Listen, and return the path of the admin's kubeconfig."""
        await self.listen()
        return self.plane.options.kubeconfig_path


def _disabled_plugins(controllers: frozenset[str]) -> frozenset[str]:
    """The admission plug-ins that make no sense without some controllers: every Pod would be refused, as in envtest."""
    return frozenset() if SERVICEACCOUNT in controllers else frozenset({"ServiceAccount"})


_seeds: dict[object, Snapshot] = {}
"""What every cluster has, by what it depends on."""


class _Scratch:
    """The folder of this process for keys and kubeconfigs; deleted at its end."""

    path: Path | None = None
    process = 0


def _scratch() -> Path:
    # A process that was forked has a folder of its own: its parent may end first and delete what is in use here.
    if _Scratch.path is None or _Scratch.process != os.getpid():
        _Scratch.path, _Scratch.process = Path(tempfile.mkdtemp(prefix="kapi-testing-")), os.getpid()
        atexit.register(shutil.rmtree, _Scratch.path, ignore_errors=True)
    return _Scratch.path


class _RemoteServer:
    """A server that is reached over the network, with the credentials of an admin; other users are impersonated."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.path = Path()

    def config(self, user: User) -> ClientConfig:
        """The admin's configuration, which impersonates any other user."""
        config = ClientConfig.from_kubeconfig(self.path)
        if user == ADMIN:
            return config
        return dataclasses.replace(config, impersonate_user=user.name, impersonate_groups=user.groups)

    def transport(self, user: User, config: ClientConfig) -> Transport:
        """A transport over HTTP."""
        from kapi.client.transport.httptransport import HTTPTransport
        from kapi.client.transport.proxy import proxy_for

        return HTTPTransport(config, proxy_for(config))

    async def kubeconfig(self) -> Path:
        """The path of the admin's kubeconfig."""
        return self.path


class ProcessServer(_RemoteServer):
    """`kapi up` in a child process, on a free port, with its objects in memory. It ends with this process."""

    def __init__(self, controllers: frozenset[str], options: Collection[str] = ()) -> None:
        super().__init__()
        self._controllers = controllers
        self._options = options
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the child, and wait until it is ready."""
        self._folder = Path(tempfile.mkdtemp(prefix="kapi-testing-"))
        self.path = self._folder / "kubeconfig"
        disabled = ",".join(f"-{name}" for name in sorted(NAMES - self._controllers))
        arguments = ["up", "--storage=memory", "--bind=127.0.0.1:0", f"--data-dir={self._folder / 'data'}"]
        arguments += [f"--kubeconfig={self.path}", f"--controllers=*{disabled and f',{disabled}'}"]
        arguments += [f"--disable-admission-plugins={','.join(_disabled_plugins(self._controllers))}", *self._options]
        self._log = (self._folder / "log").open("wb")
        # The child ends when its standard input does: the write end is this process's, and is closed however it ends.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kapi.testing.child",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line.startswith(b"Ready at "):
            await self.stop(keep_log=True)
            log = (self._folder / "log").read_text(errors="replace")
            shutil.rmtree(self._folder, ignore_errors=True)
            raise RuntimeError(f"kapi {' '.join(arguments)} did not start:\n{line.decode()}{log}")

    async def stop(self, *, keep_log: bool = False) -> None:
        """End the child, and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
            self._log.close()
        if not keep_log:
            shutil.rmtree(self._folder, ignore_errors=True)


class ExistingServer(_RemoteServer):
    """A server that runs already, as a kubeconfig names it. The user in it must be allowed to impersonate others."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    async def start(self) -> None:
        """Do nothing: it runs."""

    async def stop(self) -> None:
        """Do nothing: it is not ours."""
