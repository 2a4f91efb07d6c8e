"""Random tests of a reconciler: objects are created, changed and deleted and faults are injected until it breaks.

    class Sites(Exploration):
        environment = {"crds": [Site]}
        objects = st.builds(site, title=st.sampled_from(["a", "b"]))

        def __init__(self):
            self.pages = {}                      # what the reconciler manages outside of the cluster

        def manager(self, env): ...              # a manager with the controller under test
        async def invariant(self, env): ...      # what must hold when all is quiet; asserts

    def test_sites():
        explore(Sites)

Each example is a list of steps, run in virtual time on a copy of one environment, with an order of tasks that depends
on a seed, unless `shuffle` is False. At its end faults cease, and the controllers must come to rest within an hour of
virtual time; then the invariant is checked, and that no key was with two workers at a time. Hypothesis looks for steps
that break it, and shrinks them to the fewest and simplest; the error shows those, and the story of what happened.

Needs `hypothesis`, whose settings (number of examples, seed, database) are respected.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kapi.api.errors import AlreadyExists, NotFound
from kapi.codec import json
from kapi.testing.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.controller.manager import Manager
    from kapi.storage.memory import Snapshot

REST_SECONDS: Final = 3600.0
QUIET_SECONDS: Final = 120.0
FAULT_SECONDS: Final = 1.0
"""The time after the last step in which faults still occur."""


class Exploration(abc.ABC):
    """What is explored. An instance is made for each example."""

    environment: ClassVar[Mapping[str, Any]] = {}
    """The options of the environment: kinds, objects, built-in controllers."""
    objects: ClassVar[st.SearchStrategy[Any]]
    """The objects to write; their names are replaced."""
    names: ClassVar[Sequence[str]] = ("a", "b")
    """The names of objects: few, so that they are changed and deleted again."""
    faults: ClassVar[bool] = True
    """False to inject no faults."""
    shuffle: ClassVar[bool] = True
    """False to run tasks in the order in which they become ready: fewer schedules, which are the same in each run."""
    max_steps: ClassVar[int] = 12

    @abc.abstractmethod
    def manager(self, env: Environment) -> Manager:
        """Return a manager with the controller under test: `env.manager()`, at the start and at each restart."""

    @abc.abstractmethod
    async def invariant(self, env: Environment) -> None:
        """Assert what must hold when nothing has happened for a while."""


@dataclass(frozen=True, slots=True)
class Write:
    """Create an object, or change its spec to that of the one given."""

    name: str
    obj: Any

    def __str__(self) -> str:
        return f"write {self.name}: {json.encode(_plain(self.obj, self.name).get('spec')).decode()}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, if it is there."""

    name: str

    def __str__(self) -> str:
        return f"delete {self.name}"


@dataclass(frozen=True, slots=True)
class Inject:
    """Inject a fault into requests of the manager."""

    then: str
    verb: str
    times: int

    def __str__(self) -> str:
        return f"inject {self.then} into {self.verb} of the manager, {self.times} times"


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""

    seconds: float

    def __str__(self) -> str:
        return f"wait {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop the manager, take some steps without one, and start another."""

    steps: tuple[Write | Delete, ...] = ()

    def __str__(self) -> str:
        inside = "; ".join(map(str, self.steps))
        return f"restart the manager{f', and meanwhile: {inside}' if inside else ''}"


Step = Write | Delete | Inject | Wait | Restart


def explore(what: type[Exploration], *, examples: int | None = None) -> None:
    """Look for steps after which the invariant does not hold; raises the error of the simplest that were found."""
    origin = asyncio.run(_origin(what))
    chosen = settings(
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        max_examples=examples or settings().max_examples,
        report_multiple_bugs=False,
        # Without the phase that explains: it traces every line of the control plane, and the story tells more.
        phases=[phase for phase in settings().phases if phase is not Phase.explain],
    )

    @chosen
    @given(steps=_plans(what), seed=st.integers(0, 1000) if what.shuffle else st.none())
    def holds(steps: list[Step], seed: int | None) -> None:
        asyncio.run(_run(what(), origin, steps, seed))

    holds()


def replay(what: type[Exploration], steps: Sequence[Step], *, seed: int | None = None) -> None:
    """Take these steps, and check: what `explore` has found as a test that stays."""
    asyncio.run(_replay(what, steps, seed))


async def _replay(what: type[Exploration], steps: Sequence[Step], seed: int | None) -> None:
    await _run(what(), await _origin(what, seed), steps, seed)


async def _origin(what: type[Exploration], seed: int | None = None) -> Snapshot:
    async with Environment(**what.environment, time="virtual", seed=seed) as env:
        return env.snapshot()


def _plans(what: type[Exploration]) -> st.SearchStrategy[list[Step]]:
    names = st.sampled_from(tuple(what.names))
    changes = st.builds(Write, names, what.objects) | st.builds(Delete, names)
    steps: st.SearchStrategy[Step] = changes
    steps |= st.builds(Wait, st.sampled_from((0.0, 1.0, 60.0)))
    steps |= st.builds(Restart, st.lists(changes, max_size=2).map(tuple))
    if what.faults:
        refusals = st.sampled_from(("conflict", "server_error", "drop", "lose_response", "too_many_requests"))
        times = st.integers(1, 3)
        steps |= st.builds(Inject, refusals, st.just("write"), times)
        steps |= st.builds(Inject, st.sampled_from(("cut_watch", "slow_watch")), st.just("watch"), times)
    return st.lists(steps, min_size=1, max_size=what.max_steps)


async def _run(model: Exploration, origin: Snapshot, steps: Sequence[Step], seed: int | None) -> None:
    """Take the steps, wait until all is quiet, and check."""
    options = {**model.environment, "time": "virtual", "seed": seed, "snapshot": origin}
    try:
        async with Environment(**options) as env:
            runner = _Runner(model, env)
            try:
                await runner.start()
                for step in steps:
                    env.history.note(f"-- {step}")
                    await runner.take(step)
                await env.advance(FAULT_SECONDS)
                env.faults.clear()
                env.history.note("-- no more faults")
                await env.settled(quiet=QUIET_SECONDS, timeout=REST_SECONDS)
                env.history.never_two_workers_on_one_key()
                await _check(model, env)
            finally:
                await runner.stop()
    except Exception as error:
        listed = "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1))
        raise AssertionError(f"after these steps (seed {seed}):\n{listed}\n\n{error}") from error


async def _check(model: Exploration, env: Environment) -> None:
    try:
        await model.invariant(env)
    except Exception as error:
        env.history.fail(f"the invariant does not hold: {type(error).__name__} {error}".rstrip())


class _Runner:
    """Takes the steps of one example."""

    def __init__(self, model: Exploration, env: Environment) -> None:
        self._model = model
        self._env = env
        self._stack = contextlib.AsyncExitStack()
        self._last: Object | None = None

    async def start(self) -> None:
        """Start a manager."""
        await self._stack.enter_async_context(self._env.run(self._model.manager(self._env)))

    async def stop(self) -> None:
        """Stop the manager."""
        await self._stack.aclose()

    async def take(self, step: Step) -> None:
        """Take one step."""
        env = self._env
        match step:
            case Write():
                await self._write(step.name, step.obj)
            case Delete(name):
                await self._delete(name)
            case Wait(seconds):
                await env.advance(seconds)
            case Restart(steps):
                await self.stop()
                for inside in steps:
                    await self.take(inside)
                await self.start()
            case Inject(then, verb, times):
                env.faults.add(then=then, verb=verb, times=times, user="manager", seconds=5)  # type: ignore[arg-type]

    async def _write(self, name: str, obj: Any) -> None:
        client, named = self._env.client, _plain(obj, name)
        self._last = named
        try:
            await client.create(named)
        except AlreadyExists:
            with contextlib.suppress(NotFound):
                await client.patch(named, {"spec": named.get("spec")})

    async def _delete(self, name: str) -> None:
        if self._last is not None:
            with contextlib.suppress(NotFound):
                await self._env.client.delete(_plain(self._last, name))


def _plain(obj: Any, name: str) -> Object:
    """Return an object as a dictionary, with another name."""
    plain: Object = json.decode(json.encode(obj))
    metadata = plain.setdefault("metadata", {})
    metadata["name"] = name
    return plain
