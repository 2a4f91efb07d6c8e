import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.builtin.core_v1 import Pod
from kapi.api.keys import ObjectKey
from kapi.client.metadata import PartialObjectMetadata
from kapi.codec.errors import DecodeError
from kapi.informer.cached import Intake, decoder_of, without_managed_fields

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o"}],
    },
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def encoded(obj):
    return json.dumps(obj).encode()


def test_keeps_what_finding_an_object_takes():
    cached = Intake(decoder_of(dict)).cached(encoded(POD))
    assert cached.key == ObjectKey("default", "a")
    assert (cached.uid, cached.resource_version, cached.revision, cached.generation) == ("u", "7", 7, 3)
    assert cached.labels == {"app": "web"}
    assert cached.raw == encoded(POD)


def test_object_is_a_fresh_copy_each_time():
    cached = Intake(decoder_of(dict)).cached(encoded(POD))
    first = cached.object()
    first["metadata"]["name"] = "changed"
    assert cached.object() == POD


def test_object_is_of_its_class():
    pod = Intake(decoder_of(Pod)).cached(encoded(POD)).object()
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].image == "i"


def test_metadata_is_decoded_alone():
    metadata = Intake(decoder_of(dict)).cached(encoded(POD)).metadata()
    assert metadata.name == "a"
    assert metadata.owner_references[0].uid == "o"


def test_metadata_of_any_kind_is_partial():
    partial = Intake(decoder_of(PartialObjectMetadata)).cached(encoded(POD)).object()
    assert partial.metadata.labels == {"app": "web"}


def test_items_without_apiVersion_and_kind_get_those_of_the_list():
    item = {key: value for key, value in POD.items() if key not in ("apiVersion", "kind")}
    cached = Intake(decoder_of(dict)).cached(encoded(item), b'{"apiVersion":"v1","kind":"Pod",')
    assert cached.object() == POD


def test_items_that_say_their_kind_are_kept_as_they_are():
    cached = Intake(decoder_of(dict)).cached(encoded(POD), b'{"apiVersion":"v2","kind":"Other",')
    assert cached.raw == encoded(POD)


def test_equal_labels_and_namespaces_are_kept_once():
    intake = Intake(decoder_of(dict))
    first, second = intake.cached(encoded(POD)), intake.cached(encoded(POD))
    assert first.labels is second.labels
    assert first.key.namespace is second.key.namespace


def test_labels_cannot_be_changed():
    with pytest.raises(TypeError):
        Intake(decoder_of(dict)).cached(encoded(POD)).labels["app"] = "other"


@pytest.mark.parametrize("labels", [None, {}], ids=["null", "empty"])
def test_labels_that_are_not_there_are_empty(labels):
    pod = {**POD, "metadata": {"name": "a", "labels": labels}}
    assert Intake(decoder_of(dict)).cached(encoded(pod)).labels == {}


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4))
def test_labels_are_those_of_the_object(labels):
    pod = {"metadata": {"name": "a", "labels": labels}}
    assert Intake(decoder_of(dict)).cached(encoded(pod)).labels == labels


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata":{}}',
        b'{"metadata":{"name":1}}',
        b'{"metadata":{"name":"a","labels":{"a":1}}}',
        b"\xff",
    ],
)
def test_what_is_no_object_is_refused(raw):
    with pytest.raises(DecodeError):
        Intake(decoder_of(dict)).cached(raw)


def test_an_object_that_does_not_fit_its_class_is_named_when_it_is_asked_for():
    cached = Intake(decoder_of(Pod)).cached(encoded({**POD, "spec": 5}))
    with pytest.raises(DecodeError, match=r"default/a cannot be decoded.*spec"):
        cached.object()


def test_transform_decides_what_is_kept():
    managed = {**POD, "metadata": {**POD["metadata"], "managedFields": [{"manager": "x"}]}}
    cached = Intake(decoder_of(dict), transform=without_managed_fields).cached(encoded(managed))
    assert cached.object() == POD


def test_a_transform_that_fails_leaves_the_object_as_it_came(caplog):
    def transform(obj):
        raise RuntimeError("no")

    cached = Intake(decoder_of(dict), transform=transform).cached(encoded(POD))
    assert cached.object() == POD
    assert "default/a" in caplog.text


@pytest.mark.parametrize(
    "changes, same",
    [
        ({}, True),
        ({"resourceVersion": "8"}, False),
        ({"uid": "other"}, False),
    ],
)
def test_states_are_compared_by_uid_and_version(changes, same):
    intake = Intake(decoder_of(dict))
    other = {**POD, "metadata": {**POD["metadata"], **changes}}
    assert intake.cached(encoded(POD)).is_same_state(intake.cached(encoded(other))) is same


def test_states_without_versions_are_compared_by_content():
    intake = Intake(decoder_of(dict))
    first, second = ({"metadata": {"name": "a"}, "data": data} for data in (1, 2))
    assert not intake.cached(encoded(first)).is_same_state(intake.cached(encoded(second)))
    assert intake.cached(encoded(first)).is_same_state(intake.cached(encoded(first)))


def test_versions_that_are_not_numbers_are_not_compared():
    cached = Intake(decoder_of(dict)).cached(b'{"metadata":{"name":"a","resourceVersion":"v\xc2\xb2"}}')
    assert cached.revision is None
