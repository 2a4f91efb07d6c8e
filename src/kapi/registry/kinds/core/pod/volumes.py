"""Rules for the volumes of a pod: one source each, and what that source cannot do without.

Also the rules for paths inside volumes, shared with mounts and profiles. Claim templates inside volumes and
stateful sets are validated in `claims`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.go.text import quote
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.claims import check_claim_template
from kapi.registry.kinds.core.pod.environment import VOLUME_FIELDS, check_field_reference, check_resource_reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MODE_DETAIL = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_MODE = 0o777
_MIN_TOKEN_SECONDS = 10 * 60
_MAX_TOKEN_SECONDS = 2**32
_DRIVER_NAME_BYTES = 63
_INITIATOR_LENGTH = 64
_is_iqn = re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII).search
_is_eui = re.compile(r"^eui.[A-Za-z0-9]{16}$").search
_is_naa = re.compile(r"^naa.[A-Za-z0-9]{32}$").search
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")


def check_volumes(errors: Errors, path: str, volumes: list[Spec], pod_name: str, *, is_pod: bool) -> dict[str, Spec]:
    """Validate all volumes; returns those without errors by name, for the mounts that refer to them."""
    created = (
        {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume} if pod_name else set()
    )
    good: dict[str, Spec] = {}
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        before = len(errors)
        _check_source(errors, here, volume, pod_name, is_pod=is_pod)
        name = volume.get("name", "")
        if name:
            errors += fieldrules.each(f"{here}.name", name, names.dns_label(name))
        else:
            errors.append(fielderror.required(f"{here}.name"))
        if name in good:
            errors.append(fielderror.duplicate(f"{here}.name", name))
        if len(errors) == before:
            good[name] = volume
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(fielderror.invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail))
    return good


def _check_source(errors: Errors, path: str, volume: Spec, pod_name: str, *, is_pod: bool) -> None:
    found = False
    for kind, (check, crowded) in _SOURCES.items():
        source = volume.get(kind)
        if source is None:
            continue
        if found:
            errors.append(fielderror.forbidden(f"{path}.{crowded}", "may not specify more than 1 volume type"))
            continue
        found = True
        # kube-apiserver misnames this one field.
        check(errors, f"{path}.{'persistentDisk' if kind == 'gcePersistentDisk' else kind}", source)
    if not found:
        errors.append(fielderror.required(path, "must specify a volume type"))
    if "iscsi" in volume:
        _check_initiator_length(errors, path, volume)
    if is_pod and "image" in volume and not volume["image"].get("reference"):
        errors.append(fielderror.required(f"{path}.image.reference"))
    if pod_name and "ephemeral" in volume and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        for sentence in names.dns_subdomain(claim):
            detail = f"PVC name {quote(claim)}: {sentence}"
            errors.append(fielderror.invalid(f"{path}.name", volume["name"], detail))


def _check_initiator_length(errors: Errors, path: str, volume: Spec) -> None:
    portal = f"{volume.get('name', '')}:{volume['iscsi'].get('targetPortal', '')}"
    if "initiatorName" in volume["iscsi"] and len(portal) > _INITIATOR_LENGTH:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(fielderror.invalid(f"{path}.name", volume.get("name", ""), detail))


# -- paths ------------------------------------------------------------------------------------------------------------


def has_backstep(path: str) -> bool:
    """Return True if a path climbs: one of its elements is `..`."""
    return ".." in path.split("/")


def check_no_backsteps(errors: Errors, field: str, path: str) -> None:
    """A path that does not climb."""
    if has_backstep(path):
        errors.append(fielderror.invalid(field, path, "must not contain '..'"))


def check_descending_path(errors: Errors, field: str, path: str) -> None:
    """A relative path that does not climb."""
    if path.startswith("/"):
        errors.append(fielderror.invalid(field, path, "must be a relative path"))
    check_no_backsteps(errors, field, path)


def check_local_path(errors: Errors, field: str, path: str) -> None:
    """A relative path whose first element does not start with two dots, which the kubelet keeps for itself."""
    check_descending_path(errors, field, path)
    if path.startswith("..") and not path.startswith("../"):
        errors.append(fielderror.invalid(field, path, "must not start with '..'"))


# -- files made from objects ------------------------------------------------------------------------------------------


def _check_mode(errors: Errors, path: str, mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= _MAX_MODE:
        errors.append(fielderror.invalid(path, mode, _MODE_DETAIL))


def _check_items(errors: Errors, path: str, items: list[Spec]) -> None:
    for index, item in enumerate(items):
        here = f"{path}[{index}]"
        if not item.get("key"):
            errors.append(fielderror.required(f"{here}.key"))
        if not item.get("path"):
            errors.append(fielderror.required(f"{here}.path"))
        check_local_path(errors, f"{here}.path", item.get("path", ""))
        _check_mode(errors, f"{here}.mode", item.get("mode"))


def _files_of(name_field: str) -> Callable[[Errors, str, Spec], None]:
    def check(errors: Errors, path: str, source: Spec) -> None:
        if not source.get(name_field):
            errors.append(fielderror.required(f"{path}.{name_field}"))
        _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
        _check_items(errors, f"{path}.items", source.get("items", []))

    return check


def _check_downward_api(errors: Errors, path: str, source: Spec) -> None:
    _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    for item in source.get("items", ()):
        _check_downward_file(errors, path, item)


def _check_downward_file(errors: Errors, path: str, item: Spec) -> None:
    """One file; its path has no index, as in kube-apiserver."""
    if not item.get("path"):
        errors.append(fielderror.required(f"{path}.path"))
    check_local_path(errors, f"{path}.path", item.get("path", ""))
    if "fieldRef" in item:
        check_field_reference(errors, f"{path}.fieldRef", item["fieldRef"], VOLUME_FIELDS)
        if "resourceFieldRef" in item:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(fielderror.invalid(path, "resource", detail))
    elif "resourceFieldRef" in item:
        check_resource_reference(errors, f"{path}.resourceFieldRef", item["resourceFieldRef"], in_volume=True)
    else:
        errors.append(fielderror.required(path, "one of fieldRef and resourceFieldRef is required"))
    _check_mode(errors, f"{path}.mode", item.get("mode"))


def _check_projected(errors: Errors, path: str, source: Spec) -> None:
    _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    seen: set[str] = set()
    for index, projection in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in projection:
                _check_projected_object(errors, path, f"{here}.{kind}", projection[kind], seen)
        if "downwardAPI" in projection:
            for item in projection["downwardAPI"].get("items", ()):
                _check_downward_file(errors, f"{here}.downwardAPI", item)
                _claim_path(errors, path, item.get("path", ""), item.get("path", ""), seen)
        if "serviceAccountToken" in projection:
            _check_token(errors, path, f"{here}.serviceAccountToken", projection["serviceAccountToken"])
        if "clusterTrustBundle" in projection:
            _check_trust_bundle(errors, path, f"{here}.clusterTrustBundle", projection["clusterTrustBundle"], seen)
        if "podCertificate" in projection:
            _check_certificate(errors, path, f"{here}.podCertificate", projection["podCertificate"], seen)
        if len(projection) > 1:
            errors.append(fielderror.forbidden(here, "may not specify more than 1 volume type per source"))


def _claim_path(errors: Errors, volume_path: str, path: str, shown: str, seen: set[str]) -> None:
    """Note a file of a projected volume; two sources may not write the same one."""
    if not path:
        return
    if path in seen:
        errors.append(fielderror.invalid(volume_path, shown, "conflicting duplicate paths"))
    seen.add(path)


def _check_projected_object(errors: Errors, volume_path: str, path: str, source: Spec, seen: set[str]) -> None:
    name = source.get("name", "")
    if not name:
        errors.append(fielderror.required(f"{path}.name"))
    _check_items(errors, f"{path}.items", source.get("items", []))
    for item in source.get("items", ()):
        _claim_path(errors, volume_path, item.get("path", ""), name, seen)


def _check_token(errors: Errors, volume_path: str, path: str, token: Spec) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < _MIN_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(fielderror.invalid(f"{path}.expirationSeconds", seconds, detail))
    if seconds > _MAX_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(fielderror.invalid(f"{path}.expirationSeconds", seconds, detail))
    if token.get("path"):
        check_local_path(errors, f"{volume_path}.path", token["path"])
    else:
        errors.append(fielderror.required(f"{volume_path}.path"))


def _check_trust_bundle(errors: Errors, volume_path: str, path: str, bundle: Spec, seen: set[str]) -> None:
    if "name" in bundle and "signerName" in bundle:
        errors.append(fielderror.invalid(path, bundle, "only one of name and signerName may be used"))
    elif "name" in bundle:
        if not bundle["name"]:
            errors.append(fielderror.required(f"{path}.name", "must be a valid object name"))
        if "labelSelector" in bundle:
            detail = "labelSelector must be unset if name is specified"
            errors.append(fielderror.invalid(f"{path}.labelSelector", bundle["labelSelector"], detail))
    elif "signerName" not in bundle:
        errors.append(fielderror.required(path, "either name or signerName must be specified"))
    elif not bundle["signerName"]:
        errors.append(fielderror.required(f"{path}.signerName", "must be a valid signer name"))
    if not bundle.get("path"):
        errors.append(fielderror.required(f"{path}.path"))
    check_local_path(errors, f"{path}.path", bundle.get("path", ""))
    _claim_path(errors, volume_path, bundle.get("path", ""), bundle.get("path", ""), seen)


def _check_certificate(errors: Errors, volume_path: str, path: str, certificate: Spec, seen: set[str]) -> None:
    if certificate.get("keyType", "") not in _KEY_TYPES:
        errors.append(fielderror.not_supported(f"{path}.keyType", certificate.get("keyType", ""), _KEY_TYPES))
    files = [field for field in ("credentialBundlePath", "keyPath", "certificateChainPath") if certificate.get(field)]
    for field in files:
        check_local_path(errors, f"{path}.{field}", certificate[field])
        _claim_path(errors, volume_path, certificate[field], certificate[field], seen)
    if not files:
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(fielderror.required(path, detail))


# -- sources of other kinds -------------------------------------------------------------------------------------------


def _requires(*fields: str) -> Callable[[Errors, str, Spec], None]:
    def check(errors: Errors, path: str, source: Spec) -> None:
        errors.extend(fielderror.required(f"{path}.{field}") for field in fields if not source.get(field))

    return check


def _check_empty_dir(errors: Errors, path: str, source: Spec) -> None:
    if source.get("sizeLimit", "0").startswith("-"):
        errors.append(fielderror.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _check_host_path(errors: Errors, path: str, source: Spec) -> None:
    if not source.get("path"):
        errors.append(fielderror.required(f"{path}.path"))
        return
    check_no_backsteps(errors, f"{path}.path", source["path"])
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(fielderror.not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES))


def _check_git_repo(errors: Errors, path: str, source: Spec) -> None:
    if not source.get("repository"):
        errors.append(fielderror.required(f"{path}.repository"))
    check_descending_path(errors, f"{path}.directory", source.get("directory", ""))


def _disk(name_field: str) -> Callable[[Errors, str, Spec], None]:
    def check(errors: Errors, path: str, source: Spec) -> None:
        if not source.get(name_field):
            errors.append(fielderror.required(f"{path}.{name_field}"))
        partition = source.get("partition", 0)
        if not 0 <= partition <= 255:
            errors.append(fielderror.invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive"))

    return check


def _check_nfs(errors: Errors, path: str, source: Spec) -> None:
    _requires("server", "path")(errors, path, source)
    if not source.get("path", "").startswith("/"):
        errors.append(fielderror.invalid(f"{path}.path", source.get("path", ""), "must be an absolute path"))


def _check_iscsi(errors: Errors, path: str, source: Spec) -> None:
    _requires("targetPortal", "iqn")(errors, path, source)
    if source.get("iqn"):
        _check_initiator(errors, f"{path}.iqn", source["iqn"])
    lun = source.get("lun", 0)
    errors += fieldrules.each(f"{path}.lun", lun, names.in_range(lun, 0, 255))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(fielderror.required(f"{path}.secretRef"))
    if "initiatorName" in source:
        _check_initiator(errors, f"{path}.initiatorname", source["initiatorName"])


def _check_initiator(errors: Errors, path: str, value: str) -> None:
    for prefix, is_valid in (("iqn", _is_iqn), ("eui", _is_eui), ("naa", _is_naa)):
        if value.startswith(prefix):
            if not is_valid(value):
                errors.append(fielderror.invalid(path, value, "must be valid format"))
            return
    errors.append(fielderror.invalid(path, value, "must be valid format starting with iqn, eui, or naa"))


def _check_fc(errors: Errors, path: str, source: Spec) -> None:
    targets, wwids = source.get("targetWWNs"), source.get("wwids")
    if not targets and not wwids:
        detail = "must specify either targetWWNs or wwids, but not both"
        errors.append(fielderror.required(f"{path}.targetWWNs", detail))
    if targets and wwids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(fielderror.invalid(f"{path}.targetWWNs", targets, detail))
    if targets and "lun" not in source:
        errors.append(fielderror.required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets:
        errors += fieldrules.each(f"{path}.lun", source["lun"], names.in_range(source["lun"], 0, 255))


def _check_flocker(errors: Errors, path: str, source: Spec) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.append(fielderror.required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(fielderror.invalid(path, "resource", detail))
    if "/" in name:
        errors.append(fielderror.invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _check_quobyte(errors: Errors, path: str, source: Spec) -> None:
    registry, pairs = source.get("registry", ""), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.append(fielderror.required(f"{path}.registry", pairs))
    elif len(source.get("tenant", "")) >= 65:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(fielderror.required(f"{path}.tenant", detail))
    else:
        bad = [pair for pair in registry.split(",") if pair.count(":") != 1 and not pair.startswith("[")]
        errors.extend(fielderror.invalid(f"{path}.registry", registry, pairs) for _ in bad)
    if not source.get("volume"):
        errors.append(fielderror.required(f"{path}.volume"))


def _with_secret(*fields: str) -> Callable[[Errors, str, Spec], None]:
    def check(errors: Errors, path: str, source: Spec) -> None:
        _requires(*fields)(errors, path, source)
        if "secretRef" in source and not source["secretRef"].get("name"):
            errors.append(fielderror.required(f"{path}.secretRef.name"))

    return check


def _check_storage_os(errors: Errors, path: str, source: Spec) -> None:
    _with_secret("volumeName")(errors, path, source)
    for field in ("volumeName", "volumeNamespace"):
        value = source.get(field, "")
        if value:
            errors += fieldrules.each(f"{path}.{field}", value, names.dns_label(value))


def _check_flex(errors: Errors, path: str, source: Spec) -> None:
    if not source.get("driver"):
        errors.append(fielderror.required(f"{path}.driver"))
    for key in source.get("options", {}):
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(fielderror.invalid(f"{path}.options[{key}]", key, detail))


def _check_azure_disk(errors: Errors, path: str, source: Spec) -> None:
    _requires("diskName", "diskURI")(errors, path, source)
    for field, choices in (
        ("cachingMode", ("None", "ReadOnly", "ReadWrite")),
        ("kind", ("Dedicated", "Managed", "Shared")),
    ):
        if field in source and source[field] not in choices:
            errors.append(fielderror.not_supported(f"{path}.{field}", source[field], choices))
    uri, managed = source.get("diskURI", ""), source.get("kind") == "Managed"
    if managed and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        errors.append(fielderror.not_supported(f"{path}.diskURI", uri, (form,)))
    elif "kind" in source and not managed and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        errors.append(fielderror.not_supported(f"{path}.diskURI", uri, (form,)))


def _check_csi(errors: Errors, path: str, source: Spec) -> None:
    driver = source.get("driver", "")
    if not driver:
        errors.append(fielderror.required(f"{path}.driver"))
    else:
        if names.byte_length(driver) > _DRIVER_NAME_BYTES:
            errors.append(fielderror.too_long(f"{path}.driver", _DRIVER_NAME_BYTES))
        errors += fieldrules.each(f"{path}.driver", driver, names.dns_subdomain(driver.lower()))
    if "nodePublishSecretRef" in source:
        name = source["nodePublishSecretRef"].get("name", "")
        if name:
            errors += fieldrules.each(f"{path}.name", name, names.dns_subdomain(name))
        else:
            errors.append(fielderror.required(f"{path}.nodePublishSecretRef.name"))


def _check_ephemeral(errors: Errors, path: str, source: Spec) -> None:
    if "volumeClaimTemplate" in source:
        check_claim_template(errors, f"{path}.volumeClaimTemplate", source["volumeClaimTemplate"])
    else:
        errors.append(fielderror.required(f"{path}.volumeClaimTemplate"))


def _check_image(errors: Errors, path: str, source: Spec) -> None:
    errors += fieldrules.required_choice(f"{path}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)


_SOURCES: dict[str, tuple[Callable[[Errors, str, Spec], None], str]] = {
    "emptyDir": (_check_empty_dir, "emptyDir"),
    "hostPath": (_check_host_path, "hostPath"),
    "gitRepo": (_check_git_repo, "gitRepo"),
    "gcePersistentDisk": (_disk("pdName"), "gcePersistentDisk"),
    "awsElasticBlockStore": (_disk("volumeID"), "awsElasticBlockStore"),
    "secret": (_files_of("secretName"), "secret"),
    "nfs": (_check_nfs, "nfs"),
    "iscsi": (_check_iscsi, "iscsi"),
    "glusterfs": (_requires("endpoints", "path"), "glusterfs"),
    "flocker": (_check_flocker, "flocker"),
    "persistentVolumeClaim": (_requires("claimName"), "persistentVolumeClaim"),
    "rbd": (_requires("monitors", "image"), "rbd"),
    "cinder": (_with_secret("volumeID"), "cinder"),
    "cephfs": (_requires("monitors"), "cephFS"),
    "quobyte": (_check_quobyte, "quobyte"),
    "downwardAPI": (_check_downward_api, "downwarAPI"),
    "fc": (_check_fc, "fc"),
    "flexVolume": (_check_flex, "flexVolume"),
    "configMap": (_files_of("name"), "configMap"),
    "azureFile": (_requires("secretName", "shareName"), "azureFile"),
    "vsphereVolume": (_requires("volumePath"), "vsphereVolume"),
    "photonPersistentDisk": (_requires("pdID"), "photonPersistentDisk"),
    "portworxVolume": (_requires("volumeID"), "portworxVolume"),
    "azureDisk": (_check_azure_disk, "azureDisk"),
    "storageos": (_check_storage_os, "storageos"),
    "projected": (_check_projected, "projected"),
    "scaleIO": (_requires("gateway", "system", "volumeName"), "scaleIO"),
    "csi": (_check_csi, "csi"),
    "ephemeral": (_check_ephemeral, "ephemeral"),
    "image": (_check_image, "image"),
}
"""Each source's rule, and the name kube-apiserver gives it when it is one too many (two of them are misspelt there)."""
