"""Definitions in the old form, v1beta1: stored as new ones, read back as either, changed through both."""

import copy

import pytest

from api_client import APPLY, JSON_PATCH, served
from custom_kinds import CRDS, GROUP, OLD_CRDS, WIDGET_CRD, WIDGETS, conditions, gone, widget

OLD = f"{OLD_CRDS}/widgets.{GROUP}"
W = f"{WIDGETS}/w"


def old_definition(**spec):
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {"group": GROUP, "version": "v1", "scope": "Namespaced", "names": names, **spec},
    }


SCHEMA = {
    "openAPIV3Schema": {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}},
    }
}

# As in the tutorials of the time: a kind without a schema, and one with a schema that keeps what it does not know.
SEEDS = [
    pytest.param(old_definition(), id="no-schema"),
    pytest.param(old_definition(validation=SCHEMA), id="schema"),
    pytest.param(old_definition(validation=SCHEMA, subresources={"status": {}}), id="status"),
    pytest.param(old_definition(validation=SCHEMA, preserveUnknownFields=False), id="pruning"),
    pytest.param(
        old_definition(additionalPrinterColumns=[{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}]),
        id="columns",
    ),
]


@pytest.mark.parametrize("crd", SEEDS)
@served
async def test_a_v1beta1_definition_is_served_and_read_in_both_versions(api, crd):
    stored = await api.post(OLD_CRDS, copy.deepcopy(crd))
    assert stored.status == 201, stored
    assert any("v1beta1 CustomResourceDefinition is deprecated" in text for text in stored.warnings)
    assert conditions(stored.json)["Established"][0] == "True"
    old = await api.get(OLD)
    assert old["spec"]["version"] == "v1"
    assert old["spec"]["versions"] == [{"name": "v1", "served": True, "storage": True}]
    new = await api.get(WIDGET_CRD)
    assert new["apiVersion"] == "apiextensions.k8s.io/v1"
    (version,) = new["spec"]["versions"]
    assert version["name"] == "v1"
    assert ("subresources" in version) is ("subresources" in crd["spec"])
    assert (await api.post(WIDGETS, widget(spec={"size": 1, "zz": 1}))).status == 201
    keeps = crd["spec"].get("preserveUnknownFields", True)
    assert (await api.get(W))["spec"] == ({"size": 1, "zz": 1} if keeps else {"size": 1})
    assert (await api.post(WIDGETS, widget("b", {"size": 9}))).status == (422 if "validation" in crd["spec"] else 201)


@served
async def test_openapi_includes_v1beta1_definitions(api):
    await api.made(OLD_CRDS, old_definition())
    document = await api.get(f"/openapi/v3/apis/{GROUP}/v1")
    assert document.status == 200
    assert "com.example.v1.Widget" in document["components"]["schemas"]
    assert (await api.get("/openapi/v2", headers={"accept": "application/json"})).status == 200
    groups = await api.get("/openapi/v3")
    assert (await api.get(groups["paths"]["apis/apiextensions.k8s.io/v1beta1"]["serverRelativeURL"])).status == 200


@served
async def test_objects_with_preserved_unknown_fields_can_be_applied(api):
    await api.made(OLD_CRDS, old_definition())
    await api.patch(W, widget(spec={"a": {"b": 1}, "list": [1]}), APPLY, fieldManager="one")
    answer = await api.patch(W, widget(spec={"a": {"c": 2}}), APPLY, fieldManager="two")
    assert answer["spec"] == {"a": {"b": 1, "c": 2}, "list": [1]}
    conflict = await api.patch(W, widget(spec={"a": {"b": 3}}), APPLY, fieldManager="two")
    assert conflict.message == 'Apply failed with 1 conflict: conflict with "one": .spec.a.b'


@served
async def test_a_v1beta1_definition_can_be_updated_in_both_versions(api):
    await api.made(OLD_CRDS, old_definition(validation=SCHEMA))
    path = "/spec/validation/openAPIV3Schema/properties/spec/properties/size/maximum"
    patched = await api.patch(OLD, [{"op": "replace", "path": path, "value": 7}], JSON_PATCH)
    assert patched.status == 200, patched
    assert (await api.post(WIDGETS, widget("a", {"size": 7}))).status == 201
    assert (await api.post(WIDGETS, widget("b", {"size": 8}))).status == 422
    short = await api.patch(WIDGET_CRD, {"spec": {"names": {"shortNames": ["wd"]}}})
    assert short.status == 200, short
    assert (await api.get(OLD))["spec"]["names"]["shortNames"] == ["wd"]
    current = (await api.get(OLD)).json
    assert (await api.put(OLD, current)).version == current["metadata"]["resourceVersion"]


@served
async def test_a_v1beta1_definition_can_be_applied(api):
    first = await api.patch(OLD, old_definition(validation=SCHEMA), APPLY, fieldManager="m")
    assert first.status == 201, first
    again = await api.patch(OLD, old_definition(validation=SCHEMA), APPLY, fieldManager="m")
    assert (again.status, again.version) == (200, first.version)
    taller = copy.deepcopy(SCHEMA)
    taller["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 9
    conflict = await api.patch(OLD, old_definition(validation=taller), APPLY, fieldManager="other")
    assert (conflict.status, conflict["reason"]) == (409, "Conflict")
    assert 'conflict with "m"' in conflict.message
    forced = await api.patch(OLD, old_definition(validation=taller), APPLY, fieldManager="other", force="true")
    assert forced.status == 200, forced
    assert (await api.post(WIDGETS, widget(spec={"size": 9}))).status == 201


@served
async def test_v1_definitions_are_listed_in_v1beta1(api):
    await api.made(OLD_CRDS, old_definition())
    listed = await api.get(OLD_CRDS)
    assert (listed["apiVersion"], listed.names) == ("apiextensions.k8s.io/v1beta1", [f"widgets.{GROUP}"])
    assert (await api.get(CRDS)).names == [f"widgets.{GROUP}"]
    watch = await api.watch(OLD_CRDS)
    assert (await watch.next())["object"]["spec"]["version"] == "v1"


@served
async def test_a_v1_definition_cannot_preserve_unknown_fields(api):
    await api.made(OLD_CRDS, old_definition())
    new = (await api.get(WIDGET_CRD)).json
    assert new["spec"]["preserveUnknownFields"] is True
    fresh = {**new, "metadata": {"name": f"widgets.{GROUP}"}}
    await api.delete(WIDGET_CRD)
    await gone(api, f"widgets.{GROUP}")
    answer = await api.post(CRDS, fresh)
    assert answer.status == 422
    assert "spec.preserveUnknownFields: Invalid value: true: cannot set to true, " in answer.message


@served
async def test_a_v1beta1_definition_that_starts_pruning_drops_unknown_fields(api):
    await api.made(OLD_CRDS, old_definition(validation=SCHEMA))
    await api.made(WIDGETS, widget(spec={"size": 1, "zz": {"a": 1}}))
    assert (await api.get(W))["spec"] == {"size": 1, "zz": {"a": 1}}
    changed = await api.patch(WIDGET_CRD, {"spec": {"preserveUnknownFields": False}})
    assert changed.status == 200, changed
    assert (await api.get(W))["spec"] == {"size": 1}
