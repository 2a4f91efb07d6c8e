from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.storage.etcd.headers import CONTENT_TYPE, PATH, HeaderError, header, read_headers, read_status


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
        ("a8eb10649cbf", "no-cache"),
        ("6402", "302"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ],
)
def test_huffman_codes_are_those_of_the_examples_in_the_rfc(encoded: str, text: str) -> None:
    value = bytes.fromhex(encoded)
    assert read_headers(b"\x00\x01x" + bytes([0x80 | len(value)]) + value) == {"x": text}


@given(st.text(max_size=300), st.text(min_size=1, max_size=200))
def test_a_header_that_was_written_is_read(value: str, name: str) -> None:
    assert read_headers(header(name, value)) == {name: value}


def test_names_of_the_static_table_are_places() -> None:
    assert header(PATH, "/a") == b"\x04\x02/a"
    # 31 does not fit the four bits of the first byte.
    assert header(CONTENT_TYPE, "x") == b"\x0f\x10\x01x"


def test_every_form_of_a_header_is_read() -> None:
    block = (
        b"\x20"  # No dynamic table.
        b"\x88"  # :status 200, from the static table.
        b"\x5f\x01x"  # content-type, to be remembered.
        b"\x40\x01a\x01b"  # A name of its own, to be remembered.
        b"\x10\x01c\x01d"  # Never to be remembered.
    )
    found = read_headers(block)
    assert {name: value for name, value in found.items() if name} == {":status": "200", "a": "b", "c": "d"}


def test_a_status_has_a_code_and_a_message() -> None:
    block = b"\x88" + header("grpc-status", "14") + header("grpc-message", "etcdserver: no%20leader")
    assert read_status(block) == (14, "etcdserver: no leader")


def test_an_answer_that_is_not_of_grpc_is_an_error() -> None:
    assert read_status(b"\x8d") == (2, "the answer is not of gRPC: HTTP status 404")


@pytest.mark.parametrize("block", [b"\x00\x05ab", b"\x00\x01a\xff", b"\x00\x01a", b"\x7f"])
def test_a_block_that_ends_too_early_is_an_error(block: bytes) -> None:
    with pytest.raises(HeaderError):
        read_headers(block)
