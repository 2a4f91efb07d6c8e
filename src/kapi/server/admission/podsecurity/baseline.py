"""The checks of the baseline level: known ways to gain privileges on a node are refused.

A check returns None for a Pod that passes it. The texts are those of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.go.text import quote
from kapi.server.admission.podsecurity.pod import Violation, blamed, named, plural, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kapi.api.meta import Object
    from kapi.server.admission.podsecurity.pod import PodView

APP_ARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_ANNOTATION: Final = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES: Final = ("RuntimeDefault", "Localhost")
"""The types of seccomp and AppArmor profiles that are allowed."""

_CAPABILITIES: Final = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip
_SELINUX_TYPES_1_0: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_1_31: Final = _SELINUX_TYPES_1_0 | {"container_engine_t"}
_SYSCTLS_1_0: Final = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
})  # fmt: skip
_SYSCTLS_1_27: Final = _SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_1_29: Final = _SYSCTLS_1_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_1_32: Final = _SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def app_armor_profile(pod: PodView) -> Violation | None:
    """AppArmor profiles are those of the runtime or of the node."""
    wrong = [(name, profile.get("type", "")) for name, profile in pod.setters("appArmorProfile")]
    wrong = [(name, kind) for name, kind in wrong if kind not in PROFILES]
    values = sorted({kind for _, kind in wrong})
    setters = [blamed([name for name, _ in wrong])] if wrong else []
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APP_ARMOR_ANNOTATION) and not _is_allowed_app_armor_annotation(value)
    )
    if annotations:
        setters.append(plural("annotation", len(annotations)))
        values += annotations
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return Violation(plural("forbidden AppArmor profile", len(values)), detail)


def _is_allowed_app_armor_annotation(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def capabilities_baseline(pod: PodView) -> Violation | None:
    """Capabilities beyond those that runtimes give by default are not added."""
    wrong: list[str] = []
    added: set[str] = set()
    for container in pod.containers:
        beyond = set((container.security.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        if beyond:
            wrong.append(container.name)
            added |= beyond
    if not wrong:
        return None
    detail = f"{named('container', wrong)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def host_namespaces(pod: PodView) -> Violation | None:
    """The network, PID and IPC namespaces of the node are not shared."""
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def host_path_volumes(pod: PodView) -> Violation | None:
    """No directory of the node is mounted."""
    volumes = [one.get("name", "") for one in pod.spec.get("volumes") or () if one.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", volumes)) if volumes else None


def host_ports(pod: PodView) -> Violation | None:
    """No port of the node is used."""
    wrong: list[str] = []
    used: set[str] = set()
    for container in pod.containers:
        ports = {str(port["hostPort"]) for port in container.fields.get("ports") or () if port.get("hostPort")}
        if ports:
            wrong.append(container.name)
            used |= ports
    if not wrong:
        return None
    verb = "uses" if len(wrong) == 1 else "use"
    detail = f"{named('container', wrong)} {verb} {plural('hostPort', len(used))} {', '.join(sorted(used))}"
    return Violation("hostPort", detail)


def host_probes_and_lifecycle(pod: PodView) -> Violation | None:
    """Probes and lifecycle handlers name no host."""
    wrong: set[str] = set()
    hosts: set[str] = set()
    for container in pod.containers:
        found = set(_hosts(container.fields))
        if found:
            wrong.add(container.name)
            hosts |= found
    if not wrong:
        return None
    verb = "uses" if len(wrong) == 1 else "use"
    what = plural("probe or lifecycle host", len(hosts))
    detail = f"{named('container', sorted(wrong))} {verb} {what} {quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def _hosts(container: Object) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = (container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe"))
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(action) or {}).get("host")
            if host:
                yield host


def privileged(pod: PodView) -> Violation | None:
    """No container is privileged."""
    wrong = [one.name for one in pod.containers if one.security.get("privileged")]
    if not wrong:
        return None
    return Violation("privileged", f"{named('container', wrong)} must not set securityContext.privileged=true")


def proc_mount(pod: PodView) -> Violation | None:
    """/proc is masked."""
    wrong = [(one.name, one.security.get("procMount")) for one in pod.containers]
    wrong = [(name, mount) for name, mount in wrong if mount is not None and mount != "Default"]
    if not wrong:
        return None
    containers, mounts = [name for name, _ in wrong], sorted({str(mount) for _, mount in wrong})
    detail = f"{named('container', containers)} must not set securityContext.procMount to {quoted(mounts)}"
    return Violation("procMount", detail)


def proc_mount_1_35(pod: PodView) -> Violation | None:
    """/proc is masked, but for Pods in a user namespace."""
    return None if pod.has_user_namespace else proc_mount(pod)


def selinux_options_1_0(pod: PodView) -> Violation | None:
    """SELinux types are those of containers; user and role are not set."""
    return _selinux_options(pod, _SELINUX_TYPES_1_0)


def selinux_options_1_31(pod: PodView) -> Violation | None:
    """SELinux types are those of containers and of container engines; user and role are not set."""
    return _selinux_options(pod, _SELINUX_TYPES_1_31)


def _selinux_options(pod: PodView, allowed: Collection[str]) -> Violation | None:
    wrong: list[str] = []
    types: set[str] = set()
    fields: set[str] = set()
    for name, options in pod.setters("seLinuxOptions"):
        is_wrong_type = options.get("type", "") not in allowed
        custom = {field for field in ("user", "role") if options.get(field)}
        if is_wrong_type:
            types.add(options["type"])
        if is_wrong_type or custom:
            wrong.append(name)
            fields |= custom
    if not wrong:
        return None
    found = [f"{plural('type', len(types))} {quoted(sorted(types))}"] if types else []
    found += [f"{field} may not be set" for field in ("user", "role") if field in fields]
    detail = f"{blamed(wrong)} set forbidden securityContext.seLinuxOptions: {'; '.join(found)}"
    return Violation("seLinuxOptions", detail)


def seccomp_profile_1_0(pod: PodView) -> Violation | None:
    """The annotations that set seccomp profiles before v1.19 name those of the runtime or of the node."""
    keys = [SECCOMP_POD_ANNOTATION, *(f"{SECCOMP_CONTAINER_ANNOTATION}{one.name}" for one in pod.containers)]
    wrong = sorted(
        {
            f"{key}={quote(pod.annotations[key])}"
            for key in keys
            if key in pod.annotations and not _is_allowed_seccomp_annotation(pod.annotations[key])
        }
    )
    if not wrong:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', len(wrong))} {', '.join(wrong)}")


def _is_allowed_seccomp_annotation(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def seccomp_profile_1_19(pod: PodView) -> Violation | None:
    """Seccomp profiles, where they are set, are those of the runtime or of the node."""
    wrong = [(name, profile.get("type", "")) for name, profile in pod.setters("seccompProfile")]
    wrong = [(name, kind) for name, kind in wrong if kind not in PROFILES]
    if not wrong:
        return None
    values = quoted(sorted({kind for _, kind in wrong}))
    setters = blamed([name for name, _ in wrong])
    return Violation("seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {values}")


def sysctls_1_0(pod: PodView) -> Violation | None:
    """Only sysctls that concern the Pod alone are set."""
    return _sysctls(pod, _SYSCTLS_1_0)


def sysctls_1_27(pod: PodView) -> Violation | None:
    """Only sysctls that concern the Pod alone are set, as of v1.27."""
    return _sysctls(pod, _SYSCTLS_1_27)


def sysctls_1_29(pod: PodView) -> Violation | None:
    """Only sysctls that concern the Pod alone are set, as of v1.29."""
    return _sysctls(pod, _SYSCTLS_1_29)


def sysctls_1_32(pod: PodView) -> Violation | None:
    """Only sysctls that concern the Pod alone are set, as of v1.32."""
    return _sysctls(pod, _SYSCTLS_1_32)


def _sysctls(pod: PodView, allowed: Collection[str]) -> Violation | None:
    wrong = [one.get("name", "") for one in pod.security.get("sysctls") or () if one.get("name", "") not in allowed]
    return Violation("forbidden sysctls", ", ".join(wrong)) if wrong else None


def windows_host_process(pod: PodView) -> Violation | None:
    """No container is a host process of Windows."""
    wrong = [name for name, options in pod.setters("windowsOptions") if options.get("hostProcess")]
    if not wrong:
        return None
    return Violation("hostProcess", f"{blamed(wrong)} must not set securityContext.windowsOptions.hostProcess=true")
