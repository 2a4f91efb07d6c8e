import pytest

from kapi.api.go.types import json_type, restore_error, type_name, unmarshal_error


@pytest.mark.parametrize(
    ("value", "in_json", "in_go"),
    [
        ({}, "object", "map[string]interface {}"),
        ([], "array", "[]interface {}"),
        ("", "string", "string"),
        (True, "bool", "bool"),
        (1, "number", "int64"),
        (2**63, "number", "float64"),
        (1.5, "number", "float64"),
        (None, "null", "<nil>"),
    ],
)
def test_types_have_the_names_of_json_and_of_go(value, in_json, in_go):
    assert json_type(value) == in_json
    assert type_name(value) == in_go


def test_the_decoder_names_the_field_of_a_struct_or_the_value():
    assert unmarshal_error("string", "int32") == "json: cannot unmarshal string into Go value of type int32"
    expected = "json: cannot unmarshal number 1.5 into Go struct field Deployment.spec.replicas of type int32"
    assert unmarshal_error("number 1.5", "int32", field="Deployment.spec.replicas") == expected


@pytest.mark.parametrize(
    ("value", "kind", "into", "message"),
    [
        ("x", "map", "map[string]string", "cannot restore map from string"),
        ([], "map", "map[string]string", "cannot restore map from slice"),
        ({}, "slice", "[]string", "cannot restore slice from map"),
        (5, "struct", "v1.PodSpec", "cannot restore struct from: int64"),
        (True, "struct", "v1.PodSpec", "cannot restore struct from: bool"),
        (5, "string", "v1.PodPhase", "cannot convert int64 to v1.PodPhase"),
        (1.5, "string", "string", "unrecognized type: string"),
        (1.5, "int32", "int32", "cannot convert float64 to int32"),
        ("x", "int32", "int32", "unrecognized type: int32"),
        (5, "bool", "bool", "unrecognized type: bool"),
    ],
)
def test_the_unstructured_converter_names_kinds(value, kind, into, message):
    assert restore_error(value, kind, into) == message
