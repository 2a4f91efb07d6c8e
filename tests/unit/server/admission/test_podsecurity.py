"""PodSecurity on a server: refusals, warnings, audit annotations, namespaces and their Pods, exemptions, metrics."""

import pytest

from api_client import NO_ACCOUNTS, NS, PODS, deployment, pod, served, serving
from kapi.base.clock import ManualClock
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.registry.request import CREATE, UPDATE, Write
from kapi.server.admission.podsecurity import existingpods
from kapi.server.admission.podsecurity.configuration import PodSecurityConfiguration, configuration_errors
from kapi.server.admission.podsecurity.existingpods import ExistingPods
from kapi.server.admission.podsecurity.levels import BASELINE, LevelVersion
from kapi.server.configfile import ConfigFileError
from virtual_time import run

PREFIX = "pod-security.kubernetes.io/"
RESTRICTED = (
    'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)


def namespace(name="n", **labels):
    found = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": found}}


def configured(tmp_path, configuration):
    """Options with a PodSecurityConfiguration."""
    path = tmp_path / "admission.yaml"
    lines = [f"      {line}" for line in configuration.strip("\n").splitlines()]
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n"
        "  configuration:\n"
        "      apiVersion: pod-security.admission.config.k8s.io/v1\n      kind: PodSecurityConfiguration\n"
        + "\n".join(lines)
    )
    return AdmissionOptions(disabled=NO_ACCOUNTS.disabled, config_file=path)


@served
async def test_a_pod_that_violates_the_enforced_level_is_refused(api):
    await api.made(NS, namespace(enforce="restricted"))
    answer = await api.post(f"{NS}/n/pods", pod())
    why = f'violates PodSecurity "restricted:latest": {RESTRICTED}'
    assert answer.error == (403, "Forbidden", f'pods "p" is forbidden: {why}')
    assert answer["details"] == {"name": "p", "kind": "pods"}
    assert answer.warnings == []


@served
async def test_a_refused_pod_is_named_by_its_generated_name(api):
    await api.made(NS, namespace(enforce="baseline"))
    wanted = pod(hostPID=True)
    wanted["metadata"] = {"generateName": "p-"}
    answer = await api.post(f"{NS}/n/pods", wanted)
    name = answer["details"]["name"]
    assert name.startswith("p-")
    assert len(name) == len("p-") + 5
    why = 'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert answer.message == f'pods "{name}" is forbidden: {why}'


@served
async def test_a_pod_that_violates_the_warned_level_is_created_with_a_warning(api):
    await api.made(NS, namespace(enforce="baseline", warn="restricted", warn_version="v1.36"))
    answer = await api.post(f"{NS}/n/pods", pod())
    assert answer.status == 201
    assert answer.warnings == [f'would violate PodSecurity "restricted:v1.36": {RESTRICTED}']


@served
async def test_workloads_are_warned_about_and_never_refused(api):
    await api.made(NS, namespace(enforce="restricted"))
    answer = await api.post("/apis/apps/v1/namespaces/n/deployments", deployment())
    assert answer.status == 201
    assert answer.warnings == [f'would violate PodSecurity "restricted:latest": {RESTRICTED}']
    template = deployment()["spec"]["template"]
    job = {
        "metadata": {"name": "j"},
        "spec": {"jobTemplate": {"spec": {"template": template}}, "schedule": "* * * * *"},
    }
    job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    answer = await api.post("/apis/batch/v1/namespaces/n/cronjobs", job)
    assert answer.status == 201
    assert answer.warnings == [f'would violate PodSecurity "restricted:latest": {RESTRICTED}']


@served
async def test_an_update_of_a_pod_is_checked_only_if_it_changes_an_image(api):
    await api.made(NS, namespace())
    made = await api.made(f"{NS}/n/pods", pod(hostPID=True))
    labels = {f"{PREFIX}enforce": "baseline"}
    assert (await api.patch(f"{NS}/n", {"metadata": {"labels": labels}})).status == 200
    made["metadata"]["labels"] = {"a": "b"}
    answer = await api.put(f"{NS}/n/pods/p", made)
    assert (answer.status, answer.warnings) == (200, [])
    changed = answer.json
    changed["spec"]["containers"][0]["image"] = "other"
    answer = await api.put(f"{NS}/n/pods/p", changed)
    assert answer.status == 403


@served
async def test_ephemeral_containers_are_checked(api):
    await api.made(NS, namespace(enforce="baseline"))
    made = await api.made(f"{NS}/n/pods", pod())
    debugger = {"name": "d", "image": "i", "securityContext": {"privileged": True}}
    made["spec"]["ephemeralContainers"] = [debugger]
    answer = await api.put(f"{NS}/n/pods/p/ephemeralcontainers", made)
    why = 'violates PodSecurity "baseline:latest": privileged (container "d" must not set securityContext.privileged=true)'
    assert answer.error == (403, "Forbidden", f'pods "p" is forbidden: {why}')


@served
async def test_labels_of_namespaces_must_be_levels_and_versions(api):
    answer = await api.post(NS, namespace(enforce="strict", audit_version="1.2"))
    assert answer.status == 422
    assert answer.message == (
        f'Namespace "n" is invalid: [metadata.labels[{PREFIX}enforce]: Invalid value: "strict": must be one of '
        f'privileged, baseline, restricted, metadata.labels[{PREFIX}audit-version]: Invalid value: "1.2": must be '
        '"latest" or "v1.x"]'
    )
    await api.made(NS, namespace())
    answer = await api.patch(f"{NS}/n", {"metadata": {"labels": {f"{PREFIX}warn": "x"}}})
    assert answer.status == 422


@served
async def test_a_namespace_that_gets_a_stricter_level_is_answered_with_warnings_about_its_pods(api):
    await api.made(NS, namespace())
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    for name in ("b", "a", "c"):
        await api.made(f"{NS}/n/pods", pod(name, hostPID=True, metadata={"ownerReferences": [owner]}))
    await api.made(f"{NS}/n/pods", pod("d", hostNetwork=True))
    await api.made(f"{NS}/n/pods", pod("e", hostNetwork=True))
    await api.made(f"{NS}/n/pods", pod("f", hostPID=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}]))
    await api.made(f"{NS}/n/pods", pod("g"))
    answer = await api.patch(f"{NS}/n", {"metadata": {"labels": {f"{PREFIX}enforce": "baseline"}}})
    assert answer.status == 200
    assert answer.warnings == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 4 other pods): host namespaces",
        "f: host namespaces, hostPath volumes",
    ]
    relaxed = await api.patch(f"{NS}/n", {"metadata": {"labels": {f"{PREFIX}enforce": "privileged"}}})
    assert relaxed.warnings == []


def test_only_so_many_pods_of_a_namespace_are_checked(monkeypatch):
    monkeypatch.setattr(existingpods, "MAX_PODS", 2)

    async def main():
        async with serving() as api:
            owner = {"apiVersion": "v1", "kind": "Node", "name": "r", "uid": "u", "controller": True}
            for name in ("a", "b"):
                await api.made(PODS, pod(name, metadata={"ownerReferences": [owner]}))
            await api.made(PODS, pod("c", hostPID=True))
            existing = ExistingPods(api.catalog.store("pods"), (), ManualClock())
            # Pods of the same controller are checked last.
            assert await existing.warnings("default", LevelVersion(BASELINE)) == [
                "new PodSecurity enforce level only checked against the first 2 of 3 existing pods",
                'existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"',
                "c: host namespaces",
            ]

    run(main())


@served
async def test_pods_are_checked_for_a_second_and_not_longer(api):
    class Passing(ManualClock):
        def monotonic(self):
            self.advance(0.4)
            return super().monotonic()

    for name in "abcde":
        await api.made(PODS, pod(name, hostPID=True))
    existing = ExistingPods(api.catalog.store("pods"), (), Passing())
    warnings = await existing.warnings("default", LevelVersion(BASELINE))
    assert warnings[0] == "new PodSecurity enforce level only checked against the first 3 of 5 existing pods"
    assert warnings[2] == "a (and 2 other pods): host namespaces"


def write_of(api, operation, resource="pods"):
    """A write to the namespace `n`."""
    found = api.catalog.find("", "v1", resource)
    return Write(operation, found, lookup=api.catalog, now=api.clock.now(), namespace="n", name="p")


@served
async def test_decisions_are_recorded_in_audit_annotations_and_metrics(api):
    plugin = dict(api.services.admission._validating)["PodSecurity"]
    await api.made(NS, namespace(enforce="baseline", enforce_version="v1.20", audit="restricted"))
    write = write_of(api, CREATE)
    wanted = pod()
    await plugin.validate(write, wanted, None)
    assert write.audit_annotations == {
        f"{PREFIX}enforce-policy": "baseline:v1.20",
        f"{PREFIX}audit-violations": f'would violate PodSecurity "restricted:latest": {RESTRICTED}',
    }
    write = write_of(api, UPDATE, "podtemplates")
    await plugin.validate(write, {"metadata": {}, "template": wanted}, None)
    assert f"{PREFIX}enforce-policy" not in write.audit_annotations
    await api.made(PODS, pod("q"))
    text = (await api.get("/metrics")).text
    for labels in (
        (
            'decision="allow",mode="enforce",policy_level="baseline",policy_version="v1.20",request_operation="create",'
            'resource="pod",subresource=""'
        ),
        (
            'decision="deny",mode="audit",policy_level="restricted",policy_version="latest",request_operation="update",'
            'resource="controller",subresource=""'
        ),
        (
            'decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="create",'
            'resource="pod",subresource=""'
        ),
    ):
        assert f"pod_security_evaluations_total{{{labels}}} 1.0" in text


def test_defaults_and_exemptions_are_configured(tmp_path):
    options = configured(
        tmp_path,
        """
defaults: {enforce: baseline, warn: restricted, warn-version: v1.20}
exemptions: {usernames: [trusted], namespaces: [system], runtimeClasses: [sandbox]}
""",
    )

    async def main():
        async with serving(admission_options=options) as api:
            await api.made("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "sandbox"}, "handler": "h"})
            answer = await api.post(PODS, pod(hostPID=True))
            assert answer.status == 403
            trusted = api.user("trusted", "system:masters")
            answer = await api.request("POST", PODS, pod("q", hostPID=True), transport=trusted)
            assert (answer.status, answer.warnings) == (201, [])
            answer = await api.post(PODS, pod("r", hostPID=True, runtimeClassName="sandbox"))
            assert (answer.status, answer.warnings) == (201, [])
            answer = await api.post(NS, namespace("system", enforce="restricted", audit="baseline"))
            ignored = "enforce=restricted:latest, audit=baseline:latest"
            assert answer.warnings == [
                f'namespace "system" is exempt from Pod Security, and the policy ({ignored}) will be ignored'
            ]
            assert (await api.post(f"{NS}/system/pods", pod(hostPID=True))).status == 201
            answer = await api.patch(f"{NS}/system", {"metadata": {"labels": {f"{PREFIX}enforce": "baseline"}}})
            assert answer.warnings == []
            text = (await api.get("/metrics")).text
            exempt = 'request_operation="create",resource="pod",subresource=""'
            assert f"pod_security_exemptions_total{{{exempt}}} 3.0" in text

    run(main())


def test_mistakes_in_the_configuration_are_reported_in_their_place(tmp_path):
    options = configured(tmp_path, "defaults: {enforce: strict}\nexemptions: {namespaces: [a, a]}\n")

    async def main():
        with pytest.raises(ConfigFileError) as caught:
            async with serving(admission_options=options):
                pass
        assert str(caught.value).splitlines() == [
            (
                f'{options.config_file}:8: plugins[0].configuration.defaults.enforce: Invalid value: "strict": must be one '
                "of privileged, baseline, restricted"
            ),
            f'{options.config_file}:9: plugins[0].configuration.exemptions.namespaces[1]: Duplicate value: "a"',
        ]

    run(main())


def test_names_in_a_configuration_are_validated():
    obj = {
        "exemptions": {"usernames": [""], "namespaces": ["A"], "runtimeClasses": ["-"]},
        "defaults": {"warn-version": "1"},
    }
    assert [error.field for error in configuration_errors(obj)] == [
        "defaults.warn-version",
        "exemptions.namespaces[0]",
        "exemptions.runtimeClasses[0]",
        "exemptions.usernames[0]",
    ]
    assert PodSecurityConfiguration().defaults.is_privileged
