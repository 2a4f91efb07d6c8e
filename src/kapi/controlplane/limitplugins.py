"""The admission plug-ins about limits, accounts, priorities and storage, made of the parts of a server.

EventRateLimit runs only where it is asked for, and is imported then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.server.admission.limitranger import LimitRanger
from kapi.server.admission.priority import Priority
from kapi.server.admission.resourcequota import configuration as quotas
from kapi.server.admission.resourcequota.plugin import ResourceQuota
from kapi.server.admission.serviceaccount import ServiceAccount
from kapi.server.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kapi.server.configfile import ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.controlplane.admission import Parts
    from kapi.server.admission.chain import Plugin
    from kapi.server.configfile import Shape


def _configuration(
    name: str, parts: Parts, kinds: Mapping[tuple[str, str], Shape], errors: Callable[[Object], list[FieldError]]
) -> Object | None:
    """Return the configuration of a plug-in, validated, if there is one."""
    given = parts.configurations.get(name)
    if given is None:
        return None
    file, field, obj = given.read(kinds)
    prefix = f"{field}." if field else ""
    file.refuse(error._replace(field=f"{prefix}{error.field}") for error in errors(obj))
    return obj


def _resource_quota(parts: Parts) -> Plugin:
    obj = _configuration("ResourceQuota", parts, quotas.KINDS, quotas.configuration_errors)
    return ResourceQuota(parts.catalog, parts.clock, parts.forget, quotas.limited_resources(obj))


def _event_rate_limit(parts: Parts) -> Plugin:
    from kapi.server.admission import eventratelimit

    obj = _configuration("EventRateLimit", parts, eventratelimit.KINDS, eventratelimit.configuration_errors)
    if obj is None:
        raise ConfigFileError("EventRateLimit: limits: Invalid value: null: must not be empty")
    return eventratelimit.EventRateLimit(obj, parts.clock)


LIMIT_PLUGINS: Final[Mapping[str, Callable[[Parts], Plugin]]] = {
    "LimitRanger": lambda parts: LimitRanger(parts.catalog, parts.forget),
    "ServiceAccount": lambda parts: ServiceAccount(parts.catalog),
    "Priority": lambda parts: Priority(parts.catalog),
    "EventRateLimit": _event_rate_limit,
    "DefaultStorageClass": lambda parts: DefaultStorageClass(parts.catalog),
    "PersistentVolumeClaimResize": lambda parts: PersistentVolumeClaimResize(parts.catalog),
    "ResourceQuota": _resource_quota,
}
"""By name, as in `admission.PLUGINS`."""
