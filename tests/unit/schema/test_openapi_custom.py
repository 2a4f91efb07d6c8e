"""Custom kinds in OpenAPI. The expectations of the table are answers of a Kubernetes 1.36 server."""

import copy
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_samples import PODS, STATUS, resource

from kapi.schema.openapi import components, custom, v2, v2_protobuf, v3
from kapi.schema.openapi.served import Subresource

V2, V3 = components.V2, components.V3
CHOICE = [{"type": "integer"}, {"type": "string"}]
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def thing(kind="Thing", group="example.com", version="v1", list_kind="ThingList", **more):
    return resource(
        kind,
        group,
        version,
        definition=custom.definition_name(group, version, kind),
        list_kind=list_kind,
        list_definition=custom.definition_name(group, version, list_kind),
        **more,
    )


THING = thing()


def published(props, base, *, preserve_unknown=False, of=THING):
    return custom.definitions(of, props, preserve_unknown=preserve_unknown, base=base)[of.schema]


def field(schema, base):
    """What is published of a field with that schema."""
    return published({"type": "object", "properties": {"field": schema}}, base)["properties"]["field"]


def bare(schema):
    """Without prose and without the standard fields of embedded objects."""
    return {key: value for key, value in schema.items() if key != "description"}


# -- fields -----------------------------------------------------------------------------------------------------------

SAME = {
    "bounds": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9, "exclusiveMaximum": True},
    "multiples": {"type": "number", "format": "double", "multipleOf": 0.5, "minimum": 0.5, "exclusiveMinimum": True},
    "text": {"type": "string", "title": "T", "description": "d", "minLength": 0, "maxLength": 5, "pattern": "^a"},
    "enum": {"type": "string", "enum": ["red", "green", ""]},
    "sets": {
        "type": "array",
        "minItems": 0,
        "maxItems": 5,
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
    },
    "maps of lists": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "b"],
        "items": {"type": "object", "required": ["a"], "x-kubernetes-map-type": "atomic"},
    },
    "map": {"type": "object", "minProperties": 1, "maxProperties": 4, "additionalProperties": {"type": "string"}},
    "anything in a map": {"type": "object", "additionalProperties": True},
    "rules": {"type": "string", "x-kubernetes-validations": [{"rule": "self > 'a'", "message": "no"}]},
    "pointers": {"type": "object", "externalDocs": {"url": "https://example.com"}, "example": {"a": 1}},
    "anything": {PRESERVE: True},
}


@pytest.mark.parametrize("schema", SAME.values(), ids=SAME)
def test_what_both_versions_can_say_is_published_as_it_is(schema):
    assert field(schema, V3) == schema
    assert field(schema, V2) == schema


DIFFERENT = {
    "defaults": (
        {"type": "boolean", "default": False},
        {"type": "boolean", "default": False},
        {"type": "boolean"},
    ),
    "default of null": (
        {"type": "string", "nullable": True, "default": None},
        {"type": "string", "nullable": True},
        {},
    ),
    "nullable text": ({"type": "string", "nullable": True}, {"type": "string", "nullable": True}, {}),
    "nullable object keeps what it requires": (
        {"type": "object", "nullable": True, "required": ["a"], "properties": {"a": {"type": "string"}}},
        {"type": "object", "nullable": True, "required": ["a"], "properties": {"a": {"type": "string"}}},
        {"required": ["a"]},
    ),
    "nullable list": (
        {"type": "array", "nullable": True, "items": {"type": "string"}},
        {"type": "array", "nullable": True, "items": {"type": "string"}},
        {},
    ),
    "nullable items": (
        {"type": "array", "items": {"type": "string", "nullable": True}},
        {"type": "array", "items": {"type": "string", "nullable": True}},
        {"type": "array", "items": {}},
    ),
    "nullable values": (
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "additionalProperties": {}},
    ),
    "nullable fields are not required": (
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
        },
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
        },
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
    ),
    "nothing is left to require": (
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "object", "properties": {"a": {}}},
    ),
    "int or string": ({INT_OR_STRING: True}, {INT_OR_STRING: True, "anyOf": CHOICE}, {INT_OR_STRING: True}),
    "int or string, spelt out": (
        {INT_OR_STRING: True, "anyOf": CHOICE, "pattern": "^a"},
        {INT_OR_STRING: True, "anyOf": CHOICE, "pattern": "^a"},
        {INT_OR_STRING: True, "pattern": "^a"},
    ),
    "int or string, spelt out below": (
        {INT_OR_STRING: True, "allOf": [{"anyOf": CHOICE}, {"pattern": "^a"}]},
        {INT_OR_STRING: True, "allOf": [{"anyOf": CHOICE}, {"pattern": "^a"}]},
        {INT_OR_STRING: True},
    ),
    "int or string with another choice": (
        {INT_OR_STRING: True, "anyOf": [{"minimum": 3}, {"pattern": "^b"}]},
        {INT_OR_STRING: True, "anyOf": [{"minimum": 3}, {"pattern": "^b"}], "allOf": [{"anyOf": CHOICE}]},
        {INT_OR_STRING: True},
    ),
    "nullable int or string": (
        {INT_OR_STRING: True, "nullable": True},
        {INT_OR_STRING: True, "nullable": True, "anyOf": CHOICE},
        {INT_OR_STRING: True},
    ),
    "open object": (
        {"type": "object", PRESERVE: True, "required": ["a"], "properties": {"a": {"type": "string"}}},
        {"type": "object", PRESERVE: True, "required": ["a"], "properties": {"a": {"type": "string"}}},
        {PRESERVE: True, "required": ["a"]},
    ),
    "open items": (
        {"type": "array", "items": {"type": "object", PRESERVE: True}},
        {"type": "array", "items": {"type": "object", PRESERVE: True}},
        {"type": "array", "items": {PRESERVE: True}},
    ),
    "open list": (
        {"type": "array", PRESERVE: True, "items": {"type": "string"}},
        {"type": "array", PRESERVE: True, "items": {"type": "string"}},
        {PRESERVE: True},
    ),
    "choices": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"properties": {"a": {"minLength": 2}}}],
            "anyOf": [{"not": {"required": ["b"]}}],
            "allOf": [{"maxProperties": 3}],
            "not": {"required": ["a", "b"]},
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"properties": {"a": {"minLength": 2}}}],
            "anyOf": [{"not": {"required": ["b"]}}],
            "allOf": [{"maxProperties": 3}],
            "not": {"required": ["a", "b"]},
        },
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    "items in a choice": (
        {"type": "array", "items": {"type": "string"}, "not": {"items": {"pattern": "x"}}},
        {"type": "array", "items": {"type": "string"}, "not": {"items": {"pattern": "x"}}},
        {"type": "array", "items": {"type": "string"}},
    ),
    "what says nothing": (
        {"type": "array", "items": {"type": "object", "properties": {}}, "uniqueItems": False, "title": "", "enum": []},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": {"type": "object"}},
    ),
}


@pytest.mark.parametrize(("schema", "new", "old"), DIFFERENT.values(), ids=DIFFERENT)
def test_version_2_says_less_where_it_cannot_say_the_same(schema, new, old):
    before = copy.deepcopy(schema)
    assert field(schema, V3) == new
    assert field(schema, V2) == old
    assert schema == before


# -- embedded objects -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [V2, V3], ids=["v2", "v3"])
def test_embedded_objects_have_the_standard_fields(base):
    spec = {"type": "object", "properties": {"x": {"type": "integer"}}}
    own = {"spec": spec, "metadata": {"type": "object"}}
    schema = field({"type": "object", EMBEDDED: True, "required": ["spec", "kind"], "properties": own}, base)
    assert schema["required"] == ["spec", "kind", "apiVersion"]
    assert {name: bare(below) for name, below in schema["properties"].items()} == {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": bare(custom._metadata(base)),
        "spec": spec,
    }
    below = field({"type": "array", "items": {"type": "object", EMBEDDED: True, "properties": own}}, base)["items"]
    assert below["required"] == ["kind", "apiVersion"]


def test_embedded_objects_that_may_have_other_fields_have_none_in_version_2():
    schema = {"type": "object", EMBEDDED: True, PRESERVE: True}
    assert field(schema, V2) == {EMBEDDED: True, PRESERVE: True}
    assert field(schema, V3)["properties"].keys() == {"apiVersion", "kind", "metadata"}


# -- whole objects and lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [V2, V3], ids=["v2", "v3"])
def test_the_standard_fields_replace_what_the_author_said_of_them(base):
    props = {
        "description": "A thing.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "mine"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}},
            "spec": {"type": "object"},
        },
    }
    schema = published(props, base)
    assert (schema["description"], schema["type"], schema["required"]) == ("A thing.", "object", ["spec"])
    assert schema["properties"]["apiVersion"]["description"].startswith("APIVersion defines the versioned schema")
    assert schema["properties"]["kind"]["description"].startswith("Kind is a string value")
    reference = {"$ref": base + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    assert bare(schema["properties"]["metadata"]) == (reference if base == V2 else {"allOf": [reference]})
    assert schema["properties"]["spec"] == {"type": "object"}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Thing"}]
    assert "x-kubernetes-selectable-fields" not in schema


@pytest.mark.parametrize("base", [V2, V3], ids=["v2", "v3"])
def test_lists_have_their_own_kind(base):
    gear = thing("Gear", list_kind="GearCollection", plural="gears", selectable=("spec.teeth",))
    found = custom.definitions(gear, {"type": "object"}, preserve_unknown=False, base=base)
    assert list(found) == ["com.example.v1.Gear", "com.example.v1.GearCollection"]
    schema = found["com.example.v1.GearCollection"]
    assert schema["description"] == "GearCollection is a list of Gear"
    assert schema["required"] == ["items"]
    assert bare(schema["properties"]["items"]) == {"type": "array", "items": {"$ref": base + "com.example.v1.Gear"}}
    reference = {"$ref": base + "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}
    assert bare(schema["properties"]["metadata"]) == (reference if base == V2 else {"allOf": [reference]})
    kinds = schema["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "example.com", "version": "v1", "kind": "GearCollection"}]
    for one in found.values():
        assert one["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.teeth"}]


OPEN = {"type": "object", PRESERVE: True, "properties": {"spec": {"type": "object"}}}


@pytest.mark.parametrize(
    ("props", "preserve_unknown"), [(OPEN, False), ({"type": "object"}, True)], ids=["schema", "definition"]
)
def test_kinds_that_may_have_other_fields_publish_none_in_version_2(props, preserve_unknown):
    old = published(props, V2, preserve_unknown=preserve_unknown)
    assert old.keys() == {"type", "x-kubernetes-group-version-kind"}
    new = published(props, V3, preserve_unknown=preserve_unknown)
    assert {"apiVersion", "kind", "metadata"} <= new["properties"].keys()
    assert new.get(PRESERVE) == props.get(PRESERVE)


@pytest.mark.parametrize("base", [V2, V3], ids=["v2", "v3"])
@pytest.mark.parametrize(
    "props",
    [
        None,
        {"properties": {"spec": {"type": "object"}}},
        {"type": "object", "properties": {"spec": {"properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
    ],
    ids=["none", "no type", "no type below", "items by place"],
)
def test_without_a_structural_schema_there_is_only_an_object(props, base):
    assert published(props, base).keys() == {"type", "x-kubernetes-group-version-kind"}


def test_names_are_those_of_the_group_reversed():
    assert custom.definition_name("stable.example.com", "v1beta1", "CronTab") == "com.example.stable.v1beta1.CronTab"


def test_a_custom_kind_never_takes_the_name_of_a_built_in_one():
    name = custom.definition_name("core.api.k8s.io", "v1", "Pod")
    assert name == "io.k8s.api.core.v1.Pod_v2"
    assert custom.definition_name("core.api.k8s.io", "v1", "Nothing") == "io.k8s.api.core.v1.Nothing"


# -- documents --------------------------------------------------------------------------------------------------------

SCALED = thing(
    subresources=(
        Subresource("status", "example.com", "v1", "Thing", STATUS),
        Subresource("scale", "autoscaling", "v1", "Scale", STATUS),
    )
)
POINTLESS = {"type": "object", "default": {"$ref": V3 + "io.k8s.api.core.v1.Nonsense"}}


def test_documents_of_custom_kinds_have_all_they_refer_to():
    props = {"type": "object", "properties": {"spec": POINTLESS}}
    found = custom.definitions(SCALED, props, preserve_unknown=False, base=V3)
    document = v3.document(SCALED.group_version, [SCALED], custom=found, info=v3.CUSTOM_INFO)
    assert document["info"]["title"] == "Kubernetes CRD Swagger"
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1."
    assert set(document["components"]["schemas"]) == {
        "com.example.v1.Thing",
        "com.example.v1.ThingList",
        *(f"io.k8s.api.autoscaling.v1.{name}" for name in ("Scale", "ScaleSpec", "ScaleStatus")),
        *(meta + name for name in ("DeleteOptions", "FieldsV1", "ListMeta", "ManagedFieldsEntry", "ObjectMeta")),
        *(meta + name for name in ("OwnerReference", "Patch", "Preconditions", "ShardInfo", "Status", "StatusCause")),
        *(meta + name for name in ("StatusDetails", "Time")),
    }


def test_custom_kinds_have_the_paths_and_operations_that_clients_know():
    found = custom.definitions(SCALED, {"type": "object"}, preserve_unknown=False, base=V3)
    paths = v3.document(SCALED.group_version, [SCALED], custom=found)["paths"]
    root = "/apis/example.com/v1/namespaces/{namespace}/things"
    assert list(paths) == [
        root,
        f"{root}/{{name}}",
        f"{root}/{{name}}/scale",
        f"{root}/{{name}}/status",
        "/apis/example.com/v1/things",
    ]
    assert paths[root]["get"]["operationId"] == "listExampleComV1NamespacedThing"
    assert list(paths[root]["get"]["responses"]["200"]["content"]) == ["application/json", "application/yaml"]
    patch = paths[f"{root}/{{name}}/scale"]["patch"]
    assert patch["operationId"] == "patchExampleComV1NamespacedThingScale"
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Thing"
    assert set(patch["requestBody"]["content"]) == {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    }


def test_groups_with_dashes_are_one_word_in_operations():
    dashed = thing(group="my-group.example.com")
    paths = v2.custom_part([dashed], {}).paths
    operation = paths["/apis/my-group.example.com/v1/things"]["get"]
    assert operation["operationId"] == "listMyGroupExampleComV1ThingForAllNamespaces"
    assert operation["tags"] == ["myGroupExampleCom_v1"]


def test_custom_kinds_are_a_part_of_the_v2_document():
    found = custom.definitions(THING, {"type": "object"}, preserve_unknown=False, base=V2)
    parts = [v2.builtin_part([PODS]), v2.custom_part([THING], found)]
    document = msgspec.json.decode(v2.join(v2.entries(part) for part in parts))
    assert {"io.k8s.api.core.v1.Pod", "com.example.v1.Thing", "com.example.v1.ThingList"} <= document[
        "definitions"
    ].keys()
    item = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things/{name}"]
    assert item["patch"]["consumes"] == [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ]
    assert parts[1].definitions == found


# -- any schema -------------------------------------------------------------------------------------------------------


@st.composite
def structural(draw, below):
    fields = st.dictionaries(st.sampled_from("abc"), below, max_size=3)
    shape = draw(
        st.one_of(
            st.fixed_dictionaries(
                {
                    "type": st.just("object"),
                    "properties": fields,
                    "required": st.lists(st.sampled_from("abc"), max_size=2),
                }
            ),
            st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": below}),
            st.fixed_dictionaries({"type": st.just("array"), "items": below}),
            st.just({INT_OR_STRING: True}),
        )
    )
    words = {"nullable": st.booleans(), "default": st.just("x"), "not": st.just({"maxLength": 3})}
    words |= {key: st.lists(st.just({"minLength": 1}), max_size=2) for key in ("allOf", "anyOf", "oneOf")}
    if INT_OR_STRING not in shape:
        words[PRESERVE] = st.just(True)
    return shape | draw(st.fixed_dictionaries({}, optional=words))


SCHEMAS = st.recursive(st.just({"type": "string"}), structural, max_leaves=12)


def keys_of_schemas(schema):
    yield from (key for key in schema if key != "properties")
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for one in below:
        if isinstance(one, dict):
            yield from keys_of_schemas(one)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS)
def test_version_2_never_says_what_it_has_no_words_for(schema):
    before = copy.deepcopy(schema)
    old = field(schema, V2)
    assert not {"allOf", "anyOf", "oneOf", "not", "nullable", "default"} & set(keys_of_schemas(old))
    v2_protobuf.entries(v2.Part({}, {"x": old}))
    assert schema == before


def said(schema):
    """A schema without what says nothing, and without choices, to which the choice of int-or-string is added."""
    kept = {
        key: value for key, value in schema.items() if key not in ("anyOf", "allOf") and value not in ({}, [], False)
    }
    if "properties" in kept:
        kept["properties"] = {name: said(below) for name, below in kept["properties"].items()}
    return kept | {key: said(kept[key]) for key in ("items", "additionalProperties") if key in kept}


@settings(max_examples=60, deadline=None)
@given(SCHEMAS)
def test_version_3_says_all_that_was_written(schema):
    assert said(field(schema, V3)) == said(schema)


@pytest.mark.parametrize("base", [V2, V3], ids=["v2", "v3"])
@pytest.mark.parametrize(
    ("around", "levels"),
    [
        (lambda schema: {"type": "object", "properties": {"a": schema}}, 125),
        (lambda schema: {"type": "object", "additionalProperties": schema}, 250),
        (lambda schema: {"type": "array", "items": schema}, 250),
        (lambda schema: {"not": schema}, 250),
        (lambda schema: {"allOf": [schema]}, 125),
    ],
    ids=["fields", "values", "items", "not", "choices"],
)
def test_the_deepest_schema_a_request_can_carry_is_published(base, around, levels):
    is_choice = "type" not in around({})
    schema = {"minLength": 1} if is_choice else {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    if is_choice:
        schema = schema | {"type": "string"}

    def publish():
        found = field(schema, base)
        msgspec.json.encode(found)
        if base == V2:
            v2_protobuf.entries(v2.Part({}, {"x": found}))

    # In a thread, as the server does it: the frames of the caller do not count.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(publish).result()
