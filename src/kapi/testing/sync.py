"""The environment for tests that are not asynchronous: the same, without `await`.

    with SyncEnvironment(crds=[Network]) as env:
        env.client.create(Network(...))
        env.eventually(lambda: env.client.get(Network, "a").status)

It runs on an event loop in a thread of its own. There is no virtual time: it stands still while a test does something,
and nothing tells when a test in another thread does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kapi.api.errors import NotFound
from kapi.base.loop import loop_factory
from kapi.client.sync import SyncClient
from kapi.testing.environment import POLL_SECONDS, Environment, name_of_check
from kapi.testing.record import unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from kapi.client.client import Client
    from kapi.controller.manager import Manager
    from kapi.storage.memory import Snapshot
    from kapi.testing.faults import Faults
    from kapi.testing.record import History
    from kapi.testing.servers import User

T = TypeVar("T")

STOP_SECONDS = 60.0


class SyncEnvironment:
    """A control plane for tests without an event loop, used as a context manager. `options` are `Environment`'s."""

    def __init__(self, **options: Any) -> None:
        if options.get("time", "real") != "real":
            raise ValueError("virtual time needs an asynchronous test and Environment")
        self.environment = Environment(**options)
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kapi environment", daemon=True)
        self.client: SyncClient

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.call(self.environment.__aenter__())
        except BaseException:
            self._stop()
            raise
        self.client = _LoopClient(self.environment.client, self._loop)
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.call(self.environment.__aexit__(None, None, None))
        finally:
            self._stop()

    def _stop(self) -> None:
        self.call(self._loop.shutdown_asyncgens())
        self.call(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the environment, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # -- clients ------------------------------------------------------------------------------------------------------

    def client_for(self, user: User | str, **options: Any) -> SyncClient:
        """Return a client that acts as a user; see `Environment.client_for`."""

        async def make() -> Client:
            return self.environment.client_for(user, **options)

        return _LoopClient(self.call(make()), self._loop)

    def user(self, name: str, **rights: Any) -> User:
        """Return a user with rights; see `Environment.user`."""
        return self.call(self.environment.user(name, **rights))

    def apply(self, *objects: Any) -> None:
        """Create or update objects: dictionaries, instances of classes, or paths of YAML files and folders."""
        self.call(self.environment.apply(*objects))

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """A new namespace, deleted at the end of the block; gives its name."""
        with self._entered(self.environment.namespace(prefix)) as name:
            yield name

    @contextlib.contextmanager
    def run(self, make: Callable[[Environment], Manager]) -> Iterator[Manager]:
        """Run a manager for the length of a block; a function makes it, on the event loop."""

        async def made() -> Manager:
            return make(self.environment)

        with self._entered(self.environment.run(self.call(made()))) as manager:
            yield manager

    @contextlib.contextmanager
    def _entered(self, context: contextlib.AbstractAsyncContextManager[T]) -> Iterator[T]:
        value = self.call(_enter(context))
        try:
            yield value
        finally:
            self.call(_leave(context))

    def listen(self) -> str:
        """Open a port, if there is none, and return the address of the server."""
        return self.call(self.environment.listen())

    def kubeconfig(self) -> Path:
        """Return the path of a kubeconfig of the admin, for other clients; opens a port for them."""
        return self.call(self.environment.kubeconfig())

    # -- assertions and state -----------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """The record of requests, watch events and reconciles."""
        return self.environment.history

    @property
    def faults(self) -> Faults:
        """The faults to inject. Add rules that end open watches by `call`: they act on the event loop."""
        return self.environment.faults

    def eventually(self, check: Callable[[], T], *, timeout: float = 10.0, message: str = "") -> T:
        """Return what a function returns as soon as that is true; fail with the story if it is not in time.

        An AssertionError or `NotFound` that it raises means: not yet.
        """
        deadline = time.monotonic() + timeout
        while True:
            why = ""
            try:
                with unrecorded():
                    result = check()
                if result:
                    return result
            except (AssertionError, NotFound) as error:
                why = str(error) or type(error).__name__
            if time.monotonic() >= deadline:
                said = f"{message or name_of_check(check)} was not true within {timeout:g} s"
                self.history.fail(f"{said}: {why}" if why else said)
            time.sleep(POLL_SECONDS)

    def settled(self, *, quiet: float = 1.0, timeout: float | None = None) -> None:
        """Wait until no client of the environment has written anything for `quiet` seconds."""
        self.call(self.environment.settled(quiet=quiet, timeout=timeout))

    def snapshot(self) -> Snapshot:
        """Return the state of the control plane."""

        async def taken() -> Snapshot:
            return self.environment.snapshot()

        return self.call(taken())

    def restore(self, snapshot: Snapshot) -> None:
        """Bring all objects back to a snapshot, in new revisions."""
        self.call(self.environment.restore(snapshot))


async def _enter(context: contextlib.AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _leave(context: contextlib.AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)


class _LoopClient(SyncClient):
    """A synchronous client that uses a client of an environment, on the environment's loop, and is closed with it."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    def close(self) -> None:
        """Do nothing: the environment closes it."""
