"""Header blocks of HTTP/2 (HPACK, RFC 7541), as far as gRPC needs them: written plainly, read in full.

The connection tells its peer that there is no dynamic table, so a block can be read by itself, and the ones that say
that a call succeeded are all alike and read once. Pure functions; no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

POST: Final = b"\x83"
HTTP: Final = b"\x86"
HTTPS: Final = b"\x87"
AUTHORITY: Final = 1
PATH: Final = 4
CONTENT_TYPE: Final = 31
"""Places in the static table."""

# The codes of `:status` in the static table; no other entry of it is of interest in a response.
_STATUSES: Final = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}

# The lengths of the Huffman codes of the bytes 0 to 255. The code is canonical: the lengths are all there is to know.
_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505050606060606"
    "060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605060506060605070706060605"
    "06070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817171717151617161717181615141616171715"
    "1716161815161717151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
)


def _codes() -> dict[tuple[int, int], int]:
    codes: dict[tuple[int, int], int] = {}
    code = length = 0
    for symbol in sorted(range(256), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        codes[length, code] = symbol
        code += 1
    return codes


_CODES: Final = _codes()


class HeaderError(ValueError):
    """A header block that cannot be read."""


def header(name: int | str, value: str) -> bytes:
    """A header that is not to be remembered; `name` may be a place in the static table."""
    first = _integer(name, 4) if isinstance(name, int) else b"\x00" + _text(name)
    return first + _text(value)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _integer(len(encoded), 7) + encoded


def _integer(number: int, bits: int) -> bytes:
    """A number whose first byte has room for so many bits."""
    largest = (1 << bits) - 1
    if number < largest:
        return bytes([number])
    encoded = bytearray([largest])
    number -= largest
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_headers(block: bytes) -> dict[str, str]:
    """The headers of a block by name; those that the static table names are left out, but for `:status`."""
    try:
        return dict(_headers(block))
    except IndexError:
        raise HeaderError("a header block ends too early") from None


def _headers(block: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            place, at = _read_integer(block, at, 7)
            if place in _STATUSES:
                yield ":status", _STATUSES[place]
        elif first & 0xE0 == 0x20:
            _, at = _read_integer(block, at, 5)  # The size of the table, which is none.
        else:
            place, at = _read_integer(block, at, 6 if first & 0x40 else 4)
            name = ""
            if not place:
                name, at = _read_text(block, at)
            elif place <= max(_STATUSES):
                name = ":status"
            value, at = _read_text(block, at)
            yield name, value


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    largest = (1 << bits) - 1
    number = block[at] & largest
    at += 1
    shift = 0
    while number >= largest:
        byte = block[at]
        at += 1
        number += (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at


def _read_text(block: bytes, at: int) -> tuple[str, int]:
    is_huffman = block[at] & 0x80
    length, at = _read_integer(block, at, 7)
    content = block[at : at + length]
    if len(content) < length:
        raise HeaderError("a header block ends too early")
    return (_decode(content) if is_huffman else content).decode(errors="replace"), at + length


def _decode(content: bytes) -> bytes:
    decoded = bytearray()
    code = length = 0
    for byte in content:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            symbol = _CODES.get((length, code))
            if symbol is not None:
                decoded.append(symbol)
                code = length = 0
    return bytes(decoded)


def read_status(block: bytes) -> tuple[int, str]:
    """The code and the message of the trailers that end a gRPC call."""
    found = read_headers(block)
    code = found.get("grpc-status", "")
    if not code.isdigit():
        return 2, f"the answer is not of gRPC: HTTP status {found.get(':status', 'unknown')}"
    return int(code), unquote(found.get("grpc-message", ""))
