import pytest

from kapi.api import names
from kapi.api.objectmeta import (
    unqualified_finalizers,
    validate_field_manager,
    validate_object_meta,
    validate_object_meta_update,
)

STORED = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def create_errors(*, namespaced=True, builtin=True, **changes):
    meta = {"name": "a", "namespace": "ns"} | changes
    found = validate_object_meta(meta, namespaced=namespaced, name_rule=names.dns_subdomain, builtin=builtin)
    return [str(error) for error in found]


def update_errors(new, old=STORED, **options):
    return [str(error) for error in validate_object_meta_update(new, old, **options)]


def test_good_metadata_has_no_errors():
    assert (
        create_errors(
            generateName="a-",
            generation=1,
            labels={"app": "x"},
            annotations={"Example.com/Note": "anything é"},
            ownerReferences=[
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
            ],
            finalizers=["example.com/f", "kubernetes", "orphan"],
            managedFields=[{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1"}],
        )
        == []
    )


def test_a_name_is_required():
    assert create_errors(name="") == ["metadata.name: Required value: name or generateName is required"]


def test_names_and_prefixes_follow_the_rule_of_the_kind():
    found = create_errors(name="A", generateName="-")
    assert [error.partition(": a lowercase")[0] for error in found] == [
        'metadata.generateName: Invalid value: "-"',
        'metadata.name: Invalid value: "A"',
    ]


def test_namespaces_are_required_or_forbidden():
    assert create_errors(namespace="") == ["metadata.namespace: Required value"]
    assert create_errors(namespace="a.b") == ['metadata.namespace: Invalid value: "a.b": must not contain dots']
    assert create_errors(namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert create_errors(namespaced=False, namespace="") == []


def test_generation_is_not_negative():
    assert create_errors(generation=-1) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_label_errors_do_not_name_the_key():
    (error,) = create_errors(labels={"a": "-"})
    assert error.startswith('metadata.labels: Invalid value: "-": a valid label must be an empty string')


def test_annotation_keys_may_have_capitals_in_the_prefix():
    assert create_errors(annotations={"A.B/c": ""}) == []
    (error,) = create_errors(annotations={"A b": ""})
    assert error.startswith('metadata.annotations: Invalid value: "A b": name part must consist of')


def test_annotations_take_256_kib_together():
    assert create_errors(annotations={"a": "x" * 262143}) == []
    too_long = ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    assert create_errors(annotations={"a": "x" * 262144}) == too_long
    assert create_errors(annotations={"a": "é" * 131072}) == too_long


def test_owners_must_be_complete():
    assert create_errors(ownerReferences=[{"apiVersion": "a/b/c"}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]


def test_events_cannot_be_owners():
    assert create_errors(ownerReferences=[{"uid": "u", "name": "e", "kind": "Event", "apiVersion": "v1"}]) == [
        (
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}: '
            "/v1, Kind=Event is disallowed from being an owner"
        )
    ]


def test_only_one_owner_is_the_controller():
    owner = {"apiVersion": "v1", "kind": "K", "name": "x", "uid": "u", "controller": True}
    (error,) = create_errors(ownerReferences=[owner, owner | {"name": "y", "blockOwnerDeletion": True}])
    assert error == (
        'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"K","name":"x","uid":"u","controller":true},'
        '{"apiVersion":"v1","kind":"K","name":"y","uid":"u","controller":true,"blockOwnerDeletion":true}]: '
        'Only one reference can have Controller set to true. Found "true" in references for K/x and K/y'
    )


def test_finalizers_are_qualified_or_standard():
    (error,) = create_errors(finalizers=["nodomain"])
    assert error == (
        'metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified'
    )
    assert create_errors(finalizers=["nodomain"], builtin=False) == []
    assert unqualified_finalizers(["a.io/b", "kubernetes", "orphan", "foregroundDeletion"], "f") == []


def test_finalizers_are_qualified_names():
    (error,) = create_errors(finalizers=["a b/c"])
    assert error.startswith('metadata.finalizers: Invalid value: "a b/c": prefix part a lowercase RFC 1123 subdomain')


def test_dependents_are_orphaned_or_deleted_not_both():
    assert create_errors(finalizers=["orphan", "foregroundDeletion"]) == [
        (
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
            "finalizer orphan and foregroundDeletion cannot be both set"
        )
    ]


def test_managers_are_checked():
    assert create_errors(
        managedFields=[{"manager": "m" * 129, "operation": "X", "fieldsType": "V2", "subresource": "s" * 257}]
    ) == [
        'metadata.managedFields[0].operation: Invalid value: "X": must be `Apply` or `Update`',
        'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
        "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
        "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
    ]


def test_positions_of_bad_characters_count_bytes():
    assert [str(error) for error in validate_field_manager("é\n")] == [
        'fieldManager: Invalid value: "é\\n": invalid character U+000A (at position 2)'
    ]


# -- updates ----------------------------------------------------------------------------------------------------------


def test_an_unchanged_object_has_no_errors():
    assert update_errors(STORED) == []


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("name", "b", '"b"'),
        ("namespace", "other", '"other"'),
        ("uid", "v", '"v"'),
        ("creationTimestamp", "2027-01-01T00:00:00Z", '"2027-01-01T00:00:00Z"'),
        ("deletionTimestamp", "2027-01-01T00:00:00Z", '"2027-01-01T00:00:00Z"'),
        ("deletionGracePeriodSeconds", 5, "5"),
    ],
)
def test_identity_and_times_are_immutable(field, value, shown):
    assert update_errors(STORED | {field: value}) == [f"metadata.{field}: Invalid value: {shown}: field is immutable"]


def test_a_missing_time_shows_as_null():
    without = {key: value for key, value in STORED.items() if key != "creationTimestamp"}
    assert update_errors(without) == ["metadata.creationTimestamp: Invalid value: null: field is immutable"]


def test_another_spelling_of_a_time_is_no_change():
    assert update_errors(STORED | {"creationTimestamp": "2026-01-01T01:00:00+01:00"}) == []


def test_updates_name_a_version():
    assert update_errors(STORED | {"resourceVersion": ""}) == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update'
    ]


def test_generation_does_not_decrease():
    assert update_errors(STORED | {"generation": 1}) == [
        "metadata.generation: Invalid value: 1: must not be decremented"
    ]


def test_no_finalizer_is_added_during_deletion():
    deleting = STORED | {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": ["a.io/keep", "a.io/gone"]}
    assert update_errors(deleting | {"finalizers": ["a.io/keep"]}, deleting) == []
    assert update_errors(deleting | {"finalizers": ["z.io/new", "a.io/keep", "b.io/new"]}, deleting) == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            '[]string{"b.io/new", "z.io/new"}'
        )
    ]


def test_updates_check_labels_annotations_owners_and_finalizers_again():
    new = STORED | {"labels": {"a": "-"}, "annotations": {"-": ""}, "ownerReferences": [{}], "finalizers": ["x"]}
    fields = [error.split(":")[0] for error in update_errors(new)]
    assert fields == [
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences.apiVersion",
        "metadata.ownerReferences.kind",
        "metadata.ownerReferences.name",
        "metadata.ownerReferences.uid",
        "metadata.finalizers[0]",
    ]
    assert update_errors(STORED | {"finalizers": ["x"]}, builtin=False) == []
