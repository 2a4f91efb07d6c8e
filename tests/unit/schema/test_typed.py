import copy

import pytest
import schema_samples
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.typed import TypeMismatch, kind_schema

QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
KINDS = schema_samples.stable_kinds()


def coerced(group, version, kind, obj):
    unknown = kind_schema(group, version, kind).coerce(obj)
    return obj, unknown


def holds(value, part):
    """Return True if a value has everything that is in a part of it; it may have more fields."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and holds(value[key], below) for key, below in part.items())
    if isinstance(part, list):
        return isinstance(value, list) and len(value) == len(part) and all(map(holds, value, part))
    return type(value) is type(part) and value == part


def pod(**container):
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def test_an_unknown_kind_is_a_key_error():
    with pytest.raises(KeyError, match="no built-in kind Nothing in core/v1"):
        kind_schema("", "v1", "Nothing")


def test_schemas_are_compiled_once():
    assert kind_schema("", "v1", "Pod") is kind_schema("", "v1", "Pod")


def test_a_valid_object_gets_only_the_zero_values_that_are_always_written():
    obj = pod(name="a", image="b", ports=[{"containerPort": 80}], resources={"limits": {"cpu": "1"}})
    assert coerced("", "v1", "Pod", copy.deepcopy(obj)) == (obj | {"metadata": {}, "status": {}}, [])


def test_unknown_fields_are_removed_and_named_in_document_order():
    obj = {"metadata": {"name": "d", "foo": 1}, "bar": None, "data": {"a": "1"}}
    assert coerced("", "v1", "ConfigMap", obj) == (
        {"metadata": {"name": "d"}, "data": {"a": "1"}},
        ["metadata.foo", "bar"],
    )


def test_paths_of_unknown_fields_have_indices_and_keys():
    _, unknown = coerced("", "v1", "Pod", pod(name="a", env=[{"name": "A"}, {"name": "B", "bar": 1}], x=[]))
    assert unknown == ["spec.containers[0].env[1].bar", "spec.containers[0].x"]
    schema = {"properties": {"a.b": {"foo": 1}}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    _, unknown = coerced("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd)
    assert unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.a.b.foo"]


def test_field_names_are_case_sensitive():
    assert coerced("", "v1", "ConfigMap", {"Data": {}})[1] == ["Data"]


def test_not_more_than_a_hundred_unknown_fields_are_reported_and_all_are_removed():
    obj, unknown = coerced("", "v1", "ConfigMap", {f"x{number}": 1 for number in range(250)})
    assert len(unknown) == 100
    assert obj == {"metadata": {}}


def test_nulls_are_absent():
    obj = {"metadata": {"name": "a", "labels": None, "creationTimestamp": None}, "spec": None}
    expected = {"metadata": {"name": "a"}, "spec": {"containers": None}, "status": {}}
    assert coerced("", "v1", "Pod", obj) == (expected, [])


def test_a_null_in_a_list_or_map_is_the_zero_value_of_its_type():
    obj, _ = coerced("", "v1", "Pod", pod(name="a", args=[None], env=[None], resources={"limits": {"cpu": None}}))
    container = obj["spec"]["containers"][0]
    assert container == {"name": "a", "args": [""], "env": [{"name": ""}], "resources": {"limits": {"cpu": "0"}}}
    assert coerced("", "v1", "ConfigMap", {"data": {"a": None}})[0] == {"data": {"a": ""}, "metadata": {}}


def test_empty_values_that_mean_nothing_are_left_out():
    obj, _ = coerced("", "v1", "Pod", pod(name="a", image="", args=[], stdin=False, resources={}))
    assert obj["spec"]["containers"] == [{"name": "a", "resources": {}}]
    obj, _ = coerced("apps", "v1", "Deployment", {"spec": {"replicas": 0, "minReadySeconds": 0, "paused": False}})
    assert obj["spec"]["replicas"] == 0
    assert not {"minReadySeconds", "paused"} & set(obj["spec"])


def test_empty_values_that_mean_something_are_kept():
    spec = {"automountServiceAccountToken": False, "volumes": [{"name": "a", "emptyDir": {}}]}
    assert holds(coerced("", "v1", "Pod", {"spec": copy.deepcopy(spec)})[0]["spec"], spec)
    claim = {"spec": {"storageClassName": ""}}
    assert holds(coerced("", "v1", "PersistentVolumeClaim", copy.deepcopy(claim))[0], claim)


def test_quantities_and_times_become_canonical_in_place():
    obj = pod(name="a", resources={"limits": {"cpu": 0.5, "memory": "1024Mi"}})
    obj["metadata"] = {"creationTimestamp": "2026-01-02T05:04:05.5+02:00", "deletionTimestamp": "0001-01-01T00:00:00Z"}
    obj, _ = coerced("", "v1", "Pod", obj)
    assert obj["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert obj["metadata"] == {"creationTimestamp": "2026-01-02T03:04:05Z"}


def test_raw_values_are_not_looked_into():
    data = {"apiVersion": "v1", "nothing": None, "list": [None, {"x": 1.0}]}
    obj, unknown = coerced("apps", "v1", "ControllerRevision", {"data": copy.deepcopy(data), "revision": 1})
    assert obj["data"] == data
    assert unknown == []


def test_json_schemas_in_a_definition_of_custom_resources():
    schema = {
        "type": "object",
        "default": {"a": None},
        "enum": [1, None, "x"],
        "items": [],
        "additionalProperties": {"type": "string", "bogus": 1},
        "minimum": 2.0,
    }
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    obj, unknown = coerced("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd)
    assert unknown == []
    assert obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "default": {"a": None},
        "enum": [1, None, "x"],
        "additionalProperties": {"type": "string"},
        "minimum": 2,
    }


def test_a_bottomless_object_is_refused():
    schema = {}
    for _ in range(5000):
        schema = {"not": schema}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    with pytest.raises(TypeMismatch, match="exceeded max depth"):
        kind_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").coerce(crd)


MISMATCHES = [
    ("", "ConfigMap", {"data": {"k": 1}}, "number", "ConfigMap.data", "string"),
    ("", "ConfigMap", {"data": "x"}, "string", "ConfigMap.data", "map[string]string"),
    ("", "ConfigMap", {"metadata": {"labels": ["a"]}}, "array", "ObjectMeta.metadata.labels", "map[string]string"),
    ("", "ConfigMap", {"metadata": {"uid": 5}}, "number", "ObjectMeta.metadata.uid", "types.UID"),
    ("", "ConfigMap", {"metadata": "x"}, "string", "ConfigMap.metadata", "v1.ObjectMeta"),
    ("", "ConfigMap", {"kind": 1}, "number", "ConfigMap.TypeMeta.kind", "string"),
    ("apps", "Deployment", {"spec": {"replicas": "3"}}, "string", "DeploymentSpec.spec.replicas", "int32"),
    ("apps", "Deployment", {"spec": {"replicas": 1.5}}, "number 1.5", "DeploymentSpec.spec.replicas", "int32"),
    (
        "apps",
        "Deployment",
        {"spec": {"replicas": 3000000000}},
        "number 3000000000",
        "DeploymentSpec.spec.replicas",
        "int32",
    ),
    ("apps", "Deployment", {"spec": {"replicas": True}}, "bool", "DeploymentSpec.spec.replicas", "int32"),
    ("apps", "Deployment", {"spec": {"paused": "yes"}}, "string", "DeploymentSpec.spec.paused", "bool"),
    (
        "apps",
        "Deployment",
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": True}}}},
        "bool",
        "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge",
        "int32",
    ),
    ("", "Pod", {"spec": {"containers": {}}}, "object", "PodSpec.spec.containers", "[]v1.Container"),
    ("", "Pod", {"spec": {"containers": ["x"]}}, "string", "PodSpec.spec.containers", "v1.Container"),
    ("", "Pod", pod(imagePullPolicy=1), "number", "Container.spec.containers.imagePullPolicy", "v1.PullPolicy"),
    (
        "",
        "Pod",
        {"spec": {"volumes": [{"emptyDir": "x"}]}},
        "string",
        "Volume.spec.volumes.VolumeSource.emptyDir",
        "v1.EmptyDirVolumeSource",
    ),
    (
        "",
        "Pod",
        {"spec": {"volumes": [{"configMap": {"name": 1}}]}},
        "number",
        "ConfigMapVolumeSource.spec.volumes.VolumeSource.configMap.LocalObjectReference.name",
        "string",
    ),
    (
        "",
        "Pod",
        pod(resources={"limits": []}),
        "array",
        "ResourceRequirements.spec.containers.resources.limits",
        "v1.ResourceList",
    ),
    (
        "",
        "Pod",
        pod(securityContext={"capabilities": {"add": [1]}}),
        "number",
        "Capabilities.spec.containers.securityContext.capabilities.add",
        "v1.Capability",
    ),
    ("", "Pod", {"metadata": {"deletionTimestamp": 5}}, "number", "ObjectMeta.metadata.deletionTimestamp", "string"),
    ("", "Secret", {"data": {"a": 7}}, "number", "Secret.data", "[]uint8"),
    (
        "authorization.k8s.io",
        "SubjectAccessReview",
        {"spec": {"extra": {"a": "b"}}},
        "string",
        "SubjectAccessReviewSpec.spec.extra",
        "v1.ExtraValue",
    ),
]


@pytest.mark.parametrize("group, kind, obj, value, field, go_type", MISMATCHES)
def test_values_of_a_wrong_type_have_the_errors_of_kube_apiserver(group, kind, obj, value, field, go_type):
    with pytest.raises(TypeMismatch) as raised:
        kind_schema(group, "v1", kind).coerce(copy.deepcopy(obj))
    assert raised.value.message == f"json: cannot unmarshal {value} into Go struct field {field} of type {go_type}"


@pytest.mark.parametrize(
    "group, kind, obj, message",
    [
        ("", "Pod", pod(resources={"limits": {"cpu": "x"}}), QUANTITY),
        ("", "Pod", pod(resources={"limits": {"cpu": True}}), QUANTITY),
        (
            "",
            "Pod",
            {"metadata": {"deletionTimestamp": "x"}},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        ("", "Secret", {"data": {"a": "aGVsbG8"}}, "illegal base64 data at input byte 4"),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": 5}}}]}},
            "boolean or JSON schema expected",
        ),
        ("", "Pod", [], "json: cannot unmarshal array into Go value of type v1.Pod"),
    ],
)
def test_leaves_that_read_themselves_are_refused_without_a_path(group, kind, obj, message):
    with pytest.raises(TypeMismatch) as raised:
        kind_schema(group, "v1", kind).coerce(copy.deepcopy(obj))
    assert str(raised.value) == message


@given(st.sampled_from(KINDS), st.integers(0, 2**32))
def test_coercing_twice_changes_nothing(kind, seed):
    schema = kind_schema(*kind)
    obj = schema_samples.Sampler(seed).struct(schema.name)
    assert schema.coerce(obj) == []
    once = copy.deepcopy(obj)
    assert schema.coerce(obj) == []
    assert obj == once


@given(st.sampled_from(KINDS), st.integers(0, 2**32))
def test_a_planted_unknown_field_is_found_wherever_it_is(kind, seed):
    schema = kind_schema(*kind)
    sampler = schema_samples.Sampler(seed)
    obj = sampler.struct(schema.name)
    expected = copy.deepcopy(obj)
    assert schema.coerce(expected) == []
    path, struct = sampler.random.choice(sampler.structs)
    struct["planted"] = sampler.random.choice([1, None, {}, "x"])
    assert schema.coerce(obj) == [f"{path}.planted" if path else "planted"]
    assert obj == expected


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
def test_every_stable_kind_compiles_and_takes_a_sample_of_itself(kind):
    schema = kind_schema(*kind)
    for seed in range(3):
        obj = schema_samples.Sampler(seed).struct(schema.name)
        before = copy.deepcopy(obj)
        assert schema.coerce(obj) == []
        assert holds(obj, before)


def test_samples_reach_every_leaf_that_reads_itself():
    used = {node.ref for name in builtin.names() for node in builtin.definition(name).properties.values()}
    assert set(schema_samples.LEAVES) == builtin.NOT_STRUCTS
    assert builtin.JSON_SCHEMA_OR_BOOL in used
