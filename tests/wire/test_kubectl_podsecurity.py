"""Pod security in kubectl: warnings about workloads, refused Pods, and namespaces that get a stricter level."""

DETAIL = (
    'allowPrivilegeEscalation != false (container "{0}" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "{0}" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "{0}" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "{0}" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)
LEVEL = "pod-security.kubernetes.io"


def test_kubectl_shows_the_warning_about_a_workload_and_the_refusal_of_a_pod(terminal):
    terminal.output(f"kubectl label namespace {terminal.namespace} {LEVEL}/enforce=restricted")
    shown = terminal.run("kubectl create deployment web --image=nginx")
    assert f'Warning: would violate PodSecurity "restricted:latest": {DETAIL.format("nginx")}' in shown
    assert "deployment.apps/web created" in shown
    shown = terminal.run("kubectl run web --image=nginx")
    refusal = f'pods "web" is forbidden: violates PodSecurity "restricted:latest": {DETAIL.format("web")}'
    assert f"Error from server (Forbidden): {refusal}" in shown


def test_kubectl_shows_which_pods_a_stricter_level_would_refuse(terminal):
    overrides = '{"spec": {"hostPID": true}}'
    terminal.output(f"kubectl run web --image=nginx --overrides='{overrides}'")
    shown = terminal.run(f"kubectl label --dry-run=server namespace {terminal.namespace} {LEVEL}/enforce=baseline")
    violated = 'existing pods in namespace "<ns>" violate the new PodSecurity enforce level'
    assert f'Warning: {violated} "baseline:latest"' in shown
    assert "Warning: web: host namespaces" in shown
    shown = terminal.run(f"kubectl label namespace {terminal.namespace} {LEVEL}/enforce=strict")
    assert 'Invalid value: "strict": must be one of privileged, baseline, restricted' in shown
