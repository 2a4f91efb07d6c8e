"""The state machine of deletion by itself: every combination of grace, finalizers and policy, on a kind with grace."""

import asyncio
import datetime as dt
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_support import resource_of

from kapi.api.errors import Conflict, NotFound
from kapi.registry import write as writepath
from kapi.registry.deletion import DeleteOptions, wanted_finalizers, without_preconditions
from kapi.registry.request import NO_ADMISSION, Write, WriteOptions
from kapi.registry.strategy import Companions, Strategy
from kapi.registry.write import Body
from virtual_time import LoopClock, run


class Graceful(Strategy):
    """A kind whose objects take half a minute to go, unless asked otherwise."""

    def grace_period(self, obj, requested):
        return 30 if requested is None else requested


class Orphaning(Strategy):
    default_propagation: ClassVar[str] = "Orphan"


class Unowned(Strategy):
    default_propagation: ClassVar[str] = "Unsupported"


class Bench:
    """A store of one kind."""

    def __init__(self, strategy):
        self.removed = []
        strategy.commit_with = self._commit_with
        self.resource = resource_of(strategy, clock=LoopClock())
        self.store = self.resource.stored
        self.storage = self.store.storage

    def _commit_with(self, write, obj, old):
        if obj is not None:
            return None
        return Companions(done=lambda committed: self.removed.append(old["metadata"]["name"]))

    async def start(self, *finalizers):
        await self.store.hub.load()
        metadata = {"name": "a", "namespace": "ns", "generation": 1, "finalizers": list(finalizers)}
        obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
        await writepath.create(self.write("CREATE", WriteOptions()), Body(obj))
        return self

    def write(self, operation, options, admission=NO_ADMISSION):
        now = LoopClock().now()
        resource = self.resource
        return Write(
            operation, resource, namespace="ns", name="a", lookup=None, now=now, options=options, admission=admission
        )

    async def delete(self, *, admission=NO_ADMISSION, **options):
        return await writepath.delete(self.write("DELETE", DeleteOptions(**options), admission))

    @property
    def metadata(self):
        item = self.store.find("ns", "a")
        return None if item is None else self.store.decode(item)["metadata"]


def _bench(strategy, scenario, *finalizers):
    async def main():
        await scenario(await Bench(strategy).start(*finalizers))

    run(main())


def test_object_without_finalizers_is_deleted_at_once():
    async def scenario(bench):
        written = await bench.delete()
        assert written.deleted
        assert written.item.revision == bench.storage.revision
        assert bench.metadata is None
        assert bench.removed == ["a"]
        with pytest.raises(NotFound):
            await bench.delete()

    _bench(Strategy(), scenario)


def test_grace_period_ends_as_granted():
    async def scenario(bench):
        written = await bench.delete()
        assert not written.deleted
        assert bench.metadata["deletionGracePeriodSeconds"] == 30
        assert bench.metadata["deletionTimestamp"] == "2026-01-01T00:00:30Z"
        assert bench.metadata["generation"] == 2
        await asyncio.sleep(10)
        await bench.delete(grace_period=5)
        # Twenty-five seconds sooner than granted would be in the past: then it is now.
        assert bench.metadata["deletionTimestamp"] == "2026-01-01T00:00:10Z"
        assert bench.metadata["deletionGracePeriodSeconds"] == 5
        assert bench.metadata["generation"] == 2
        assert bench.removed == []
        assert (await bench.delete(grace_period=0)).deleted
        assert bench.removed == ["a"]

    _bench(Graceful(), scenario)


def test_finalizers_outlast_the_grace_period():
    async def scenario(bench):
        await bench.delete()
        written = await bench.delete(grace_period=0)
        assert not written.deleted
        assert bench.metadata["deletionGracePeriodSeconds"] == 0
        revision = bench.storage.revision
        assert not (await bench.delete(grace_period=0)).deleted
        assert not (await bench.delete()).deleted
        assert bench.storage.revision == revision

    _bench(Graceful(), scenario, "x.io/f")


def test_dry_run_shows_and_keeps():
    async def scenario(bench):
        before = bench.metadata
        shown = bench.store.decode((await bench.delete(dry_run=True)).item)
        assert shown["metadata"]["deletionGracePeriodSeconds"] == 30
        assert (await bench.delete(dry_run=True, grace_period=0)).deleted
        assert bench.metadata == before
        assert bench.removed == []

    _bench(Graceful(), scenario)


def test_admission_can_refuse():
    async def scenario(bench):
        class Refusing(type(NO_ADMISSION)):
            async def validate(self, write, obj, old):
                assert obj is None
                assert old["metadata"]["name"] == "a"
                raise Conflict("no")

        with pytest.raises(Conflict):
            await bench.delete(admission=Refusing())
        assert bench.metadata is not None

    _bench(Strategy(), scenario)


def test_preconditions_are_checked_first():
    async def scenario(bench):
        for options in ({"uid": "x"}, {"resource_version": "99"}):
            with pytest.raises(Conflict):
                await bench.delete(**options)
        metadata = bench.metadata
        assert (await bench.delete(uid=metadata["uid"], resource_version=metadata["resourceVersion"])).deleted

    _bench(Strategy(), scenario)


FINALIZERS = st.lists(st.sampled_from(["orphan", "foregroundDeletion", "x.io/f", "y.io/g"]), unique=True)
POLICIES = st.sampled_from([None, "Orphan", "Foreground", "Background"])


@given(FINALIZERS, POLICIES, st.sampled_from([None, True, False]), st.sampled_from([Strategy, Orphaning, Unowned]))
def test_propagation_policy_sets_its_two_finalizers_only(finalizers, policy, orphan, kind):
    bench = Bench(kind())
    options = DeleteOptions(propagation=None if orphan is not None else policy, orphan=orphan)
    wanted = wanted_finalizers(bench.store.strategy, list(finalizers), options)
    ours = {"orphan", "foregroundDeletion"}
    assert [name for name in wanted if name not in ours] == [name for name in finalizers if name not in ours]
    assert len(wanted) == len(set(wanted))
    found = ours & set(wanted)
    if kind is Unowned:
        assert found == set()
    elif orphan is not None:
        assert found == ({"orphan"} if orphan else set())
    elif policy is not None:
        assert found == {"Orphan": {"orphan"}, "Foreground": {"foregroundDeletion"}, "Background": set()}[policy]
    elif ours & set(finalizers):
        assert found == ours & set(finalizers)
    else:
        assert found == ({"orphan"} if kind is Orphaning else set())


def test_members_of_a_collection_have_no_preconditions():
    options = DeleteOptions(grace_period=3, uid="u", resource_version="5", propagation="Orphan")
    assert without_preconditions(options) == DeleteOptions(grace_period=3, propagation="Orphan")


@given(st.lists(st.sampled_from([None, 0, 1, 10, 29, 30, 100]), min_size=1, max_size=6), st.integers(0, 40))
def test_deletion_timestamp_is_never_extended(graces, pause):
    async def main():
        bench = await Bench(Graceful()).start()
        end = None
        for grace in graces:
            if bench.metadata is None:
                return
            await bench.delete(grace_period=grace)
            if bench.metadata is None:
                return
            now = dt.datetime.fromisoformat(bench.metadata["deletionTimestamp"])
            assert end is None or now <= end or now <= LoopClock().now() + dt.timedelta(seconds=1)
            end = now
            await asyncio.sleep(pause)

    run(main())
