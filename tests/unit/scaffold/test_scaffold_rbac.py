"""Roles from declared permissions, and the comparison with what tests asked for."""

import contextlib
import importlib

import pytest

from kapi import CustomResource, resource
from kapi.api.builtin.core_v1 import Pod, PodSpec
from kapi.api.builtin.networking_v1 import NetworkPolicy
from kapi.controller.permissions import policy_rules
from kapi.registry.builtins import GROUPS
from kapi.scaffold.rbac import Asked, Right, compare, merged_rules, read_requests


@resource("rbac.example.com/v1")
class Lamp(CustomResource, kw_only=True):
    pass


def rights(found):
    return [str(right) for right in found]


def asked(*rights):
    return [Asked(Right(*right[:3]), *right[3:]) for right in rights]


def test_permissions_name_resources_by_class_or_by_text():
    declared = {
        Lamp: ["get"],
        (Lamp, "status"): ["update"],
        "lamps.rbac.example.com/scale": ["patch"],
        NetworkPolicy: ["list"],
        (Pod, "eviction"): ["create"],
        "pods/log": ["get"],
    }
    assert policy_rules([declared]) == [
        {"apiGroups": ["rbac.example.com"], "resources": ["lamps"], "verbs": ["get"]},
        {"apiGroups": ["rbac.example.com"], "resources": ["lamps/status"], "verbs": ["update"]},
        {"apiGroups": ["rbac.example.com"], "resources": ["lamps/scale"], "verbs": ["patch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]


def test_every_built_in_class_is_the_resource_that_is_served():
    checked = 0
    for group in GROUPS:
        name = f"{group.group.removesuffix('.k8s.io').partition('.')[0] or 'core'}_{group.version}"
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"kapi.api.builtin.{name}")
            for row in group.rows:
                cls = getattr(module, row.kind, None)
                if cls is not None:
                    (rule,) = policy_rules([{cls: ["get"]}])
                    assert (rule["apiGroups"], rule["resources"]) == ([group.group], [row.resource])
                    checked += 1
    assert checked > 50


@pytest.mark.parametrize("wrong", [PodSpec, CustomResource, 7, (7, "status")])
def test_what_is_no_resource_is_refused(wrong):
    with pytest.raises(TypeError, match=r"is no resource|has no kind"):
        policy_rules([{wrong: ["get"]}])


def test_rules_with_the_same_verbs_are_merged_in_a_fixed_order():
    declared = [
        {"services": ["watch", "list"], "configmaps": ["list"]},
        {"configmaps": ["watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    merged = merged_rules(declared)
    assert merged == merged_rules(reversed(declared))
    assert merged == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"], "resourceNames": ["a"]},
    ]


def test_missing_and_excess_rights_are_told():
    found = compare(
        [{Lamp: ["list", "watch", "delete"], "configmaps": ["create"]}],
        asked(("watch", "rbac.example.com", "lamps"), ("patch", "", "configmaps", "a")),
    )
    assert rights(found.missing) == ["patch configmaps"]
    assert rights(found.excess) == ["create configmaps", "delete lamps.rbac.example.com"]


def test_a_watch_needs_list_whether_or_not_the_server_was_asked_for_it():
    found = compare([{"pods": ["watch"]}], asked(("watch", "", "pods")))
    assert rights(found.missing) == ["list pods"]
    assert compare([{"pods": ["watch", "list"]}], asked(("watch", "", "pods"))).excess == []


def test_wildcards_are_excess_and_cover_what_they_cover():
    found = compare([{"pods": ["*"], "*": ["get"]}], asked(("delete", "", "pods", "a"), ("get", "", "secrets", "a")))
    assert found.missing == []
    assert rights(found.excess) == ["* pods", "get *"]


def test_a_rule_for_one_name_does_not_cover_another():
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]}
    assert compare([rule], asked(("get", "", "secrets", "a"))).missing == []
    found = compare([rule], asked(("get", "", "secrets", "b")))
    assert (rights(found.missing), rights(found.excess)) == (["get secrets"], ["get secrets"])


def test_a_right_on_an_object_is_none_on_its_subresources():
    found = compare([{"pods": ["get"]}], asked(("get", "", "pods/log", "a")))
    assert (rights(found.missing), rights(found.excess)) == (["get pods/log"], ["get pods"])


def test_events_and_leases_are_the_framework_s():
    used = asked(("create", "events.k8s.io", "events"), ("update", "coordination.k8s.io", "leases", "a"))
    found = compare([{"events.events.k8s.io": ["create", "patch"]}], used)
    assert (found.missing, found.excess) == ([], [])


@pytest.mark.parametrize("data", [b"nothing", b'{"verb": "get"}\n', b"[1]\n"])
def test_what_is_no_record_is_refused(data):
    with pytest.raises(ValueError, match="--kapi-requests=FILE"):
        read_requests(data)
