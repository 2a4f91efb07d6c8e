from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.storage.etcd import messages


def field(number: int, content: bytes | int) -> bytes:
    """A field in the simplest encoding there is, for what members would send."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    if isinstance(content, int):
        return varint(number << 3) + varint(content % (1 << 64))
    return varint(number << 3 | 2) + varint(len(content)) + content


def header(revision: int) -> bytes:
    return field(1, field(1, 2**63 + 5) + field(2, 77) + field(3, revision) + field(4, 9))


def key_value(key: bytes, value: bytes, modified: int) -> bytes:
    return field(1, key) + field(2, 3) + field(3, modified) + field(4, 1) + field(5, value)


def test_a_range_request_has_the_fields_of_etcd() -> None:
    request = messages.range_request(b"/a", b"/b", limit=500, revision=7, serializable=True, keys_only=True)
    assert request == field(1, b"/a") + field(2, b"/b") + field(3, 500) + field(4, 7) + field(7, 1) + field(8, 1)
    assert messages.range_request(b"/a") == field(1, b"/a")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 77, 2**63 + 5]), st.sampled_from([0, 5, 24, 2**64 - 1]), st.integers(0, 2**40)
        ),
        min_size=1,
    )
)
def test_the_revision_is_that_of_each_answer_whichever_member_gave_the_last(
    headers: list[tuple[int, int, int]],
) -> None:
    for cluster, member, revision in headers:
        fields = [field(number, one) for number, one in enumerate((cluster, member, revision, 9), 1) if one]
        # What follows a header may look like a revision.
        for content in (b"".join(fields), b"".join(fields[:-1]), field(9, b"new") + b"".join(fields)):
            assert messages.read_revision(field(1, content) + field(3, 8)) == revision


def test_a_comparison_with_an_absent_key_names_revision_zero() -> None:
    assert messages.compare_revision(b"/a", 0) == field(2, 2) + field(3, b"/a") + field(6, 0)
    assert messages.compare_revision(b"/a", 300) == field(2, 2) + field(3, b"/a") + field(6, 300)


def test_a_transaction_has_comparisons_and_both_branches() -> None:
    request = messages.txn_request(
        [messages.compare_revision(b"/a", 1)],
        [messages.put_operation(b"/a", b"x" * 200), messages.delete_operation(b"/b")],
        [messages.range_operation(messages.range_request(b"/a"))],
    )
    assert request == (
        field(1, messages.compare_revision(b"/a", 1))
        + field(2, field(2, field(1, b"/a") + field(2, b"x" * 200)))
        + field(2, field(3, field(1, b"/b")))
        + field(3, field(1, field(1, b"/a")))
    )


def test_a_watch_asks_for_progress_and_fragments() -> None:
    create = field(1, b"/a") + field(2, b"/b") + field(3, 1000) + field(4, 1) + field(8, 1)
    assert messages.watch_create(b"/a", b"/b", 1000) == field(1, create)
    assert field(3, b"") == messages.WATCH_PROGRESS


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 2**62), st.integers(0, 2**40))
def test_a_range_response_is_read(key: bytes, value: bytes, revision: int, total: int) -> None:
    data = header(revision) + field(2, key_value(key, value, revision)) + field(3, 1) + field(4, total)
    found = messages.read_range(data)
    assert (found.revision, found.total) == (revision, total)
    assert [(kv.key, kv.value, kv.mod_revision, kv.create_revision) for kv in found.kvs] == [(key, value, revision, 3)]


def test_a_refused_transaction_says_where_its_keys_are() -> None:
    absent = field(1, field(1, b"") + field(4, 0))
    present = field(1, field(2, key_value(b"/a", b"", 9)) + field(4, 1))
    answer = messages.read_txn(header(12) + field(3, absent) + field(3, present))
    assert (answer.revision, answer.succeeded) == (12, False)
    assert [[kv.mod_revision for kv in found.kvs] for found in answer.ranges] == [[], [9]]


def test_an_accepted_transaction_has_a_revision() -> None:
    put = field(2, header(12))
    assert messages.read_txn(header(12) + field(2, 1) + field(3, put)) == (12, True, [])


def test_events_of_a_watch_are_puts_and_deletions() -> None:
    put = field(11, field(2, key_value(b"/a", b"value", 5)))
    deletion = field(11, field(1, 1) + field(2, key_value(b"/b", b"", 6)))
    response = messages.read_watch(header(6) + put + deletion)
    assert response.events == [(b"/a", b"value", 5), (b"/b", None, 6)]
    assert (response.is_created, response.is_canceled, response.is_fragment) == (False, False, False)


def test_progress_has_the_watch_number_minus_one() -> None:
    response = messages.read_watch(header(6) + field(2, -1))
    assert (response.revision, response.watch_id, response.events) == (6, -1, [])


def test_a_canceled_watch_says_why() -> None:
    response = messages.read_watch(header(6) + field(4, 1) + field(5, 40) + field(6, b"compacted"))
    assert (response.is_canceled, response.compact_revision, response.cancel_reason) == (True, 40, "compacted")


def test_fields_of_newer_members_are_skipped() -> None:
    fixed = bytes([99 << 3 & 127 | 1 | 128, 99 >> 4]) + bytes(8) + bytes([98 << 3 & 127 | 5 | 128, 98 >> 4]) + bytes(4)
    assert messages.read_range(fixed + field(200, b"new") + header(6) + field(201, 5)).revision == 6


def test_a_wire_type_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="wire type"):
        messages.read_range(bytes([0x0B]))


def test_status_alarms_and_tokens_are_read() -> None:
    status = messages.read_status(header(1) + field(2, b"3.6.8") + field(3, 900) + field(4, 78) + field(9, 500))
    assert (status.version, status.db_size, status.db_size_in_use, status.leader, status.member) == (
        *("3.6.8", 900, 500, 78, 77),
    )
    assert messages.read_alarms(header(1) + field(2, field(1, 5) + field(2, 1))) == [(5, "NOSPACE")]
    assert messages.read_token(header(1) + field(2, b"token.1")) == "token.1"
