"""Metadata that is read without decoding an object equals decoded metadata."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from kapi.cache.watchcache import Item, Selection
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.garbagecollector.metadata import (
    Reference,
    has_same_references,
    is_being_deleted,
    key_of,
    metadata_of,
    request_of,
    uid_of,
)
from kapi.registry.encoding import encode, head_of, owners_of

HEAD = head_of("v1", "ConfigMap")
WORDS = st.sampled_from(
    ["a", "x}]", 'y}],"f', "}]}", '"uid":"', "deletionTimestamp", '"deletionTimestamp":', "ownerReferences", "{", "\\"]
) | st.text(max_size=8)
REFERENCES = st.fixed_dictionaries(
    {"apiVersion": WORDS, "kind": WORDS, "name": WORDS, "uid": WORDS},
    optional={"controller": st.booleans(), "blockOwnerDeletion": st.booleans()},
)
TIME = "2026-01-01T00:00:00Z"
METADATA = st.fixed_dictionaries(
    {"name": WORDS, "uid": st.uuids().map(str), "resourceVersion": st.integers(1, 2**60).map(str)},
    optional={
        "generateName": WORDS | st.just("g" * 3000),
        "namespace": WORDS,
        "generation": st.integers(1, 2**60),
        "creationTimestamp": st.just(TIME),
        "deletionTimestamp": st.just(TIME),
        "labels": st.dictionaries(WORDS, WORDS, max_size=3),
        "annotations": st.dictionaries(WORDS, WORDS, max_size=3),
        "ownerReferences": st.lists(REFERENCES, max_size=3),
        "finalizers": st.lists(WORDS, max_size=2),
        "managedFields": st.lists(st.fixed_dictionaries({"manager": WORDS}), max_size=2),
    },
)


def item(metadata, **fields):
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, **fields}
    body = encode(obj)[len(HEAD) :]
    return Item(
        "/registry/core/configmaps/default/a", "default", "a", 1, body, Selection(None, None, None, owners_of(metadata))
    )


@example({"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"deletionTimestamp": "x"}})
@given(METADATA)
def test_metadata_read_from_bytes_equals_decoded_metadata(metadata):
    stored = item(metadata)
    assert uid_of(stored) == metadata["uid"]
    assert is_being_deleted(stored) == ("deletionTimestamp" in metadata)
    read = metadata_of(stored)
    assert (read.uid, read.finalizers) == (metadata["uid"], metadata.get("finalizers"))
    assert [one.uid for one in read.references] == [one["uid"] for one in metadata.get("ownerReferences", ())]


@given(METADATA, METADATA, st.booleans())
def test_references_are_equal_only_if_their_encoding_is(metadata, other, take_over):
    if take_over:
        other = {**other, "ownerReferences": metadata.get("ownerReferences", [])}
    if has_same_references(item(metadata), item(other)):
        assert metadata["ownerReferences"] == other["ownerReferences"]


def test_a_write_that_keeps_the_references_is_recognised():
    """So most updates of dependents need no classification."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "blockOwnerDeletion": True}
    for more in ({"managedFields": [{"manager": "m"}]}, {"finalizers": ["f"]}):
        metadata = {"name": "a", "uid": "1", "resourceVersion": "1", "ownerReferences": [owner], **more}
        before, after = item(metadata, data={"x": "1"}), item({**metadata, "resourceVersion": "2"}, data={"x": "2"})
        assert has_same_references(after, before)
        unblocked = {**metadata, "ownerReferences": [{**owner, "blockOwnerDeletion": False}]}
        assert not has_same_references(item(unblocked), before)


def test_references_round_trip_with_all_fields():
    whole = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": False, "blockOwnerDeletion": True}
    (read,) = metadata_of(
        item({"name": "a", "uid": "1", "resourceVersion": "1", "ownerReferences": [whole]})
    ).references
    assert msgspec.to_builtins(read) == whole
    assert read == Reference("v1", "K", "n", "u", controller=False, block_owner_deletion=True)


def test_requests_round_trip_to_keys():
    for key, request in {
        "/registry/apps/replicasets/default/web": Request("default", "replicasets.apps/web"),
        "/registry/core/nodes/n": Request("", "nodes/n"),
        "/registry/core/configmaps/ns/a.b": Request("ns", "configmaps/a.b"),
        "/registry/net.example.dev/listeners/ns/l": Request("ns", "listeners.net.example.dev/l"),
    }.items():
        assert request_of(key) == request
        assert key_of(request) == key
