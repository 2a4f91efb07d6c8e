"""Rules for the containers of a pod: regular, init and ephemeral ones.

Names, images, ports, environment, mounts and restart policy are here; probes and hooks in `probes`,
resources in `resources`, security settings in `security`. Every function appends to `errors`, in the
order kube-apiserver reports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.environment import check_env, check_env_from
from kapi.registry.kinds.core.pod.probes import check_lifecycle, check_probes
from kapi.registry.kinds.core.pod.resources import CONTAINER, check_requirements
from kapi.registry.kinds.core.pod.security import check_container_security
from kapi.registry.kinds.core.pod.volumes import check_descending_path, has_backstep

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

Container = dict[str, Any]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_RULE_OPERATORS = ("In", "NotIn")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_NOT_FOR_EPHEMERAL = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules",
    "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip
_NOT_FOR_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255


class PodFacts(NamedTuple):
    """The facts about a pod that the rules of its containers depend on."""

    volumes: dict[str, dict[str, Any]]
    """The volumes that passed their own rules, by name."""
    claims: frozenset[str]
    """Names in `spec.resourceClaims`."""
    restart_policy: str
    grace_period: int | None
    host_users: bool


def is_sidecar(container: Container) -> bool:
    """A sidecar: an init container that keeps running with the regular ones."""
    return container.get("restartPolicy") == "Always"


# -- the three lists --------------------------------------------------------------------------------------------------


def check_containers(errors: Errors, path: str, containers: list[Container], facts: PodFacts) -> None:
    """The regular containers; there must be one at least."""
    if not containers:
        errors.append(fielderror.required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        _check_common(errors, here, container, facts)
        name = container.get("name", "")
        if name in seen:
            errors.append(fielderror.duplicate(f"{here}.name", name))
        seen.add(name)
        check_lifecycle(errors, f"{here}.lifecycle", container.get("lifecycle"), facts.grace_period)
        check_probes(errors, here, container, facts.grace_period)
        _check_restart(errors, here, container)
    _check_host_ports(errors, path, enumerate(containers))


def check_init_containers(
    errors: Errors, path: str, containers: list[Container], regular: list[Container], facts: PodFacts
) -> None:
    """The containers that run before the others; those with restartPolicy Always stay and may have probes."""
    seen = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        _check_common(errors, here, container, facts)
        _check_restart(errors, here, container)
        name = container.get("name", "")
        if name in seen:
            errors.append(fielderror.duplicate(f"{here}.name", name))
        elif name:
            seen.add(name)
        # They run one by one, so host ports collide only within one; kube-apiserver shows each as the first.
        _check_host_ports(errors, path, [(0, container)])
        if is_sidecar(container):
            check_lifecycle(errors, f"{here}.lifecycle", container.get("lifecycle"), facts.grace_period)
            check_probes(errors, here, container, facts.grace_period)
            continue
        errors.extend(
            fielderror.forbidden(f"{here}.{field}", "may not be set for init containers without restartPolicy=Always")
            for field in _NOT_FOR_INIT
            if field in container
        )
        for position, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                errors.append(
                    fielderror.invalid(
                        f"{here}.resizePolicy[{position}].restartPolicy",
                        "RestartContainer",
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    )
                )


def check_ephemeral_containers(
    errors: Errors, path: str, containers: list[Container], others: list[Container], facts: PodFacts
) -> None:
    """Containers added to a running pod for debugging: no ports, probes, hooks or resources."""
    other_names = {container.get("name", "") for container in others}
    seen = set(other_names)
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        _check_common(errors, here, container, facts)
        check_image_whitespace(errors, here, container)
        name = container.get("name", "")
        if name in seen:
            errors.append(fielderror.duplicate(f"{here}.name", name))
        seen.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in other_names:
            errors.append(fielderror.not_found(f"{here}.targetContainerName", target))
        errors.extend(
            fielderror.forbidden(f"{here}.{field}", "cannot be set for an Ephemeral Container")
            for field in _NOT_FOR_EPHEMERAL
            if container.get(field)
        )
        for position, mount in enumerate(container.get("volumeMounts", ())):
            errors.extend(
                fielderror.forbidden(
                    f"{here}.volumeMounts[{position}].{field}", "cannot be set for an Ephemeral Container"
                )
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            )


def check_image_whitespace(errors: Errors, path: str, container: Container) -> None:
    """Pods, unlike templates, may not have blanks around an image."""
    image = container.get("image", "")
    if image != image.strip():
        errors.append(fielderror.invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


# -- one container ----------------------------------------------------------------------------------------------------


def _check_common(errors: Errors, path: str, container: Container, facts: PodFacts) -> None:
    errors += fieldrules.required_dns_label(f"{path}.name", container.get("name", ""))
    if not container.get("image"):
        errors.append(fielderror.required(f"{path}.image"))
    errors += fieldrules.required_choice(
        f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy", ""), _MESSAGE_POLICIES
    )
    if "ports" in container:
        _check_ports(errors, f"{path}.ports", container["ports"])
    if "env" in container:
        check_env(errors, f"{path}.env", container["env"])
    if "envFrom" in container:
        check_env_from(errors, f"{path}.envFrom", container["envFrom"])
    if "volumeMounts" in container:
        _check_mounts(errors, f"{path}.volumeMounts", container, facts.volumes)
    if "volumeDevices" in container:
        _check_devices(errors, f"{path}.volumeDevices", container, facts.volumes)
    errors += fieldrules.required_choice(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), PULL_POLICIES)
    if container.get("resources"):
        check_requirements(errors, f"{path}.resources", container["resources"], CONTAINER, facts.claims)
    if "resizePolicy" in container:
        _check_resize_policy(errors, f"{path}.resizePolicy", container["resizePolicy"], facts.restart_policy)
    if "securityContext" in container:
        check_container_security(
            errors, f"{path}.securityContext", container["securityContext"], host_users=facts.host_users
        )


def _check_ports(errors: Errors, path: str, ports: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            sentences = names.port_name(name)
            if sentences:
                errors += fieldrules.each(f"{here}.name", name, sentences)
            elif name in seen:
                errors.append(fielderror.duplicate(f"{here}.name", name))
            seen.add(name)
        number, host_port = port.get("containerPort", 0), port.get("hostPort", 0)
        if number:
            errors += fieldrules.each(f"{here}.containerPort", number, names.port_number(number))
        else:
            errors.append(fielderror.required(f"{here}.containerPort"))
        if host_port:
            errors += fieldrules.each(f"{here}.hostPort", host_port, names.port_number(host_port))
        errors += fieldrules.required_choice(f"{here}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _check_host_ports(errors: Errors, path: str, containers: Any) -> None:
    taken: set[str] = set()
    for index, container in containers:
        for position, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            claim = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if claim in taken:
                errors.append(fielderror.duplicate(f"{path}[{index}].ports[{position}].hostPort", claim))
            taken.add(claim)


def _check_mounts(errors: Errors, path: str, container: Container, volumes: dict[str, dict[str, Any]]) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
    device_paths = set(devices.values())
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        here = f"{path}[{index}]"
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(fielderror.required(f"{here}.name"))
        if name not in volumes:
            errors.append(fielderror.not_found(f"{here}.name", name))
        if not mount_path:
            errors.append(fielderror.required(f"{here}.mountPath"))
        if mount_path in seen:
            errors.append(fielderror.invalid(f"{here}.mountPath", mount_path, "must be unique"))
        seen.add(mount_path)
        if name in devices:
            errors.append(fielderror.invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
        if mount_path in device_paths:
            errors.append(
                fielderror.invalid(f"{here}.mountPath", mount_path, "must not already exist as a path in volumeDevices")
            )
        _check_mount_options(errors, path, here, mount, container)


def _check_mount_options(errors: Errors, path: str, here: str, mount: dict[str, Any], container: Container) -> None:
    """Sub-paths and propagation. kube-apiserver names some of these fields without the index of the mount."""
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if sub_path:
        check_descending_path(errors, f"{path}.subPath", sub_path)
    if expression:
        if sub_path:
            errors.append(
                fielderror.invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
            )
        check_descending_path(errors, f"{path}.subPathExpr", expression)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            errors.append(fielderror.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
            errors.append(
                fielderror.forbidden(
                    f"{path}.mountPropagation",
                    "Bidirectional mount propagation is available only to privileged containers",
                )
            )
    _check_recursive_read_only(errors, f"{path}.recursiveReadOnly", mount)


def _check_recursive_read_only(errors: Errors, path: str, mount: dict[str, Any]) -> None:
    mode = mount.get("recursiveReadOnly", "Disabled")
    if mode not in _RECURSIVE_READ_ONLY:
        errors.append(fielderror.not_supported(path, mode, _RECURSIVE_READ_ONLY))
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(fielderror.forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            errors.append(
                fielderror.forbidden(path, "may only be specified when mountPropagation is None or not specified")
            )


def _check_devices(errors: Errors, path: str, container: Container, volumes: dict[str, dict[str, Any]]) -> None:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    mount_paths = set(mounts.values())
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, device_path = device.get("name", ""), device.get("devicePath", "")
        name_path, path_path = f"{path}[{index}].name", f"{path}[{index}].devicePath"
        volume = volumes.get(name)
        if not name:
            errors.append(fielderror.required(name_path))
        if name in seen_names:
            errors.append(fielderror.invalid(name_path, name, "must be unique"))
        if volume is None:
            errors.append(fielderror.not_found(name_path, name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(fielderror.invalid(name_path, name, detail))
        if not device_path:
            errors.append(fielderror.required(path_path))
        if device_path in seen_paths:
            errors.append(fielderror.invalid(path_path, device_path, "must be unique"))
        if has_backstep(device_path):
            errors.append(fielderror.invalid(path_path, device_path, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(device_path)
        if name in mounts:
            errors.append(fielderror.invalid(name_path, name, "must not already exist in volumeMounts"))
        if device_path in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(fielderror.invalid(path_path, device_path, detail))
        if name:
            seen_names.add(name)


def _check_resize_policy(errors: Errors, path: str, policies: list[dict[str, Any]], pod_restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(fielderror.duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        errors += fieldrules.required_choice(path, resource, ("cpu", "memory"))
        errors += fieldrules.required_choice(path, restart, ("NotRequired", "RestartContainer"))
        if pod_restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(fielderror.invalid(path, restart, detail))


def _check_restart(errors: Errors, path: str, container: Container) -> None:
    """A container's own restart policy and the rules that refine it."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None:
        if rules:
            errors.append(
                fielderror.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
            )
        else:
            return
    elif policy not in _RESTART_POLICIES:
        errors.append(fielderror.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _MAX_RESTART_RULES:
        errors.append(fielderror.too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RESTART_RULES))
    for index, rule in enumerate(rules):
        _check_restart_rule(errors, f"{path}.restartPolicyRules[{index}]", rule)


def _check_restart_rule(errors: Errors, path: str, rule: dict[str, Any]) -> None:
    if rule.get("action", "") not in _RULE_ACTIONS:
        errors.append(fielderror.not_supported(f"{path}.action", rule.get("action", ""), _RULE_ACTIONS))
    codes = rule.get("exitCodes")
    if codes is None:
        errors.append(fielderror.required(f"{path}.exitCodes", "must be specified"))
        return
    if codes.get("operator", "") not in _RULE_OPERATORS:
        errors.append(
            fielderror.not_supported(f"{path}.exitCodes.operator", codes.get("operator", ""), _RULE_OPERATORS)
        )
    if len(codes.get("values") or ()) > _MAX_EXIT_CODES:
        errors.append(fielderror.too_many(f"{path}.exitCodes.values", len(codes["values"]), _MAX_EXIT_CODES))
