import struct

import msgspec
import pytest
from served_samples import DEPLOYMENTS, PODS, every_stable_resource

from kapi.schema.openapi import v2, v2_protobuf


def fields(data):
    """A protobuf message as lists of raw values by field number: the least a reader has to understand."""
    found, place = {}, 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        elif tag & 7 == 1:
            (value,) = struct.unpack_from("<d", data, place)
            place += 8
        else:
            assert tag & 7 == 2
            length = varint()
            value, place = data[place : place + length], place + length
            assert len(value) == length
        found.setdefault(tag >> 3, []).append(value)
    return found


def named(message, field=1):
    """A map message as a dictionary."""
    entries = [fields(entry) for entry in fields(message).get(field, ())]
    return {entry[1][0].decode(): entry[2][0] for entry in entries}


def extensions(message, field):
    """Vendor extensions, whose values are YAML texts that happen to be JSON."""
    entries = [fields(entry) for entry in fields(message).get(field, ())]
    return {entry[1][0].decode(): msgspec.json.decode(fields(entry[2][0])[2][0]) for entry in entries}


def packed(*parts):
    return v2_protobuf.join(v2_protobuf.entries(part) for part in parts)


@pytest.fixture(scope="module")
def document():
    return fields(packed(v2.builtin_part([PODS, DEPLOYMENTS])))


def test_the_document_opens_with_version_and_info(document):
    assert document[1] == [b"2.0"]
    assert fields(document[2][0])[1] == [b"Kubernetes"]
    assert "BearerToken" in named(document[13][0])


def test_definitions_carry_what_explain_and_validation_read(document):
    definitions = named(document[9][0])
    spec = fields(definitions["io.k8s.api.core.v1.PodSpec"])
    assert fields(spec[22][0])[1] == [b"object"]
    assert spec[19] == [b"containers"]
    assert spec[4][0]
    containers = named(spec[25][0])["containers"]
    assert fields(fields(fields(containers)[23][0])[1][0])[1] == [b"#/definitions/io.k8s.api.core.v1.Container"]
    assert extensions(containers, 31) == {
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    pod = definitions["io.k8s.api.core.v1.Pod"]
    kinds = extensions(pod, 31)["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "", "version": "v1", "kind": "Pod"}]


def test_maps_and_enums_are_wrapped(document):
    definitions = named(document[9][0])
    labels = named(fields(definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"])[25][0])["labels"]
    value = fields(fields(labels)[21][0])[1][0]
    assert fields(fields(value)[22][0])[1] == [b"string"]
    protocol = named(fields(definitions["io.k8s.api.core.v1.ContainerPort"])[25][0])["protocol"]
    assert [fields(entry)[2][0] for entry in fields(protocol)[20]] == [b'"SCTP"\n', b'"TCP"\n', b'"UDP"\n']


def test_operations_carry_kind_action_and_parameters(document):
    paths = named(document[8][0], field=2)
    patch = fields(paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"])[8][0]
    assert extensions(patch, 13) == {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": "apps", "kind": "Deployment", "version": "v1"},
    }
    parameters = [fields(entry) for entry in fields(patch)[8]]
    queries = [fields(fields(fields(one[1][0])[2][0])[3][0])[4][0] for one in parameters if 1 in one]
    assert queries == [b"dryRun", b"fieldValidation"]
    shared = [fields(one[2][0])[1][0] for one in parameters if 2 in one]
    assert shared == [b"#/parameters/body-Patch", b"#/parameters/fieldManager", b"#/parameters/force"]
    responses = named(fields(patch)[9][0])
    answer = fields(fields(responses["200"])[1][0])
    assert fields(fields(answer[2][0])[1][0])[1] == [b"#/definitions/io.k8s.api.apps.v1.Deployment"]


def test_shared_parameters_are_defined_once(document):
    shared = named(document[10][0])
    body = fields(fields(shared["body-Patch"])[1][0])
    assert (body[2], body[4]) == ([b"body"], [1])
    query = fields(fields(fields(shared["limit"])[2][0])[3][0])
    assert (query[4], query[6]) == ([b"limit"], [b"integer"])
    path = fields(fields(fields(shared["namespace"])[2][0])[4][0])
    assert (path[4], path[1]) == ([b"namespace"], [1])


def test_the_whole_api_can_be_packed():
    assert len(packed(v2.builtin_part(every_stable_resource()))) > 400_000


def test_parts_packed_alone_are_the_document_packed_at_once():
    apart = fields(packed(v2.builtin_part([PODS]), v2.Part({}, {"com.example.v1.Thing": {"type": "object"}})))
    definitions = named(apart[9][0])
    assert fields(fields(definitions["com.example.v1.Thing"])[22][0])[1] == [b"object"]
    assert definitions.keys() == v2.builtin_part([PODS]).definitions.keys() | {"com.example.v1.Thing"}
    assert named(apart[8][0], field=2).keys() == v2.builtin_part([PODS]).paths.keys()


def test_schemas_of_custom_resources_may_allow_anything():
    schema = {"type": "object", "additionalProperties": True, "x-kubernetes-preserve-unknown-fields": True}
    packed = v2_protobuf._schema(schema)
    assert fields(fields(packed)[21][0])[2] == [1]
    assert extensions(packed, 31) == {"x-kubernetes-preserve-unknown-fields": True}


def test_schemas_of_custom_resources_may_point_elsewhere():
    packed = fields(v2_protobuf._schema({"externalDocs": {"description": "more", "url": "https://example.com"}}))
    assert fields(packed[29][0]) == {1: [b"more"], 2: [b"https://example.com"]}


def test_bounds_of_custom_resources_are_numbers():
    packed = fields(v2_protobuf._schema({"minLength": 3, "maximum": 2.5, "maxItems": -1, "exclusiveMaximum": True}))
    assert packed == {12: [3], 7: [2.5], 14: [2**64 - 1], 8: [1]}


def test_a_key_the_format_does_not_know_is_a_mistake():
    with pytest.raises(KeyError):
        packed(v2.Part({}, {"com.example.v1.Thing": {"oneOf": []}}))
