"""Rules for the security settings of pods and containers, and for what an operating system rules out.

Privileged containers are allowed, as kube-apiserver allows them unless told otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.volumes import check_descending_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_is_sysctl = re.compile(_SYSCTL).fullmatch
_SYSCTL_BYTES = 253
_IPC_SYSCTLS = frozenset({
    "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm",
    "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg",
})  # fmt: skip
_POD_CHOICES = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("MountOption", "Recursive")),
)
_LINUX_ONLY_POD = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_LINUX_ONLY_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_LINUX_ONLY_CONTAINER = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_MAX_PATH = 4095
_MAX_CREDENTIAL_SPEC = 64 * 1024
_DOMAIN_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_is_dns_domain = re.compile(rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*").fullmatch
_is_netbios_domain = re.compile(r"""[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}""").fullmatch
_has_bad_user_character = re.compile(r"""["/\\:;|=,+*?<>@\[\]]""").search


def each_container(spec: Spec, path: str) -> Iterator[tuple[str, Spec]]:
    """All containers of a spec with their paths: init, regular, ephemeral."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield f"{path}.{kind}[{index}]", container


# -- pods -------------------------------------------------------------------------------------------------------------


def check_pod_security(errors: Errors, path: str, spec: Spec) -> None:
    """`spec.securityContext`, with the host namespaces of the spec."""
    context = spec.get("securityContext") or {}
    for field, rule in (("fsGroup", names.group_id), ("runAsUser", names.user_id), ("runAsGroup", names.group_id)):
        if field in context:
            errors += fieldrules.each(f"{path}.{field}", context[field], rule(context[field]))
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += fieldrules.each(f"{path}.supplementalGroups[{index}]", group, names.group_id(group))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(fielderror.invalid(f"{path}.shareProcessNamespace", value=True, detail=detail))
    if "sysctls" in context:
        _check_sysctls(errors, f"{path}.sysctls", context["sysctls"], spec)
    for field, choices in _POD_CHOICES[:1]:
        _check_optional_choice(errors, f"{path}.{field}", context.get(field), choices)
    _check_profiles(errors, path, context)
    for field, choices in _POD_CHOICES[1:]:
        _check_optional_choice(errors, f"{path}.{field}", context.get(field), choices)


def _check_optional_choice(errors: Errors, path: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        errors.append(fielderror.not_supported(path, value, choices))


def _check_sysctls(errors: Errors, path: str, sysctls: list[Spec], spec: Spec) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here = f"{path}[{index}].name"
        name = sysctl.get("name", "")
        if not name:
            errors.append(fielderror.required(here))
        elif len(name) > _SYSCTL_BYTES or not _is_sysctl(name):
            detail = f"must have at most {_SYSCTL_BYTES} characters and match regex {_SYSCTL}"
            errors.append(fielderror.invalid(here, name, detail))
        elif name in seen:
            errors.append(fielderror.duplicate(here, name))
        dotted = _dotted(name)
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(fielderror.invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            errors.append(fielderror.invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)


def _dotted(name: str) -> str:
    """A sysctl in the spelling with dots; the other one swaps dots and slashes."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def check_host_users(errors: Errors, path: str, spec: Spec) -> None:
    """A pod with its own user namespace may not share the others with the host."""
    if spec.get("hostUsers", True):
        return
    # The capital letters are kube-apiserver's own.
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.append(fielderror.forbidden(f"{path}.{shown}", "when `hostUsers` is false"))
    for here, container in each_container(spec, path):
        if container.get("volumeDevices"):
            errors.append(fielderror.forbidden(f"{here}.volumeDevices", "when `hostUsers` is false"))


def check_operating_system(errors: Errors, path: str, spec: Spec) -> None:
    """`spec.os` and the settings the named system does not know."""
    system = spec["os"].get("name", "")
    if not system:
        errors.append(fielderror.required(f"{path}.os.name"))
    elif system == "linux":
        _forbid(
            errors,
            path,
            spec,
            ("windowsOptions",),
            ("windowsOptions",),
            "windows options cannot be set for a linux pod",
        )
    elif system == "windows":
        for field in _LINUX_ONLY_SPEC:
            if spec.get(field) if field in {"hostPID", "hostIPC"} else field in spec:
                errors.append(fielderror.forbidden(f"{path}.{field}", "cannot be set for a windows pod"))
        _forbid(errors, path, spec, _LINUX_ONLY_POD, _LINUX_ONLY_CONTAINER, "cannot be set for a windows pod")
    else:
        errors.append(fielderror.not_supported(f"{path}.os", system, ("linux", "windows")))


def _forbid(
    errors: Errors, path: str, spec: Spec, pod: tuple[str, ...], container: tuple[str, ...], detail: str
) -> None:
    holders = [(path, spec, pod), *((here, holder, container) for here, holder in each_container(spec, path))]
    for here, holder, fields in holders:
        context = holder.get("securityContext") or {}
        errors.extend(
            fielderror.forbidden(f"{here}.securityContext.{field}", detail) for field in fields if field in context
        )


def check_host_process(errors: Errors, path: str, spec: Spec) -> None:
    """Windows HostProcess: all containers or none, and only on the host's network."""
    of_pod = _host_process(spec)
    counts = []
    for here, container in each_container(spec, path):
        of_container = _host_process(container)
        if of_pod is not None and of_container is not None and of_pod != of_container:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            field = f"{here}.securityContext.windowsOptions.hostProcess"
            errors.append(fielderror.invalid(field, of_container, detail))
        counts.append(bool(of_container) if of_container is not None else bool(of_pod))
    if not any(counts):
        return
    if not all(counts):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(fielderror.invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(fielderror.invalid(f"{path}.hostNetwork", value=False, detail=detail))


def _host_process(holder: Spec) -> bool | None:
    value = (holder.get("securityContext") or {}).get("windowsOptions", {}).get("hostProcess")
    return value if isinstance(value, bool) else None


# -- containers -------------------------------------------------------------------------------------------------------


def check_container_security(errors: Errors, path: str, context: Spec, *, host_users: bool) -> None:
    """`securityContext` of one container."""
    for field, rule in (("runAsUser", names.user_id), ("runAsGroup", names.group_id)):
        if field in context:
            errors += fieldrules.each(f"{path}.{field}", context[field], rule(context[field]))
    mount = context.get("procMount")
    if mount is not None:
        _check_optional_choice(errors, f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            errors.append(fielderror.invalid(f"{path}.procMount", mount, detail))
    _check_seccomp(errors, f"{path}.seccompProfile", context.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        _check_no_escalation(errors, path, context)
    _check_windows_options(errors, f"{path}.windowsOptions", context.get("windowsOptions"))
    check_app_armor(errors, f"{path}.appArmorProfile", context.get("appArmorProfile"))


def _check_no_escalation(errors: Errors, path: str, context: Spec) -> None:
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(fielderror.invalid(path, context, detail))
    if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(fielderror.invalid(path, context, detail))


# -- profiles and Windows options -------------------------------------------------------------------------------------


def _check_profiles(errors: Errors, path: str, context: Spec) -> None:
    _check_seccomp(errors, f"{path}.seccompProfile", context.get("seccompProfile"))
    _check_windows_options(errors, f"{path}.windowsOptions", context.get("windowsOptions"))
    check_app_armor(errors, f"{path}.appArmorProfile", context.get("appArmorProfile"))


def _check_seccomp(errors: Errors, path: str, profile: Spec | None) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(fielderror.required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(fielderror.not_supported(f"{path}.type", kind, _PROFILES))
    if kind == "Localhost":
        if local is None:
            detail = "must be set when seccomp type is Localhost"
            errors.append(fielderror.required(f"{path}.localhostProfile", detail))
        else:
            check_descending_path(errors, f"{path}.localhostProfile", local)
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.append(fielderror.invalid(f"{path}.localhostProfile", profile, detail))


def check_app_armor(errors: Errors, path: str, profile: Spec | None) -> None:
    """`appArmorProfile` of a Pod or a container."""
    if profile is None:
        return
    kind, local, here = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind == "Localhost":
        if local is None or not local:
            errors.append(fielderror.required(here, "must be set when AppArmor type is Localhost"))
        elif local != local.strip():
            errors.append(fielderror.invalid(here, local, "must not be padded with whitespace"))
        if local and len(local) > _MAX_PATH:
            errors.append(fielderror.too_long(here, _MAX_PATH))
    elif kind in _PROFILES:
        if local is not None:
            errors.append(fielderror.invalid(here, local, "can only be set when AppArmor type is Localhost"))
    elif not kind:
        errors.append(fielderror.required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(fielderror.not_supported(f"{path}.type", kind, _PROFILES))


def _check_windows_options(errors: Errors, path: str, options: Spec | None) -> None:
    if options is None:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        errors += fieldrules.each(f"{path}.gmsaCredentialSpecName", name, names.dns_subdomain(name))
    spec = options.get("gmsaCredentialSpec")
    if spec is not None and not spec:
        detail = "gmsaCredentialSpec cannot be an empty string"
        errors.append(fielderror.invalid(f"{path}.gmsaCredentialSpec", spec, detail))
    elif spec and len(spec) > _MAX_CREDENTIAL_SPEC:
        detail = "gmsaCredentialSpec size must be under 64 KiB"
        errors.append(fielderror.invalid(f"{path}.gmsaCredentialSpec", spec, detail))
    user = options.get("runAsUserName")
    if user is not None:
        errors += fieldrules.each(f"{path}.runAsUserName", user, _user_name_sentences(user))


def _user_name_sentences(name: str) -> list[str]:
    r"""Return what is wrong with a Windows account, `DOMAIN\user` or `user`."""
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    sentences = []
    if len(domain) >= 256:
        sentences.append("runAsUserName's Domain length must be under 256 characters")
    if backslash and not _is_netbios_domain(domain) and not _is_dns_domain(domain):
        sentences.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        sentences.append("runAsUserName's User cannot be empty")
    elif len(user) > 104:
        sentences.append("runAsUserName's User length must not be longer than 104 characters")
    if user and not user.strip(". "):
        sentences.append("runAsUserName's User cannot contain only periods or spaces")
    if _has_bad_user_character(user):
        sentences.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return sentences
