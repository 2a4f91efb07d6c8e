from __future__ import annotations

import base64

import pytest
from kind_support import assert_idempotent, create_errors, created, thing, update_errors

from kapi.registry.kinds.core.configmaps import ConfigMapStrategy
from kapi.registry.kinds.core.secrets import SecretStrategy

CONFIG = ConfigMapStrategy()
SECRET = SecretStrategy()
MEBIBYTE = 1024 * 1024
BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _b64(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, []),
        ({"data": {"a.b-c_D": "x"}, "binaryData": {"e": _b64("y")}}, []),
        ({"data": {"a b": "x"}}, [f'data[a b]: Invalid value: "a b": {BAD_KEY}']),
        ({"data": {"..x": "x"}}, ["data[..x]: Invalid value: \"..x\": must not start with '..'"]),
        (
            {"data": {"k": "x"}, "binaryData": {"k": _b64("y")}},
            ['data[k]: Invalid value: "k": duplicate of key present in binaryData'],
        ),
        ({"data": {"k": "x" * (MEBIBYTE + 1)}}, ["[]: Too long: may not be more than 1048576 bytes"]),
        ({"data": {"k": "x" * MEBIBYTE}}, []),
        ({"binaryData": {"k": _b64("x" * MEBIBYTE)}}, []),
        (
            {"data": {"a": "x"}, "binaryData": {"k": _b64("x" * MEBIBYTE)}},
            ["[]: Too long: may not be more than 1048576 bytes"],
        ),
    ],
)
def test_config_map_rules(fields, wrong):
    assert create_errors(CONFIG, thing(**fields)) == wrong


def test_immutable_config_map_cannot_change():
    old = thing(data={"a": "1"}, immutable=True)
    frozen = "field is immutable when `immutable` is set"
    assert update_errors(CONFIG, thing(data={"a": "1"}, immutable=True), old) == []
    assert update_errors(CONFIG, thing(data={"a": "2"}, binaryData={"b": "AA=="}), old) == [
        f"immutable: Forbidden: {frozen}",
        f"data: Forbidden: {frozen}",
        f"binaryData: Forbidden: {frozen}",
    ]


def test_string_data_is_merged_into_data():
    obj, errors = created(SECRET, thing(stringData={"a": "plain", "b": "ü"}, data={"a": "b2xk", "c": "Yw=="}))
    assert errors == []
    assert obj["data"] == {"a": _b64("plain"), "b": _b64("ü"), "c": "Yw=="}
    assert "stringData" not in obj
    assert obj["type"] == "Opaque"
    assert_idempotent(SECRET, thing(stringData={"a": "x"}))


TYPE = "kubernetes.io/"


@pytest.mark.parametrize(
    ("kind", "data", "wrong"),
    [
        (
            f"{TYPE}service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        (f"{TYPE}dockercfg", {}, ["data[.dockercfg]: Required value"]),
        (f"{TYPE}dockercfg", {".dockercfg": "{}"}, []),
        (
            f"{TYPE}dockerconfigjson",
            {".dockerconfigjson": "nope"},
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
                    "invalid character 'n' looking for beginning of value"
                )
            ],
        ),
        (
            f"{TYPE}dockerconfigjson",
            {".dockerconfigjson": ""},
            ['data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input'],
        ),
        (
            f"{TYPE}dockerconfigjson",
            {".dockerconfigjson": "[]"},
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
                    "json: cannot unmarshal array into Go value of type map[string]interface {}"
                )
            ],
        ),
        (f"{TYPE}basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
        (f"{TYPE}basic-auth", {"password": "x"}, []),
        (f"{TYPE}ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
        (f"{TYPE}tls", {"tls.crt": ""}, ["data[tls.key]: Required value"]),
        ("example.com/own", {}, []),
    ],
)
def test_secret_types_have_their_keys(kind, data, wrong):
    encoded = {key: _b64(value) for key, value in data.items()}
    assert create_errors(SECRET, thing(type=kind, data=encoded)) == wrong


def test_secret_size_and_keys():
    assert create_errors(SECRET, thing(data={"a": _b64("x" * (MEBIBYTE + 1))})) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]
    assert create_errors(SECRET, thing(data={"a/b": ""})) == [f'data[a/b]: Invalid value: "a/b": {BAD_KEY}']


def test_secret_type_is_immutable():
    old, _ = created(SECRET, thing(data={"a": "YQ=="}, immutable=True))
    assert update_errors(SECRET, thing(type="x/y", data={}), old) == [
        'type: Invalid value: "x/y": field is immutable',
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]
    assert SECRET.selectable(old) == {"type": "Opaque"}
