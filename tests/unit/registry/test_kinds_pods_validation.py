"""What is refused in the containers of a pod, and in which words. Each row changes a valid pod in one way."""

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


def with_container(**fields: Any) -> dict[str, Any]:
    return {
        "containers": [{"name": "c", "image": "i", **fields}],
        "volumes": [{"name": "v"}, {"name": "claim", "persistentVolumeClaim": {"claimName": "x"}}],
    }


def test_the_error_of_an_unknown_claim_lists_the_first_hundred_names():
    known = [{"name": f"claim-{number:04}", "resourceClaimName": "x"} for number in range(1000)]
    spec = with_container(resources={"claims": [{"name": f"unknown-{number}"} for number in range(1000)]})
    errors = errors_of({**spec, "resourceClaims": known})
    assert len(errors) == 1000
    assert errors[0].startswith('spec.containers[0].resources.claims[0]: Not found: "unknown-0": must be one of ')
    assert errors[0].endswith(", claim-0099")


def test_a_whole_claim_is_a_duplicate_of_each_request_of_it_named_before():
    claims = [
        {"name": "a", "request": "x"},
        {"name": "b", "request": "x"},
        {"name": "a", "request": "y"},
        {"name": "a"},
    ]
    known = [{"name": name, "resourceClaimName": "x"} for name in ("a", "b")]
    errors = errors_of({**with_container(resources={"claims": claims}), "resourceClaims": known})
    assert errors == ['spec.containers[0].resources.claims[3]: Duplicate value: "a"'] * 2


def test_a_full_pod_is_accepted():
    spec = {
        "containers": [
            {
                "name": "web",
                "image": "nginx:1",
                "command": ["x"],
                "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 90, "hostPort": 90}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}],
                "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a/b"}],
                "livenessProbe": {"exec": {"command": ["true"]}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
            }
        ],
        "initContainers": [
            {"name": "sidecar", "image": "i", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "m"}}]}},
        ],
        "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["_srv.example.com", "."], "options": [{"name": "x"}]},
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "imagePullSecrets": [{"name": "s"}],
        "os": {"name": "linux"},
        "overhead": {"cpu": "10m"},
        "activeDeadlineSeconds": 10,
    }
    assert errors_of(spec) == []


CONTAINERS = [
    ({"containers": []}, ["spec.containers: Required value"]),
    (with_container(name="C_"), [f'spec.containers[0].name: Invalid value: "C_": {LABEL}']),
    (with_container(name=""), ["spec.containers[0].name: Required value"]),
    (with_container(name="a.b"), ['spec.containers[0].name: Invalid value: "a.b": must not contain dots']),
    (with_container(image=""), ["spec.containers[0].image: Required value"]),
    (
        with_container(image=" i"),
        ['spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace'],
    ),
    (
        with_container(imagePullPolicy="Sometimes"),
        [
            (
                'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"IfNotPresent", "Never"'
            )
        ],
    ),
    (
        with_container(terminationMessagePolicy="X"),
        [
            (
                'spec.containers[0].terminationMessagePolicy: Unsupported value: "X": supported values: "File", '
                '"FallbackToLogsOnError"'
            )
        ],
    ),
    (
        {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    (
        with_spec(initContainers=[{"name": "c", "image": "i"}]),
        ['spec.initContainers[0].name: Duplicate value: "c"'],
    ),
    (
        with_spec(initContainers=[{"name": "i", "image": "i", "livenessProbe": {"tcpSocket": {"port": 1}}}]),
        [
            (
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
                "restartPolicy=Always"
            )
        ],
    ),
    (
        with_spec(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Sometimes"}]),
        [
            (
                'spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", '
                '"OnFailure"'
            )
        ],
    ),
    (
        with_container(restartPolicyRules=[{"action": "Restart"}]),
        [
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    ),
    (
        with_spec(ephemeralContainers=[{"name": "d", "image": "i"}]),
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    ),
    # ports
    (
        with_container(ports=[{"containerPort": 0}]),
        ["spec.containers[0].ports[0].containerPort: Required value"],
    ),
    (
        with_container(ports=[{"containerPort": 70000}]),
        ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    (
        with_container(ports=[{"containerPort": 1, "protocol": "X"}]),
        [
            'spec.containers[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    (
        with_container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
    ),
    (
        with_container(ports=[{"containerPort": 1, "name": "1"}]),
        ['spec.containers[0].ports[0].name: Invalid value: "1": must contain at least one letter (a-z)'],
    ),
    (
        with_container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]),
        ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//5"'],
    ),
    (
        {**with_container(ports=[{"containerPort": 1, "hostPort": 5}]), "hostNetwork": True},
        [
            (
                "spec.containers[0].ports[0].hostPort: Invalid value: 5: must match `containerPort` when `hostNetwork` is "
                "true"
            )
        ],
    ),
    # environment
    (with_container(env=[{"name": ""}]), ["spec.containers[0].env[0].name: Required value"]),
    (
        with_container(env=[{"name": "a=b"}]),
        [
            (
                'spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only '
                "of printable ASCII characters other than '='"
            )
        ],
    ),
    (
        with_container(env=[{"name": "a", "valueFrom": {}}]),
        [
            (
                'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
                "`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            )
        ],
    ),
    (
        with_container(env=[{"name": "a", "value": "v", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ],
    ),
    (
        with_container(
            env=[
                {
                    "name": "a",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "secretKeyRef": {"name": "s", "key": "k"},
                    },
                }
            ]
        ),
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time',
        ],
    ),
    (
        with_container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]),
        [
            (
                'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": error converting '
                "fieldPath: field label not supported: spec.nope"
            )
        ],
    ),
    (
        with_container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]),
        [
            (
                'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported '
                'values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
                '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
            )
        ],
    ),
    (
        with_container(env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.x"}}}]),
        [
            (
                'spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.x": supported '
                'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
                '"requests.ephemeral-storage", "requests.memory"'
            )
        ],
    ),
    (
        with_container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "m"}}}]),
        ["spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"],
    ),
    (
        with_container(
            env=[{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "claim", "path": "f", "key": "k"}}}]
        ),
        [
            (
                'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "claim": referenced volume must '
                "be of type emptyDir"
            )
        ],
    ),
    (
        with_container(envFrom=[{}]),
        ['spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'],
    ),
    # mounts
    (
        with_container(volumeMounts=[{"name": "nope", "mountPath": "/x"}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "nope"'],
    ),
    (
        with_container(volumeMounts=[{"name": "v"}]),
        ["spec.containers[0].volumeMounts[0].mountPath: Required value"],
    ),
    (
        with_container(volumeMounts=[{"name": "v", "mountPath": "/x"}, {"name": "claim", "mountPath": "/x"}]),
        ['spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique'],
    ),
    (
        with_container(volumeMounts=[{"name": "v", "mountPath": "/x", "subPath": "/abs"}]),
        ['spec.containers[0].volumeMounts.subPath: Invalid value: "/abs": must be a relative path'],
    ),
    (
        with_container(volumeMounts=[{"name": "v", "mountPath": "/x", "subPath": "a/../b"}]),
        ["spec.containers[0].volumeMounts.subPath: Invalid value: \"a/../b\": must not contain '..'"],
    ),
    (
        with_container(volumeMounts=[{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}]),
        [
            (
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available "
                "only to privileged containers"
            )
        ],
    ),
    (
        with_container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]),
        [
            (
                'spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of '
                "PersistentVolumeClaim or Ephemeral for block mode"
            )
        ],
    ),
    # resources
    (
        with_container(resources={"limits": {"cpu": "-1"}}),
        [
            'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    (
        with_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ],
    ),
    (
        with_container(resources={"requests": {"banana": "1"}}),
        [
            (
                'spec.containers[0].resources.requests[banana]: Invalid value: "banana": must be a standard resource type or '
                "fully qualified"
            ),
            (
                'spec.containers[0].resources.requests[banana]: Invalid value: "banana": must be a standard resource for '
                "containers"
            ),
        ],
    ),
    (
        with_container(resources={"requests": {"nvidia.com/gpu": "1"}}),
        [
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    (
        with_container(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
            'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ],
    ),
    (
        with_container(resources={"limits": {"hugepages-2Mi": "3Mi"}}),
        [
            (
                'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
                "multiple of hugepages-2Mi"
            ),
            (
                'spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
                "multiple of hugepages-2Mi"
            ),
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ],
    ),
    (
        with_container(resources={"claims": [{"name": "x"}]}),
        [
            (
                'spec.containers[0].resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims '
                "which is empty"
            )
        ],
    ),
    # probes and hooks
    (
        with_container(livenessProbe={}),
        ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
    ),
    (
        with_container(livenessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
        ["spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
    ),
    (
        with_container(livenessProbe={"exec": {}, "successThreshold": 2}),
        [
            "spec.containers[0].livenessProbe.exec.command: Required value",
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    (
        with_container(readinessProbe={"tcpSocket": {"port": 0}, "initialDelaySeconds": -1}),
        [
            "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.containers[0].readinessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    (
        with_container(startupProbe={"httpGet": {"port": "web", "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}}),
        [
            'spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
            (
                'spec.containers[0].startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist '
                "of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            ),
        ],
    ),
    (
        with_container(lifecycle={"preStop": {"sleep": {"seconds": 40}}}),
        [
            (
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 40: must be non-negative and less than "
                "terminationGracePeriodSeconds (30)"
            )
        ],
    ),
    # security
    (
        with_container(securityContext={"runAsUser": -1}),
        [
            "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ],
    ),
    (
        with_container(securityContext={"allowPrivilegeEscalation": False, "privileged": True}),
        [
            (
                'spec.containers[0].securityContext: Invalid value: {"allowPrivilegeEscalation":false,"privileged":true}: '
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            )
        ],
    ),
    (
        with_container(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [
            (
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp "
                "type is Localhost"
            )
        ],
    ),
    (
        with_container(securityContext={"procMount": "Unmasked"}),
        [
            (
                'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use '
                "`Unmasked`"
            )
        ],
    ),
]


@pytest.mark.parametrize(("spec", "texts"), CONTAINERS)
def test_an_invalid_container_is_refused_with_the_messages_of_kubernetes(spec: dict[str, Any], texts: list[str]):
    assert errors_of(spec) == texts
