"""The plug-in ResourceQuota.

The usage of a quota is in its status, and is charged there before the object is committed: by a compare-and-swap in
the store, so that also several servers never admit more than the quota allows. All writes of a namespace that wait
are decided one after the other and charged in one commit, so that many concurrent clients cost few commits.

A write that fails afterwards gives its charge back at once. What a crash leaves charged, and what deletions free, is
corrected by the resourcequota controller, which counts (`controlplane.controllers.resourcequota`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Conflict, InternalError
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.base.offloop import off_loop
from kapi.registry.encoding import HubObject
from kapi.registry.quota.amounts import ZERO, only, printed
from kapi.registry.quota.charges import Charge
from kapi.registry.quota.evaluators import IGNORED, evaluator_of
from kapi.server.admission.namespaceobjects import NamespaceObjects
from kapi.server.admission.resourcequota.check import Asked, Quota, changes_usage, charges_for, may_change_usage
from kapi.server.requestdeadlines import RequestDeadlines
from kapi.storage.interface import MAX_OPERATIONS, RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.meta import GroupResource, Object
    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.evaluators import Evaluator
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.admission.resourcequota.configuration import LimitedResource

QUOTAS: Final = "resourcequotas"
ATTEMPTS: Final = 10
"""How often a batch is decided because another server has changed a quota meanwhile; in Kubernetes four times."""
TIMEOUT: Final = 10.0
"""The seconds that a write waits for its decision."""


class ResourceQuota:
    """Refuses writes that would exceed a quota, and charges quotas for those it admits."""

    reads_only = True

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        forget: Callable[[], None],
        limited: Sequence[LimitedResource] = (),
    ) -> None:
        self._clock = clock
        self._limited = limited
        self._store = catalog.store(QUOTAS)
        self._hub = catalog.hub
        self._charges = catalog.charges
        self._quotas = NamespaceObjects(self._store, self._read, forget)
        self._evaluators: dict[GroupResource, Evaluator] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._returned: dict[str, list[Charge]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadlines = RequestDeadlines(TIMEOUT)

    def _read(self, item: Item) -> Quota:
        return Quota(item, self._store.decode(item))

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if such a write may be charged, and there is any quota."""
        return (
            (bool(self._limited) or bool(self._quotas))
            and resource.namespaced
            and resource.store is not None
            and resource.group_resource not in IGNORED
            and may_change_usage(operation, resource.group_resource, subresource)
        )

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse the write, or charge the quotas that apply."""
        namespace = write.namespace
        if obj is None or not (self._limited or self._quotas.items(namespace)) or not changes_usage(write, obj, old):
            return
        try:
            key = write.store.key(namespace, obj["metadata"]["name"])
        except ValueError:
            return  # No object can have this name: the write fails.
        asked = Asked(write, obj, old, self._evaluator(write.resource.group_resource), self._clock.now())
        waiting = _Waiting(asked, key)
        self._waiting.setdefault(namespace, []).append(waiting)
        self._work_on(namespace)
        try:
            with self._deadlines.begin():
                charge = await waiting.decision
        except BaseException as error:
            if waiting.charge is not None:
                self._give_back(waiting.charge)
            if isinstance(error, TimeoutError):
                raise InternalError.of("resource quota evaluation timed out") from None
            raise
        if charge is not None:
            write.finish = partial(self._finish, charge)

    def _evaluator(self, resource: GroupResource) -> Evaluator:
        evaluator = self._evaluators.get(resource)
        if evaluator is None:
            evaluator = self._evaluators[resource] = evaluator_of(resource)
        return evaluator

    # -- the outcome of a write that was charged --------------------------------------------------------------------

    def _finish(self, charge: Charge, is_committed: bool) -> None:
        if not is_committed:
            self._give_back(charge)
        elif charge.is_pending(self._hub.find):
            # A store that is shared with other servers answers before the watch cache has the object.
            task = asyncio.ensure_future(self._discard_when_visible(charge))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._charges.discard(charge)

    async def _discard_when_visible(self, charge: Charge) -> None:
        try:
            await self._store.catch_up()
        finally:
            self._charges.discard(charge)

    def _give_back(self, charge: Charge) -> None:
        charge.is_void = True
        self._returned.setdefault(charge.namespace, []).append(charge)
        self._work_on(charge.namespace)

    # -- batches ----------------------------------------------------------------------------------------------------

    def _work_on(self, namespace: str) -> None:
        if namespace not in self._workers:
            self._workers[namespace] = asyncio.ensure_future(self._work(namespace))

    async def _work(self, namespace: str) -> None:
        """Decide everything that waits in a namespace; what arrives during a commit is the next batch."""
        try:
            while namespace in self._waiting or namespace in self._returned:
                async with self._charges.lock(namespace):
                    # Taken here, and not before the lock was free: the more in one commit the better.
                    batch = _Batch(self._waiting.pop(namespace, []), self._returned.pop(namespace, []))
                    await self._decide(namespace, batch)
        finally:
            del self._workers[namespace]

    async def _decide(self, namespace: str, batch: _Batch) -> None:
        try:
            for _ in range(ATTEMPTS):
                batch.waiting = [one for one in batch.waiting if not one.decision.done()]
                plan = await self._plan(namespace, batch)
                if await self._has_committed(plan):
                    self._conclude(namespace, batch, plan)
                    return
                await self._store.catch_up()
            raise Conflict.modified(self._store.resource, plan.changed[0].name)
        except BaseException as error:
            # Nothing was charged, and nothing is admitted.
            for one in batch.waiting:
                one.refuse(error)
            for charge in batch.returned:
                self._charges.discard(charge)
            if not isinstance(error, Exception):
                raise

    async def _plan(self, namespace: str, batch: _Batch) -> _Plan:
        items = self._quotas.items(namespace)

        def plan() -> _Plan:
            return _Plan([self._quotas.read(item) for item in items], batch, self._limited)

        if sum(len(item.body) for item in items) < OFF_LOOP_BYTES:
            return plan()
        return await off_loop(plan)

    async def _has_committed(self, plan: _Plan) -> bool:
        """Commit the usage of all quotas at once, so that none is charged for a write that another one refuses.

        Returns False if another server has changed one of them meanwhile.
        """
        operations = [
            self._store.put_operation(quota.item.key, plan.charged_quota(quota), quota.item.revision)
            for quota in plan.changed
        ]
        # More than one commit is for a namespace with very many quotas; a charge too much is corrected when counted.
        try:
            for start in range(0, len(operations), MAX_OPERATIONS):
                await self._store.storage.commit(operations[start : start + MAX_OPERATIONS])
        except RevisionMismatch:
            return False
        return True

    def _conclude(self, namespace: str, batch: _Batch, plan: _Plan) -> None:
        for charge in batch.returned:
            self._charges.discard(charge)
        for one, amounts in plan.charges:
            old = one.asked.old
            charge = Charge(namespace, one.key, 0 if old is None else int(old["metadata"]["resourceVersion"]), amounts)
            self._charges.add(charge)
            if one.decision.done():
                self._give_back(charge)  # The client has given up.
            else:
                one.admit(charge)
        for one in plan.admitted:
            one.admit(None)
        for one, error in plan.refused:
            one.refuse(error)


class _Waiting:
    """A write that waits for its decision, which is its charge, if it is charged anything."""

    def __init__(self, asked: Asked, key: str) -> None:
        self.asked = asked
        self.key = key
        """The key of the object."""
        self.decision: asyncio.Future[Charge | None] = asyncio.get_running_loop().create_future()
        """Done also when the client has given up."""
        self.charge: Charge | None = None

    def admit(self, charge: Charge | None) -> None:
        if not self.decision.done():
            self.charge = charge
            self.decision.set_result(charge)

    def refuse(self, error: BaseException) -> None:
        if not self.decision.done():
            self.decision.set_exception(error)


class _Batch:
    """The writes of a namespace that are decided together, and the charges that are given back."""

    def __init__(self, waiting: list[_Waiting], returned: list[Charge]) -> None:
        self.waiting = waiting
        self.returned = returned


class _Plan:
    """The decisions about a batch, and the usage of the quotas that they lead to."""

    def __init__(self, quotas: Sequence[Quota], batch: _Batch, limited: Sequence[LimitedResource]) -> None:
        self._used: dict[str, Amounts] = {quota.item.key: dict(quota.used) for quota in quotas}
        self.charges: list[tuple[_Waiting, dict[str, Amounts]]] = []
        self.admitted: list[_Waiting] = []
        self.refused: list[tuple[_Waiting, Exception]] = []
        for charge in batch.returned:
            for key, amounts in charge.amounts.items():
                used = self._used.get(key, {})
                for name, amount in only(amounts, used).items():
                    used[name] = max(used[name] - amount, ZERO)
        for one in batch.waiting:
            self._decide(one, quotas, limited)
        self.changed = [quota for quota in quotas if self._used[quota.item.key] != quota.used]

    def _decide(self, one: _Waiting, quotas: Sequence[Quota], limited: Sequence[LimitedResource]) -> None:
        try:
            amounts = charges_for(one.asked, quotas, self._used, limited)
        except ApiError as error:
            self.refused.append((one, error))
            return
        if not amounts or one.asked.write.dry_run:
            self.admitted.append(one)
            return
        for key, charged in amounts.items():
            used = self._used[key]
            for name, amount in charged.items():
                used[name] = used.get(name, ZERO) + amount
        self.charges.append((one, amounts))

    def charged_quota(self, quota: Quota) -> HubObject:
        """The quota with its new usage."""
        status = {**quota.obj["status"], "used": printed(self._used[quota.item.key])}
        return HubObject({**quota.obj, "status": status})
