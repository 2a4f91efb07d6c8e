"""The conditions of a terminating namespace."""

import datetime as dt
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kapi.api.meta import GroupResource
from kapi.controlplane.controllers.namespace.conditions import DeletionResult, condition_states, update_conditions

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
TYPES = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
]

_names = st.sampled_from(["configmaps", "pods", "widgets"])
_results = st.builds(
    DeletionResult,
    remaining=st.dictionaries(
        st.builds(GroupResource, st.sampled_from(["", "example.com"]), _names), st.integers(1, 9)
    ).map(Counter),
    finalizers=st.dictionaries(st.sampled_from(["a/b", "c/d"]), st.integers(1, 9)).map(Counter),
    failures=st.lists(st.sampled_from(["no", "not now"]), max_size=2),
)


def test_all_five_conditions_are_set_in_order():
    namespace = {}
    assert update_conditions(namespace, DeletionResult(), NOW)
    conditions = namespace["status"]["conditions"]
    assert [one["type"] for one in conditions] == TYPES
    assert {one["status"] for one in conditions} == {"False"}
    assert {one["lastTransitionTime"] for one in conditions} == {"2026-01-01T00:00:00Z"}


def test_failures_are_sorted_and_counted():
    state = condition_states(DeletionResult(failures=["z failed", "a failed"]))["NamespaceDeletionContentFailure"]
    assert state == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 2 remaining: a failed, z failed",
    )


def test_remaining_resources_are_listed_with_their_group():
    remaining = Counter({GroupResource("example.com", "widgets"): 3, GroupResource("", "configmaps"): 1})
    assert condition_states(DeletionResult(remaining))["NamespaceContentRemaining"].message == (
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "widgets.example.com has 3 resource instances"
    )


@given(_results)
def test_unchanged_conditions_are_not_updated(result):
    namespace = {}
    assert update_conditions(namespace, result, NOW)
    before = repr(namespace)
    assert not update_conditions(namespace, result, LATER)
    assert repr(namespace) == before


@given(_results, _results)
def test_the_transition_time_changes_with_the_status_only(first, second):
    namespace = {}
    update_conditions(namespace, first, NOW)
    before = {one["type"]: one["status"] for one in namespace["status"]["conditions"]}
    changed = update_conditions(namespace, second, LATER)
    assert changed == (condition_states(first) != condition_states(second))
    for one in namespace["status"]["conditions"]:
        moved = one["lastTransitionTime"] == "2026-01-02T00:00:00Z"
        assert moved == (one["status"] != before[one["type"]])
    assert [one["type"] for one in namespace["status"]["conditions"]] == TYPES


def test_other_conditions_are_kept():
    theirs = {"type": "Theirs", "status": "True"}
    namespace = {"status": {"phase": "Terminating", "conditions": [theirs]}}
    update_conditions(namespace, DeletionResult(), NOW)
    assert namespace["status"]["phase"] == "Terminating"
    assert namespace["status"]["conditions"][0] == {"type": "Theirs", "status": "True"}
    assert len(namespace["status"]["conditions"]) == 6
