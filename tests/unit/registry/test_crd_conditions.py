from __future__ import annotations

import copy
import datetime as dt

import pytest
from crd_support import create, definition, old_form, stored, update, version
from kind_support import NOW, NOW_TEXT

from kapi.registry.kinds.apiextensions import conditions
from kapi.registry.kinds.apiextensions.conditions import begin_deletion, end_deletion, find, is_true, put

LATER = NOW + dt.timedelta(hours=1)
LATER_TEXT = "2026-01-02T04:04:05Z"
HOLDER = {"names": {"singular": "thing", "listKind": "ThingList", "shortNames": ["th", "tg"]}}


def condition(kind, status, reason, message):
    return {"type": kind, "status": status, "lastTransitionTime": NOW_TEXT, "reason": reason, "message": message}


ACCEPTED = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
ESTABLISHED = condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
REFUSED = condition("Established", "False", "NotAccepted", "not all names are accepted")


def test_a_new_definition_is_established_in_the_same_write():
    obj = stored(definition(names={"shortNames": ["th"], "categories": ["all"]}))
    assert obj["status"] == {
        "conditions": [ACCEPTED, ESTABLISHED],
        "acceptedNames": {
            "plural": "things",
            "singular": "thing",
            "shortNames": ["th"],
            "kind": "Thing",
            "listKind": "ThingList",
            "categories": ["all"],
        },
        "storedVersions": ["v1"],
    }


def test_the_status_of_a_new_definition_is_dropped():
    obj = definition()
    obj["status"] = {"storedVersions": ["v7"], "conditions": [condition("Established", "False", "x", "y")]}
    assert stored(obj)["status"] == stored(definition())["status"]


@pytest.mark.parametrize(
    ("names", "reason", "message", "accepted"),
    [
        (
            {"plural": "kinds", "kind": "Thing", "singular": "kin", "listKind": "KinList"},
            "KindConflict",
            '"Thing" is already in use',
            {"plural": "kinds", "singular": "kin", "kind": "", "listKind": "KinList"},
        ),
        (
            {"plural": "lists", "kind": "Lst", "listKind": "ThingList"},
            "ListKindConflict",
            '"ThingList" is already in use',
            {"plural": "lists", "singular": "lst", "kind": "Lst"},
        ),
        (
            {"plural": "singles", "kind": "Single", "singular": "thing"},
            "SingularConflict",
            '"thing" is already in use',
            {"plural": "singles", "kind": "Single", "listKind": "SingleList"},
        ),
        (
            {"plural": "shorts", "kind": "Short", "shortNames": ["thing", "things", "ok"]},
            "ShortNamesConflict",
            '["thing" is already in use, "things" is already in use]',
            {"plural": "shorts", "singular": "short", "kind": "Short", "listKind": "ShortList"},
        ),
        (
            {"plural": "thing", "kind": "Plural"},
            "PluralConflict",
            '"thing" is already in use',
            {"plural": "", "singular": "plural", "kind": "Plural", "listKind": "PluralList"},
        ),
        (
            {"plural": "tg", "kind": "Thing", "singular": "th"},
            "ListKindConflict",
            '"ThingList" is already in use',
            {"plural": "", "kind": ""},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith("Conflict") else "",
)
def test_names_in_use_are_not_accepted_again(names, reason, message, accepted):
    holder = stored(definition(**HOLDER))
    obj = stored(definition(names["plural"], names["kind"], names=names), holder)
    assert obj["status"]["conditions"] == [condition("NamesAccepted", "False", reason, message), REFUSED]
    assert obj["status"]["acceptedNames"] == accepted


def test_names_in_use_in_another_group_are_free():
    holder = stored(definition(**HOLDER))
    assert is_true(stored(definition(group="other.dev", **HOLDER), holder), "Established")


def test_names_that_are_not_accepted_are_free():
    holder = stored(definition(**HOLDER))
    loser = stored(definition("gadgets", "Thing"), holder)
    assert is_true(stored(definition("widgets", "Widget", names={"shortNames": ["gd"]}), holder, loser), "Established")


def test_a_definition_gets_its_names_when_another_is_deleted():
    holder = stored(definition(**HOLDER))
    loser = stored(definition("gadgets", "Thing"), holder)
    assert not is_true(loser, "Established")
    conditions.update(loser, [loser], LATER)
    assert [one["lastTransitionTime"] for one in loser["status"]["conditions"]] == [LATER_TEXT, LATER_TEXT]
    assert is_true(loser, "NamesAccepted")
    assert is_true(loser, "Established")
    assert loser["status"]["acceptedNames"]["kind"] == "Thing"


def test_computing_conditions_again_changes_nothing_and_reads_no_other_definition():
    def none():
        raise AssertionError("another definition was read")
        yield

    obj = stored(definition())
    before = copy.deepcopy(obj)
    conditions.update(obj, none(), LATER)
    assert obj == before


def test_an_established_definition_stays_so_when_it_requests_a_name_in_use():
    holder = stored(definition(**HOLDER))
    old = stored(definition("gadgets", "Gadget"), holder)
    obj, errors = update(definition("gadgets", "Gadget", names={"shortNames": ["th"]}), old, holder)
    assert errors == []
    assert find(obj, "NamesAccepted")["reason"] == "ShortNamesConflict"
    assert is_true(obj, "Established")
    assert obj["status"]["acceptedNames"] == old["status"]["acceptedNames"]
    back, _ = update(definition("gadgets", "Gadget"), obj, holder)
    assert is_true(back, "NamesAccepted")


def test_a_released_name_is_free():
    holder = stored(definition(**HOLDER))
    released, _ = update(definition(), holder)
    assert "shortNames" not in released["status"]["acceptedNames"]
    assert is_true(stored(definition("gadgets", "Gadget", names={"shortNames": ["th"]}), released), "NamesAccepted")


def test_every_storage_version_there_ever_was_is_remembered():
    old = stored(definition(versions=[version("v1"), version("v2", storage=False)]))
    obj, errors = update(definition(versions=[version("v1", storage=False), version("v2")]), old)
    assert errors == []
    assert obj["status"]["storedVersions"] == ["v1", "v2"]
    again, _ = update(definition(versions=[version("v1"), version("v2", storage=False)]), obj)
    assert again["status"]["storedVersions"] == ["v1", "v2"]


def test_an_invalid_ca_bundle_prevents_establishment():
    config = {"url": "https://example.com", "caBundle": "Zm9v"}
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}
    obj = stored(definition(conversion=webhook))
    assert find(obj, "Established") == condition(
        "Established", "False", "InvalidCABundle", "The conversion webhook CABundle is invalid"
    )
    mended, errors = update(definition(), obj)
    assert errors == []
    assert is_true(mended, "Established")


@pytest.mark.parametrize(
    ("annotation", "status", "reason", "message"),
    [
        ("unapproved, test", "False", "UnapprovedAnnotation", 'not approved: "unapproved, test"'),
        ("https://example.com/pull/1", "True", "ApprovedAnnotation", "approved in https://example.com/pull/1"),
    ],
)
def test_a_community_group_has_an_approval_condition(annotation, status, reason, message):
    obj = definition(group="foo.k8s.io")
    obj["metadata"]["annotations"] = {"api-approved.kubernetes.io": annotation}
    kind = "KubernetesAPIApprovalPolicyConformant"
    assert find(stored(obj), kind) == condition(kind, status, reason, message)


def test_a_definition_that_preserves_unknown_fields_has_a_non_structural_condition():
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": {"a": {"type": "string"}}}}}}
    obj = stored(old_form(version="v1", validation=schema))
    assert find(obj, "NonStructuralSchema") == condition(
        "NonStructuralSchema",
        "True",
        "Violations",
        "[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified "
        "object fields, spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root]",
    )
    mended, errors = update(definition(), obj)
    assert errors == []
    assert find(mended, "NonStructuralSchema") is None


def test_a_schema_that_cannot_be_read_is_of_unknown_structure():
    obj, errors = create(old_form(version="v1", validation={"openAPIV3Schema": {"$ref": "#/x"}}))
    assert [error.field for error in errors] == ["spec.validation.openAPIV3Schema.$ref"]
    found = find(obj, "NonStructuralSchema")
    assert (found["status"], found["reason"]) == ("Unknown", "StructuralError")
    assert found["message"] == (
        "failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported"
    )


def test_a_deletion_adds_the_finalizer_and_the_terminating_condition():
    obj = stored(definition())
    obj["metadata"]["finalizers"] = ["mine/own"]
    begin_deletion(obj, LATER)
    begin_deletion(obj, LATER)
    assert obj["metadata"]["finalizers"] == ["mine/own", conditions.FINALIZER]
    assert find(obj, "Terminating") == {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": LATER_TEXT,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    assert is_true(obj, "Established")


def test_the_end_of_a_deletion_removes_the_finalizer():
    obj = stored(definition())
    begin_deletion(obj, NOW)
    put(obj, "Terminating", conditions.DELETION_IN_PROGRESS, LATER)
    assert find(obj, "Terminating")["lastTransitionTime"] == NOW_TEXT
    end_deletion(obj, conditions.DELETION_COMPLETED, LATER)
    assert "finalizers" not in obj["metadata"]
    assert find(obj, "Terminating") == {
        "type": "Terminating",
        "status": "False",
        "lastTransitionTime": LATER_TEXT,
        "reason": "InstanceDeletionCompleted",
        "message": "removed all instances",
    }


def test_a_deletion_that_fails_is_reported():
    state = conditions.deletion_failed("x")
    assert state == ("True", "InstanceDeletionFailed", "could not issue all deletes: x")


def test_updates_keep_the_terminating_condition():
    old = stored(definition())
    begin_deletion(old, NOW)
    obj, _ = update(definition(names={"shortNames": ["th"]}), old)
    assert find(obj, "Terminating") == find(old, "Terminating")


def test_writing_a_condition_leaves_the_stored_state_alone():
    old = stored(definition())
    new = {**old}
    before = copy.deepcopy(old)
    put(new, "Established", conditions.NEVER_ESTABLISHED, LATER)
    conditions.remove(new, "NamesAccepted")
    assert old == before
