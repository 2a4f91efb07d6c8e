"""The patch of a webhook: decoding what it has touched is as good as decoding everything."""

import asyncio
import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.api.errors import ApiError
from kapi.api.patch import jsonpatch
from kapi.base.clock import ManualClock
from kapi.codec import json
from kapi.registry.catalog import Catalog
from kapi.registry.encoding import copy_of
from kapi.server.admission.matching import ResourceMatch
from kapi.server.admission.versions import decoded
from kapi.server.admission.webhooks.patch import apply_patch, decode_patch
from kapi.storage.memory import MemoryStorage

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CATALOG = Catalog(MemoryStorage(), ManualClock(NOW))
PODS = CATALOG.groups[""]["v1"]["pods"]
CONFIG_MAPS = CATALOG.groups[""]["v1"]["configmaps"]
MATCHES = {one.kind: ResourceMatch(one, one.gvk, frozenset()) for one in (PODS, CONFIG_MAPS)}


def pod():
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "a",
            "labels": {"a": "b"},
            "managedFields": [{"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z"}],
        },
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}], "nodeName": "n"},
    }
    return decoded(obj, PODS, PODS.gvk)


def config_map():
    """Nothing in it is empty, as there is in a Pod: then labels and annotations are not decoded."""
    metadata = {"name": "a", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"x": "y"}}
    return decoded(obj, CONFIG_MAPS, CONFIG_MAPS.gvk)


def applied(obj, patch, *, is_decoded):
    operations = decode_patch(json.encode(patch)).decoded
    return asyncio.run(apply_patch(obj, operations, MATCHES[obj["kind"]], 0, is_decoded=is_decoded))


def outcome(obj, patch, *, is_decoded):
    try:
        found = applied(obj, patch, is_decoded=is_decoded)
    except ApiError as error:
        return error.message
    return found.obj, list(found.obj)[:2], found.changed


PATHS = st.sampled_from(
    [
        "/kind",
        "/apiVersion",
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/a",
        "/metadata/labels/b",
        "/metadata/annotations",
        "/metadata/managedFields",
        "/metadata/managedFields/0/time",
        "/metadata/unknown",
        "/spec",
        "/spec/containers/0",
        "/spec/containers/0/ports",
        "/spec/containers/0/ports/0/containerPort",
        "/spec/containers/-",
        "/spec/nodeName",
        "/unknown",
        "/status",
        "/data",
        "/data/x",
        "/immutable",
        "",
    ]
)
VALUES = st.sampled_from(
    [None, "", "v1", "Pod", 1, 1.0, True, {}, [], {"a": "b"}, {"a": None}, {"x": {"y": 1}}, [{"name": "d"}], pod()]
)
OPERATIONS = st.builds(
    lambda op, path, source, value: {"op": op, "path": path, "from": source, "value": value},
    st.sampled_from(["add", "remove", "replace", "move", "copy"]),
    PATHS,
    PATHS,
    VALUES,
)


MADE = pytest.mark.parametrize("made", [pod, config_map])


@MADE
@settings(max_examples=300)
@given(patch=st.lists(OPERATIONS, max_size=3))
def test_a_patch_of_a_decoded_object_does_what_it_does_to_any(made, patch):
    assert outcome(made(), patch, is_decoded=True) == outcome(made(), patch, is_decoded=False)


@MADE
@given(patch=st.lists(OPERATIONS, max_size=3))
def test_a_patch_does_not_change_the_object(made, patch):
    obj = made()
    outcome(obj, patch, is_decoded=True)
    assert obj == made()


@MADE
@pytest.mark.parametrize("field", ["labels", "annotations", "managedFields", "unknown"])
@pytest.mark.parametrize("value", [{"a": "b", "c": ""}, {"a": None}, {"a": 1}, {"a": {"b": "c"}}, {}, [], None, "a", 1])
def test_a_field_of_metadata_is_decoded_or_needs_no_decoding(made, field, value):
    patch = [{"op": "add", "path": f"/metadata/{field}", "value": value}]
    assert outcome(made(), patch, is_decoded=True) == outcome(made(), patch, is_decoded=False)


@MADE
@pytest.mark.parametrize("path", ["/status", "/data", "/kind", "/apiVersion", "/metadata/name", "/metadata/labels"])
def test_a_field_that_is_removed_next_to_an_annotation_is_put_back_if_decoding_does_that(made, path):
    annotation = {"op": "add", "path": "/metadata/annotations", "value": {"c": "e"}}
    removal = {"op": "remove", "path": path}
    for patch in ([annotation, removal], [removal]):
        assert outcome(made(), patch, is_decoded=True) == outcome(made(), patch, is_decoded=False)


@MADE
def test_what_is_made_of_the_labels_of_a_patch_does_not_change_the_patch(made):
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "c"}}]
    applied(made(), patch, is_decoded=True).obj["metadata"]["labels"]["x"] = "y"
    assert applied(made(), patch, is_decoded=True).obj["metadata"]["labels"] == {"a": "c"}


def test_parts_that_a_patch_has_not_touched_are_shared():
    obj = pod()
    found = applied(obj, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}], is_decoded=True)
    assert found.changed
    assert found.obj["spec"] is obj["spec"]
    assert found.obj["metadata"]["managedFields"] is obj["metadata"]["managedFields"]
    assert found.obj["metadata"]["labels"] == {"a": "b", "x": "y"}


def test_a_patch_that_is_applied_again_is_as_it_was():
    patch = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a", "value": "b"},
    ]
    first, second = (outcome(pod(), patch, is_decoded=True) for _ in range(2))
    assert first == second
    operations = decode_patch(json.encode(patch))
    assert operations is decode_patch(json.encode(patch))
    assert operations.decoded == jsonpatch.decode_operations(copy_of(patch), typed=False)


@pytest.mark.parametrize("patch", [[], None])
def test_a_patch_without_operations_has_none(patch):
    assert decode_patch(json.encode(patch)).decoded == []
