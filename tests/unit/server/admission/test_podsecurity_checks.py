"""The checks of the Pod Security Standards, each by a Pod that breaks it alone, and by version.

The texts were printed by kube-apiserver v1.36.4; `tests/contract/test_pod_security_parity.py` compares many more.
"""

import pytest

from kapi.server.admission.podsecurity.evaluation import evaluate
from kapi.server.admission.podsecurity.levels import BASELINE, RESTRICTED, LevelVersion
from pod_security_pods import VERSIONS, random_pod

HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def found(level, spec, *, version="latest", annotations=None, container=None, context=None):
    """What a level finds wrong with a Pod that is hardened but for what is given."""
    containers = [{"name": "c", "image": "i", "securityContext": {**HARDENED, **(context or {})}, **(container or {})}]
    metadata = {"name": "p", "annotations": annotations or {}}
    result = evaluate(LevelVersion(level, version), metadata, {"containers": containers, **spec})
    assert result.allowed is (result.detail == "")
    return result.detail


def without(*fields):
    return dict.fromkeys(fields)


BASELINE_CASES = [
    ({"hostNetwork": True, "hostIPC": True}, {}, "host namespaces (hostNetwork=true, hostIPC=true)"),
    ({}, {"context": {"privileged": True}}, 'privileged (container "c" must not set securityContext.privileged=true)'),
    (
        {},
        {"context": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}},
        (
            'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
            "securityContext.capabilities.add)"
        ),
    ),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}, 'hostPath volumes (volume "v")'),
    (
        {},
        {"container": {"ports": [{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]}},
        'hostPort (container "c" uses hostPorts 443, 80)',
    ),
    (
        {},
        {
            "container": {
                "livenessProbe": {"httpGet": {"host": "h"}},
                "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}},
            }
        },
        'probe or lifecycle host (container "c" uses probe or lifecycle hosts "g", "h")',
    ),
    (
        {},
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}},
        (
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
            '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
        ),
    ),
    (
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        {},
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    (
        {"securityContext": {"seLinuxOptions": {"type": "x", "user": "u"}}},
        {"context": {"seLinuxOptions": {"role": "r"}}},
        (
            'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "x"; '
            "user may not be set; role may not be set)"
        ),
    ),
    (
        {},
        {"context": {"procMount": "Unmasked"}},
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        {},
        {"context": {"seccompProfile": {"type": "Unconfined"}}},
        'seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "a.b"}, {"name": "c.d"}]}},
        {},
        "forbidden sysctls (a.b, c.d)",
    ),
    (
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        {"context": {"windowsOptions": {"hostProcess": True}}},
        'hostProcess (pod and container "c" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
]
RESTRICTED_CASES = [
    (
        {},
        {"context": without("allowPrivilegeEscalation")},
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        {},
        {"context": {"capabilities": {"drop": ["NET_RAW"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}},
        (
            'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" '
            'must not include "CHOWN" in securityContext.capabilities.add)'
        ),
    ),
    (
        {"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "c", "emptyDir": {}}]},
        {},
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
    ),
    (
        {},
        {"context": without("runAsNonRoot")},
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
    ),
    (
        {"securityContext": {"runAsNonRoot": False}},
        {},
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
    ),
    ({"securityContext": {"runAsUser": 0}}, {}, "runAsUser=0 (pod must not set runAsUser=0)"),
    (
        {},
        {"context": without("seccompProfile")},
        (
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
            '"Localhost")'
        ),
    ),
]


def test_a_hardened_pod_passes_all_checks():
    assert found(RESTRICTED, {}) == ""


@pytest.mark.parametrize(("spec", "more", "detail"), BASELINE_CASES)
def test_baseline_refuses_known_ways_to_gain_privileges(spec, more, detail):
    assert found(BASELINE, spec, **more) == detail


@pytest.mark.parametrize(("spec", "more", "detail"), RESTRICTED_CASES)
def test_restricted_requires_hardened_pods(spec, more, detail):
    assert found(RESTRICTED, spec, **more) == detail


@pytest.mark.parametrize(
    ("level", "version", "is_found"),
    [(RESTRICTED, "v1.7", False), (RESTRICTED, "v1.8", True), (RESTRICTED, "v1.99", True), (BASELINE, "latest", False)],
)
def test_a_check_begins_with_its_version(level, version, is_found):
    detail = found(level, {}, version=version, context=without("allowPrivilegeEscalation"))
    assert detail.startswith("allowPrivilegeEscalation") is is_found


def test_pods_for_windows_are_not_asked_for_what_windows_does_not_have():
    spec = {"os": {"name": "windows"}, "containers": [{"name": "c"}], "securityContext": {"runAsNonRoot": True}}
    assert evaluate(LevelVersion(RESTRICTED, "v1.25"), {}, spec).allowed
    assert evaluate(LevelVersion(RESTRICTED, "v1.24"), {}, spec).reason == (
        "allowPrivilegeEscalation != false, unrestricted capabilities, seccompProfile"
    )


def test_pods_in_a_user_namespace_may_run_as_root_since_v1_35():
    own = {"hostUsers": False, "securityContext": {"runAsUser": 0}}
    context = {"runAsNonRoot": False, "procMount": "Unmasked"}
    assert found(BASELINE, own, version="v1.35", context=context) == ""
    assert found(RESTRICTED, own, version="v1.35", context=context).startswith("procMount (")
    reasons = evaluate(LevelVersion(RESTRICTED, "v1.34"), {}, {"containers": [], **own}).reason
    assert reasons == "runAsUser=0"


def test_before_v1_19_seccomp_profiles_are_annotations():
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    key = "seccomp.security.alpha.kubernetes.io/pod"
    detail = f'seccompProfile (forbidden annotation {key}="unconfined")'
    assert found(BASELINE, {}, version="v1.18", annotations=annotations) == detail
    assert found(BASELINE, {}, version="v1.19", annotations=annotations) == ""


@pytest.mark.parametrize("seed", range(40))
def test_restricted_refuses_whatever_baseline_refuses(seed):
    pod = random_pod(seed)
    for version in VERSIONS:
        refused = [
            level
            for level in (BASELINE, RESTRICTED)
            if not evaluate(LevelVersion(level, version), pod["metadata"], pod["spec"]).allowed
        ]
        assert refused in ([], [RESTRICTED], [BASELINE, RESTRICTED])
