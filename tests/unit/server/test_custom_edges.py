"""Edge cases of custom resources: unknown paths, terminating definitions, unusual values."""

import pytest

from api_client import APPLY, served
from custom_kinds import (
    GROUP,
    INTEGER,
    STRING,
    WIDGET_CRD,
    WIDGETS,
    background_work,
    defined,
    definition,
    gone,
    record,
    redefined,
    version,
    widget,
)

W = f"{WIDGETS}/w"
PAGE = (404, "404 page not found\n")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# -- paths ------------------------------------------------------------------------------------------------------------

NOWHERE = [
    ("GET", f"/apis/{GROUP}/v9"),
    ("GET", f"/apis/{GROUP}/v9/widgets"),
    ("GET", f"/apis/{GROUP}/v1/nothings"),
    ("POST", f"/apis/{GROUP}/v1/widgets"),
    ("DELETE", f"/apis/{GROUP}/v1/widgets"),
    ("GET", f"/apis/{GROUP}/v1/widgets/w"),
    ("PUT", f"/apis/{GROUP}/v1/widgets/w"),
    ("GET", f"/apis/{GROUP}/v1/namespaces/default/planets"),
    ("POST", f"/apis/{GROUP}/v1/namespaces/default/planets"),
    ("GET", f"/apis/{GROUP}/v1/namespaces/default/planets/p"),
]


@pytest.mark.parametrize(("method", "path"), NOWHERE, ids=[f"{method} {path}" for method, path in NOWHERE])
@served
async def test_an_unknown_path_of_a_custom_group_is_a_plain_404(api, method, path):
    await defined(api, definition(), definition("Planet", scope="Cluster"))
    answer = await api.request(method, path, widget() if method in ("POST", "PUT") else b"")
    assert (answer.status, answer.text) == PAGE


@served
async def test_a_sub_resource_that_is_not_defined_is_not_found_with_its_object(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget())
    for name in ("scale", "nothing"):
        assert (await api.get(f"{W}/{name}")).error == (404, "NotFound", 'widgets.example.com "w" not found')


@served
async def test_unknown_resources_of_built_in_groups_are_a_status(api):
    await defined(api, definition())
    assert (await api.get("/apis/apps/v1/nothings")).message == "the server could not find the requested resource"
    assert (await api.get("/apis/apps/v9")).status == 404


# -- a terminating definition -----------------------------------------------------------------------------------------


@served
async def test_discovery_shows_the_remaining_verbs_of_a_terminating_definition(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget(metadata={"finalizers": ["example.com/hold"]}))
    before = await api.get("/apis", headers={"accept": AGGREGATED})
    await api.delete(WIDGET_CRD)
    await background_work()
    left = ["delete", "deletecollection", "get", "list", "watch"]
    assert (await api.get(f"/apis/{GROUP}/v1"))["resources"][0]["verbs"] == left
    after = await api.get("/apis", headers={"accept": AGGREGATED})
    (group,) = [item for item in after["items"] if item["metadata"]["name"] == GROUP]
    assert group["versions"][0]["resources"][0]["verbs"] == left
    assert after.header("ETag") != before.header("ETag")
    # Finalizers must be taken off all the same.
    assert (await api.patch(W, {"metadata": {"finalizers": None}})).status == 200
    await gone(api, "widgets.example.com")


# -- values of another type than the schema's -------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [[], "x", 3, {"tags": {}}, {"tags": "x"}, {"size": []}], ids=repr)
@pytest.mark.parametrize("method", ["post", "patch"])
@served
async def test_a_type_error_names_the_actual_type(api, spec, method):
    await defined(api, definition())
    if method == "post":
        answer = await api.post(WIDGETS, widget(spec=spec))
    else:
        await api.made(WIDGETS, widget(spec={"size": 1, "tags": ["a"]}))
        answer = await api.patch(W, [{"op": "replace", "path": "/spec", "value": spec}], "application/json-patch+json")
    assert answer.status == 422, answer
    assert " in body must be of type " in answer.message


def _as_text(spec):
    spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = STRING


@served
async def test_managed_fields_are_kept_while_an_object_violates_its_schema(api):
    await defined(api, definition())
    await api.patch(W, widget(spec={"size": 1}), APPLY, fieldManager="one")
    before = (await api.get(W)).metadata["managedFields"]
    await redefined(api, "widgets.example.com", _as_text)
    answer = await api.patch(W, {"spec": {"colour": "blue"}}, fieldManager="two")
    assert (answer.status, answer["spec"]["colour"]) == (200, "blue")
    assert answer.metadata["managedFields"] == before
    fixed = await api.patch(W, {"spec": {"size": "1"}}, fieldManager="two")
    assert fixed.metadata["managedFields"] == before
    again = await api.patch(W, {"spec": {"size": "2"}}, fieldManager="two")
    assert [entry["manager"] for entry in again.metadata["managedFields"]] == ["two"]


@served
async def test_apply_to_an_object_that_violates_its_schema_is_refused(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget(spec={"size": 1}))
    await redefined(api, "widgets.example.com", _as_text)
    answer = await api.patch(W, widget(spec={"colour": "blue"}), APPLY, fieldManager="m")
    assert answer.status == 500
    assert answer.message == (
        "failed to create typed live object (default/w; example.com/v1, Kind=Widget): "
        ".spec.size: expected string, got &value.valueUnstructured{Value:1}"
    )


@served
async def test_duplicate_list_map_keys_do_not_hide_other_managed_fields(api):
    plain = {"type": "array", "items": STRING}
    await defined(api, definition(spec=record(tags=plain, size=INTEGER)))
    await api.made(WIDGETS, widget(spec={"tags": ["a", "a"], "size": 1}))

    def as_set(spec):
        properties = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["tags"]["x-kubernetes-list-type"] = "set"

    await redefined(api, "widgets.example.com", as_set)
    answer = await api.patch(W, {"spec": {"size": 2}}, fieldManager="two")
    assert answer.status == 200, answer
    (mine,) = [entry for entry in answer.metadata["managedFields"] if entry["manager"] == "two"]
    assert mine["fieldsV1"] == {"f:spec": {"f:size": {}}}


# -- owners at several versions ---------------------------------------------------------------------------------------


@served
async def test_a_status_takes_nothing_but_status_from_owners_at_other_versions(api):
    status = {"subresources": {"status": {}}}
    await defined(api, definition(versions=[version("v1", storage=True, **status), version("v2", **status)]))
    second = f"/apis/{GROUP}/v2/namespaces/default/widgets/w"
    first = await api.post(WIDGETS, widget(spec={"size": 1}, metadata={"labels": {"a": "b"}}), fieldManager="one")
    bare = {**widget(status={"ready": True}), "apiVersion": f"{GROUP}/v2"}
    bare["metadata"]["resourceVersion"] = first.version
    answer = await api.put(f"{second}/status", bare, fieldManager="two")
    assert answer.status == 200, answer
    entries = {entry["manager"]: entry["fieldsV1"] for entry in answer.metadata["managedFields"]}
    assert entries["one"] == first.metadata["managedFields"][0]["fieldsV1"]
    assert entries["two"] == {"f:status": {".": {}, "f:ready": {}}}
    labelled = {**widget(status={"ready": True}, metadata={"labels": {"a": "c"}}), "apiVersion": f"{GROUP}/v2"}
    assert (await api.patch(f"{second}/status", labelled, APPLY, fieldManager="three")).status == 200
