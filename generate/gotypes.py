"""Facts about the stable kinds that a server needs and the published definitions leave out.

The definitions say that `imagePullPolicy` is a string. They do not say that kube-apiserver calls its type
`v1.PullPolicy` (error messages print it), that three values are legal, that a volume's `emptyDir` sits in an embedded
`VolumeSource` (the path in an error message shows it), or whether an empty value is kept or left out when the object is
written back. These facts are listed here, by package and definition without the common `io.k8s.` prefix; the generator
weaves them into the schema. Kinds of alpha and beta versions are not listed and get what the definitions say.
"""

from __future__ import annotations

from typing import NamedTuple

FIELDS = """\
[api.admissionregistration.v1]
MatchResources matchPolicy*:v1.MatchPolicyType
MutatingAdmissionPolicySpec failurePolicy*:v1.FailurePolicyType reinvocationPolicy:v1.ReinvocationPolicyType
MutatingWebhook failurePolicy*:v1.FailurePolicyType matchPolicy*:v1.MatchPolicyType
  reinvocationPolicy*:v1.ReinvocationPolicyType sideEffects:v1.SideEffectClass timeoutSeconds*
Mutation patchType:v1.PatchType
NamedRuleWithOperations operations:[]v1.OperationType scope*:v1.ScopeType
ParamRef parameterNotFoundAction*:v1.ParameterNotFoundActionType
RuleWithOperations operations:[]v1.OperationType scope*:v1.ScopeType
ServiceReference path* port*
ValidatingAdmissionPolicyBindingSpec validationActions:[]v1.ValidationAction
ValidatingAdmissionPolicySpec failurePolicy*:v1.FailurePolicyType
ValidatingWebhook failurePolicy*:v1.FailurePolicyType matchPolicy*:v1.MatchPolicyType sideEffects:v1.SideEffectClass
  timeoutSeconds*
Validation reason*:v1.StatusReason
WebhookClientConfig url*
[api.apps.v1]
DaemonSetCondition status:v1.ConditionStatus type:v1.DaemonSetConditionType
DaemonSetSpec revisionHistoryLimit*
DaemonSetStatus collisionCount*
DaemonSetUpdateStrategy type:v1.DaemonSetUpdateStrategyType
DeploymentCondition status:v1.ConditionStatus type:v1.DeploymentConditionType
DeploymentSpec progressDeadlineSeconds* replicas* revisionHistoryLimit*
DeploymentStatus collisionCount* terminatingReplicas*
DeploymentStrategy type:v1.DeploymentStrategyType
ReplicaSetCondition status:v1.ConditionStatus type:v1.ReplicaSetConditionType
ReplicaSetSpec replicas*
ReplicaSetStatus terminatingReplicas*
RollingUpdateStatefulSetStrategy partition*
StatefulSetCondition status:v1.ConditionStatus type:v1.StatefulSetConditionType
StatefulSetOrdinals start*
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:v1.PersistentVolumeClaimRetentionPolicyType
  whenScaled:v1.PersistentVolumeClaimRetentionPolicyType
StatefulSetSpec podManagementPolicy:v1.PodManagementPolicyType replicas* revisionHistoryLimit* serviceName*
StatefulSetStatus availableReplicas* collisionCount*
StatefulSetUpdateStrategy type:v1.StatefulSetUpdateStrategyType
[api.authentication.v1]
BoundObjectReference uid:types.UID
TokenRequestSpec audiences* expirationSeconds*
TokenRequestStatus token*
UserInfo extra:map[string]v1.ExtraValue
[api.authorization.v1]
SubjectAccessReviewSpec extra:map[string]v1.ExtraValue
[api.autoscaling.v1]
HorizontalPodAutoscalerSpec minReplicas* targetCPUUtilizationPercentage*
HorizontalPodAutoscalerStatus currentCPUUtilizationPercentage* observedGeneration*
[api.autoscaling.v2]
ContainerResourceMetricSource name:v1.ResourceName
ContainerResourceMetricStatus name:v1.ResourceName
HPAScalingPolicy type:v2.HPAScalingPolicyType
HPAScalingRules selectPolicy*:v2.ScalingPolicySelect stabilizationWindowSeconds*
HorizontalPodAutoscalerCondition status:v1.ConditionStatus type:v2.HorizontalPodAutoscalerConditionType
HorizontalPodAutoscalerSpec minReplicas*
HorizontalPodAutoscalerStatus currentMetrics* observedGeneration*
MetricSpec type:v2.MetricSourceType
MetricStatus type:v2.MetricSourceType
MetricTarget averageUtilization* type:v2.MetricTargetType
MetricValueStatus averageUtilization*
ResourceMetricSource name:v1.ResourceName
ResourceMetricStatus name:v1.ResourceName
[api.batch.v1]
CronJobSpec concurrencyPolicy:v1.ConcurrencyPolicy failedJobsHistoryLimit* startingDeadlineSeconds*
  successfulJobsHistoryLimit* suspend* timeZone*
JobCondition status:v1.ConditionStatus type:v1.JobConditionType
JobSpec activeDeadlineSeconds* backoffLimit* backoffLimitPerIndex* completionMode*:v1.CompletionMode completions*
  managedBy* manualSelector* maxFailedIndexes* parallelism* podReplacementPolicy*:v1.PodReplacementPolicy suspend*
  ttlSecondsAfterFinished*
JobStatus failedIndexes* ready* terminating*
PodFailurePolicyOnExitCodesRequirement containerName* operator:v1.PodFailurePolicyOnExitCodesOperator
PodFailurePolicyOnPodConditionsPattern status*:v1.ConditionStatus type:v1.PodConditionType
PodFailurePolicyRule action:v1.PodFailurePolicyAction
SuccessPolicyRule succeededCount* succeededIndexes*
UncountedTerminatedPods failed:[]types.UID succeeded:[]types.UID
[api.certificates.v1]
CertificateSigningRequestCondition status:v1.ConditionStatus type:v1.RequestConditionType
CertificateSigningRequestSpec expirationSeconds* extra:map[string]v1.ExtraValue usages:[]v1.KeyUsage
[api.coordination.v1]
LeaseSpec holderIdentity* leaseDurationSeconds* leaseTransitions* preferredHolder*
  strategy*:v1.CoordinatedLeaseStrategy
[api.core.v1]
AppArmorProfile localhostProfile* type:v1.AppArmorProfileType
AttachedVolume name:v1.UniqueVolumeName
AzureDiskVolumeSource cachingMode*:v1.AzureDataDiskCachingMode fsType* kind*:v1.AzureDataDiskKind readOnly*
AzureFilePersistentVolumeSource secretNamespace*
CSIVolumeSource fsType* readOnly*
Capabilities add:[]v1.Capability drop:[]v1.Capability
ClientIPConfig timeoutSeconds*
ClusterTrustBundleProjection name* optional* signerName*
ComponentCondition status:v1.ConditionStatus type:v1.ComponentConditionType
ConfigMap immutable*
ConfigMapEnvSource optional*
ConfigMapKeySelector optional*
ConfigMapNodeConfigSource uid:types.UID
ConfigMapProjection optional*
ConfigMapVolumeSource defaultMode* optional*
Container imagePullPolicy:v1.PullPolicy restartPolicy*:v1.ContainerRestartPolicy
  terminationMessagePolicy:v1.TerminationMessagePolicy
ContainerImage names*
ContainerPort protocol:v1.Protocol
ContainerResizePolicy resourceName:v1.ResourceName restartPolicy:v1.ResourceResizeRestartPolicy
ContainerRestartRule action:v1.ContainerRestartRuleAction
ContainerRestartRuleOnExitCodes operator:v1.ContainerRestartRuleOnExitCodesOperator
ContainerStatus allocatedResources:v1.ResourceList started* stopSignal*:v1.Signal
DownwardAPIVolumeFile mode*
DownwardAPIVolumeSource defaultMode*
EmptyDirVolumeSource medium:v1.StorageMedium
EndpointAddress nodeName*
EndpointPort appProtocol* protocol:v1.Protocol
EphemeralContainer imagePullPolicy:v1.PullPolicy restartPolicy*:v1.ContainerRestartPolicy
  terminationMessagePolicy:v1.TerminationMessagePolicy
Event reportingComponent* reportingInstance*
FCVolumeSource lun*
FileKeySelector optional*
GRPCAction service*
GlusterfsPersistentVolumeSource endpointsNamespace*
HTTPGetAction scheme:v1.URIScheme
HostPathVolumeSource type*:v1.HostPathType
ISCSIPersistentVolumeSource initiatorName*
ISCSIVolumeSource initiatorName*
ImageVolumeSource pullPolicy:v1.PullPolicy
KeyToPath mode*
Lifecycle stopSignal*:v1.Signal
LimitRangeItem default:v1.ResourceList defaultRequest:v1.ResourceList max:v1.ResourceList
  maxLimitRequestRatio:v1.ResourceList min:v1.ResourceList type:v1.LimitType
LoadBalancerIngress ipMode*:v1.LoadBalancerIPMode
LocalVolumeSource fsType*
ModifyVolumeStatus status:v1.PersistentVolumeClaimModifyVolumeStatus
NamespaceCondition status:v1.ConditionStatus type:v1.NamespaceConditionType
NamespaceSpec finalizers:[]v1.FinalizerName
NamespaceStatus phase:v1.NamespacePhase
NodeAddress type:v1.NodeAddressType
NodeAllocatableResourceClaimStatus resources:map[v1.ResourceName]resource.Quantity
NodeCondition status:v1.ConditionStatus type:v1.NodeConditionType
NodeFeatures supplementalGroupsPolicy*
NodeRuntimeHandler name*
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts* userNamespaces*
NodeSelectorRequirement operator:v1.NodeSelectorOperator
NodeStatus allocatable:v1.ResourceList capacity:v1.ResourceList phase:v1.NodePhase volumesInUse:[]v1.UniqueVolumeName
NodeSwapStatus capacity*
ObjectReference uid:types.UID
PersistentVolumeClaimCondition status:v1.ConditionStatus type:v1.PersistentVolumeClaimConditionType
PersistentVolumeClaimSpec accessModes:[]v1.PersistentVolumeAccessMode storageClassName* volumeAttributesClassName*
  volumeMode*:v1.PersistentVolumeMode
PersistentVolumeClaimStatus accessModes:[]v1.PersistentVolumeAccessMode
  allocatedResourceStatuses:map[v1.ResourceName]v1.ClaimResourceStatus allocatedResources:v1.ResourceList
  capacity:v1.ResourceList currentVolumeAttributesClassName* phase:v1.PersistentVolumeClaimPhase
PersistentVolumeSpec accessModes:[]v1.PersistentVolumeAccessMode capacity:v1.ResourceList
  persistentVolumeReclaimPolicy:v1.PersistentVolumeReclaimPolicy volumeAttributesClassName*
  volumeMode*:v1.PersistentVolumeMode
PersistentVolumeStatus phase:v1.PersistentVolumePhase
PodCertificateProjection maxExpirationSeconds*
PodCondition status:v1.ConditionStatus type:v1.PodConditionType
PodDNSConfigOption value*
PodOS name:v1.OSName
PodReadinessGate conditionType:v1.PodConditionType
PodResourceClaim resourceClaimName* resourceClaimTemplateName*
PodResourceClaimStatus resourceClaimName*
PodSchedulingGroup podGroupName*
PodSecurityContext fsGroup* fsGroupChangePolicy*:v1.PodFSGroupChangePolicy runAsGroup* runAsNonRoot* runAsUser*
  seLinuxChangePolicy*:v1.PodSELinuxChangePolicy supplementalGroupsPolicy*:v1.SupplementalGroupsPolicy
PodSpec activeDeadlineSeconds* automountServiceAccountToken* dnsPolicy:v1.DNSPolicy enableServiceLinks* hostUsers*
  hostnameOverride* overhead:v1.ResourceList preemptionPolicy*:v1.PreemptionPolicy priority*
  restartPolicy:v1.RestartPolicy runtimeClassName* setHostnameAsFQDN* shareProcessNamespace*
  terminationGracePeriodSeconds*
PodStatus allocatedResources:v1.ResourceList phase:v1.PodPhase qosClass:v1.PodQOSClass resize:v1.PodResizeStatus
PortStatus error* protocol:v1.Protocol
Probe terminationGracePeriodSeconds*
ProjectedVolumeSource defaultMode* sources*
ReplicationControllerCondition status:v1.ConditionStatus type:v1.ReplicationControllerConditionType
ReplicationControllerSpec replicas*
ResourceHealth health:v1.ResourceHealthStatus message* resourceID:v1.ResourceID
ResourceQuotaSpec hard:v1.ResourceList scopes:[]v1.ResourceQuotaScope
ResourceQuotaStatus hard:v1.ResourceList used:v1.ResourceList
ResourceRequirements limits:v1.ResourceList requests:v1.ResourceList
ResourceStatus name:v1.ResourceName
ScopedResourceSelectorRequirement operator:v1.ScopeSelectorOperator scopeName:v1.ResourceQuotaScope
SeccompProfile localhostProfile* type:v1.SeccompProfileType
Secret immutable* type:v1.SecretType
SecretEnvSource optional*
SecretKeySelector optional*
SecretProjection optional*
SecretVolumeSource defaultMode* optional*
SecurityContext allowPrivilegeEscalation* privileged* procMount*:v1.ProcMountType readOnlyRootFilesystem* runAsGroup*
  runAsNonRoot* runAsUser*
ServiceAccount automountServiceAccountToken*
ServiceAccountTokenProjection expirationSeconds*
ServicePort appProtocol* protocol:v1.Protocol
ServiceSpec allocateLoadBalancerNodePorts* externalTrafficPolicy:v1.ServiceExternalTrafficPolicy
  internalTrafficPolicy*:v1.ServiceInternalTrafficPolicy ipFamilies:[]v1.IPFamily ipFamilyPolicy*:v1.IPFamilyPolicy
  loadBalancerClass* sessionAffinity:v1.ServiceAffinity trafficDistribution* type:v1.ServiceType
Taint effect:v1.TaintEffect
Toleration effect:v1.TaintEffect operator:v1.TolerationOperator tolerationSeconds*
TopologySpreadConstraint minDomains* nodeAffinityPolicy*:v1.NodeInclusionPolicy
  nodeTaintsPolicy*:v1.NodeInclusionPolicy whenUnsatisfiable:v1.UnsatisfiableConstraintAction
TypedLocalObjectReference apiGroup*
TypedObjectReference apiGroup* namespace*
VolumeMount mountPropagation*:v1.MountPropagationMode recursiveReadOnly*:v1.RecursiveReadOnlyMode
VolumeMountStatus recursiveReadOnly*:v1.RecursiveReadOnlyMode
VolumeResourceRequirements limits:v1.ResourceList requests:v1.ResourceList
WindowsSecurityContextOptions gmsaCredentialSpec* gmsaCredentialSpecName* hostProcess* runAsUserName*
[api.discovery.v1]
Endpoint hostname* nodeName* zone*
EndpointConditions ready* serving* terminating*
EndpointPort appProtocol* name* port* protocol*:v1.Protocol
EndpointSlice addressType:v1.AddressType endpoints* ports*
[api.flowcontrol.v1]
ExemptPriorityLevelConfiguration lendablePercent* nominalConcurrencyShares*
FlowDistinguisherMethod type:v1.FlowDistinguisherMethodType
FlowSchemaCondition status:v1.ConditionStatus type:v1.FlowSchemaConditionType
FlowSchemaSpec matchingPrecedence*
LimitResponse type:v1.LimitResponseType
LimitedPriorityLevelConfiguration borrowingLimitPercent* lendablePercent* nominalConcurrencyShares*
PriorityLevelConfigurationCondition status:v1.ConditionStatus type:v1.PriorityLevelConfigurationConditionType
PriorityLevelConfigurationSpec type:v1.PriorityLevelEnablement
QueuingConfiguration handSize* queueLengthLimit* queues*
ResourcePolicyRule namespaces*
Subject kind:v1.SubjectKind
[api.networking.v1]
HTTPIngressPath pathType:v1.PathType
IngressClassParametersReference apiGroup* namespace* scope*
IngressPortStatus error* protocol:v1.Protocol
IngressSpec ingressClassName*
NetworkPolicyPort endPort* protocol*:v1.Protocol
NetworkPolicySpec policyTypes:[]v1.PolicyType
[api.node.v1]
Overhead podFixed:v1.ResourceList
[api.policy.v1]
PodDisruptionBudgetSpec unhealthyPodEvictionPolicy*:v1.UnhealthyPodEvictionPolicyType
PodDisruptionBudgetStatus currentHealthy* desiredHealthy* disruptionsAllowed* expectedPods*
[api.rbac.v1]
ClusterRole rules*
Role rules*
RoleRef apiGroup*
[api.resource.v1]
AllocatedDeviceStatus conditions* shareID*
CapacityRequirements requests:map[v1.QualifiedName]resource.Quantity
Device allNodes* allowMultipleAllocations* attributes:map[v1.QualifiedName]v1.DeviceAttribute bindsToNode*
  capacity:map[v1.QualifiedName]v1.DeviceCapacity
  nodeAllocatableResourceMappings:map[v1.ResourceName]v1.NodeAllocatableResourceMapping nodeName*
DeviceAllocationConfiguration source:v1.AllocationConfigSource
DeviceAttribute bool* int* string* version*
DeviceClaim requests*
DeviceClassSpec extendedResourceName*
DeviceConstraint distinctAttribute*:v1.FullyQualifiedName matchAttribute*:v1.FullyQualifiedName
DeviceRequestAllocationResult adminAccess* consumedCapacity:map[v1.QualifiedName]resource.Quantity shareID*:types.UID
DeviceSubRequest allocationMode:v1.DeviceAllocationMode
DeviceTaint effect:v1.DeviceTaintEffect
DeviceToleration effect:v1.DeviceTaintEffect operator:v1.DeviceTolerationOperator tolerationSeconds*
ExactDeviceRequest adminAccess* allocationMode:v1.DeviceAllocationMode
NodeAllocatableResourceMapping capacityKey*:v1.QualifiedName
ResourceClaimConsumerReference uid:types.UID
ResourceSliceSpec allNodes* nodeName* perDeviceNodeSelection*
[api.scheduling.v1]
PriorityClass preemptionPolicy*:v1.PreemptionPolicy value*
[api.storage.v1]
CSIDriverSpec attachRequired* fsGroupPolicy*:v1.FSGroupPolicy nodeAllocatableUpdatePeriodSeconds* podInfoOnMount*
  preventPodSchedulingIfMissing* requiresRepublish* seLinuxMount* serviceAccountTokenInSecrets* storageCapacity*
  volumeLifecycleModes:[]v1.VolumeLifecycleMode
CSINodeDriver topologyKeys*
StorageClass allowVolumeExpansion* reclaimPolicy*:v1.PersistentVolumeReclaimPolicy
  volumeBindingMode*:v1.VolumeBindingMode
TokenRequest expirationSeconds*
VolumeAttachmentSource persistentVolumeName*
VolumeError errorCode*
VolumeNodeResources count*
[apiextensions-apiserver.pkg.apis.apiextensions.v1]
CustomResourceConversion strategy:v1.ConversionStrategyType
CustomResourceDefinitionCondition status:v1.ConditionStatus type:v1.CustomResourceDefinitionConditionType
CustomResourceDefinitionSpec scope:v1.ResourceScope
CustomResourceDefinitionStatus conditions* storedVersions*
CustomResourceDefinitionVersion deprecationWarning*
CustomResourceSubresourceScale labelSelectorPath*
JSONSchemaProps $ref* $schema:v1.JSONSchemaURL definitions:v1.JSONSchemaDefinitions
  dependencies:v1.JSONSchemaDependencies maxItems* maxLength* maxProperties* maximum* minItems* minLength*
  minProperties* minimum* multipleOf* x-kubernetes-list-type* x-kubernetes-map-type*
  x-kubernetes-preserve-unknown-fields* x-kubernetes-validations:v1.ValidationRules
ServiceReference path* port*
ValidationRule optionalOldSelf* reason*:v1.FieldValueErrorReason
WebhookClientConfig url*
[apimachinery.pkg.apis.meta.v1]
APIResource verbs:v1.Verbs
Condition status:v1.ConditionStatus
DeleteOptions gracePeriodSeconds* ignoreStoreReadErrorWithClusterBreakingPotential* orphanDependents*
  propagationPolicy*:v1.DeletionPropagation
FieldSelectorRequirement operator:v1.FieldSelectorOperator
LabelSelectorRequirement operator:v1.LabelSelectorOperator
ListMeta remainingItemCount*
ManagedFieldsEntry operation:v1.ManagedFieldsOperationType
ObjectMeta deletionGracePeriodSeconds* uid:types.UID
OwnerReference blockOwnerDeletion* controller* uid:types.UID
Preconditions resourceVersion* uid*:types.UID
Status reason:v1.StatusReason
StatusCause reason:v1.CauseType
StatusDetails uid:types.UID
[kube-aggregator.pkg.apis.apiregistration.v1]
APIServiceCondition status:v1.ConditionStatus type:v1.APIServiceConditionType
ServiceReference port*
"""
"""Fields by definition, `field*:type`. Star: zero is a value of its own and is kept. Type: its name, if it has one."""

EMBEDDED = """\
[api.admissionregistration.v1]
NamedRuleWithOperations RuleWithOperations.Rule apiGroups apiVersions resources scope
NamedRuleWithOperations RuleWithOperations operations
RuleWithOperations Rule apiGroups apiVersions resources scope
[api.core.v1]
ConfigMapEnvSource LocalObjectReference name
ConfigMapKeySelector LocalObjectReference name
ConfigMapProjection LocalObjectReference name
ConfigMapVolumeSource LocalObjectReference name
EphemeralContainer EphemeralContainerCommon args command env envFrom image imagePullPolicy lifecycle livenessProbe
  name ports readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin
  stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir
PersistentVolumeSpec PersistentVolumeSource awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume
  flocker gcePersistentDisk glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO
  storageos vsphereVolume
Probe ProbeHandler exec grpc httpGet tcpSocket
SecretEnvSource LocalObjectReference name
SecretKeySelector LocalObjectReference name
SecretProjection LocalObjectReference name
Volume VolumeSource awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir
  ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs persistentVolumeClaim
  photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume
[api.networking.v1]
IngressRule IngressRuleValue http
[api.resource.v1]
DeviceAllocationConfiguration DeviceConfiguration opaque
DeviceClaimConfiguration DeviceConfiguration opaque
DeviceClassConfiguration DeviceConfiguration opaque
"""
"""Embedded structs: the definition, the name of the struct it embeds, and the fields that come from there."""

ENUMS = """\
[api.admissionregistration.v1]
FailurePolicyType Fail Ignore
MatchPolicyType Equivalent Exact
OperationType * CONNECT CREATE DELETE UPDATE
PatchType ApplyConfiguration JSONPatch
ReinvocationPolicyType IfNeeded Never
ScopeType * Cluster Namespaced
SideEffectClass None NoneOnDryRun Some Unknown
ValidationAction Audit Deny Warn
[api.apps.v1]
DaemonSetUpdateStrategyType OnDelete RollingUpdate
DeploymentStrategyType Recreate RollingUpdate
PodManagementPolicyType OrderedReady Parallel
StatefulSetUpdateStrategyType OnDelete RollingUpdate
[api.batch.v1]
CompletionMode Indexed NonIndexed
ConcurrencyPolicy Allow Forbid Replace
PodFailurePolicyAction Count FailIndex FailJob Ignore
PodFailurePolicyOnExitCodesOperator In NotIn
PodReplacementPolicy Failed TerminatingOrFailed
[api.core.v1]
AppArmorProfileType Localhost RuntimeDefault Unconfined
AzureDataDiskCachingMode None ReadOnly ReadWrite
AzureDataDiskKind Dedicated Managed Shared
ClaimResourceStatus ControllerResizeInProgress ControllerResizeInfeasible NodeResizeInProgress NodeResizeInfeasible
  NodeResizePending
DNSPolicy ClusterFirst ClusterFirstWithHostNet Default None
HostPathType BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket
IPFamily IPv4 IPv6
IPFamilyPolicy PreferDualStack RequireDualStack SingleStack
MountPropagationMode Bidirectional HostToContainer None
NamespacePhase Active Terminating
NodeInclusionPolicy Honor Ignore
NodePhase Pending Running Terminated
NodeSelectorOperator DoesNotExist Exists Gt In Lt NotIn
PersistentVolumeAccessMode ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
PersistentVolumeClaimModifyVolumeStatus InProgress Infeasible Pending
PersistentVolumeClaimPhase Bound Lost Pending
PersistentVolumeMode Block Filesystem
PersistentVolumePhase Available Bound Failed Pending Released
PersistentVolumeReclaimPolicy Delete Recycle Retain
PodFSGroupChangePolicy Always OnRootMismatch
PodPhase Failed Pending Running Succeeded Unknown
PodQOSClass BestEffort Burstable Guaranteed
PreemptionPolicy Never PreemptLowerPriority
ProcMountType Default Unmasked
Protocol SCTP TCP UDP
PullPolicy Always IfNotPresent Never
ResourceQuotaScope BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass Terminating
  VolumeAttributesClass
RestartPolicy Always Never OnFailure
ScopeSelectorOperator DoesNotExist Exists In NotIn
SeccompProfileType Localhost RuntimeDefault Unconfined
ServiceAffinity ClientIP None
ServiceExternalTrafficPolicy Cluster Local
ServiceInternalTrafficPolicy Cluster Local
ServiceType ClusterIP ExternalName LoadBalancer NodePort
SupplementalGroupsPolicy Merge Strict
TaintEffect NoExecute NoSchedule PreferNoSchedule
TerminationMessagePolicy FallbackToLogsOnError File
TolerationOperator Equal Exists Gt Lt
URIScheme HTTP HTTPS
UnsatisfiableConstraintAction DoNotSchedule ScheduleAnyway
[api.discovery.v1]
AddressType FQDN IPv4 IPv6
[api.networking.v1]
PathType Exact ImplementationSpecific Prefix
PolicyType Egress Ingress
[api.policy.v1]
UnhealthyPodEvictionPolicyType AlwaysAllow IfHealthyBudget
[api.resource.v1]
AllocationConfigSource FromClaim FromClass
DeviceAllocationMode All ExactCount
DeviceTaintEffect NoExecute NoSchedule None
DeviceTolerationOperator Equal Exists
[api.storage.v1]
VolumeBindingMode Immediate WaitForFirstConsumer
[apiextensions-apiserver.pkg.apis.apiextensions.v1]
FieldValueErrorReason FieldValueDuplicate FieldValueForbidden FieldValueInvalid FieldValueRequired
"""
"""Named string types with a closed set of values."""


class FieldFacts(NamedTuple):
    """The facts about one field beyond its definition."""

    keeps_zero: bool = False
    go_type: str = ""
    embedded: str = ""


def field_facts() -> dict[str, dict[str, FieldFacts]]:
    """Facts by package-qualified definition, then field."""
    facts: dict[str, dict[str, FieldFacts]] = {}
    for definition, words in _entries(FIELDS):
        for word in words:
            name, _, go_type = word.partition(":")
            facts.setdefault(definition, {})[name.rstrip("*")] = FieldFacts(name.endswith("*"), go_type)
    for definition, (embedded, *names) in _entries(EMBEDDED):
        fields = facts.setdefault(definition, {})
        for name in names:
            fields[name] = fields.get(name, FieldFacts())._replace(embedded=embedded)
    return facts


def enum_values() -> dict[str, list[str]]:
    """The values of each named type, by package-qualified name."""
    return dict(_entries(ENUMS))


def _entries(table: str) -> list[tuple[str, list[str]]]:
    """The logical lines of a table: `[package]` opens a section, an indented line continues the one before."""
    package = ""
    entries: list[tuple[str, list[str]]] = []
    for line in table.splitlines():
        if line.startswith("["):
            package = line.strip("[]")
        elif line.startswith(" "):
            entries[-1][1].extend(line.split())
        else:
            name, *words = line.split()
            entries.append((f"{package}.{name}", words))
    return entries
