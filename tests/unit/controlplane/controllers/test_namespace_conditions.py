"""What a namespace on its way out says: pure computing, in the words that tools know."""

import datetime as dt
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kapi.api.errors import GroupResource
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
_found = st.builds(
    DeletionResult,
    remaining=st.dictionaries(
        st.builds(GroupResource, st.sampled_from(["", "example.com"]), _names), st.integers(1, 9)
    ).map(Counter),
    finalizers=st.dictionaries(st.sampled_from(["a/b", "c/d"]), st.integers(1, 9)).map(Counter),
    failures=st.lists(st.sampled_from(["no", "not now"]), max_size=2),
)


def test_all_five_are_said_in_their_order():
    namespace = {}
    assert update_conditions(namespace, DeletionResult(), NOW)
    conditions = namespace["status"]["conditions"]
    assert [one["type"] for one in conditions] == TYPES
    assert {one["status"] for one in conditions} == {"False"}
    assert {one["lastTransitionTime"] for one in conditions} == {"2026-01-01T00:00:00Z"}


def test_failures_are_sorted_and_counted():
    verdict = condition_states(DeletionResult(failures=["z failed", "a failed"]))["NamespaceDeletionContentFailure"]
    assert verdict == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 2 remaining: a failed, z failed",
    )


def test_groups_are_named_and_the_core_group_by_nothing():
    remaining = Counter({GroupResource("example.com", "widgets"): 3, GroupResource("", "configmaps"): 1})
    assert condition_states(DeletionResult(remaining))["NamespaceContentRemaining"].message == (
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "widgets.example.com has 3 resource instances"
    )


@given(_found)
def test_the_same_twice_is_no_news(found):
    namespace = {}
    assert update_conditions(namespace, found, NOW)
    before = repr(namespace)
    assert not update_conditions(namespace, found, LATER)
    assert repr(namespace) == before


@given(_found, _found)
def test_time_moves_with_the_status_and_with_nothing_else(first, second):
    namespace = {}
    update_conditions(namespace, first, NOW)
    before = {one["type"]: one["status"] for one in namespace["status"]["conditions"]}
    changed = update_conditions(namespace, second, LATER)
    assert changed == (condition_states(first) != condition_states(second))
    for one in namespace["status"]["conditions"]:
        moved = one["lastTransitionTime"] == "2026-01-02T00:00:00Z"
        assert moved == (one["status"] != before[one["type"]])
    assert [one["type"] for one in namespace["status"]["conditions"]] == TYPES


def test_conditions_of_others_stay():
    theirs = {"type": "Theirs", "status": "True"}
    namespace = {"status": {"phase": "Terminating", "conditions": [theirs]}}
    update_conditions(namespace, DeletionResult(), NOW)
    assert namespace["status"]["phase"] == "Terminating"
    assert namespace["status"]["conditions"][0] == {"type": "Theirs", "status": "True"}
    assert len(namespace["status"]["conditions"]) == 6
