import pytest

from kapi.schema.builtin.typed import kind_schema


def walk(path, kind="Pod", group=""):
    node = kind_schema(group, "v1", kind).merge
    for step in path.split("."):
        node = node.items if step == "[]" else node.child(step)
        assert node is not None, step
    return node


@pytest.mark.parametrize(
    "path, strategies, key",
    [
        ("spec.containers", ("merge",), "name"),
        ("spec.containers.[].ports", ("merge",), "containerPort"),
        ("spec.containers.[].env", ("merge",), "name"),
        ("spec.containers.[].volumeMounts", ("merge",), "mountPath"),
        ("spec.containers.[].args", (), None),
        ("spec.volumes", ("merge", "retainKeys"), "name"),
        ("spec.tolerations", (), None),
        ("spec.imagePullSecrets", ("merge",), "name"),
        ("metadata.finalizers", ("merge",), None),
        ("metadata.ownerReferences", ("merge",), "uid"),
        ("metadata.labels", (), None),
        ("status.conditions", ("merge",), "type"),
    ],
)
def test_fields_of_a_pod_merge_as_published(path, strategies, key):
    node = walk(path)
    assert node.strategies == strategies
    assert node.merge_key == key


def test_a_strategy_belongs_to_the_field_not_to_its_type():
    strategy = walk("spec.strategy", "Deployment", "apps")
    assert strategy.strategies == ("retainKeys",)
    assert strategy.child("rollingUpdate").strategies == ()
    assert kind_schema("", "v1", "Pod").merge.strategies == ()


def test_lists_of_structs_have_items_and_lists_of_scalars_do_not():
    assert walk("spec.containers").items is not None
    assert walk("spec.containers.[].ports").items is not None
    assert walk("metadata.finalizers").items is None
    assert walk("spec").items is None


def test_unknown_fields_and_scalars_have_nothing_below():
    root = kind_schema("", "v1", "Pod").merge
    assert root.child("nothing") is None
    assert walk("metadata.labels").child("app") is None
    assert walk("spec.containers.[].name").child("x") is None
    assert walk("spec.containers.[].resources.limits").child("cpu") is None


def test_values_of_a_map_of_structs_are_reached_by_any_key():
    schema = walk("spec.versions.[].schema.openAPIV3Schema", "CustomResourceDefinition", "apiextensions.k8s.io")
    below = schema.child("properties").child("anything")
    assert below is not None
    assert below.child("properties").child("more").child("type") is not None


def test_raw_values_have_no_fields():
    assert walk("data", "ControllerRevision", "apps").child("spec") is None


def test_list_and_map_types_for_apply():
    ports = walk("spec.containers.[].ports")
    assert (ports.list_type, ports.list_map_keys) == ("map", ("containerPort", "protocol"))
    assert walk("metadata.finalizers").list_type == "set"
    assert walk("spec.tolerations").list_type == "atomic"
    assert walk("spec.nodeSelector").map_type == "atomic"
    assert walk("spec.containers.[].env.[].valueFrom.configMapKeyRef").map_type == "atomic"
    assert walk("spec.containers.[]").map_type == ""


def test_nodes_are_made_once():
    root = kind_schema("", "v1", "Pod").merge
    assert root.child("spec") is root.child("spec")
    assert walk("spec.template.spec.containers", "Deployment", "apps") is walk("spec.containers")
