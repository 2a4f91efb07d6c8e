"""The store of a custom version by itself: in which form an object is kept, shown, remembered and written."""

import pytest
from kind_support import Changed

from custom_kinds import GROUP, INTEGER, STRING, record
from kapi.api.errors import Forbidden, TooManyRequests
from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.cache.watchcache import CacheHub
from kapi.registry import write as writepath
from kapi.registry.custom import store as custom_store
from kapi.registry.custom.store import MOST_FORMS, CustomStore
from kapi.registry.custom.strategy import CustomStrategy
from kapi.registry.custom.version import SelectableField, Subresources, Version
from kapi.registry.encoding import CustomReader
from kapi.registry.request import Write
from kapi.registry.resource import Resource
from kapi.schema.customschema import CustomSchema
from kapi.storage.interface import Draft
from kapi.storage.memory import MemoryStorage
from virtual_time import LoopClock, run

ONE = record(spec=record(size=INTEGER, colour={"type": "string", "default": "red"}))
TWO = record(spec=record(size=INTEGER, extra={"type": "string", "default": "e"}))
KEY = "/registry/example.com/widgets/default/w"
DEFINITION = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"


class Shelf:
    """A hub over a fresh store, and the stores of versions on it."""

    def __init__(self):
        self.storage = MemoryStorage()
        self.hub = CacheHub(self.storage, lambda prefix: CustomReader(), clock=LoopClock())

    async def define(self):
        """Write the definition, as any change of it does."""
        found = self.hub.find(DEFINITION)
        value = (
            b'{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"resourceVersion":"'
        )
        expected = 0 if found is None else found.revision
        await self.storage.put(DEFINITION, Draft(value, b'"}}'), expected)

    def before_the_next_commit(self, change):
        """Have something happen between the decision of the next write and its commit, as if by another server."""
        commit = self.storage.commit

        async def overtaken(operations):
            self.storage.commit = commit
            await change()
            return await commit(operations)

        self.storage.commit = overtaken

    def stores(self, schemas, storage="v1", *, converter=None, selectable=()):
        """One store for each version, as a definition would make them."""
        compiled = {
            f"{GROUP}/{name}": CustomSchema(lambda schema=schema: schema, preserve_unknown=False)
            for name, schema in schemas.items()
        }
        made = []
        for name in schemas:
            fields = [SelectableField(path) for path in selectable]
            version = Version(name, subresources=Subresources(status={}), selectable_fields=fields)
            schema = compiled[f"{GROUP}/{name}"]
            store = CustomStore(
                gvk=GroupVersionKind(GROUP, name, "Widget"),
                resource=GroupResource(GROUP, "widgets"),
                namespaced=True,
                strategy=CustomStrategy(version, schema, None),
                storage=self.storage,
                hub=self.hub,
                schema=lambda schema=schema: schema,
            )
            store.configure(compiled, f"{GROUP}/{storage}", converter, DEFINITION)
            made.append(store)
        return made


def on_a_shelf(test):
    """Run `test(shelf)` in virtual time."""

    def runner(**arguments):
        async def main():
            shelf = Shelf()
            await shelf.hub.load()
            await shelf.define()
            try:
                await test(shelf, **arguments)
            finally:
                shelf.hub.close()

        run(main())

    runner.__name__ = test.__name__
    return runner


def widget(version="v1", **spec):
    return {
        "kind": "Widget",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": spec,
    }


def write_to(store, operation):
    plural = Resource(GROUP, store.gvk.version, "widgets", "Widget", "widget", namespaced=True, verbs=(), store=store)
    return Write(operation, plural, namespace="default", name="w", lookup=None, now=LoopClock().now())


async def created(store, obj):
    return (await writepath.create(write_to(store, "CREATE"), writepath.Body(obj))).item


async def changed(store, **spec):
    source = Changed(lambda obj: obj["spec"].update(spec))
    return (await writepath.update(write_to(store, "UPDATE"), source)).item


# -- reading ----------------------------------------------------------------------------------------------------------


@on_a_shelf
async def test_an_object_written_by_the_current_schema_is_served_as_stored_bytes(shelf):
    (store,) = shelf.stores({"v1": ONE})
    item = await created(store, widget(size=1, colour="blue"))
    assert store.body(item) is item.body
    assert item.forms is None
    assert store.decode(item)["spec"] == {"size": 1, "colour": "blue"}


@on_a_shelf
async def test_an_object_written_by_another_schema_is_pruned_and_defaulted_once(shelf):
    (old,) = shelf.stores({"v1": record(spec=record(size=INTEGER, gone=STRING))})
    item = await created(old, widget(size=1, gone="x"))
    (new,) = shelf.stores({"v1": ONE})
    body = new.body(item)
    assert new.decode(item)["spec"] == {"size": 1, "colour": "red"}
    assert new.body(item) is body
    assert old.decode(item)["spec"] == {"size": 1, "gone": "x"}


@on_a_shelf
async def test_schemas_that_do_not_change_an_object_share_its_bytes(shelf):
    (old,) = shelf.stores({"v1": ONE})
    item = await created(old, widget(size=1, colour="blue"))
    (new,) = shelf.stores({"v1": record(spec=record(size=INTEGER, colour=STRING, more=STRING))})
    assert new.body(item) is item.body
    assert item.form is new.form
    assert item.forms is None


@on_a_shelf
async def test_reading_prunes_and_defaults_by_the_stored_version_and_prunes_by_the_requested_one(shelf):
    first, second = shelf.stores({"v1": ONE, "v2": TWO})
    item = await created(first, widget(size=1, colour="blue"))
    assert second.decode(item) == {**first.decode(item), "apiVersion": f"{GROUP}/v2", "spec": {"size": 1}}


@on_a_shelf
async def test_an_object_in_a_removed_version_is_served_unchanged(shelf):
    (old,) = shelf.stores({"v0": ONE}, storage="v0")
    item = await created(old, widget("v0", size=1))
    (new,) = shelf.stores({"v1": TWO})
    assert new.decode(item)["spec"] == {"size": 1}
    assert new.decode(item)["apiVersion"] == f"{GROUP}/v1"


@on_a_shelf
async def test_cached_forms_of_old_schemas_are_dropped(shelf):
    (first,) = shelf.stores({"v1": ONE})
    item = await created(first, widget(size=1, colour="blue"))
    for number in range(3 * MOST_FORMS):
        default = {"type": "integer", "default": number}
        (store,) = shelf.stores({"v1": record(spec=record(number=default))})
        assert store.decode(item)["spec"] == {"number": number}
        assert len(item.forms) <= MOST_FORMS
    assert first.decode(item)["spec"] == {"size": 1, "colour": "blue"}


@on_a_shelf
async def test_a_deletion_is_shown_with_its_own_revision_in_every_form(shelf):
    first, second = shelf.stores({"v1": ONE, "v2": TWO})
    item = await created(first, widget(size=1, colour="blue"))
    second.body(item)
    last = item.at(item.revision + 5)
    for store in (first, second):
        assert store.decode(last)["metadata"]["resourceVersion"] == str(item.revision + 5)


# -- writing ----------------------------------------------------------------------------------------------------------


@on_a_shelf
async def test_objects_are_stored_in_the_storage_version_without_its_unknown_fields(shelf):
    first, second = shelf.stores({"v1": ONE, "v2": TWO})
    item = await created(second, widget("v2", size=1, extra="mine"))
    assert item.version == f"{GROUP}/v1"
    assert b"extra" not in item.body
    assert second.decode(item)["spec"] == {"size": 1}
    assert first.decode(item)["spec"] == {"size": 1, "colour": "red"}


@on_a_shelf
async def test_writing_does_not_change_the_callers_object(shelf):
    _, second = shelf.stores({"v1": ONE, "v2": TWO})
    obj = widget("v2", size=1, extra="mine")
    await created(second, obj)
    assert (obj["apiVersion"], obj["spec"]) == (f"{GROUP}/v2", {"size": 1, "extra": "mine"})


@on_a_shelf
async def test_an_update_without_changes_migrates_to_the_storage_version(shelf):
    first, _ = shelf.stores({"v1": ONE, "v2": ONE})
    before = await created(first, widget(size=1, colour="blue"))
    first, second = shelf.stores({"v1": ONE, "v2": ONE}, storage="v2")
    for store in (first, second):
        after = await changed(store)
        assert after.version == f"{GROUP}/v2"
        assert store.decode(after)["metadata"]["generation"] == 1
    assert after.revision == before.revision + 1
    assert (await changed(second)).revision == after.revision


@on_a_shelf
async def test_an_update_without_changes_stores_new_defaults(shelf):
    (old,) = shelf.stores({"v1": record(spec=record(size=INTEGER))})
    before = await created(old, widget(size=1))
    (new,) = shelf.stores({"v1": ONE})
    after = await changed(new)
    assert after.revision > before.revision
    assert b'"colour":"red"' in after.body
    assert (await changed(new)).revision == after.revision


@on_a_shelf
async def test_nulls_pruned_on_read_are_not_returned_by_writes(shelf):
    (store,) = shelf.stores({"v1": record(spec={"type": "object", "properties": {"any": {}}})})
    item = await created(store, widget(any=None))
    assert store.decode(item)["spec"] == {}


@on_a_shelf
async def test_values_of_an_object_without_nulls_are_not_looked_at_one_by_one(shelf):
    """There may be 700,000 of them, on the event loop."""
    (store,) = shelf.stores({"v1": record(spec={"type": "object", "properties": {"any": {}}})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(custom_store, "_has_null", None)
        item = await created(store, widget(any=[1, [2], {"a": 3}]))
    assert store.body(item) is item.body


@on_a_shelf
async def test_the_word_null_in_a_text_is_no_null(shelf):
    (store,) = shelf.stores({"v1": record(spec={"type": "object", "properties": {"any": {}}})})
    item = await created(store, widget(any=["null", {"null": [1]}]))
    assert store.body(item) is item.body
    assert store.decode(item)["spec"] == {"any": ["null", {"null": [1]}]}


@on_a_shelf
async def test_a_preview_shows_what_storing_would_make_of_an_object(shelf):
    _, second = shelf.stores({"v1": ONE, "v2": TWO})
    item = second.preview(KEY, widget("v2", size=1, extra="mine"))
    assert second.decode(item)["spec"] == {"size": 1}
    assert not len(second.cache)


@on_a_shelf
async def test_selectable_fields_are_those_of_the_version(shelf):
    (store,) = shelf.stores({"v1": ONE}, selectable=[".spec.colour", ".spec.size"])
    item = await created(store, widget(size=3, colour="blue"))
    assert store.field_values(item) == {
        "metadata.name": "w",
        "metadata.namespace": "default",
        "spec.colour": "blue",
        "spec.size": "3",
    }
    (other,) = shelf.stores({"v1": ONE}, selectable=[".spec.size"])
    assert other.field_values(item).keys() == {"metadata.name", "metadata.namespace", "spec.size"}
    assert other.body(item) is item.body
    assert other.field_values(item).keys() == {"metadata.name", "metadata.namespace", "spec.size"}


# -- definitions that change ------------------------------------------------------------------------------------------


@on_a_shelf
async def test_a_retired_store_writes_nothing(shelf):
    (store,) = shelf.stores({"v1": ONE})
    await created(store, widget(size=1))
    before = shelf.storage.revision
    store.is_retired = True
    with pytest.raises(TooManyRequests) as caught:
        await changed(store, size=2)
    assert caught.value.retry_after == 1
    assert shelf.storage.revision == before


@on_a_shelf
async def test_a_write_that_a_change_of_the_definition_overtakes_is_committed_if_its_rules_are_the_same(shelf):
    (store,) = shelf.stores({"v1": ONE})
    await created(store, widget(size=1))
    shelf.before_the_next_commit(shelf.define)
    item = await changed(store, size=2)
    assert store.decode(item)["spec"]["size"] == 2
    assert item.revision > shelf.hub.find(DEFINITION).revision


@on_a_shelf
async def test_a_write_that_new_rules_overtake_is_refused(shelf):
    first, second = shelf.stores({"v1": ONE, "v2": TWO})
    await created(first, widget(size=1))

    async def change():
        await shelf.define()
        second.is_retired = True

    shelf.before_the_next_commit(change)
    with pytest.raises(TooManyRequests):
        await changed(second, size=2)
    assert first.decode(shelf.hub.find(KEY))["spec"]["size"] == 1


@on_a_shelf
async def test_a_creation_that_the_deletion_of_the_definition_overtakes_is_refused(shelf):
    (store,) = shelf.stores({"v1": ONE})

    async def change():
        await shelf.define()
        store.is_terminating = True

    shelf.before_the_next_commit(change)
    with pytest.raises(Forbidden, match="create not allowed while custom resource definition is terminating"):
        await created(store, widget(size=1))
    assert not len(store.cache)


@on_a_shelf
async def test_a_write_after_the_definition_was_deleted_is_refused(shelf):
    (store,) = shelf.stores({"v1": ONE})
    await created(store, widget(size=1))

    async def delete():
        await shelf.storage.delete(DEFINITION, shelf.hub.find(DEFINITION).revision)

    shelf.before_the_next_commit(delete)
    with pytest.raises(TooManyRequests):
        await changed(store, size=2)


@on_a_shelf
async def test_a_lost_race_for_the_object_is_retried(shelf):
    (store,) = shelf.stores({"v1": ONE})
    await created(store, widget(size=1))
    shelf.before_the_next_commit(lambda: changed(store, size=3))
    item = await changed(store, size=2)
    assert store.decode(item)["spec"]["size"] == 2
    assert shelf.hub.find(KEY).revision == item.revision


# -- conversion by a webhook ------------------------------------------------------------------------------------------


class Renaming:
    """Converts by moving `size` to `count` and back; counts how often it was asked."""

    def __init__(self):
        self.asked = []

    async def convert(self, objects, api_version):
        self.asked.append(len(objects))
        old, new = ("size", "count") if api_version.endswith("v2") else ("count", "size")
        return [
            {
                **obj,
                "apiVersion": api_version,
                "spec": {new if key == old else key: v for key, v in obj["spec"].items()},
            }
            for obj in objects
        ]


@on_a_shelf
async def test_objects_converted_by_a_webhook_are_prepared_together_and_cached(shelf):
    converter = Renaming()
    schemas = {"v1": record(spec=record(size=INTEGER)), "v2": record(spec=record(count=INTEGER))}
    first, second = shelf.stores(schemas, converter=converter)
    for number in range(3):
        obj = widget(size=number)
        obj["metadata"]["name"] = f"w{number}"
        await created(first, obj)
    items = second.cache.items()
    with pytest.raises(RuntimeError, match="was not prepared"):
        second.body(items[0])
    await second.ready(items)
    await second.ready(items)
    assert converter.asked == [3]
    assert [second.decode(item)["spec"] for item in items] == [{"count": number} for number in range(3)]
    assert first.body(items[0]) is items[0].body


@on_a_shelf
async def test_writes_in_a_converted_version_are_stored_in_the_storage_version(shelf):
    converter = Renaming()
    schemas = {"v1": record(spec=record(size=INTEGER)), "v2": record(spec=record(count=INTEGER))}
    first, second = shelf.stores(schemas, converter=converter)
    item = await created(second, widget("v2", count=4))
    assert second.decode(item)["spec"] == {"count": 4}
    (kept,) = first.cache.items()
    assert (kept.version, first.decode(kept)["spec"]) == (f"{GROUP}/v1", {"size": 4})
    await changed(second, count=5)
    (kept,) = first.cache.items()
    assert first.decode(kept)["spec"] == {"size": 5}
