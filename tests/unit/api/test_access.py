"""One way to read objects that come in two forms."""

import msgspec
import pytest

from kapi.api import access
from kapi.api.access import Condition, OwnerReference
from kapi.api.builtin.core_v1 import ConfigMap, Pod

FULL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "generateName": "a-",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"l": "1"},
        "annotations": {"x": "2"},
        "finalizers": ["f"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "w", "uid": "1"},
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "r",
                "uid": "2",
                "controller": True,
                "blockOwnerDeletion": True,
            },
        ],
    },
    "spec": {"containers": []},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "R", "message": "m", "observedGeneration": 3},
            {"type": "Odd", "status": "False"},
        ]
    },
}
FORMS = [pytest.param(FULL, id="dictionary"), pytest.param(msgspec.convert(FULL, Pod), id="class")]
EMPTY = [
    pytest.param({}, id="empty"),
    pytest.param({"metadata": None, "status": None}, id="nulls"),
    pytest.param({"metadata": {}}, id="dictionary"),
    pytest.param(ConfigMap(), id="class"),
]


@pytest.mark.parametrize("obj", FORMS)
def test_typed_and_dictionary_objects_give_the_same_values(obj):
    assert access.name_of(obj) == "a"
    assert access.namespace_of(obj) == "n"
    assert access.uid_of(obj) == "u"
    assert access.resource_version_of(obj) == "7"
    assert access.generation_of(obj) == 3
    assert access.labels_of(obj) == {"l": "1"}
    assert access.annotations_of(obj) == {"x": "2"}
    assert access.finalizers_of(obj) == ["f"]
    assert access.deletion_timestamp_of(obj) == "2026-01-01T00:00:00Z"
    assert access.is_deleting(obj)


@pytest.mark.parametrize("obj", FORMS)
def test_owners_and_conditions_are_the_same_values(obj):
    manager = OwnerReference("apps/v1", "ReplicaSet", "r", "2", controller=True, block_owner_deletion=True)
    assert access.owner_references_of(obj) == [
        OwnerReference("v1", "Node", "w", "1", controller=False, block_owner_deletion=False),
        manager,
    ]
    assert access.controller_of(obj) == manager
    assert access.conditions_of(obj) == [
        Condition("Ready", "True", "R", "m", 3),
        Condition("Odd", "False", "", "", None),
    ]


@pytest.mark.parametrize("obj", EMPTY)
def test_absent_fields_are_empty_and_never_none(obj):
    for read in (access.name_of, access.namespace_of, access.uid_of, access.resource_version_of):
        assert read(obj) == ""
    assert access.generation_of(obj) == 0
    assert access.labels_of(obj) == access.annotations_of(obj) == {}
    assert list(access.finalizers_of(obj)) == access.owner_references_of(obj) == access.conditions_of(obj) == []
    assert access.controller_of(obj) is None
    assert not access.is_deleting(obj)
