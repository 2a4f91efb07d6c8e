"""Definitions made from classes, and what is said of a kind as a whole."""

import sys
import types
from typing import Annotated

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import Meta

import crd_classes as classes
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd import CustomResource, Model, UnsupportedType, definition, naming_of, resource
from kapi.api.crd.docstrings import class_doc, field_docs
from kapi.api.crd.resources import plural_of
from kapi.scaffold.definitions import problems
from kapi.schema.customschema import CustomSchema

LAMPS = (classes.LampV1, classes.LampV1Beta1, classes.LampV1Alpha1)


class Spec(Model):
    size: int = 1


@resource("samples.example.com/v1")
class Small(CustomResource):
    """A small one."""

    spec: Spec


def test_a_class_makes_a_definition():
    assert definition(Small) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "smalls.samples.example.com"},
        "spec": {
            "group": "samples.example.com",
            "names": {"plural": "smalls", "singular": "small", "kind": "Small", "listKind": "SmallList"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "A small one.",
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": {
                                    "type": "object",
                                    "properties": {"size": {"type": "integer", "format": "int64", "default": 1}},
                                },
                            },
                            "required": ["spec"],
                        }
                    },
                }
            ],
        },
    }


def test_decorator_options_set_names_scope_and_subresources():
    version = definition(classes.Kiosk)["spec"]["versions"][0]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert version["additionalPrinterColumns"] == [
        {"name": "Phase", "type": "string", "jsonPath": ".spec.phase", "description": "Where it stands."},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    assert version["selectableFields"] == [{"jsonPath": ".spec.title"}]
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] == [
        {"rule": "self.metadata.name.size() < 60"}
    ]
    assert definition(classes.Kiosk)["spec"]["names"] == {
        "plural": "kiosks",
        "singular": "kiosk",
        "kind": "Kiosk",
        "listKind": "KioskList",
        "shortNames": ["ki"],
        "categories": ["all", "shops"],
    }


def test_versions_are_sorted_most_stable_first():
    spec = definition(classes.LampV1Alpha1, classes.LampV1, classes.LampV1Beta1)["spec"]
    assert [{key: value for key, value in version.items() if key != "schema"} for version in spec["versions"]] == [
        {"name": "v1", "served": True, "storage": True},
        {"name": "v1beta1", "served": True, "storage": False, "deprecated": True, "deprecationWarning": "use v1"},
        {"name": "v1alpha1", "served": False, "storage": False},
    ]
    assert spec["scope"] == "Cluster"


@pytest.mark.parametrize("kinds", [(classes.Kiosk,), LAMPS, (Small,)], ids=["Kiosk", "Lamp", "Small"])
def test_servers_accept_the_definition(kinds):
    assert problems(definition(*kinds)) == []


def test_names_and_annotations_can_be_chosen():
    @resource(
        "a.k8s.io/v1",
        kind="Goose",
        plural="geese",
        singular="goosey",
        list_kind="Gaggle",
        annotations={"api-approved.kubernetes.io": "unapproved, only tried out"},
        status=True,
        deprecated=True,
    )
    class Bird(CustomResource):
        pass

    made = definition(Bird)
    assert problems(made) == []
    assert made["metadata"] == {
        "name": "geese.a.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, only tried out"},
    }
    assert made["spec"]["names"] == {"plural": "geese", "singular": "goosey", "kind": "Goose", "listKind": "Gaggle"}
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}}
    assert made["spec"]["versions"][0]["deprecated"] is True


def test_metadata_can_be_limited():
    @resource("a.example.com/v1")
    class Short(CustomResource):
        metadata: Annotated[
            ObjectMeta, Meta(extra_json_schema={"properties": {"name": {"type": "string", "maxLength": 8}}})
        ] = msgspec.field(default_factory=ObjectMeta)

    made = definition(Short)
    head = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert head["metadata"] == {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}}
    assert problems(made) == []


# -- what is refused --------------------------------------------------------------------------------------------------


def test_the_path_of_an_unsupported_type_begins_with_the_kind():
    @resource("a.example.com/v1")
    class Odd(CustomResource):
        spec: dict[str, complex]

    with pytest.raises(UnsupportedType, match=r"^Odd\.spec\[\*\]: complex has no schema$"):
        definition(Odd)


def test_a_class_without_a_kind_is_refused():
    class Undecorated(Small):
        pass

    with pytest.raises(TypeError, match=r"Undecorated has no kind: decorate it with @resource"):
        definition(Undecorated)
    with pytest.raises(ValueError, match="at least one class"):
        definition()


def test_versions_of_different_kinds_are_refused():
    with pytest.raises(
        ValueError, match=r"homes.example.com/v1 Lamp and samples.example.com/v1 Small are no versions of one"
    ):
        definition(Small, classes.LampV1)


def test_exactly_one_version_is_stored():
    @resource("samples.example.com/v2", kind="Small")
    class Small2(CustomResource):
        pass

    with pytest.raises(ValueError, match="exactly one version of Small must be stored, not 2: v1, v2;"):
        definition(Small, Small2)
    with pytest.raises(ValueError, match="exactly one version of Lamp must be stored, not 0;"):
        definition(classes.LampV1Beta1)
    with pytest.raises(ValueError, match="Small has two classes for one version among v1, v1"):
        definition(Small, Small)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"group_version": "v1"}, "'v1' is not of the form group/version"),
        ({"group_version": "a/b/c"}, "'a/b/c' is not of the form group/version"),
        ({"group_version": "a/v1", "scope": "Global"}, "scope is Namespaced or Cluster, not 'Global'"),
        ({"group_version": "a/v1", "short_names": "net"}, r"names are given as a list or a tuple: \('net',\)"),
    ],
)
def test_invalid_decorator_options_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        resource(**arguments)


def test_only_custom_resources_are_decorated():
    with pytest.raises(TypeError, match="is for subclasses of CustomResource"):
        resource("a.example.com/v1")(Spec)


@pytest.mark.parametrize(
    "kind, plural",
    [("Network", "networks"), ("Box", "boxes"), ("Policy", "policies"), ("Gateway", "gateways"), ("Bus", "buses")],
)
def test_plurals(kind, plural):
    assert plural_of(kind) == plural


# -- objects ----------------------------------------------------------------------------------------------------------


def test_objects_have_api_version_and_kind():
    small = Small(metadata=ObjectMeta(name="x"), spec=Spec())
    written = msgspec.json.decode(msgspec.json.encode(small))
    assert written == {
        "apiVersion": "samples.example.com/v1",
        "kind": "Small",
        "metadata": {"name": "x"},
        "spec": {},
    }
    assert msgspec.convert(written, Small) == small
    assert naming_of(Small).plural == "smalls"


KIOSK_SCHEMA = definition(classes.Kiosk)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SERVER = CustomSchema(lambda: KIOSK_SCHEMA, preserve_unknown=False)


@given(kiosk=classes.KIOSKS)
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=150)
def test_encoded_objects_match_their_schema(kiosk):
    written = msgspec.json.encode(kiosk)
    obj = msgspec.json.decode(written)
    assert SERVER.coerce(obj) == []
    SERVER.default(obj)
    assert [str(error) for error in SERVER.validate(obj)] == []
    # What the server fills in is what the class would have said.
    assert msgspec.json.decode(msgspec.json.encode(obj), type=classes.Kiosk) == kiosk


@given(kiosk=classes.KIOSKS)
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=50)
def test_pruning_removes_nothing_from_encoded_objects(kiosk):
    obj = msgspec.json.decode(msgspec.json.encode(kiosk))
    if obj["spec"].get("anything", ...) is None:
        del obj["spec"]["anything"]
    before = msgspec.json.encode(obj, order="sorted")
    SERVER.coerce(obj)
    assert msgspec.json.encode(obj, order="sorted") == before


# -- docstrings -------------------------------------------------------------------------------------------------------


class Documented:
    """The class."""

    a: int = 1
    """The field
    a."""
    b: int = 2

    class Nested:
        c: str
        "Nested c."


class Heir(Documented):
    b: int = 3
    """Now with words."""


def test_docstrings_of_fields_are_read_from_the_source():
    class Local:
        d: int
        """Local d."""

    assert field_docs(Documented) == {"a": "The field a."}
    assert field_docs(Documented.Nested) == {"c": "Nested c."}
    assert field_docs(Heir) == {"a": "The field a.", "b": "Now with words."}
    assert field_docs(Local) == {"d": "Local d."}
    assert class_doc(Heir) == ""


def test_without_source_there_are_no_descriptions(monkeypatch):
    module = types.ModuleType("sourceless")
    monkeypatch.setitem(sys.modules, "sourceless", module)
    made = type("Made", (), {"__module__": "sourceless"})
    assert field_docs(made) == {}
