"""The flags of every built-in kind equal those of kube-apiserver."""

from __future__ import annotations

import copy

import pytest
from every_route import STORED
from kind_support import NOW, all_strategies, created, updated
from valid_objects import valid

from kapi.api.limits import OBJECT_BYTES
from kapi.registry.request import Write
from kapi.registry.strategy import Strategy

STRATEGIES = all_strategies()
RESOURCES = [one for one in STORED if one.version == one.store.gvk.version]

# u: refuses an update without resourceVersion, c: PUT creates, g: has a generation, s: has /status,
# d: a final delete answers with the object, m: /status keeps all metadata
FLAGS = {
    ("", "ConfigMap"): "",
    ("", "Endpoints"): "c",
    ("", "Event"): "c",
    ("", "LimitRange"): "c",
    ("", "Namespace"): "sd",
    ("", "Node"): "s",
    ("", "PersistentVolume"): "sd",
    ("", "PersistentVolumeClaim"): "sd",
    ("", "Pod"): "gsd",
    ("", "PodTemplate"): "gd",
    ("", "ReplicationController"): "gs",
    ("", "ResourceQuota"): "sd",
    ("", "Secret"): "",
    ("", "Service"): "csd",
    ("", "ServiceAccount"): "d",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "ug",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): "ug",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "ug",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): "ugsm",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): "ug",
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): "ug",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "ugs",
    ("apiregistration.k8s.io", "APIService"): "usm",
    ("apps", "ControllerRevision"): "",
    ("apps", "DaemonSet"): "gs",
    ("apps", "Deployment"): "gs",
    ("apps", "ReplicaSet"): "gs",
    ("apps", "StatefulSet"): "gs",
    ("autoscaling", "HorizontalPodAutoscaler"): "s",
    ("batch", "CronJob"): "gs",
    ("batch", "Job"): "gs",
    ("certificates.k8s.io", "CertificateSigningRequest"): "s",
    ("coordination.k8s.io", "Lease"): "uc",
    ("discovery.k8s.io", "EndpointSlice"): "g",
    ("events.k8s.io", "Event"): "c",
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): "gsm",
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): "gsm",
    ("networking.k8s.io", "IPAddress"): "",
    ("networking.k8s.io", "Ingress"): "gs",
    ("networking.k8s.io", "IngressClass"): "g",
    ("networking.k8s.io", "NetworkPolicy"): "g",
    ("networking.k8s.io", "ServiceCIDR"): "sm",
    ("node.k8s.io", "RuntimeClass"): "uc",
    ("policy", "PodDisruptionBudget"): "ugs",
    ("rbac.authorization.k8s.io", "ClusterRole"): "c",
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): "c",
    ("rbac.authorization.k8s.io", "Role"): "c",
    ("rbac.authorization.k8s.io", "RoleBinding"): "c",
    ("resource.k8s.io", "DeviceClass"): "gd",
    ("resource.k8s.io", "ResourceClaim"): "sdm",
    ("resource.k8s.io", "ResourceClaimTemplate"): "d",
    ("resource.k8s.io", "ResourceSlice"): "gd",
    ("scheduling.k8s.io", "PriorityClass"): "g",
    ("storage.k8s.io", "CSIDriver"): "ud",
    ("storage.k8s.io", "CSINode"): "ud",
    ("storage.k8s.io", "CSIStorageCapacity"): "u",
    ("storage.k8s.io", "StorageClass"): "d",
    ("storage.k8s.io", "VolumeAttachment"): "usdm",
    ("storage.k8s.io", "VolumeAttributesClass"): "d",
}


PROPAGATION = {"Event": "Unsupported", "Job": "Orphan", "ReplicationController": "Orphan"}


def test_every_kind_is_accounted_for():
    assert set(STRATEGIES) == set(FLAGS)


@pytest.mark.parametrize("kind", sorted(FLAGS), ids=lambda kind: kind[1])
def test_flags(kind):
    strategy = STRATEGIES[kind]
    found = {
        "u": not strategy.allow_unconditional_update,
        "c": strategy.allow_create_on_update,
        "g": strategy.tracks_generation,
        "s": strategy.has_status,
        "d": strategy.returns_deleted_object,
        "m": strategy.resets_metadata_on_status,
    }
    assert "".join(letter for letter, is_set in found.items() if is_set) == "".join(
        letter for letter in found if letter in FLAGS[kind]
    )
    assert strategy.resets_labels_on_status == (kind[1] == "Deployment")
    assert strategy.default_propagation == PROPAGATION.get(kind[1], "Background")


@pytest.mark.parametrize("kind", sorted(FLAGS), ids=lambda kind: kind[1])
def test_selectable_fields_have_the_declared_names(kind):
    strategy = STRATEGIES[kind]
    values = strategy.selectable({"metadata": {"name": "a"}})
    assert set(values) == set(strategy.selectable_fields)
    assert all(isinstance(value, str) for value in values.values())


@pytest.mark.parametrize("kind", sorted(FLAGS), ids=lambda kind: kind[1])
def test_hooks_survive_an_empty_object(kind):

    strategy = STRATEGIES[kind]
    obj, _ = created(strategy, {"metadata": {"name": "a", "namespace": "default"}})
    updated(strategy, {"metadata": {"name": "a", "namespace": "default"}}, obj)
    strategy.warnings(obj, None)
    strategy.warnings(obj, obj)


@pytest.mark.parametrize("key", STRATEGIES, ids="/".join)
def test_a_kind_is_validated_by_its_own_rules_or_else_by_its_schema(key):
    strategy = STRATEGIES[key]
    has_rules = type(strategy).validate_create is not Strategy.validate_create
    assert strategy.validates_by_schema is not has_rules


class Unreadable:
    """A Lookup that must not be read."""

    def get(self, resource, namespace, name):
        raise AssertionError(f"{resource} was read")

    def list(self, resource, namespace="", *, ending=""):
        raise AssertionError(f"{resource} was read")


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.group}/{one.kind}")
def test_a_kind_that_is_validated_in_a_thread_reads_no_other_objects(resource):
    """The watch caches belong to the event loop."""
    strategy = resource.store.strategy
    if strategy.validates_off_loop_from > OBJECT_BYTES:
        assert resource.kind in {"PriorityClass", "Service"}
        return
    write = Write("CREATE", resource, lookup=Unreadable(), now=NOW)
    obj = copy.deepcopy(valid(resource))
    obj["metadata"].setdefault("namespace", "default")
    strategy.default(obj)
    strategy.validate_create(write, obj)
    strategy.validate_update(write, obj, copy.deepcopy(obj))
    strategy.validate_status(write, obj, copy.deepcopy(obj))
    strategy.warnings(obj, None)
