"""Classes made from definitions: what they look like, and that they define what they were made from."""

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from generated import comparable, imported, there_and_back
from hypothesis import HealthCheck, given, settings

import crd_classes
from kapi.api.crd import definition
from kapi.codec import yaml
from kapi.scaffold.definitions import NotReadable, problems, read_definition
from kapi.scaffold.models import NoTypes
from kapi.scaffold.types import types_source
from structural_strategies import schemas
from type_checks import mypy

EXAMPLES = sorted((Path(__file__).parents[2] / "crds").glob("*-crd.yaml"))


def crd(schema, *, kind="Thing", version="v1", group="example.dev", **more):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{kind.lower()}s", "kind": kind},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
            ],
        },
    }


def spec(props, **more):
    """A definition whose spec has this schema."""
    return read_definition(crd({"type": "object", "properties": {"spec": props}}, **more))


def fields(properties, **more):
    """The lines of the class of a spec."""
    source = types_source([spec({"type": "object", "properties": properties, **more})])
    return source.partition("class ThingSpec(crd.Model, kw_only=True):\n")[2].partition("\n\n\n")[0]


# -- what it looks like -----------------------------------------------------------------------------------------------

SMALL = b"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: networks.samples.example.com}
spec:
  group: samples.example.com
  scope: Cluster
  names: {plural: networks, kind: Network, shortNames: [net]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: CIDR, type: string, jsonPath: .spec.cidr}
    schema:
      openAPIV3Schema:
        type: object
        description: A network.
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [cidr]
            x-kubernetes-validations:
            - {rule: "self.cidr != self.gateway", message: too small}
            properties:
              cidr: {type: string, pattern: '^[0-9./]+$', maxLength: 43, description: The addresses.}
              gateway: {type: string, default: ''}
              mtu: {type: integer, format: int32, minimum: 68, default: 1500}
              mode: {type: string, enum: [Bridge, Route]}
              routes:
                type: array
                maxItems: 8
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [to]
                items:
                  type: object
                  required: [to]
                  properties:
                    to: {type: string}
                    via-hop: {type: string}
              options: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              phase: {type: string}
"""
EXPECTED = '''"""Network of samples.example.com/v1. Made by `kapi generate types`."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from kapi.api import crd


class NetworkSpecRoutes(crd.Model, kw_only=True):
    to: str
    via_hop: str | None = msgspec.field(name="via-hop", default=None)


class NetworkSpec(crd.Model, kw_only=True):
    """What is wanted."""

    RULES: ClassVar[tuple[crd.Rule, ...]] = (crd.Rule("self.cidr != self.gateway", message="too small"),)

    cidr: Annotated[str, msgspec.Meta(max_length=43, pattern="^[0-9./]+$")]
    """The addresses."""
    gateway: Annotated[str, crd.Default("")] = ""
    mtu: Annotated[crd.Int32, msgspec.Meta(ge=68)] = 1500
    mode: Literal["Bridge", "Route"] | None = None
    routes: Annotated[list[NetworkSpecRoutes], msgspec.Meta(max_length=8), crd.ListMap("to")] | None = None
    options: dict[str, Any] | None = None


class NetworkStatus(crd.Model, kw_only=True):
    phase: str | None = None


@crd.resource(
    "samples.example.com/v1",
    scope="Cluster",
    short_names=("net",),
    columns=(crd.Column("CIDR", ".spec.cidr"),),
)
class Network(crd.CustomResource, kw_only=True):
    """A network."""

    spec: NetworkSpec
    status: NetworkStatus | None = None
'''


def test_a_definition_makes_a_module():
    assert types_source([read_definition(yaml.decode(SMALL))]) == EXPECTED


FIELDS = {
    "string": ({"type": "string"}, "str | None = None"),
    "boolean": ({"type": "boolean"}, "bool | None = None"),
    "integer": ({"type": "integer", "format": "int64"}, "int | None = None"),
    "integer of any size": ({"type": "integer"}, 'Annotated[int, crd.Format("")] | None = None'),
    "int32": ({"type": "integer", "format": "int32", "default": 5}, "crd.Int32 = 5"),
    "number": ({"type": "number", "format": "double"}, 'Annotated[float, crd.Format("double")] | None = None'),
    "time": ({"type": "string", "format": "date-time"}, 'Annotated[str, crd.Format("date-time")] | None = None'),
    "range": (
        {"type": "integer", "format": "int64", "minimum": 1, "exclusiveMinimum": True, "maximum": 9.0},
        "Annotated[int, msgspec.Meta(gt=1, le=9)] | None = None",
    ),
    "limits msgspec does not take": (
        {"type": "integer", "format": "int64", "minimum": 0.5, "maximum": 1e30},
        'Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0.5, "maximum": 1e30})] | None = None',
    ),
    "pattern": ({"type": "string", "pattern": r"^\d$"}, r'Annotated[str, msgspec.Meta(pattern=r"^\d$")] | None = None'),
    "pattern Python cannot read": (
        {"type": "string", "pattern": r"^\pL\z"},
        r'Annotated[str, msgspec.Meta(extra_json_schema={"pattern": r"^\pL\z"})] | None = None',
    ),
    "pattern Python reads otherwise": (
        {"type": "string", "pattern": "[[:alpha:]]"},
        'Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "[[:alpha:]]"})] | None = None',
    ),
    "enum": ({"type": "string", "enum": ["a", 'b"']}, """Literal["a", 'b"'] | None = None"""),
    "enum with limits": (
        {"type": "string", "enum": ["a"], "maxLength": 3},
        'Annotated[Literal["a"], msgspec.Meta(extra_json_schema={"maxLength": 3})] | None = None',
    ),
    "enum of numbers": ({"type": "integer", "enum": [1, 2], "default": 2}, "Literal[1, 2] = 2"),
    "enum of floats": (
        {"type": "number", "enum": [0.5]},
        'Annotated[float, msgspec.Meta(extra_json_schema={"enum": [0.5]})] | None = None',
    ),
    "int or string": (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "int | str | None = None",
    ),
    "int or string with a pattern": (
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "%$",
            "default": 1,
        },
        'int | Annotated[str, msgspec.Meta(pattern="%$")] = 1',
    ),
    "int or string in short": (
        {"x-kubernetes-int-or-string": True},
        'Annotated[int | str, msgspec.Meta(extra_json_schema={"anyOf": None})] | None = None',
    ),
    "anything": ({"x-kubernetes-preserve-unknown-fields": True}, "Any | None = None"),
    "any object": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "dict[str, Any] | None = None"),
    "embedded": (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True},
        "Annotated[dict[str, Any], crd.Embedded()] | None = None",
    ),
    "map": ({"type": "object", "additionalProperties": {"type": "string"}}, "dict[str, str] | None = None"),
    "map of anything": (
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
        "dict[str, Annotated[Any, crd.PreserveUnknown()]] | None = None",
    ),
    "list": (
        {"type": "array", "items": {"type": "string"}, "default": []},
        "Annotated[list[str], crd.Default([])] = msgspec.field(default_factory=list)",
    ),
    "list with defaults": (
        {"type": "array", "items": {"type": "string"}, "default": ["a"]},
        'list[str] = msgspec.field(default_factory=lambda: ["a"])',
    ),
    "set": (
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        'Annotated[list[str], crd.ListType("set")] | None = None',
    ),
    "items with a description": (
        {"type": "array", "items": {"type": "string", "description": "A word."}},
        'list[Annotated[str, msgspec.Meta(description="A word.")]] | None = None',
    ),
    "nullable": ({"type": "string", "nullable": True}, "Annotated[str, crd.Nullable()] | None = None"),
    "nullable with default": ({"type": "string", "nullable": True, "default": "x"}, 'str | None = "x"'),
    "nullable items": (
        {"type": "array", "items": {"type": "string", "nullable": True}},
        "list[str | None] | None = None",
    ),
    "nullable enum": (
        {"type": "array", "items": {"type": "string", "enum": ["a"], "nullable": True}},
        'list[Annotated[Literal["a"], crd.Nullable()]] | None = None',
    ),
    "rule": (
        {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "reason": "FieldValueForbidden"}]},
        'Annotated[str, crd.Rule("self == oldSelf", reason="FieldValueForbidden")] | None = None',
    ),
    "title": ({"type": "string", "title": "T"}, 'Annotated[str, msgspec.Meta(title="T")] | None = None'),
    "what nothing else says": (
        {"type": "string", "example": {"a": [1, None]}},
        'Annotated[str, msgspec.Meta(extra_json_schema={"example": {"a": [1, None]}})] | None = None',
    ),
}


@pytest.mark.parametrize("props, written", FIELDS.values(), ids=FIELDS)
def test_a_field_is_written_so_and_defines_its_schema(props, written, tmp_path):
    assert fields({"field": props}) == f"    field: {written}"
    obj = spec({"type": "object", "properties": {"field": props}})
    assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)


def test_required_fields_have_no_default():
    props = {"a": {"type": "string"}, "b-c": {"type": "string"}, "d": {"type": "string", "default": "x"}}
    assert fields(props, required=["a", "b-c", "d"]).splitlines() == [
        "    a: str",
        '    b_c: str = msgspec.field(name="b-c")',
        '    d: Annotated[str, crd.Required()] = "x"',
    ]


def test_odd_names_become_legal_ones():
    names = ["class", "str", "fooBar", "foo_bar", "fooBAR", "podIPs", "$ref", "1st", "ü-ber", "", "None", "a.b/c"]
    lines = fields({name: {"type": "integer", "format": "int64", "default": 1} for name in names}).splitlines()
    assert lines == [
        "    class_: int = 1",
        "    str_: int = 1",
        "    foo_bar: int = 1",
        '    foo_bar_2: int = msgspec.field(name="foo_bar", default=1)',
        '    foo_bar_3: int = msgspec.field(name="fooBAR", default=1)',
        '    pod_ips: int = msgspec.field(name="podIPs", default=1)',
        '    ref: int = msgspec.field(name="$ref", default=1)',
        '    field_1_st: int = msgspec.field(name="1st", default=1)',
        '    ü_ber: int = msgspec.field(name="ü-ber", default=1)',
        '    field: int = msgspec.field(name="", default=1)',
        '    none: int = msgspec.field(name="None", default=1)',
        '    a_b_c: int = msgspec.field(name="a.b/c", default=1)',
    ]


def test_classes_of_different_places_have_different_names(tmp_path):
    inner = {"type": "object", "properties": {"x": {"type": "string"}}}
    props = {
        "type": "object",
        "properties": {
            "fooBar": {"type": "object", "properties": {"baz": inner}},
            "foo": {"type": "object", "properties": {"barBaz": inner}},
        },
    }
    source = types_source([spec(props), spec(inner, kind="ThingSpec")])
    assert [line.split("(")[0] for line in source.splitlines() if line.startswith("class ")] == [
        "class ThingSpecFooBarBaz",
        "class ThingSpecFooBar",
        "class ThingSpecFooBarBaz2",
        "class ThingSpecFoo",
        "class ThingSpec2",
        "class Thing",
        "class ThingSpecSpec",
        "class ThingSpec",
    ]
    imported(source, tmp_path)


def test_a_kind_whose_name_is_taken_keeps_its_kind(tmp_path):
    for kind in ("Any", "my-kind", "rule"):
        obj = spec({"type": "object"}, kind=kind)
        assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)
        assert f'kind="{kind}"' in types_source([obj])


DESCRIPTIONS = {
    "long words": "a-" * 200 + " b",
    "quotes": 'It says """so""" and "so"',
    "a quote at the end": 'He said "no"',
    "backslashes": r"C:\new \\ \" end\\",
    "paragraphs": "One.\n\nTwo:\n  - a\n  - b\n\n\nThree.",
    "control characters": "a\x00b\x1bc\u2028d",
    "other scripts": "größer als ∞ " * 30,
    "almost as wide as the line": "x" * 111,
    "exactly as wide as the line": "x" * 114,
    "white space": "   ",
}


@pytest.mark.parametrize("text", DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_descriptions_survive_as_docstrings(text, tmp_path):
    props = {"type": "object", "description": text, "properties": {"a": {"type": "string", "description": text}}}
    obj = spec(props)
    for place in (props, props["properties"]["a"]):
        if not text.strip():
            place.pop("description")
    assert comparable(there_and_back(obj, tmp_path)) == comparable(spec(props))


def test_defaults_of_objects_are_objects(tmp_path):
    inner = {
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}},
    }
    bare = {"type": "object", "default": {}, "properties": {"b": {"type": "string"}}}
    props = {
        "inner": inner,
        "bare": bare,
        "full": inner | {"default": {"a": "y", "b": "z"}},
        "same": inner | {"default": {"a": "x"}},
        "many": {"type": "array", "items": bare, "default": [{"b": "c"}]},
        "strict": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "string"}},
            "default": {"a": "b"},
        },
    }
    del props["many"]["items"]["default"]
    obj = spec({"type": "object", "properties": props})
    assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)
    made = imported(types_source([obj]), tmp_path).ThingSpec()
    assert (made.inner.a, made.full.b, made.same.a, made.many[0].b, made.strict.a) == ("x", "z", "x", "c", "b")


def test_what_is_said_of_the_root_is_said_by_the_class(tmp_path):
    root = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["metadata", "spec"],
        "oneOf": [{"required": ["spec"]}, {"required": ["data"]}],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "api_version": {"type": "string"},
            "spec": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    obj = read_definition(crd(root))
    assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)


def test_what_is_said_of_a_kind_survives(tmp_path):
    obj = definition(crd_classes.Kiosk)
    obj["spec"]["names"] |= {"plural": "kioskses", "singular": "kio", "listKind": "Kioskery"}
    obj["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    obj["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = ".spec.step"
    assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)


def test_a_status_without_its_endpoint_and_the_reverse(tmp_path):
    status = {"type": "object", "properties": {"status": {"type": "object"}}}
    for obj in (crd(status), crd({"type": "object"}, subresources={"status": {}})):
        assert comparable(there_and_back(read_definition(obj), tmp_path)) == comparable(read_definition(obj))


def test_versions_survive(tmp_path):
    obj = definition(crd_classes.LampV1, crd_classes.LampV1Beta1, crd_classes.LampV1Alpha1)
    obj["spec"]["versions"][2]["deprecated"] = True
    assert comparable(there_and_back(obj, tmp_path)) == comparable(obj)


# -- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_survive(path, tmp_path):
    obj = read_definition(yaml.decode(path.read_bytes()))
    back = there_and_back(obj, tmp_path)
    assert comparable(back) == comparable(obj)
    assert problems(back) == []


@given(schema=schemas())
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=100)
def test_any_structural_schema_survives(schema):
    obj = read_definition(crd(schema))
    with tempfile.TemporaryDirectory() as folder:
        assert comparable(there_and_back(obj, Path(folder))) == comparable(obj)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_objects_of_the_examples_are_read_and_written(path, tmp_path):
    obj = read_definition(yaml.decode(path.read_bytes()))
    kind = obj["spec"]["names"]["kind"]
    good = yaml.decode_all(path.with_name(path.name.replace("-crd", "-good")).read_bytes())
    stored = next(version["name"] for version in obj["spec"]["versions"] if version["storage"])
    cls = getattr(imported(types_source([obj]), tmp_path), kind)
    ours = [one for one in good if one["apiVersion"].endswith(f"/{stored}")]
    assert ours
    for one in ours:
        read_back = msgspec.convert(one, cls)
        again = msgspec.to_builtins(read_back)
        assert again["kind"] == kind
        assert msgspec.convert(again, cls) == read_back


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_linters_formatters_and_type_checkers_are_content(tmp_path):
    samples = [read_definition(yaml.decode(path.read_bytes())) for path in EXAMPLES]
    samples.append(spec({"type": "object", "properties": {name: props for name, (props, _) in FIELDS.items()}}))
    samples.append(definition(crd_classes.Kiosk))
    for index, obj in enumerate(samples):
        (tmp_path / f"sample_{index}.py").write_text(types_source([obj]), encoding="utf-8")
    for tool in (
        ["ruff", "check", "--isolated", "--no-cache", "."],
        ["ruff", "format", "--isolated", "--no-cache", "--line-length", "120", "--diff", "."],
    ):
        done = subprocess.run([sys.executable, "-m", *tool], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(tmp_path, ".")
    assert done.returncode == 0, done.stdout + done.stderr


# -- reading ----------------------------------------------------------------------------------------------------------


def test_the_older_form_is_read():
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {
            "group": "example.dev",
            "version": "v1",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".spec.a"}],
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"a": {"type": "string"}}}}}},
        },
    }
    source = types_source([read_definition(obj)])
    assert '@crd.resource("example.dev/v1", status=True, columns=(crd.Column("A", ".spec.a"),))' in source


def test_the_version_is_the_stored_one_unless_another_is_asked_for():
    obj = definition(crd_classes.LampV1, crd_classes.LampV1Beta1, crd_classes.LampV1Alpha1)
    assert '@crd.resource("homes.example.com/v1", scope="Cluster")' in types_source([obj])
    assert 'deprecation_warning="use v1"' in types_source([obj], "v1beta1")
    with pytest.raises(NoTypes, match=r"^lamps.homes.example.com has no version v7; it has v1, v1beta1, v1alpha1$"):
        types_source([obj], "v7")


def test_a_version_without_a_schema_makes_no_types():
    obj = crd({"type": "object"})
    del obj["spec"]["versions"][0]["schema"]
    with pytest.raises(NoTypes, match=r"^things.example.dev has no schema at version v1$"):
        types_source([read_definition(obj)])


@pytest.mark.parametrize("name", ['"', "\\", "\n"], ids=repr)
def test_names_no_field_can_have_make_no_types(name):
    with pytest.raises(NoTypes, match=r"^Thing\.spec: no class can have a field that is named r?.a.+b.$"):
        fields({f"a{name}b": {"type": "string"}})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"apiVersion": "apiextensions.k8s.io/v2"}, "apiextensions.k8s.io/v2 is not known"),
        ({"spec": {"names": {"kind": "Thing"}}}, "spec.group is not set"),
        ({"spec": {"group": "a.b"}}, "spec.names.kind is not set"),
        ({"spec": []}, "things.example.dev: "),
    ],
    ids=["version", "group", "kind", "types"],
)
def test_what_is_no_definition_is_refused(change, message):
    with pytest.raises(NotReadable, match=message):
        read_definition(crd({"type": "object"}) | change)
