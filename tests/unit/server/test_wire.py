"""Response heads and slices, as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.server.transport import wire


def lines(head):
    assert head.endswith(b"\r\n\r\n")
    first, *fields = head[:-4].decode().split("\r\n")
    return first, [field for field in fields if not field.startswith("Date: ")]


def test_head_of_a_whole_answer():
    head = wire.head(201, [("Content-Type", "application/json"), ("Warning", '299 - "å"')], 5, close=False)
    assert lines(head) == (
        "HTTP/1.1 201 Created",
        ["Content-Type: application/json", 'Warning: 299 - "å"', "Content-Length: 5"],
    )


def test_head_of_a_stream_and_of_a_last_answer():
    assert lines(wire.head(200, [], None, chunked=True, close=False))[1] == ["Transfer-Encoding: chunked"]
    assert lines(wire.head(200, [], None, close=True))[1] == ["Connection: close"]


def test_unknown_status_is_sent_as_it_is():
    assert lines(wire.head(599, [], 0, close=False))[0] == "HTTP/1.1 599 "


@pytest.mark.parametrize("header", [("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\rb"), ("X\r\nY", "b")])
def test_header_that_would_break_its_line_is_an_error(header):
    with pytest.raises(ValueError, match="line break"):
        wire.head(200, [header], 0, close=False)


@given(st.binary(max_size=20), st.lists(st.binary(max_size=50), max_size=20), st.integers(min_value=20, max_value=40))
def test_slices_are_the_whole_in_pieces_of_at_most_the_size(first, parts, size):
    pieces = [bytes(piece) for piece in wire.slices(first, parts, size)]
    assert b"".join(pieces) == first + b"".join(parts)
    assert all(len(piece) <= size for piece in pieces)


def test_internal_error_does_not_reveal_its_cause():
    response = wire.failure()
    assert response.status == 500
    assert b'"reason":"InternalError"' in response.body
