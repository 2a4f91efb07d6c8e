"""Objects as deep as they may be are served by every verb in every form, and deeper ones are refused in words."""

import json

import pytest

from api_client import APPLY, JSON, JSON_PATCH, MERGE, PARTIAL, PARTIAL_LIST, TABLE, served
from kapi.api.limits import JSON_DEPTH, OBJECT_DEPTH

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/deep.example.com/v1/namespaces/default/things"
TOO_DEEP = "exceeded max depth"
OWNED = 5
"""The levels of managedFields above the fields of an object, and the one below the last of them."""

DEEPEST = OBJECT_DEPTH - OWNED
"""The levels of the deepest object that fits with its managedFields."""

ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def schema_of(levels, *, only_lists=False):
    """A schema that describes each level by itself: rules, list types and shapes are walked to the last."""
    schema = {"type": "string", "default": "x", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self != 'no'"}]}
    for level in range(levels):
        if level % 2 and not only_lists:
            schema = {"type": "object", "properties": {"n": schema}}
        else:
            schema = {"type": "array", "maxItems": 1, "items": schema}
    return schema


def definition(schema):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.deep.example.com"},
        "spec": {
            "group": "deep.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "All", "type": "string", "jsonPath": ".spec"}],
                }
            ],
        },
    }


def nested(levels, leaf="x"):
    """A value of so many levels."""
    value = leaf
    for _ in range(levels):
        value = {"n": value}
    return value


def listed(levels, leaf="x"):
    """A value of so many levels of lists and maps in turn."""
    value = leaf
    for level in range(levels):
        value = {"n": value} if level % 2 else [value]
    return value


def thing(name, spec, **more):
    return {"apiVersion": "deep.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec, **more}


SHAPES = {"maps": nested, "lists and maps": listed}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@served
async def test_the_deepest_object_passes_through_every_verb_and_form(api, shape):
    await api.made(CRDS, definition({**ANY, "properties": {"status": ANY}}))
    spec = shape(DEEPEST - 1)
    other = shape(DEEPEST - 1, "y")
    made = await api.post(THINGS, thing("deep", spec))
    assert made.status == 201, made
    path = f"{THINGS}/deep"
    assert (await api.post(THINGS, thing("dry", spec), dryRun="All")).status == 201
    assert (await api.put(path, {**made.json, "spec": other})).status == 200
    assert (await api.patch(path, {"spec": spec}, MERGE)).status == 200
    assert (await api.patch(path, [{"op": "replace", "path": "/spec", "value": other}], JSON_PATCH)).status == 200
    copies = [{"op": "copy", "from": "/spec", "path": "/copy"}, {"op": "test", "path": "/copy", "value": other}]
    assert (await api.patch(path, [*copies, {"op": "remove", "path": "/copy"}], JSON_PATCH)).status == 200
    applied = await api.patch(path, thing("deep", spec), APPLY, fieldManager="m", force="true")
    assert applied.status == 200, applied
    assert (await api.patch(path, thing("deep", spec), APPLY, fieldManager="m2")).status == 200
    conflict = await api.patch(path, thing("deep", other), APPLY, fieldManager="m2")
    assert conflict.status == 409, conflict
    status = await api.patch(f"{path}/status", {"status": shape(DEEPEST - 1)}, MERGE)
    assert status.status == 200, status
    again = await api.put(f"{path}/status", status.json)
    assert again.status == 200, again
    for accept in (JSON, TABLE, PARTIAL, PARTIAL_LIST):
        for target in (path, THINGS):
            if (accept == PARTIAL) == (target == THINGS) and accept in (PARTIAL, PARTIAL_LIST):
                continue
            answer = await api.get(target, headers={"accept": accept})
            assert answer.status == 200, (accept, target)
    watch = await api.watch(THINGS, resourceVersion=made.version)
    await api.patch(path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert [kind for kind, _ in await watch.brief(3)] == ["MODIFIED"] * 3
    tables = await api.watch(THINGS, headers={"accept": TABLE})
    assert (await tables.next())["object"]["kind"] == "Table"
    back = await api.get(path)
    assert (await api.put(path, back.json)).status == 200
    assert (await api.delete(path)).status == 200
    for opened in (watch, tables):
        await opened.close()


@pytest.mark.parametrize("only_lists", [True, False])
@served
async def test_the_deepest_schema_and_its_objects_pass_through_every_verb(api, only_lists):
    """A definition is an object, too: a list takes one level of it, a map two."""
    levels = DEEPEST - 11 if only_lists else (DEEPEST - 11) * 2 // 3
    schema = {"type": "object", "properties": {"spec": schema_of(levels, only_lists=only_lists)}}
    too_deep = {"type": "object", "properties": {"spec": schema_of(levels + 10, only_lists=only_lists)}}
    assert (await api.post(CRDS, definition(too_deep))).status == 400
    made = await api.post(CRDS, definition(schema))
    assert made.status == 201, made

    def spec(leaf):
        value = leaf
        for level in range(levels):
            value = {"n": value} if level % 2 and not only_lists else [value]
        return value

    wrong = await api.post(THINGS, thing("deep", spec({"deeper": "x"})))
    assert wrong.error[:2] == (422, "Invalid")
    path = f"{THINGS}/deep"
    stored = await api.post(THINGS, thing("deep", spec("x")))
    assert stored.status == 201, stored
    assert (await api.post(THINGS, thing("bad", spec("no")))).status == 422
    assert (await api.put(path, {**stored.json, "spec": spec("v")})).status == 200
    for patch, media in (
        ({"spec": spec("y")}, MERGE),
        ([{"op": "replace", "path": "/spec", "value": spec("z")}], JSON_PATCH),
    ):
        patched = await api.patch(path, patch, media)
        assert patched.status == 200, patched
    applied = await api.patch(path, thing("deep", spec("w")), APPLY, fieldManager="m", force="true")
    assert applied.status == 200, applied
    for target in (THINGS, CRDS, "/openapi/v3/apis/deep.example.com/v1", "/openapi/v2"):
        answer = await api.get(target, headers={"accept": JSON if "openapi" in target else TABLE})
        assert answer.status == 200, (target, answer)


@served
async def test_an_object_that_is_too_deep_is_refused_by_every_verb(api):
    await api.made(CRDS, definition(ANY))
    made = await api.made(THINGS, thing("deep", {}))
    path = f"{THINGS}/deep"
    for levels in (DEEPEST, OBJECT_DEPTH, JSON_DEPTH - 2, JSON_DEPTH - 1, JSON_DEPTH, 600):
        spec = nested(levels)
        for answer in (
            await api.post(THINGS, thing("deeper", spec)),
            await api.put(path, {**made, "spec": spec}),
            await api.patch(path, {"spec": spec}, MERGE),
            await api.patch(path, [{"op": "replace", "path": "/spec", "value": spec}], JSON_PATCH),
            await api.patch(path, thing("deep", spec), APPLY, fieldManager="m", force="true"),
        ):
            assert (answer.status, answer["reason"]) == (400, "BadRequest"), (levels, answer)
            assert TOO_DEEP in answer.message


def nesting_patch(levels, step=100):
    """A JSON patch that nests an object level by level, each operation as deep as a body may be."""
    path, operations = "/spec", []
    for _ in range(levels // step):
        operations.append({"op": "add", "path": f"{path}/n", "value": nested(step - 1, {})})
        path += "/n" * step
    return operations


NESTING = {
    "values inside values": nesting_patch(600),
    "moves of itself into a new map": [
        step
        for _ in range(600)
        for step in (
            {"op": "add", "path": "/other", "value": {}},
            {"op": "move", "from": "/spec", "path": "/other/n"},
            {"op": "move", "from": "/other", "path": "/spec"},
        )
    ],
    "copies of itself into itself": [{"op": "copy", "from": "/spec", "path": "/spec" + "/n" * n} for n in (1, 2, 4, 8)]
    + [{"op": "copy", "from": "/spec", "path": "/spec" + "/n" * 16} for _ in range(40)],
    "below the status, which is dropped": [
        {**operation, "path": operation["path"].replace("/spec", "/status", 1)} for operation in nesting_patch(600)
    ],
}


@pytest.mark.parametrize("name", NESTING)
@served
async def test_a_json_patch_that_nests_too_deep_is_refused(api, name):
    await api.made(CRDS, definition({**ANY, "properties": {"status": ANY}}))
    await api.made(THINGS, thing("deep", {}, status={}))
    await api.patch(f"{THINGS}/deep/status", {"status": {"n": {}}}, MERGE)
    answer = await api.patch(f"{THINGS}/deep", NESTING[name], JSON_PATCH)
    assert answer.status in (400, 422), answer
    if answer.status == 400:
        assert TOO_DEEP in answer.message
    assert (await api.get(f"{THINGS}/deep"))["spec"] == {}


@served
async def test_an_object_that_admission_makes_too_deep_is_refused(api):
    class Nesting:
        def handles(self, operation, resource, _subresource):
            return operation == "CREATE" and resource.resource == "things"

        async def mutate(self, write, obj, old):
            obj["spec"] = nested(self.levels)

    plugin = Nesting()
    api.services.admission = type(api.services.admission)({"Nesting": plugin})
    await api.made(CRDS, definition(ANY))
    for plugin.levels in (OBJECT_DEPTH, 600, 2000):
        answer = await api.post(THINGS, thing("deep", {}))
        assert answer.status == 400, (plugin.levels, answer)
        assert TOO_DEEP in answer.message


@served
async def test_free_form_fields_of_built_in_kinds_are_bounded_alike(api):
    revisions = "/apis/apps/v1/namespaces/default/controllerrevisions"

    def revision(levels):
        return {"metadata": {"name": "r"}, "revision": 1, "data": nested(levels)}

    too_deep = await api.post(revisions, revision(OBJECT_DEPTH))
    assert too_deep.status == 400, too_deep
    made = await api.post(revisions, revision(DEEPEST - 1))
    assert made.status == 201, made
    applied = {"apiVersion": "apps/v1", "kind": "ControllerRevision", **revision(DEEPEST - 1)}
    assert (
        await api.patch(f"{revisions}/r", json.loads(json.dumps(applied)), APPLY, fieldManager="m", force="true")
    ).status == 200
    assert (await api.get(revisions, headers={"accept": TABLE})).status == 200
