from __future__ import annotations

import pytest
from kind_support import assert_idempotent, create_errors, created, thing, update_errors

from kapi.registry.kinds.rbac import GROUP, STRATEGIES

ROLE, CLUSTER_ROLE, BINDING, CLUSTER_BINDING = (
    STRATEGIES[GROUP, kind] for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
)
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
REFERENCE = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}


@pytest.mark.parametrize(
    ("rule", "wrong", "wrong_for_cluster"),
    [
        (RULE, [], []),
        (
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
            None,
        ),
        (
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            ['rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'],
            [],
        ),
        (
            {**RULE, "nonResourceURLs": ["/x"]},
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
                    "non-resource URLs"
                ),
            ],
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
                    "non-resource URLs"
                )
            ],
        ),
    ],
)
def test_rules(rule, wrong, wrong_for_cluster):
    assert create_errors(ROLE, thing(rules=[rule])) == wrong
    assert create_errors(CLUSTER_ROLE, thing(rules=[rule])) == (
        wrong if wrong_for_cluster is None else wrong_for_cluster
    )


def test_aggregation_needs_selectors():
    assert create_errors(CLUSTER_ROLE, thing(aggregationRule={})) == [
        (
            "aggregationRule.clusterRoleSelectors: Required value: "
            "at least one clusterRoleSelector required if aggregationRule is non-nil"
        )
    ]


def test_bindings_default_their_api_groups():
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
    obj, errors = created(BINDING, thing(roleRef={"kind": "Role", "name": "r"}, subjects=subjects))
    assert errors == []
    assert obj["roleRef"]["apiGroup"] == GROUP
    assert obj["subjects"][0]["apiGroup"] == GROUP
    assert "apiGroup" not in obj["subjects"][1]
    assert_idempotent(BINDING, thing(roleRef={"kind": "Role", "name": "r"}, subjects=subjects))


@pytest.mark.parametrize(
    ("strategy", "fields", "wrong"),
    [
        (
            BINDING,
            {"roleRef": {"kind": "X", "name": "a/b", "apiGroup": "y"}},
            [
                f'roleRef.apiGroup: Unsupported value: "y": supported values: "{GROUP}"',
                'roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole"',
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            CLUSTER_BINDING,
            {"roleRef": {**REFERENCE, "kind": "Role"}},
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
        ),
        (
            CLUSTER_BINDING,
            {"roleRef": REFERENCE, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            ["subjects[0].namespace: Required value"],
        ),
        (
            BINDING,
            {"roleRef": REFERENCE, "subjects": [{"kind": "X", "name": "s"}, {"kind": "Group"}]},
            [
                'subjects[0].kind: Unsupported value: "X": supported values: "ServiceAccount", "User", "Group"',
                "subjects[1].name: Required value",
            ],
        ),
    ],
)
def test_binding_rules(strategy, fields, wrong):
    assert create_errors(strategy, thing(**fields)) == wrong


def test_role_reference_is_immutable():
    old = thing(roleRef={**REFERENCE, "name": "rolemaker"})
    assert update_errors(CLUSTER_BINDING, thing(roleRef=REFERENCE), old) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"view"}}: cannot change roleRef'
    ]


def test_names_are_path_segments():
    assert ROLE.validate_name("system:Node") == []
    assert ROLE.validate_name("a/b") == ["may not contain '/'"]
