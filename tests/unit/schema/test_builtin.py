import subprocess
import sys

import pytest

from generate.schemas import add_facts, assemble, clean, descriptions, generate_schemas
from kapi.schema.builtin import definitions as builtin


def test_a_definition_is_found_by_its_name():
    pod = builtin.definition("io.k8s.api.core.v1.Pod")
    assert pod.properties["spec"].ref == "io.k8s.api.core.v1.PodSpec"
    assert pod.kinds == ({"group": "", "version": "v1", "kind": "Pod"},)


def test_an_unknown_definition_is_a_key_error():
    for name in ("io.k8s.api.core.v1.Nothing", "no.such.package.Thing", "x"):
        with pytest.raises(KeyError):
            builtin.definition(name)


def test_kinds_lead_to_definitions():
    assert builtin.definition_name("apps", "v1", "Deployment") == "io.k8s.api.apps.v1.Deployment"
    assert builtin.definition_name("", "v1", "PodList") == "io.k8s.api.core.v1.PodList"
    assert (
        builtin.definition_name("apps", "v1", "DeleteOptions") == "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    )
    assert builtin.definition_name("apps", "v1", "Pod") is None


def test_every_reference_leads_to_a_definition():
    known = set(builtin.names())
    assert len(known) > 700

    def references(node):
        if node.ref:
            yield node.ref
        for below in (*node.properties.values(), *filter(None, (node.items, node.values))):
            yield from references(below)

    assert {ref for name in known for ref in references(builtin.definition(name))} <= known


def test_nothing_is_loaded_at_import_and_prose_only_when_asked_for():
    script = (
        "from kapi.schema.builtin import definitions, typed\n"
        "assert definitions._index.cache_info().currsize == 0\n"
        "typed.kind_schema('', 'v1', 'Pod').coerce({'spec': {'containers': [{'name': 'a'}]}})\n"
        "assert definitions._structure.cache_info().currsize > 0\n"
        "assert definitions._prose.cache_info().currsize == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_prose_belongs_to_definitions_and_fields():
    texts = builtin.descriptions("io.k8s.api.core.v1.PodSpec")
    assert texts[""]
    assert "container" in texts["containers"]
    assert builtin.descriptions(builtin.QUANTITY)[""]
    assert builtin.descriptions(builtin.INT_OR_STRING)[""]


def test_choices_of_types_are_one_type_again():
    assert builtin.definition(builtin.INT_OR_STRING) == builtin.Node(type="string", format="int-or-string")
    assert builtin.definition(builtin.QUANTITY) == builtin.Node(type="string")
    assert builtin.definition(builtin.TIME).format == "date-time"
    assert builtin.definition(builtin.JSON) == builtin.Node()


def test_fields_know_what_the_definitions_leave_out():
    container = builtin.definition("io.k8s.api.core.v1.Container").properties
    assert container["imagePullPolicy"].go_type == "v1.PullPolicy"
    assert container["imagePullPolicy"].enum == ("Always", "IfNotPresent", "Never")
    assert container["stdin"].drops_zero
    assert not container["name"].drops_zero
    spec = builtin.definition("io.k8s.api.apps.v1.DeploymentSpec").properties
    assert not spec["replicas"].drops_zero
    assert spec["minReadySeconds"].drops_zero
    assert builtin.definition("io.k8s.api.core.v1.Volume").properties["emptyDir"].embedded == "VolumeSource"


def test_versions_without_facts_drop_nothing():
    package = "io.k8s.api.resource.v1beta1."
    fields = [
        node
        for name in builtin.names()
        if name.startswith(package)
        for node in builtin.definition(name).properties.values()
    ]
    assert fields
    assert not any(node.drops_zero for node in fields)


def test_cleaning_keeps_what_a_server_needs():
    schema = {
        "description": "prose",
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/a.b.C"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }
    assert clean(schema) == {
        "type": "array",
        "items": {"ref": "a.b.C"},
        "list_type": "map",
        "list_map_keys": ["name"],
        "patch_merge_key": "name",
        "patch_strategies": ["merge", "retainKeys"],
    }
    assert descriptions("x", schema) == {"": "prose"}


def test_without_facts_only_required_fields_keep_their_zero():
    node = {"required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"ref": "x.Y"}}}
    add_facts(node, "io.k8s.api.core.v1", {}, {})
    assert [field for field, below in node["properties"].items() if below.get("drops_zero")] == ["b"]


def test_the_resource_is_read_back_as_it_was_written(tmp_path, monkeypatch):
    definitions = {
        "io.k8s.api.test.v1.Thing": {
            "description": "A thing.",
            "type": ["object", "null"],
            "properties": {"size": {"type": ["integer", "null"], "format": "int32", "description": "How big."}},
            "required": ["size"],
            "x-kubernetes-group-version-kind": [{"group": "test", "version": "v1", "kind": "Thing"}],
        }
    }
    target = tmp_path / "below" / "definitions.bin"
    generate_schemas(definitions, target)
    caches = (builtin._index, builtin._structure, builtin._prose)
    monkeypatch.setattr("importlib.resources.files", lambda package: target.parent)
    try:
        for cache in caches:
            cache.cache_clear()
        assert builtin.names() == ["io.k8s.api.test.v1.Thing"]
        thing = builtin.definition("io.k8s.api.test.v1.Thing")
        assert thing.properties["size"] == builtin.Node(type="integer", format="int32")
        assert thing.required == ("size",)
        assert builtin.definition_name("test", "v1", "Thing") == "io.k8s.api.test.v1.Thing"
        assert builtin.descriptions("io.k8s.api.test.v1.Thing") == {"": "A thing.", "size": "How big."}
        target.write_bytes(b"something else entirely")
        builtin._index.cache_clear()
        with pytest.raises(RuntimeError, match="another version"):
            builtin.names()
    finally:
        for cache in caches:
            cache.cache_clear()


def test_the_fingerprint_changes_with_the_content():
    one = assemble({"p.v1": {"A": {"type": "object"}}}, {"p.v1": {"A": {"": "x"}}}, {})
    other = assemble({"p.v1": {"A": {"type": "object"}}}, {"p.v1": {"A": {"": "y"}}}, {})
    assert one != other
    assert len(builtin.fingerprint()) == 32
