"""The table of built-in resources: one line each, as `kubectl api-resources` would print them.

Group order is discovery order (it decides which `events` a short name means). What a kind *does* is in `kinds/`;
what it looks like is in the generated schemas; this file only says what is served.
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.registry.resource import ALL_VERBS, STATUS_VERBS, Subresource

WITHOUT_COLLECTION_DELETE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
PROXY_VERBS = ("create", "delete", "get", "patch", "update")
CREATE = ("create",)


class Row(NamedTuple):
    """One resource of a group version. `stored` is False for what is computed or only created."""

    resource: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    stored: bool = True
    singular: str = ""
    deprecation: str = ""


class Group(NamedTuple):
    """A group version and its resources, in alphabetical order. `hub` names the group version that stores them."""

    group: str
    version: str
    rows: tuple[Row, ...]
    hub: tuple[str, str] | None = None


def _namespaced(resource: str, kind: str, *short: str, **more: object) -> Row:
    return Row(resource, kind, True, short, **more)  # type: ignore[arg-type]


def _cluster(resource: str, kind: str, *short: str, **more: object) -> Row:
    return Row(resource, kind, False, short, **more)  # type: ignore[arg-type]


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, STATUS_VERBS)


_SCALE = Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)

_DEFINITIONS = _cluster(
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd",
    "crds",
    categories=_EXTENSIONS,
    subresources=(_status("CustomResourceDefinition"),),
)
_OLD_DEFINITIONS = _DEFINITIONS._replace(
    deprecation="apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+; "
    "use apiextensions.k8s.io/v1 CustomResourceDefinition"
)

_CORE = (
    _namespaced("bindings", "Binding", verbs=CREATE, stored=False),
    _cluster(
        "componentstatuses",
        "ComponentStatus",
        "cs",
        verbs=("get", "list"),
        stored=False,
        singular="componentstatus",
        deprecation="v1 ComponentStatus is deprecated in v1.19+",
    ),
    _namespaced("configmaps", "ConfigMap", "cm"),
    _namespaced(
        "endpoints",
        "Endpoints",
        "ep",
        singular="endpoints",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    _namespaced("events", "Event", "ev"),
    _namespaced("limitranges", "LimitRange", "limits"),
    _cluster(
        "namespaces",
        "Namespace",
        "ns",
        verbs=WITHOUT_COLLECTION_DELETE,
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    ),
    _cluster(
        "nodes", "Node", "no", subresources=(Subresource("proxy", "NodeProxyOptions", PROXY_VERBS), _status("Node"))
    ),
    _namespaced(
        "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=(_status("PersistentVolumeClaim"),)
    ),
    _cluster("persistentvolumes", "PersistentVolume", "pv", subresources=(_status("PersistentVolume"),)),
    _namespaced(
        "pods",
        "Pod",
        "po",
        categories=_ALL,
        subresources=(
            Subresource("attach", "PodAttachOptions", ("create", "get")),
            Subresource("binding", "Binding", CREATE),
            Subresource("ephemeralcontainers", "Pod", STATUS_VERBS),
            Subresource("eviction", "Eviction", CREATE, "policy", "v1"),
            Subresource("exec", "PodExecOptions", ("create", "get")),
            Subresource("log", "Pod", ("get",)),
            Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
            Subresource("proxy", "PodProxyOptions", PROXY_VERBS),
            Subresource("resize", "Pod", STATUS_VERBS),
            _status("Pod"),
        ),
    ),
    _namespaced("podtemplates", "PodTemplate"),
    _namespaced(
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=_ALL,
        subresources=(_SCALE, _status("ReplicationController")),
    ),
    _namespaced("resourcequotas", "ResourceQuota", "quota", subresources=(_status("ResourceQuota"),)),
    _namespaced("secrets", "Secret"),
    _namespaced(
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        subresources=(Subresource("token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"),),
    ),
    _namespaced(
        "services",
        "Service",
        "svc",
        categories=_ALL,
        subresources=(Subresource("proxy", "ServiceProxyOptions", PROXY_VERBS), _status("Service")),
    ),
)

_APPS = (
    _namespaced("controllerrevisions", "ControllerRevision"),
    _namespaced("daemonsets", "DaemonSet", "ds", categories=_ALL, subresources=(_status("DaemonSet"),)),
    _namespaced("deployments", "Deployment", "deploy", categories=_ALL, subresources=(_SCALE, _status("Deployment"))),
    _namespaced("replicasets", "ReplicaSet", "rs", categories=_ALL, subresources=(_SCALE, _status("ReplicaSet"))),
    _namespaced("statefulsets", "StatefulSet", "sts", categories=_ALL, subresources=(_SCALE, _status("StatefulSet"))),
)

_AUTOSCALER = _namespaced(
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    "hpa",
    categories=_ALL,
    subresources=(_status("HorizontalPodAutoscaler"),),
)

GROUPS: tuple[Group, ...] = (
    Group("", "v1", _CORE),
    Group(
        "apiregistration.k8s.io",
        "v1",
        (_cluster("apiservices", "APIService", categories=_EXTENSIONS, subresources=(_status("APIService"),)),),
    ),
    Group("apps", "v1", _APPS),
    Group("events.k8s.io", "v1", (_namespaced("events", "Event", "ev"),), hub=("", "v1")),
    Group(
        "authentication.k8s.io",
        "v1",
        (
            _cluster("selfsubjectreviews", "SelfSubjectReview", verbs=CREATE, stored=False),
            _cluster("tokenreviews", "TokenReview", verbs=CREATE, stored=False),
        ),
    ),
    Group(
        "authorization.k8s.io",
        "v1",
        (
            _namespaced("localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE, stored=False),
            _cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview", verbs=CREATE, stored=False),
            _cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview", verbs=CREATE, stored=False),
            _cluster("subjectaccessreviews", "SubjectAccessReview", verbs=CREATE, stored=False),
        ),
    ),
    Group("autoscaling", "v2", (_AUTOSCALER,)),
    Group("autoscaling", "v1", (_AUTOSCALER,), hub=("autoscaling", "v2")),
    Group(
        "batch",
        "v1",
        (
            _namespaced("cronjobs", "CronJob", "cj", categories=_ALL, subresources=(_status("CronJob"),)),
            _namespaced("jobs", "Job", categories=_ALL, subresources=(_status("Job"),)),
        ),
    ),
    Group(
        "certificates.k8s.io",
        "v1",
        (
            _cluster(
                "certificatesigningrequests",
                "CertificateSigningRequest",
                "csr",
                subresources=(
                    Subresource("approval", "CertificateSigningRequest", STATUS_VERBS),
                    _status("CertificateSigningRequest"),
                ),
            ),
        ),
    ),
    Group(
        "networking.k8s.io",
        "v1",
        (
            _cluster("ingressclasses", "IngressClass"),
            _namespaced("ingresses", "Ingress", "ing", subresources=(_status("Ingress"),)),
            _cluster("ipaddresses", "IPAddress", "ip"),
            _namespaced("networkpolicies", "NetworkPolicy", "netpol"),
            _cluster("servicecidrs", "ServiceCIDR", subresources=(_status("ServiceCIDR"),)),
        ),
    ),
    Group(
        "policy",
        "v1",
        (
            _namespaced(
                "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=(_status("PodDisruptionBudget"),)
            ),
        ),
    ),
    Group(
        "rbac.authorization.k8s.io",
        "v1",
        (
            _cluster("clusterrolebindings", "ClusterRoleBinding"),
            _cluster("clusterroles", "ClusterRole"),
            _namespaced("rolebindings", "RoleBinding"),
            _namespaced("roles", "Role"),
        ),
    ),
    Group(
        "storage.k8s.io",
        "v1",
        (
            _cluster("csidrivers", "CSIDriver"),
            _cluster("csinodes", "CSINode"),
            _namespaced("csistoragecapacities", "CSIStorageCapacity", singular="csistoragecapacity"),
            _cluster("storageclasses", "StorageClass", "sc"),
            _cluster("volumeattachments", "VolumeAttachment", subresources=(_status("VolumeAttachment"),)),
            _cluster("volumeattributesclasses", "VolumeAttributesClass", "vac"),
        ),
    ),
    Group(
        "admissionregistration.k8s.io",
        "v1",
        (
            _cluster("mutatingadmissionpolicies", "MutatingAdmissionPolicy", categories=_EXTENSIONS),
            _cluster("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", categories=_EXTENSIONS),
            _cluster("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", categories=_EXTENSIONS),
            _cluster(
                "validatingadmissionpolicies",
                "ValidatingAdmissionPolicy",
                categories=_EXTENSIONS,
                subresources=(_status("ValidatingAdmissionPolicy"),),
            ),
            _cluster("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", categories=_EXTENSIONS),
            _cluster("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", categories=_EXTENSIONS),
        ),
    ),
    Group("apiextensions.k8s.io", "v1", (_DEFINITIONS,)),
    Group("apiextensions.k8s.io", "v1beta1", (_OLD_DEFINITIONS,), hub=("apiextensions.k8s.io", "v1")),
    Group("scheduling.k8s.io", "v1", (_cluster("priorityclasses", "PriorityClass", "pc"),)),
    Group("coordination.k8s.io", "v1", (_namespaced("leases", "Lease"),)),
    Group("node.k8s.io", "v1", (_cluster("runtimeclasses", "RuntimeClass"),)),
    Group("discovery.k8s.io", "v1", (_namespaced("endpointslices", "EndpointSlice"),)),
    Group(
        "resource.k8s.io",
        "v1",
        (
            _cluster("deviceclasses", "DeviceClass"),
            _namespaced("resourceclaims", "ResourceClaim", subresources=(_status("ResourceClaim"),)),
            _namespaced("resourceclaimtemplates", "ResourceClaimTemplate"),
            _cluster("resourceslices", "ResourceSlice"),
        ),
    ),
    Group(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        (
            _cluster("flowschemas", "FlowSchema", subresources=(_status("FlowSchema"),)),
            _cluster(
                "prioritylevelconfigurations",
                "PriorityLevelConfiguration",
                subresources=(_status("PriorityLevelConfiguration"),),
            ),
        ),
    ),
)
