"""Flow control: gives each request a seat of its priority level, now or when its turn comes, or refuses it with 429.

The server is one event loop, and many requests run from start to end without a wait. So that they count, a seat is held
at least to the end of the turn of the loop in which its request ended: at most as many requests as there are seats run
before the loop reads from the network again and sees those of other levels.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kapi.api.errors import Overloaded
from kapi.server.flowcontrol import mandatory
from kapi.server.flowcontrol.classify import Classifier, FlowSchema
from kapi.server.flowcontrol.estimate import estimated_seats
from kapi.server.flowcontrol.level import Level, share_seats
from kapi.server.flowcontrol.mandatory import CATCH_ALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.registry.store import Store
    from kapi.server.context import Context
    from kapi.server.flowcontrol.classify import Flow
    from kapi.server.flowcontrol.fairqueue import Waiting

DEFAULT_SEATS: Final = 600
"""As many as kube-apiserver has by default: 400 for requests that read and 200 for those that write."""
WAIT_SECONDS: Final = 15.0
"""The longest time that a request waits for its turn: a quarter of its deadline."""
REFUSAL_SECONDS: Final = 0.25
"""How long the answer to a refused request is held back. Its client cannot ask again in the meantime, which costs less
than answering it at once, again and again."""
LONGER_REFUSAL: Final = 0.001
"""How much longer, for each other answer that is held back: many clients that ask again cost much."""
MAX_REFUSAL_SECONDS: Final = 2.0
HELD_REFUSALS: Final = 20_000
"""Answers held back at a time; others are sent at once."""
GROUP: Final = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMAS: Final = f"flowschemas.{GROUP}"
PRIORITY_LEVELS: Final = f"prioritylevelconfigurations.{GROUP}"


class Ticket:
    """The seats of a request that runs. `finish` may be called more than once."""

    __slots__ = ("_control", "flow", "info", "is_finished", "level", "request", "seats", "started", "user")

    def __init__(
        self, control: FlowControl, level: Level, flow: Flow, seats: int, context: Context, request: Waiting | None
    ) -> None:
        self._control = control
        self.level = level
        self.flow = flow
        self.seats = seats
        self.info = context.info
        self.user = context.user
        self.request = request
        self.started = time.perf_counter()
        self.is_finished = False
        """True once the request was answered; its seats are given back a little later."""

    def finish(self) -> None:
        """Give the seats back, at the end of this turn of the event loop."""
        if not self.is_finished:
            self.is_finished = True
            self._control.release(self)


class ExemptTicket:
    """The ticket of requests that need no seats."""

    def finish(self) -> None:
        """Do nothing."""


EXEMPT: Final = ExemptTicket()


class FlowControl:
    """The flow control of one server, by the FlowSchemas and PriorityLevelConfigurations that are stored."""

    def __init__(self, catalog: Catalog, seats: int = DEFAULT_SEATS) -> None:
        self._catalog = catalog
        self._total = seats
        self.levels = {name: Level(obj) for name, obj in mandatory.objects(mandatory.LEVELS).items()}
        self.running: set[Ticket] = set()
        self._released: list[Ticket] = []
        self._held = 0
        self._waiting = 0
        self._classify(mandatory.objects(mandatory.SCHEMAS))
        share_seats(self.levels.values(), seats)

    def start(self) -> None:
        """Read what is stored and follow its changes; called once the watch cache is loaded."""
        for name in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            self._catalog.store(name).cache.listen(self._changed)
        self._configure()

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin(self, context: Context) -> Ticket | ExemptTicket | None:
        """Return the seats of a request that can run at once; None if it has to `wait`."""
        flow = context.flow = self._classifier.classify(context.user, context.info)
        level = self.levels[flow.level]
        if level.is_exempt:
            # Nothing limits it, so nothing is counted but its number.
            level.dispatched += 1
            return EXEMPT
        seats = estimated_seats(context, self._catalog, level.nominal)
        if level.waiting or not self._can_run(level, seats):
            return None
        return self._run(level, flow, seats, context, None)

    async def wait(self, context: Context) -> Ticket:
        """Wait for the seats of a request that `begin` did not give any.

        Raises:
            Overloaded: the level does not queue, its queue is full, or the request waited too long.
        """
        flow = context.flow
        assert flow is not None
        level = self.levels.get(flow.level) or self.levels[CATCH_ALL]
        seats = estimated_seats(context, self._catalog, level.nominal)
        if not level.can_queue:
            await self._refuse(level, flow, "concurrency-limit")
        turn = asyncio.get_running_loop().create_future()
        request = level.queues.enqueue(flow, seats, turn, time.perf_counter())
        if request is None:
            await self._refuse(level, flow, "queue-full")
        self._waiting += 1
        try:
            # With no request of this level running there is no other that would give this one its turn.
            self._dispatch(level)
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except TimeoutError:
            level.queues.remove(request)
            await self._refuse(level, flow, "time-out")
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._run(level, flow, seats, context, request, counted=True).finish()
            else:
                level.queues.remove(request)
                level.reject(flow.schema, "cancelled")
            raise
        finally:
            self._waiting -= 1
        return self._run(level, flow, seats, context, request, counted=True)

    def release(self, ticket: Ticket) -> None:
        """Take seats back, at the end of this turn of the event loop."""
        if not self._released:
            asyncio.get_running_loop().call_soon(self._release)
        self._released.append(ticket)

    def _run(
        self, level: Level, flow: Flow, seats: int, context: Context, request: Waiting | None, *, counted: bool = False
    ) -> Ticket:
        if not counted:
            level.seats_in_use += seats
            level.executing += 1
        level.dispatched += 1
        by_schema = level.dispatched_by_schema
        by_schema[flow.schema] = by_schema.get(flow.schema, 0) + 1
        ticket = Ticket(self, level, flow, seats, context, request)
        self.running.add(ticket)
        return ticket

    def _release(self) -> None:
        released, self._released = self._released, []
        now = time.perf_counter()
        for ticket in released:
            level = ticket.level
            level.seats_in_use -= ticket.seats
            level.executing -= 1
            if ticket.request is not None:
                level.queues.finish(ticket.request, now - ticket.started)
            self.running.discard(ticket)
            if level.is_retired and not level.executing and not level.waiting:
                self.levels.pop(level.name, None)
        if self._waiting:
            for level in list(self.levels.values()):
                self._dispatch(level)

    def _dispatch(self, level: Level) -> None:
        """Give the requests of a level their turn as long as there are seats."""
        while (request := level.queues.head()) is not None:
            if request.turn.done():
                level.queues.remove(request)
                continue
            if not self._can_run(level, request.seats):
                return
            level.queues.take(request)
            level.seats_in_use += request.seats
            level.executing += 1
            request.turn.set_result(None)

    def _can_run(self, level: Level, seats: int) -> bool:
        in_use = level.seats_in_use
        after = in_use + seats
        # A request that needs more seats than there are runs alone.
        if level.is_exempt or after <= level.nominal or not in_use:
            return True
        if after > level.maximum:
            return False
        lendable = borrowed = 0
        for other in self.levels.values():
            lendable += other.lendable
            borrowed += other.borrowed
        return borrowed + after - max(level.nominal, in_use) <= lendable

    async def _refuse(self, level: Level, flow: Flow, reason: str) -> NoReturn:
        level.reject(flow.schema, reason)
        if self._held < HELD_REFUSALS:
            self._held += 1
            try:
                await asyncio.sleep(min(REFUSAL_SECONDS + self._held * LONGER_REFUSAL, MAX_REFUSAL_SECONDS))
            finally:
                self._held -= 1
        raise Overloaded

    # -- configuration ------------------------------------------------------------------------------------------------

    def _changed(self, events: Sequence[Event]) -> None:
        self._configure()

    def _configure(self) -> None:
        found = mandatory.objects(mandatory.LEVELS) | _objects(self._catalog.store(PRIORITY_LEVELS))
        for name, obj in list(found.items()):
            with self._catalog.hub.invalid.guard(f"{PRIORITY_LEVELS}/{name}", "flow control"):
                if name in self.levels:
                    self.levels[name].configure(obj)
                else:
                    self.levels[name] = Level(obj)
        for name, level in list(self.levels.items()):
            level.is_retired = name not in found
            if level.is_retired and not level.executing and not level.waiting:
                del self.levels[name]
        share_seats((level for level in self.levels.values() if not level.is_retired), self._total)
        self._classify(mandatory.objects(mandatory.SCHEMAS) | _objects(self._catalog.store(FLOW_SCHEMAS)))

    def _classify(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """Classify by the FlowSchemas whose levels exist."""
        schemas = {}
        for name, obj in objects.items():
            with self._catalog.hub.invalid.guard(f"{FLOW_SCHEMAS}/{name}", "flow control"):
                schemas[name] = FlowSchema(obj)
        for level in self.levels.values():
            level.forget_schemas(schemas)
        usable = {
            name: schema
            for name, schema in schemas.items()
            if schema.level in self.levels and not self.levels[schema.level].is_retired
        }
        for schema in usable.values():
            schema.set_level_uid(self.levels[schema.level].uid)
        fallback = usable.get(CATCH_ALL) or FlowSchema(mandatory.objects(mandatory.SCHEMAS)[CATCH_ALL])
        self._classifier = Classifier(usable.values(), fallback)


def _objects(store: Store) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for item in store.cache.items():
        with store.hub.invalid.guard(item.key, "flow control"):
            obj = store.decode(item)
            found[obj["metadata"]["name"]] = obj
    return found
