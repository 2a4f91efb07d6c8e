"""Annotations of Pods that name AppArmor and seccomp profiles."""

import pytest

from kapi.registry.kinds.core.pod.profiles import copy_app_armor_profiles
from kapi.registry.kinds.core.pod.warnings import pod_warnings

APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
WARNING = f'metadata.annotations[{APP_ARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def annotated(value, context=None, **spec):
    container = {"name": "c", **({} if context is None else {"securityContext": context})}
    return {"metadata": {"annotations": {APP_ARMOR: value}}, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("value", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/p", {"type": "Localhost", "localhostProfile": "p"}),
    ],
)
def test_an_app_armor_annotation_is_copied_to_the_field(value, profile):
    pod = annotated(value, {"runAsUser": 1})
    assert copy_app_armor_profiles(pod) == [WARNING]
    assert pod["spec"]["containers"] == [{"name": "c", "securityContext": {"runAsUser": 1, "appArmorProfile": profile}}]


@pytest.mark.parametrize("value", ["", "other", "localhost/", "localhost/ padded"])
def test_an_app_armor_annotation_that_is_not_valid_is_warned_about_and_not_copied(value):
    pod = annotated(value)
    assert copy_app_armor_profiles(pod) == [WARNING]
    assert pod["spec"]["containers"] == [{"name": "c"}]


def test_the_profile_of_the_pod_or_of_the_container_comes_first():
    profile = {"appArmorProfile": {"type": "Unconfined"}}
    for pod in (annotated("unconfined", securityContext=profile), annotated("runtime/default", dict(profile))):
        assert copy_app_armor_profiles(pod) == []
    windows = annotated("unconfined", os={"name": "windows"})
    assert copy_app_armor_profiles(windows) == []


def test_seccomp_annotations_are_warned_about_where_no_field_is_set():
    annotations = {
        "seccomp.security.alpha.kubernetes.io/pod": "x",
        "container.seccomp.security.alpha.kubernetes.io/c": "x",
    }
    spec = {"containers": [{"name": "c"}]}
    use = 'non-functional in v1.27+; use the "seccompProfile" field instead'
    assert pod_warnings("", {"annotations": annotations}, spec) == [
        f"metadata.annotations[{key}]: {use}" for key in annotations
    ]
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"containers": [{"name": "c", "securityContext": profile}], "securityContext": profile}
    assert pod_warnings("", {"annotations": annotations}, spec) == []
    template = pod_warnings("spec.template.", {"annotations": {APP_ARMOR: "unconfined"}}, spec)
    assert template == [f"spec.template.{WARNING}"]
