"""Why etcd refused a commit, and when that is not certain."""

from __future__ import annotations

from types import SimpleNamespace

from kapi.storage.etcd.messages import KeyValue, RangeResponse
from kapi.storage.etcd.storage import EtcdStorage, _Commit
from kapi.storage.interface import Check, Delete, Draft, OutcomeUnknown, Put, RevisionMismatch, StorageUnreachable

ORIGIN = 100
DRAFT = Draft(b"", b"")


def reason(*operations, found, is_repeated):
    """Why a commit is refused whose keys are found at these revisions."""
    ranges = [
        RangeResponse(500, [KeyValue(b"", b"", revision + ORIGIN, 0)] if revision else [], 1) for revision in found
    ]
    commit = _Commit(b"", operations)
    return EtcdStorage._mismatch(SimpleNamespace(_origin=ORIGIN), commit, ranges, is_repeated=is_repeated)


def test_the_first_key_that_differs_is_named():
    error = reason(Put("/a", DRAFT, 3), Check("/b", 4), found=[3, 5], is_repeated=False)
    assert (type(error), error.key, error.expected, error.actual) == (RevisionMismatch, "/b", 4, 5)


def test_a_creation_that_was_answered_is_refused_for_certain():
    assert isinstance(reason(Put("/a", DRAFT, 0), found=[7], is_repeated=False), RevisionMismatch)


def test_a_creation_that_was_sent_again_may_happen_yet():
    """The key may be deleted before the attempt arrives that was not answered."""
    assert isinstance(reason(Put("/a", DRAFT, 0), found=[7], is_repeated=True), OutcomeUnknown)


def test_an_update_that_was_sent_again_cannot_happen_any_more():
    assert isinstance(reason(Put("/a", DRAFT, 3), found=[7], is_repeated=True), RevisionMismatch)
    assert isinstance(reason(Put("/a", DRAFT, 0), Check("/b", 4), found=[7, 5], is_repeated=True), RevisionMismatch)


def test_a_deletion_that_was_sent_again_may_have_happened():
    assert isinstance(reason(Delete("/a", 3), found=[0], is_repeated=True), OutcomeUnknown)


def test_an_answer_that_cannot_be_read_is_no_revision():
    """Those who wait for the latest revision are told; otherwise all later reads would wait for it too."""
    storage = SimpleNamespace(_origin=ORIGIN)
    assert EtcdStorage._latest_of(storage, bytes((10, 3, 24, 200, 1))) == 200 - ORIGIN
    for data in (bytes((10, 3, 24, 200)), bytes((10, 3, 31)), b"\xff"):
        error = EtcdStorage._latest_of(storage, data)
        assert isinstance(error, StorageUnreachable)
        assert str(error).startswith("etcd sent an answer that cannot be read: ")
