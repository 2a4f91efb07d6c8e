"""A document that is decoded in pieces is what it is when it is decoded as a whole, and as malformed."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.codec.pieces import PIECE_BYTES, DuplicateAtCut, decode_pieces

TEXT = st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", '\\"', ",", "[", "}", '",', "\\\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
)
DAMAGE = st.sampled_from([b"", b",", b"]", b"}", b"[", b"{", b":", b'"', b"\\", b" ", b"1"])


def whole(data):
    return msgspec.json.decode(data)


def in_pieces(data, size):
    return decode_pieces(data, lambda piece, _: whole(piece), size)


@given(VALUES, st.integers(1, 12), st.booleans())
def test_a_document_in_pieces_equals_the_whole(value, size, pretty):
    data = json.encode_pretty(value) if pretty else json.encode(value)
    found = in_pieces(data, size)
    assert found == value
    assert json.encode(found) == json.encode(value), "the order of the fields is another one"


@given(VALUES, st.integers(1, 8), st.data())
@example([1, 2], 1, None)
def test_what_is_malformed_as_a_whole_is_malformed_in_pieces(value, size, draw):
    """One byte is replaced, or cut out: the outcome is the same, whatever it is."""
    data = json.encode(value)
    positions = [draw.draw(st.integers(0, len(data) - 1))] if draw is not None else range(len(data))
    for at in positions:
        damaged = data[:at] + (draw.draw(DAMAGE) if draw is not None else b",") + data[at + 1 :]
        try:
            expected = whole(damaged)
        except (msgspec.DecodeError, UnicodeDecodeError):
            with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
                in_pieces(damaged, size)
        else:
            assert found_or(expected, damaged, size) == expected


def found_or(expected, data, size):
    """The document in pieces; what is expected where a duplicate prevents that."""
    try:
        return in_pieces(data, size)
    except DuplicateAtCut:
        return expected


MALFORMED = [
    b"[1,]", b"[,1]", b"[1,,2]", b'{"a":1,}', b'{,"a":1}', b'{"a":,"b":1}', b"[1,2],[3]", b"[1,2}", b"[[1,2],3", b'["a,b', b"[1, ,2]",
    b'{"a":1,"b"}', b'{"a":1,2}', b'[1,"a":2]', b"1,2", b"[1,2]]", b'{"a":[1,2}]', b"", b",", b"[1 2,3]", b'["\\', b'["a\\"',
]  # fmt: skip


@pytest.mark.parametrize("data", MALFORMED)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_malformed_documents_are_refused_wherever_they_are_cut(data, size):
    with pytest.raises(msgspec.DecodeError):
        whole(data)
    with pytest.raises(msgspec.DecodeError):
        in_pieces(data, size)


def test_the_last_of_duplicate_fields_wins_in_pieces_too():
    data = b'{"a":[1,2,3],"b":4,"a":[5,6,7],"b":8}'
    for size in range(1, len(data)):
        assert found_or({"a": [5, 6, 7], "b": 8}, data, size) == {"a": [5, 6, 7], "b": 8}
    with pytest.raises(DuplicateAtCut):
        in_pieces(data, data.index(b"6"))
    long = b'{"a":[1,2],"b":4,"a":[%b]}' % b",".join([b"0"] * 4 * PIECE_BYTES)
    assert json.decode(long) == {"a": [0] * 4 * PIECE_BYTES, "b": 4}


def test_no_call_of_the_decoder_gets_more_than_a_piece(monkeypatch):
    calls = []
    decode = json._decode
    monkeypatch.setattr(json, "_decode", lambda data: calls.append(len(data)) or decode(data))
    value = {"a": [{"b": [number]} for number in range(300_000)]}
    assert json.decode(json.encode(value)) == value
    assert max(calls) < 1.1 * PIECE_BYTES
    assert len(calls) > 20


def test_a_long_document_is_refused_with_the_position_of_the_error():
    data = b"[" + b"0," * 2 * PIECE_BYTES + b"x," + b"0," * 2 * PIECE_BYTES + b"0]"
    with pytest.raises(DecodeError, match=rf"invalid character \(byte {data.index(b'x')}\)"):
        json.decode(data)
    with pytest.raises(DecodeError, match="unexpected end of JSON input"):
        json.decode(data[: data.index(b"x")] + b"0")
    with pytest.raises(DecodeError, match="exceeded max depth"):
        json.decode(b"[" + b"0," * 2 * PIECE_BYTES + b"[" * 256 + b"]" * 256 + b"]")
