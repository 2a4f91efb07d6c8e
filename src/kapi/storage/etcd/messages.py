"""etcd's v3 messages on the wire: the few that a store needs, with the fields that it uses.

Protocol Buffers by hand. A request is a concatenation of bytes and a response is read in one pass, which needs no
generated code and no further package; measured, it is as fast as a protobuf library for messages of this size. Fields
that are not named here are skipped, so newer members may send more. Pure functions; no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SMALL = tuple(bytes([number]) for number in range(128))
_SIGN = 1 << 63
_WRAP = 1 << 64


class KeyValue(NamedTuple):
    """A key at one revision; `value` is empty where only keys were asked for."""

    key: bytes
    value: bytes
    mod_revision: int
    create_revision: int


class RangeResponse(NamedTuple):
    """The keys that were found, the `total` of those in the range, and the revision of the member that answered."""

    revision: int
    kvs: list[KeyValue]
    total: int


class TxnResponse(NamedTuple):
    """Whether all comparisons held, the revision after it, and what the ranges of the failure branch found."""

    revision: int
    succeeded: bool
    ranges: list[RangeResponse]


class Event(NamedTuple):
    """A change of a key; `value` is None for a deletion."""

    key: bytes
    value: bytes | None
    mod_revision: int


class WatchResponse(NamedTuple):
    """One message of a watch stream."""

    revision: int
    watch_id: int
    is_created: bool
    is_canceled: bool
    compact_revision: int
    cancel_reason: str
    is_fragment: bool
    events: list[Event]


class Status(NamedTuple):
    """The state of one member."""

    version: str
    db_size: int
    db_size_in_use: int
    db_size_quota: int
    leader: int
    member: int
    is_learner: bool


class Alarm(NamedTuple):
    """An alarm that a member has raised."""

    member: int
    name: str


_ALARMS = {1: "NOSPACE", 2: "CORRUPT"}


# -- writing ----------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    if number < 128:
        return _SMALL[number]
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes(field: int, content: bytes) -> bytes:
    """A field of bytes; `field` is its number."""
    return b"%b%b%b" % (_SMALL[field << 3 | _BYTES], _varint(len(content)), content)


def _number(field: int, number: int) -> bytes:
    """A field of a number; nothing for 0, which is what an absent field means."""
    return _SMALL[field << 3] + _varint(number if number >= 0 else number + _WRAP) if number else b""


def range_request(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    revision: int = 0,
    serializable: bool = False,
    keys_only: bool = False,
    count_only: bool = False,
) -> bytes:
    """A RangeRequest: the keys from `key` up to `end`, or the one key."""
    request = _bytes(1, key)
    if end:
        request += _bytes(2, end)
    return (
        request
        + _number(3, limit)
        + _number(4, revision)
        + _number(7, serializable)
        + _number(8, keys_only)
        + _number(9, count_only)
    )


def compare_revision(key: bytes, revision: int) -> bytes:
    """A Compare: the key was last changed at a revision; 0 for a key that is absent."""
    # EQUAL is 0 and absent. The target is MOD (2); the revision is field 6, given also when it is 0.
    return b"\x10\x02%b\x30%b" % (_bytes(3, key), _varint(revision))


def put_operation(key: bytes, value: bytes) -> bytes:
    """A RequestOp that writes a key."""
    return _bytes(2, _bytes(1, key) + _bytes(2, value))


def delete_operation(key: bytes) -> bytes:
    """A RequestOp that deletes a key."""
    return _bytes(3, _bytes(1, key))


def range_operation(request: bytes) -> bytes:
    """A RequestOp that reads."""
    return _bytes(1, request)


def txn_request(compares: Sequence[bytes], success: Sequence[bytes], failure: Sequence[bytes]) -> bytes:
    """A TxnRequest."""
    parts = [_bytes(1, one) for one in compares]
    parts += [_bytes(2, one) for one in success]
    parts += [_bytes(3, one) for one in failure]
    return b"".join(parts)


def compaction_request(revision: int) -> bytes:
    """A CompactionRequest."""
    return _number(1, revision)


def watch_create(key: bytes, end: bytes, start_revision: int) -> bytes:
    """A WatchRequest that begins a watch, with progress notifications and with large responses in fragments."""
    create = _bytes(1, key) + _bytes(2, end) + _number(3, start_revision) + _number(4, 1) + _number(8, 1)
    return _bytes(1, create)


WATCH_PROGRESS = _bytes(3, b"")
"""A WatchRequest for a response with the revision up to which the watches of the stream have been sent everything."""

STATUS_REQUEST = b""
ALARMS_REQUEST = b""
"""An AlarmRequest that lists the alarms."""


def authenticate_request(name: str, password: str) -> bytes:
    """An AuthenticateRequest."""
    return _bytes(1, name.encode()) + _bytes(2, password.encode())


# -- reading ----------------------------------------------------------------------------------------------------------


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message: their number and, of bytes, where they begin and end; of a number, it and -1."""
    at = start
    while at < stop:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _read_varint(data, at - 1)
        form = tag & 7
        if form == _BYTES:
            length = data[at]
            at += 1
            if length > 127:
                length, at = _read_varint(data, at - 1)
            yield tag >> 3, at, at + length
            at += length
        elif form == _VARINT:
            number = data[at]
            at += 1
            if number > 127:
                number, at = _read_varint(data, at - 1)
            yield tag >> 3, number, -1
        elif form == _FIXED64:
            at += 8
        elif form == _FIXED32:
            at += 4
        else:
            raise ValueError(f"etcd sent a message with an unknown wire type {form}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _signed(number: int) -> int:
    return number - _WRAP if number & _SIGN else number


_REVISION_TAG = 3 << 3 | _VARINT
_ids = b""
"""The header of the last answer up to its revision: the ids of cluster and member, which take longest to read."""


def _header_revision(data: bytes, start: int, stop: int) -> int:
    global _ids  # noqa: PLW0603
    at = start + len(_ids)
    if _ids and at < stop and data.startswith(_ids, start):
        return _read_varint(data, at)[0]
    at = start
    # Only numbers come before the revision; in what a newer member may put there, it is looked for field by field.
    while at < stop and data[at] in (1 << 3, 2 << 3):
        _, at = _read_varint(data, at + 1)
    if at < stop and data[at] == _REVISION_TAG:
        _ids = data[start : at + 1]
    return next((value for field, value, _ in _fields(data, at, stop) if field == 3), 0)


def _key_value(data: bytes, start: int, stop: int) -> KeyValue:
    key = value = b""
    modified = created = 0
    for field, first, last in _fields(data, start, stop):
        if field == 1:
            key = data[first:last]
        elif field == 5:
            value = data[first:last]
        elif field == 3:
            modified = first
        elif field == 2:
            created = first
    return KeyValue(key, value, modified, created)


def read_range(data: bytes) -> RangeResponse:
    """Read a RangeResponse."""
    return _range(data, 0, len(data))


def _range(data: bytes, start: int, stop: int) -> RangeResponse:
    revision = count = 0
    kvs: list[KeyValue] = []
    for field, first, last in _fields(data, start, stop):
        if field == 2:
            kvs.append(_key_value(data, first, last))
        elif field == 1:
            revision = _header_revision(data, first, last)
        elif field == 4:
            count = first
    return RangeResponse(revision, kvs, count)


def read_txn(data: bytes) -> TxnResponse:
    """Read a TxnResponse; of its operations, only ranges."""
    revision = 0
    succeeded = False
    ranges: list[RangeResponse] = []
    for field, first, last in _fields(data, 0, len(data)):
        if field == 1:
            revision = _header_revision(data, first, last)
        elif field == 2:
            succeeded = bool(first)
        elif field == 3:
            ranges += (_range(data, a, b) for number, a, b in _fields(data, first, last) if number == 1)
    return TxnResponse(revision, succeeded, ranges)


def read_revision(data: bytes) -> int:
    """The revision in the header of any response."""
    for field, first, last in _fields(data, 0, len(data)):
        if field == 1:
            return _header_revision(data, first, last)
    return 0


def read_watch(data: bytes) -> WatchResponse:
    """Read a WatchResponse."""
    revision = watch_id = compacted = 0
    created = canceled = fragment = False
    reason = ""
    events: list[Event] = []
    for field, first, last in _fields(data, 0, len(data)):
        if field == 11:
            events.append(_event(data, first, last))
        elif field == 1:
            revision = _header_revision(data, first, last)
        elif field == 2:
            watch_id = _signed(first)
        elif field == 3:
            created = bool(first)
        elif field == 4:
            canceled = bool(first)
        elif field == 5:
            compacted = first
        elif field == 6:
            reason = data[first:last].decode(errors="replace")
        elif field == 7:
            fragment = bool(first)
    return WatchResponse(revision, watch_id, created, canceled, compacted, reason, fragment, events)


def _event(data: bytes, start: int, stop: int) -> Event:
    kind, where = 0, (0, 0)
    for field, first, last in _fields(data, start, stop):
        if field == 2:
            where = first, last
        elif field == 1:
            kind = first
    kv = _key_value(data, *where)
    return Event(kv.key, None if kind else kv.value, kv.mod_revision)


def read_status(data: bytes) -> Status:
    """Read a StatusResponse."""
    version = ""
    size = in_use = quota = leader = member = 0
    learner = False
    for field, first, last in _fields(data, 0, len(data)):
        if field == 1:
            member = next((value for number, value, _ in _fields(data, first, last) if number == 2), 0)
        elif field == 2:
            version = data[first:last].decode(errors="replace")
        elif field == 3:
            size = first
        elif field == 4:
            leader = first
        elif field == 9:
            in_use = first
        elif field == 10:
            learner = bool(first)
        elif field == 12:
            quota = first
    return Status(version, size, in_use, quota, leader, member, learner)


def read_alarms(data: bytes) -> list[Alarm]:
    """Read an AlarmResponse."""
    alarms = []
    for field, first, last in _fields(data, 0, len(data)):
        if field == 2:
            fields = {number: value for number, value, _ in _fields(data, first, last)}
            alarms.append(Alarm(fields.get(1, 0), _ALARMS.get(fields.get(2, 0), str(fields.get(2, 0)))))
    return alarms


def read_token(data: bytes) -> str:
    """The token in an AuthenticateResponse."""
    return next((data[first:last].decode() for field, first, last in _fields(data, 0, len(data)) if field == 2), "")
