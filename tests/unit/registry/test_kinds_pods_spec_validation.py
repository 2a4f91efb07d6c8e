"""Validation of a Pod spec except its containers, with the messages of Kubernetes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import kind_support
import pytest

from kapi.registry.kinds.core.pod.pods import PodStrategy

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def errors_of(spec: dict[str, Any], **metadata: Any) -> list[str]:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", **metadata}, "spec": spec}
    strategy = PodStrategy()
    context = kind_support.a_write(lookup=None, now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    strategy.default(pod)
    strategy.prepare_create(context, pod)
    return [str(error) for error in strategy.validate_create(context, pod)]


def with_spec(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i"}], **fields}


SPECS = [
    (
        with_spec(restartPolicy="Foo"),
        ['spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", "Never"'],
    ),
    (
        with_spec(dnsPolicy="Foo"),
        [
            (
                'spec.dnsPolicy: Unsupported value: "Foo": supported values: "ClusterFirstWithHostNet", "ClusterFirst", '
                '"Default", "None"'
            )
        ],
    ),
    (
        with_spec(dnsPolicy="None"),
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    (
        with_spec(dnsConfig={"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "x"]}),
        [
            (
                'spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.2","1.1.1.3","x"]: must not have more than 3 '
                "nameservers"
            ),
            (
                'spec.dnsConfig.nameservers[3]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
                "2001:db8::ffff)"
            ),
        ],
    ),
    (
        with_spec(nodeSelector={"a": "b c"}),
        [
            (
                'spec.nodeSelector: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
                "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )
        ],
    ),
    (
        with_spec(activeDeadlineSeconds=0),
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    (
        with_spec(hostAliases=[{"ip": "1.2.3"}]),
        [
            (
                'spec.hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or '
                "2001:db8::ffff)"
            )
        ],
    ),
    (with_spec(hostname="A"), [f'spec.hostname: Invalid value: "A": {LABEL}']),
    (
        with_spec(schedulingGates=[{"name": "a"}, {"name": "a"}]),
        ['spec.schedulingGates[1]: Duplicate value: "a"'],
    ),
    (
        with_spec(schedulingGates=[{"name": "a"}], nodeName="n"),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    (
        with_spec(preemptionPolicy="X"),
        ['spec.preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'],
    ),
    (with_spec(os={"name": "bsd"}), ['spec.os: Unsupported value: "bsd": supported values: "linux", "windows"']),
    (
        with_spec(os={"name": "windows"}, hostPID=True, securityContext={"runAsUser": 1}),
        [
            "spec.hostPID: Forbidden: cannot be set for a windows pod",
            "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
        ],
    ),
    (
        with_spec(hostUsers=False, hostNetwork=True),
        ["spec.hostNetwork: Forbidden: when `hostUsers` is false"],
    ),
    (
        with_spec(shareProcessNamespace=True, hostPID=True),
        [
            (
                "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot "
                "both be enabled"
            )
        ],
    ),
    (
        with_spec(hostNetwork=True, securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}),
        [
            (
                'spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when '
                "'hostNetwork' is true"
            )
        ],
    ),
    (
        with_spec(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        ['spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    (
        with_spec(resources={"limits": {"nvidia.com/gpu": "1"}}),
        [
            (
                'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported values: "cpu", '
                '"hugepages-", "memory"'
            )
        ],
    ),
    # tolerations
    (
        with_spec(tolerations=[{"key": "", "operator": "Equal"}]),
        [
            (
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which '
                'means "match all values and all keys"'
            )
        ],
    ),
    (
        with_spec(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        [
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
        ],
    ),
    (
        with_spec(tolerations=[{"key": "a", "operator": "Maybe", "effect": "X", "tolerationSeconds": 1}]),
        [
            "spec.tolerations[0].effect: Invalid value: \"X\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            'spec.tolerations[0].operator: Unsupported value: "Maybe": supported values: "Equal", "Exists"',
            (
                'spec.tolerations[0].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", '
                '"NoExecute"'
            ),
        ],
    ),
    # affinity
    (
        with_spec(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        [
            (
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: "
                "must have at least one node selector term"
            )
        ],
    ),
    (
        with_spec(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                    ]
                }
            }
        ),
        [
            (
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: "
                "must be in the range 1-100"
            ),
            (
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
                ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ),
        ],
    ),
    (
        with_spec(
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}}
        ),
        [
            (
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can "
                "not be empty"
            ),
            (
                'spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": '
                "name part must be non-empty"
            ),
            (
                'spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": '
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ],
    ),
    # spread constraints
    (
        with_spec(topologySpreadConstraints=[{"maxSkew": 0, "whenUnsatisfiable": "X", "minDomains": 1}]),
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            (
                'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported values: '
                '"DoNotSchedule", "ScheduleAnyway"'
            ),
            (
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
                "whenUnsatisfiable=DoNotSchedule, not X"
            ),
        ],
    ),
    (
        with_spec(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
            ]
        ),
        ['spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, ScheduleAnyway}"'],
    ),
    (
        with_spec(resourceClaims=[{"name": "a"}]),
        [
            (
                'spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            )
        ],
    ),
]


def with_volume(**source: Any) -> dict[str, Any]:
    return with_spec(volumes=[{"name": "v", **source}])


VOLUMES = [
    (with_spec(volumes=[{"name": ""}]), ["spec.volumes[0].name: Required value"]),
    (with_spec(volumes=[{"name": "v"}, {"name": "v"}]), ['spec.volumes[1].name: Duplicate value: "v"']),
    (
        with_volume(emptyDir={}, secret={"secretName": "s"}),
        ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
    ),
    (with_volume(nope={}), ["spec.volumes[0]: Required value: must specify a volume type"]),
    (with_volume(secret={}), ["spec.volumes[0].secret.secretName: Required value"]),
    (
        with_volume(configMap={"name": "m", "defaultMode": 512}),
        [
            (
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
                "inclusive"
            )
        ],
    ),
    (
        with_volume(configMap={"name": "m", "items": [{"key": "k", "path": "../x"}]}),
        ["spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'"],
    ),
    (with_volume(persistentVolumeClaim={}), ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"]),
    (with_volume(hostPath={}), ["spec.volumes[0].hostPath.path: Required value"]),
    (
        with_volume(hostPath={"path": "/a/../b", "type": "Dir"}),
        [
            "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            (
                'spec.volumes[0].hostPath.type: Unsupported value: "Dir": supported values: "", "BlockDevice", "CharDevice", '
                '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
            ),
        ],
    ),
    (
        with_volume(nfs={"server": "s"}),
        [
            "spec.volumes[0].nfs.path: Required value",
            'spec.volumes[0].nfs.path: Invalid value: "": must be an absolute path',
        ],
    ),
    (with_volume(gcePersistentDisk={}), ["spec.volumes[0].persistentDisk.pdName: Required value"]),
    (with_volume(csi={}), ["spec.volumes[0].csi.driver: Required value"]),
    (
        with_volume(iscsi={"targetPortal": "p", "iqn": "bad"}),
        ['spec.volumes[0].iscsi.iqn: Invalid value: "bad": must be valid format starting with iqn, eui, or naa'],
    ),
    (
        with_volume(downwardAPI={"items": [{"path": "x"}]}),
        ["spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
    ),
    (
        with_volume(emptyDir={"sizeLimit": "-1"}),
        ["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
    ),
    (
        {
            **with_volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 60}}]}),
            "serviceAccountName": "sa",
        },
        [
            (
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not "
                "specify a duration less than 10 minutes"
            )
        ],
    ),
    (
        with_volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
        [
            (
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
                "serviceAccountName is not set"
            )
        ],
    ),
    (
        with_volume(
            projected={
                "sources": [
                    {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
                    {"configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
                ]
            }
        ),
        ['spec.volumes[0].projected: Invalid value: "m": conflicting duplicate paths'],
    ),
    (
        with_volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
        [
            (
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is "
                "required"
            ),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    ),
]


@pytest.mark.parametrize(("spec", "texts"), SPECS + VOLUMES)
def test_an_invalid_spec_is_refused_with_the_messages_of_kubernetes(spec: dict[str, Any], texts: list[str]):
    assert errors_of(spec) == texts


def test_a_mirror_pod_must_name_its_node():
    key = "kubernetes.io/config.mirror"
    detail = "must set spec.nodeName if mirror pod annotation is set"
    assert errors_of(with_spec(), annotations={key: "x"}) == [
        f'metadata.annotations[{key}]: Invalid value: "x": {detail}'
    ]


@pytest.mark.parametrize(("cost", "is_fine"), [("-5", True), ("0", True), ("+1", False), ("01", False), ("x", False)])
def test_the_deletion_cost_is_a_small_number(cost: str, is_fine: bool):
    errors = errors_of(with_spec(), annotations={"controller.kubernetes.io/pod-deletion-cost": cost})
    assert bool(errors) is not is_fine


def test_matching_keys_may_not_be_selected_twice():
    constraint = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["app"],
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    errors = errors_of(with_spec(topologySpreadConstraints=[constraint]), labels={"app": "x"})
    path = "spec.topologySpreadConstraints[0][0]"
    assert errors == [f'{path}: Invalid value: "app": exists in both matchLabelKeys and labelSelector']
