"""The generic registry by itself: the order of its steps, what it hands to the hooks, and what it keeps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.errors import AlreadyExists, Conflict, GroupResource, Invalid, NotFound, PlainError
from kapi.api.fielderror import invalid
from kapi.api.meta import GroupVersionKind
from kapi.cache.watchcache import CacheHub
from kapi.registry.encoding import BodyReader, head_of
from kapi.registry.store import Store
from kapi.registry.strategy import Strategy, WriteContext
from kapi.schema.builtin.typed import kind_schema
from kapi.storage.memory import MemoryStorage
from virtual_time import LoopClock, run

GVK = GroupVersionKind("", "v1", "ConfigMap")


class Recording(Strategy):
    """A strategy that writes down what it is asked, and is told what to answer."""

    tracks_generation = True
    has_status = True

    def __init__(self):
        self.calls = []
        self.errors = []
        self.released = []

    def default(self, obj):
        self.calls.append("default")

    def prepare_create(self, context, obj):
        self.calls.append("prepare_create")
        assert "status" not in obj

    def validate_create(self, context, obj):
        self.calls.append("validate_create")
        return list(self.errors)

    def prepare_update(self, context, obj, old):
        self.calls.append("prepare_update")

    def validate_update(self, context, obj, old):
        self.calls.append("validate_update")
        return list(self.errors)

    def prepare_status(self, context, obj, old):
        self.calls.append("prepare_status")

    def validate_status(self, context, obj, old):
        self.calls.append("validate_status")
        return []

    def generation_changed(self, obj, old):
        return obj.get("data") != old.get("data")

    def reserve(self, context, obj, old):
        self.calls.append("reserve")
        return self.released.append

    def removed(self, namespace, name):
        self.calls.append("removed")


class Bench:
    def __init__(self, strategy=None):
        self.strategy = strategy or Recording()
        self.storage = MemoryStorage()
        hub = CacheHub(self.storage, lambda _: BodyReader(head_of("v1", "ConfigMap"), None), clock=LoopClock())
        self.store = Store(
            gvk=GVK,
            resource=GroupResource("", "configmaps"),
            namespaced=True,
            strategy=self.strategy,
            storage=self.storage,
            hub=hub,
            schema=lambda: kind_schema(*GVK),
        )
        self.admitted = []

    async def admit(self, obj, old):
        self.admitted.append((obj and obj["metadata"]["name"], old and old["metadata"]["name"]))
        if isinstance(self.strategy, Recording):
            self.strategy.calls.append("admit")

    def context(self, *, dry_run=False):
        return WriteContext(lookup=None, now=LoopClock().now(), dry_run=dry_run)

    async def create(self, name="a", *, dry_run=False, metadata=None, **fields):
        obj = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "ns", **(metadata or {})},
        }
        return await self.store.create(self.context(dry_run=dry_run), {**obj, **fields}, self.admit)

    async def update(self, change, *, dry_run=False, rules=None, patch=False):
        async def build(_, fresh):
            old = fresh()
            change(old)
            return old

        return await self.store.update(
            self.context(dry_run=dry_run), "ns", "a", build, self.admit, rules=rules, patch=patch
        )

    def get(self, name="a"):
        return self.store.decode(self.store.get("ns", name))


def scenario(test):
    def runner():
        async def main():
            bench = Bench()
            await bench.store.hub.load()
            await test(bench)

        run(main())

    runner.__name__ = test.__name__
    return runner


@scenario
async def test_creation_runs_its_steps_in_order(bench):
    written = await bench.create(status={"x": "y"})
    assert bench.strategy.calls == ["prepare_create", "validate_create", "admit", "reserve"]
    assert bench.admitted == [("a", None)]
    assert written.created
    assert bench.strategy.released == [True]
    assert bench.store.decode(written.item) == bench.get()
    assert bench.get()["metadata"]["generation"] == 1


@scenario
async def test_dry_run_reserves_nothing(bench):
    written = await bench.create(dry_run=True)
    assert written.created
    assert "reserve" not in bench.strategy.calls
    assert "resourceVersion" not in bench.store.decode(written.item)["metadata"]
    assert bench.storage.revision == 0


@scenario
async def test_invalid_object_goes_no_further(bench):
    bench.strategy.errors = [invalid("spec.x", 1, "no")]
    with pytest.raises(Invalid):
        await bench.create()
    assert bench.strategy.calls == ["prepare_create", "validate_create"]


@scenario
async def test_reservation_is_given_back_when_the_write_fails(bench):
    await bench.create()
    with pytest.raises(AlreadyExists):
        await bench.create()
    assert bench.strategy.released == [True]

    async def taken(key, draft, expected, note=None):
        raise RuntimeError("disk")

    bench.storage.put = taken
    with pytest.raises(RuntimeError):
        await bench.create("b")
    assert bench.strategy.released == [True, False]


@scenario
async def test_update_runs_its_steps_in_order(bench):
    await bench.create(data={"k": "1"})
    bench.strategy.calls.clear()
    await bench.update(lambda obj: obj.update(data={"k": "2"}))
    assert bench.strategy.calls == ["prepare_update", "validate_update", "admit", "reserve"]
    assert bench.get()["metadata"]["generation"] == 2


@scenario
async def test_update_that_changes_nothing_reserves_nothing(bench):
    await bench.create(data={"k": "1"})
    bench.strategy.calls.clear()
    revision = bench.storage.revision
    written = await bench.update(lambda obj: None)
    assert "reserve" not in bench.strategy.calls
    assert written.item.revision == bench.storage.revision == revision


@scenario
async def test_builder_may_change_what_it_is_given(bench):
    await bench.create(data={"k": "1"})
    before = bench.get()

    def spoil(obj):
        obj["data"]["k"] = "spoiled"
        raise Conflict("stop")

    with pytest.raises(Conflict):
        await bench.update(spoil)
    assert bench.get() == before


@scenario
async def test_true_is_not_one(bench):
    await bench.create(immutable=True)
    await bench.update(lambda obj: obj.update(immutable=1))
    assert bench.get()["immutable"] == 1
    assert bench.get()["immutable"] is not True


@scenario
async def test_status_rules_keep_everything_else(bench):
    await bench.create(data={"k": "1"})
    bench.strategy.calls.clear()

    def change(obj):
        obj.update(data={"k": "2"}, status={"x": "y"}, more=1)

    await bench.update(change, rules=bench.store.status_rules)
    assert bench.strategy.calls[:2] == ["prepare_status", "validate_status"]
    stored = bench.get()
    assert (stored["data"], stored["status"], stored["metadata"]["generation"]) == ({"k": "1"}, {"x": "y"}, 1)
    assert "more" not in stored


@scenario
async def test_main_rules_keep_the_status(bench):
    await bench.create()
    await bench.update(lambda obj: obj.update(status={"x": "y"}), rules=bench.store.status_rules)
    await bench.update(lambda obj: obj.update(status={"x": "z"}, data={"k": "v"}))
    assert bench.get()["status"] == {"x": "y"}


@scenario
async def test_last_finalizer_of_a_marked_object_removes_it(bench):
    await bench.create(metadata={"finalizers": ["x.io/f"]})
    from kapi.registry.deletion import DeleteOptions

    await bench.store.delete(bench.context(), "ns", "a", DeleteOptions(), bench.admit)
    assert "removed" not in bench.strategy.calls
    written = await bench.update(lambda obj: obj["metadata"].pop("finalizers"))
    assert written.deleted
    assert bench.strategy.calls[-1] == "removed"
    assert bench.store.find("ns", "a") is None


@scenario
async def test_uid_of_a_patch_is_a_change_and_otherwise_a_condition(bench):
    await bench.create()

    def other(obj):
        obj["metadata"]["uid"] = "other"

    with pytest.raises(Conflict):
        await bench.update(other)
    with pytest.raises(Invalid, match="field is immutable"):
        await bench.update(other, patch=True)


@scenario
async def test_version_may_not_be_given_to_a_new_object(bench):
    with pytest.raises(PlainError):
        await bench.create(metadata={"resourceVersion": "5"})
    await bench.create(metadata={"resourceVersion": "5"}, dry_run=True)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%b", "a\nb"])
def test_names_no_object_can_have_are_not_there(name):
    async def main():
        bench = Bench()
        await bench.store.hub.load()
        assert bench.store.find("ns", name) is None
        with pytest.raises(NotFound):
            bench.store.get("ns", name)

    run(main())


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["create", "change", "delete"]), st.integers(0, 2)),
        max_size=25,
    )
)
def test_store_is_a_dictionary_with_revisions(steps):
    """Whatever is done, what is stored is what was last written, and every write moves the revision once."""
    from kapi.registry.deletion import DeleteOptions

    async def main():
        bench = Bench(Strategy())
        await bench.store.hub.load()
        model = {}
        for name, what, value in steps:
            before = bench.storage.revision
            data = {"k": str(value)}
            if what == "create":
                if name in model:
                    with pytest.raises(AlreadyExists):
                        await bench.create(name, data=data)
                else:
                    await bench.create(name, data=data)
                    model[name] = (data, before + 1)
            elif name not in model:
                with pytest.raises(NotFound):
                    bench.get(name)
            elif what == "delete":
                await bench.store.delete(bench.context(), "ns", name, DeleteOptions(), bench.admit)
                del model[name]
            else:

                async def build(_, fresh, data=data):
                    old = fresh()
                    return {**old, "data": data}

                await bench.store.update(bench.context(), "ns", name, build, bench.admit)
                if model[name][0] != data:
                    model[name] = (data, before + 1)
        found = {item.name: (bench.store.decode(item)["data"], item.revision) for item in bench.store.cache.items()}
        assert found == model

    run(main())


@scenario
async def test_what_an_object_held_is_given_back_though_nobody_waits_for_its_removal(bench):
    await bench.create()
    item = bench.store.get("ns", "a")
    reached, go_on = asyncio.Event(), asyncio.Event()
    delete = bench.storage.delete

    async def slow_delete(key, expected, note=None):
        reached.set()
        await go_on.wait()
        return await delete(key, expected, note)

    bench.storage.delete = slow_delete
    request = asyncio.ensure_future(bench.store.remove(item))
    await reached.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert "removed" not in bench.strategy.calls
    given_back = asyncio.Event()
    bench.strategy.removed = lambda namespace, name: (bench.strategy.calls.append("removed"), given_back.set())
    go_on.set()
    async with asyncio.timeout(5):
        await given_back.wait()
    assert bench.store.find("ns", "a") is None
    assert bench.strategy.calls.count("removed") == 1
