"""Schemas of Python types: one row for each thing a type can say, and one for each that no schema can."""

# ruff: noqa: RUF012 - msgspec copies empty defaults

import datetime as dt
import decimal
import enum
import sys
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NewType, TypeVar

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from kapi.api.builtin.core_v1 import Pod, PodTemplateSpec
from kapi.api.builtin.meta_v1 import Quantity
from kapi.api.crd import (
    Default,
    Embedded,
    Format,
    Int32,
    ListMap,
    ListType,
    MapType,
    Model,
    Nullable,
    PreserveUnknown,
    Required,
    Rule,
    UnsupportedType,
    schema_of,
)

T = TypeVar("T")
Bounded = TypeVar("Bounded", bound=int)
Port = NewType("Port", int)
STRING = {"type": "string"}
INTEGER = {"type": "integer", "format": "int64"}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    """How large."""

    S = 1
    L = 3


class Mixed(enum.Enum):
    A = "a"
    B = 1


class Point(Model, frozen=True):
    x: int


class Pair(Model, Generic[T]):
    first: T
    rest: list[T] = []


class Chain(Model):
    below: "list[Chain]" = []


class Growing(Model, Generic[T]):
    more: "Growing[list[T]] | None" = None


class Flat(msgspec.Struct, array_like=True):
    x: int


class Plain(msgspec.Struct):
    """Written with its defaults, and with nulls."""

    a: int | None = None
    b: str = "x"


class Cat(Model, tag=True):
    lives: int = 9


class Dog(Model, tag=True):
    legs: int


class Fish(Model, tag="fish", tag_field="swims"):
    pass


class Loud(Model, tag="loud"):
    legs: str


class Untagged(Model):
    pass


TYPES = {
    "str": (str, STRING),
    "bool": (bool, {"type": "boolean"}),
    "int": (int, INTEGER),
    "float": (float, {"type": "number"}),
    "bytes": (bytes, {"type": "string", "format": "byte"}),
    "datetime": (dt.datetime, {"type": "string", "format": "date-time"}),
    "date": (dt.date, {"type": "string", "format": "date"}),
    "uuid": (uuid.UUID, {"type": "string", "format": "uuid"}),
    "any": (Any, ANYTHING),
    "raw": (msgspec.Raw, ANYTHING),
    "new type": (Port, INTEGER),
    "final": (Final[int], INTEGER),
    "type variable": (T, ANYTHING),
    "bounded type variable": (Bounded, INTEGER),
    "literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "literal numbers": (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    "enum": (Color, {"type": "string", "enum": ["red", "blue"]}),
    "int enum": (Size, {"type": "integer", "enum": [1, 3], "description": "How large."}),
    "or null": (str | None, STRING | {"nullable": True}),
    "or unset": (str | UnsetType, STRING),
    "list": (list[str], {"type": "array", "items": STRING}),
    "bare list": (list, {"type": "array", "items": ANYTHING}),
    "sequence": (Sequence[str], {"type": "array", "items": STRING}),
    "list of nulls": (list[str | None], {"type": "array", "items": STRING | {"nullable": True}}),
    "tuple": (tuple[str, ...], {"type": "array", "items": STRING}),
    "tuple of two": (tuple[str, str], {"type": "array", "items": STRING, "minItems": 2, "maxItems": 2}),
    "set": (set[str], {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
    "set of objects": (
        frozenset[Point],
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {
                "type": "object",
                "properties": {"x": INTEGER},
                "required": ["x"],
                "x-kubernetes-map-type": "atomic",
            },
        },
    ),
    "set of lists": (
        set[tuple[str, ...]],
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
        },
    ),
    "map": (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "mapping": (Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "map by enum": (dict[Color, int], {"type": "object", "additionalProperties": INTEGER}),
    "map of anything": (dict[str, Any], {"type": "object"} | ANYTHING),
    "bare map": (dict, {"type": "object"} | ANYTHING),
    "int or string": (int | str, INT_OR_STRING),
    "quantity": (Quantity, INT_OR_STRING),
    "any number": (int | float, {"type": "number"}),
    "empty class": (Untagged, {"type": "object"}),
    "generic": (
        Pair[str],
        {
            "type": "object",
            "properties": {"first": STRING, "rest": {"type": "array", "items": STRING}},
            "required": ["first"],
        },
    ),
    "class that writes nulls": (
        Plain,
        {
            "type": "object",
            "description": "Written with its defaults, and with nulls.",
            "properties": {"a": INTEGER | {"nullable": True}, "b": STRING | {"default": "x"}},
        },
    ),
    "one tagged class": (
        Fish,
        {"type": "object", "properties": {"swims": {"type": "string", "enum": ["fish"]}}},
    ),
}


@pytest.mark.parametrize("annotation, schema", TYPES.values(), ids=TYPES)
def test_a_type_has_its_schema(annotation, schema):
    assert schema_of(annotation) == schema


NOTES = {
    "range": (Annotated[int, Meta(ge=1, le=5)], INTEGER | {"minimum": 1, "maximum": 5}),
    "open range": (
        Annotated[float, Meta(gt=0, lt=1.5)],
        {
            "type": "number",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 1.5,
            "exclusiveMaximum": True,
        },
    ),
    "multiple": (Annotated[int, Meta(multiple_of=3)], INTEGER | {"multipleOf": 3}),
    "text": (
        Annotated[str, Meta(pattern="^a", min_length=1, max_length=9)],
        STRING | {"pattern": "^a", "minLength": 1, "maxLength": 9},
    ),
    "list": (Annotated[list[str], Meta(min_length=1)], {"type": "array", "items": STRING, "minItems": 1}),
    "map": (
        Annotated[dict[str, str], Meta(max_length=2)],
        {"type": "object", "additionalProperties": STRING, "maxProperties": 2},
    ),
    "bytes are counted in base64": (
        Annotated[bytes, Meta(min_length=1, max_length=4)],
        {"type": "string", "format": "byte", "minLength": 4, "maxLength": 8},
    ),
    "words": (
        Annotated[str, Meta(title="A", description="An A.")],
        STRING | {"title": "A", "description": "An A."},
    ),
    "extra": (Annotated[str, Meta(extra_json_schema={"example": "x"})], STRING | {"example": "x"}),
    "extra takes away": (Annotated[int, Meta(extra_json_schema={"format": None})], {"type": "integer"}),
    "several": (
        Annotated[Int32, Meta(ge=0), Meta(le=1)],
        {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1},
    ),
    "inside of optional": (Annotated[str, Meta(max_length=3)] | None, STRING | {"maxLength": 3, "nullable": True}),
    "outside of optional": (Annotated[str | None, Format("uri")], STRING | {"format": "uri", "nullable": True}),
    "members of int or string": (
        Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern="%$", max_length=4)],
        INT_OR_STRING | {"minimum": 1, "pattern": "%$", "maxLength": 4},
    ),
    "formats of members mean nothing": (Int32 | str, INT_OR_STRING),
    "format": (Annotated[str, Format("ipv4")], STRING | {"format": "ipv4"}),
    "no format": (Annotated[int, Format("")], {"type": "integer"}),
    "default": (Annotated[list[str], Default([])], {"type": "array", "items": STRING, "default": []}),
    "list type": (
        Annotated[list[str], ListType("atomic")],
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
    ),
    "list map": (
        Annotated[list[Pair[str]], ListMap("first")],
        {
            "type": "array",
            "items": schema_of(Pair[str]),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["first"],
        },
    ),
    "map type": (
        Annotated[dict[str, str], MapType("atomic")],
        {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
    ),
    "unknown fields": (Annotated[Untagged, PreserveUnknown()], {"type": "object"} | ANYTHING),
    "unknown fields of values": (
        dict[str, Annotated[Any, PreserveUnknown()]],
        {"type": "object", "additionalProperties": ANYTHING},
    ),
    "embedded": (
        Annotated[dict[str, Any], Embedded()],
        {"type": "object", "x-kubernetes-embedded-resource": True} | ANYTHING,
    ),
    "nullable": (Annotated[str, Nullable()], STRING | {"nullable": True}),
    "rules": (
        Annotated[
            int, Rule("self > 1"), Rule("self < 9", message="m", reason="FieldValueInvalid", optional_old_self=True)
        ],
        INTEGER
        | {
            "x-kubernetes-validations": [
                {"rule": "self > 1"},
                {"rule": "self < 9", "message": "m", "reason": "FieldValueInvalid", "optionalOldSelf": True},
            ]
        },
    ),
    "notes of others": (Annotated[int, "hello"], INTEGER),
}


@pytest.mark.parametrize("annotation, schema", NOTES.values(), ids=NOTES)
def test_annotations_of_a_type_are_in_its_schema(annotation, schema):
    assert schema_of(annotation) == schema


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has no such aliases yet")
def test_aliases_are_looked_through():
    alias = typing.TypeAliasType("Alias", Annotated[int, Meta(ge=1)] | None)
    assert schema_of(alias) == INTEGER | {"minimum": 1, "nullable": True}


REFUSED = {
    "mixed enum": (Mixed, "the type: the values of an enumeration must be of one JSON type"),
    "null in an enumeration": (Literal["a"] | None, "the type: an enumeration cannot be null"),
    "null among literals": (list[Literal["a", None]], "[]: an enumeration cannot be null"),  # noqa: PYI061
    "decimal": (decimal.Decimal, "the type: Decimal has no schema"),
    "duration": (dict[str, dt.timedelta], "[*]: timedelta has no schema"),
    "keys": (dict[int, str], "the type: the keys of a map must be strings"),
    "tuple of several types": (tuple[int, str], "the type: the items of a tuple must be of one type"),
    "union": (list[int | bool], "[]: no structural schema describes int | bool"),
    "union with a class": (Point | str, "the type: no structural schema describes Point | str"),
    "untagged classes": (Point | Untagged, "the type: the classes of a union must all be tagged"),
    "tags of several names": (
        Cat | Fish,
        "the type: the classes of a union must all be tagged, with the same tag field",
    ),
    "members that disagree": (Dog | Loud, "legs: the classes of a union disagree about this field"),
    "class as list": (Flat, "the type: Flat is written as a list"),
    "recursion": (Chain, "below[]: Chain contains itself"),
    "endless generics": (Growing[int], "classes are nested too deeply"),
    "null": (None, "the type: None has no schema"),
}


@pytest.mark.parametrize("annotation, message", REFUSED.values(), ids=REFUSED)
def test_unsupported_types_are_refused_with_their_path(annotation, message):
    with pytest.raises(UnsupportedType) as caught:
        schema_of(annotation)
    assert message in str(caught.value)


def test_a_path_leads_through_classes_maps_and_lists():
    class Inner(Model):
        bad_field: dict[str, list[complex]] = {}

    class Outer(Model):
        inner: list[Inner]

    with pytest.raises(UnsupportedType, match=r"^inner\[\]\.badField\[\*\]\[\]: complex has no schema$"):
        schema_of(Outer)


def test_an_unresolvable_name_is_refused_with_its_class():
    class Broken(Model):
        field: "NoSuchType"  # noqa: F821

    with pytest.raises(UnsupportedType, match=r"name 'NoSuchType' is not defined: .*Broken names it"):
        schema_of(Broken)


# -- classes ----------------------------------------------------------------------------------------------------------


class Inner(Model):
    a: int = 1
    b: str = ""


class Outer(Model):
    inner: Inner = msgspec.field(default_factory=Inner)


class Based(Outer, kw_only=True):
    own: Annotated[str, Meta(description="By Meta.")]
    said: Annotated[str, Meta(description="By Meta.")] = ""
    """By docstring."""


def properties(cls):
    return schema_of(cls)["properties"]


def test_fields_have_their_wire_names_and_those_without_default_are_required():
    class Odd(Model, kw_only=True):
        first_name: str
        class_: str = msgspec.field(name="class")
        last_name: str = ""

    assert schema_of(Odd)["required"] == ["firstName", "class"]
    assert list(properties(Odd)) == ["firstName", "class", "lastName"]


def test_fields_are_inherited():
    assert properties(Based) == {
        "inner": properties(Outer)["inner"],
        "own": STRING | {"description": "By Meta."},
        "said": STRING | {"description": "By docstring."},
    }


DEFAULTS = {
    "number": (int, 3, 3),
    "zero": (int, 0, 0),
    "false": (bool, False, False),
    "enum": (Color, Color.BLUE, "blue"),
    "bytes": (bytes, b"ab", "YWI="),
    "moment": (dt.datetime, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "2020-01-01T00:00:00Z"),
    "set in order": (frozenset[str], frozenset("cab"), ["a", "b", "c"]),
    "tuple": (tuple[int, ...], (1, 2), [1, 2]),
    "frozen class": (Point, Point(x=4), {"x": 4}),
}


@pytest.mark.parametrize("annotation, value, default", DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_is_written_as_it_is_on_the_wire(annotation, value, default):
    schema = schema_of(msgspec.defstruct("Sample", [("field", annotation, value)]))
    assert schema["properties"]["field"]["default"] == default
    assert "required" not in schema


@pytest.mark.parametrize("value", [None, "", [], {}, set(), (), UNSET], ids=repr)
def test_an_empty_default_is_omitted(value):
    sample = msgspec.defstruct("Sample", [("field", Any, value)], omit_defaults=True)
    assert "default" not in schema_of(sample)["properties"]["field"]


def test_an_empty_object_is_a_default_if_there_are_defaults_inside():
    class Bare(Model):
        inner: Untagged = msgspec.field(default_factory=Untagged)

    assert properties(Outer)["inner"]["default"] == {}
    assert "default" not in properties(Bare)["inner"]


def test_a_default_omits_nested_defaults():
    class Most(Model):
        outer: Outer = msgspec.field(default_factory=lambda: Outer(inner=Inner(a=1, b="x")))
        same: Outer = msgspec.field(default_factory=Outer)
        many: list[Inner] = msgspec.field(default_factory=lambda: [Inner(), Inner(a=2)])

    assert properties(Most)["outer"]["default"] == {"inner": {"b": "x"}}
    assert properties(Most)["same"]["default"] == {}
    assert properties(Most)["many"]["default"] == [{}, {"a": 2}]


def test_a_default_keeps_nested_required_fields():
    class Strict(msgspec.Struct):
        a: Annotated[int, Required()] = 1

    class Holder(Model):
        strict: Strict = msgspec.field(default_factory=Strict)

    # Servers validate a default before they fill in what is inside.
    assert properties(Holder)["strict"]["required"] == ["a"]
    assert properties(Holder)["strict"]["default"] == {"a": 1}


def test_an_annotated_default_overrides_the_class_default():
    class Noted(Model):
        replicas: Annotated[int | None, Default(2)] = None
        name: Annotated[str, Default("")] = ""

    assert properties(Noted) == {"replicas": INTEGER | {"default": 2}, "name": STRING | {"default": ""}}


def test_a_default_that_cannot_be_encoded_is_refused():
    class Failing(Model):
        field: Point = msgspec.field(default_factory=Point)

    with pytest.raises(UnsupportedType, match=r"^field: the default cannot be made: Missing required argument 'x'"):
        schema_of(Failing)


def test_null_is_allowed_where_none_would_be_written():
    class Nulls(Model, kw_only=True):
        absent: str | None = None
        required: str | None
        defaulted: str | None = "x"
        unset: str | UnsetType | None = UNSET

    assert {name: schema.get("nullable", False) for name, schema in properties(Nulls).items()} == {
        "absent": False,
        "required": True,
        "defaulted": True,
        "unset": True,
    }


def test_class_annotations_are_in_its_schema():
    class Ruled(Model):
        """In short.

        At  length,
        and more.
        """

        a: int = 1
        RULES = (Rule("self.a > 0"),)
        SCHEMA: ClassVar = {"minProperties": 1, "required": ["b"]}

    assert schema_of(Ruled) == {
        "type": "object",
        "description": "In short.\n\nAt length, and more.",
        "properties": {"a": INTEGER | {"default": 1}},
        "required": ["b"],
        "minProperties": 1,
        "x-kubernetes-validations": [{"rule": "self.a > 0"}],
    }


def test_fields_named_like_model_attributes_are_fields():
    sample = msgspec.defstruct("Sample", [("RULES", str), ("SCHEMA", str)])
    assert properties(sample) == {"RULES": STRING, "SCHEMA": STRING}


# -- unions -----------------------------------------------------------------------------------------------------------


def test_a_union_has_the_fields_of_all_members_and_requires_those_of_the_tag():
    assert schema_of(Cat | Dog) == {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["Cat", "Dog"]},
            "lives": INTEGER,
            "legs": INTEGER,
        },
        "required": ["type"],
        "oneOf": [
            {"properties": {"type": {"enum": ["Cat"]}}, "required": ["type"]},
            {"properties": {"type": {"enum": ["Dog"]}}, "required": ["type", "legs"]},
        ],
    }


def test_a_default_of_one_member_is_not_given_to_the_others():
    class A(Model, tag=1):
        shared: int = 5
        own: int = 6

    class B(Model, tag=2):
        shared: int = 5

    schema = schema_of(A | B | None)
    assert schema["properties"]["shared"]["default"] == 5
    assert "default" not in schema["properties"]["own"]
    assert schema["properties"]["type"] == {"type": "integer", "enum": [1, 2]}


@pytest.mark.parametrize(
    "field, written",
    [
        ("kind", "kind"),
        ("in", "__in__"),
        ("is-a", "is__dash__a"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
    ],
)
def test_rules_of_a_union_member_apply_to_its_tag_only(field, written):
    class A(Model, tag='a"', tag_field=field):
        x: int
        RULES = (Rule("self.x > 1 || self.x < 0", message="m"),)

    class B(Model, tag="b", tag_field=field):
        pass

    assert schema_of(A | B)["x-kubernetes-validations"] == [
        {"rule": f'self.{written} != "a\\"" || (self.x > 1 || self.x < 0)', "message": "m"}
    ]


# -- built-in classes -------------------------------------------------------------------------------------------------


def test_a_whole_object_inside_is_embedded():
    class Holder(Model):
        pod: Pod | None = None

    schema = properties(Holder)["pod"]
    assert schema["x-kubernetes-embedded-resource"]
    assert schema["properties"]["apiVersion"] == STRING
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["spec"]["properties"]["restartPolicy"] == STRING


def test_metadata_of_a_template_keeps_what_clients_write():
    schema = schema_of(PodTemplateSpec)["properties"]["metadata"]
    assert schema["x-kubernetes-preserve-unknown-fields"]
    assert schema["properties"]["labels"] == {"type": "object", "additionalProperties": STRING}
    assert "creationTimestamp" not in schema["properties"]


def test_descriptions_of_built_in_classes_are_not_repeated():
    assert "description" not in msgspec.json.encode(schema_of(PodTemplateSpec)).decode()


def test_the_keys_of_a_list_map_are_required_of_its_items():
    class Keyed(Model):
        name: str | None = None
        zone: str = "a"
        size: int = 0

    schema = schema_of(Annotated[list[Keyed], ListMap("name", "zone")])
    assert schema["items"]["required"] == ["name"]
