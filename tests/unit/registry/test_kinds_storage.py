from __future__ import annotations

import pytest
from kind_support import all_strategies, create_errors, created, thing, update_errors

STRATEGIES = all_strategies()
CLASS, VAC, ATTACHMENT, DRIVER, NODE, CAPACITY = (
    STRATEGIES["storage.k8s.io", kind]
    for kind in (
        "StorageClass",
        "VolumeAttributesClass",
        "VolumeAttachment",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
    )
)


def test_storage_class_defaults_and_immutables():
    old, errors = created(CLASS, thing(provisioner="example.com/x"))
    assert errors == []
    assert old["reclaimPolicy"] == "Delete"
    assert old["volumeBindingMode"] == "Immediate"
    wanted = {**old, "provisioner": "y.z/x", "reclaimPolicy": "Retain", "parameters": {"a": "b"}}
    assert update_errors(CLASS, wanted, old) == [
        'parameters: Invalid value: {"a":"b"}: field is immutable',
        'provisioner: Invalid value: "y.z/x": field is immutable',
        'reclaimPolicy: Invalid value: "Retain": field is immutable',
    ]
    assert update_errors(CLASS, {**old, "allowVolumeExpansion": True}, old) == []


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, ["provisioner: Required value"]),
        ({"provisioner": "x", "reclaimPolicy": "Recycle"}, ['reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"']),
        ({"provisioner": "x", "volumeBindingMode": "X"}, ['volumeBindingMode: Unsupported value: "X": supported values: "Immediate", "WaitForFirstConsumer"']),
        ({"provisioner": "x", "parameters": {"": "a"}}, ['parameters: Invalid value: "": field can not be empty.']),
        (
            {"provisioner": "x", "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": []}]}]},
            ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
        ),
    ],
)  # fmt: skip
def test_storage_class_rules(fields, wrong):
    assert create_errors(CLASS, thing(**fields)) == wrong


def test_attributes_class_needs_parameters_and_is_immutable():
    assert create_errors(VAC, thing(driverName="x")) == [
        "parameters: Required value: must contain at least one key/value pair"
    ]
    old = thing(driverName="x", parameters={"a": "1"})
    assert update_errors(VAC, thing(driverName="y", parameters={"a": "2"}), old) == [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden.",
    ]


def test_attachment_source_is_immutable():
    spec = {"attacher": "x", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    old, errors = created(ATTACHMENT, thing(spec=spec))
    assert errors == []
    assert old["status"] == {"attached": False}
    exactly = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    assert create_errors(ATTACHMENT, thing(spec={**spec, "source": {}})) == [f"spec.source: Required value: {exactly}"]
    wanted = thing(spec={**spec, "nodeName": "m"})
    (error,) = update_errors(ATTACHMENT, wanted, old)
    assert error.startswith("spec: Invalid value: ")
    assert error.endswith(": field is immutable")
    assert ATTACHMENT.resets_metadata_on_status


def test_inline_volumes_are_csi_only():
    inline = {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "capacity": {"storage": "1Gi"}}
    spec = {"attacher": "x", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}
    assert create_errors(ATTACHMENT, thing(spec=spec)) == [
        "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
        "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
    ]


def test_driver_defaults_and_immutables():
    old, errors = created(DRIVER, thing(spec={}))
    assert errors == []
    assert old["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    }
    wanted = thing(spec={**old["spec"], "attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]})
    assert update_errors(DRIVER, wanted, old) == [
        "spec.attachedRequired: Invalid value: false: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
    ]


def test_driver_tokens():
    spec = {"tokenRequests": [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}]}
    obj, errors = created(DRIVER, thing(spec=spec))
    assert errors == [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: "a"',
    ]
    assert "spec.serviceAccountTokenInSecrets is unset" in DRIVER.warnings(obj, None)[0]


def test_node_driver_identity_is_immutable():
    old = thing(spec={"drivers": [{"name": "x", "nodeID": "1"}]})
    assert create_errors(NODE, thing(spec={"drivers": [{"name": "x"}, {"name": "x", "nodeID": "1"}]})) == [
        "spec.drivers[0].nodeID: Required value",
        'spec.drivers[1].name: Duplicate value: "x"',
    ]
    limits = thing(spec={"drivers": [{"name": "x", "nodeID": "1", "allocatable": {"count": 3}}]})
    assert update_errors(NODE, limits, old) == []
    (error,) = update_errors(NODE, thing(spec={"drivers": [{"name": "x", "nodeID": "2"}]}), old)
    assert error == 'spec.drivers: Invalid value: {"name":"x","nodeID":"2"}: field is immutable'


def test_capacity_class_and_topology_are_immutable():
    old = thing(storageClassName="a", capacity="1Gi")
    assert create_errors(CAPACITY, thing(storageClassName="a", capacity="-1")) == [
        'capacity: Invalid value: "-1": must be greater than or equal to 0'
    ]
    wanted = thing(storageClassName="b", nodeTopology={"matchLabels": {"z": "1"}})
    assert update_errors(CAPACITY, wanted, old) == [
        'nodeTopology: Invalid value: {"matchLabels":{"z":"1"}}: field is immutable',
        'storageClassName: Invalid value: "b": field is immutable',
    ]
