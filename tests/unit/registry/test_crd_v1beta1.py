from __future__ import annotations

import copy

import pytest
from crd_support import create, decoded, definition, old_form, stored, update, version
from hypothesis import given
from hypothesis import strategies as st

from kapi.registry.kinds.apiextensions import v1beta1
from kapi.registry.kinds.apiextensions.conditions import find, is_true
from kapi.registry.kinds.apiextensions.v1beta1 import from_v1, is_marked, to_v1

PROPS = {"type": "object", "properties": {"spec": {"type": "object"}}}
SCHEMA = {"openAPIV3Schema": PROPS}
COLUMNS = [{"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}]
NEW_COLUMNS = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


def texts(errors):
    return [str(error) for error in errors]


def test_a_single_version_without_a_schema_preserves_unknown_fields():
    obj = stored(old_form(version="v1"))
    assert obj["apiVersion"] == "apiextensions.k8s.io/v1"
    assert obj["spec"] == {
        "group": "example.dev",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True}],
        "conversion": {"strategy": "None"},
        "preserveUnknownFields": True,
    }
    assert is_true(obj, "Established")


def test_a_v1beta1_definition_of_a_community_group_needs_no_approval():
    obj = stored(old_form("samplecrd.k8s.io", version="v1"))
    found = find(obj, "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == ("False", "MissingAnnotation")


def test_top_level_fields_apply_to_every_version():
    versions = [{"name": "v1", "served": True, "storage": True}, {"name": "v2", "served": True, "storage": False}]
    obj = stored(
        old_form(
            versions=versions,
            validation=SCHEMA,
            subresources={"status": {}},
            additionalPrinterColumns=COLUMNS,
            preserveUnknownFields=False,
        )
    )
    shared = {"schema": SCHEMA, "subresources": {"status": {}}, "additionalPrinterColumns": NEW_COLUMNS}
    assert obj["spec"]["versions"] == [{**one, **shared} for one in versions]
    assert "preserveUnknownFields" not in obj["spec"]


def test_versions_may_have_fields_of_their_own():
    own = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA, "additionalPrinterColumns": COLUMNS}
    bare = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}
    obj = stored(old_form(versions=[own, bare]))
    assert obj["spec"]["versions"] == [{**own, "additionalPrinterColumns": NEW_COLUMNS}, bare]
    assert from_v1(obj)["spec"]["versions"] == [own, bare]


def test_the_webhook_client_config_is_read_from_its_v1beta1_field():
    config = {"service": {"name": "a", "namespace": "b"}}
    spec = {"version": "v1", "validation": SCHEMA, "preserveUnknownFields": False}
    obj = stored(old_form(**spec, conversion={"strategy": "Webhook", "webhookClientConfig": config}))
    assert obj["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {"name": "a", "namespace": "b", "port": 443}},
            "conversionReviewVersions": ["v1beta1"],
        },
    }
    assert from_v1(obj)["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhookClientConfig": {"service": {"name": "a", "namespace": "b", "port": 443}},
        "conversionReviewVersions": ["v1beta1"],
    }


def test_a_v1_definition_is_converted_to_v1beta1():
    obj = stored(
        definition(versions=[version(schema=PROPS, additionalPrinterColumns=NEW_COLUMNS, subresources={"status": {}})])
    )
    shown = from_v1(obj)
    assert shown["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert shown["status"] == obj["status"]
    assert shown["spec"] == {
        "group": "example.dev",
        "version": "v1",
        "names": obj["spec"]["names"],
        "scope": "Namespaced",
        "validation": SCHEMA,
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS,
        "versions": [{"name": "v1", "served": True, "storage": True}],
        "conversion": {"strategy": "None"},
        "preserveUnknownFields": False,
    }


def test_versions_that_differ_keep_their_own_fields():
    other = version("v2", storage=False, schema={"type": "object", "properties": {"a": {"type": "string"}}})
    shown = from_v1(stored(definition(versions=[version(), other])))
    assert "validation" not in shown["spec"]
    assert shown["spec"]["versions"] == [version(), other]


def test_schemas_with_equal_python_values_of_different_types_are_different():
    def with_default(name, value):
        any_value = {"x-kubernetes-preserve-unknown-fields": True, "default": value}
        return version(name, storage=value is True, schema={"type": "object", "properties": {"a": any_value}})

    shown = from_v1(stored(definition(versions=[with_default("v1", True), with_default("v2", 1)])))
    assert "validation" not in shown["spec"]


# -- what is refused -----------------------------------------------------------------------------------------------------


def test_misplaced_names_are_refused_with_all_other_errors():
    obj = old_form("network", version="v1", scope="Namespaced", shortNames=["vpc"])
    refused, errors = create(obj)
    assert texts(errors) == [
        'spec.group: Invalid value: "network": should be a domain with at least one dot',
        "spec.shortNames: Forbidden: belongs in spec.names.shortNames",
    ]
    assert not is_marked(refused)


@pytest.mark.parametrize("field", ["plural", "singular", "shortNames", "kind", "listKind", "categories"])
def test_every_misplaced_name_is_reported(field):
    _, errors = create(old_form(version="v1", **{field: "x"}))
    assert texts(errors) == [f"spec.{field}: Forbidden: belongs in spec.names.{field}"]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, ["spec.versions: Invalid value: []: must have exactly one version marked as storage version",
              "status.storedVersions: Invalid value: null: must have at least one stored version"]),
        ({"version": "v2", "versions": [{"name": "v1", "served": True, "storage": True}]},
         ['spec.version: Invalid value: "v2": must match the first version in spec.versions']),
        ({"validation": SCHEMA, "versions": [version()]},
         ["spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive"]),
        ({"subresources": {"status": {}}, "versions": [version(subresources={})]},
         ["spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive"]),
        ({"additionalPrinterColumns": COLUMNS, "versions": [version(additionalPrinterColumns=COLUMNS)]},
         [("spec.additionalPrinterColumns: Forbidden: top-level and per-version additionalPrinterColumns are mutually "
          "exclusive")]),
        ({"version": "v1", "preserveUnknownFields": False},
         ["spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned"]),
        ({"version": "v1", "validation": {"openAPIV3Schema": {}}, "preserveUnknownFields": False},
         ["spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"]),
        ({"version": "v1", "validation": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"default": 1}}}}},
         [("spec.validation.openAPIV3Schema.properties[a].default: Forbidden: must not be set (cannot set default values "
          "in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)")]),
        ({"version": "v1", "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://a.b"}}},
         ['spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true']),
        ({"version": "v1", "validation": {"openAPIV3Schema": {"properties": {"a": {"pattern": "[a"}}}}},
         [('spec.validation.openAPIV3Schema.properties[a].pattern: Invalid value: "[a": must be a valid regular '
          "expression, but isn't: error parsing regexp: missing closing ]: `[a`")]),
        ({"version": "v1", "validation": {"openAPIV3Schema": {"properties": {"a": {
            "x-kubernetes-preserve-unknown-fields": True}}}}},
         ["spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"]),
    ],
    ids=["no version", "two versions", "two schemas", "two subresources", "two columns", "nothing to prune by",
         "not structural", "default", "webhook", "pattern", "extension"],
)  # fmt: skip
def test_validation_of_v1beta1(spec, wrong):
    _, errors = create(old_form(**spec))
    assert texts(errors) == wrong


def test_schemas_need_neither_structure_nor_known_types_when_everything_is_kept():
    loose = {"openAPIV3Schema": {"properties": {"a": {"type": "strange"}, "b": {"anyOf": [{"type": "string"}]}}}}
    assert is_true(stored(old_form(version="v1", validation=loose)), "NonStructuralSchema")


# -- updates -------------------------------------------------------------------------------------------------------------


def test_an_update_in_either_version_is_compared_with_the_stored_object():
    old = stored(old_form(version="v1"))
    unchanged, errors = update(from_v1(old), old)
    assert errors == []
    assert unchanged == old
    today = {**copy.deepcopy(old), "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    changed, errors = update(today, old)
    assert errors == []
    assert changed["metadata"]["generation"] == 1


def test_preserve_unknown_fields_can_be_turned_off_but_not_on():
    old = stored(old_form(version="v1"))
    moved, errors = update(definition(), old)
    assert errors == []
    back = copy.deepcopy(moved)
    back["spec"]["preserveUnknownFields"] = True
    _, errors = update(back, moved)
    assert [error.field for error in errors] == ["spec.preserveUnknownFields"]


def test_defaults_that_are_stored_may_stay():
    props = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    old = stored(definition(versions=[version(schema=props)]))
    same, errors = update(from_v1(old), old)
    assert errors == []
    assert same == old


# -- laws ----------------------------------------------------------------------------------------------------------------

_labels = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
_schemas = st.sampled_from([None, {"openAPIV3Schema": {"type": "object"}}, SCHEMA])
_columns = st.sampled_from([None, COLUMNS, [*COLUMNS, {"name": "A", "type": "string", "JSONPath": ".spec.a"}]])
_subresources = st.sampled_from([None, {"status": {}}, {"scale": {"specReplicasPath": ".spec.n"}}])


def _some(**parts):
    return {key: value for key, value in parts.items() if value is not None}


_parts = st.builds(_some, schema=_schemas, subresources=_subresources, additionalPrinterColumns=_columns)


@st.composite
def _old_forms(draw):
    names = draw(st.lists(_labels, min_size=1, max_size=3, unique=True))
    versions = [{"name": name, "served": True, "storage": name == names[0], **draw(_parts)} for name in names]
    spec = {"versions": versions} if draw(st.booleans()) else {"version": names[0]}
    above = draw(_parts) if "version" in spec else {}
    spec |= {("validation" if key == "schema" else key): value for key, value in above.items()}
    return old_form(**spec, **draw(st.sampled_from([{}, {"preserveUnknownFields": False}])))


@given(_old_forms())
def test_conversion_keeps_the_meaning_of_a_definition(obj):
    hub = decoded(obj)
    v1beta1.unmark(hub)
    again = to_v1(from_v1(hub))
    v1beta1.unmark(again)
    assert again == hub


@given(_old_forms())
def test_showing_and_reading_again_is_stable(obj):
    shown = from_v1(decoded(obj))
    assert from_v1(to_v1(copy.deepcopy(shown))) == shown


@given(_old_forms())
def test_conversion_leaves_its_argument_alone(obj):
    before = copy.deepcopy(obj)
    hub = to_v1(obj)
    assert obj == before
    kept = copy.deepcopy(hub)
    from_v1(hub)
    assert hub == kept


def test_internal_marks_are_not_stored():
    obj = stored(old_form(version="v1"))
    assert not is_marked(obj)
    assert "version" not in obj["spec"]
