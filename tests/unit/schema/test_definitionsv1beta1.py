from __future__ import annotations

import pytest

from kapi.api.ownership.shape import field_set, problems
from kapi.api.patch import strategicmerge
from kapi.schema.builtin.definitionsv1beta1 import definition_schema
from kapi.schema.builtin.typed import TypeMismatch

SCHEMA = definition_schema()


def definition(**spec):
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "names": {"plural": "things", "kind": "Thing"}, **spec},
    }


FULL = {
    "version": "v1",
    "scope": "Namespaced",
    "validation": {"openAPIV3Schema": {"type": "object"}},
    "subresources": {"status": {}},
    "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}],
    "versions": [{"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": [
        {"name": "A", "type": "string", "JSONPath": ".a"}]}],
    "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://a.b"},
                   "conversionReviewVersions": ["v1"]},
    "preserveUnknownFields": False,
}  # fmt: skip


def test_every_field_of_the_old_form_is_known():
    obj = definition(**FULL)
    assert SCHEMA.coerce(obj) == []
    assert obj == definition(**FULL)


def test_unknown_fields_are_taken_out_and_told():
    obj = definition(
        zz=1,
        versions=[{"name": "v1", "schema": {"x": 1}, "additionalPrinterColumns": [{"jsonPath": ".a", "name": "A"}]}],
        conversion={"strategy": "None", "webhook": {}},
    )
    obj["extra"] = {}
    assert sorted(SCHEMA.coerce(obj)) == [
        "extra",
        "spec.conversion.webhook",
        "spec.versions[0].additionalPrinterColumns[0].jsonPath",
        "spec.versions[0].schema.x",
        "spec.zz",
    ]
    assert obj == definition(
        versions=[{"name": "v1", "schema": {}, "additionalPrinterColumns": [{"name": "A"}]}],
        conversion={"strategy": "None"},
    )


def test_misplaced_names_are_kept_whatever_they_are():
    obj = definition(shortNames="th", plural=["x"], kind=None)
    assert SCHEMA.coerce(obj) == []
    assert obj == definition(shortNames="th", plural=["x"])


def test_nulls_and_empty_lists_mean_nothing():
    obj = definition(versions=[], version="", validation=None, additionalPrinterColumns=[])
    assert SCHEMA.coerce(obj) == []
    assert obj == definition()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"version": 1}, "json: cannot unmarshal number into Go struct field CustomResourceDefinitionSpec.spec.version of type string"),
        ({"preserveUnknownFields": "no"}, "json: cannot unmarshal string into Go struct field CustomResourceDefinitionSpec.spec.preserveUnknownFields of type bool"),
        ({"versions": {}}, "json: cannot unmarshal object into Go struct field CustomResourceDefinitionSpec.spec.versions of type []v1beta1.CustomResourceDefinitionVersion"),
        ({"conversion": []}, "json: cannot unmarshal array into Go struct field CustomResourceDefinitionSpec.spec.conversion of type v1beta1.CustomResourceConversion"),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_refused_by_its_path(spec, text):
    with pytest.raises(TypeMismatch) as refusal:
        SCHEMA.coerce(definition(**spec))
    assert str(refusal.value) == text


def test_fields_are_owned_one_by_one_and_lists_as_wholes():
    obj = definition(**FULL)
    assert problems(SCHEMA.shape, obj) == []
    owned = str(field_set(SCHEMA.shape, obj))
    for field in ("f:version", "f:validation", "f:openAPIV3Schema", "f:webhookClientConfig", "f:preserveUnknownFields"):
        assert field in owned
    assert "JSONPath" not in owned


def test_a_strategic_patch_merges_schemas_and_replaces_lists():
    obj = definition(**FULL)
    patch = {"spec": {"validation": {"openAPIV3Schema": {"title": "t"}}, "versions": [{"name": "v2"}]}}
    patched = strategicmerge.apply(obj, patch, SCHEMA.merge)
    assert patched["spec"]["validation"] == {"openAPIV3Schema": {"type": "object", "title": "t"}}
    assert patched["spec"]["versions"] == [{"name": "v2"}]


def test_a_definition_is_validated_by_the_registry_and_not_by_its_schema():
    assert SCHEMA.validate(definition()) == []
