from __future__ import annotations

import copy

import pytest
from kind_support import (
    NOW_TEXT,
    a_write,
    assert_idempotent,
    create_errors,
    created,
    status_errors,
    thing,
    update_errors,
    updated,
)

from kapi.registry.kinds.core.persistentvolumeclaims import PersistentVolumeClaimStrategy
from kapi.registry.kinds.core.persistentvolumes import PersistentVolumeStrategy

VOLUME = PersistentVolumeStrategy()
CLAIM = PersistentVolumeClaimStrategy()
DISK = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
WISH = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_new_volume_is_pending_and_retained():
    obj, errors = created(VOLUME, thing(spec=DISK))
    assert errors == []
    assert obj["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert obj["spec"]["volumeMode"] == "Filesystem"
    assert obj["spec"]["hostPath"] == {"path": "/x", "type": ""}
    assert obj["status"] == {"phase": "Pending", "lastPhaseTransitionTime": NOW_TEXT}
    assert_idempotent(VOLUME, thing(spec=DISK))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"accessModes": []}, ["spec.accessModes: Required value"]),
        (
            {"accessModes": ["X"]},
            [
                ('spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", '
                '"ReadWriteOnce", "ReadWriteOncePod"')
            ],
        ),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        ({"capacity": {}}, ["spec.capacity: Required value", 'spec.capacity: Unsupported value: null: supported values: "storage"']),
        ({"capacity": {"storage": "0"}}, ['spec.capacity[storage]: Invalid value: "0": must be greater than zero']),
        ({"persistentVolumeReclaimPolicy": "X"}, ['spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"']),
        ({"hostPath": None}, ["spec: Required value: must specify a volume type"]),
        ({"hostPath": {"path": "/a/../b"}}, ["spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        ({"nfs": {"server": "s", "path": "/p"}}, ["spec.nfs: Forbidden: may not specify more than 1 volume type"]),
        (
            {"hostPath": None, "nfs": {"path": "p"}},
            ["spec.nfs.server: Required value", 'spec.nfs.path: Invalid value: "p": must be an absolute path'],
        ),
        (
            {"hostPath": None, "local": {"path": "/p"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            {"hostPath": None, "csi": {"driver": "A b"}},
            [
                ('spec.csi.driver: Invalid value: "A b": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"),
                "spec.csi.volumeHandle: Required value",
            ],
        ),
        (
            {"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
            ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
        ),
        ({"volumeMode": "X"}, ['spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"']),
        ({"nodeAffinity": {}}, ["spec.nodeAffinity.required: Required value: must specify required node constraints"]),
        (
            {"volumeAttributesClassName": ""},
            [
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
    ],
)  # fmt: skip
def test_volume_rules(change, wrong):
    spec = {key: value for key, value in {**DISK, **change}.items() if value is not None}
    assert create_errors(VOLUME, thing(spec=spec)) == wrong


def test_volume_source_and_mode_are_immutable():
    old, _ = created(VOLUME, thing(spec=DISK))
    wanted = copy.deepcopy(old)
    wanted["spec"]["hostPath"]["path"] = "/y"
    wanted["spec"]["volumeMode"] = "Block"
    first, second = update_errors(VOLUME, wanted, old)
    assert first.startswith(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
    )
    assert second == 'volumeMode: Invalid value: "Block": field is immutable'
    wanted = copy.deepcopy(old)
    wanted["spec"]["claimRef"] = {"name": "c", "namespace": "default"}
    wanted["spec"]["capacity"]["storage"] = "2Gi"
    assert update_errors(VOLUME, wanted, old) == []


def test_phase_changes_are_stamped():
    old, _ = created(VOLUME, thing(spec=DISK))
    old["status"]["lastPhaseTransitionTime"] = "2020-01-01T00:00:00Z"
    bound = {**old, "status": {"phase": "Bound"}}
    VOLUME.prepare_status(a_write(), bound, old)
    assert bound["status"]["lastPhaseTransitionTime"] == NOW_TEXT
    still = {**old, "status": {"phase": "Pending"}}
    VOLUME.prepare_status(a_write(), still, old)
    assert still["status"]["lastPhaseTransitionTime"] == "2020-01-01T00:00:00Z"


def test_new_claim_is_pending():
    obj, errors = created(CLAIM, thing(spec=WISH))
    assert errors == []
    assert obj["status"] == {"phase": "Pending"}
    assert obj["spec"]["volumeMode"] == "Filesystem"


def test_data_source_and_reference_mirror_each_other():
    source = {"kind": "PersistentVolumeClaim", "name": "b"}
    obj, _ = created(CLAIM, thing(spec={**WISH, "dataSource": source}))
    assert obj["spec"]["dataSourceRef"] == source
    obj, _ = created(CLAIM, thing(spec={**WISH, "dataSourceRef": source}))
    assert obj["spec"]["dataSource"] == source
    obj, _ = created(CLAIM, thing(spec={**WISH, "dataSource": {"apiGroup": "x.y", "kind": "Z", "name": "b"}}))
    assert "dataSource" not in obj["spec"]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"accessModes": []}, ["spec.accessModes: Required value: at least 1 access mode is required"]),
        ({"resources": {}}, ["spec.resources[storage]: Required value"]),
        ({"resources": {"requests": {"storage": "0"}}}, ['spec.resources[storage]: Invalid value: "0": must be greater than zero']),
        (
            {"dataSourceRef": {"kind": "X", "name": "a"}, "dataSource": {"kind": "X", "name": "b"}},
            [
                "spec.dataSource: Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                "spec.dataSourceRef: Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                'spec: Invalid value: "spec.dataSource": must match dataSourceRef',
            ],
        ),
    ],
)  # fmt: skip
def test_claim_rules(change, wrong):
    assert create_errors(CLAIM, thing(spec={**WISH, **change})) == wrong


def _claim(phase, **spec):
    return thing(spec={**WISH, "volumeMode": "Filesystem", **spec}, status={"phase": phase})


def test_claim_spec_is_immutable_but_a_bound_claim_may_grow():
    larger = {"resources": {"requests": {"storage": "2Gi"}}}
    assert update_errors(CLAIM, _claim("Bound", **larger), _claim("Bound")) == []
    (error,) = update_errors(CLAIM, _claim("Pending", **larger), _claim("Pending"))
    assert error.startswith(
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
        "for bound claims\n"
    )
    (error,) = update_errors(CLAIM, _claim("Bound", accessModes=["ReadOnlyMany"]), _claim("Bound"))
    assert error.startswith("spec: Forbidden: ")


def test_binding_and_class_can_be_filled_in_once():
    assert update_errors(CLAIM, _claim("Pending", volumeName="pv"), _claim("Pending")) == []
    assert update_errors(CLAIM, _claim("Pending", storageClassName="fast"), _claim("Pending")) == []
    assert len(update_errors(CLAIM, _claim("Pending", volumeName="b"), _claim("Pending", volumeName="a"))) == 1


def test_claim_cannot_shrink_below_what_it_has():
    old = _claim("Bound", resources={"requests": {"storage": "3Gi"}})
    old["status"]["capacity"] = {"storage": "2Gi"}
    smaller = _claim("Bound", resources={"requests": {"storage": "2Gi"}})
    assert update_errors(CLAIM, smaller, old) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]
    between = _claim("Bound", resources={"requests": {"storage": "2500Mi"}})
    assert update_errors(CLAIM, between, old) == []


def test_claim_status_amounts():
    obj = thing(spec=WISH, status={"capacity": {"storage": "-1"}})
    assert status_errors(CLAIM, obj, thing(spec=WISH)) == [
        "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"
    ]
    assert updated(CLAIM, _claim("Bound"), _claim("Bound"))[0]["status"] == {"phase": "Bound"}
