"""The generic registry by itself: the order of its steps, what it hands to the hooks, and what it keeps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_support import Changed, resource_of

from kapi.api.errors import AlreadyExists, Conflict, Invalid, NotFound, PlainError
from kapi.api.fielderror import invalid
from kapi.registry import write as writepath
from kapi.registry.deletion import DeleteOptions
from kapi.registry.encoding import draft
from kapi.registry.request import Write, WriteOptions
from kapi.registry.strategy import Companions, Strategy
from kapi.registry.write import Body
from kapi.storage.interface import Check, Put, RevisionMismatch
from virtual_time import LoopClock, run


class Recording(Strategy):
    """A strategy that records its calls and returns what the test sets."""

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

    def commit_with(self, write, obj, old):
        self.calls.append("commit" if obj is not None else "remove")
        return Companions(done=self.released.append)


class Plugin:
    """Admission that writes down what it is asked."""

    def __init__(self, bench):
        self._bench = bench
        self.mutate_with = None

    async def mutate(self, write, obj, old):
        self._take("mutate", obj, old)
        if self.mutate_with is not None:
            self.mutate_with(obj)

    async def validate(self, write, obj, old):
        self._take("validate", obj, old)

    def _take(self, step, obj, old):
        self._bench.admitted.append((step, obj and obj["metadata"]["name"], old and old["metadata"]["name"]))
        if isinstance(self._bench.strategy, Recording):
            self._bench.strategy.calls.append(step)


class Bench:
    def __init__(self, strategy=None):
        self.strategy = strategy or Recording()
        self.resource = resource_of(self.strategy, clock=LoopClock())
        self.store = self.resource.stored
        self.storage = self.store.storage
        self.admitted = []
        self.plugin = Plugin(self)

    def write(self, operation, name="a", *, options=None, dry_run=False):
        return Write(
            operation,
            self.resource,
            namespace="ns",
            name=name,
            lookup=None,
            now=LoopClock().now(),
            options=options or WriteOptions(dry_run=dry_run),
            admission=self.plugin,
        )

    async def create(self, name="a", *, dry_run=False, metadata=None, **fields):
        obj = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "ns", **(metadata or {})},
        }
        return await writepath.create(self.write("CREATE", name, dry_run=dry_run), Body({**obj, **fields}))

    async def update(self, change, name="a", *, dry_run=False, scope=None, is_patch=False):
        write = self.write("UPDATE", name, dry_run=dry_run)
        return await writepath.update(write, Changed(change, is_patch=is_patch), scope)

    async def delete(self, name="a", **options):
        return await writepath.delete(self.write("DELETE", name, options=DeleteOptions(**options)))

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
    assert bench.strategy.calls == ["default", "mutate", "prepare_create", "validate_create", "validate", "commit"]
    assert bench.admitted == [("mutate", "a", None), ("validate", "a", None)]
    assert written.created
    assert bench.strategy.released == [True]
    assert bench.store.decode(written.item) == bench.get()
    assert bench.get()["metadata"]["generation"] == 1


@scenario
async def test_dry_run_reserves_nothing(bench):
    written = await bench.create(dry_run=True)
    assert written.created
    assert "commit" not in bench.strategy.calls
    assert "resourceVersion" not in bench.store.decode(written.item)["metadata"]
    assert bench.storage.revision == 0


@scenario
async def test_invalid_object_is_not_committed(bench):
    bench.strategy.errors = [invalid("spec.x", 1, "no")]
    with pytest.raises(Invalid):
        await bench.create()
    assert bench.strategy.calls == ["default", "mutate", "prepare_create", "validate_create"]


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
    assert bench.strategy.calls == ["default", "mutate", "prepare_update", "validate_update", "validate", "commit"]
    assert bench.get()["metadata"]["generation"] == 2


@scenario
async def test_update_that_changes_nothing_reserves_nothing(bench):
    await bench.create(data={"k": "1"})
    bench.strategy.calls.clear()
    revision = bench.storage.revision
    written = await bench.update(lambda obj: None)
    assert "commit" not in bench.strategy.calls
    assert written.item.revision == bench.storage.revision == revision


@scenario
async def test_update_builder_may_mutate_its_argument(bench):
    await bench.create(data={"k": "1"})
    before = bench.get()

    def spoil(obj):
        obj["data"]["k"] = "spoiled"
        raise Conflict("stop")

    with pytest.raises(Conflict):
        await bench.update(spoil)
    assert bench.get() == before


@scenario
async def test_true_and_one_are_different_values(bench):
    await bench.create(immutable=True)
    await bench.update(lambda obj: obj.update(immutable=1))
    assert bench.get()["immutable"] == 1
    assert bench.get()["immutable"] is not True


@scenario
async def test_status_scope_keeps_everything_else(bench):
    await bench.create(data={"k": "1"})
    bench.strategy.calls.clear()

    def change(obj):
        obj.update(data={"k": "2"}, status={"x": "y"}, more=1)

    await bench.update(change, scope=bench.store.status_scope)
    assert bench.strategy.calls[2:4] == ["prepare_status", "validate_status"]
    stored = bench.get()
    assert (stored["data"], stored["status"], stored["metadata"]["generation"]) == ({"k": "1"}, {"x": "y"}, 1)
    assert "more" not in stored


@scenario
async def test_main_scope_keeps_the_status(bench):
    await bench.create()
    await bench.update(lambda obj: obj.update(status={"x": "y"}), scope=bench.store.status_scope)
    await bench.update(lambda obj: obj.update(status={"x": "z"}, data={"k": "v"}))
    assert bench.get()["status"] == {"x": "y"}


@scenario
async def test_last_finalizer_of_a_marked_object_removes_it(bench):
    await bench.create(metadata={"finalizers": ["x.io/f"]})
    await bench.delete()
    assert "remove" not in bench.strategy.calls
    written = await bench.update(lambda obj: obj["metadata"].pop("finalizers"))
    assert written.deleted
    assert bench.strategy.calls[-1] == "remove"
    assert bench.store.find("ns", "a") is None


@scenario
async def test_uid_of_a_patch_is_a_change_and_otherwise_a_condition(bench):
    await bench.create()

    def other(obj):
        obj["metadata"]["uid"] = "other"

    with pytest.raises(Conflict):
        await bench.update(other)
    with pytest.raises(Invalid, match="field is immutable"):
        await bench.update(other, is_patch=True)


@scenario
async def test_version_may_not_be_given_to_a_new_object(bench):
    with pytest.raises(PlainError):
        await bench.create(metadata={"resourceVersion": "5"})
    await bench.create(metadata={"resourceVersion": "5"}, dry_run=True)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%b", "a\nb"])
def test_invalid_names_are_not_found(name):
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
                await bench.delete(name)
                del model[name]
            else:
                await bench.update(lambda obj, data=data: obj.update(data=data), name)
                if model[name][0] != data:
                    model[name] = (data, before + 1)
        found = {item.name: (bench.store.decode(item)["data"], item.revision) for item in bench.store.cache.items()}
        assert found == model

    run(main())


@scenario
async def test_companions_are_notified_of_a_deletion_whose_request_was_cancelled(bench):
    await bench.create()
    reached, go_on, heard = asyncio.Event(), asyncio.Event(), asyncio.Event()
    delete = bench.storage.delete

    async def slow_delete(key, expected, note=None):
        reached.set()
        await go_on.wait()
        return await delete(key, expected, note)

    bench.storage.delete = slow_delete
    outcomes = []
    bench.strategy.commit_with = lambda write, obj, old: Companions(done=lambda ok: (outcomes.append(ok), heard.set()))
    request = asyncio.ensure_future(bench.delete())
    await reached.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert outcomes == []
    go_on.set()
    async with asyncio.timeout(5):
        await heard.wait()
    assert outcomes == [True]
    assert bench.store.find("ns", "a") is None


@scenario
async def test_managed_fields_that_admission_breaks_are_restored_with_a_warning(bench):
    good = [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]
    bench.plugin.mutate_with = lambda obj: obj["metadata"].update(managedFields=[{"operation": "Nonsense"}])
    write = bench.write("CREATE")
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "ns", "managedFields": good}}
    await writepath.create(write, Body(obj))
    assert bench.get()["metadata"]["managedFields"] == good
    (warning,) = write.warnings
    assert warning.startswith(".metadata.managedFields was in an invalid state after admission; this could be caused")


@scenario
async def test_owner_references_that_admission_repeats_are_kept_once_with_a_warning(bench):
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    bench.plugin.mutate_with = lambda obj: obj["metadata"].update(ownerReferences=[dict(owner), dict(owner)])
    for write, source in (
        (
            bench.write("CREATE"),
            Body({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "ns"}}),
        ),
        (bench.write("UPDATE"), Changed(lambda obj: obj.update(data={"k": "v"}))),
    ):
        step = writepath.create if write.operation == "CREATE" else writepath.update
        await step(write, source)
        assert bench.get()["metadata"]["ownerReferences"] == [owner]
        (warning,) = write.warnings
        assert "contains duplicate entries after mutating admission happens" in warning
        assert warning.endswith("duplicate UID(s) observed: u")


@scenario
async def test_delete_shows_admission_the_object_as_stored_and_again_after_a_lost_race(bench):
    await bench.create(data={"k": "1"})
    seen = []

    async def mutate(write, obj, old):
        seen.append((obj, old["data"]["k"], write.old is old))
        if len(seen) == 1:
            bench.plugin.mutate = lambda *_: _nothing()
            await bench.update(lambda obj: obj.update(data={"k": "2"}))
            bench.plugin.mutate = mutate

    bench.plugin.mutate = mutate
    assert (await bench.delete()).deleted
    assert seen == [(None, "1", True), (None, "2", True)]


async def _nothing():
    return None


COUNTER = "/registry/core/counters/ns/c"


class Counting(Strategy):
    """Gives every object a number, from a record that is committed in the same revision."""

    def __init__(self):
        self.seen = None
        self.asked = 0

    def commit_with(self, write, obj, old):
        self.asked += 1
        at = self.seen
        if obj is None:
            return Companions([Check(COUNTER, at)])
        record = draft({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}})
        return Companions([Put(COUNTER, record, at)], {**obj, "data": {"number": str(at)}})


def test_companions_are_committed_in_the_same_revision_or_the_strategy_decides_again():
    run(_committed_with_companions(Bench(Counting())))


async def _committed_with_companions(bench):
    bench.strategy.seen = 0
    await bench.store.hub.load()
    written = await bench.create()
    assert (await bench.storage.get(COUNTER)).revision == written.item.revision
    # Another server has used the record since: the first attempt is lost, and nothing of it is written.
    bench.strategy.seen = 0
    commit = bench.storage.commit

    async def learning(operations):
        try:
            return await commit(operations)
        except RevisionMismatch as lost:
            bench.strategy.seen = lost.actual
            raise

    bench.storage.commit = learning
    for change in (bench.create("b"), bench.update(lambda obj: obj.update(data={}), "b"), bench.delete("b")):
        bench.strategy.asked, bench.strategy.seen = 0, 0
        before = bench.storage.revision
        await change
        assert bench.strategy.asked == 2
        assert bench.storage.revision == before + 1
    assert bench.store.find("ns", "b") is None
