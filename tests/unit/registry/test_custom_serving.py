"""From stored definitions to served resources: which are replaced by a change, which stay, and what they say."""

import copy

import pytest
from kind_support import Changed

from custom_kinds import GROUP, INTEGER, STRING, definition, record, version
from kapi.registry import write as writepath
from kapi.registry.catalog import Catalog
from kapi.registry.custom.definitions import RESOURCE, VERBS
from kapi.registry.custom.store import CustomStore
from kapi.registry.deletion import DeleteOptions
from kapi.registry.request import Write
from kapi.storage.memory import MemoryStorage
from virtual_time import LoopClock, run

NAME = f"widgets.{GROUP}"
TWO = [version("v1", storage=True), version("v2", record(other=STRING))]


class Shop:
    """A catalog on a fresh store, and what can be done with definitions in it."""

    def __init__(self, storage=None, **options):
        self.catalog = Catalog(storage or MemoryStorage(), LoopClock(), **options)
        self.store = self.catalog.store(RESOURCE)

    def write(self, operation, name="", options=None):
        resource = self.catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        now = self.catalog.clock.now()
        return Write(operation, resource, name=name, lookup=self.catalog, now=now, options=options)

    async def define(self, crd):
        return (await writepath.create(self.write("CREATE"), writepath.Body(copy.deepcopy(crd)))).item

    async def change(self, change, name=NAME):
        return (await writepath.update(self.write("UPDATE", name), Changed(change))).item

    def found(self, version="v1", resource="widgets", group=GROUP):
        return self.catalog.find(group, version, resource)


def in_a_shop(test):
    def runner(**arguments):
        async def main():
            shop = Shop()
            await shop.catalog.load()
            try:
                await test(shop, **arguments)
            finally:
                shop.catalog.hub.close()

        run(main())

    runner.__name__ = test.__name__
    return runner


def schema_of(obj, index):
    return obj["spec"]["versions"][index]["schema"]["openAPIV3Schema"]["properties"]


@in_a_shop
async def test_a_resource_has_the_names_scope_and_verbs_of_its_definition(shop):
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    full = version("v1", storage=True, subresources={"status": {}, "scale": scale})
    await shop.define(definition(versions=[full], shortNames=["wd"], categories=["all"], listKind="Widgets"))
    resource = shop.found()
    assert (resource.kind, resource.singular, resource.list_kind) == ("Widget", "widget", "Widgets")
    assert (resource.short_names, resource.categories, resource.verbs) == (("wd",), ("all",), VERBS)
    assert list(resource.subresources) == ["status", "scale"]
    assert resource.namespaced
    assert isinstance(resource.stored, CustomStore)
    assert shop.catalog.store(NAME) is resource.stored


@in_a_shop
async def test_what_is_not_established_is_not_served(shop):
    await shop.define(definition())
    await shop.define(definition("Widget", plural="widgetz"))
    assert shop.found(resource="widgetz") is None
    assert shop.catalog.definitions.get(f"widgetz.{GROUP}") is None


@in_a_shop
async def test_an_unserved_version_is_kept_but_not_found(shop):
    await shop.define(definition(versions=[version("v1", storage=True, served=False), version("v2")]))
    assert shop.found("v1") is None
    assert shop.catalog.definitions.get(NAME).storage.version == "v1"
    assert set(shop.catalog.definitions.get(NAME).published) == {"v2"}


CHANGES = [
    pytest.param(lambda obj: obj["metadata"].update(labels={"a": "b"}), set(), id="labels"),
    pytest.param(lambda obj: schema_of(obj, 1)["spec"]["properties"].update(x=INTEGER), {"v2"}, id="other-schema"),
    pytest.param(lambda obj: schema_of(obj, 0)["spec"]["properties"].update(x=INTEGER), {"v1", "v2"}, id="stored-schema"),
    pytest.param(lambda obj: obj["spec"]["names"].update(shortNames=["w"]), {"v1", "v2"}, id="names"),
    pytest.param(lambda obj: obj["spec"]["versions"][1].update(deprecated=True), {"v2"}, id="deprecation"),
    pytest.param(lambda obj: obj["spec"]["versions"][1].update(served=False), {"v2"}, id="served"),
    pytest.param(lambda obj: obj["spec"]["versions"].append(version("v3", record(z=STRING))), set(), id="one-more"),
    pytest.param(
        lambda obj: [one.update(storage=one["name"] == "v2") for one in obj["spec"]["versions"]],
        {"v1", "v2"},
        id="storage",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "concerned"), CHANGES)
def test_a_change_replaces_only_the_changed_versions(change, concerned):
    async def main():
        shop = Shop()
        await shop.catalog.load()
        await shop.define(definition(versions=TWO))
        before = {name: shop.found(name) for name in ("v1", "v2")}
        counted = shop.catalog.changes
        await shop.change(change)
        replaced = {name for name, old in before.items() if shop.found(name) is not old}
        assert replaced == concerned
        for name, old in before.items():
            assert old.stored.is_retired is (name in concerned)
            assert old.custom.retired.done() is (name in concerned)
        assert shop.catalog.changes > counted
        shop.catalog.hub.close()

    run(main())


@in_a_shop
async def test_retiring_one_version_leaves_the_store_of_another(shop):
    await shop.define(definition(versions=TWO))
    await shop.change(lambda obj: obj["spec"]["versions"][1].update(served=False))
    assert shop.catalog.store(NAME) is shop.found("v1").stored


@in_a_shop
async def test_a_version_that_stays_finds_its_schema_in_the_newer_definition(shop):
    await shop.define(definition(versions=TWO))
    resource = shop.found("v1")
    await shop.change(lambda obj: obj["metadata"].update(annotations={"big": "x" * 1000}))
    assert shop.found("v1") is resource
    assert set(resource.custom.props["properties"]["spec"]["properties"]) == {"size", "colour", "tags"}


@in_a_shop
async def test_schemas_are_compiled_on_the_first_write(shop):
    await shop.define(definition())
    schema = shop.found().custom.schema
    assert set(vars(schema)) == {"_load", "_preserve_unknown", "is_compiled"}
    assert not schema.is_compiled


@in_a_shop
async def test_a_terminating_definition_keeps_its_resources(shop):
    await shop.define(definition(versions=TWO))
    before = shop.found()
    await writepath.delete(shop.write("DELETE", NAME, DeleteOptions()))
    assert shop.found() is before
    assert before.stored.is_terminating
    assert not before.stored.is_retired


@in_a_shop
async def test_a_deleted_definition_leaves_no_resources(shop):
    groups = set(shop.catalog.groups)
    item = await shop.define(definition(versions=TWO))
    prefix = shop.found().stored.prefix
    resources = [shop.found(name) for name in ("v1", "v2")]
    await shop.store.remove(item)
    assert set(shop.catalog.groups) == groups
    assert all(resource.stored.is_retired for resource in resources)
    assert prefix not in [cache.prefix for cache in shop.catalog.hub.caches]
    with pytest.raises(KeyError):
        shop.catalog.store(NAME)


@in_a_shop
async def test_a_built_in_group_version_is_not_extended(shop):
    group = "networking.k8s.io"
    ours = set(shop.catalog.groups[group]["v1"])
    crd = definition(group=group, versions=[version("v1", storage=True), version("v7")])
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    item = await shop.define(crd)
    assert set(shop.catalog.groups[group]["v1"]) == ours
    assert shop.found("v7", group=group).kind == "Widget"
    assert next(iter(shop.catalog.groups[group])) == "v1"
    await shop.store.remove(item)
    assert set(shop.catalog.groups[group]["v1"]) == ours
    assert "v7" not in shop.catalog.groups[group]


def test_stored_definitions_are_served_after_loading():
    async def main():
        storage = MemoryStorage()
        first = Shop(storage)
        await first.catalog.load()
        await first.define(definition(versions=TWO))
        first.catalog.hub.close()
        second = Shop(storage)
        assert second.found() is None
        await second.catalog.load()
        assert second.found("v2").kind == "Widget"
        second.catalog.hub.close()

    run(main())


DEPRECATIONS = [
    ([("v1", {}), ("v2", {"deprecated": True})], "v2", f"{GROUP}/v2 Widget is deprecated"),
    ([("v1", {}), ("v1beta1", {"deprecated": True})], "v1beta1", f"{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget"),
    ([("v1", {}), ("v2", {}), ("v1beta1", {"deprecated": True})], "v1beta1", f"{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v2 Widget"),
    ([("v1", {}), ("v2", {"served": False}), ("v1beta1", {"deprecated": True})], "v1beta1", f"{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget"),
    ([("v1", {}), ("v1beta1", {"deprecated": True, "deprecationWarning": "no"})], "v1beta1", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("versions", "name", "text"), DEPRECATIONS)
def test_deprecated_versions_point_to_a_better_one_if_there_is_one(versions, name, text):
    async def main():
        shop = Shop()
        await shop.catalog.load()
        made = [version(one, storage=one == "v1", **more) for one, more in versions]
        await shop.define(definition(versions=made))
        assert shop.found(name).deprecation == text
        assert shop.found("v1").deprecation == ""
        shop.catalog.hub.close()

    run(main())


def test_a_converter_is_built_from_the_definition():
    asked = []

    class Converter:
        async def convert(self, objects, api_version):
            return [{**obj, "apiVersion": api_version} for obj in objects]

    def converter_for(name, conversion):
        asked.append((name, conversion["strategy"]))
        return Converter()

    async def main():
        shop = Shop(converter_for=converter_for)
        await shop.catalog.load()
        crd = definition(versions=TWO)
        webhook = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}
        crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        await shop.define(crd)
        assert asked == [(NAME, "Webhook")]
        assert all(shop.found(name).stored.converter is not None for name in ("v1", "v2"))
        shop.catalog.hub.close()

    run(main())
