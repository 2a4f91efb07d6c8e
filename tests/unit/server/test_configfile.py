"""Configuration files: every mistake is reported with file, line and field."""

import pytest

from kapi.api.fielderror import invalid
from kapi.server.configfile import ConfigFile, ConfigFileError

KINDS = {
    ("example.com/v1", "Thing"): {"size": int, "enabled": bool, "parts": [{"name": str, "weight": float, "any": {}}]}
}


def read(tmp_path, text):
    path = tmp_path / "thing.yaml"
    path.write_text(text)
    return ConfigFile(path, KINDS)


def refused(tmp_path, text):
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_a_valid_file_is_read_as_yaml_and_as_json(tmp_path):
    text = "apiVersion: example.com/v1\nkind: Thing\nsize: 3\nparts:\n- name: a\n  weight: 1\n  any: {x: [1]}\n"
    expected = {"apiVersion": "example.com/v1", "kind": "Thing", "size": 3}
    assert read(tmp_path, text).obj == {**expected, "parts": [{"name": "a", "weight": 1, "any": {"x": [1]}}]}
    assert read(tmp_path, '{"apiVersion":"example.com/v1","kind":"Thing","size":3}').obj == expected


def test_every_mistake_is_reported_with_its_line(tmp_path):
    text = "apiVersion: example.com/v1\nkind: Thing\nsize: big\ntypo: 1\nparts:\n- name: a\n- nmae: b\n  weight: true\n- null\n"
    assert refused(tmp_path, text) == [
        "thing.yaml:3: size: must be an integer",
        "thing.yaml:4: typo: unknown field",
        "thing.yaml:7: parts[1].nmae: unknown field",
        "thing.yaml:8: parts[1].weight: must be a number",
        "thing.yaml:9: parts[2]: Required value",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "thing.yaml: expected an object with apiVersion and kind"),
        ("- 1", "thing.yaml: expected an object with apiVersion and kind"),
        ("kind: Thing", "thing.yaml:1: apiVersion: Required value: one of example.com/v1"),
        (
            "apiVersion: example.com/v1\nkind: Other",
            'thing.yaml:2: kind: Unsupported value: "Other": supported values: "Thing"',
        ),
        (
            "apiVersion: example.com/v1\nkind: Thing\nsize: 1\nsize: 2",
            'thing.yaml: line 4: key "size" already set in map',
        ),
        ("apiVersion: example.com/v1\nkind: Thing\nparts: {}", "thing.yaml:3: parts: must be a list"),
        ("apiVersion: example.com/v1\nkind: Thing\nparts: [1]", "thing.yaml:3: parts[0]: must be an object"),
        ("apiVersion: example.com/v1\nkind: Thing\nenabled: 1", "thing.yaml:3: enabled: must be a boolean"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, message):
    assert refused(tmp_path, text) == [message]


def test_a_file_that_is_not_yaml_or_not_there_is_refused(tmp_path):
    (line,) = refused(tmp_path, "a: [1")
    assert line.startswith("thing.yaml: yaml: line ")
    with pytest.raises(ConfigFileError, match=r"absent.yaml: No such file or directory"):
        ConfigFile(tmp_path / "absent.yaml", KINDS)


def test_errors_in_missing_fields_name_the_line_of_what_they_are_missing_in(tmp_path):
    file = read(tmp_path, "apiVersion: example.com/v1\nkind: Thing\nparts:\n- weight: 1\n")
    with pytest.raises(ConfigFileError, match=r'thing.yaml:4: parts\[0\].name: Invalid value: "": wrong'):
        file.refuse([invalid("parts[0].name", "", "wrong")])
    file.refuse([])
