"""Protobuf bodies: equal to what Go reads from the same bytes, on a corpus made with the published modules."""

from __future__ import annotations

import base64
import json as stdlib
from pathlib import Path
from typing import Any

import pytest

from kapi.api.limits import PROTOBUF_DEPTH, PROTOBUF_FIELDS
from kapi.codec import protobuf
from kapi.codec.errors import DecodeError, UnknownMessage
from kapi.codec.protobuf_table import Form, _table, message, message_of_kind

CORPUS = stdlib.loads((Path(__file__).parent / "protobuf_corpus.json").read_bytes())["protobuf"]


def without_nulls(value: Any) -> Any:
    """Absent is how this server writes null; inside free-form JSON both sides keep it."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(child) for child in value]
    return value


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(raw: bytes, api_version: str = "v1", kind: str = "ConfigMap") -> bytes:
    types = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.MAGIC + field(1, types) + field(2, raw) + field(3, b"") + field(4, b"")


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case["name"])
def test_an_object_is_read_as_go_reads_it(case):
    assert without_nulls(protobuf.decode(base64.b64decode(case["protobuf"]))) == without_nulls(case["json"])


def test_types_come_first_and_known_fields_are_never_null():
    case = next(case for case in CORPUS if case["name"] == "zero v1/Pod")
    decoded = protobuf.decode(base64.b64decode(case["protobuf"]))
    assert list(decoded)[:2] == ["apiVersion", "kind"]
    assert decoded["metadata"] == {}


def test_every_type_of_the_table_can_be_read():
    for name in _table().messages:
        for row in message(name).fields.values():
            if row.form is Form.STRING or row.type == "string" or row.type in protobuf._READERS:
                continue
            assert message(row.type)


def test_kinds_that_go_clients_send_are_in_the_table():
    for api_version, kind in [
        ("v1", "Pod"),
        ("v1", "Binding"),
        ("v1", "DeleteOptions"),
        ("apps/v1", "DeleteOptions"),
        ("meta.k8s.io/v1", "DeleteOptions"),
        ("policy/v1", "Eviction"),
        ("autoscaling/v1", "Scale"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("apiregistration.k8s.io/v1", "APIService"),
        ("resource.k8s.io/v1", "ResourceClaim"),
    ]:
        assert message_of_kind(api_version, kind) is not None, (api_version, kind)


def test_the_type_of_the_endpoint_is_used_when_the_body_has_none():
    raw = field(1, field(1, b"a"))
    decoded = protobuf.decode(protobuf.MAGIC + field(2, raw), api_version="v1", kind="ConfigMap")
    assert decoded == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(DecodeError, match="Object 'Kind' is missing"):
        protobuf.decode(protobuf.MAGIC + field(2, raw))
    with pytest.raises(DecodeError, match="Object 'apiVersion' is missing"):
        protobuf.decode(protobuf.MAGIC + field(2, raw), kind="ConfigMap")


def test_an_unknown_kind_error_suggests_json():
    with pytest.raises(UnknownMessage, match="application/json") as caught:
        protobuf.decode(body(b"", "example.com/v1", "Widget"))
    assert (caught.value.api_version, caught.value.kind) == ("example.com/v1", "Widget")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "empty data"),
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s", "does not appear to be a protobuf message"),
        (protobuf.MAGIC, "empty body"),
        (protobuf.MAGIC + b"\x0a", "unexpected EOF"),
        (protobuf.MAGIC + b"\x0a\x05ab", "unexpected EOF"),
        (protobuf.MAGIC + b"\xff" * 11, "integer overflow"),
        (body(b"\x0a"), "unexpected EOF"),
        (body(b"\x0a\x7f"), "unexpected EOF"),
        (body(b"\x08\x01"), "wrong wireType = 0 for field 1"),
        (body(b"\x00\x01"), "illegal tag 0"),
        (body(b"\x0b"), "illegal wireType 3"),
        (body(field(1, field(1, b"\xff"))), "invalid UTF-8"),
        (protobuf.MAGIC + field(3, b"gzip"), "content encoding"),
        (body(field(1, field(7, b"\xff" * 10 + b"\x01"))), "wrong wireType"),
    ],
)
def test_malformed_bodies_are_refused_with_a_reason(data, text):
    with pytest.raises(DecodeError, match=text):
        protobuf.decode(data)


def test_unknown_fields_are_ignored():
    extra = field(900, b"x") + field(901, 5) + varint(902 << 3 | 1) + b"8 bytes!" + varint(903 << 3 | 5) + b"four"
    assert protobuf.decode(body(field(1, field(1, b"a")) + extra))["metadata"] == {"name": "a"}


def test_a_repeated_message_is_merged_and_a_scalar_overwritten():
    decoded = protobuf.decode(body(field(1, field(1, b"a") + field(3, b"n")) + field(1, field(1, b"b"))))
    assert decoded["metadata"] == {"name": "b", "namespace": "n"}
    emptied = protobuf.decode(body(field(1, field(1, b"a") + field(1, b""))))
    assert emptied["metadata"] == {}


def test_map_entries_may_lack_a_key_or_a_value_and_may_be_long():
    long = b"x" * 300
    entries = [
        field(2, b"v") + field(1, b"k"),
        field(1, b"only"),
        field(2, b"keyless"),
        field(1, long) + field(2, long),
    ]
    decoded = protobuf.decode(body(b"".join(field(2, entry) for entry in entries)))
    assert decoded["data"] == {"k": "v", "only": "", "": "keyless", long.decode(): long.decode()}


def test_packed_numbers_are_read_like_single_ones():
    group = message_of_kind("v1", "Pod")
    assert group is not None
    groups = field(4, varint(5) + varint(7))  # PodSecurityContext.supplementalGroups
    pod = protobuf.decode(body(field(2, field(14, groups + field(4, 9))), "v1", "Pod"))
    assert pod["spec"]["securityContext"] == {"supplementalGroups": [5, 7, 9]}


def test_numbers_are_signed_and_of_their_width():
    negative = (1 << 64) - 5
    deployment = protobuf.decode(body(field(2, field(1, negative)), "apps/v1", "Deployment"))
    assert deployment["spec"]["replicas"] == -5
    wide = protobuf.decode(body(field(2, field(1, (1 << 32) + 3)), "apps/v1", "Deployment"))
    assert wide["spec"]["replicas"] == 3


def test_times_outside_the_calendar_are_refused():
    with pytest.raises(DecodeError, match="years 1 to 9999"):
        protobuf.decode(body(field(1, field(9, field(1, 1 << 62)))))
    early = protobuf.decode(body(field(1, field(9, field(1, (1 << 64) - 62135596799)))))
    assert early["metadata"]["deletionTimestamp"] == "0001-01-01T00:00:01Z"


def test_an_int_or_string_is_one_or_the_other():
    def budget(value: bytes) -> Any:
        return protobuf.decode(body(field(2, field(1, value)), "policy/v1", "PodDisruptionBudget"))["spec"][
            "minAvailable"
        ]

    assert budget(field(1, 0) + field(2, 3) + field(3, b"x")) == 3
    assert budget(field(1, 1) + field(2, 3) + field(3, b"50%")) == "50%"
    assert budget(b"") == 0
    with pytest.raises(DecodeError, match="IntOrString"):
        budget(field(1, 2))


def test_json_inside_protobuf_is_validated_as_json():
    with pytest.raises(DecodeError, match="looking for beginning of value"):
        protobuf.decode(body(field(2, field(1, b"NaN")), "v1", "List"))


def test_a_list_may_hold_protobuf_objects():
    inner = body(field(1, field(1, b"a")))
    assert protobuf.decode(body(field(2, field(1, inner)), "v1", "List"))["items"] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    ]


def test_depth_and_fields_are_bounded():
    nested = b""
    for _ in range(PROTOBUF_DEPTH + 1):
        nested = body(field(2, field(1, nested)) if nested else b"", "v1", "List")
    with pytest.raises(DecodeError, match="exceeded max depth"):
        protobuf.decode(nested)
    with pytest.raises(DecodeError, match="more than"):
        protobuf.decode(body(field(900, b"") * (PROTOBUF_FIELDS + 1)))
