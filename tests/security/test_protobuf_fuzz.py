"""Malformed protobuf must be an error and nothing worse: the lesson of CVE-2021-3121."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.codec import json as kapi_json
from kapi.codec import protobuf
from kapi.codec.errors import DecodeError

CORPUS = Path(__file__).parent.parent / "unit/codec/protobuf_corpus.json"
BODIES = [base64.b64decode(case["protobuf"]) for case in json.loads(CORPUS.read_bytes())["protobuf"]]
KINDS = st.sampled_from(
    [("v1", "Pod"), ("v1", "List"), ("apps/v1", "Deployment"), ("v1", "Secret"), ("batch/v1", "CronJob")]
)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid body, bitten."""
    body = bytearray(draw(st.sampled_from(BODIES)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(body) - 1))
        how = draw(st.sampled_from(["flip", "set", "cut", "drop", "insert", "repeat"]))
        if how == "flip":
            body[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "set":
            body[at] = draw(st.sampled_from([0x00, 0x7F, 0x80, 0xFF, 0x0A, 0x12]))
        elif how == "cut" and at > len(protobuf.MAGIC):
            del body[at:]
        elif how == "drop" and len(body) > 1:
            del body[at]
        elif how == "insert":
            body[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif how == "repeat":
            body += body[at : at + draw(st.integers(1, 40))]
    return bytes(body)


def decodes_or_refuses(data: bytes, **defaults: str) -> None:
    with contextlib.suppress(DecodeError):
        decoded = protobuf.decode(data, **defaults)
        assert kapi_json.decode(kapi_json.encode(decoded)) == decoded


@settings(max_examples=400)
@given(mutations())
def test_a_mutated_body_is_an_object_or_a_decode_error(data):
    decodes_or_refuses(data)


@settings(max_examples=300)
@given(KINDS, st.binary(max_size=200))
def test_random_messages_are_objects_or_decode_errors(kind, raw):
    envelope = b"\x12" + bytes([len(raw) & 0x7F | 0x80, len(raw) >> 7]) + raw
    decodes_or_refuses(protobuf.MAGIC + envelope, api_version=kind[0], kind=kind[1])


@given(st.binary(max_size=100))
def test_random_envelopes_are_refused(data):
    decodes_or_refuses(protobuf.MAGIC + data, api_version="v1", kind="Pod")


def test_every_prefix_of_a_body_is_refused_or_read():
    for body in BODIES[:6]:
        for end in range(0, len(body), max(1, len(body) // 300)):
            decodes_or_refuses(body[:end])
