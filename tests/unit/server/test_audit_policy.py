"""The audit policy: the first rule that matches decides, and mistakes in a file are reported in their place."""

import pytest

from kapi.api.user import User
from kapi.server.audit.policy import DEFAULT_POLICY, Level, Policy, policy_errors
from kapi.server.configfile import ConfigFileError
from kapi.server.requestinfo import parse_query, request_info

ALICE = User("alice", ("devs", "system:authenticated"))
PODS = "/api/v1/namespaces/default/pods"


def info(request):
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    return request_info(method, path, parse_query(query))


def level(rules, request, user=ALICE):
    return Policy({"rules": rules}).evaluate(user, info(request)).level


@pytest.mark.parametrize(
    ("rule", "matching", "other"),
    [
        ({}, [f"GET {PODS}", "GET /version"], []),
        ({"users": ["alice"]}, [f"GET {PODS}"], []),
        ({"users": ["bob"]}, [], [f"GET {PODS}"]),
        ({"userGroups": ["ops", "devs"]}, [f"GET {PODS}"], []),
        ({"userGroups": ["ops"]}, [], [f"GET {PODS}"]),
        ({"verbs": ["list", "delete"]}, [f"GET {PODS}", f"DELETE {PODS}/a"], [f"GET {PODS}/a", f"DELETE {PODS}"]),
        ({"namespaces": ["default"]}, [f"GET {PODS}"], ["GET /api/v1/pods", "GET /version"]),
        ({"namespaces": [""]}, ["GET /api/v1/pods", "GET /api/v1/nodes/a"], [f"GET {PODS}", "GET /version"]),
        ({"resources": [{"group": ""}]}, [f"GET {PODS}"], ["GET /apis/apps/v1/deployments", "GET /version"]),
        ({"resources": [{"group": "*"}]}, [f"GET {PODS}", "GET /apis/apps/v1/deployments"], ["GET /version"]),
        ({"resources": [{"resources": ["pods"]}]}, [f"GET {PODS}/a"], [f"GET {PODS}/a/log", "GET /api/v1/nodes"]),
        ({"resources": [{"resources": ["pods/log"]}]}, [f"GET {PODS}/a/log"], [f"GET {PODS}/a"]),
        ({"resources": [{"resources": ["pods/*"]}]}, [f"GET {PODS}/a/log", f"GET {PODS}/a"], ["GET /api/v1/nodes"]),
        ({"resources": [{"resources": ["*/log"]}]}, [f"GET {PODS}/a/log"], [f"GET {PODS}/a", f"GET {PODS}/a/exec"]),
        (
            {"resources": [{"resources": ["*"]}]},
            [f"GET {PODS}/a/log", f"GET {PODS}"],
            ["GET /apis/apps/v1/deployments"],
        ),
        (
            {"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]},
            [f"GET {PODS}/a"],
            [f"GET {PODS}/b", f"GET {PODS}"],
        ),
        ({"nonResourceURLs": ["/livez*"]}, ["GET /livez", "GET /livez/ping"], ["GET /readyz", f"GET {PODS}"]),
        ({"nonResourceURLs": ["/version"]}, ["GET /version"], ["GET /version/x"]),
        ({"nonResourceURLs": ["*"]}, ["GET /version", "GET /"], [f"GET {PODS}"]),
    ],
)
def test_what_a_rule_matches(rule, matching, other):
    rules = [{"level": "Request", **rule}]
    assert {level(rules, request) for request in matching} <= {Level.REQUEST}
    assert {level(rules, request) for request in other} <= {Level.NONE}


def test_the_first_matching_rule_decides():
    rules = [
        {"level": "None", "verbs": ["get"]},
        {"level": "Metadata", "namespaces": ["default"]},
        {"level": "Request"},
    ]
    assert level(rules, f"GET {PODS}/a") is Level.NONE
    assert level(rules, f"GET {PODS}") is Level.METADATA
    assert level(rules, "GET /api/v1/pods") is Level.REQUEST


def test_a_rule_adds_to_the_stages_omitted_and_overrides_omitted_managed_fields():
    policy = Policy(
        {
            "omitStages": ["RequestReceived"],
            "omitManagedFields": True,
            "rules": [
                {"level": "Metadata", "verbs": ["get"], "omitStages": ["Panic"], "omitManagedFields": False},
                {"level": "Metadata", "verbs": ["list"]},
            ],
        }
    )
    config = policy.evaluate(ALICE, info(f"GET {PODS}/a"))
    assert (config.level, config.omit_stages, config.omit_managed_fields) == (
        Level.METADATA,
        {"RequestReceived", "Panic"},
        False,
    )
    config = policy.evaluate(ALICE, info(f"GET {PODS}"))
    assert (config.level, config.omit_stages, config.omit_managed_fields) == (
        Level.METADATA,
        {"RequestReceived"},
        True,
    )


@pytest.mark.parametrize(
    "request_",
    [
        "POST /api/v1/namespaces/default/secrets",
        "GET /api/v1/secrets",
        "POST /api/v1/namespaces/default/serviceaccounts/a/token",
        "POST /apis/authentication.k8s.io/v1/tokenreviews",
    ],
)
def test_bodies_with_credentials_are_never_recorded(request_):
    assert level([{"level": "RequestResponse"}], request_) is Level.METADATA
    assert level([{"level": "None"}], request_) is Level.NONE


def test_the_default_policy_is_valid_and_records_what_a_person_did():
    assert list(policy_errors(DEFAULT_POLICY)) == []
    rules = DEFAULT_POLICY["rules"]
    node = User("system:node:a", ("system:nodes",))
    controller = User("system:serviceaccount:kube-system:x", ("system:serviceaccounts:kube-system",))
    assert level(rules, f"GET {PODS}") is Level.METADATA
    assert level(rules, f"POST {PODS}") is Level.REQUEST
    assert level(rules, "POST /api/v1/namespaces/default/configmaps") is Level.METADATA
    assert level(rules, "POST /api/v1/namespaces/default/secrets") is Level.METADATA
    assert level(rules, "GET /apis") is Level.METADATA
    assert level(rules, "GET /livez") is Level.NONE
    assert level(rules, "GET /readyz/ping") is Level.NONE
    assert level(rules, f"GET {PODS}?watch=1", node) is Level.NONE
    assert level(rules, f"GET {PODS}", controller) is Level.NONE
    assert level(rules, f"DELETE {PODS}/a", controller) is Level.REQUEST
    assert level(rules, "PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b", node) is Level.NONE


def test_a_policy_file_with_mistakes_is_refused_with_lines(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Begin]
rules:
- level: Everything
- users: [a]
- level: Metadata
  nonResourceURLs: ["healthz", "/a*b"]
  namespaces: [x]
- level: Metadata
  resources:
  - group: Apps/v1
  - resourceNames: [a]
"""
    )
    with pytest.raises(ConfigFileError) as caught:
        Policy.read(path)
    stages = "RequestReceived,ResponseStarted,ResponseComplete,Panic"
    subdomain = str(caught.value).splitlines()[6].partition('"Apps/v1": ')[2]
    assert subdomain.startswith("a lowercase RFC 1123 subdomain must consist of")
    assert str(caught.value).replace(str(path), "F").splitlines() == [
        f'F:3: omitStages[0]: Invalid value: "Begin": allowed stages are {stages}',
        (
            'F:5: rules[0].level: Unsupported value: "Everything": supported values: "None", "Metadata", "Request", '
            '"RequestResponse"'
        ),
        "F:6: rules[1].level: Required value",
        (
            'F:8: rules[2].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '
            "'/' character"
        ),
        (
            "F:8: rules[2].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final "
            "character of the rule"
        ),
        (
            'F:8: rules[2].nonResourceURLs: Invalid value: ["healthz","/a*b"]: rules cannot apply to both regular '
            "resources and non-resource URLs"
        ),
        f'F:12: rules[3].resources[0].group: Invalid value: "Apps/v1": {subdomain}',
        (
            'F:13: rules[3].resources[1].resourceNames: Invalid value: ["a"]: using resourceNames requires at least one '
            "resource"
        ),
    ]


def test_a_policy_without_rules_is_refused(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\n")
    with pytest.raises(ConfigFileError, match="the policy has no rules"):
        Policy.read(path)
