"""Kinds with several versions and no converter: one store, one version stored, each version with its own schema."""

import pytest

from api_client import APPLY, NS, PARTIAL, TABLE, served
from custom_kinds import (
    CRDS,
    GROUP,
    INTEGER,
    STRING,
    WIDGET_CRD,
    WIDGETS,
    background_work,
    defined,
    definition,
    record,
    redefined,
    version,
    widget,
)

V1, V2, V3 = (f"/apis/{GROUP}/{name}/namespaces/default/widgets" for name in ("v1", "v2", "v3"))
NEW = record(size=INTEGER, colour={"type": "string", "default": "blue"}, extra={"type": "string", "default": "e"})
"""The schema of v2: another default than v1 has, and a field of its own."""


def at(name, obj=None, **fields):
    """A widget in a version."""
    return {**(obj or widget(**fields)), "apiVersion": f"{GROUP}/{name}"}


def pair(**of_second):
    return definition(versions=[version("v1", storage=True), version("v2", **{"spec": None, **of_second})])


async def switched(api, to):
    """Store in another version from now on."""

    def change(spec):
        for one in spec["versions"]:
            one["storage"] = one["name"] == to

    return await redefined(api, "widgets.example.com", change)


# -- every version is the same object ---------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["v1", "v2"])
@pytest.mark.parametrize("read", ["v1", "v2"])
@served
async def test_what_is_written_in_one_version_is_read_in_the_other(api, written, read):
    await defined(api, pair())
    paths = {"v1": V1, "v2": V2}
    first = await api.post(paths[written], at(written, spec={"size": 1}))
    assert (first.status, first["apiVersion"]) == (201, f"{GROUP}/{written}")
    one = await api.get(f"{paths[read]}/w")
    assert one["apiVersion"] == f"{GROUP}/{read}"
    assert {key: one[key] for key in ("metadata", "spec")} == {key: first[key] for key in ("metadata", "spec")}
    listed = await api.get(paths[read])
    assert (listed["apiVersion"], listed["items"]) == (f"{GROUP}/{read}", [one.json])
    changed = await api.patch(f"{paths[read]}/w", {"spec": {"size": 2}})
    assert changed["apiVersion"] == f"{GROUP}/{read}"
    again = await api.get(f"{paths[written]}/w")
    assert (again["spec"]["size"], again.version) == (2, changed.version)
    assert (await api.put(f"{paths[written]}/w", again.json)).version == again.version
    assert (await api.delete(f"{paths[read]}/w"))["status"] == "Success"
    assert (await api.get(f"{paths[written]}/w")).status == 404


@served
async def test_each_version_is_watched_in_its_own_schema(api):
    await defined(api, pair())
    watches = [await api.watch(path, resourceVersion=api.revision) for path in (V1, V2)]
    everywhere = await api.watch(f"/apis/{GROUP}/v2/widgets", headers={"accept": PARTIAL}, resourceVersion=api.revision)
    await api.made(V2, at("v2", spec={"size": 1}))
    await api.patch(f"{V1}/w", {"spec": {"size": 2}})
    await api.delete(f"{V2}/w")
    seen = [await watch.take(3) for watch in watches]
    for name, events in zip(("v1", "v2"), seen, strict=True):
        assert {event["object"]["apiVersion"] for event in events} == {f"{GROUP}/{name}"}
    strip = [[(one["type"], one["object"]["metadata"], one["object"]["spec"]) for one in events] for events in seen]
    assert strip[0] == strip[1]
    assert [event["type"] for event in await everywhere.take(3)] == ["ADDED", "MODIFIED", "DELETED"]


@served
async def test_a_name_exists_in_every_version(api):
    await defined(api, pair())
    await api.made(V1, widget())
    assert (await api.post(V2, at("v2"))).status == 409
    assert (await api.put(f"{V2}/w", at("v2"))).status == 422


# -- each version has its own schema ----------------------------------------------------------------------------------


@served
async def test_an_object_is_validated_by_the_version_of_the_request(api):
    strict = record(size={"type": "integer", "maximum": 5})
    await defined(api, pair(spec=strict))
    assert (await api.post(V2, at("v2", spec={"size": 6}))).status == 422
    assert (await api.post(V1, widget(spec={"size": 6}))).status == 201
    # It was not validated by v2 when it was created, and is not while it does not change.
    assert (await api.get(f"{V2}/w"))["spec"]["size"] == 6
    assert (await api.patch(f"{V2}/w", {"metadata": {"labels": {"a": "b"}}})).status == 200
    assert (await api.patch(f"{V2}/w", {"spec": {"size": 7}})).status == 422


@served
async def test_fields_unknown_to_the_storage_version_are_pruned(api):
    await defined(api, pair(spec=NEW))
    made = await api.post(V2, at("v2", spec={"size": 1, "extra": "mine"}))
    assert (made.status, made.warnings) == (201, [])
    assert made["spec"] == {"size": 1, "colour": "blue"}
    assert (await api.get(f"{V2}/w")).json == made.json
    shown = await api.post(V2, at("v2", widget("x", {"extra": "mine"})), dryRun="All")
    assert shown["spec"] == {"colour": "blue"}


@served
async def test_fields_unknown_to_the_requested_version_are_pruned(api):
    await defined(api, pair(spec=record(size=INTEGER)))
    await api.made(V1, widget(spec={"size": 1, "tags": ["a"]}))
    assert (await api.get(f"{V2}/w"))["spec"] == {"size": 1}
    assert (await api.get(V2))["items"][0]["spec"] == {"size": 1}
    watch = await api.watch(V2)
    assert (await watch.next())["object"]["spec"] == {"size": 1}
    # Writing it back in that version loses the rest, because what is sent is the whole.
    await api.put(f"{V2}/w", (await api.get(f"{V2}/w")).json)
    await api.patch(f"{V2}/w", {"spec": {"size": 2}})
    assert (await api.get(f"{V1}/w"))["spec"] == {"size": 2, "colour": "red"}


@served
async def test_defaulting_uses_the_request_version_on_write_and_the_stored_version_on_read(api):
    await defined(api, pair(spec=NEW))
    await api.made(V1, widget("a", {}))
    await api.made(V2, at("v2", widget("b", {})))
    assert (await api.get(f"{V1}/a"))["spec"] == (await api.get(f"{V2}/a"))["spec"] == {"colour": "red"}
    assert (await api.get(f"{V1}/b"))["spec"] == (await api.get(f"{V2}/b"))["spec"] == {"colour": "blue"}

    def new_default(spec):
        properties = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["tags"]["default"] = ["t"]

    await redefined(api, "widgets.example.com", new_default)
    assert (await api.get(f"{V1}/a"))["spec"]["tags"] == ["t"]
    assert "tags" not in (await api.get(f"{V2}/a"))["spec"]


@served
async def test_applying_the_same_in_another_version_changes_nothing(api):
    await defined(api, pair(spec=NEW))
    config = at("v2", spec={"size": 1})
    first = await api.patch(f"{V2}/w", config, APPLY, fieldManager="m")
    assert first["spec"] == {"size": 1, "colour": "blue"}
    # Were its own default filled in again each time, each apply would count as a change.
    again = await api.patch(f"{V2}/w", config, APPLY, fieldManager="m")
    assert (again.version, again.metadata["generation"]) == (first.version, 1)


@served
async def test_columns_and_selectable_fields_are_those_of_the_version(api):
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    crd = definition(
        versions=[
            version("v1", storage=True, additionalPrinterColumns=columns),
            version("v2", NEW, selectableFields=[{"jsonPath": ".spec.colour"}]),
        ]
    )
    await defined(api, crd)
    await api.made(V1, widget("a", {"size": 1}))
    await api.made(V2, at("v2", widget("b", {"colour": "blue"})))
    tables = [(await api.get(path, headers={"accept": TABLE}))["columnDefinitions"] for path in (V1, V2)]
    assert [[column["name"] for column in table] for table in tables] == [["Name", "Size"], ["Name", "Age"]]
    assert (await api.get(V2, fieldSelector="spec.colour=red")).names == ["a"]
    assert (await api.get(V1, fieldSelector="spec.colour=red")).status == 400
    watch = await api.watch(V2, fieldSelector="spec.colour=blue")
    assert await watch.brief(1) == [("ADDED", "b")]
    await api.patch(f"{V1}/a", {"spec": {"colour": "blue"}})
    assert await watch.brief(1) == [("ADDED", "a")]


@served
async def test_only_versions_with_a_status_subresource_separate_the_status(api):
    crd = definition(versions=[version("v1", storage=True, subresources={"status": {}}), version("v2")])
    await defined(api, crd)
    await api.made(V1, widget(status={"ready": True}))
    assert "status" not in (await api.get(f"{V2}/w")).json
    assert (await api.patch(f"{V2}/w", {"status": {"ready": True}}))["status"] == {"ready": True}
    assert (await api.patch(f"{V1}/w", {"status": {"ready": False}}))["status"] == {"ready": True}
    assert (await api.get(f"{V2}/w/status")).status == 404


# -- the stored version -----------------------------------------------------------------------------------------------


@served
async def test_switching_the_stored_version_leaves_objects_readable_where_they_are(api):
    await defined(api, pair())
    before = await api.made(V1, widget("old", {"size": 1}))
    changed = await switched(api, "v2")
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    await api.made(V1, widget("new", {"size": 2}))
    for path, name in ((V1, "v1"), (V2, "v2")):
        listed = await api.get(path)
        assert [(one["apiVersion"], one["spec"]["size"]) for one in listed["items"]] == [
            (f"{GROUP}/{name}", 2),
            (f"{GROUP}/{name}", 1),
        ]
    assert (await api.get(f"{V1}/old")).version == before["metadata"]["resourceVersion"]
    kept = {item.name: item.version for item in api.catalog.hub.cache("/registry/example.com/widgets/").items()}
    assert kept == {"old": f"{GROUP}/v1", "new": f"{GROUP}/v2"}


@served
async def test_objects_migrate_on_write_and_then_a_version_can_be_removed(api):
    await defined(api, pair())
    await api.made(V1, widget("a", {"size": 1}))
    await api.made(V1, widget("b", {"size": 2}))
    await switched(api, "v2")
    current = (await api.get(WIDGET_CRD)).json
    without = {**current, "spec": {**current["spec"], "versions": current["spec"]["versions"][1:]}}
    refused = await api.put(WIDGET_CRD, without)
    assert refused.status == 422
    assert "status.storedVersions[0]" in refused.message
    # Writing back what was read is a change now: of the version it is stored in.
    for name in "ab":
        obj = (await api.get(f"{V2}/{name}")).json
        answer = await api.put(f"{V2}/{name}", obj)
        assert int(answer.version) > int(obj["metadata"]["resourceVersion"])
        assert answer.metadata["generation"] == 1
    kept = {item.version for item in api.catalog.hub.cache("/registry/example.com/widgets/").items()}
    assert kept == {f"{GROUP}/v2"}
    status = await api.patch(f"{WIDGET_CRD}/status", {"status": {"storedVersions": ["v2"]}})
    assert status.status == 200, status
    without["metadata"]["resourceVersion"] = status.version
    assert (await api.put(WIDGET_CRD, without)).status == 200
    assert (await api.get(V1)).status == 404
    assert [one["spec"]["size"] for one in (await api.get(V2))["items"]] == [1, 2]


@served
async def test_old_objects_are_pruned_and_defaulted_by_their_stored_version(api):
    old = record(size=INTEGER, legacy=STRING)
    crd = definition(versions=[version("v1", old, storage=True), version("v2", NEW)])
    await defined(api, crd)
    await api.made(V1, widget(spec={"size": 1, "legacy": "x"}))
    await switched(api, "v2")
    assert (await api.get(f"{V1}/w"))["spec"] == {"size": 1, "legacy": "x"}
    assert (await api.get(f"{V2}/w"))["spec"] == {"size": 1}
    await api.patch(f"{V2}/w", {"spec": {"size": 2}})
    assert (await api.get(f"{V2}/w"))["spec"] == {"size": 2, "colour": "blue", "extra": "e"}
    assert (await api.get(f"{V1}/w"))["spec"] == {"size": 2}


@served
async def test_a_version_can_be_unserved_and_served_again(api):
    await defined(api, pair())
    await api.made(V2, at("v2", spec={"size": 1}))
    watch = await api.watch(V2)
    await watch.next()
    await redefined(api, "widgets.example.com", lambda spec: spec["versions"][1].update(served=False))
    assert await watch.rest() == []
    assert (await api.get(V2)).status == 404
    assert (await api.get(f"{V1}/w"))["spec"]["size"] == 1
    await redefined(api, "widgets.example.com", lambda spec: spec["versions"][1].update(served=True))
    assert (await api.get(f"{V2}/w"))["spec"]["size"] == 1


@served
async def test_a_version_can_be_added_while_objects_are_there(api):
    await defined(api, definition())
    await api.made(V1, widget(spec={"size": 1}))
    await redefined(api, "widgets.example.com", lambda spec: spec["versions"].append(version("v3", NEW)))
    assert (await api.get(f"{V3}/w"))["spec"] == {"size": 1, "colour": "red"}
    assert [one["version"] for one in (await api.get(f"/apis/{GROUP}"))["versions"]] == ["v3", "v1"]


# -- deprecation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "warnings"),
    [
        ({"v1beta1": {"deprecated": True}}, [f"{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget"]),
        ({"v1beta1": {"deprecated": True, "deprecationWarning": "leave it"}}, ["leave it"]),
        ({"v2": {"deprecated": True}}, [f"{GROUP}/v2 Widget is deprecated"]),
        ({"v1beta1": {}}, []),
    ],
    ids=["better", "own-words", "nothing-better", "fine"],
)
@served
async def test_requests_to_a_deprecated_version_get_a_warning(api, versions, warnings):
    ((name, more),) = versions.items()
    await defined(api, definition(versions=[version("v1", storage=True), version(name, **more)]))
    path = f"/apis/{GROUP}/{name}/namespaces/default/widgets"
    requests = [
        await api.post(path, at(name)),
        await api.get(path),
        await api.get(f"{path}/w"),
        await api.patch(f"{path}/w", {"spec": {"size": 1}}),
        await api.delete(f"{path}/w"),
    ]
    assert [answer.warnings for answer in requests] == [warnings] * 5
    assert (await api.get(V1)).warnings == []


@served
async def test_the_preferred_version_is_the_most_stable(api):
    names = ["v1alpha1", "v2beta1", "v10", "v2", "v1", "foo10", "v11alpha2", "v3beta1"]
    versions = [version(name, storage=name == "v1") for name in names]
    await defined(api, definition(versions=versions))
    group = await api.get(f"/apis/{GROUP}")
    assert [one["version"] for one in group["versions"]] == [
        "v10", "v2", "v1", "v3beta1", "v2beta1", "v11alpha2", "v1alpha1", "foo10",
    ]  # fmt: skip
    assert group["preferredVersion"]["version"] == "v10"


@served
async def test_deleting_a_definition_deletes_what_is_stored_in_any_version(api):
    await defined(api, pair())
    await api.made(V1, widget("a"))
    await switched(api, "v2")
    await api.made(V2, at("v2", widget("b")))
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(WIDGETS.replace("default", "other"), widget("c"))
    await api.delete(WIDGET_CRD)
    await background_work()
    assert (await api.get(WIDGET_CRD)).status == 404
    assert not len(api.catalog.hub.cache("/registry/example.com/widgets/"))
    assert (await api.get(CRDS)).names == []


# -- managers of versions that lack a field ---------------------------------------------------------------------------

OLD = record(size=INTEGER)
NEWER = record(size=INTEGER, colour=STRING)
UNDECLARED = ".spec.colour: field not declared in schema"


async def grown(api):
    """A kind whose v2 has a field that v1 lacks, with an object that a manager applied at v1."""
    versions = [version("v1", OLD), version("v2", NEWER, storage=True)]
    await defined(api, definition(versions=versions))
    applied = await api.patch(f"{V1}/w", at("v1", spec={"size": 1}), APPLY, fieldManager="a")
    assert applied.status == 201, applied


async def apply_newer(api, manager, **spec):
    return await api.patch(f"{V2}/w", at("v2", spec=spec), APPLY, fieldManager=manager, force="true")


@served
async def test_apply_of_a_field_that_the_version_of_another_manager_lacks_is_refused(api):
    await grown(api)
    answer = await apply_newer(api, "b", colour="red")
    assert (answer.status, answer.message) == (500, f"failed to convert new object: {UNDECLARED}")
    assert "reason" not in answer.json
    assert (await apply_newer(api, "b", size=1)).status == 200


@served
async def test_apply_of_a_field_that_the_managers_last_version_lacks_is_refused(api):
    await grown(api)
    answer = await apply_newer(api, "a", size=1, colour="red")
    why = "failed to prune fields: failed to convert merged object to last applied version"
    assert (answer.status, answer.message) == (500, f"{why}: {UNDECLARED}")
    # At the new version with the old fields first, as in Kubernetes.
    assert (await apply_newer(api, "a", size=1)).status == 200
    assert (await apply_newer(api, "a", size=1, colour="red")).status == 200


@served
async def test_update_of_a_field_that_the_version_of_a_manager_lacks_drops_the_managed_fields(api):
    await grown(api)
    patched = await api.patch(f"{V2}/w", {"spec": {"colour": "green"}}, fieldManager="x")
    assert (patched.status, patched["spec"]) == (200, {"size": 1, "colour": "green"})
    assert "managedFields" not in patched.metadata
    applied = await apply_newer(api, "b", size=1)
    assert [entry["manager"] for entry in applied.metadata["managedFields"]] == ["b", "before-first-apply"]


@served
async def test_update_of_a_status_that_the_version_of_a_manager_lacks_drops_the_managed_fields(api):
    root = record(spec=OLD, status=record(phase=STRING))
    parts = {"subresources": {"status": {}}}
    versions = [version("v1", root=record(spec=OLD), **parts), version("v2", root=root, storage=True, **parts)]
    await defined(api, definition(versions=versions))
    await api.patch(f"{V1}/w", at("v1", spec={"size": 1}), APPLY, fieldManager="a")
    await api.patch(f"{V2}/w/status", {"status": {"phase": "x"}}, fieldManager="x")
    shown = await api.get(f"{V2}/w")
    assert shown["status"] == {"phase": "x"}
    assert "managedFields" not in shown.metadata


@served
async def test_apply_to_an_object_that_does_not_fit_the_version_of_a_manager_is_refused(api):
    await grown(api)
    obj = (await api.get(f"{V2}/w")).json
    obj["spec"]["colour"] = "red"
    store = api.catalog.find(GROUP, "v2", "widgets").stored
    item = store.get("default", "w")
    await store.put(item.key, obj, item.revision)
    answer = await apply_newer(api, "b", size=2)
    assert (answer.status, answer.message) == (500, UNDECLARED)
