"""The environment of a test: a control plane, its clients, and what can be done to them and asserted of them.

    async with Environment(crds=[Network]) as env:
        async with env.run(manager := env.manager()):
            await env.client.create(Network(...))
            await env.eventually(lambda: is_ready(env.client))

By default the control plane runs in this process: the real request pipeline with authentication, RBAC, admission and
validation, the built-in controllers, and an in-memory store, without a port. `Environment.process` starts it as a child
process. If `KAPI_TEST_KUBECONFIG` names a kubeconfig, that cluster is used instead, so that the same tests can be run
against kube-apiserver; what only a server in this process can do then raises `Unsupported`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload

from kapi.api.errors import NotFound
from kapi.base.clock import SystemClock
from kapi.client.client import Client
from kapi.client.rest import RESTClient
from kapi.controller.manager import Manager
from kapi.controlplane.controllers.names import enabled_controllers
from kapi.testing import snapshot as snapshots
from kapi.testing.access import role_objects
from kapi.testing.collector import collector_paused
from kapi.testing.faults import Faults
from kapi.testing.manifests import definitions, objects_of
from kapi.testing.reconciles import follow_reconciles
from kapi.testing.record import History, unrecorded
from kapi.testing.servers import (
    ADMIN,
    KUBECONFIG_VARIABLE,
    ExistingServer,
    InProcessServer,
    ProcessServer,
    Unsupported,
    User,
)
from kapi.testing.transport import ObservedTransport
from kapi.testing.virtualtime import EPOCH, VirtualTime

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.controller.permissions import Permissions
    from kapi.controller.webhook import WebhookFunctions
    from kapi.storage.memory import Snapshot
    from kapi.testing.servers import Server

    Definition = type[CustomResource] | Object | str | Path

T = TypeVar("T")

FIELD_MANAGER: Final = "kapi-testing"
POLL_SECONDS: Final = 0.05
"""How often a condition is looked at again when nothing is recorded."""


class Environment:
    """A control plane for tests, used as a context manager.

    Args:
        crds: the custom kinds: classes, definitions as dictionaries, or paths of YAML files and folders.
        objects: other objects to create at the start, such as roles, policies and webhook configurations.
        controllers: the built-in controllers, as in `kapi up --controllers`; `()` for none.
        listen: open a port at the start, for clients in other processes.
        time: `virtual` for a clock that jumps to the next timer when nothing is left to do, see `virtualtime`.
        seed: with virtual time, run tasks that are ready at once in a random order that depends on this number.
        start: the wall time at which virtual time begins.
        snapshot: the state to begin with, of another environment; definitions and objects are then not created again.
        webhooks: admission functions that the control plane calls as webhooks, in this process.
        kubeconfig: an existing cluster to use; by default the one that `KAPI_TEST_KUBECONFIG` names, if any.
    """

    def __init__(
        self,
        *,
        crds: Iterable[Definition] = (),
        objects: Iterable[Any] = (),
        controllers: str | Collection[str] = "*",
        listen: bool = False,
        time: Literal["real", "virtual"] = "real",
        seed: int | None = None,
        start: dt.datetime = EPOCH,
        snapshot: Snapshot | None = None,
        kubeconfig: Path | str | None = None,
        webhooks: WebhookFunctions | None = None,
    ) -> None:
        if time not in ("real", "virtual"):
            raise ValueError(f"time={time!r}: expected 'real' or 'virtual'")
        if time == "virtual" and listen:
            raise ValueError("listen=True and time='virtual': programs on a connection do not follow virtual time")
        if seed is not None and time != "virtual":
            raise ValueError("seed needs time='virtual'")
        self._crds = tuple(crds)
        self._objects = tuple(objects)
        self._controllers = _chosen(controllers)
        self._listen = listen
        self._time = time
        self._seed = seed
        self._start = start
        self._existing = (
            Path(kubeconfig or os.environ.get(KUBECONFIG_VARIABLE, "")) if _is_existing(kubeconfig) else None
        )
        self._snapshot = snapshot
        self._webhooks = webhooks
        if webhooks is not None and self._existing is not None:
            raise Unsupported("webhooks= needs a control plane in this process")
        self._make_server: Callable[[], Server] = self._chosen_server
        self._virtual: VirtualTime | None = None
        self._clients: list[Client] = []
        self._managers: list[asyncio.Task[None]] = []
        self._server: Server
        self.clock: Clock
        self.history: History
        self.faults = Faults()
        self.client: Client

    @classmethod
    def process(
        cls,
        *,
        crds: Iterable[Definition] = (),
        objects: Iterable[Any] = (),
        controllers: str | Collection[str] = "*",
        options: Sequence[str] = (),
    ) -> Self:
        """Return an environment whose control plane is a child process: `kapi up` with these further options.

        It ends with this process, however that ends.
        """
        environment = cls(crds=crds, objects=objects, controllers=controllers)
        environment._make_server = lambda: ProcessServer(environment._controllers, options)
        return environment

    # -- start and stop -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._time == "virtual":
            if self._existing is not None:
                raise Unsupported("virtual time needs a control plane in this process, not an existing cluster")
            self._virtual = VirtualTime.install(seed=self._seed, start=self._start)
        try:
            self.clock = self._virtual or SystemClock()
            self._server = self._make_server()
            with collector_paused():
                await self._server.start()
            self.history = History(self.clock)
            self.client = self.client_for(ADMIN)
            with unrecorded():
                if self._snapshot is None:
                    await self._install()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._close()

    async def _close(self) -> None:
        try:
            for client in self._clients:
                await client.close()
            self._clients.clear()
            if hasattr(self, "history"):
                self.history.rights.write()
            if hasattr(self, "_server"):
                await self._server.stop()
        finally:
            if self._virtual is not None:
                self._virtual.uninstall()
                self._virtual = None

    def _chosen_server(self) -> Server:
        if self._existing is not None:
            return ExistingServer(self._existing)
        return InProcessServer(
            self._controllers,
            self.clock,
            listen=self._listen,
            snapshot=self._snapshot,
            webhooks=self._webhooks,
        )

    async def _install(self) -> None:
        for obj in definitions(self._crds):
            stored = await self.client.apply(obj, force=True)
            if not _is_established(stored):
                await self.client.wait_for(
                    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
                    obj["metadata"]["name"],
                    "condition=Established",
                )
        await self.apply(*self._objects)

    # -- clients ------------------------------------------------------------------------------------------------------

    def client_for(self, user: User | str, *, groups: Sequence[str] = (), name: str = "") -> Client:
        """Return a client that acts as a user; it is closed with the environment. `name` is its name in the history."""
        who = user if isinstance(user, User) else User(user, tuple(groups))
        config = self._server.config(who)
        observed = ObservedTransport(
            self._server.transport(who, config), name or _shown(who), self.history, self.faults
        )
        rest = RESTClient(config, clock=self.clock, transport=observed)
        client = Client(rest=rest, field_manager=name or FIELD_MANAGER, clock=self.clock)
        self._clients.append(client)
        return client

    async def user(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        role: str = "",
        rules: Permissions = (),
        namespace: str = "",
    ) -> User:
        """Return a user with rights: those of a ClusterRole, `rules` of RBAC, both or none.

        They hold in one namespace, or everywhere. Rules may be given in short: `{"networks": ["get", "list"]}`.
        """
        user = User(name, tuple(groups))
        with unrecorded():
            for obj in role_objects(user, role, rules, namespace):
                await self.client.apply(obj, force=True)
        if role:
            # Those of `view`, `edit` and `admin` are put together by a controller, shortly after the first start.
            message = (
                f"the ClusterRole {role} has no rules; is clusterrole-aggregation-controller among the controllers?"
            )
            await self.eventually(lambda: self._rules_of(role), message=message)
        return user

    async def _rules_of(self, role: str) -> Any:
        found = await self.client.get(("rbac.authorization.k8s.io/v1", "ClusterRole"), role)
        return found.get("rules")

    def manager(self, *, user: User = ADMIN, **options: Any) -> Manager:
        """Return a manager with a client of its own, called `manager` in the history. `options` are those of Manager.

        With a `user` of few rights the test finds out what an operator's role lacks.
        """
        client = self.client_for(user, name="manager")
        return Manager(client, **{"clock": self.clock, "namespace": "", **options})

    async def apply(self, *objects: Any) -> None:
        """Create or update objects: dictionaries, instances of classes, or paths of YAML files and folders."""
        for obj in objects_of(objects):
            await self.client.apply(obj, force=True)

    @contextlib.asynccontextmanager
    async def namespace(self, prefix: str = "test") -> AsyncIterator[str]:
        """A new namespace, deleted at the end of the block; gives its name."""
        with unrecorded():
            created = await self.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": f"{prefix}-"}}
            )
        name: str = created["metadata"]["name"]
        try:
            yield name
        finally:
            with unrecorded(), contextlib.suppress(NotFound):
                await self.client.delete(("v1", "Namespace"), name)

    async def listen(self) -> str:
        """Open a port, if there is none, and return the address of the server."""
        if self._virtual is not None:
            raise Unsupported("an environment with virtual time opens no port: its clients would not follow the time")
        if isinstance(self._server, InProcessServer):
            return await self._server.listen()
        return self._server.config(ADMIN).server

    async def kubeconfig(self) -> Path:
        """Return the path of a kubeconfig of the admin, for programs in other processes; opens a port for them."""
        if self._virtual is not None:
            await self.listen()
        return await self._server.kubeconfig()

    # -- managers -----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def run(self, manager: Manager) -> AsyncIterator[Manager]:
        """Run a manager for the length of a block, which is entered when its controllers work.

        Its reconciles are in the history. An error that ends the manager is raised at the end of the block, and by
        what waits in it.
        """
        follow_reconciles(manager, self.history)
        task = asyncio.ensure_future(manager.run(signals=False))
        self._managers.append(task)
        try:
            while not task.done() and not _is_working(manager):  # noqa: ASYNC110 - a manager has no event for it
                await asyncio.sleep(0.001)
            self._check_managers()
            yield manager
        finally:
            self._managers.remove(task)
            manager.stop()
            await task

    def _check_managers(self) -> None:
        for task in self._managers:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise RuntimeError(f"a manager has ended: {error}\n\n{self.history.story()}") from error

    # -- time ---------------------------------------------------------------------------------------------------------

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Let virtual time pass, and everything happen that is due by then."""
        if self._virtual is None:
            raise Unsupported("advance needs Environment(time='virtual')")
        await self._virtual.advance(seconds + 60 * minutes + 3600 * hours + 86400 * days)

    # -- assertions ---------------------------------------------------------------------------------------------------

    # The asynchronous form first: of the other one a type checker would take the coroutine for the result.
    @overload
    async def eventually(
        self,
        check: Callable[[], Awaitable[T]],
        *,
        timeout: float = ...,  # noqa: ASYNC109
        message: str = ...,
    ) -> T: ...
    @overload
    async def eventually(
        self,
        check: Callable[[], T],
        *,
        timeout: float = ...,  # noqa: ASYNC109
        message: str = ...,
    ) -> T: ...
    async def eventually(
        self,
        check: Callable[[], Any],
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - what is raised is ours
        message: str = "",
    ) -> Any:
        """Return what a function returns as soon as that is true; fail with the story if it is not in time.

        The function may be asynchronous. An AssertionError or `NotFound` that it raises means: not yet.
        """
        deadline = self.clock.monotonic() + timeout
        while True:
            self._check_managers()
            result, why = await _looked_at(check)
            if result:
                return result
            left = deadline - self.clock.monotonic()
            if left <= 0:
                said = f"{message or name_of_check(check)} was not true within {timeout:g} s"
                self.history.fail(f"{said}: {why}" if why else said)
            await self.history.changed(within=min(POLL_SECONDS, left))

    async def never(self, check: Callable[[], object], *, during: float = 1.0, message: str = "") -> None:
        """Fail with the story if a function returns something true within so many seconds."""
        deadline = self.clock.monotonic() + during
        while True:
            self._check_managers()
            result, _ = await _looked_at(check)
            if result:
                self.history.fail(f"{message or name_of_check(check)} was true: {result!r}")
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return
            await self.history.changed(within=min(POLL_SECONDS, left))

    async def settled(
        self,
        *,
        quiet: float = 1.0,
        timeout: float | None = None,  # noqa: ASYNC109 - what is raised is ours
        max_writes: int = 1000,
    ) -> None:
        """Wait until no client of the environment has written anything for `quiet` seconds.

        Fails with the story if that does not happen in time (by default 30 s, or ten times `quiet`), or if more than
        `max_writes` are made meanwhile: something writes again and again. Writes of Leases and Events do not count.
        """
        history = self.history
        seconds = max(30.0, 10 * quiet) if timeout is None else timeout
        begin, first, step = history.age, len(history.entries), POLL_SECONDS
        while (age := history.age - max(history.last_write, begin)) < quiet:
            self._check_managers()
            writes = sum(entry.is_write for entry in history.entries[first:])
            if writes > max_writes or history.age - begin >= seconds:
                history.fail(f"still writing after {history.age - begin:.3g} s: {writes} writes")
            # In short steps at first, so that a hot loop is told before it has written for long.
            await asyncio.sleep(min(max(quiet - age, 0.001), step))
            step *= 1.5

    # -- the state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the state of the control plane: all objects. It takes well under a millisecond for a small one."""
        return self._in_process("snapshot").storage.snapshot()

    async def restore(self, snapshot: Snapshot) -> None:
        """Bring all objects back to a snapshot, in new revisions; open watches deliver the changes. See `snapshot`."""
        await snapshots.restore(self._in_process("restore").storage, snapshot)

    def fork(self, snapshot: Snapshot | None = None) -> Environment:
        """Return another environment that begins with this one's state, or a snapshot of it; enter it to start it.

        Nothing is shared: clients, faults, history and built-in controllers are its own.
        """
        source = self._in_process("fork").storage
        return Environment(
            controllers=self._controllers,
            listen=self._listen,
            time=self._time,
            seed=self._seed,
            start=self._start,
            snapshot=snapshot or source.snapshot(),
            webhooks=self._webhooks,
        )

    def _in_process(self, what: str) -> InProcessServer:
        if not isinstance(self._server, InProcessServer):
            raise Unsupported(f"{what} needs a control plane in this process")
        return self._server


def _is_existing(kubeconfig: Path | str | None) -> bool:
    return kubeconfig is not None or bool(os.environ.get(KUBECONFIG_VARIABLE))


def _chosen(controllers: str | Collection[str]) -> frozenset[str]:
    if isinstance(controllers, str):
        return enabled_controllers(controllers)
    return enabled_controllers(",".join(controllers)) if controllers else frozenset()


def _shown(user: User) -> str:
    return "admin" if user == ADMIN else user.name


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _is_working(manager: Manager) -> bool:
    """Return True if a manager's controllers have begun, or its caches are filled while another process leads."""
    if manager.elector is not None:
        caches = [cluster.informers.informers.values() for cluster in manager.clusters.values()]
        return all(informer.has_synced for informers in caches for informer in informers)
    return all(controller.is_started for controller in manager.controllers)


async def _looked_at(check: Callable[[], Any]) -> tuple[Any, str]:
    """Return what a check returns, and why it does not hold if it says so by raising."""
    try:
        with unrecorded():
            result = check()
            return (await result if inspect.isawaitable(result) else result), ""
    except (AssertionError, NotFound) as error:
        return None, str(error) or type(error).__name__


def name_of_check(check: Callable[..., object]) -> str:
    """Return what a failed condition is called: the name of its function, if it has one."""
    name = getattr(check, "__name__", "")
    return "the condition" if name in ("", "<lambda>") else name
