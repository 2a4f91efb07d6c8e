import copy

import schema_samples
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.builtin.typed import kind_schema


def errors(group, kind, obj, version="v1"):
    return [str(error) for error in kind_schema(group, version, kind).validate(obj)]


def test_a_missing_required_string_is_reported_at_its_path():
    obj = {"spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"service": {}}}]}}]}}
    assert errors("networking.k8s.io", "Ingress", obj) == [
        "spec.rules[0].http.paths[0].backend.service.name: Required value",
        "spec.rules[0].http.paths[0].pathType: Required value",
    ]


def test_an_empty_required_string_is_a_missing_one():
    assert errors("storage.k8s.io", "StorageClass", {"provisioner": ""}) == ["provisioner: Required value"]
    assert errors("storage.k8s.io", "StorageClass", {"provisioner": "x"}) == []


def test_a_missing_struct_is_validated_like_an_empty_one():
    found = errors("autoscaling", "HorizontalPodAutoscaler", {"spec": {"maxReplicas": 3}}, "v2")
    assert found == ["spec.scaleTargetRef.kind: Required value", "spec.scaleTargetRef.name: Required value"]
    assert errors("storage.k8s.io", "CSINode", {}) == []


def test_missing_numbers_and_lists_have_a_legal_zero():
    assert errors("rbac.authorization.k8s.io", "Role", {}) == []
    assert errors("scheduling.k8s.io", "PriorityClass", {}) == []


def test_values_outside_a_closed_set_are_not_supported():
    obj = {"provisioner": "x", "volumeBindingMode": "Never"}
    assert errors("storage.k8s.io", "StorageClass", obj) == [
        'volumeBindingMode: Unsupported value: "Never": supported values: "Immediate", "WaitForFirstConsumer"'
    ]
    webhook = {
        "name": "w",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["READ"]}],
    }
    found = errors("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", {"webhooks": [webhook]})
    assert [text.partition(":")[0] for text in found] == ["webhooks[0].rules[0].operations[0]"]


def test_metadata_and_status_are_left_to_others():
    obj = {"metadata": {"ownerReferences": [{}]}, "status": {"conditions": [{}]}, "spec": {}}
    assert errors("policy", "PodDisruptionBudget", obj) == []


def test_maps_are_validated_by_key():
    schema = {"properties": {"a": {"externalDocs": {}, "x-kubernetes-validations": [{}]}}}
    crd = {
        "spec": {
            "group": "g",
            "scope": "Cluster",
            "names": {"plural": "p", "kind": "K"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        }
    }
    assert errors("apiextensions.k8s.io", "CustomResourceDefinition", crd) == [
        "spec.versions[0].schema.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Required value"
    ]


@given(st.sampled_from(schema_samples.stable_kinds()), st.integers(0, 2**32))
def test_validation_reports_once_and_changes_nothing(kind, seed):
    schema = kind_schema(*kind)
    obj = schema_samples.Sampler(seed).struct(schema.name)
    before = copy.deepcopy(obj)
    found = schema.validate(obj)
    assert obj == before
    fields = [error.field for error in found]
    assert len(set(fields)) == len(fields)
    assert not any(field.startswith((".", "metadata", "status")) for field in fields)
