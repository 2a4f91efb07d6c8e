"""The fields that kube-apiserver writes for every object of a kind, set by the client or not, and their zero values.

Go's JSON encoder writes a field without `omitempty`, and a struct with it, even when it is empty: `status: {}`,
`rules: null`, `revision: 0`. Clients see these fields, patches address paths inside them, and none of them is owned by
the client that left it out. A published schema shows most of them: what it requires is always written, and so are
`metadata`, `spec` and `status`, and the times of a condition. The tables here hold the rest, read from the struct tags
of the k8s.io modules v0.36.4.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.mergekeys import is_struct

_OPTIONAL: Final = """\
api.apps.v1.DaemonSetSpec updateStrategy
api.apps.v1.DeploymentSpec strategy
api.apps.v1.ReplicaSetSpec template
api.apps.v1.StatefulSetOrdinals start
api.apps.v1.StatefulSetSpec serviceName updateStrategy
api.apps.v1.StatefulSetStatus availableReplicas
api.authentication.v1.SelfSubjectReviewStatus userInfo
api.authentication.v1.TokenRequestSpec audiences boundObjectRef expirationSeconds
api.authentication.v1.TokenRequestStatus expirationTimestamp token
api.authentication.v1.TokenReviewStatus user
api.autoscaling.v2.HorizontalPodAutoscalerStatus currentMetrics
api.batch.v1.PodFailurePolicyOnPodConditionsPattern status
api.core.v1.AzureFilePersistentVolumeSource secretNamespace
api.core.v1.Container resources
api.core.v1.ContainerImage names
api.core.v1.ContainerStateRunning startedAt
api.core.v1.ContainerStateTerminated finishedAt startedAt
api.core.v1.ContainerStatus lastState state
api.core.v1.EphemeralContainer resources
api.core.v1.Event eventTime firstTimestamp lastTimestamp reportingComponent reportingInstance source
api.core.v1.EventSeries lastObservedTime
api.core.v1.GRPCAction service
api.core.v1.NodeDaemonEndpoints kubeletEndpoint
api.core.v1.NodeRuntimeHandler name
api.core.v1.NodeStatus daemonEndpoints nodeInfo
api.core.v1.PersistentVolumeClaimSpec resources
api.core.v1.PodTemplate template
api.core.v1.ProjectedVolumeSource sources
api.core.v1.ResourceFieldSelector divisor
api.core.v1.ServicePort targetPort
api.core.v1.ServiceStatus loadBalancer
api.core.v1.TypedLocalObjectReference apiGroup
api.core.v1.TypedObjectReference apiGroup
api.discovery.v1.Endpoint conditions
api.discovery.v1.EndpointSlice endpoints ports
api.events.v1.Event deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource regarding
api.flowcontrol.v1.FlowSchemaSpec matchingPrecedence
api.flowcontrol.v1.LimitedPriorityLevelConfiguration limitResponse nominalConcurrencyShares
api.flowcontrol.v1.QueuingConfiguration handSize queueLengthLimit queues
api.flowcontrol.v1.ResourcePolicyRule namespaces
api.networking.v1.IngressClassParametersReference scope
api.networking.v1.IngressServiceBackend port
api.networking.v1.IngressStatus loadBalancer
api.networking.v1.NetworkPolicySpec podSelector
api.policy.v1.PodDisruptionBudgetStatus currentHealthy desiredHealthy disruptionsAllowed expectedPods
api.rbac.v1.ClusterRole rules
api.rbac.v1.Role rules
api.rbac.v1.RoleRef apiGroup
api.resource.v1.AllocatedDeviceStatus conditions
api.resource.v1.AllocationResult devices
api.resource.v1.CapacityRequestPolicy default
api.resource.v1.DeviceClaim requests
api.resource.v1.ResourceClaimSpec devices
api.scheduling.v1.PriorityClass value
api.storage.v1.CSINodeDriver topologyKeys
api.storage.v1.VolumeError time
apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus acceptedNames conditions storedVersions
"""
"""Fields that are optional and always written, by definition, without the common `io.k8s.` prefix."""

_OMITTED: Final = """\
api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec policyName validationActions
api.authentication.v1.TokenReviewSpec token
api.core.v1.ContainerRestartRule action
api.core.v1.ContainerRestartRuleOnExitCodes operator
api.core.v1.ImageVolumeStatus imageRef
api.core.v1.PodCertificateProjection keyType signerName
api.networking.v1.IPAddressSpec parentRef
api.networking.v1.ParentReference name resource
api.resource.v1.CapacityRequestPolicyRange min
api.resource.v1.CounterSet counters
api.resource.v1.DeviceCounterConsumption counters
apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources status
"""
"""Fields that are required, or look it, and not written when they are empty."""

_POINTERS: Final = """\
api.admissionregistration.v1.MutatingWebhook sideEffects
api.admissionregistration.v1.ValidatingWebhook sideEffects
api.apps.v1.DaemonSetSpec selector
api.apps.v1.DeploymentSpec selector
api.apps.v1.ReplicaSetSpec selector
api.apps.v1.StatefulSetSpec selector
api.authentication.v1.TokenRequestSpec boundObjectRef expirationSeconds
api.core.v1.AzureFilePersistentVolumeSource secretNamespace
api.core.v1.GRPCAction service
api.core.v1.ScaleIOPersistentVolumeSource secretRef
api.core.v1.ScaleIOVolumeSource secretRef
api.core.v1.TypedLocalObjectReference apiGroup
api.core.v1.TypedObjectReference apiGroup
api.flowcontrol.v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares
api.networking.v1.HTTPIngressPath pathType
api.networking.v1.IngressClassParametersReference scope
api.resource.v1.CapacityRequestPolicy default
"""
"""Fields that are pointers in Go, so that their zero value is null."""

_ALWAYS_STRUCTS: Final = frozenset({"metadata", "spec", "status"})
_TIMES: Final = frozenset({builtin.TIME, builtin.MICRO_TIME})
_SCALARS: Final = {"string": "", "integer": 0, "number": 0, "boolean": False}
_SPECIAL: Final = {builtin.QUANTITY: "0", builtin.INT_OR_STRING: 0}


class Zero(NamedTuple):
    """A zero value: a scalar or null, or an empty struct of the definition `struct`."""

    value: Any = None
    struct: str = ""


@functools.cache
def zero_values(definition: str) -> dict[str, Zero]:
    """The fields of a definition that are always written, with what is written when they are not set."""
    node = builtin.definition(definition)
    optional, omitted, pointers = (_table(text).get(definition, ()) for text in (_OPTIONAL, _OMITTED, _POINTERS))
    found: dict[str, Zero] = {}
    for name, below in node.properties.items():
        is_named = name in node.required or name in optional
        if name not in omitted and (is_named or _is_implied(definition, name, below)):
            found[name] = Zero() if name in pointers else _zero(below)
    return found


def _is_implied(definition: str, name: str, node: builtin.Node) -> bool:
    if node.ref in _TIMES:
        return definition.endswith("Condition")
    return name in _ALWAYS_STRUCTS and is_struct(node)


def _zero(node: builtin.Node) -> Zero:
    if is_struct(node):
        return Zero({}, node.ref)
    if node.ref:
        return Zero(_SPECIAL.get(node.ref))
    return Zero(None if node.format == "byte" else _SCALARS.get(node.type))


@functools.cache
def _table(text: str) -> dict[str, list[str]]:
    lines = (line.split() for line in text.splitlines())
    return {f"io.k8s.{definition}": names for definition, *names in lines}
