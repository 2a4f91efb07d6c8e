import pytest

from kapi.api.go.types import json_type, type_name, unmarshal_error


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
